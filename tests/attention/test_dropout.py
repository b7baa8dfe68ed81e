"""Dropout: weights are dropped whole, the rest grow, and what is seen is of the weights before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from helpers.attention_problems import (
    Problem,
    assert_right,
    assert_same_bits,
    floor,
    largest,
    on_each_backend,
    parts,
    threads,
    unit,
)
from helpers.kernels import KERNELS, using
from torch import Tensor
from torch.utils.checkpoint import checkpoint

import regard
from regard._attention import native
from regard._attention.problem import Tile

SEEN = regard.See(entropy=True, top=4, map=(3, 5), received=True, distance=True)
N_KEYS = 283  # more than a block


def problem(
    n_queries: int = 101, n_keys: int = 67, dtype: torch.dtype = torch.float32
) -> tuple[Tensor, Tensor, Tensor]:
    """Values that are the identity, so that the output is the weights that were left."""
    random = torch.Generator().manual_seed(1)
    q, k = (
        torch.randn(2, heads, n, 5, generator=random, dtype=dtype)
        for heads, n in ((6, n_queries), (3, n_keys))
    )
    return q, k, torch.eye(n_keys, dtype=dtype).expand(2, 3, -1, -1)


def options(n_queries: int, n_keys: int) -> dict[str, dict[str, Any]]:
    random = torch.Generator().manual_seed(2)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=random)

    return {
        "plain": {},
        "causal": {"causal": True},
        "window": {"window": (31, 7)},
        "mask": {"mask": normal(2, 1, n_queries, n_keys) > 0},
        "bias": {"bias": normal(6, n_queries, n_keys)},
        "lengths": {"lengths": torch.tensor([n_keys - 20, 3])},
        "sinks": {"sinks": normal(6)},
        "softcap": {"softcap": 2.0},
    }


on_each_option = pytest.mark.parametrize("name", options(1, 1))


@on_each_backend
@pytest.mark.parametrize("dropout", [0.1, 0.5, 0.9])
def test_each_weight_is_dropped_or_grows(backend: str, dropout: float) -> None:
    torch.manual_seed(4)
    q, k, v = problem()
    left = regard.attention(q, k, v, dropout=dropout, backend=backend)
    kept = left != 0
    assert abs(float(kept.float().mean()) - (1 - dropout)) < 0.01
    grown = regard.attention(q, k, v) / (1 - dropout)
    torch.testing.assert_close(left[kept], grown[kept], rtol=1e-5, atol=1e-7)


@on_each_option
@pytest.mark.parametrize("n_queries", [3, 101])
def test_the_native_backend_drops_the_same_with_all_options(name: str, n_queries: int) -> None:
    q, k, v = problem(n_queries, N_KEYS)
    given = options(n_queries, N_KEYS)[name]
    whole = regard.attention(q, k, v, backend="native", **given)
    torch.manual_seed(11)
    left = regard.attention(q, k, v, dropout=0.25, backend="native", **given)
    torch.manual_seed(11)
    kept = regard.attention(q, k, v, dropout=0.25, backend="native") != 0
    torch.testing.assert_close(left, whole * kept / 0.75, rtol=1e-6, atol=1e-7)


@on_each_backend
def test_on_average_nothing_changes(backend: str) -> None:
    q, k, v = problem(7, 13)
    whole = regard.attention(q, k, v, backend=backend)
    torch.manual_seed(5)
    calls = 2003
    total = sum(
        (regard.attention(q, k, v, dropout=0.3, backend=backend) for _ in range(calls)),
        torch.zeros_like(whole),
    )
    # Of one weight w, dropped or grown, the standard deviation is w · √(p / (1 − p)).
    deviation = whole * (0.3 / 0.7 / calls) ** 0.5
    assert ((total / calls - whole).abs() <= 4.5 * deviation).all()


@on_each_backend
def test_what_is_seen_is_of_the_weights_before_dropout(backend: str) -> None:
    q, k, v = problem()
    dropped = regard.attention(q, k, v, see=SEEN, dropout=0.5, backend=backend)
    whole = regard.attention(q, k, v, see=SEEN, backend=backend)
    found, expected = parts(*dropped), parts(*whole)
    assert len(found) == 8
    for name, one in found.items():
        assert torch.equal(one, expected[name]) == (name != "output"), name


@on_each_backend
def test_the_same_seed_drops_the_same_and_another_call_does_not(backend: str) -> None:
    q, k, v = problem()
    torch.manual_seed(7)
    first, second = (regard.attention(q, k, v, dropout=0.5, backend=backend) for _ in range(2))
    torch.manual_seed(7)
    again, _ = regard.attention(q, k, v, dropout=0.5, see=regard.See(), backend=backend)
    assert torch.equal(first, again)
    assert not torch.equal(first, second)


def test_the_backward_pass_drops_what_the_forward_pass_dropped() -> None:
    q, k, v = (x.double().clone().requires_grad_() for x in problem())
    weights = (q @ k.repeat_interleave(2, 1).transpose(-1, -2) / 5**0.5).softmax(dim=-1)
    left = regard.attention(q, k, v, dropout=0.5)
    kept = (left != 0).double() * 2
    flowing = torch.randn(left.shape, dtype=left.dtype)
    found = torch.autograd.grad(left, (q, k, v), flowing)
    expected = torch.autograd.grad((weights * kept) @ v.repeat_interleave(2, 1), (q, k, v), flowing)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


@on_each_option
@pytest.mark.parametrize("n_queries", [3, 101])
def test_gradients_of_the_native_backend_are_as_right_as_eager_ones(
    name: str, n_queries: int
) -> None:
    """Also where the torch backend makes them: of bias and sinks, and with a softcap."""
    q, k, identity = problem(n_queries, N_KEYS)
    v = torch.randn(2, 3, N_KEYS, 11)
    flowing = torch.randn(2, 6, n_queries, 11)
    given = options(n_queries, N_KEYS)[name]
    torch.manual_seed(13)
    kept = regard.attention(q, k, identity, dropout=0.3, backend="native") != 0

    def inputs(dtype: torch.dtype) -> tuple[Problem, list[Tensor]]:
        tensors = [x.detach().to(dtype).requires_grad_() for x in (q, k, v)]
        also = {
            key: x.to(dtype).requires_grad_() if key in ("bias", "sinks") else x
            for key, x in given.items()
        }
        made = Problem(*tensors, also, np.random.default_rng(1))  # pyright: ignore[reportCallIssue]
        return made, tensors + [x for key, x in also.items() if key in ("bias", "sinks")]

    def by_hand(dtype: torch.dtype) -> tuple[Tensor, ...]:
        made, leaves = inputs(dtype)
        weights = made.eager.weights * kept / 0.7
        output = weights @ made.v.repeat_interleave(2, 1)
        return torch.autograd.grad(output, leaves, flowing.to(dtype))

    made, leaves = inputs(torch.float32)
    torch.manual_seed(13)
    output = regard.attention(made.q, made.k, made.v, dropout=0.3, backend="native", **made.options)
    found = torch.autograd.grad(output, leaves, flowing)
    size = unit(torch.float32) * floor(made) * largest(flowing)
    for one, exact, eager in zip(
        found, by_hand(torch.float64), by_hand(torch.float32), strict=True
    ):
        expected = exact.numpy()
        assert_right("a gradient", one, expected, eager, size * largest(expected), factor=3)


def pulled(backend: str = "native", batch: int = 2, **given: Any) -> tuple[Tensor, ...]:
    """Output and gradients, always of the same seed."""
    torch.manual_seed(17)
    flowing = torch.randn(2, 6, 101, 67)[:batch]
    leaves = [x[:batch].clone().requires_grad_() for x in problem()]
    torch.manual_seed(19)
    output = regard.attention(*leaves, dropout=0.4, backend=backend, **given)
    return output, *torch.autograd.grad(output, leaves, flowing)


@pytest.mark.parametrize("given", [{}, {"softcap": 2.0}], ids=["native", "torch backward"])
def test_no_bit_depends_on_threads_the_batch_or_the_operator(given: dict[str, Any]) -> None:
    expected = pulled(**given)
    for count in (1, 2, 4):
        with threads(count):
            for one, other in zip(pulled(**given), expected, strict=True):
                assert_same_bits(one, other)
    for one, other in zip(pulled(batch=1, **given), expected, strict=True):
        assert_same_bits(one, other[:1])
    with torch.device("cpu"):  # a mode, under which the operators are called
        for one, other in zip(pulled(**given), expected, strict=True):
            assert_same_bits(one, other)


def test_every_build_of_the_kernel_drops_the_same() -> None:
    expected = pulled()[0] != 0
    for kernel in KERNELS:
        with using(kernel):
            assert torch.equal(pulled()[0] != 0, expected)


def test_recomputed_activations_drop_the_same() -> None:
    # The first pass of a checkpoint is without gradients, the second with them.
    q, k, v = problem()
    options: list[dict[str, Any]] = [{}, {"bias": torch.zeros(101, 67, requires_grad=True)}]
    for given in options:
        leaves = [x.clone().requires_grad_() for x in (q, k, v)]
        torch.manual_seed(23)
        output = checkpoint(regard.attention, *leaves, dropout=0.5, use_reentrant=False, **given)
        assert isinstance(output, Tensor)
        found = torch.autograd.grad(output, leaves, torch.ones_like(output))
        torch.manual_seed(23)
        plain = regard.attention(*leaves, dropout=0.5, **given)
        assert_same_bits(output, plain)
        expected = torch.autograd.grad(plain, leaves, torch.ones_like(output))
        for one, other in zip(found, expected, strict=True):
            assert_same_bits(one, other)


def test_queries_of_width_zero_drop_what_their_gradients_drop() -> None:
    v = torch.eye(67).expand(1, 1, -1, -1).clone().requires_grad_()
    left = regard.attention(torch.ones(1, 1, 5, 0), torch.ones(1, 1, 67, 0), v, dropout=0.5)
    (found,) = torch.autograd.grad(left, v, torch.eye(5, 67).expand_as(left))
    assert torch.equal(found[0, 0, :, :5] != 0, (left[0, 0] != 0).mT)


def test_a_value_that_is_not_finite_is_not_hidden_by_dropout() -> None:
    q, k, v = (x.clone() for x in problem())
    v[0, 1, 5, 3] = torch.nan
    torch.manual_seed(3)
    spoilt = regard.attention(q, k, v, dropout=0.5, backend="native").isnan()
    assert spoilt[0, 2:4, :, 3].all()
    assert spoilt.sum() == 2 * 101


def test_what_is_kept_of_a_tile_is_its_part_of_the_whole() -> None:
    seed = torch.tensor(2**62 - 1)
    whole = native.kept((3, 2, 31, 41), Tile(0, 31, 0, 41), 0.5, seed)
    assert set(whole.unique().tolist()) == {0.0, 2.0}
    part = native.kept((2, 2, 31, 41), Tile(7, 24, 11, 40), 0.5, seed, first=1)
    assert torch.equal(part, whole[1:, :, 7:24, 11:40])


def test_no_dropout_draws_no_random_number() -> None:
    q, k, v = problem()
    torch.manual_seed(7)
    before = torch.get_rng_state()
    regard.attention(q, k, v, dropout=0.0, backend="torch", see=regard.See(top=1))
    assert torch.equal(torch.get_rng_state(), before)
