"""The model of what travels counts what does travel, to the byte."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from helpers.parallel_jobs import traffic
from helpers.ranks import Ranks
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import regard
from regard.parallel import plan
from regard.parallel.traffic import Traffic, simulation

HEADS = st.sampled_from([(1, 1), (2, 1), (4, 2), (6, 3), (4, 4)])
SEES = st.sampled_from(
    [
        None,
        regard.See(),
        regard.See(entropy=True, top=3, distance=True),
        regard.See(map=(5, 7)),
        regard.See(received=True),
        regard.See(max_logit=True, contribution=3),
        regard.See(contribution=2, norms=torch.ones(2, 1, 1)),
        regard.See(entropy=True, top=2, map=(3, 2), received=True),
    ]
)


@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    count=st.integers(1, 4),
    heads=HEADS,
    layout=st.sampled_from(["contiguous", "zigzag"]),
    see=SEES,
    tokens=st.integers(1, 29),
    dtype=st.sampled_from([torch.float32, torch.bfloat16, torch.float64]),
    by=st.sampled_from([None, "ring"]),
)
def test_bytes_are_as_many_as_were_counted(
    ranks: Ranks, count: int, heads: tuple[int, int], tokens: int, dtype: torch.dtype, **given: Any
) -> None:
    q = torch.randn(2, heads[0], tokens, 5, dtype=dtype)
    k, v = (torch.randn(2, heads[1], tokens, width, dtype=dtype) for width in (5, 3))
    arguments = {"by": given["by"], "layout": given["layout"]}
    see = given["see"]
    if see is not None and see.max_logit:
        see = replace(see, spans=torch.arange(tokens) % 3 - 1, n_spans=2)
    if see is not None and see.norms is not None:
        see = replace(see, norms=torch.ones(2, heads[0], tokens))
    found = plan(ranks=count, heads=heads[0], kv_heads=heads[1], **arguments)
    counted = ranks.run(count, traffic, (q, k, v), arguments | {"see": see})
    for rank, sent in enumerate(counted):
        some = Traffic(found, tokens, 5, 3, 2, q.element_size(), rank, see)
        assert sent["forward"] == sum(some.forward().values())
        assert sent["backward"] == sum(some.backward().values())


def test_the_document_shows_the_simulation() -> None:
    document = Path(__file__).parents[2] / "docs" / "scale.md"
    assert simulation() in document.read_text(encoding="utf-8")
