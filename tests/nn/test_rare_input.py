"""Modules that are printed, or given what few give them."""

from __future__ import annotations

from functools import partial

import pytest
import torch
from torch import nn
from torch.nn import functional

from regard.nn import Decoder, LanguageModel, LanguageModelConfig, StackConfig, from_torch

CONFIG = StackConfig(width=12, layers=1, heads=3)


def test_a_module_that_is_printed_says_its_sizes() -> None:
    config = LanguageModelConfig(
        vocabulary=11, width=12, layers=1, heads=3, kv_heads=1, norm="rms", activation="silu"
    )
    said = repr(LanguageModel(config))
    assert "12, heads=3, kv_heads=1\n" in said
    assert "activation=silu\n" in said
    assert "RMSNorm(12, eps=" in said
    assert "kv_heads" not in repr(Decoder(CONFIG, cross=False))


def test_a_memory_of_another_width_or_batch_is_refused() -> None:
    decoder, x = Decoder(CONFIG, cross=True), torch.zeros(2, 5, 12)
    for shape in ((2, 7, 13), (3, 7, 12), (7, 12)):
        with pytest.raises(
            ValueError, match=r"Decoder: memory must be \(B, M, width\) = \(2, M, 1"
        ):
            decoder(x, memory=torch.zeros(shape))


def test_a_mask_that_is_no_tensor_is_refused() -> None:
    decoder = Decoder(CONFIG, cross=False)
    with pytest.raises(TypeError, match=r"Decoder: mask must be a tensor; got list\."):
        decoder(torch.zeros(1, 2, 12), mask=[[True, True]])


def test_with_a_cache_lengths_are_refused() -> None:
    decoder = Decoder(CONFIG, cross=False)
    with pytest.raises(ValueError, match=r"Decoder: with a cache, give mask \(B, N\) in place of"):
        decoder(torch.zeros(1, 2, 12), lengths=torch.tensor([2]), cache=decoder.new_cache(1))


@pytest.mark.parametrize("approximate", ["none", "tanh"])
def test_an_activation_with_its_option_in_it_is_taken_over(approximate: str) -> None:
    activation = partial(functional.gelu, approximate=approximate)
    source = nn.TransformerEncoderLayer(12, 3, 17, activation=activation, batch_first=True).eval()
    x = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(7))
    torch.testing.assert_close(from_torch(source)(x), source(x), rtol=1e-5, atol=1e-5)


def test_no_layers_are_no_model() -> None:
    layer = nn.TransformerEncoderLayer(12, 3, 17, batch_first=True)
    with pytest.raises(ValueError, match=r"layers must be at least one; got none\."):
        from_torch(nn.TransformerEncoder(layer, 0, enable_nested_tensor=False))
