"""How weights begin: as docs/nn.md says, told by statistics over large matrices."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from regard.nn import (
    Decoder,
    DecoderLayer,
    Encoder,
    EncoderModel,
    EncoderModelConfig,
    HeadLinear,
    LanguageModel,
    LanguageModelConfig,
    LayerNorm,
    Learned,
    NotesNorm,
    PostNorm,
    PreNorm,
    RelativeBias,
    Residual,
    RMSNorm,
    StackConfig,
    Transformer,
    TransformerConfig,
)

SIZES: dict[str, Any] = {"width": 192, "heads": 4, "hidden": 384, "layers": 3}
ENDS = ("w_o", "w_out")


def spread(weight: Tensor, sigma: float) -> None:
    """Assert that numbers are normal around 0 with this σ, as far as their count can tell."""
    count = weight.numel()
    assert count > 5_000
    five = 5 / math.sqrt(count)  # five standard errors
    assert abs(weight.mean().item()) < five * sigma
    assert abs(weight.std().item() / sigma - 1) < five
    within = (weight.abs() < sigma).double().mean().item()
    assert abs(within - 0.6827) < five  # so that it is not uniform


def begun(model: nn.Module, branches: int) -> set[str]:
    """Check every matrix and bias of a model; the names of those that end a sublayer."""
    ends = set()
    for name, part in model.named_modules():
        if isinstance(part, nn.Linear | HeadLinear) and name != "head":
            last = name.endswith(ENDS)
            ends |= {name} if last else set()
            inputs = part.weight.shape[-1]
            spread(part.weight, 1 / math.sqrt(inputs * (branches if last else 1)))
            assert part.bias is None or part.bias.count_nonzero() == 0
        elif isinstance(part, LayerNorm):
            assert torch.equal(part.weight, torch.ones_like(part.weight))
            assert part.bias.count_nonzero() == 0
        elif isinstance(part, RMSNorm):
            assert torch.equal(part.weight, torch.ones_like(part.weight))
        elif isinstance(part, nn.Embedding):
            spread(part.weight, 1 / math.sqrt(192))
    return ends


@pytest.mark.parametrize(
    ("residual", "branches"), [(PreNorm(), 6), (PostNorm(), 1), (NotesNorm(), 1)]
)
def test_matrices_begin_by_their_inputs_and_under_pre_norm_by_their_number(
    residual: Residual, branches: int
) -> None:
    torch.manual_seed(1)
    ends = begun(Encoder(StackConfig(**SIZES, residual=residual)), branches)
    assert len(ends) == 6


@pytest.mark.parametrize(
    "options",
    [
        {"split": "slices", "activation": "swiglu", "norm": "rms"},
        {"value_rank": 96, "kv_heads": 2},
        {"position": Learned(97), "segments": 53},
    ],
)
def test_every_kind_of_part_begins_so(options: dict[str, Any]) -> None:
    torch.manual_seed(2)
    model = EncoderModel(EncoderModelConfig(**SIZES, vocabulary=101, **options))
    begun(model, 6)
    if "position" in options:
        spread(model.get_parameter("embedding.positions.weight"), 1 / math.sqrt(192))


def test_tables_and_heads_begin_alike_tied_or_not() -> None:
    torch.manual_seed(3)
    for tied in (True, False):
        config = LanguageModelConfig(
            **SIZES, vocabulary=101, tied=tied, head_bias=True, position=RelativeBias()
        )
        model = LanguageModel(config)
        begun(model, 6)
        spread(model.head.weight, 1 / math.sqrt(192))
        assert model.head.bias.count_nonzero() == 0
        assert model.get_parameter("decoder.positions.weight").count_nonzero() == 0


def test_each_stack_counts_its_own_sublayers() -> None:
    torch.manual_seed(4)
    model = Transformer(TransformerConfig(**SIZES, vocabulary=101, decoder_layers=2))
    begun(model.encoder, 2 * 3)
    begun(model.decoder, 3 * 2)
    model = Transformer(TransformerConfig(**SIZES, vocabulary=101, decoder_layers=5))
    begun(model.encoder, 2 * 3)
    assert len(begun(model.decoder, 3 * 5)) == 15
    begun(Decoder(StackConfig(**SIZES)), 3 * 3)
    begun(DecoderLayer(StackConfig(**SIZES), cross=False), 2 * 3)


def test_variance_is_kept_through_a_deep_stack() -> None:
    torch.manual_seed(5)
    config = StackConfig(width=192, heads=4, layers=12, final_norm=False)
    x = torch.randn(2, 61, 192)
    with torch.no_grad():
        y = Encoder(config)(x)
    assert 0.5 < y.std().item() < 2.0


def test_a_seed_makes_the_same_model() -> None:
    made = []
    for _ in range(2):
        torch.manual_seed(7)
        made.append(LanguageModel(LanguageModelConfig(vocabulary=11, width=6, heads=3)))
    one, two = (model.state_dict() for model in made)
    assert all(torch.equal(one[name], two[name]) for name in one)
