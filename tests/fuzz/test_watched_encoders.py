"""PyTorch's encoders, layers and attention with every kind of mask: watched is as unwatched."""

from __future__ import annotations

import random
import warnings
from typing import Any

import pytest
import torch
from helpers.soak import attacks
from torch import Tensor, nn

import regard

B, N, WIDTH, HEADS = 3, 7, 12, 4


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # many small calls wait for each other otherwise
    yield
    torch.set_num_threads(threads)


def made(choose: random.Random) -> tuple[nn.Module, bool]:
    """An encoder, a layer or attention alone, and whether the batch is the first axis."""
    torch.manual_seed(choose.randrange(9))
    batch_first = choose.random() < 0.8
    kind = choose.choice(("encoder", "encoder", "layer", "attention"))
    if kind == "attention":
        model: nn.Module = nn.MultiheadAttention(WIDTH, HEADS, batch_first=batch_first)
    else:
        options: dict[str, Any] = {
            "norm_first": choose.random() < 0.3,
            "activation": choose.choice(("relu", "gelu")),
            "batch_first": batch_first,
            "dropout": 0.0,
        }
        model = nn.TransformerEncoderLayer(WIDTH, HEADS, 17, **options)
        if kind == "encoder":
            norm = nn.LayerNorm(WIDTH) if choose.random() < 0.5 else None
            check = choose.random() < 0.8
            model = nn.TransformerEncoder(
                model, 2, norm, enable_nested_tensor=choose.random() < 0.8, mask_check=check
            )
    for parameter in model.parameters():
        nn.init.uniform_(parameter, -0.5, 0.5)
    return model.train(choose.random() < 0.2), batch_first


def masks(choose: random.Random) -> dict[str, Tensor]:
    given: dict[str, Tensor] = {}
    padding = torch.zeros(B, N, dtype=torch.bool)
    kind = choose.choice(("none", "right", "right", "all", "left", "holes"))
    if kind in ("right", "all"):
        for row in range(kind != "all", B):
            padding[row, choose.randrange(1, N) :] = True
    elif kind == "left":
        padding[1, : choose.randrange(1, N)] = True
    elif kind == "holes":
        padding[1, choose.randrange(1, N)] = True
    is_float = choose.random() < 0.3
    if kind != "none":
        added = torch.zeros(B, N).masked_fill(padding, -torch.inf)
        given["padding"] = added if is_float else padding
    if choose.random() < 0.4:
        shut = torch.ones(N, N, dtype=torch.bool).triu(choose.choice((1, 1, 2)))
        given["mask"] = torch.zeros(N, N).masked_fill(shut, -torch.inf) if is_float else shut
    return given


def outcome(
    model: nn.Module, x: Tensor, given: dict[str, Tensor], is_causal: bool | None
) -> Tensor | str:
    mask, padding = given.get("mask"), given.get("padding")
    hint = {} if is_causal is None else {"is_causal": is_causal}
    try:
        if isinstance(model, nn.MultiheadAttention):
            return model(x, x, x, padding, attn_mask=mask, **hint)[0]
        return model(x, mask, padding, **hint)
    except (RuntimeError, ValueError, TypeError, AssertionError) as error:
        return f"{type(error).__name__}: {error}"


@pytest.mark.filterwarnings("ignore:watch\\(\\)")
def test_a_watched_encoder_gives_what_it_gives_unwatched_also_at_padding() -> None:
    for choose in attacks(100):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of PyTorch, which has much to say of nested tensors
            model, batch_first = made(choose)
            given = masks(choose)
            x = torch.randn(B, N, WIDTH, generator=torch.Generator().manual_seed(3))
            x = x if batch_first else x.transpose(0, 1)
            with torch.set_grad_enabled(choose.random() < 0.3):
                hint = choose.choice((None, None, True, False))
                expected = outcome(model, x, given, hint)
                with regard.watch(model, regard.See(entropy=True)):
                    found = outcome(model, x, given, hint)
        said = f"{model}, {given}"
        if isinstance(expected, str) or isinstance(found, str):
            assert type(expected) is type(found), f"{said}: {expected}, {found}"
            continue
        known = ~expected.isnan()
        assert bool(((found - expected)[known].abs() < 1e-4).all()), said
