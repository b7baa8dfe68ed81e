"""Weights on spans of keys, the keys that move an output most, the largest logit: by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.attention_problems import error, numbers, on_each_backend, unit
from torch import Tensor, nn

import regard
from regard import reference


def made(*sizes: int, dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    batch, heads, kv_heads, n_queries, n_keys, width = sizes
    random = torch.Generator().manual_seed(7)
    shapes = ((heads, n_queries), (kv_heads, n_keys), (kv_heads, n_keys))
    q, k, v = (torch.randn(batch, *shape, width, generator=random, dtype=dtype) for shape in shapes)
    return q, k, v


@on_each_backend
def test_norms_that_are_given_take_the_place_of_those_of_the_values(backend: str) -> None:
    q, k, v = made(2, 6, 3, 5, 11, 7)
    norms = torch.rand(2, 6, 11) * 5
    norms[:, 1, 4] = 0.0  # of one head of a group
    see = regard.See(contribution=11, norms=norms)
    _, seen = regard.attention(q, k, v, see=see, backend=backend)
    weights = reference.attention(*map(numbers, (q, k, v))).weights
    keys, sizes = reference.contribution(weights, numbers(norms), 11)
    assert seen.contribution is not None
    assert seen.contribution_keys is not None
    np.testing.assert_array_equal(seen.contribution_keys.numpy(), keys)
    assert error(seen.contribution, sizes) <= 64 * unit(torch.float32) * sizes.max()
    assert (seen.contribution_keys[:, 1, :, -1] == -1).all()
    assert (seen.contribution_keys[:, 0] >= 0).all()


@on_each_backend
@pytest.mark.parametrize("size", [1e-30, 1e-12, 1.0, 1e15, 1e30])
def test_values_of_any_size_are_compared_by_their_lengths(backend: str, size: float) -> None:
    q, k, v = made(1, 2, 2, 7, 13, 5)
    v = v * size
    _, seen = regard.attention(q, k, v, see=regard.See(contribution=4), backend=backend)
    weights = reference.attention(*map(numbers, (q, k, v))).weights
    norms = np.linalg.norm(numbers(v).astype(np.float64), axis=-1)
    keys, sizes = reference.contribution(weights, norms, 4)
    assert seen.contribution is not None
    assert seen.contribution_keys is not None
    np.testing.assert_array_equal(seen.contribution_keys.numpy(), keys)
    # log2 ‖v‖ is added to a score: of a very large one fewer digits are left.
    assert error(seen.contribution, sizes) <= 256 * unit(torch.float32) * sizes.max()


@on_each_backend
@pytest.mark.parametrize("n_queries", [3, 29])
def test_a_value_that_is_not_finite_comes_first_and_one_of_zeros_is_not_named(
    backend: str, n_queries: int
) -> None:
    q, k, v = made(1, 1, 1, n_queries, 5, 7)
    v[0, 0, 3, 2], v[0, 0, 1] = torch.inf, 0.0
    see = regard.See(contribution=5)
    _, seen = regard.attention(q, k, v, see=see, backend=backend, causal=True)
    assert seen.contribution is not None
    assert seen.contribution_keys is not None
    last, before = n_queries - 1, n_queries - 3  # which sees all keys, and which up to key 2
    assert seen.contribution_keys[0, 0, last, 0] == 3
    assert seen.contribution[0, 0, last, 0].isnan()
    assert set(seen.contribution_keys[0, 0, last].tolist()) == {3, 0, 2, 4, -1}
    assert set(seen.contribution_keys[0, 0, before].tolist()) == {0, 2, -1}
    assert seen.contribution[0, 0, before].isfinite().all()


@on_each_backend
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("length", [1, 2, 20011])  # interleaved, or one span alone
def test_equal_weights_of_many_keys_are_added_up_as_well_as_those_of_few(
    backend: str, dtype: torch.dtype, length: int
) -> None:
    n_keys = 20011
    q, k = torch.ones(1, 1, 5, 1, dtype=dtype), torch.ones(1, 1, n_keys, 1, dtype=dtype)
    labels = torch.arange(n_keys) // length % 2
    see = regard.See(spans=labels, n_spans=2)
    _, seen = regard.attention(q, k, k, scale=0.0, see=see, backend=backend)
    assert seen.spans is not None
    truth = np.bincount(labels.numpy(), minlength=2) / n_keys
    assert error(seen.spans[0, 0], np.broadcast_to(truth, (5, 2))) <= 8 * unit(dtype)


@on_each_backend
def test_a_sink_takes_from_spans_and_contributions_and_not_from_the_largest_logit(
    backend: str,
) -> None:
    q, k, v = made(1, 3, 1, 5, 7, 11)
    labels, sinks = torch.tensor([0, 0, 1, 1, 1, -1, 0]), torch.tensor([-1.0, 2.0, 9.0])
    see = regard.See(spans=labels, contribution=2, max_logit=True)
    _, seen = regard.attention(q, k, v, sinks=sinks, see=see, backend=backend)
    whole = reference.attention(*map(numbers, (q, k, v)), sinks=numbers(sinks))
    assert seen.max_logit is not None
    assert seen.spans is not None
    assert seen.contribution is not None
    assert error(seen.max_logit, reference.max_logit(whole.scaled)) <= 1e-6
    assert error(seen.spans, reference.spans(whole.weights, labels)) <= 1e-6
    norms = np.repeat(np.linalg.norm(numbers(v), axis=-1), 3, axis=1)
    assert error(seen.contribution, reference.contribution(whole.weights, norms, 2)[1]) <= 1e-5


def test_what_does_not_fit_is_refused_in_words() -> None:
    q, k, v = made(2, 3, 3, 5, 7, 11)
    labels = torch.zeros(7, dtype=torch.int64)
    for see, words in (
        (regard.See(spans=labels[:6]), r"spans must be \(Nk,\) or \(B, Nk\), with B = 2, Nk = 7"),
        (regard.See(spans=labels.expand(3, 7)), r"got \(3, 7\)"),
        (regard.See(spans=labels - 2, n_spans=3), "from −1 to 2"),
        (regard.See(spans=labels + 3, n_spans=3), "got 3"),
        (regard.See(contribution=1, norms=torch.ones(2, 3, 6)), r"see.norms must be \(B, H, Nk\)"),
    ):
        with pytest.raises((ValueError, TypeError), match=words):
            regard.attention(q, k, v, see=see)
    for given, words in (
        ({"spans": torch.zeros(7)}, "whole numbers"),
        ({"spans": [0, 1]}, "tensor of whole numbers"),
        ({"n_spans": 2}, "must come with spans"),
        ({"norms": torch.ones(1, 1, 7)}, "must come with contribution"),
        ({"contribution": -1}, "contribution must be from 0"),
        ({"max_logit": 1}, "max_logit"),
    ):
        with pytest.raises((ValueError, TypeError), match=words):
            regard.See(**given)  # pyright: ignore[reportArgumentType]


def test_labels_that_change_after_they_were_given_are_looked_at_again() -> None:
    q, k, v = made(1, 1, 1, 3, 5, 7)
    labels = torch.tensor([0, 1, 0, 1, 0])
    see = regard.See(spans=labels)
    labels[2] = 40
    with pytest.raises(ValueError, match="from −1 to 1"):
        regard.attention(q, k, v, see=see)


def test_they_are_the_same_where_gradients_or_a_compiler_look_on() -> None:
    q, k, v = made(1, 2, 2, 37, 41, 8)
    see = regard.See(spans=torch.arange(41) % 3, contribution=3, max_logit=True)
    _, plain = regard.attention(q, k, v, see=see, causal=True)
    _, training = regard.attention(q.clone().requires_grad_(), k, v, see=see, causal=True)
    compiled = torch.compile(
        lambda q, k, v: regard.attention(q, k, v, see=see, causal=True), backend="aot_eager"
    )
    _, traced = compiled(q, k, v)
    for name in ("spans", "contribution_keys", "contribution", "max_logit"):
        expected = getattr(plain, name)
        assert torch.equal(getattr(training, name), expected)
        assert torch.equal(getattr(traced, name), expected)


class _Layer(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        split = x.unflatten(-1, (2, -1)).transpose(1, 2)
        return regard.attention(split, split, split, causal=True).transpose(1, 2).flatten(2)


def test_a_watched_model_tells_them_of_its_tokens() -> None:
    x = torch.randn(2, 13, 8)
    labels = torch.tensor([0] * 4 + [1] * 5 + [-1] * 4)
    see = regard.See(spans=labels, contribution=2, max_logit=True)
    model = _Layer()
    with regard.watch(model, see=see) as run:
        model(x)
    seen = run.layer(0).seen
    q = numbers(x.unflatten(-1, (2, -1)).transpose(1, 2))
    whole = reference.attention(q, q, q, causal=True)
    assert seen.spans is not None
    assert seen.max_logit is not None
    assert error(seen.spans, reference.spans(whole.weights, labels)) <= 1e-6
    assert error(seen.max_logit, reference.max_logit(whole.scaled, whole.allowed)) <= 1e-5
    with pytest.raises(ValueError, match=r"see.norms must be None"):
        regard.watch(model, see=regard.See(contribution=1, norms=torch.ones(2, 2, 13)))
