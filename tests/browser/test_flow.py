"""<regard-flow>: a whole pass in one picture, followed, played, changed, and read by everybody."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator

import numpy as np
import pytest
from helpers.axe import violations
from helpers.browser_page import Opened
from helpers.flow_page import apple, at, box, changed, keys, line
from helpers.traced_models import traced

from regard import Projections, Trace, reference, trace
from regard.view.html.trace import trace_page
from regard.worked import example

OpenPage = Callable[..., Opened]

MAT = "The cat sat on the mat"


# ── the numbers ──────────────────────────────────────────────────────────────────────────────────


def traces() -> Iterator[Trace]:
    yield example("apple").trace()
    yield example("scaling").trace()
    yield example("given").trace()
    yield trace(MAT, causal=True, positions="sinusoidal")
    for name in ("rotary neighbours, some", "ALiBi", "cross"):
        yield traced(name).attention()


def test_every_number_and_how_it_came_about_is_that_of_the_trace(open_page: OpenPage) -> None:
    opened = apple(open_page)
    for made in traces():
        opened.ask(
            "{ element.source = new element.source.constructor(values[0]); return true; }",
            json.loads(made.to_json()),
        )
        opened.settle()
        for name, step in made.steps.items():
            array = step.array if step.has_heads else step.array[None]
            for head, rows in enumerate(array):
                found = opened.ask(
                    "element.source.cells(values[0], values[1], [0, 9999], [0, 9999])", name, head
                )
                numbers = [-np.inf if each is None else each for each in found]
                assert numbers == rows.ravel().tolist(), (made.title, name)
            last = tuple(n - 1 for n in array.shape)
            pieces = opened.ask("element.source.explain(...values)", name, *last)
            assert "".join(each["text"] for each in pieces) == str(
                made.explain(name, last[1], last[2], last[0])
            )


def test_what_is_seen_at_a_cell_is_its_number(open_page: OpenPage) -> None:
    opened = apple(open_page)
    made = example("apple").trace()
    for stage, row, column in (("scores", 2, 1), ("weights", 3, 2), ("concatenated", 0, 3)):
        opened.page.mouse.click(*at(opened, stage, row, column))
        opened.settle()
        assert line(opened) == made.explain(stage, row, column)
        assert opened.state()["step"] == stage
    x, y = at(opened, "scores", 0, 3)
    # Kᵀ stands above the scores, on its side: its column is the row of the token.
    turned = box(opened, "key", "turned")
    opened.page.mouse.click(x, turned["y"] + turned["height"] * 0.75)
    opened.settle()
    assert y > turned["y"] + turned["height"]
    assert line(opened) == made.explain("key", 3, 1)


def test_switches_give_what_python_gives(open_page: OpenPage) -> None:
    opened = apple(open_page)
    plain, causal = example("apple").trace(scale=False), example("apple").trace(causal=True)
    for change, expected in (("scale", plain), ("causal", causal)):
        array = changed(opened, {"kind": change, "on": change == "causal"})
        for name, step in expected.steps.items():
            assert np.allclose(array(name), step.array, rtol=0, atol=1e-14), (change, name)


def test_a_score_a_cut_and_a_head_give_what_the_reference_gives(open_page: OpenPage) -> None:
    opened = apple(open_page)
    steps = example("apple").trace().steps
    scaled = steps["scaled"].array.copy()
    scaled[0, 1, 2], scaled[0, 3, 0] = 4.5, -np.inf
    place = {"head": 0, "attention": "attention"}
    array = changed(
        opened,
        {"kind": "score", "stage": "scaled", "row": 1, "column": 2, "value": 4.5, **place},
        {"kind": "cut", "row": 3, "column": 0, **place},
    )
    weights = reference.softmax(scaled)
    assert np.allclose(array("weights"), weights, rtol=0, atol=1e-15)
    head = weights[0] @ steps["value"].array[0]
    given = steps["head_output"].array[1]
    assert np.allclose(array("head_output"), [head, given], rtol=0, atol=1e-14)
    assert np.allclose(array("output"), np.hstack([head, given]), rtol=0, atol=1e-14)
    off = changed(opened, {"kind": "head", "head": 0, "attention": "attention"})
    assert np.array_equal(off("output"), np.hstack([np.zeros((4, 2)), given]))


def test_a_number_is_another_in_all_that_follows(open_page: OpenPage) -> None:
    made = trace(MAT, heads=2, width=4)
    opened = open_page(trace_page(made))
    x = made.steps["input"].array.copy()
    x[3, 1] = 2.5
    w = {name: array.copy() for name, array in made.matrices.items()}
    w["W_K"][1, 2, 0] = -0.75
    array = changed(
        opened,
        {"kind": "number", "stage": "input", "head": 0, "row": 3, "column": 1, "value": 2.5},
        {"kind": "number", "stage": "W_K", "head": 1, "row": 2, "column": 0, "value": -0.75},
    )
    expected = trace(x, model=Projections(w["W_Q"], w["W_K"], w["W_V"], w["W_O"]))
    for name, step in expected.steps.items():
        assert np.allclose(array(name), step.array, rtol=0, atol=1e-13), name


# ── what the reader does ─────────────────────────────────────────────────────────────────────────


def test_a_click_on_a_word_follows_it_and_another_lets_go(open_page: OpenPage) -> None:
    opened = apple(open_page)
    found = box(opened, "input")
    for expected in ({"token": "2"}, {}):
        opened.page.mouse.click(found["x"] - 20, found["y"] + found["height"] * 2.5 / 4)
        opened.settle()
        assert opened.state() == expected


def test_a_click_on_a_ribbon_cuts_it_and_reset_joins_it(open_page: OpenPage) -> None:
    opened = apple(open_page, "#token=1")
    found = box(opened, "head_output", "ribbons")
    opened.page.mouse.click(found["x"] + 8, found["y"] + found["height"] * 2.5 / 4)
    opened.settle()
    assert opened.state()["changes"] == "cut,attention,0,1,2"
    opened.page.mouse.click(*at(opened, "weights", 1, 2))
    opened.settle()
    assert line(opened).startswith("0.0 = ")
    assert "before the changes: 0.2446" in str(
        opened.page.locator("regard-flow .where").text_content()
    )
    opened.page.get_by_role("button", name="Reset").click()
    opened.settle()
    assert "changes" not in opened.state()
    assert line(opened).startswith("0.2446 ")


def test_a_score_is_dragged_and_what_follows_is_computed_with_it(open_page: OpenPage) -> None:
    opened = apple(open_page)
    x, y = at(opened, "scaled", 0, 1)
    mouse = opened.page.mouse
    mouse.move(x, y)
    mouse.down()
    mouse.move(x, y - 60, steps=4)
    mouse.up()
    opened.settle()
    kind, stage, head, row, column, value = opened.state()["changes"].split(",")
    assert (kind, stage, head, row, column) == ("score", "scaled", "0", "0", "1")
    assert float(value) > 1.5
    scaled = example("apple").trace().steps["scaled"].array[0].copy()
    scaled[0, 1] = float(value)
    opened.page.mouse.click(*at(opened, "weights", 0, 1))
    opened.settle()
    expected = reference.softmax(scaled)[0, 1]
    assert line(opened).startswith(f"{expected:.4f}".rstrip("0"))


def test_the_keyboard_alone_walks_follows_opens_and_changes(open_page: OpenPage) -> None:
    opened = apple(open_page)
    made = example("apple").trace()
    opened.page.locator("regard-flow canvas").focus()
    keys(opened, "ArrowRight", "ArrowRight", "ArrowLeft", "ArrowDown", "ArrowDown")
    assert opened.state() == {"step": "input", "token": "1"}
    keys(opened, *["PageDown"] * 5, "Enter", "ArrowRight", "ArrowDown")
    assert opened.state()["step"] == "scaled"
    assert opened.state()["cell"] == "2,1"
    assert line(opened) == made.explain("scaled", 2, 1)
    keys(opened, "Enter")
    field = opened.page.locator("regard-flow figure input")
    assert field.get_attribute("aria-label") == "Scaled scores: apple, love"
    keys(opened, "ArrowUp", "ArrowUp", "Enter")
    assert float(opened.state()["changes"].split(",")[-1]) == pytest.approx(1.294 + 0.2, abs=1e-3)
    assert "it was 1.294" in line(opened)
    keys(opened, "PageDown", "Enter", "Delete")
    assert opened.state()["changes"].endswith(";cut,attention,0,1,0")
    keys(opened, "Escape", "Escape")
    assert "step" not in opened.state()
    opened.page.get_by_role("button", name="Reset").focus()
    keys(opened, "Enter")
    assert "changes" not in opened.state()


@pytest.mark.parametrize("reduced_motion", [False, True])
def test_play_tells_every_stage_and_ends(open_page: OpenPage, reduced_motion: bool) -> None:
    opened = apple(open_page, reduced_motion=reduced_motion)
    told = opened.ask(
        """{
            element.player.speed = 25;
            const told = [];
            const heard = new Promise((done) => {
                element.addEventListener("regard-change", ({ detail }) => {
                    told.push(detail.step);
                    if (detail.step === null) done();
                });
            });
            element.root.querySelector("[name=play]").click();
            await heard;
            return told;
        }"""
    )
    assert told == [*example("apple").trace().steps, None]
    opened.settle()
    assert opened.page.get_by_role("button", name="Play").count() == 1
    assert opened.state() == {}


def test_before_and_after_stand_side_by_side(open_page: OpenPage) -> None:
    opened = apple(open_page, "#changes=scale,off;head,attention,0&beside=yes&token=1")
    captions = opened.page.locator("regard-flow figcaption").all_text_contents()
    assert captions == ["before", "after"]
    sizes = opened.ask("[...element.root.querySelectorAll('canvas')].map((each) => each.width)")
    assert sizes[0] == sizes[1] > 400
    seen = opened.ask(
        "[...element.root.querySelectorAll('canvas')].map((each) => each.toDataURL()).length"
    )
    assert seen == 2


def test_a_presentation_fills_the_window_and_the_theme_is_a_choice(open_page: OpenPage) -> None:
    opened = apple(open_page, "#present=yes&step=weights", width=1920, height=1080)
    found = opened.page.locator("regard-flow").bounding_box()
    assert found == {"x": 0, "y": 0, "width": 1920, "height": 1080}
    # Whatever has the focus, the keys are meant for the picture.
    keys(opened, "ArrowLeft")
    assert opened.state()["step"] == "scaled"
    letters = opened.page.locator("regard-flow .say").evaluate(
        "(e) => parseFloat(getComputedStyle(e).fontSize)"
    )
    assert letters >= 36
    paper = "(getComputedStyle(element).backgroundColor)"
    assert opened.ask(paper) == "rgb(255, 255, 255)"
    opened.page.get_by_role("button", name="Dark").click()
    opened.settle()
    assert opened.state()["theme"] == "dark"
    assert opened.ask(paper) == "rgb(13, 17, 23)"
    corner = (
        "[...element.root.querySelector('canvas').getContext('2d').getImageData(3, 3, 1, 1).data]"
    )
    assert opened.ask(corner) == [13, 17, 23, 255]
    keys(opened, "Escape")
    assert "present" not in opened.state()


def test_weights_that_differ_little_have_colours_that_differ_much(open_page: OpenPage) -> None:
    opened = apple(open_page, width=1280)
    weights = example("apple").trace().steps["weights"].array[0]
    cells = [np.unravel_index(each, (4, 4)) for each in (weights.argmin(), weights.argmax())]
    places = [at(opened, "weights", row - 0.38, column - 0.38) for row, column in cells]
    least, most = opened.ask(
        """{
            const canvas = element.root.querySelector("canvas");
            const { x, y } = canvas.getBoundingClientRect();
            const pen = canvas.getContext("2d");
            const { data } = pen.getImageData(0, 0, canvas.width, canvas.height);
            return values[0].map(([left, top]) => {
                const at = (Math.round(top - y) * canvas.width + Math.round(left - x)) * 4;
                return [...data.slice(at, at + 3)];
            });
        }""",
        places,
    )
    assert weights.max() < 0.32
    assert np.abs(np.subtract(least, most)).sum() > 300


@pytest.mark.parametrize(
    "address", ["#step=<b>&cell=99,99&head=9&token=99", "#changes=cut,x;score,a,b;;%25&zoom=1,2"]
)
def test_an_address_of_nowhere_leads_somewhere(open_page: OpenPage, address: str) -> None:
    opened = apple(open_page, address)
    assert opened.page.locator("regard-flow .error").count() == 0
    assert box(opened, "scores")["width"] > 50


def test_a_narrow_window_scrolls_down_only(open_page: OpenPage) -> None:
    opened = apple(open_page, width=400)
    assert opened.ask("document.documentElement.scrollWidth") <= 400
    boxes = opened.ask("element.boxes")
    assert all(each["x"] >= 0 and each["x"] + each["width"] <= 400 for each in boxes)


def test_the_steps_show_the_changed_pass_too(open_page: OpenPage) -> None:
    opened = apple(open_page, "#changes=causal,on&step=weights&cell=0,0")
    opened.page.get_by_role("tab", name="Steps").click()
    opened.settle()
    said = str(opened.page.locator("regard-steps .line").text_content())
    assert said == example("apple").trace(causal=True).explain("weights", 0, 0)


# ── everybody ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dark", [False, True])
def test_axe_finds_nothing(open_page: OpenPage, dark: bool) -> None:
    for address in (
        "#token=1",
        "#step=scaled&cell=1,2&changes=causal,on",
        "#present=yes&step=weights",
    ):
        assert violations(apple(open_page, address, dark=dark).page) == []
