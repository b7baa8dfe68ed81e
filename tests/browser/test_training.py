"""The page of a training, and the studio that follows one: the numbers of the log, for all."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.axe import violations
from helpers.browser_page import Opened
from helpers.foreign_words import LISTEN, authored, foreign, said
from helpers.small_run import small, trained

from regard._followed import read_picture
from regard.train import history

OpenPage = Callable[..., Opened]
Visit = Callable[..., Any]
THEMES = pytest.mark.parametrize("theme", ["light", "dark"])
STEPS = [0, 3, 9]  # of its pictures


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was trained to its end, in the folder that the studio is started with."""
    folder = tmp_path_factory.mktemp("trainings") / "copied"
    trained(folder, small(training={"steps": 9, "evaluate": 3}, watch={"every": 2, "pictures": 4}))
    return folder


@pytest.fixture(scope="module")
def own_runs(run: Path) -> list[Path]:
    return [run.parent]


@pytest.fixture
def html(run: Path, tmp_path: Path) -> str:
    history(run).html(tmp_path / "training.html")
    return (tmp_path / "training.html").read_text(encoding="utf-8")


def logged(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


def weight(folder: Path, step: int, layer: str, head: int, row: int, column: int) -> str:
    """A weight of a picture, in the figures of a page."""
    picture = read_picture(folder / "pictures" / f"step-{step:09}.safetensors")
    return f"{float(picture[layer][head, row, column]):.4f}"


def tables(page: Any) -> list[list[list[float]]]:
    """The numbers of the tables below the curves."""
    page.get_by_text("The numbers of these curves").click()
    page.locator("regard-training table").nth(1).wait_for()
    found = page.evaluate(
        "[...document.querySelector('regard-training').shadowRoot.querySelectorAll('table')].map("
        "table => [...table.tBodies[0].rows].map(row => [...row.cells].map("
        "cell => cell.textContent.replaceAll(',', '').replace('−', '-'))))"
    )
    return [[[float(cell) for cell in row] for row in table] for table in found]


def test_the_curves_have_the_numbers_of_the_log(open_page: OpenPage, html: str, run: Path) -> None:
    page = open_page(html).page
    page.get_by_text("The training has ended after 9 of 9 steps.").wait_for()
    lines = logged(run)
    learned, aside = tables(page)
    steps = [[x["step"], x["loss"], x["learning_rate"]] for x in lines if "loss" in x]
    scores = [[x["step"], *x["validation"].values()] for x in lines if "validation" in x]
    for found, expected in ((learned, steps), (aside, scores)):
        assert len(found) == len(expected)
        for row, true in zip(found, expected, strict=True):
            assert row == pytest.approx(true, rel=6e-4)
    # Each look at each head is a point, named by its layer and head.
    titles = page.evaluate(
        "[...document.querySelector('regard-training').shadowRoot.querySelectorAll('circle title')]"
        ".map(each => each.textContent)"
    )
    looks = [line for line in lines if "entropy" in line]
    told = [title for title in titles if title.startswith("2.1: ")]
    expected = [look["entropy"]["decoder.layers.0.cross"][1] for look in looks]
    assert [float(title.rpartition(" ")[2]) for title in told] == pytest.approx(expected, rel=6e-4)


def test_a_curve_is_told_to_who_cannot_see_it(open_page: OpenPage, html: str, run: Path) -> None:
    page = open_page(html).page
    steps = [line for line in logged(run) if "loss" in line]
    label = page.locator("regard-training .charts svg").first.get_attribute("aria-label")
    first, last = (f"{steps[n]['loss']:.4g}" for n in (0, -1))
    assert f"training: {first} at step 1, {last} at step 9" in label
    assert "validation (kept aside):" in label


def test_the_loss_may_be_drawn_by_its_logarithm(open_page: OpenPage, html: str) -> None:
    opened = open_page(html)
    button = opened.page.get_by_role("button", name="Loss on a log scale")
    line = opened.page.locator("regard-training .charts polyline").first
    before = line.get_attribute("points")
    button.press("Enter")
    opened.settle()
    assert opened.state()["scale"] == "log"
    assert line.get_attribute("points") != before
    assert button.get_attribute("aria-pressed") == "true"


def test_a_cell_tells_which_token_looks_at_which_and_how_much(
    open_page: OpenPage, html: str, run: Path
) -> None:
    opened = open_page(html, address="#show=2.1")
    page = opened.page
    layer = next(x for x in history(run).pictured.layers if x.name == "decoder.layers.0.cross")
    stage = page.get_by_role("application", name="Head 2.1 of decoder.layers.0.cross")
    stage.wait_for()

    def told(step: int, row: int, column: int) -> str:
        query, key = layer.queries[row], layer.keys[column]
        number = weight(run, step, layer.name, 1, row, column)
        words = f"“{query}” (#{row}) → “{key}” (#{column}): {number}"
        return f"Head 2.1, at step {step}: {words}"

    page.get_by_role("slider", name="Step").focus()
    for _ in range(3):  # over both scales of colours
        page.keyboard.press("Tab")
    page.get_by_text(told(9, 0, 0), exact=True).wait_for()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    page.get_by_text(told(9, 2, 1), exact=True).wait_for()
    page.keyboard.press("Home")
    page.get_by_text(told(9, 2, 0), exact=True).wait_for()
    for _ in range(20):
        page.keyboard.press("ArrowUp")  # no farther than the first row
    page.get_by_text(told(9, 0, 0), exact=True).wait_for()
    page.keyboard.press("Escape")
    page.get_by_text("Point at a map").wait_for()
    box = page.locator("regard-training .map .whole").bounding_box()
    rows, columns = len(layer.queries), len(layer.keys)
    page.mouse.move(box["x"] + box["width"] * 1.5 / columns, box["y"] + box["height"] * 3.5 / rows)
    page.get_by_text(told(9, 3, 1), exact=True).wait_for()


def test_every_map_has_its_numbers_in_words(open_page: OpenPage, html: str, run: Path) -> None:
    page = open_page(html, address="#show=0.0&at=3").page
    picture = read_picture(run / "pictures" / "step-000000003.safetensors")
    weights = picture["encoder.layers.0.attention"][0].astype(float)
    stage = page.get_by_role("application", name="Head 0.0 of encoder.layers.0.attention")
    label = stage.get_attribute("aria-label")
    assert "at step 3. " in label
    assert f"The largest weight of a row: {weights.max(1).mean():.4f} on average" in label
    assert f"{weights.max():.4f}. Arrows" in label


def test_the_slider_goes_through_the_pictures_with_the_keyboard(
    open_page: OpenPage, html: str
) -> None:
    opened = open_page(html)
    slider = opened.page.get_by_role("slider", name="Step")
    assert slider.get_attribute("aria-valuetext") == "at step 9"
    slider.press("Home")
    for step in STEPS:
        name = re.compile(rf"at step {step}\.")
        opened.page.get_by_role("application", name=name).first.wait_for()
        assert slider.get_attribute("aria-valuetext") == f"at step {step}"
        slider.press("ArrowRight")


def test_every_head_is_in_the_menu(open_page: OpenPage, html: str) -> None:
    opened = open_page(html)
    menu = opened.page.get_by_role("combobox", name="Heads")
    values = menu.evaluate("menu => [...menu.options].map(({ value }) => value)")
    assert values == ["", *(x for n in range(3) for x in (f"{n}", f"{n}.0", f"{n}.1"))]
    for value, shown in (("1", ["1.0", "1.1"]), ("2.0", ["2.0"])):
        menu.select_option(value)
        opened.settle()
        titles = opened.page.locator("regard-training .map figcaption").all_text_contents()
        assert [title.split()[1] for title in titles] == shown
        assert opened.state()["show"] == value


def test_play_shows_attention_form_from_the_first_picture_to_the_last(
    open_page: OpenPage, html: str
) -> None:
    opened = open_page(html, script=_SEEN)
    page = opened.page
    page.get_by_role("button", name="Play").press("Enter")
    page.get_by_role("button", name="Pause").wait_for()
    page.get_by_role("button", name="Play").wait_for(timeout=20_000)
    seen = page.evaluate("window.seen")
    assert seen == ["0", "3", None]  # the newest needs no saying


_SEEN = """
window.seen = [];
addEventListener("regard-change", (event) => { window.seen.push(event.detail.at); });
"""


def test_nothing_plays_for_who_wants_less_motion(open_page: OpenPage, html: str) -> None:
    opened = open_page(html, reduced_motion=True)
    opened.page.get_by_role("slider", name="Step").wait_for()
    assert opened.page.get_by_role("button", name="Play").count() == 0


@pytest.mark.parametrize("width", [400, 1280])
def test_a_page_is_no_wider_than_the_window(open_page: OpenPage, html: str, width: int) -> None:
    opened = open_page(html, width=width)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width


@THEMES
def test_a_page_is_for_everybody(open_page: OpenPage, html: str, theme: str) -> None:
    page = open_page(html, address=f"#theme={theme}").page
    page.get_by_text("The numbers of these curves").click()
    page.locator("regard-training table").nth(1).wait_for()
    assert violations(page) == []


@pytest.mark.parametrize("language", ["ko", "bn"])
def test_a_page_in_another_language_says_nothing_in_english(
    open_page: OpenPage, run: Path, tmp_path: Path, language: str
) -> None:
    history(run).html(tmp_path / "other.html", language)
    opened = open_page((tmp_path / "other.html").read_text(encoding="utf-8"), script=LISTEN)
    opened.page.locator("regard-training summary").click()
    opened.settle()
    names = {"copied", "copy", "start", *history(run).pictured.example["source"]}
    assert foreign(said(opened.page), authored(language), names) == {}


def test_the_studio_follows_a_training_while_it_goes_on(
    visit: Visit, run: Path, own_runs: list[Path]
) -> None:
    folder = Path(shutil.copytree(run, own_runs[0] / "going"))
    log, last = folder / "log.jsonl", folder / "pictures" / "step-000000009.safetensors"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(line for line in lines if json.loads(line)["step"] <= 4))
    shutil.move(last, folder / "later")
    handle = os.open(folder, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)  # as training does
    try:
        page = visit("#page=training")
        page.get_by_role("row", name="going copy 4 of 9 goes on").wait_for()
        assert violations(page) == []
        page.get_by_role("link", name="going").click()
        page.get_by_text("The training goes on: 4 of 9 steps are done.").wait_for(timeout=60_000)
        page.get_by_text("at step 3", exact=True).wait_for()
        log.write_text("".join(lines))
        (folder / "later").rename(last)
        page.get_by_text("The training goes on: 9 of 9 steps are done.").wait_for(timeout=60_000)
        page.get_by_text("at step 9", exact=True).wait_for(timeout=60_000)
    finally:
        os.close(handle)
    page.get_by_text("The training has ended after 9 of 9 steps.").wait_for(timeout=60_000)
    learned, _ = tables(page)
    found = history(folder).losses
    expected = list(zip(found.steps, found.values, strict=True))
    assert [tuple(row[:2]) for row in learned] == [
        pytest.approx(each, rel=6e-4) for each in expected
    ]
    stage = page.get_by_role("application", name="Head 2.1 of decoder.layers.0.cross")
    stage.focus()
    page.keyboard.press("ArrowRight")
    number = weight(folder, 9, "decoder.layers.0.cross", 1, 0, 1)
    page.get_by_text(re.compile(rf"Head 2\.1, at step 9:.*: {number}")).wait_for()
    assert violations(page) == []


