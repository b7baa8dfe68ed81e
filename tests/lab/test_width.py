"""The experiment on widths and slices: what it measures, and that its verdict can turn."""

import copy
from typing import Any

import numpy as np
import pytest

import regard.lab
from regard import reference
from regard.lab import Asked, Result
from regard.lab.width import EXPERIMENT, _of_heads, judge


@pytest.fixture(scope="module")
def quick() -> Result:
    return regard.lab.run("width", quick=True, heads=3, head_width=7, tokens=5)


def outcomes(result: Result) -> list[str]:
    return [finding.outcome for finding in result.verdict.findings]


def test_the_width_of_w_v_is_that_of_the_output(quick: Result) -> None:
    assert len(quick.data["grid"]) == 42
    assert all(each["out"] == each["d_v"] for each in quick.data["grid"])
    assert outcomes(quick) == ["holds", "holds", "holds"]
    assert quick.verdict.answer == "nothing"


def test_slices_need_fewer_numbers(quick: Result) -> None:
    ways = quick.data["ways"]
    assert ways["whole"]["parameters"] == 3 * 21**2
    assert ways["slice"]["parameters"] == 3 * 21**2 // 3


def test_a_head_that_sees_its_slice_is_blind_to_others(quick: Result) -> None:
    slices, whole = (np.array(quick.data["ways"][way]["heads"]) for way in ("slice", "whole"))
    own = np.eye(3, dtype=bool)
    assert slices[~own].max() == 0.0 < 0.5 < slices[own].min()
    assert whole.min() > 0.3
    assert np.mean(quick.data["ways"]["slice"]["joined"]) > 0.3  # behind W_O


def test_a_row_is_a_head_and_a_column_a_slice() -> None:
    asked = Asked(EXPERIMENT.values({"heads": 3, "head_width": 2, "tokens": 5}))
    random = asked.random(2 + 7)
    x = random.standard_normal((5, 6))
    w_q, w_k, w_v = random.standard_normal((3, 3, 6, 2)) / np.sqrt(6)
    w_o = random.standard_normal((6, 6)) / np.sqrt(6)
    other = x.copy()
    other[:, :2] = random.standard_normal((5, 2))
    before, after = (reference.multi_head(y, w_q, w_k, w_v, w_o).heads.output for y in (x, other))
    change = [np.linalg.norm(b - a) / np.linalg.norm(a) for a, b in zip(before, after, strict=True)]
    assert np.array(_of_heads(asked, False, 7)["heads"])[:, 0] == pytest.approx(change)


def test_heads_that_see_the_whole_make_it_false() -> None:
    result = regard.lab.run("width", quick=True, false=True)
    assert outcomes(result) == ["fails", "fails", "fails"]
    assert result.verdict.answer == "all"
    assert {each["out"] for each in result.data["grid"]} == {48}
    result.document()


def test_each_part_can_be_made_false_alone() -> None:
    slices = regard.lab.run("width", quick=True, slices=False)
    assert outcomes(slices) == ["holds", "fails", "fails"]
    matrix = regard.lab.run("width", quick=True, output_matrix=True)
    assert outcomes(matrix) == ["fails", "holds", "holds"]
    slices.document()
    matrix.document()


def test_figures_in_which_the_claim_is_false_are_judged_so(quick: Result) -> None:
    data: Any = copy.deepcopy(quick.data)
    data["grid"][4]["out"] += 1
    assert [finding.outcome for finding in judge(data).findings] == ["fails", "holds", "holds"]
    data = copy.deepcopy(quick.data)
    data["ways"]["slice"]["parameters"] += 1
    assert [finding.outcome for finding in judge(data).findings] == ["holds", "fails", "holds"]
    data = copy.deepcopy(quick.data)
    data["ways"]["slice"]["most"] = 0.001
    assert [finding.outcome for finding in judge(data).findings] == ["holds", "holds", "fails"]


def test_the_document_has_its_texts(quick: Result) -> None:
    document = quick.document()
    assert [table["title"] for table in document["tables"]][1] == "Two kinds of heads"
    assert all("{" not in found["said"] for found in document["verdict"]["findings"])
