"""The studio as somebody uses it who has never seen it: nothing is lost, hidden or left unsaid."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from helpers.made_runs import SENTENCES, made_run

from regard.view.html.run import run_page
from regard.view.html.trace import trace_page
from regard.worked import example

Visit = Callable[..., Any]
OpenPage = Callable[..., Any]
TWENTY = " ".join(["one two three four five six seven eight nine ten"] * 2)
ELEVEN = "The animal did not cross the street because it was tired"


@pytest.fixture(scope="module")
def _model_is_here() -> None:
    from regard.models.fetch import fetch

    fetch("minilm")


_NUMBER = "document.querySelector('regard-steps').source.steps.input.array[1][2]"


def _shape(page: Any, step: str) -> list[int]:
    script = f"document.querySelector('regard-steps').source.steps.{step}.array"
    return page.evaluate(f"[{script}.length, {script}[0].length]")


def test_an_edit_keeps_given_heads_and_can_be_taken_back(visit: Visit) -> None:
    page = visit("#page=explain&view=steps&step=input&cell=1,2")
    page.wait_for_selector("regard-steps .grid")
    page.locator("regard-steps .results .grid").first.focus()
    for key in ("Enter", "Control+a", "7", "Enter"):
        page.keyboard.press(key)
    reset = page.get_by_role("button", name="Reset")
    reset.wait_for()
    assert _shape(page, "output") == [4, 4]
    assert page.evaluate(_NUMBER) == 7
    page.get_by_role("button", name="mask", exact=True).click()
    page.wait_for_timeout(200)
    assert page.evaluate(_NUMBER) == 7
    reset.click()
    reset.wait_for(state="hidden")
    assert page.evaluate(_NUMBER) == 0.1
    assert "changes" not in page.url


def test_the_menu_of_examples_names_what_is_shown(visit: Visit) -> None:
    page = visit("#page=explain&view=steps&numbers=random")
    page.wait_for_selector("regard-steps .grid")
    menu = page.get_by_role("combobox", name="or an example")
    chosen = "select => select.selectedOptions[0].textContent"
    assert menu.evaluate(chosen) == "I love apple phones"
    page.get_by_role("textbox", name="A sentence of your own").fill("we like it")
    page.keyboard.press("Enter")
    page.locator("regard-steps", has_text="like").wait_for()
    assert menu.evaluate(chosen) == "–"
    menu.select_option("cat")
    page.locator("regard-steps", has_text="sat").wait_for()
    assert page.get_by_role("textbox", name="A sentence of your own").input_value() == ""


def _seen(page: Any, selector: str) -> int:
    """How many of these can be seen whole: in the window, in their box, not behind the answer."""
    return page.evaluate(
        """(selector) => {
            const root = document.querySelector("regard-steps").shadowRoot;
            const inside = (a, b) => a.left >= b.left - 1 && a.right <= b.right + 1
                && a.top >= b.top - 1 && a.bottom <= b.bottom + 1;
            const answer = root.querySelector(".answer").getBoundingClientRect();
            const bottom = Math.min(innerHeight, answer.top);
            const window = { left: 0, top: 0, right: innerWidth, bottom };
            return [...root.querySelectorAll(selector)].filter((cell) => {
                const own = cell.getBoundingClientRect();
                const grid = cell.closest(".grid").getBoundingClientRect();
                return inside(own, window) && inside(own, grid);
            }).length;
        }""",
        selector,
    )


def test_the_weights_of_twenty_words_are_seen_at_once(visit: Visit) -> None:
    page = visit(
        f"#page=explain&view=steps&numbers=random&step=weights&text={TWENTY.replace(' ', '+')}"
    )
    page.set_viewport_size({"width": 1280, "height": 800})
    page.locator("regard-steps", has_text="ten").wait_for()
    page.wait_for_timeout(200)
    assert _seen(page, ".results .cell") >= 60


def test_eleven_words_are_not_cut_beside_empty_space(visit: Visit) -> None:
    page = visit(
        f"#page=explain&view=steps&numbers=random&step=weights&text={ELEVEN.replace(' ', '+')}"
    )
    page.set_viewport_size({"width": 1920, "height": 1080})
    page.locator("regard-steps", has_text="tired").wait_for()
    page.wait_for_timeout(200)
    assert _seen(page, ".results .cell") == 2 * 11 * 11


def test_a_telephone_shows_rows_and_the_whole_text_box(visit: Visit) -> None:
    page = visit("#page=explain&view=steps")
    page.set_viewport_size({"width": 400, "height": 800})
    page.wait_for_selector("regard-steps .grid")
    page.wait_for_timeout(200)
    assert _seen(page, ".results .cell") == 16
    box = page.get_by_role("textbox", name="A sentence of your own").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= 400
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


def test_a_run_opens_where_something_stands_out(visit: Visit) -> None:
    page = visit("#page=runs")
    page.get_by_role("link", name="one", exact=True).click()
    page.wait_for_selector("regard-text .token.chosen")
    assert re.search(r"layer=\d.*head=\d.*token=\d", page.url)
    page.locator("regard-text", has_text="It looks most at").wait_for()


def test_a_run_says_which_one_was_let_go_for_it(visit: Visit) -> None:
    page = visit("#page=runs")
    page.route(
        "**/api/runs",
        lambda route: route.fulfill(
            json=[{**each, "let_go": ["an older one"]} for each in route.fetch().json()]
        ),
    )
    page.get_by_role("link", name="one", exact=True).click()
    page.get_by_text("To make room, “an older one” was let go: it was not saved.").wait_for()


def test_why_there_is_no_movement_is_said_in_its_tab(open_page: OpenPage) -> None:
    opened = open_page(run_page(made_run(layers=1, hidden_states=False)))
    opened.page.get_by_role("tab", name="Movement").click()
    opened.page.locator("regard-shift", has_text="not part of this run").wait_for()


def test_the_check_page_shows_no_flags(visit: Visit) -> None:
    page = visit("#page=check")
    page.get_by_role("textbox", name="Worked example").fill(
        "Q = [[2, 3, 4]]\nK = [[1, 0], [0, 1]]\nS = [[6, 5]]\n[[1, 2]]\nSomething: [[1, 2], [3, 4]]"
    )
    page.get_by_role("button", name="Check it").click()
    page.wait_for_selector(".findings")
    assert "--" not in page.locator("main").text_content()


_WORDS = """() => {
    const said = [];
    const walk = (node) => {
        if (node.nodeType === 3) said.push(node.textContent);
        if (node.shadowRoot) walk(node.shadowRoot);
        for (const child of node.childNodes) if (child.localName !== "script") walk(child);
    };
    walk(document.body);
    return said.join(" ");
}"""


@pytest.mark.parametrize("step", ["query", "scaled", "concatenated", "output"])
def test_indices_are_set_below_the_line(visit: Visit, step: str) -> None:
    page = visit(f"#page=explain&view=steps&numbers=random&text=we+like+it&step={step}")
    page.locator("regard-steps", has_text="like").wait_for()
    assert re.findall(r"\w+_\w+", page.evaluate(_WORDS)) == []


def test_what_is_given_says_what_that_means(open_page: OpenPage) -> None:
    page = open_page(trace_page(example("cat").trace()), address="#view=steps&step=query").page
    tip = page.locator("regard-steps abbr", has_text="given").first.get_attribute("title")
    assert "where the example starts" in tip


def test_what_few_understand_is_explained_by_a_tip(open_page: OpenPage) -> None:
    page = open_page(run_page(made_run()), address="#view=model").page
    for term in ("entropy", "spread"):
        tip = page.locator(f"regard-model dt abbr:has-text('{term}')").get_attribute("title")
        assert len(tip) > 30, term
    assert "nats" not in page.locator("regard-model").text_content()
    page = open_page(run_page(made_run(sharpness=0.0, layers=2)), address="#layer=1").page
    page.get_by_role("combobox", name="Head").select_option("1: broad")
    page.get_by_text("broad: spreads its weight nearly evenly").wait_for()


@pytest.mark.usefixtures("_model_is_here")
def test_a_run_is_cut_saved_and_found_again(visit: Visit) -> None:
    page = visit("#page=see")
    page.get_by_role("textbox", name="Text").fill(ELEVEN)
    page.get_by_role("button", name="Show where it looks").click()
    page.wait_for_selector("regard-text .token.chosen", timeout=60_000)
    first = page.url
    assert "layer=3&head=1&token=9" in first  # “it”, which looks at “animal”
    cut = page.get_by_role("button", name="Run again without this head")
    page.get_by_role("combobox", name="Layer").select_option("3")
    page.get_by_role("combobox", name="Head").select_option("1")
    cut.click()
    page.wait_for_selector(".pair regard-text", timeout=60_000)
    page.get_by_text("In the second run head 1 of layer 3 was cut").wait_for()
    page.get_by_text("Both sides show the same here").wait_for()
    page.get_by_role("button", name=re.compile(r"layer [45], head \d+: ")).first.click()
    page.get_by_text("Here the two sides differ").wait_for()
    compared = page.url

    page.goto(first)
    page.get_by_role("textbox", name="Name of the saved run").fill("a tired animal")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_text("Not saved yet").wait_for(state="detached")
    cut.wait_for()
    assert "minilm: 6 layers" in page.locator("main").text_content()
    page.goto(compared)
    page.get_by_text("Here the two sides differ").wait_for()
    page.goto(first)
    page.get_by_role("heading", name="a tired animal").wait_for()
    cut.wait_for()
    page.goto(re.sub(r"#.*", "#page=runs", page.url))
    for _ in range(2):
        page.get_by_role("button", name="Delete a tired animal").click()


@pytest.mark.usefixtures("_model_is_here")
def test_words_that_the_model_does_not_know_are_named(visit: Visit) -> None:
    page = visit("#page=see")
    page.get_by_role("textbox", name="Text").fill(f"go {SENTENCES['Korean']}")
    page.get_by_role("button", name="Show where it looks").click()
    page.wait_for_selector("regard-text .token", timeout=60_000)
    page.get_by_text("The model does not know “").wait_for()
    assert page.locator("regard-text .token.unknown").count() > 1