def test_the_studio_thins_a_long_log_as_python_does(
    visit: Visit, run: Path, own_runs: list[Path]
) -> None:
    folder = Path(shutil.copytree(run, own_runs[0] / "long"))
    lines = [
        {"step": n + 1, "loss": 1 / (n + 1), "learning_rate": 1e-3 * (n % 7)} for n in range(2345)
    ]
    (folder / "log.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    page = visit("#page=training")
    page.get_by_role("link", name="long").click()
    page.get_by_text("Each point of loss and learning rate is the mean of 3 steps.").wait_for(
        timeout=60_000
    )
    found = page.evaluate("document.querySelector('regard-training').source.document")
    expected = history(folder)
    for name, curve in (("losses", expected.losses), ("learning_rates", expected.learning_rates)):
        assert found[name]["each"] == curve.each == 3
        assert found[name]["steps"] == pytest.approx(curve.steps)
        assert found[name]["values"] == pytest.approx(curve.values, rel=1e-12)


def test_the_studio_says_where_there_is_no_such_training(visit: Visit) -> None:
    page = visit("#page=training&training=0123456789abcdef")
    page.get_by_text("This training is not here any more.").wait_for()


def test_where_a_loss_was_no_number_is_said_by_page_and_studio(
    open_page: OpenPage, visit: Visit, run: Path, own_runs: list[Path], tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(run, own_runs[0] / "lost"))
    where = "encoder.layers.0 is the first layer whose output is not finite"
    with (folder / "log.jsonl").open("a") as log:
        log.write(json.dumps({"step": 10, "diverged": where}) + "\n")
    sentence = "The training ended at step 10 of 9: its loss, or the gradient of it, was no number"
    history(folder).html(tmp_path / "lost.html")
    page = open_page((tmp_path / "lost.html").read_text(encoding="utf-8")).page
    page.get_by_text(sentence).wait_for()
    page.get_by_text(f"{where}.").wait_for()
    page = visit("#page=training")
    page.get_by_role("row", name="lost copy 10 of 9 ended: its loss was no number").wait_for()
    page.get_by_role("link", name="lost").click()
    page.get_by_text(sentence).wait_for(timeout=60_000)
    page.get_by_text(f"{where}.").wait_for()
    learned, _ = tables(page)
    assert len(learned) == 9
