"""Frames: a run or a trace in the output of a notebook's cell."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest
from helpers.made_runs import SENTENCES, long_text, made_run

import regard
from regard.run import Run
from regard.view.html.page import frame
from regard.view.html.run import run_page
from regard.view.html.trace import trace_page


class Read(HTMLParser):
    """What a browser makes of the output: its elements, and their attributes."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.found: list[tuple[str, dict[str, str | None]]] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found.append((tag, dict(attrs)))


@pytest.mark.parametrize("text", SENTENCES.values(), ids=SENTENCES)
def test_a_frame_holds_the_page_and_nothing_stands_beside_it(text: str) -> None:
    run, trace = made_run(text), regard.trace(text)
    pages = {run._repr_html_(): run_page(run), trace._repr_html_() or "": trace_page(trace)}
    for shown, page in pages.items():
        ((tag, attributes),) = Read(shown).found
        assert tag == "iframe"
        assert attributes["srcdoc"] == page
        assert attributes["sandbox"] == "allow-scripts"


def test_a_frame_is_as_high_as_it_is_asked_to_be() -> None:
    ((_, attributes),) = Read(frame("<p>'one' & \"two\"</p>", 331)).found
    assert attributes["height"] == "331"
    assert attributes["srcdoc"] == "<p>'one' & \"two\"</p>"


def test_an_empty_run_is_a_sentence() -> None:
    shown = Run(model="<script>alert(1)</script>")._repr_html_()
    assert Read(shown).found == [("p", {})]
    assert shown.endswith("no attention was seen.</p>")


def test_a_large_run_in_a_cell_is_kept_small() -> None:
    run = made_run(long_text(1031), layers=7, heads=11, width=5)
    shown = run._repr_html_()
    assert len(shown) < 4_800_000
    assert '"whole":false' in str(Read(shown).found[0][1]["srcdoc"])


def test_html_writes_the_page_and_keeps_its_limit(tmp_path: Path) -> None:
    run = made_run(long_text(1031), layers=5, heads=7, width=5)
    run.html(tmp_path / "large.html")
    run.html(tmp_path / "small.html", limit=3_000_000)
    large, small = ((tmp_path / f"{name}.html").stat().st_size for name in ("large", "small"))
    assert large > 3_000_000 > small
    assert (tmp_path / "large.html").read_text(encoding="utf-8") == run_page(run)
    for limit in (0, True, "1", 1.5):
        with pytest.raises(ValueError, match=r"^html\(\): limit must be a whole number"):
            run.html(tmp_path / "none.html", limit=limit)  # pyright: ignore[reportArgumentType]
    assert not (tmp_path / "none.html").exists()


def test_html_of_a_run_without_layers_is_refused_in_words(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^html\(\): the run must have seen a layer"):
        Run().html(tmp_path / "none.html")
