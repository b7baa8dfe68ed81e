"""The translator of dates as a flow: its cross-attention, every cell, and play to the end."""

from __future__ import annotations

import random
import runpy
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from helpers.browser_page import Opened

from regard import Flow
from regard.view.html.flow import flow_page

EXAMPLE = Path(__file__).parents[2] / "examples" / "learn_to_translate_dates.py"
WRITTEN, WANTED = "12 March 1987", "1987-03-12"
CROSS = "decoder.layers.1.cross.weights"


@pytest.fixture(scope="module")
def flow() -> Flow:
    names = runpy.run_path(str(EXAMPLE))
    torch.manual_seed(0)
    return names["flow_of"](names["learn"](2, random.Random(0)), WRITTEN, WANTED)


def test_any_cell_of_any_stage_says_how_it_came_about(flow: Flow) -> None:
    outline = flow.outline
    assert outline["sequences"] == {"input": list(WRITTEN), "target": ["start", *WANTED]}
    assert outline["chosen"] == "decoder.layers.1"
    for stage, about in outline["stages"].items():
        rows, columns = about["rows"], about["columns"]
        for row, column in ((0, 0), (rows // 2, columns // 2), (rows - 1, columns - 1)):
            line = flow.explain(stage, about["heads"] - 1, row, column)
            exact = flow.cells(stage, about["heads"] - 1, (row, row + 1), (column, column + 1))
            assert line.value == exact[0, 0] or np.isneginf(exact), stage
    found = flow.predictions(len(WANTED))
    assert found is not None
    assert all(len(each.token) == 1 or each.token in ("pad", "start", "stop") for each in found)


def test_a_page_of_it_plays_to_its_end_and_its_cells_are_those_of_python(
    open_page: Callable[..., Opened], flow: Flow
) -> None:
    opened = open_page(flow_page(flow))
    told = opened.ask(
        """{
            element.player.speed = 400;
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
    )
    assert told[-1] is None
    assert CROSS in told
    bands = flow.outline["bands"]
    assert all(set(band["stages"]) & set(told) for band in bands)
    about = flow.outline["stages"][CROSS]
    assert (about["row_labels"], about["column_labels"]) == ("target", "input")
    cells = opened.ask("element.source.cells(values[0], 3, [0, 11], [0, 13])", CROSS)
    exact = flow.cells(CROSS, 3, (0, 11), (0, 13))
    np.testing.assert_allclose(np.reshape(cells, exact.shape), exact, rtol=2e-6)
    for stage in next(band for band in bands if band["id"] == "decoder.layers.1")["stages"]:
        rows, columns = (flow.outline["stages"][stage][each] for each in ("rows", "columns"))
        place = flow.outline["stages"][stage]["heads"] - 1, rows - 1, columns // 2
        pieces = opened.ask("element.source.explain(...values)", stage, *place)
        assert "".join(each["text"] for each in pieces) == flow.explain(stage, *place), stage
