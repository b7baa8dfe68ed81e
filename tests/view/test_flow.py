"""The page and the figure of a flow: how large they are, and what they say is missing."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.traced_models import made

import regard
from regard import Flow
from regard.nn import LanguageModel, LanguageModelConfig, Rotary
from regard.view.html.bundle import bundle
from regard.view.html.flow import flow_page
from regard.worked import example


def _content(page: str) -> dict[str, Any]:
    found = re.findall(r'id="regard-data">(.*?)</script>', page, re.DOTALL)
    return json.loads(found[0])


@pytest.fixture(scope="module")
def wide() -> Flow:
    """A pass of which not everything fits: 131 tokens, 97 wide."""
    torch.manual_seed(3)
    sizes: dict[str, Any] = {"width": 97, "heads": 3, "head_width": 32, "layers": 5}
    config = LanguageModelConfig(vocabulary=101, position=Rotary(), norm="rms", **sizes)
    return regard.flow([(7 * n) % 101 for n in range(131)], model=LanguageModel(config), layer=2)


def test_a_page_of_attention_alone_has_its_trace() -> None:
    made_trace = example("apple").trace()
    content = _content(flow_page(made_trace.flow()))
    assert content["kind"] == "flow"
    assert content["flow"]["trace"] == json.loads(made_trace.to_json())
    assert content["flow"]["outline"]["lacks"] == ""


@pytest.mark.parametrize(
    ("limit", "whole", "matrices", "side"),
    [
        (24_000_000, True, True, 64),
        (2_220_000, True, True, 32),
        (1_740_000, True, False, 32),
        (720_000, False, False, 32),
        (220_000, False, False, 16),
    ],
)
def test_a_page_keeps_to_its_limit_and_says_what_it_lacks(
    wide: Flow, limit: int, whole: bool, matrices: bool, side: int
) -> None:
    limit += len(bundle("main").encode())  # which every page has
    page = flow_page(wide, limit)
    assert len(page.encode()) <= limit
    flow = _content(page)["flow"]
    lacks = flow["outline"]["lacks"]
    assert ("every number of layer 2." in lacks) == whole
    assert ("no room for the matrices" not in lacks) == matrices
    assert f"at most {side} × {side}" in lacks
    assert ("decoder.layers.2.attention.query" in flow["steps"]) == whole
    assert ("decoder.layers.2.feed_forward.w_in.weight" in flow["matrices"]) == matrices
    assert max(each["rows"] for each in flow["pictures"].values()) <= side
    assert set(flow["pictures"]) == set(wide.outline["stages"])
    assert len(flow["predictions"]) == 131


def test_a_still_shows_every_band(wide: Flow, tmp_path: Path) -> None:
    wide.figure(tmp_path / "flow.svg")
    drawn = (tmp_path / "flow.svg").read_text(encoding="utf-8")
    for words in ("Input", "Layer 0", "Layer 4", "Output"):
        assert words in drawn
    assert drawn.count("<image") == len(wide.outline["stages"])


def test_a_notebook_shows_a_frame() -> None:
    model, given, options = made("transformer")
    shown = regard.flow(given, model=model, **options)._repr_html_()
    assert shown.startswith("<iframe")
    assert len(shown) < 7_000_000
