"""Flows of whole models: in a page, on the page of a run, and of a sentence of one's own."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.browser_page import Opened
from helpers.foreign_words import LISTEN
from helpers.traced_models import made

import regard
from regard.view.html.flow import flow_page

Visit = Callable[..., Any]

_PLAY = """async () => {
    const element = document.querySelector("regard-flow");
    element.player.speed = 200;
    const told = [];
    const heard = new Promise((done) => {
        element.addEventListener("regard-change", ({ detail }) => {
            if ("step" in detail) told.push(detail.step);
            if (detail.step === null) done();
        });
    });
    element.root.querySelector("[name=play]").click();
    await heard;
    return told;
}"""


def until(page: Any, expression: str) -> None:
    """Wait; the policy of the pages lets nobody evaluate a text inside them."""
    for _ in range(600):
        if page.evaluate(expression):
            return
        page.wait_for_timeout(100)
    raise AssertionError(expression)


@pytest.fixture(scope="module")
def _model_is_here() -> None:
    from regard.models.fetch import fetch

    fetch("minilm")


@pytest.mark.parametrize("name", ["language model", "transformer"])
def test_a_page_of_a_model_opens_and_plays_to_its_end(
    open_page: Callable[..., Opened], name: str
) -> None:
    model, given, options = made(name)
    given = given.float() if hasattr(given, "float") else given
    options = {key: x.float() if hasattr(x, "float") else x for key, x in options.items()}
    flow = regard.flow(given, model=model.float(), layer=0, **options)
    page = open_page(flow_page(flow)).page
    until(page, "document.querySelector('regard-flow')?.boxes.length > 0")
    told = page.evaluate(_PLAY)
    assert told[-1] is None
    assert set(told[:-1]) <= set(flow.outline["stages"])
    bands = flow.outline["bands"]
    assert all(set(band["stages"]) & set(told) for band in bands), told


@pytest.mark.parametrize("part", ["query", "weights", "value"])
def test_words_stand_beside_the_rows_of_a_stage_and_can_be_clicked(
    open_page: Callable[..., Opened], part: str
) -> None:
    flow = regard.flow([1, 10, 2, 7, 5], model=_wide_model(), tokens=list("abcde"))
    stage = f"decoder.layers.1.attention.{part}"
    opened = open_page(flow_page(flow), address=f"#step={stage}", reduced_motion=True)
    beside, ink = opened.page.evaluate(
        """(stage) => {
            const element = document.querySelector("regard-flow");
            const canvas = element.root.querySelector("canvas");
            const drawn = element.boxes.filter(({ kind }) => kind === "matrix");
            const box = drawn.find((each) => each.stage === stage);
            const { left, top } = canvas.getBoundingClientRect();
            const row = box.height / 5;
            const pixels = canvas.getContext("2d")
                .getImageData(box.x - 40, box.y + 3 * row + 2, 28, row - 4).data;
            const dark = pixels.filter((value, n) => n % 4 === 0 && value < 128).length;
            return [{ x: left + box.x - 14, y: top + box.y + 3.5 * row }, dark];
        }""",
        stage,
    )
    assert ink > 5
    opened.page.mouse.click(beside["x"], beside["y"])
    opened.settle()
    assert opened.state()["token"] == "3"


def test_from_far_away_each_matrix_has_its_symbol_in_a_corner(
    open_page: Callable[..., Opened],
) -> None:
    flow = regard.flow([1, 10, 2, 7, 5], model=_wide_model(layers=5), tokens=list("abcde"))
    opened = open_page(flow_page(flow), script=LISTEN)
    written = set(opened.page.evaluate("[...window.penned]"))
    assert "weights" not in written  # there is no room for names
    stages = flow.outline["stages"].values()
    symbols = {stage["symbol"] for stage in stages if stage["columns"] > 1}
    assert {"Q", "K", "S", "A", "V", "Z"} <= symbols <= written


def _wide_model(layers: int = 2) -> Any:
    from regard.nn import LanguageModel, LanguageModelConfig

    config = LanguageModelConfig(vocabulary=11, width=42, heads=3, layers=layers)
    return LanguageModel(config)


@pytest.mark.usefixtures("_model_is_here")
def test_a_run_has_a_flow_whose_cells_are_the_model_s(visit: Visit) -> None:
    page = visit("#page=see")
    page.get_by_role("textbox", name="Text").fill("The cat sat because it was tired.")
    page.get_by_role("button", name="Show where it looks").click()
    page.get_by_role("tab", name="Flow").click(timeout=60_000)
    until(page, "document.querySelector('regard-flow')?.boxes.length > 0")
    found = page.evaluate(
        """async () => {
            const { source } = document.querySelector("regard-flow");
            const names = Object.keys(source.outline.stages);
            const stage = names.find((name) => /layers.3.*weights$/.test(name));
            const { rows, columns } = source.outline.stages[stage];
            return [...await source.cells(stage, 1, [0, rows], [0, columns])];
        }"""
    )
    run = regard.models.load("minilm").see("The cat sat because it was tired.")
    expected = run.layer(3).weights(1).reshape(-1).numpy()
    assert np.allclose(found, expected, atol=1e-5)


@pytest.mark.usefixtures("_model_is_here")
def test_a_sentence_of_one_s_own_has_the_numbers_of_a_model(visit: Visit) -> None:
    page = visit("#page=explain")
    page.get_by_role("textbox", name="A sentence of your own").fill("we like it")
    page.keyboard.press("Enter")
    page.get_by_text(re.compile("Read by minilm")).wait_for(timeout=60_000)
    until(page, "document.querySelector('regard-flow').source.outline.kind === 'model'")
    page.get_by_role("combobox", name="numbers of").select_option("random")
    page.get_by_text(re.compile("random numbers")).wait_for()
    page.get_by_role("tab", name="Steps").wait_for()
