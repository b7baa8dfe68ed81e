"""The laws of attention, which hold for any numbers, on each backend."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
import torch
from helpers import by_hand
from helpers.attention_problems import (
    SMALL,
    Problem,
    assert_close,
    assert_right,
    assert_same,
    assert_same_bits,
    exponent_size,
    floor,
    largest,
    on_each_backend,
    parts,
    problems,
    sights,
    unit,
)
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import regard


def allowed_by(problem: Problem) -> Tensor:
    """(B, H, Nq, Nk): which keys a query may attend to."""
    return torch.from_numpy(np.array(problem.truth().allowed))


def has_key(problem: Problem) -> Tensor:
    """(B, H, Nq): which queries have a key to attend to."""
    return allowed_by(problem).any(dim=-1)


def by_head(problem: Problem, x: Tensor) -> Tensor:
    """(B, H, Nk, ·): a shared head repeated for each that uses it."""
    return x.repeat_interleave(problem.heads // x.shape[1], dim=1)


def whole_weights(problem: Problem, backend: str) -> Tensor:
    return regard.weights(problem.q, problem.k, backend=backend, **problem.options)


# ── weights ───────────────────────────────────────────────────────────────────────────────────


@on_each_backend
@given(data=st.data())
def test_rows_of_weights_sum_to_one_or_are_exactly_zero(backend: str, data: st.DataObject) -> None:
    problem = data.draw(problems(sinks=False, magnitudes=(0.1, 1.0, 1e3)))
    found, some = whole_weights(problem, backend), has_key(problem)
    # A weight is exp(score − lse), and lse is rounded in proportion to the scores.
    size = exponent_size(problem)
    assert ((found.double().sum(dim=-1)[some] - 1).abs() <= 8 * unit(found.dtype) * size).all()
    assert not found[~some].any()
    assert (found >= 0).all()
    assert not found[~allowed_by(problem)].any()


@on_each_backend
@given(data=st.data())
def test_with_a_sink_rows_sum_to_one_less_its_share(backend: str, data: st.DataObject) -> None:
    problem = data.draw(problems(sinks=False))
    sunk = problem.with_options(sinks=problem.normal(problem.heads))
    _, seen = sunk.observe(backend, regard.See())
    share = (sunk.options["sinks"][:, None] - seen.lse).exp()
    total = whole_weights(sunk, backend).sum(dim=-1) + share
    some = has_key(sunk)
    assert_close(total[some], torch.ones_like(total[some]), sunk)


@on_each_backend
@given(data=st.data())
def test_adding_a_constant_to_a_row_of_scores_changes_no_output(
    backend: str, data: st.DataObject
) -> None:
    problem = data.draw(problems(sinks=False))
    constant = problem.normal(problem.batch, problem.heads, problem.n_queries, 1) * 10
    moved = problem.with_options(bias=problem.options.get("bias", 0.0) + constant)
    output, seen = moved.observe(backend, regard.See())
    before, seen_before = problem.observe(backend, regard.See())
    assert_close(output, before, moved, largest(problem.v))
    assert_close(seen.lse, seen_before.lse + constant[..., 0], moved)


@on_each_backend
@pytest.mark.parametrize("size", [1e4, 1e30])
@given(data=st.data())
def test_logits_of_ten_thousand_and_more_stay_finite(
    backend: str, size: float, data: st.DataObject
) -> None:
    problem = data.draw(problems(positional=False, by_key=False, anywhere=False, layouts=False))
    raw = problem.truth(scale=1.0, softcap=None).scores
    scale = size / max(float(np.abs(raw).max()), 0.01)
    sight = data.draw(sights(problem))
    for signed in (scale, -scale):
        output, seen = problem.observe(backend, sight.see, scale=signed, softcap=None)
        for name, found in parts(output, seen).items():
            assert found.isfinite().all(), name
        weights = whole_weights(problem.with_options(scale=signed, softcap=None), backend)
        assert weights.isfinite().all()


# ── values ────────────────────────────────────────────────────────────────────────────────────


@on_each_backend
@given(data=st.data())
def test_outputs_lie_in_the_hull_of_the_allowed_values(backend: str, data: st.DataObject) -> None:
    problem = data.draw(problems(sinks=False, widths=(1, 3, 17)))
    output, some = problem.attend(backend), has_key(problem)
    allowed = allowed_by(problem)[..., None]
    values = by_head(problem, problem.v)[:, :, None]
    lowest = torch.where(allowed, values, math.inf).amin(dim=-2)
    highest = torch.where(allowed, values, -math.inf).amax(dim=-2)
    rounding = 64 * unit(output.dtype) * largest(problem.v)
    assert (output[some] >= lowest[some] - rounding).all()
    assert (output[some] <= highest[some] + rounding).all()
    assert not output[~some].any()


@on_each_backend
@given(data=st.data())
def test_the_output_is_linear_in_the_values(backend: str, data: st.DataObject) -> None:
    problem = data.draw(problems())
    a, b = (data.draw(st.floats(-3, 3, width=32)) for _ in range(2))
    other = replace(problem, v=problem.normal(*problem.v.shape))
    mixed = replace(problem, v=a * problem.v + b * other.v)
    expected = a * problem.attend(backend) + b * other.attend(backend)
    size = abs(a) * largest(problem.v) + abs(b) * largest(other.v)
    assert_close(mixed.attend(backend), expected, problem, size)


@on_each_backend
@given(data=st.data())
def test_a_constant_value_comes_out_as_it_is(backend: str, data: st.DataObject) -> None:
    problem = data.draw(problems(sinks=False))
    constant = data.draw(st.sampled_from((-1.0, 1.0))) * data.draw(st.floats(2**-10, 1e6, width=32))
    output = replace(problem, v=torch.full_like(problem.v, constant)).attend(backend)
    some = has_key(problem)
    assert ((output[some] - constant).abs() <= 64 * unit(output.dtype) * abs(constant)).all()
    assert not output[~some].any()


@on_each_backend
@given(data=st.data())
def test_keys_of_zero_give_the_mean_of_the_allowed_values(
    backend: str, data: st.DataObject
) -> None:
    problem = data.draw(problems(sinks=False))
    if (bias := problem.options.get("bias")) is not None:
        problem = problem.with_options(bias=torch.where(bias.isneginf(), bias, 0.0))
    flat = replace(problem, k=torch.zeros_like(problem.k))
    allowed = allowed_by(problem).double()
    total = allowed @ by_head(problem, problem.v).double()
    mean = total / allowed.sum(dim=-1, keepdim=True).clamp(min=1)
    assert_close(flat.attend(backend), mean.float(), flat, largest(problem.v))


@on_each_backend
@given(data=st.data())
def test_one_key_alone_returns_its_value_exactly(backend: str, data: st.DataObject) -> None:
    problem = data.draw(
        problems(n_keys=1, positional=False, by_key=False, anywhere=False, sinks=False)
    )
    values = by_head(problem, problem.v)
    expected = values.expand(-1, -1, problem.n_queries, -1)
    assert torch.equal(problem.attend(backend), expected)


# ── order and independence ────────────────────────────────────────────────────────────────────


@on_each_backend
@given(data=st.data())
def test_permuting_queries_permutes_outputs(backend: str, data: st.DataObject) -> None:
    problem = data.draw(problems(positional=False, anywhere=False))
    sight = data.draw(sights(problem))
    order = torch.from_numpy(problem.random.permutation(problem.n_queries))
    options = {
        name: given[..., order, :] if given.ndim > 1 and given.shape[-2] > 1 else given
        for name, given in problem.options.items()
        if name in ("mask", "bias", "indices")
    }
    permuted = replace(problem, q=problem.q[:, :, order]).with_options(**options)
    output, seen = permuted.observe(backend, sight.see)
    before, seen_before = problem.observe(backend, sight.see)
    assert_same(backend, output, before[:, :, order], problem)
    for name in ("lse", "entropy", "top_weights"):
        found, expected = getattr(seen, name), getattr(seen_before, name)[:, :, order]
        assert_same(backend, found, expected, problem)
    if backend == "native":
        assert seen.top_keys is not None
        assert seen_before.top_keys is not None
        assert_same_bits(seen.top_keys, seen_before.top_keys[:, :, order])


@on_each_backend
@given(data=st.data())
def test_permuting_keys_and_values_together_changes_nothing(
    backend: str, data: st.DataObject
) -> None:
    problem = data.draw(problems(positional=False)).with_options(lengths=None)
    order = torch.from_numpy(problem.random.permutation(problem.n_keys))
    options = {
        name: given[..., order] if given.ndim and given.shape[-1] > 1 else given
        for name, given in problem.options.items()
        if name in ("mask", "bias")
    }
    if (chosen := problem.options.get("indices")) is not None:
        options["indices"] = torch.where(chosen >= 0, order.argsort()[chosen.clamp(min=0)], -1)
    permuted = replace(problem, k=problem.k[:, :, order], v=problem.v[:, :, order])
    permuted = permuted.with_options(**options)
    see = regard.See(entropy=True, received=True)
    output, seen = permuted.observe(backend, see)
    before, seen_before = problem.observe(backend, see)
    assert_close(output, before, problem, largest(problem.v))
    assert_close(seen.lse, seen_before.lse, problem)
    assert seen.entropy is not None
    assert seen_before.entropy is not None
    assert_close(seen.entropy, seen_before.entropy, problem, 6)
    assert seen.received is not None
    assert seen_before.received is not None
    assert_close(seen.received, seen_before.received[..., order], problem, problem.n_queries)


@on_each_backend
@given(data=st.data())
def test_with_causal_a_later_token_changes_no_earlier_output(
    backend: str, data: st.DataObject
) -> None:
    problem = data.draw(problems(square=True, anywhere=False)).with_options(causal=True)
    j = data.draw(st.integers(0, problem.n_keys - 1))
    sight = data.draw(sights(problem))
    q, k, v = (x.clone() for x in (problem.q, problem.k, problem.v))
    for x in (q, k, v):
        x[:, :, j:] = problem.normal(*x[:, :, j:].shape) * 1e3
    changed = replace(problem, q=q, k=k, v=v)
    before = parts(*problem.observe(backend, sight.see))
    after = parts(*changed.observe(backend, sight.see))
    for name in ("output", "lse", "entropy", "distance", "top_weights"):
        assert_same(backend, after[name][:, :, :j], before[name][:, :, :j], problem)


@on_each_backend
@given(data=st.data())
def test_sequences_and_heads_do_not_know_of_each_other(backend: str, data: st.DataObject) -> None:
    problem = data.draw(problems(batch=2))
    sight = data.draw(sights(problem))
    b = data.draw(st.integers(0, 1))
    h = data.draw(st.integers(0, problem.heads - 1))
    shared = h // (problem.heads // problem.k.shape[1])
    options = dict(problem.options)
    for name in ("mask", "bias"):
        if name in options:
            options[name] = options[name].expand(problem.square)[b : b + 1, h : h + 1]
    if "indices" in options:
        chosen = options["indices"]
        options["indices"] = chosen.expand(*problem.square[:3], -1)[b : b + 1, h : h + 1]
    if "segments" in options:
        options["segments"] = tuple(ids[b : b + 1] for ids in options["segments"])
    if "lengths" in options:
        options["lengths"] = options["lengths"][b : b + 1]
    if "sinks" in options:
        options["sinks"] = options["sinks"][h : h + 1]
    alone = Problem(
        problem.q[b : b + 1, h : h + 1],
        problem.k[b : b + 1, shared : shared + 1],
        problem.v[b : b + 1, shared : shared + 1],
        options,
        problem.random,
    )
    queries = None if sight.queries is None else sight.queries[b : b + 1]
    of_whole = parts(*problem.observe(backend, sight.see))
    labels = sight.labels
    if labels is not None and labels.dim() == 2:
        labels = labels[b : b + 1]
    of_one = parts(*alone.observe(backend, sight._replace(queries=queries, labels=labels).see))
    assert_same(backend, of_one["output"][0, 0], of_whole["output"][b, h], problem)
    if backend == "native":
        for name, found in of_one.items():
            assert_same_bits(found[0, 0], of_whole[name][b, h])


@on_each_backend
@given(data=st.data())
def test_strides_do_not_matter(backend: str, data: st.DataObject) -> None:
    problem = data.draw(problems())
    sight = data.draw(sights(problem))
    packed = replace(
        problem,
        q=problem.q.clone(memory_format=torch.contiguous_format),
        k=problem.k.clone(memory_format=torch.contiguous_format),
        v=problem.v.clone(memory_format=torch.contiguous_format),
        options={
            name: given.clone(memory_format=torch.contiguous_format)
            if isinstance(given, Tensor)
            else given
            for name, given in problem.options.items()
        },
    )
    found = parts(*problem.observe(backend, sight.see))
    expected = parts(*packed.observe(backend, sight.see))
    assert_same(backend, found["output"], expected["output"], problem)
    if backend == "native":
        for name in found:
            assert_same_bits(found[name], expected[name])


@on_each_backend
@given(data=st.data())
def test_grouped_heads_are_repeated_keys_and_values(backend: str, data: st.DataObject) -> None:
    problem = data.draw(problems())
    repeated = replace(problem, k=by_head(problem, problem.k), v=by_head(problem, problem.v))
    assert_same(backend, problem.attend(backend), repeated.attend(backend), problem)


# ── the same thing said in two ways ───────────────────────────────────────────────────────────


@on_each_backend
@given(data=st.data())
def test_a_boolean_mask_is_a_bias_of_zero_and_minus_infinity(
    backend: str, data: st.DataObject
) -> None:
    problem = data.draw(problems())
    mask = problem.flags(problem.heads, 1, problem.n_keys, share=0.6)
    own_mask, own_bias = problem.options.get("mask", True), problem.options.get("bias", 0.0)
    as_mask = problem.with_options(mask=mask & own_mask)
    as_bias = problem.with_options(bias=torch.where(mask, 0.0, -math.inf) + own_bias)
    see = regard.See(entropy=True, top=3)
    output, seen = as_mask.observe(backend, see)
    other, seen_other = as_bias.observe(backend, see)
    assert_close(output, other, as_mask, largest(problem.v))
    assert_close(seen.lse, seen_other.lse, as_mask)


@on_each_backend
@given(data=st.data())
def test_causal_window_and_lengths_are_an_explicit_mask(backend: str, data: st.DataObject) -> None:
    problem = data.draw(problems(by_key=False)).with_options(causal=True)
    n_queries, n_keys = problem.n_queries, problem.n_keys
    window, position = problem.options.get("window"), problem.options.get("position")
    lengths = problem.random.integers(0, n_keys + 2, size=problem.batch)
    by_position = [
        [by_hand.may_attend(i, j, n_queries, n_keys, True, window, position) for j in range(n_keys)]
        for i in range(n_queries)
    ]
    real = np.arange(n_keys) < lengths[:, None, None, None]
    mask = torch.from_numpy(np.array(by_position).reshape(n_queries, n_keys) & real)
    flagged = problem.with_options(lengths=torch.from_numpy(lengths))
    masked = problem.with_options(causal=False, window=None, mask=mask)
    assert torch.equal(allowed_by(masked), mask.expand(problem.square))
    see = regard.See(entropy=True, distance=True)
    output, seen = flagged.observe(backend, see)
    other, seen_other = masked.observe(backend, see)
    assert_close(output, other, problem, largest(problem.v))
    assert_close(seen.lse, seen_other.lse, problem)
    assert seen.distance is not None
    assert seen_other.distance is not None
    assert_close(seen.distance, seen_other.distance, problem, n_keys + n_queries)


@on_each_backend
@given(data=st.data())
def test_a_window_of_all_positions_is_no_window(backend: str, data: st.DataObject) -> None:
    problem = data.draw(problems(anywhere=False)).with_options(causal=False, window=None)
    reach = max(problem.n_queries, problem.n_keys) + data.draw(st.integers(0, 5))
    full = problem.attend(backend)
    assert_same(backend, problem.attend(backend, window=(reach, reach)), full, problem)
    causal = problem.attend(backend, causal=True)
    for window in ((reach, 0), (None, 0), (reach, None), (None, reach), (None, None)):
        found = problem.attend(backend, causal=True, window=window)
        assert_same(backend, found, causal, problem)
    assert_same(backend, problem.attend(backend, window=(reach, 0)), causal, problem)


@on_each_backend
@given(data=st.data())
def test_queries_stand_at_the_end_of_the_keys_unless_told(
    backend: str, data: st.DataObject
) -> None:
    problem = data.draw(problems(anywhere=False))
    at_the_end = problem.n_keys - problem.n_queries
    told = problem.attend(backend, position=at_the_end)
    assert_same_bits(problem.attend(backend, position=None), told)
    assert_same_bits(problem.attend(backend), told)


@on_each_backend
@given(data=st.data())
def test_padding_on_the_left_behind_a_mask_changes_nothing(
    backend: str, data: st.DataObject
) -> None:
    problem = data.draw(problems(by_key=False, anywhere=False))
    padding = data.draw(st.integers(1, 20))

    def padded(x: Tensor) -> Tensor:
        filler = problem.normal(problem.batch, x.shape[1], padding, x.shape[3]) * 100
        return torch.cat([filler, x], dim=2)

    real = torch.arange(padding + problem.n_keys) >= padding
    mask = real.expand(problem.batch, 1, 1, -1)
    on_the_left = replace(problem, k=padded(problem.k), v=padded(problem.v))
    see = regard.See(entropy=True, distance=True)
    output, seen = on_the_left.observe(backend, see, mask=mask)
    expected, seen_expected = problem.observe(backend, see)
    assert_close(output, expected, problem, largest(problem.v))
    assert_close(seen.lse, seen_expected.lse, problem)
    assert seen.distance is not None
    assert seen_expected.distance is not None
    away = problem.n_keys + problem.n_queries
    assert_close(seen.distance, seen_expected.distance, problem, away)


@on_each_backend
@given(data=st.data())
def test_padding_on_the_right_beyond_the_lengths_changes_nothing(
    backend: str, data: st.DataObject
) -> None:
    problem = data.draw(problems(by_key=False, anywhere=False))
    padding = data.draw(st.integers(1, 20))

    def padded(x: Tensor) -> Tensor:
        return torch.cat([x, x.new_full((*x.shape[:2], padding, x.shape[3]), math.nan)], dim=2)

    position = problem.n_keys - problem.n_queries  # as if there were no padding
    on_the_right = replace(problem, k=padded(problem.k), v=padded(problem.v))
    lengths = torch.full((problem.batch,), problem.n_keys)
    found = on_the_right.attend(backend, lengths=lengths, position=position)
    assert_close(found, problem.attend(backend), problem, largest(problem.v))


@on_each_backend
@given(data=st.data())
def test_queries_in_chunks_on_the_keys_so_far_are_causal_attention_at_once(
    backend: str, data: st.DataObject
) -> None:
    problem = data.draw(problems(by_key=False, square=True, anywhere=False))
    problem = problem.with_options(causal=True)
    see = regard.See(entropy=True, distance=True)
    whole = problem.observe(backend, see)
    start = 0
    while start < problem.n_queries:
        end = int(problem.random.integers(start, problem.n_queries)) + 1
        chunk = replace(
            problem,
            q=problem.q[:, :, start:end],
            k=problem.k[:, :, :end],
            v=problem.v[:, :, :end],
        )
        output, seen = chunk.observe(backend, see)
        assert_close(output, whole[0][:, :, start:end], problem, largest(problem.v))
        assert_close(seen.lse, whole[1].lse[:, :, start:end], problem)
        assert seen.distance is not None
        assert whole[1].distance is not None
        assert_close(seen.distance, whole[1].distance[:, :, start:end], problem, problem.n_keys)
        start = end


@on_each_backend
@given(data=st.data())
def test_decoding_from_a_cache_one_query_at_a_time_is_recomputing(
    backend: str, data: st.DataObject
) -> None:
    problem = data.draw(
        problems(by_key=False, square=True, anywhere=False, sizes=(*SMALL, 17, 33), batch=2)
    ).with_options(causal=True)
    whole = problem.attend(backend)
    # A cache is longer than what it holds: what lies beyond is whatever was there.
    spare = [x.new_full((*x.shape[:2], 64, x.shape[3]), math.nan) for x in (problem.k, problem.v)]
    for i in range(problem.n_queries):
        for cache, x in zip(spare, (problem.k, problem.v), strict=True):
            cache[:, :, i] = x[:, :, i]
        step = replace(
            problem,
            q=problem.q[:, :, i : i + 1],
            k=spare[0][:, :, : i + 1],
            v=spare[1][:, :, : i + 1],
        )
        assert_close(step.attend(backend), whole[:, :, i : i + 1], problem, largest(problem.v))
        in_place = replace(step, k=spare[0], v=spare[1])
        lengths = torch.full((problem.batch,), i + 1)
        found = in_place.attend(backend, lengths=lengths, position=i)
        assert_close(found, whole[:, :, i : i + 1], problem, largest(problem.v))


# ── what attention did ────────────────────────────────────────────────────────────────────────


@on_each_backend
@given(data=st.data())
def test_all_that_is_received_is_the_number_of_queries_with_a_key_that_count(
    backend: str, data: st.DataObject
) -> None:
    problem = data.draw(problems(sinks=False))
    sight = data.draw(sights(problem))
    _, seen = problem.observe(backend, sight.see)
    counted = has_key(problem)
    if sight.queries is not None:
        counted = counted & sight.queries[:, None]
    assert seen.received is not None
    total = seen.received.sum(dim=-1)
    assert_close(total, counted.sum(dim=-1).to(total), problem, problem.n_queries)


@on_each_backend
@given(data=st.data())
def test_rows_of_a_map_sum_to_one_or_are_exactly_zero(backend: str, data: st.DataObject) -> None:
    problem = data.draw(problems(sinks=False))
    sight = data.draw(sights(problem))
    _, seen = problem.observe(backend, sight.see)
    counted = has_key(problem)
    if sight.queries is not None:
        counted = counted & sight.queries[:, None]
    assert seen.map is not None
    row_of_query = torch.arange(problem.n_queries) * sight.map[0] // problem.n_queries
    for r in range(sight.map[0]):
        some = counted[..., row_of_query == r].any(dim=-1)
        total = seen.map[..., r, :].sum(dim=-1)
        assert_close(total, some.to(total), problem)
        assert not seen.map[..., r, :][~some].any()


@on_each_backend
@given(data=st.data())
def test_entropy_is_between_zero_and_the_logarithm_of_the_number_of_allowed_keys(
    backend: str, data: st.DataObject
) -> None:
    problem = data.draw(problems(sinks=False, magnitudes=(0.1, 1.0, 1e3)))
    _, seen = problem.observe(backend, regard.See(entropy=True))
    number = torch.from_numpy(problem.truth().allowed.sum(axis=-1))
    most = number.clamp(min=1).to(seen.lse).log()
    assert seen.entropy is not None
    assert (seen.entropy >= 0).all()
    assert (seen.entropy <= most + 64 * unit(seen.entropy.dtype) * 6).all()
    assert not seen.entropy[number == 0].any()


@on_each_backend
@given(data=st.data())
def test_equal_scores_have_the_entropy_of_all_allowed_keys_and_name_different_ones(
    backend: str, data: st.DataObject
) -> None:
    problem = data.draw(problems(sinks=False)).with_options(scale=0.0, bias=None)
    _, seen = problem.observe(backend, regard.See(entropy=True, top=8))
    number = torch.from_numpy(problem.truth().allowed.sum(axis=-1))
    most = number.clamp(min=1).to(seen.lse).log()
    assert seen.entropy is not None
    assert ((seen.entropy - most).abs() <= 64 * unit(most.dtype)).all()
    assert seen.top_keys is not None
    for row, count in zip(seen.top_keys.reshape(-1, 8).tolist(), number.flatten(), strict=True):
        named = [j for j in row if j >= 0]
        assert len(set(named)) == len(named) == min(8, int(count))


@on_each_backend
@given(data=st.data())
def test_scores_that_rise_along_the_row_name_the_last_keys_first(
    backend: str, data: st.DataObject
) -> None:
    n_keys = data.draw(st.sampled_from((1, 7, 16, 17, 255, 257, 521)))
    n_queries = data.draw(st.sampled_from((1, 5, 7, 97)))
    descending = data.draw(st.booleans())
    k = torch.arange(n_keys, dtype=torch.float32)[None, None, :, None] / 64
    q = torch.full((1, 1, n_queries, 1), -1.0 if descending else 1.0)
    _, seen = regard.attention(q, k, k, scale=1.0, see=regard.See(top=8), backend=backend)
    order = list(range(n_keys)) if descending else list(range(n_keys))[::-1]
    expected = (order + [-1] * 8)[:8]
    assert seen.top_keys is not None
    assert seen.top_keys.reshape(-1, 8).tolist() == [expected] * n_queries


@on_each_backend
@given(data=st.data())
def test_lse_is_the_logarithm_of_the_sum_of_exponentials_in_float64(
    backend: str, data: st.DataObject
) -> None:
    problem = data.draw(problems(magnitudes=(1.0, 6.0, 1e3)))
    _, seen = problem.observe(backend, regard.See())
    allowance = unit(torch.float32) * floor(problem)
    assert_right("lse", seen.lse, problem.truth().lse, problem.eager.lse, allowance)
