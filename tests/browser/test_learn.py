"""The course in pages and in the studio: it answers, it computes, and it asks nobody."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.axe import violations
from helpers.browser_page import Opened

from regard import reference
from regard.lab import run
from regard.learn import LESSONS, lesson
from regard.learn.course import document
from regard.view.html.lesson import lesson_page

OpenPage = Callable[..., Opened]
Visit = Callable[..., Any]


def _page(name: str, measured: dict[str, Any] | None = None) -> str:
    return lesson_page(document(lesson(name), measured or {}))


@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_opens_offline_and_is_for_everybody(name: str, open_page: OpenPage) -> None:
    opened = open_page(_page(name))
    assert opened.page.get_by_role("heading", level=1).text_content() == lesson(name).title
    assert [url for url in opened.requests if not url.startswith(("file:", "data:", "blob:"))] == []
    assert violations(opened.page) == []
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 1200


@pytest.mark.parametrize("width", [400, 1920])
def test_a_lesson_fits_its_window(open_page: OpenPage, width: int) -> None:
    for name in ("softmax", "scores", "words"):
        opened = open_page(_page(name), width=width)
        assert opened.page.evaluate("document.documentElement.scrollWidth") <= width, name


@pytest.mark.parametrize("width", [400, 1280])
def test_each_score_stands_beside_its_slider_its_share_and_its_weight(
    open_page: OpenPage, width: int
) -> None:
    page = open_page(_page("softmax"), width=width).page
    places = page.evaluate(
        "[...document.querySelector('regard-lesson').root.querySelector('.try.softmax').children]"
        ".map(each => each.getBoundingClientRect()).map(({ x, y, right, bottom }) => "
        "[x, right, (y + bottom) / 2])"
    )
    middles = [[middle for _, _, middle in places[n : n + 5]] for n in range(0, 20, 5)]
    for label, slider, score, share, weight in middles:
        assert abs(label - slider) < 6
        assert abs(score - slider) < 6
        assert abs(share - weight) < 6
    assert [row[0] for row in middles] == sorted(row[0] for row in middles)
    assert len({round(x) for x, _, _ in places[::5]}) == 1  # the names are below one another
    assert max(right for _, right, _ in places) <= width


def test_a_question_says_why_and_stays_answered(open_page: OpenPage) -> None:
    opened = open_page(_page("softmax"))
    page = opened.page
    page.get_by_role("button", name="1.5 and 1").press("Enter")
    page.get_by_text("Not so.").wait_for()
    page.get_by_text("That divides by dₖ").wait_for()
    page.get_by_role("button", name="3 and 2").click()
    page.get_by_text("Right.").wait_for()
    assert not page.get_by_text("Not so.").count()
    assert re.search(r"answers=\d+\.0", page.url)
    page.reload()
    page.get_by_text("Right.").wait_for()


def test_softmax_that_is_played_with_is_the_references(open_page: OpenPage) -> None:
    page = open_page(_page("softmax")).page
    page.get_by_role("slider", name="score 2").first.press("End")
    weights = page.locator("regard-lesson .try.softmax .share + .number").all_text_contents()
    true = reference.softmax(np.array([6.0, 10.0, 1.0, 0.0]))
    assert [float(each) for each in weights] == pytest.approx(true, abs=5e-5)
    page.get_by_role("checkbox", name="divide by √dₖ").check()
    weights = page.locator("regard-lesson .try.softmax .share + .number").all_text_contents()
    true = reference.softmax(np.array([6.0, 10.0, 1.0, 0.0]) / 2)
    assert [float(each) for each in weights] == pytest.approx(true, abs=5e-5)


def test_the_pages_attention_is_the_references(visit: Visit) -> None:
    rows = np.random.default_rng(7).normal(size=(5, 3))
    page = visit("#page=learn")
    found = page.evaluate(
        "async (rows) => (await import('/web/flow_compute.js')).attend(rows, rows, rows)",
        rows.tolist(),
    )
    assert np.abs(np.array(found) - reference.attention(rows, rows, rows).output).max() < 1e-14


def test_words_that_change_places_keep_their_outputs_until_they_have_positions(
    open_page: OpenPage,
) -> None:
    page = open_page(_page("words")).page

    def outputs() -> dict[str, str]:
        items = page.locator("regard-lesson .try.order li").all()
        return {
            each.locator(".name").text_content(): each.locator(".output").text_content()
            for each in items
        }

    before = outputs()
    page.get_by_role("button", name="Move dog to the right").press("Enter")
    assert list(outputs()) == ["bites", "dog", "man"]
    assert outputs() == before
    page.get_by_text("Each word has the output that it had").wait_for()
    assert (
        page.evaluate("document.querySelector('regard-lesson').shadowRoot.activeElement?.name")
        == "dog 1"
    )
    page.get_by_role("checkbox", name="add positions").check()
    assert outputs() != before
    page.get_by_text("the order makes a difference now").wait_for()


def test_a_dot_product_is_told_with_its_cosine(open_page: OpenPage) -> None:
    page = open_page(_page("scores")).page
    page.get_by_role("slider", name="angle of b").press("Home")
    page.get_by_role("slider", name="angle of a").press("Home")
    told = (
        "a · b = 3.00; the cosine of the angle between them, 0°, is 1.00. Lengths: a 2.00, b 1.50."
    )
    page.get_by_text(told).wait_for()
    page.get_by_role("slider", name="length of a").press("Home")
    page.get_by_text("a · b = 0.00; the cosine of the angle between them, –, is –.").wait_for()


def test_the_end_of_an_arrow_is_dragged_and_its_sliders_follow(open_page: OpenPage) -> None:
    page = open_page(_page("scores")).page
    picture = page.get_by_role("img", name="The vectors a and b as arrows")
    before = picture.get_attribute("aria-label")
    picture.scroll_into_view_if_needed()
    box = picture.bounding_box()
    middle = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    unit = box["width"] / 2 / 1.08 / 3  # a vector of length 3 ends before the edge
    held = page.locator("regard-lesson .vectors .end").nth(1).bounding_box()
    page.mouse.move(held["x"] + held["width"] / 2, held["y"] + held["height"] / 2)
    page.mouse.down()
    page.mouse.move(middle[0] - 1.3 * unit, middle[1], steps=3)
    page.mouse.up()
    assert page.get_by_role("slider", name="angle of b").input_value() == "180"
    assert page.get_by_role("slider", name="length of b").input_value() == "1.3"
    assert page.get_by_role("slider", name="angle of a").input_value() == "20"
    assert "b at (−1.30, 0.00)" in picture.get_attribute("aria-label") != before
    page.mouse.move(*middle)
    assert page.get_by_role("slider", name="length of b").input_value() == "1.3"


def test_a_word_is_dragged_to_another_place(open_page: OpenPage) -> None:
    page = open_page(_page("words")).page
    names = page.locator("regard-lesson .try.order .name")
    assert names.all_text_contents() == ["dog", "bites", "man"]
    names.nth(0).scroll_into_view_if_needed()
    places = [each.bounding_box() for each in names.all()]
    page.mouse.move(places[0]["x"] + 5, places[0]["y"] + 5)
    page.mouse.down()
    page.mouse.move(places[2]["x"] + 5, places[2]["y"] + 5, steps=3)
    page.mouse.up()
    assert names.all_text_contents() == ["bites", "man", "dog"]
    page.get_by_text("Each word has the output that it had").wait_for()


def test_what_was_measured_stands_in_the_page_behind_a_guess(open_page: OpenPage) -> None:
    measured = {"order": run("order", quick=True, shuffles=3).document()}
    page = open_page(_page("words", measured)).page
    page.get_by_role("button", name="Each word's output stays the same").click()
    page.get_by_role("heading", name="Verdict: holds here").wait_for()
    page.get_by_text("The experiment “meaning” was not measured").wait_for()


def test_a_page_tells_what_came_out_with_the_premise_broken(open_page: OpenPage) -> None:
    whole, broken = (run("order", quick=True, shuffles=3, false=each) for each in (False, True))
    both = {**whole.document(), "broken": {"verdict": broken.document()["verdict"]}}
    page = open_page(_page("words", {"order": both})).page
    page.locator("regard-lab").get_by_role("button", name="Skip").click()
    page.get_by_text("Verdict: holds here").wait_for()
    assert not page.get_by_text("Verdict: does not hold here").is_visible()
    page.locator("regard-lab .turned summary").click()
    page.get_by_text("Verdict: does not hold here").wait_for()
    assert violations(page) == []


@pytest.mark.parametrize(
    ("locale", "link", "title"),
    [("ko-KR", "배우기", "어텐션"), ("bn-BD", "শিখুন", "অ্যাটেনশন"), ("fr-FR", "Learn", "Attention")],
)
def test_the_studio_speaks_the_browsers_language_if_it_knows_it(
    visit: Visit, locale: str, link: str, title: str
) -> None:
    page = visit(locale=locale)
    page.get_by_role("link", name=link, exact=True).wait_for()
    page.get_by_role("heading", name=title).wait_for()
    language = locale[:2] if locale != "fr-FR" else "en"
    assert page.evaluate("document.documentElement.lang") == language
    assert violations(page) == []


def test_another_language_is_chosen_by_a_menu_and_kept(visit: Visit) -> None:
    page = visit("#page=lab")
    page.get_by_role("combobox", name="Language").select_option("ko")
    page.get_by_role("link", name="실험실", exact=True).wait_for()
    page.get_by_role("link", name="배우기", exact=True).click()
    page.locator(".cards a").nth(4).click()
    page.locator("regard-lesson .question button").first.click()
    page.locator("regard-lesson .why").wait_for()
    assert page.evaluate("document.documentElement.lang") == "ko"
    assert violations(page) == []
    page.get_by_role("combobox", name="언어").select_option("en")
    page.get_by_role("link", name="Learn", exact=True).wait_for()


@pytest.mark.parametrize("language", ["ko", "bn"])
@pytest.mark.parametrize("name", ["words", "softmax"])
def test_a_lesson_of_another_language_is_a_page_of_its_own(
    open_page: OpenPage, name: str, language: str
) -> None:
    found = lesson(name, language)
    opened = open_page(lesson_page(document(found, {}, language)), width=400)
    assert opened.page.get_by_role("heading", level=1).text_content() == found.title
    assert opened.page.evaluate("document.documentElement.lang") == language
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 400
    assert violations(opened.page) == []


def test_the_studio_opens_on_the_course_and_measures_in_a_lesson(visit: Visit) -> None:
    page = visit()
    page.get_by_role("link", name="2. Words become numbers").click()
    page.get_by_role("button", name="Measure now").nth(1).click()
    page.get_by_role("button", name="Skip").click(timeout=90_000)
    page.get_by_role("heading", name="Verdict: holds here").wait_for()
    assert violations(page) == []
    page.get_by_role("link", name="Query, key and value →").click()
    page.get_by_role("heading", name="Query, key and value").wait_for()
