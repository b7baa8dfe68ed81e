"""The studio in the browser: every page, against a server of its own."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.made_runs import ENGLISH, made_run

import regard
from regard.worked import example

Visit = Callable[..., Any]


def test_the_token_leaves_the_address(visit: Visit) -> None:
    page = visit()
    assert "token" not in page.url
    assert page.evaluate("document.cookie") == ""


def test_the_pages_are_reached_by_their_links_and_the_back_button(visit: Visit) -> None:
    page = visit("#page=explain")
    for name in ("See", "Runs", "Check", "Explain"):
        page.get_by_role("link", name=name, exact=True).click()
        page.wait_for_selector("h1")
        assert page.locator("nav a[aria-current]").text_content() == name
    page.go_back()
    page.locator("nav a[aria-current]", has_text="Check").wait_for()


def test_a_saved_run_is_opened_and_shows_the_weights_of_python(visit: Visit) -> None:
    page = visit("#page=runs")
    page.get_by_role("link", name="one", exact=True).click()
    page.wait_for_selector("regard-text")
    page.get_by_role("combobox", name="Layer").select_option("1")
    found = page.evaluate(
        """async () => {
            const { source } = document.querySelector("regard-text");
            return [...(await source.row(0, 1, 2, 8)).weights];
        }"""
    )
    assert found == pytest.approx(made_run().weights(1, 2)[0, 8].tolist(), abs=1e-6)


def test_sql_is_answered_as_a_table_and_its_errors_in_words(visit: Visit) -> None:
    page = visit("#page=runs")
    page.wait_for_selector("table")
    box = page.get_by_role("textbox", name="SQL")
    box.fill("select run, count(*) as heads from heads group by run order by run")
    page.get_by_role("button", name="Ask").click()
    page.wait_for_selector(".scroll table")
    names = sorted(page.locator(".scroll tbody td:first-child").all_text_contents())
    assert names == ["one", "two"]
    box.fill("selec nothing")
    box.press("Control+Enter")
    page.wait_for_selector("[role=alert]")
    assert "selec" in (page.locator("[role=alert]").text_content() or "")


def test_two_runs_are_compared_side_by_side(visit: Visit) -> None:
    page = visit("#page=runs")
    for name in ("one", "two"):
        page.get_by_role("checkbox", name=f"Choose {name}").check()
    page.get_by_role("button", name="Compare two").click()
    page.wait_for_selector(".pair regard-text")
    assert page.locator(".pair regard-text").count() == 2
    page.wait_for_selector("text=model.layers.2")


@pytest.fixture(scope="module")
def _model_is_here() -> None:
    from regard.models.fetch import fetch

    fetch("minilm")


@pytest.mark.usefixtures("_model_is_here")
def test_a_text_is_read_by_a_model_saved_and_a_head_of_it_cut(visit: Visit, tmp_path: Path) -> None:
    page = visit("#page=see")
    page.get_by_role("textbox", name="Text").fill(ENGLISH)
    page.get_by_role("button", name="Show where it looks").click()
    page.wait_for_selector("regard-text", timeout=60_000)
    assert "6 layers, 72 heads" in (page.locator("main").text_content() or "")
    page.get_by_role("combobox", name="Layer").select_option("3")
    page.get_by_role("combobox", name="Head").select_option("1")
    page.get_by_role("button", name="Run again without this head").click()
    page.wait_for_selector(".pair regard-text", timeout=60_000)
    assert "without 3.1" in (page.locator("main").text_content() or "")
    page.wait_for_selector("text=encoder.layer.3")
    page.goto(re.sub(r"#.*", "#page=runs", page.url))
    page.get_by_role("link", name=re.compile("^The animal.*…$")).click()
    page.get_by_role("textbox", name="Name of the saved run").fill("tired animal")
    page.get_by_role("button", name="Save", exact=True).click()
    page.get_by_text("Not saved yet").wait_for(state="detached")
    page.goto(re.sub(r"#.*", "#page=runs", page.url))
    page.wait_for_selector("text=tired animal")
    page.get_by_role("button", name="Delete tired animal").click()
    page.get_by_role("button", name="Delete tired animal").click()
    page.get_by_text("tired animal").wait_for(state="detached")


def _output(page: Any) -> list[list[float]]:
    return page.evaluate("document.querySelector('regard-steps').source.steps.output.array")


def test_a_sentence_is_explained_and_the_toggles_change_every_step(visit: Visit) -> None:
    page = visit("#page=explain&view=steps&numbers=random")
    page.wait_for_selector("regard-steps")
    page.get_by_role("textbox", name="A sentence of your own").fill("we like it")
    page.keyboard.press("Tab")
    page.locator("regard-steps", has_text="like").wait_for()
    usual = regard.trace("we like it")
    assert np.allclose(_output(page), usual.steps["output"].array)
    page.get_by_role("button", name="mask", exact=True).click()
    page.get_by_role("button", name="÷ √dₖ", exact=True).click()
    page.wait_for_timeout(100)
    expected = regard.trace("we like it", causal=True, scale=False)
    assert np.allclose(_output(page), expected.steps["output"].array)
    with page.expect_response("**/api/explain"):
        page.get_by_role("checkbox", name="positions").click()
    page.wait_for_timeout(100)
    expected = regard.trace("we like it", causal=True, scale=False, positions="sinusoidal")
    assert np.allclose(_output(page), expected.steps["output"].array)
    with page.expect_response("**/api/explain"):
        page.get_by_role("spinbutton", name="heads").fill("4")
        page.keyboard.press("Tab")
    page.wait_for_timeout(100)
    assert len(page.evaluate("document.querySelector('regard-steps').source.matrices.W_Q")) == 4
    assert "positions=sinusoidal" in page.url
    page.reload()
    page.wait_for_selector("regard-steps")
    page.locator("regard-steps", has_text="like").wait_for()
    assert page.get_by_role("checkbox", name="positions").is_checked()


def test_there_is_one_switch_for_the_root_and_one_for_the_mask_in_both_views(visit: Visit) -> None:
    page = visit("#page=explain&example=apple&causal=yes&scale=no&edits=X-0-1-1-0.5*W_Q-0-0-1-2")
    for view in ("Flow", "Steps"):
        page.get_by_role("tab", name=view).click()
        for name, pressed in (("÷ √dₖ", "false"), ("mask", "true")):
            switch = page.get_by_role("button", name=name, exact=True)
            switch.wait_for()
            assert switch.get_attribute("aria-pressed") == pressed
        assert page.get_by_role("checkbox").count() == 1  # positions
        assert page.get_by_role("button", name="Reset").count() == 1
    # An address of before leads to the same.
    assert "causal=yes" not in page.url
    truth = example("apple").trace(causal=True, scale=False)
    x, matrices = truth.steps["input"].array.copy(), dict(truth.matrices)
    x[1, 1], matrices["W_Q"] = 0.5, matrices["W_Q"].copy()
    matrices["W_Q"][0, 0, 1] = 2
    heads = truth.steps["head_output"].array[1:]
    projections = regard.Projections(*(matrices[f"W_{n}"] for n in "QKV"), given_heads=heads)
    expected = regard.trace(x, model=projections, causal=True, scale=False)
    assert np.allclose(_output(page), expected.steps["output"].array)


def test_a_word_of_one_s_own_sentence_is_swapped_for_any_other(visit: Visit) -> None:
    page = visit("#page=explain&view=steps&numbers=random&text=we+like+it&changes=word,1,love")
    page.locator("regard-steps", has_text="love").wait_for()
    page.wait_for_timeout(100)
    assert np.allclose(_output(page), regard.trace("we love it").steps["output"].array)
    page.get_by_role("tab", name="Flow").click()
    page.get_by_role("button", name="love").first.click()
    page.get_by_role("button", name="Swap “love”").click()
    page.keyboard.type("two words")
    page.keyboard.press("Enter")
    page.get_by_text("Write one word; “two words” has 2.").wait_for()
    page.get_by_role("button", name="Undo").click()
    page.get_by_text("Write one word").wait_for(state="detached")


def test_a_pass_is_changed_presented_and_shared_by_its_address(visit: Visit) -> None:
    page = visit("#page=explain")
    page.get_by_role("button", name="mask").click()
    page.get_by_role("button", name="Reset").wait_for()
    page.get_by_role("button", name="Present").click()
    page.get_by_role("button", name="Leave").wait_for()
    assert "changes=causal%2Con" in page.url
    assert "present=yes" in page.url
    page.reload()
    page.get_by_role("button", name="Leave").wait_for()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Reset").click()
    page.get_by_role("button", name="Reset").wait_for(state="detached")
    assert "changes" not in page.url
    assert "present" not in page.url


def test_an_edited_number_changes_every_later_step(visit: Visit) -> None:
    page = visit("#page=explain&view=steps&numbers=random&text=we+like+it&step=input&cell=1,2")
    page.wait_for_selector("regard-steps .grid")
    page.wait_for_function("document.querySelector('regard-steps').source.matrices?.W_O")
    before = _output(page)
    x = page.evaluate("document.querySelector('regard-steps').source.steps.input.array")
    matrices = page.evaluate("document.querySelector('regard-steps').source.matrices")
    grid = page.locator("regard-steps .results .grid").first
    grid.focus()
    page.keyboard.press("Enter")
    page.keyboard.press("Control+a")
    page.keyboard.type("2.5")
    page.keyboard.press("Enter")
    page.wait_for_timeout(200)
    x[1][2] = 2.5
    model = regard.Projections(*(np.array(matrices[f"W_{name}"]) for name in "QKVO"))
    expected = regard.trace(x, model=model, tokens=["we", "like", "it"])
    assert np.allclose(_output(page), expected.steps["output"].array)
    assert not np.allclose(_output(page), before)


def test_what_is_wrong_is_said_where_it_happened(visit: Visit) -> None:
    page = visit("#page=explain&view=steps&numbers=random&text=we+like+it")
    page.wait_for_selector("regard-steps")
    page.get_by_role("spinbutton", name="heads").fill("3")
    page.keyboard.press("Tab")
    page.get_by_role("alert").wait_for()
    assert "3 heads do not divide a width of 4" in page.get_by_role("alert").text_content()
    page.goto(re.sub(r"#.*", "#page=run&run=0123456789abcdef", page.url))
    page.get_by_text("not here any more").wait_for()


@pytest.mark.usefixtures("_model_is_here")
def test_reading_can_be_cancelled(visit: Visit) -> None:
    page = visit("#page=see")
    page.get_by_role("textbox", name="Text").fill("word " * 480)
    page.get_by_role("button", name="Show where it looks").click()
    page.get_by_role("button", name="Cancel").click()
    page.get_by_text("Cancelled.").wait_for(timeout=60_000)
    assert page.get_by_role("button", name="Show where it looks").is_enabled()


def test_the_keyboard_alone_goes_from_a_run_to_its_views(visit: Visit) -> None:
    page = visit("#page=runs")
    page.wait_for_selector("table")
    page.get_by_role("link", name="one", exact=True).focus()
    page.keyboard.press("Enter")
    page.wait_for_selector("regard-text")
    page.get_by_role("tab", name="Text").focus()
    for name in ("Links", "All heads", "Atlas", "Movement"):
        page.keyboard.press("ArrowRight")
        page.wait_for_selector(f"[role=tab][aria-selected=true]:has-text('{name}')")
    assert page.evaluate("document.activeElement.textContent") == "Movement"
    page.get_by_role("tab", name="Movement").press("ArrowRight")
    page.wait_for_selector("regard-text")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_studio_follows_the_system_and_can_be_read(visit: Visit, scheme: str) -> None:
    page = visit("#page=runs", color_scheme=scheme)
    page.wait_for_selector("table")
    ink, paper = page.evaluate(
        "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
    )
    light = [sum(map(int, re.findall(r"\d+", colour)[:3])) for colour in (ink, paper)]
    assert (light[0] > light[1]) is (scheme == "dark")
    assert abs(light[0] - light[1]) > 450


def test_a_wide_table_and_a_narrow_window_do_not_overflow(visit: Visit) -> None:
    page = visit("#page=runs")
    page.set_viewport_size({"width": 400, "height": 800})
    page.wait_for_selector("table")
    assert page.evaluate("document.documentElement.scrollWidth") <= 400
    page.get_by_role("link", name="See").click()
    page.get_by_role("combobox", name="Model").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 400


@pytest.mark.parametrize("view", ["model", "atlas"])
def test_two_runs_side_by_side_fit_the_window(visit: Visit, view: str) -> None:
    page = visit("#page=runs")
    for name in ("one", "two"):
        page.get_by_role("checkbox", name=f"Choose {name}").check()
    page.get_by_role("button", name="Compare two").click()
    page.wait_for_selector(".pair regard-text")
    page.evaluate("view => { location.hash += `&view=${view}`; }", view)
    page.wait_for_selector(f".pair regard-{view}")
    for width in (400, 820, 1920):
        page.set_viewport_size({"width": width, "height": 900})
        page.wait_for_timeout(200)
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        wide = page.locator(".pair section").evaluate_all(
            "(all) => all.map((each) => [each.scrollWidth, each.clientWidth])"
        )
        assert all(inside <= outside for inside, outside in wide), (width, wide)
