"""A run and a trace in the frame of a notebook: cut off from all around it, and usable."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.made_runs import made_run

import regard
from regard.view.html.page import frame


class Notebook:
    """A page that holds a frame, as the output of a cell does."""

    def __init__(self, browser: Any, path: Path, html: str) -> None:
        text = f"<!doctype html><meta charset=utf-8><title>cell</title><body>{html}</body>"
        path.write_text(text, encoding="utf-8")
        self.problems: list[str] = []
        self._context = browser.new_context(viewport={"width": 900, "height": 700})
        self.page = self._context.new_page()
        self.page.on("pageerror", lambda error: self.problems.append(str(error)))
        self.page.on("console", self._heard)
        self.page.goto(path.as_uri())
        self.inside = self.page.frame_locator("iframe")

    def _heard(self, message: Any) -> None:
        if message.type in ("error", "warning"):
            self.problems.append(message.text)

    def close(self) -> None:
        self._context.close()
        assert self.problems == []


@pytest.fixture
def show(browser: Any, tmp_path: Path) -> Iterator[Any]:
    opened: list[Notebook] = []

    def shower(html: str) -> Notebook:
        opened.append(Notebook(browser, tmp_path / f"cell-{len(opened)}.html", html))
        return opened[-1]

    yield shower
    for each in opened:
        each.close()


def test_a_run_in_a_cell_goes_from_view_to_view_and_head_to_head(show: Any) -> None:
    cell = show(made_run()._repr_html_())
    inside = cell.inside
    inside.get_by_role("tab", name="Text").wait_for()
    inside.get_by_role("combobox", name="Layer").select_option("2")
    inside.get_by_role("combobox", name="Head").select_option("3")
    for name in ("Links", "All heads", "Atlas", "Text"):
        inside.get_by_role("tab", name=name).click()
        assert inside.get_by_role("tab", name=name).get_attribute("aria-selected") == "true"
        assert inside.get_by_role("combobox", name="Layer").input_value() == "2"
        assert inside.get_by_role("combobox", name="Head").input_value() == "3"


def test_a_word_of_a_run_in_a_cell_can_be_clicked(show: Any) -> None:
    inside = show(made_run()._repr_html_()).inside
    word = inside.locator("regard-text .token").nth(5)
    word.click()
    inside.locator("regard-text .token.chosen").wait_for()
    assert "chosen" in word.get_attribute("class")


def test_the_steps_of_a_trace_in_a_cell_can_be_walked_through(show: Any) -> None:
    inside = show(regard.trace("I love apple phones")._repr_html_()).inside
    inside.get_by_role("tab", name="Steps").click()
    weights = inside.locator("regard-steps").get_by_role("tab", name="Weights")
    weights.click()
    assert weights.get_attribute("aria-selected") == "true"
    weights.press("ArrowRight")
    output = inside.locator("regard-steps").get_by_role("tab", name="Head output")
    assert output.get_attribute("aria-selected") == "true"


def test_a_frame_reaches_nothing_around_it(show: Any) -> None:
    script = (
        "<script>let said; try { parent.document.title = 'taken'; said = 'open'; }"
        " catch { said = 'shut'; } document.body.append(said);</script>"
    )
    cell = show(frame(f"<!doctype html><body>{script}</body>", 80))
    cell.inside.get_by_text("shut").wait_for()
    assert cell.page.title() == "cell"
