"""The norms equal their formulas, in every dtype."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from helpers.formulas import array, close, norm, scrambled

from regard import reference
from regard.nn import LayerNorm, RMSNorm


@pytest.mark.parametrize("eps", [1e-5, 1e-12, 0.5])
def test_layer_norm_equals_the_reference(eps: float) -> None:
    layer = scrambled(LayerNorm(7, eps))
    x = 5 + 3 * torch.randn(2, 5, 7, dtype=torch.float64)
    gain, shift = array(layer.get_parameter("weight")), array(layer.get_parameter("bias"))
    close(layer(x), reference.layer_norm(array(x), gain, shift, eps))


@pytest.mark.parametrize("eps", [1e-5, 1e-12, 0.5])
def test_rms_norm_equals_its_formula(eps: float) -> None:
    layer = scrambled(RMSNorm(7, eps))
    x = 5 + 3 * torch.randn(2, 5, 7, dtype=torch.float64)
    close(layer(x), norm(layer, array(x)))
    close(layer.float()(x.float()), norm(layer, array(x.float())), 1e-5)


def test_rms_norm_sums_in_float32() -> None:
    layer = RMSNorm(4099).to(torch.float16)
    x = torch.full((1, 4099), 200.0, dtype=torch.float16)  # the squares' sum is past float16
    found = layer(x)
    assert found.dtype == torch.float16
    np.testing.assert_allclose(array(found), 1.0, rtol=1e-3)


def test_norms_begin_with_1_and_0() -> None:
    assert torch.equal(LayerNorm(5).weight, torch.ones(5))
    assert torch.equal(LayerNorm(5).bias, torch.zeros(5))
    assert torch.equal(RMSNorm(5).weight, torch.ones(5))
    assert list(RMSNorm(5).state_dict()) == ["weight"]


@pytest.mark.parametrize("kind", [LayerNorm, RMSNorm])
def test_a_vector_of_one_value_stays_finite_and_so_does_its_gradient(
    kind: type[LayerNorm | RMSNorm],
) -> None:
    x = torch.zeros(1, 5, requires_grad=True)
    y = kind(5)(x)
    assert torch.equal(y, torch.zeros(1, 5))
    y.sum().backward()
    assert x.grad is not None
    assert x.grad.isfinite().all()


@pytest.mark.parametrize("kind", [LayerNorm, RMSNorm])
def test_gradients_are_right(kind: type[LayerNorm | RMSNorm]) -> None:
    layer = scrambled(kind(5))
    x = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(layer, (x,))
