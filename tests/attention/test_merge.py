"""The parts of one attention, put together again: over keys in any order, and over queries."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch
from helpers.attention_problems import (
    Problem,
    Sight,
    assert_close,
    assert_contribution_is_right,
    assert_observation_is_right,
    assert_same,
    assert_top_is_right,
    largest,
    norms_of,
    on_each_backend,
    problems,
    score_size,
    sights,
    unit,
)
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import regard
from regard._attention.segments import spans_of

Part = tuple[Tensor, regard.Observation]
OVER_KEYS = regard.See(entropy=True, top=5, distance=True, max_logit=True, contribution=3)


def cuts(data: st.DataObject, size: int) -> list[tuple[int, int]]:
    """Consecutive parts of `size` things, one to five of them, some perhaps empty."""
    inner = sorted(data.draw(st.lists(st.integers(0, size), max_size=4)))
    places = [0, *inner, size]
    return list(itertools.pairwise(places))


def of_keys(problem: Problem, start: int, end: int, with_sinks: bool) -> Problem:
    """The same problem on keys start to end alone. Positions stay those of the whole."""
    options = dict(problem.options)
    for name in ("mask", "bias"):
        if name in options and options[name].ndim and options[name].shape[-1] > 1:
            options[name] = options[name][..., start:end]
    if "lengths" in options:
        options["lengths"] = (options["lengths"] - start).clamp(0, end - start)
    if "segments" in options:
        queries, keys = options["segments"]
        options["segments"] = spans_of(queries, keys, options.get("position")) - start
    if "indices" in options:
        chosen = options["indices"] - start
        options["indices"] = chosen.masked_fill(chosen >= end - start, -1)
    if not with_sinks:
        options.pop("sinks", None)
    position = options.get("position")
    if position is None:
        position = problem.n_keys - problem.n_queries
    options["position"] = position - start
    return replace(
        problem, k=problem.k[:, :, start:end], v=problem.v[:, :, start:end], options=options
    )


def of_queries(problem: Problem, start: int, end: int) -> Problem:
    """The same problem for queries start to end alone."""
    options = dict(problem.options)
    for name in ("mask", "bias", "indices"):
        if name in options and options[name].ndim > 1 and options[name].shape[-2] > 1:
            options[name] = options[name][..., start:end, :]
    if "segments" in options:
        queries, keys = options["segments"]
        options["segments"] = spans_of(queries, keys, options.get("position"))[:, start:end]
    position = options.get("position")
    if position is None:
        position = problem.n_keys - problem.n_queries
    options["position"] = position + start
    return replace(problem, q=problem.q[:, :, start:end], options=options)


def assert_is_the_whole(problem: Problem, backend: str, merged: Part) -> None:
    output, seen = merged
    expected, seen_expected = problem.observe(backend, OVER_KEYS)
    assert_close(output, expected, problem, largest(problem.v))
    assert_close(seen.lse, seen_expected.lse, problem)
    away = problem.n_keys + problem.n_queries
    for name, size in (("entropy", 6), ("distance", away)):
        assert_close(getattr(seen, name), getattr(seen_expected, name), problem, size)
    step = problem.truth()
    tolerance = 64 * unit(torch.float32) * score_size(problem, step)
    assert_top_is_right(step, seen, 5, tolerance)
    assert seen.max_logit is not None
    assert seen_expected.max_logit is not None
    assert_close(seen.max_logit, seen_expected.max_logit, problem, score_size(problem, step))
    assert_contribution_is_right(problem, seen, 3, tolerance * largest(norms_of(problem)))


@on_each_backend
@given(data=st.data())
def test_keys_split_in_any_way_and_merged_in_any_order_are_the_whole(
    backend: str, data: st.DataObject
) -> None:
    problem = data.draw(problems())
    places = data.draw(st.permutations(cuts(data, problem.n_keys)))
    parts = [
        of_keys(problem, start, end, n == 0).observe(backend, OVER_KEYS)
        for n, (start, end) in enumerate(places)
    ]
    merged = regard.merge(parts, over="keys", starts=[start for start, _ in places])
    assert_is_the_whole(problem, backend, merged)


@on_each_backend
@given(data=st.data())
def test_weights_on_spans_of_split_keys_add_up(backend: str, data: st.DataObject) -> None:
    problem = data.draw(problems())
    labels = torch.arange(problem.n_keys) % 4 - 1  # the last ones may lack in the first parts
    labels = torch.where(torch.arange(problem.n_keys) < 3, -1, labels)
    places = cuts(data, problem.n_keys)
    parts = [
        of_keys(problem, start, end, n == 0).observe(backend, regard.See(spans=labels[start:end]))
        for n, (start, end) in enumerate(places)
    ]
    _, seen = regard.merge(parts, over="keys")
    _, whole = problem.observe(backend, regard.See(spans=labels))
    assert seen.spans is not None
    assert whole.spans is not None
    assert_close(seen.spans, whole.spans, problem)


@on_each_backend
@given(data=st.data())
def test_keys_merged_one_part_after_another_are_the_whole(
    backend: str, data: st.DataObject
) -> None:
    problem = data.draw(problems())
    places = cuts(data, problem.n_keys)
    merged: Part | None = None
    for start, end in places:
        part = of_keys(problem, start, end, start == 0 and merged is None)
        found = part.observe(backend, OVER_KEYS)
        merged = found if merged is None else regard.merge([merged, found], over="keys")
    assert merged is not None
    assert_is_the_whole(problem, backend, merged)


@on_each_backend
@given(data=st.data())
def test_queries_split_in_any_way_and_merged_in_any_order_are_the_whole(
    backend: str, data: st.DataObject
) -> None:
    problem = data.draw(problems())
    sight = data.draw(sights(problem))
    see = replace(sight.see, map=None)
    places = data.draw(st.permutations(cuts(data, problem.n_queries)))
    parts: list[Part] = []
    for start, end in places:
        queries = None if see.queries is None else see.queries[:, start:end]
        part = of_queries(problem, start, end)
        parts.append(part.observe(backend, replace(see, queries=queries)))
    output, seen = regard.merge(parts, over="queries", starts=[start for start, _ in places])
    expected, seen_expected = problem.observe(backend, see)
    assert_close(output, expected, problem, largest(problem.v))
    _, whole = problem.observe(backend, sight.see)
    assert_observation_is_right(problem, replace(seen, map=whole.map), sight)
    assert_close(seen.lse, seen_expected.lse, problem)


@on_each_backend
@given(data=st.data())
def test_maps_of_equal_parts_of_the_queries_are_stacked_to_the_map_of_the_whole(
    backend: str, data: st.DataObject
) -> None:
    problem = data.draw(problems(sizes=(2, 4, 6, 12, 18, 96, 102)))
    count = data.draw(st.sampled_from([n for n in (1, 2, 3, 6) if problem.n_queries % n == 0]))
    rows = data.draw(st.sampled_from((1, 2, 7)))
    length = problem.n_queries // count
    parts = [
        of_queries(problem, start, start + length).observe(backend, regard.See(map=(rows, 5)))
        for start in range(0, problem.n_queries, length)
    ]
    _, seen = regard.merge(parts)
    _, expected = problem.observe(backend, regard.See(map=(rows * count, 5)))
    assert seen.map is not None
    assert expected.map is not None
    assert_close(seen.map, expected.map, problem)


@on_each_backend
@given(data=st.data())
def test_a_prompt_in_chunks_on_the_keys_so_far_merges_to_causal_attention_at_once(
    backend: str, data: st.DataObject
) -> None:
    problem = data.draw(problems(by_key=False, square=True, anywhere=False))
    problem = problem.with_options(causal=True)
    sight = Sight(5, (1, 1), None)
    see = replace(sight.see, map=None)
    parts: list[Part] = []
    for start, end in cuts(data, problem.n_queries):
        chunk = replace(
            problem,
            q=problem.q[:, :, start:end],
            k=problem.k[:, :, :end],
            v=problem.v[:, :, :end],
        )
        parts.append(chunk.observe(backend, see))
    output, seen = regard.merge(parts)
    expected, whole = problem.observe(backend, sight.see)
    assert_close(output, expected, problem, largest(problem.v))
    assert_observation_is_right(problem, replace(seen, map=whole.map), sight)


@on_each_backend
@given(data=st.data())
def test_one_part_is_the_whole(backend: str, data: st.DataObject) -> None:
    problem = data.draw(problems())
    sight = data.draw(sights(problem))
    output, seen = problem.observe(backend, sight.see)
    merged, seen_merged = regard.merge([(output, seen)], over="queries")
    assert torch.equal(merged, output)
    for name in ("lse", "entropy", "top_keys", "top_weights", "map", "received", "distance"):
        assert torch.equal(getattr(seen_merged, name), getattr(seen, name)), name
    merged, _ = regard.merge([problem.observe(backend, OVER_KEYS)], over="keys")
    assert_same(backend, merged, output, problem)


@on_each_backend
def test_a_query_without_a_key_in_some_parts_or_in_all_has_no_nan(backend: str) -> None:
    q, k, v = (torch.randn(2, 3, n, 5) for n in (7, 11, 11))
    mask = torch.ones(7, 11, dtype=torch.bool)
    mask[:3, :6] = False
    mask[2:5, 6:] = False  # query 2 has no key at all
    parts = [
        regard.attention(
            q,
            k[:, :, part],
            v[:, :, part],
            mask=mask[:, part],
            position=4 - part.start,
            see=OVER_KEYS,
            backend=backend,
        )
        for part in (slice(0, 6), slice(6, 11))
    ]
    output, seen = regard.merge(parts, over="keys")
    for found in (output, seen.entropy, seen.distance, seen.top_weights):
        assert found is not None
        assert found.isfinite().all()
        assert not found[:, :, 2].any()
    assert seen.lse[:, :, 2].isneginf().all()
    assert not seen.lse.isnan().any()
    assert seen.top_keys is not None
    assert (seen.top_keys[:, :, 2] == -1).all()


@on_each_backend
def test_merging_over_keys_outputs_that_want_gradients_is_refused(backend: str) -> None:
    q, k, v = (torch.randn(1, 2, n, 3, requires_grad=True) for n in (5, 7, 7))
    parts = [
        regard.attention(q, k[:, :, part], v[:, :, part], see=regard.See(), backend=backend)
        for part in (slice(0, 4), slice(4, 7))
    ]
    with pytest.raises(ValueError, match="gradient"):
        regard.merge(parts, over="keys")


def part(
    n_queries: int = 5, n_keys: int = 7, see: regard.See | None = None, **options: Any
) -> Part:
    q, k = torch.randn(2, 3, n_queries, 4), torch.randn(2, 3, n_keys, 4)
    return regard.attention(q, k, k, see=see or regard.See(), **options)


SINKS = torch.zeros(3)
BAD: dict[str, tuple[Callable[[], Any], tuple[str, ...]]] = {
    "no part": (lambda: regard.merge([]), ("parts", "none")),
    "an unknown axis": (lambda: regard.merge([part()], over="heads"), ("over", "'heads'")),  # pyright: ignore[reportArgumentType]
    "a map over keys": (
        lambda: regard.merge([part(see=regard.See(map=(2, 2)))] * 2, over="keys"),
        ("map", "lse", "pooled"),
    ),
    "received over keys": (
        lambda: regard.merge([part(see=regard.See(received=True))] * 2, over="keys"),
        ("received", "lse"),
    ),
    "sinks twice": (lambda: regard.merge([part(sinks=SINKS)] * 2, over="keys"), ("sinks", "2")),
    "sight of some parts only": (
        lambda: regard.merge([part(), part(see=regard.See(entropy=True))]),
        ("entropy", "see"),
    ),
    "different numbers of top keys": (
        lambda: regard.merge([part(see=regard.See(top=2)), part(see=regard.See(top=3))]),
        ("top",),
    ),
    "too few starts": (lambda: regard.merge([part(), part()], starts=[0]), ("starts", "2")),
    "parts that overlap": (
        lambda: regard.merge([part(), part()], starts=[0, 3]),
        ("5", "3", "overlap"),
    ),
    "parts with a hole": (
        lambda: regard.merge([part(), part()], starts=[0, 6]),
        ("5", "6", "hole"),
    ),
    "other queries over keys": (
        lambda: regard.merge([part(), part(n_queries=6)], over="keys"),
        ("(2, 3, 5, 4)", "(2, 3, 6, 4)"),
    ),
    "distances from positions of no one whole": (
        lambda: regard.merge([part(see=regard.See(distance=True))] * 2, over="keys"),
        ("distance", "position"),
    ),
    "maps of unequal parts": (
        lambda: regard.merge(
            [part(n, see=regard.See(map=(2, 2)), position=0) for n in (5, 7)],
        ),
        ("map", "5 queries", "7 queries"),
    ),
}


@pytest.mark.parametrize("name", list(BAD))
def test_parts_that_do_not_make_a_whole_are_refused(name: str) -> None:
    call, words = BAD[name]
    with pytest.raises((ValueError, TypeError)) as refused:
        call()
    message = str(refused.value)
    assert message.startswith("merge(): ")
    for word in words:
        assert word in message, f"{word!r} is not in: {message}"
