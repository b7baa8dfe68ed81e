"""PyTorch's causal biases, tensors without numbers, mean what they mean in PyTorch."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention.bias import CausalBias, causal_lower_right, causal_upper_left

import regard

LENGTHS = [(5, 5), (5, 11), (1, 7)]
Made = Callable[[int, int], CausalBias]


def inputs(n_queries: int, n_keys: int) -> tuple[Tensor, Tensor, Tensor]:
    q = torch.randn(2, 3, n_queries, 7)
    return q, torch.randn(2, 3, n_keys, 7), torch.randn(2, 3, n_keys, 7)


@pytest.mark.parametrize("made", [causal_upper_left, causal_lower_right])
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_sdpa_takes_a_causal_bias_as_pytorch_does(
    made: Made, lengths: tuple[int, int], dtype: torch.dtype
) -> None:
    q, k, v = (x.to(dtype).requires_grad_() for x in inputs(*lengths))
    expected = F.scaled_dot_product_attention(q, k, v, made(*lengths))
    found = regard.scaled_dot_product_attention(q, k, v, attn_mask=made(*lengths))
    assert type(found) is Tensor
    assert torch.allclose(found, expected, atol=1e-5)
    grad = torch.randn_like(expected)
    for a, b in zip(
        torch.autograd.grad(found, (q, k, v), grad),
        torch.autograd.grad(expected, (q, k, v), grad),
        strict=True,
    ):
        assert torch.allclose(a, b, atol=1e-4)


@pytest.mark.parametrize("name", ["mask", "bias"])
@pytest.mark.parametrize("made", [causal_upper_left, causal_lower_right])
@pytest.mark.parametrize("lengths", LENGTHS)
def test_attention_weights_and_pooled_take_one_as_mask_or_bias(
    name: str, made: Made, lengths: tuple[int, int]
) -> None:
    q, k, v = inputs(*lengths)
    mask = torch.ones(lengths, dtype=torch.bool)
    mask = mask.tril(lengths[1] - lengths[0] if made is causal_lower_right else 0)
    given: dict[str, Any] = {name: made(*lengths)}
    see = regard.See(entropy=True, received=True)
    expected, looked = regard.attention(q, k, v, mask=mask, see=see)
    found, seen = regard.attention(q, k, v, see=see, **given)
    assert torch.allclose(found, expected, atol=1e-6)
    assert seen.received is not None
    assert looked.received is not None
    assert torch.allclose(seen.received, looked.received, atol=1e-5)
    assert torch.allclose(regard.weights(q, k, **given), regard.weights(q, k, mask=mask), atol=1e-6)
    picture = regard.pooled(q, k, shape=(3, 2), **given)
    assert torch.allclose(picture, regard.pooled(q, k, mask=mask, shape=(3, 2)), atol=1e-6)


@pytest.mark.parametrize("made", [causal_upper_left, causal_lower_right])
def test_a_model_with_a_causal_bias_is_watched_as_it_runs(made: Made) -> None:
    class Model(torch.nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(q, k, v, attn_mask=made(5, 11))

    given, model = inputs(5, 11), Model()
    expected = model(*given)
    with regard.watch(model, keep=("q", "k")) as run:
        found = model(*given)
    assert type(found) is Tensor
    assert torch.allclose(found, expected, atol=1e-5)
    weights = run.weights(0)[0]
    allowed = torch.ones(5, 11).tril(6 if made is causal_lower_right else 0) > 0
    assert torch.equal(torch.as_tensor(weights)[0] > 0, allowed)


def test_queries_that_a_lower_right_bias_leaves_no_key_get_0() -> None:
    q, k, v = inputs(7, 5)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch warns of NaNs, which it no longer makes
        bias = causal_lower_right(7, 5)
    found = regard.scaled_dot_product_attention(q, k, v, attn_mask=bias)
    assert not found[:, :, :2].any()
    assert torch.allclose(found, F.scaled_dot_product_attention(q, k, v, bias), atol=1e-5)


def test_a_causal_bias_of_other_lengths_or_beside_another_alignment_is_refused() -> None:
    q, k, v = inputs(5, 11)
    with pytest.raises(RuntimeError, match=r"bias must be for \(Nq, Nk\) = \(5, 11\)"):
        regard.scaled_dot_product_attention(q, k, v, attn_mask=causal_lower_right(5, 7))
    with pytest.raises(ValueError, match="CausalBias should not be used with causal=True"):
        regard.scaled_dot_product_attention(q, k, v, causal_upper_left(5, 11), is_causal=True)
    with pytest.raises(ValueError, match="bias puts query 0 at 0; got causal=True"):
        regard.attention(q, k, v, bias=causal_upper_left(5, 11), causal=True)
    with pytest.raises(ValueError, match="mask puts query 0 at 6; got position=2"):
        regard.attention(q, k, v, mask=causal_lower_right(5, 11), position=2)
    both = regard.attention(q, k, v, bias=causal_lower_right(5, 11), causal=True)
    assert torch.equal(both, regard.attention(q, k, v, causal=True))
