"""Experiments in pages and in the studio: a guess first, and the same figures as in Python."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from helpers.axe import violations
from helpers.browser_page import Opened

from regard.lab import run
from regard.view.html.lab import lab_page
from regard.view.plots import Axis, short

OpenPage = Callable[..., Opened]
Visit = Callable[..., Any]
THEMES = pytest.mark.parametrize("theme", ["light", "dark"])


@pytest.fixture(scope="module")
def documents() -> dict[str, Any]:
    return {
        "order": run("order", quick=True, shuffles=3).document(),
        "scaling": run("scaling", quick=True, queries=64, steps=5, models=3).document(),
    }


def _read(page: Any, script: str) -> Any:
    return page.evaluate(f"(root => {script})(document.querySelector('regard-lab').shadowRoot)")


def test_nothing_is_told_before_the_guess(open_page: OpenPage, documents: dict[str, Any]) -> None:
    page = open_page(lab_page(documents["order"])).page
    page.get_by_role("button", name="The outputs become others").wait_for()
    assert not page.get_by_text("Verdict").count()
    assert not page.locator("regard-lab svg").count()
    page.get_by_role("button", name="The outputs become others").press("Enter")
    page.get_by_role("heading", name="Verdict: holds here").wait_for()
    page.get_by_text("It came out otherwise.").wait_for()
    assert "guess=other" in page.url
    page.go_back()
    page.get_by_role("button", name="Skip").wait_for()


def _number(text: str) -> float:
    """A number as a table has it: −1,234 or 2.5·10⁻⁷."""
    plain = str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹−", "-0123456789-", ",")
    return float(text.replace("·10", "e").translate(plain))


def test_a_page_has_the_figures_of_the_document(
    open_page: OpenPage, documents: dict[str, Any]
) -> None:
    document = documents["scaling"]
    page = open_page(lab_page(document), address="#guess=-").page
    page.get_by_role("heading", name="Verdict").wait_for()
    said = _read(page, "[...root.querySelectorAll('.verdict li')].map(each => each.textContent)")
    expected = [f["said"] for f in document["verdict"]["findings"]] + document["verdict"]["notes"]
    assert [text[1:] for text in said] == expected
    rows = _read(
        page,
        "[...root.querySelectorAll('table tbody tr')].map(row => "
        "[...row.cells].map(cell => cell.textContent))",
    )
    for row, true in zip(rows, document["tables"][0]["rows"], strict=True):
        assert [_number(cell) for cell in row] == pytest.approx(true, rel=6e-4)
    assert any("·10⁻" in cell for row in rows for cell in row)  # of gradients that die
    titles = _read(page, "[...root.querySelectorAll('figcaption')].map(each => each.textContent)")
    assert titles == [chart["title"] for chart in document["charts"]]
    points = _read(
        page, "[...root.querySelectorAll('figure')].map(f => f.querySelectorAll('circle').length)"
    )
    assert points == [
        sum(len(series["y"]) for series in chart["series"]) for chart in document["charts"]
    ]


def test_axes_are_marked_as_in_the_terminal(open_page: OpenPage, documents: dict[str, Any]) -> None:
    chart = documents["scaling"]["charts"][0]
    page = open_page(lab_page(documents["scaling"]), address="#guess=-").page
    page.get_by_role("heading", name="Verdict").wait_for()
    texts = _read(
        page,
        "[...root.querySelector('figure svg').querySelectorAll('text')].map(t => t.textContent)",
    )
    values = [y for series in chart["series"] for y in series["y"]]
    marks = Axis.of(values, log=True, zero=True).marks(5) + Axis.of(
        chart["series"][0]["x"], log=True
    ).marks(7)
    assert texts == [chart["y"], *map(short, marks), chart["x"]]


def test_shares_that_are_all_0_have_an_axis_from_0_to_1_as_in_the_terminal(visit: Visit) -> None:
    page = visit("#page=lab")
    found = page.evaluate(
        "async () => (await import('/web/chart.js')).Axis.of([0, null, 0], false, true)"
    )
    true = Axis.of([0.0, None, 0.0], zero=True)
    assert (found["low"], found["high"]) == (true.low, true.high) == (0, 1)


@pytest.mark.parametrize("language", ["en", "ko", "bn"])
def test_names_of_bars_are_written_out(open_page: OpenPage, language: str) -> None:
    found = run("order", quick=True, shuffles=3).document(language)
    page = open_page(lab_page(found), address="#guess=-").page
    page.get_by_role("heading", level=2).first.wait_for()
    shown = _read(
        page,
        "[...root.querySelectorAll('figure svg text:has(title)')].map(text => "
        "[text.lastChild.textContent, text.getBBox().x])",
    )
    assert [name for name, _ in shown] == found["charts"][0]["names"]
    assert all(x >= 0 for _, x in shown)


@pytest.mark.parametrize("width", [400, 1280])
def test_a_page_is_no_wider_than_the_window(
    open_page: OpenPage, documents: dict[str, Any], width: int
) -> None:
    for document in documents.values():
        opened = open_page(lab_page(document), address="#guess=-", width=width)
        opened.page.get_by_role("heading", name="Verdict").wait_for()
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width


@THEMES
def test_a_page_is_for_everybody(
    open_page: OpenPage, documents: dict[str, Any], theme: str
) -> None:
    for name, document in documents.items():
        page = open_page(lab_page(document), address=f"#theme={theme}").page
        page.get_by_role("button", name="Skip").wait_for()
        assert violations(page) == [], name
        page.get_by_role("button", name="Skip").click()
        page.get_by_role("heading", name="Verdict").wait_for()
        for each in page.locator("summary").all():
            each.click()
        assert violations(page) == [], name


def test_the_studio_measures_and_shows_whole_and_broken_side_by_side(visit: Visit) -> None:
    page = visit("#page=lab")
    page.get_by_role("link", name="Does attention know the order").click()
    page.get_by_role("radio", name="Each word's output stays").check()
    assert violations(page) == []
    page.get_by_text("Settings").click()
    page.get_by_role("slider", name="shuffles").press("Home")
    page.get_by_role("button", name="Measure quickly").click()
    page.get_by_role("heading", name="Verdict: holds here").wait_for(timeout=60_000)
    page.get_by_text("So it came out.").wait_for()
    assert page.get_by_text("Without positions, 2 shuffles").count() == 1
    page.get_by_role("button", name="Make it false").click()
    page.get_by_role("heading", name="Verdict: does not hold here").wait_for(timeout=60_000)
    assert page.locator("regard-lab").count() == 2
    assert violations(page) == []


def test_a_run_says_how_far_it_is_and_can_be_cancelled(visit: Visit) -> None:
    page = visit("#page=lab&experiment=learning")
    buttons = ["Measure quickly", "Measure in full", "Make it false"]
    page.get_by_role("button", name="Measure in full").click()  # a quarter of a minute or more
    page.locator("progress[value]").wait_for(timeout=60_000)
    shares: set[float] = set()
    while len(shares) < 3:
        shares.add(page.locator("progress").evaluate("bar => bar.value / bar.max"))
        page.wait_for_timeout(50)
    assert 0 <= min(shares) < max(shares) < 1
    assert not any(page.get_by_role("button", name=name).is_enabled() for name in buttons)
    page.get_by_text("Where do W").last.wait_for()
    page.get_by_role("button", name="Cancel").press("Enter")
    page.get_by_text("Cancelled.").wait_for(timeout=60_000)
    assert not page.locator("progress").count()
    assert not page.locator("regard-lab").count()
    assert all(page.get_by_role("button", name=name).is_enabled() for name in buttons)
    assert violations(page) == []


def test_vectors_of_the_plane_are_settings_that_can_be_dragged(visit: Visit) -> None:
    page = visit("#page=lab&experiment=geometry")
    page.get_by_text("Settings").click()
    page.get_by_role("slider", name="q, to the right").press("End")
    picture = page.get_by_role("img", name="The vectors q and k as arrows")
    assert "q ends at (10.00, 1.00), k at (1.00, 2.00)" in picture.get_attribute("aria-label")
    picture.scroll_into_view_if_needed()
    box = picture.bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    unit = box["width"] / 2 / 1.08 / 10
    page.mouse.move(middle[0] + unit, middle[1] - 2 * unit)
    page.mouse.down()
    page.mouse.move(middle[0] - 3 * unit, middle[1] + 7 * unit, steps=3)
    page.mouse.up()
    sliders = [page.get_by_role("slider", name=f"k, {way}") for way in ("to the right", "upwards")]
    found = [float(each.get_attribute("aria-valuetext")) for each in sliders]
    assert found == pytest.approx([-3, -7], abs=0.11)
    told = f"q · k = {10 * found[0] + found[1]:.2f}".replace("-", "−")
    page.get_by_text(told).wait_for()
    page.get_by_role("button", name="Measure quickly").click()
    page.get_by_role("heading", name="Verdict: holds here").wait_for(timeout=60_000)
    page.get_by_text("The two vectors, turned and stretched").click()
    row = page.locator("regard-lab tbody tr").first.locator("td").all_text_contents()
    assert float(row[4].replace("−", "-")) == pytest.approx(10 * found[0] + found[1])


def test_words_in_an_order_of_ones_own_are_measured(visit: Visit) -> None:
    page = visit("#page=lab&experiment=order")
    page.get_by_text("Settings").click()
    page.get_by_role("textbox", name="sentence").fill("cats see dogs")
    names = page.locator(".words .name")
    assert names.all_text_contents() == ["cats", "see", "dogs"]
    page.get_by_role("button", name="Move dogs to the left").press("Enter")
    assert names.all_text_contents() == ["cats", "dogs", "see"]
    assert violations(page) == []
    page.get_by_role("button", name="Measure quickly").click()
    page.get_by_text("Your order, “cats dogs see”").wait_for(timeout=60_000)
    page.get_by_role("textbox", name="sentence").fill("cats see birds")
    assert names.all_text_contents() == ["cats", "see", "birds"]
    page.get_by_role("button", name="Measure quickly").click()
    page.get_by_text("10 shuffles of 3 words").wait_for(timeout=60_000)
    page.get_by_text("Your order").wait_for(state="detached", timeout=60_000)


def test_choices_and_models_are_told_in_words(visit: Visit) -> None:
    page = visit("#page=lab&experiment=reference")
    page.get_by_text("It reads with MiniLM, SmolLM2;").wait_for()
    page.get_by_text("Settings").click()
    answers = page.get_by_role("combobox", name="which noun is said to be right")
    assert answers.locator("option").all_text_contents() == [
        "the one that is meant",
        "one drawn by lot",
    ]
    assert answers.input_value() == "right"


def _swipe(page: Any, start: tuple[float, float], end: tuple[float, float]) -> None:
    """A finger that goes from one place to another."""
    session = page.context.new_cdp_session(page)
    ways = [start, ((start[0] + end[0]) / 2, (start[1] + end[1]) / 2), end]
    for kind, points in (("touchStart", ways[:1]), *(("touchMove", [each]) for each in ways[1:])):
        places = [{"x": x, "y": y} for x, y in points]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": places})
    session.send("Input.dispatchTouchEvent", {"type": "touchEnd", "touchPoints": []})


def test_a_finger_drags_arrows_and_words(visit: Visit) -> None:
    page = visit("#page=lab&experiment=geometry", has_touch=True)
    picture = page.get_by_role("img", name="The vectors q and k as arrows")
    picture.scroll_into_view_if_needed()
    box = picture.bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    unit = box["width"] / 2 / 1.08 / 10
    before = page.evaluate("scrollY")
    _swipe(page, (middle[0] + 2 * unit, middle[1] - unit), (middle[0], middle[1] - 5 * unit))
    page.get_by_role("img", name="q ends at (0.00, 5.00), k at (1.00, 2.00)").wait_for()
    assert page.evaluate("scrollY") == before
    page.goto(page.url.replace("geometry", "order"))
    names = page.locator(".words .name")
    names.nth(0).wait_for()
    places = [names.nth(n).bounding_box() for n in (1, 4)]
    _swipe(page, *((each["x"] + 7, each["y"] + 7) for each in places))
    page.locator(".words li:nth-child(5)", has_text="dog").wait_for()
    assert names.all_text_contents()[:5] == ["The", "bites", "the", "man", "dog"]
