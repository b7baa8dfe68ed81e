"""See refuses what it cannot show, and merge puts together exactly what was one."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import pytest
import torch

import regard
from regard import Observation, See, merge

B, H, NQ, NK, D = 2, 3, 12, 17, 5


def inputs(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    random = torch.Generator().manual_seed(0)
    q, k, v = (
        torch.randn(B, H, n, width, generator=random, dtype=torch.float64).to(dtype)
        for n, width in ((NQ, D), (NK, D), (NK, 7))
    )
    return q, k, v


def assert_same(one: Observation, other: Observation, tolerance: float = 1e-6) -> None:
    for field in dataclasses.fields(Observation):
        found, expected = getattr(one, field.name), getattr(other, field.name)
        if isinstance(expected, torch.Tensor):
            torch.testing.assert_close(found, expected, rtol=tolerance, atol=tolerance * 10)
        else:
            assert found == expected, field.name


@pytest.mark.parametrize(
    "wrong",
    [
        {"entropy": 1},
        {"received": None},
        {"top": -1},
        {"top": True},
        {"top": 2.0},
        {"map": (0, 4)},
        {"map": (4,)},
        {"map": [4, 4]},
        {"map": (2.0, 3)},
        {"queries": [True]},
        {"queries": torch.ones(2, 3)},
        {"queries": torch.ones(3, dtype=torch.bool)},
    ],
)
def test_see_refuses_in_words_what_it_cannot_show(wrong: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError), match=rf"^See\(\): {next(iter(wrong))} .*; got .*"):
        See(**wrong)


def test_see_cannot_be_changed_and_equals_its_like() -> None:
    see = See(top=3)
    with pytest.raises(dataclasses.FrozenInstanceError):
        see.top = 4  # pyright: ignore[reportAttributeAccessIssue]
    assert see == See(top=3) != See(top=4)


def test_what_is_not_asked_for_is_none() -> None:
    _, seen = regard.attention(*inputs(), see=See())
    assert seen.lse.shape == (B, H, NQ)
    for name in ("entropy", "top_keys", "top_weights", "map", "received", "distance"):
        assert getattr(seen, name) is None
    assert (seen.n_keys, seen.position, seen.sinks) == (NK, NK - NQ, None)


def test_parts_of_the_queries_merge_to_the_whole_with_their_maps() -> None:
    q, k, v = inputs()
    whole = See(entropy=True, top=3, map=(6, 5), received=True, distance=True)
    output, seen = regard.attention(q, k, v, causal=True, see=whole)
    parts = [
        regard.attention(
            q[:, :, start:stop],
            k,
            v,
            causal=True,
            position=NK - NQ + start,
            see=dataclasses.replace(whole, map=((stop - start) // 2, 5)),
        )
        for start, stop in ((0, 2), (2, 8), (8, 12))
    ]
    merged, found = merge([parts[2], parts[0], parts[1]], starts=[8, 0, 2])
    torch.testing.assert_close(merged, output)
    assert_same(found, seen)


def test_queries_that_know_more_and_more_keys_merge_to_causal_attention() -> None:
    q, k, v = (x[:, :, :NQ] for x in inputs())
    see = See(entropy=True, top=3, received=True, distance=True)
    output, seen = regard.attention(q, k, v, causal=True, see=see)
    parts = [
        regard.attention(q[:, :, a:b], k[:, :, :b], v[:, :, :b], causal=True, see=see)
        for a, b in ((0, 5), (5, 6), (6, NQ))
    ]
    merged, found = merge(parts)
    torch.testing.assert_close(merged, output)
    assert_same(found, seen)


@pytest.mark.parametrize("sink_in", [None, 0, 1, 2])
def test_parts_of_the_keys_merge_as_a_tree_in_any_order(sink_in: int | None) -> None:
    q, k, v = inputs(torch.float64)
    sinks = None if sink_in is None else torch.linspace(-1, 2, H, dtype=torch.float64)
    see = See(entropy=True, top=4, distance=True)
    position = 3  # so that the first queries have no key in the second and third part
    output, seen = regard.attention(q, k, v, causal=True, position=position, see=see, sinks=sinks)
    cuts = (0, 4, 11, NK)
    first, second, third = (
        regard.attention(
            q,
            k[:, :, a:b],
            v[:, :, a:b],
            causal=True,
            position=position - a,
            see=see,
            sinks=sinks if sink_in == part else None,
        )
        for part, (a, b) in enumerate(itertools.pairwise(cuts))
    )
    right = merge([third, second], over="keys", starts=[7, 0])
    merged, found = merge([right, first], over="keys", starts=[4, 0])
    torch.testing.assert_close(merged, output)
    assert_same(found, seen, tolerance=1e-12)


def test_merged_outputs_keep_their_type() -> None:
    q, k, v = inputs(torch.float16)
    parts = [
        regard.attention(q, k[:, :, part], v[:, :, part], see=See())
        for part in (slice(0, 4), slice(4, NK))
    ]
    output, seen = merge(parts, over="keys")
    assert output.dtype == torch.float16
    assert seen.lse.dtype == torch.float32
    torch.testing.assert_close(output, regard.attention(q, k, v), rtol=2e-3, atol=2e-3)


def test_a_nan_in_one_part_is_not_hidden() -> None:
    q, k, v = inputs()
    v[0, 1, 5] = torch.nan
    parts = [
        regard.attention(q, k[:, :, part], v[:, :, part], see=See())
        for part in (slice(0, 4), slice(4, NK))
    ]
    output, _ = merge(parts, over="keys")
    assert torch.isnan(output[0, 1]).all()
    assert torch.isfinite(output[1]).all()


def test_maps_whose_columns_are_other_keys_are_refused() -> None:
    q, k, v = inputs()
    parts = [regard.attention(q, k[:, :, :n], v[:, :, :n], see=See(map=(4, 5))) for n in (11, NK)]
    with pytest.raises(ValueError, match=r"11 keys in 5 columns, 17 keys.*regard\.pooled"):
        merge(parts)


def test_what_to_see_is_compared_with_its_queries() -> None:
    some, none = torch.tensor([[True, False]]), torch.tensor([[False, False]])
    see = See(received=True, queries=some)
    assert see == See(received=True, queries=some.clone())
    assert see != See(received=True, queries=none)
    assert see != See(received=True, queries=some[:, :1])
    assert see != See(received=True)
    assert See(received=True) != see
    assert see != See(received=True, queries=some.to("meta"))
    assert see != "see"
    assert len({see, See(received=True, queries=some.clone()), See(top=3), See(top=3)}) == 2
