"""A pass is changed by hand: scores dragged and typed, words swapped, each taken back again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.axe import violations
from helpers.browser_page import Opened
from helpers.flow_page import apple, at, box, changed, keys, line
from helpers.traced_models import made as made_model

import regard
from regard import reference, trace
from regard.view.html.flow import flow_page
from regard.view.html.trace import trace_page
from regard.worked import example

OpenPage = Callable[..., Opened]

MAT = "The cat sat on the mat"


def told(opened: Opened) -> list[str]:
    """What is changed, as the page says it."""
    found = opened.page.locator("regard-flow .did [name^=taken]").all_text_contents()
    return [each.removesuffix(" ×") for each in found]


def shown(opened: Opened, stage: str, row: int, column: int) -> str:
    """The figure of a cell, as the page writes it."""
    opened.page.mouse.click(*at(opened, stage, row, column))
    opened.settle()
    return line(opened).split(" ")[0]


def figure(value: float) -> str:
    text = f"{value:.4f}".rstrip("0").replace("-", "−")
    return f"{text}0" if text.endswith(".") else text


def attended(scores: Any) -> tuple[Any, Any]:
    """The weights of the first head of the example, and its output, for other scores."""
    steps = example("apple").trace().steps
    weights = reference.softmax(scores / np.sqrt(2.0))
    return weights, weights @ steps["value"].array[0]


def drag(opened: Opened, stage: str, row: int, column: int, up: float) -> None:
    x, y = at(opened, stage, row, column)
    mouse = opened.page.mouse
    mouse.move(x, y)
    mouse.down()
    mouse.move(x, y - up, steps=4)


# ── scores ───────────────────────────────────────────────────────────────────────────────────────


def test_a_score_is_dragged_and_weights_and_output_follow_to_the_last_figure(
    open_page: OpenPage,
) -> None:
    opened = apple(open_page)
    scores = example("apple").trace().steps["scores"].array[0].copy()
    drag(opened, "scores", 2, 1, 50)
    opened.settle()
    bubble = opened.page.locator("regard-flow .held")
    bubble.wait_for()
    assert str(bubble.text_content()).startswith(f"apple → love: {figure(scores[2, 1])} → ")
    opened.page.mouse.up()
    opened.settle()
    assert not bubble.is_visible()
    kind, stage, head, row, column, value = opened.state()["changes"].split(",")
    assert (kind, stage, head, row, column) == ("score", "scores", "0", "2", "1")
    assert float(value) > scores[2, 1] + 0.4
    scores[2, 1] = float(value)
    weights, output = attended(scores)
    for key in range(4):
        assert shown(opened, "weights", 2, key) == figure(weights[2, key])
    for n in range(2):
        opened.page.mouse.click(*at(opened, "head_output", 2, n, columns=2))
        opened.settle()
        assert line(opened).split(" ")[0] == figure(output[2, n])
    was = example("apple").trace().steps["head_output"].array[0, 2, 1]
    where = str(opened.page.locator("regard-flow .where").text_content())
    assert where.endswith(f"before the changes: {figure(was)}")
    assert told(opened) == [f"S apple → love: {figure(float(value))}"]


def test_keys_change_a_score_step_by_step_or_write_it(open_page: OpenPage) -> None:
    opened = apple(open_page, "#step=scores&cell=1,3")
    opened.page.locator("regard-flow canvas").focus()
    first = example("apple").trace().steps["scores"].array[0, 1, 3]
    values = []
    for name in ("+", "Alt+ArrowUp", "-", "Alt+ArrowDown", "-"):
        keys(opened, name)
        values.append(float(opened.state()["changes"].split(",")[-1]))
    each = values[0] - first
    assert each > 0.05
    expected = first + each * np.array([1, 2, 1, 0, -1])
    assert values == pytest.approx(expected.tolist(), abs=0.03)  # as each has two decimals
    keys(opened, "4", ".", "5", "Enter")
    assert opened.state()["changes"] == "score,scores,0,1,3,4.5"
    scores = example("apple").trace().steps["scores"].array[0].copy()
    scores[1, 3] = 4.5
    keys(opened, "Escape", "Escape")
    opened.page.wait_for_timeout(800)  # until the eye sees all
    assert shown(opened, "weights", 1, 0) == figure(attended(scores)[0][1, 0])
    # Elsewhere plus and minus are for the eye.
    keys(opened, "+")
    assert opened.state()["changes"] == "score,scores,0,1,3,4.5"


def test_a_score_after_scaling_takes_the_place_of_one_before_it_and_a_cut_of_both(
    open_page: OpenPage,
) -> None:
    opened = apple(open_page, "#step=scores&cell=0,2&changes=score,scores,0,0,2,3")
    opened.page.locator("regard-flow canvas").focus()
    keys(opened, "PageDown", "Enter", "ArrowRight", "ArrowRight", "2", "Enter")
    assert opened.state()["changes"] == "score,scaled,0,0,2,2"
    keys(opened, "Delete")
    assert opened.state()["changes"] == "cut,attention,0,0,2"
    assert told(opened) == ["I → apple is cut"]
    keys(opened, "Enter", "1", "Enter")
    assert opened.state()["changes"] == "score,scaled,0,0,2,1"


def test_a_drag_that_is_cancelled_leaves_all_as_it_was(open_page: OpenPage) -> None:
    opened = apple(open_page)
    drag(opened, "scaled", 0, 1, 30)
    opened.settle()
    assert "changes" not in opened.state()
    opened.ask(
        """{
            const canvas = element.root.querySelector("canvas");
            canvas.dispatchEvent(new PointerEvent("pointercancel", { pointerId: 1 }));
            return true;
        }"""
    )
    opened.page.mouse.up()
    opened.settle()
    assert "changes" not in opened.state()
    expected = example("apple").trace().steps["weights"].array[0, 0, 1]
    assert shown(opened, "weights", 0, 1) == figure(expected)


# ── words ────────────────────────────────────────────────────────────────────────────────────────


def test_a_word_is_swapped_for_one_that_the_example_has_numbers_for(open_page: OpenPage) -> None:
    opened = apple(open_page)
    found = box(opened, "input")
    opened.page.mouse.dblclick(found["x"] - 20, found["y"] + found["height"] * 2.5 / 4)
    opened.settle()
    field = opened.page.get_by_role("group", name="Another word for “apple”, word 3")
    assert field.get_by_role("button").all_text_contents() == ["I", "love", "apple", "phones"]
    field.get_by_role("button", name="phones").click()
    opened.settle()
    assert opened.state()["changes"] == "word,2,phones"
    assert told(opened) == ["“phones” for “apple”"]
    change = {"kind": "word", "position": 2, "text": "phones"}
    truth = example("apple").trace().flow().changed([change])
    array = changed(opened, change)
    for name, step in truth.steps.items():
        assert np.allclose(array(name), step.array, rtol=0, atol=1e-13), name
    assert shown(opened, "weights", 2, 3) == figure(truth.steps["weights"].array[0, 2, 3])
    where = opened.page.locator("regard-flow .where").text_content()
    assert "phones → phones" in str(where)
    opened.page.get_by_text("stays as it is given").wait_for()


def test_the_keyboard_alone_swaps_the_word_that_is_followed(open_page: OpenPage) -> None:
    opened = open_page(trace_page(trace(MAT, positions="sinusoidal")), address="#token=1")
    opened.page.locator("regard-flow canvas").focus()
    keys(opened, "F2", "Tab", "Tab", "Enter")
    assert opened.state()["changes"] == "word,1,sat"
    truth = trace("The sat sat on the mat", positions="sinusoidal")
    array = changed(opened, {"kind": "word", "position": 1, "text": "sat"})
    for name, step in truth.steps.items():
        assert np.allclose(array(name), step.array, rtol=0, atol=1e-13), name
    opened.page.get_by_role("button", name="Swap “sat”").focus()
    keys(opened, "Enter", "Escape")
    assert opened.state()["changes"] == "word,1,sat"


def test_a_word_without_numbers_is_refused_in_words(open_page: OpenPage) -> None:
    opened = apple(open_page, "#changes=word,2,pear;scale,off")
    said = opened.page.locator("regard-flow .told").text_content()
    assert said == (
        "This change cannot be made: This example has no numbers for “pear”, only for "
        "I, love, apple, phones."
    )
    expected = example("apple").trace()
    assert shown(opened, "weights", 1, 1) == figure(expected.steps["weights"].array[0, 1, 1])
    opened.page.get_by_role("button", name="Reset").click()
    opened.settle()
    assert opened.page.locator("regard-flow .told").text_content() == ""
    assert "changes" not in opened.state()


def test_a_page_of_a_model_says_that_changes_need_the_studio(open_page: OpenPage) -> None:
    model, given, options = made_model("language model")
    flow = regard.flow(given, model=model.float(), layer=0, **options)
    opened = open_page(flow_page(flow), address="#token=1")
    opened.page.locator("regard-flow canvas").focus()
    keys(opened, "F2")
    said = str(opened.page.locator("regard-flow .told").text_content())
    assert said.startswith("No word can be swapped here. ")
    assert said.endswith("Changes need the studio.")
    opened.page.evaluate("location.hash = '#changes=scale,off'")
    opened.settle()
    said = opened.page.locator("regard-flow .told").text_content()
    assert said == "This page holds one pass. To change it, open the studio."


# ── what was done ────────────────────────────────────────────────────────────────────────────────


def test_every_kind_of_change_is_restored_by_its_address_and_one_by_one_taken_back(
    open_page: OpenPage,
) -> None:
    address = (
        "number,W_K,0,1,1,0.5;score,scores,0,1,3,2;score,scaled,0,0,1,1.5;"
        "cut,attention,0,2,3;head,attention,1;scale,off;causal,on;word,0,love"
    )
    opened = apple(open_page, f"#changes={address}")
    assert told(opened) == [
        "WK 2, k2: 0.5",
        "S love → phones: 2.0",
        "S′ love → love: 1.5",
        "apple → phones is cut",
        "head 2 is off",
        "÷ √dₖ off",
        "mask on",
        "“love” for “I”",
    ]
    truth = example("apple").trace().flow()
    place = {"attention": "attention", "head": 0}
    truth = truth.changed(
        [
            {"kind": "number", "stage": "W_K", "row": 1, "column": 1, "value": 0.5, **place},
            {"kind": "score", "stage": "scores", "row": 1, "column": 3, "value": 2, **place},
            {"kind": "score", "stage": "scaled", "row": 0, "column": 1, "value": 1.5, **place},
            {"kind": "cut", "row": 2, "column": 3, **place},
            {"kind": "head", **place, "head": 1},
            {"kind": "scale", "on": False},
            {"kind": "causal", "on": True},
            {"kind": "word", "position": 0, "text": "love"},
        ]
    )
    for row in range(4):
        for column in range(4):
            expected = truth.steps["weights"].array[0, row, column]
            assert shown(opened, "weights", row, column) == figure(expected)
    opened.page.locator("regard-flow .did button").nth(6).click()
    opened.settle()
    assert opened.state()["changes"] == address.replace(";causal,on", "")


def test_what_was_changed_is_taken_back_and_made_again(open_page: OpenPage) -> None:
    opened = apple(open_page, "#step=scaled&cell=1,2")
    opened.page.locator("regard-flow canvas").focus()
    keys(opened, "1", ".", "7", "5", "Enter", "Delete")
    cut = "cut,attention,0,1,2"
    assert opened.state()["changes"] == cut
    keys(opened, "Control+z")
    assert opened.state()["changes"] == "score,scaled,0,1,2,1.75"
    keys(opened, "Control+z")  # all that was typed in one field is one step
    assert "changes" not in opened.state()
    keys(opened, "Control+z")
    assert "changes" not in opened.state()
    keys(opened, "Control+Shift+z", "Control+y")
    assert opened.state()["changes"] == cut
    opened.page.get_by_role("button", name="Reset").click()
    opened.settle()
    opened.page.get_by_role("button", name="Undo").click()
    opened.settle()
    assert opened.state()["changes"] == cut


def test_an_address_of_places_that_are_not_there_changes_nothing(open_page: OpenPage) -> None:
    nowhere = "score,scores,0,0,9,1;score,scaled,7,0,0,1;cut,attention,0,9,0;number,W_Q,0,9,0,1"
    opened = apple(open_page, f"#changes={nowhere};word,9,love;head,elsewhere,0")
    made = example("apple").trace()
    found = opened.ask("(await element.source.changed(values[0])).trace.steps.output.array", [])
    assert np.array_equal(found, made.steps["output"].array)
    assert shown(opened, "weights", 0, 3) == figure(made.steps["weights"].array[0, 0, 3])


def test_steps_and_flow_have_the_same_changes_and_say_what_python_says(
    open_page: OpenPage,
) -> None:
    opened = apple(open_page, "#view=steps&step=scaled&changes=causal,on")
    switches: list[tuple[str, dict[str, Any]]] = [
        ("÷ √dₖ", {"scale": False, "causal": True}),
        ("mask", {"scale": False}),
    ]
    for name, options in switches:
        opened.page.get_by_role("button", name=name).first.click()
        opened.settle()
        truth = example("apple").trace(**options).steps
        steps = opened.page.evaluate("document.querySelector('regard-steps').source.steps")
        assert steps["scaled"]["formula"] == truth["scaled"].formula
        assert np.allclose(steps["output"]["array"], truth["output"].array, rtol=0, atol=1e-14)
    opened.page.get_by_role("tab", name="Flow").click()
    opened.settle()
    assert told(opened) == ["÷ √dₖ off", "mask off"]


@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing_where_a_pass_is_changed(open_page: OpenPage, dark: bool) -> None:
    changes = "number,W_K,0,1,1,0.5;score,scores,0,1,3,2;word,0,love"
    opened = apple(open_page, f"#token=2&changes={changes}", dark=dark)
    opened.page.get_by_role("button", name="Swap “apple”").click()
    assert violations(opened.page) == []
    opened.page.keyboard.press("Escape")
    opened.page.get_by_role("tab", name="Steps").click()
    opened.settle()
    assert violations(opened.page) == []
    refused = apple(open_page, "#changes=word,0,pear", dark=dark)
    assert violations(refused.page) == []
