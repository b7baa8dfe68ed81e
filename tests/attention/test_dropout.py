"""Dropout: weights are dropped whole, the rest grow, and what is seen is of the weights before."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

import regard


def problem(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    """Values that are the identity, so that the output is the weights that were left."""
    random = torch.Generator().manual_seed(1)
    q, k = (torch.randn(2, 3, n, 5, generator=random, dtype=dtype) for n in (101, 67))
    return q, k, torch.eye(67, dtype=dtype).expand(2, 3, -1, -1)


@pytest.mark.parametrize("dropout", [0.1, 0.5, 0.9])
def test_each_weight_is_dropped_or_grows(dropout: float) -> None:
    torch.manual_seed(4)
    q, k, v = problem()
    left = regard.attention(q, k, v, dropout=dropout)
    kept = left != 0
    assert abs(float(kept.float().mean()) - (1 - dropout)) < 0.01
    grown = regard.attention(q, k, v) / (1 - dropout)
    torch.testing.assert_close(left[kept], grown[kept], rtol=1e-5, atol=1e-7)


def test_what_is_seen_is_of_the_weights_before_dropout() -> None:
    q, k, v = problem()
    see = regard.See(entropy=True, top=4, map=(3, 5), received=True, distance=True)
    _, seen = regard.attention(q, k, v, see=see, dropout=0.5)
    _, expected = regard.attention(q, k, v, see=see, backend="torch")
    for name in ("lse", "entropy", "top_keys", "top_weights", "map", "received", "distance"):
        assert torch.equal(getattr(seen, name), getattr(expected, name)), name


def test_the_same_seed_drops_the_same_and_another_call_does_not() -> None:
    q, k, v = problem()
    torch.manual_seed(7)
    first, second = (regard.attention(q, k, v, dropout=0.5) for _ in range(2))
    torch.manual_seed(7)
    again, _ = regard.attention(q, k, v, dropout=0.5, see=regard.See())
    assert torch.equal(first, again)
    assert not torch.equal(first, second)


def test_the_backward_pass_drops_what_the_forward_pass_dropped() -> None:
    q, k, v = (x.double().clone().requires_grad_() for x in problem())
    weights = (q @ k.transpose(-1, -2) / 5**0.5).softmax(dim=-1)
    left = regard.attention(q, k, v, dropout=0.5)
    kept = (left != 0).double() * 2
    flowing = torch.randn(left.shape, dtype=left.dtype)
    found = torch.autograd.grad(left, (q, k, v), flowing)
    expected = torch.autograd.grad((weights * kept) @ v, (q, k, v), flowing)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_no_dropout_draws_no_random_number() -> None:
    q, k, v = problem()
    torch.manual_seed(7)
    before = torch.get_rng_state()
    regard.attention(q, k, v, dropout=0.0, backend="torch", see=regard.See(top=1))
    assert torch.equal(torch.get_rng_state(), before)
