"""Converted from PyTorch's modules, ours give the same outputs and the same gradients."""

from __future__ import annotations

from typing import Any
from unittest.mock import patch

import pytest
import torch
from helpers.parity_checks import TOLERANCES, assert_alike, assert_near, filled, random
from torch import Tensor, nn

from regard.nn import from_torch, to_torch
from regard.nn.convert.pytorch import rows_of

B, N, M, HEADS, WIDTH, HIDDEN = 2, 5, 7, 3, 15, 11
REAL = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
REAL_MEMORY = torch.tensor([[True] * 4 + [False] * 3, [True] * 7])
FUTURE = torch.ones(N, N, dtype=torch.bool).triu(1)  # what PyTorch hides

both_dtypes = pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
both_modes = pytest.mark.parametrize("training", [True, False], ids=["train", "eval"])
both_orders = pytest.mark.parametrize("norm_first", [True, False], ids=["pre", "post"])


def options(**more: Any) -> dict[str, Any]:
    return {
        "d_model": WIDTH,
        "nhead": HEADS,
        "dim_feedforward": HIDDEN,
        "dropout": 0.0,
        "batch_first": True,
    } | more


@both_dtypes
@both_modes
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no_bias"])
@pytest.mark.parametrize("hidden", ["nothing", "future", "padding", "both"])
def test_attention_is_pytorchs(dtype: torch.dtype, training: bool, bias: bool, hidden: str) -> None:
    theirs = filled(nn.MultiheadAttention(WIDTH, HEADS, bias=bias, batch_first=True, dtype=dtype))
    theirs.train(training)
    ours = from_torch(theirs)
    x = random(B, N, WIDTH, seed=3, dtype=dtype)
    causal, padded = hidden in ("future", "both"), hidden in ("padding", "both")
    mask = REAL[:, None, None, :] if padded else None
    assert_alike(
        rows_of(ours),
        ours,
        theirs,
        lambda: ours(x, causal=causal, mask=mask)[REAL],
        lambda: theirs(
            x,
            x,
            x,
            attn_mask=FUTURE if causal else None,
            key_padding_mask=~REAL if padded else None,
            need_weights=False,
        )[0][REAL],
        tolerance=TOLERANCES[dtype],
        inputs=[x],
    )


@both_dtypes
@pytest.mark.parametrize("context_width", [WIDTH, 13])
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no_bias"])
def test_cross_attention_is_pytorchs(dtype: torch.dtype, context_width: int, bias: bool) -> None:
    theirs = nn.MultiheadAttention(
        WIDTH, HEADS, bias=bias, kdim=context_width, vdim=context_width, dtype=dtype
    )
    ours = from_torch(filled(theirs))
    x = random(B, N, WIDTH, seed=3, dtype=dtype)
    y = random(B, M, context_width, seed=5, dtype=dtype)

    def run_theirs() -> Tensor:  # its second axis is the batch: that is layout, nothing else
        first = x.transpose(0, 1), y.transpose(0, 1), y.transpose(0, 1)
        return theirs(*first, key_padding_mask=~REAL_MEMORY)[0].transpose(0, 1)

    assert_alike(
        rows_of(ours),
        ours,
        theirs,
        lambda: ours(x, context=y, mask=REAL_MEMORY[:, None, None, :]),
        run_theirs,
        tolerance=TOLERANCES[dtype],
        inputs=[x, y],
    )


@both_dtypes
@both_modes
@both_orders
@pytest.mark.parametrize(
    "more",
    [{"activation": "relu"}, {"activation": "gelu", "bias": False}, {"layer_norm_eps": 1e-2}],
    ids=["relu", "gelu_no_bias", "eps"],
)
def test_an_encoder_layer_is_pytorchs(
    dtype: torch.dtype, training: bool, norm_first: bool, more: dict[str, Any]
) -> None:
    theirs = nn.TransformerEncoderLayer(**options(norm_first=norm_first, dtype=dtype, **more))
    filled(theirs).train(training)
    ours = from_torch(theirs)
    x = random(B, N, WIDTH, seed=3, dtype=dtype)
    assert_alike(
        rows_of(ours),
        ours,
        theirs,
        lambda: ours(x, mask=REAL[:, None, None, :])[REAL],
        lambda: theirs(x, src_key_padding_mask=~REAL)[REAL],
        tolerance=TOLERANCES[dtype],
        inputs=[x],
    )


@pytest.mark.parametrize(
    "activation",
    [nn.ReLU(), nn.GELU(), nn.GELU("tanh"), nn.SiLU(), torch.nn.functional.silu],
    ids=["ReLU", "GELU", "GELU tanh", "SiLU", "silu"],
)
def test_every_activation_that_has_a_counterpart_is_found(activation: Any) -> None:
    theirs = filled(nn.TransformerEncoderLayer(**options(activation=activation))).double()
    ours = from_torch(theirs)
    x = random(B, N, WIDTH, seed=3, dtype=torch.float64)
    for module in (theirs, to_torch(ours)):
        assert_near(module(x), ours(x), 1e-12, "output")


@both_dtypes
@both_modes
@both_orders
@pytest.mark.parametrize("bias", [True, False], ids=["bias", "no_bias"])
def test_a_decoder_layer_is_pytorchs(
    dtype: torch.dtype, training: bool, norm_first: bool, bias: bool
) -> None:
    theirs = nn.TransformerDecoderLayer(**options(norm_first=norm_first, bias=bias, dtype=dtype))
    filled(theirs).train(training)
    ours = from_torch(theirs)
    x = random(B, N, WIDTH, seed=3, dtype=dtype)
    y = random(B, M, WIDTH, seed=5, dtype=dtype)
    keys, memory_keys = REAL[:, None, None, :], REAL_MEMORY[:, None, None, :]
    assert_alike(
        rows_of(ours),
        ours,
        theirs,
        lambda: ours(x, memory=y, mask=keys, memory_mask=memory_keys)[REAL],
        lambda: theirs(x, y, **their_masks())[REAL],
        tolerance=TOLERANCES[dtype],
        inputs=[x, y],
    )


@both_dtypes
@both_modes
@both_orders
@pytest.mark.parametrize("ends", [True, False], ids=["norm", "no_norm"])
def test_an_encoder_is_pytorchs(
    dtype: torch.dtype, training: bool, norm_first: bool, ends: bool
) -> None:
    layer = nn.TransformerEncoderLayer(**options(norm_first=norm_first))
    norm = nn.LayerNorm(WIDTH) if ends else None
    theirs = filled(nn.TransformerEncoder(layer, 2, norm, enable_nested_tensor=False)).to(dtype)
    ours = from_torch(theirs.train(training))
    x = random(B, N, WIDTH, seed=3, dtype=dtype)
    assert_alike(
        rows_of(ours),
        ours,
        theirs,
        lambda: ours(x, mask=REAL)[REAL],
        lambda: theirs(x, src_key_padding_mask=~REAL)[REAL],
        tolerance=TOLERANCES[dtype],
        inputs=[x],
    )


@both_dtypes
@both_modes
@both_orders
@pytest.mark.parametrize("ends", [True, False], ids=["norm", "no_norm"])
def test_a_decoder_is_pytorchs(
    dtype: torch.dtype, training: bool, norm_first: bool, ends: bool
) -> None:
    layer = nn.TransformerDecoderLayer(**options(norm_first=norm_first))
    theirs = filled(nn.TransformerDecoder(layer, 2, nn.LayerNorm(WIDTH) if ends else None))
    ours = from_torch(theirs.to(dtype).train(training))
    x = random(B, N, WIDTH, seed=3, dtype=dtype)
    y = random(B, M, WIDTH, seed=5, dtype=dtype)
    assert_alike(
        rows_of(ours),
        ours,
        theirs,
        lambda: ours(x, memory=y, lengths=REAL.sum(1), memory_mask=REAL_MEMORY)[REAL],
        lambda: theirs(x, y, **their_masks())[REAL],
        tolerance=TOLERANCES[dtype],
        inputs=[x, y],
    )


@both_dtypes
@both_modes
def test_encoder_and_decoder_are_pytorchs_transformer(dtype: torch.dtype, training: bool) -> None:
    theirs = nn.Transformer(
        14,
        2,
        num_encoder_layers=1,
        num_decoder_layers=2,
        dim_feedforward=HIDDEN,
        dropout=0.0,
        batch_first=True,
        dtype=dtype,
    )
    encoder, decoder = from_torch(filled(theirs).train(training))
    x = random(B, N, 14, seed=3, dtype=dtype)
    y = random(B, M, 14, seed=5, dtype=dtype)

    def run_theirs() -> Tensor:
        return theirs(
            y,
            x,
            tgt_mask=FUTURE,
            src_key_padding_mask=~REAL_MEMORY,
            tgt_key_padding_mask=~REAL,
            memory_key_padding_mask=~REAL_MEMORY,
        )[REAL]

    def run_ours() -> Tensor:
        memory = encoder(y, mask=REAL_MEMORY)
        return decoder(x, memory=memory, mask=REAL, memory_mask=REAL_MEMORY)[REAL]

    for ours, part in ((encoder, theirs.encoder), (decoder, theirs.decoder)):
        for module in (encoder, decoder, theirs):
            module.zero_grad()
        assert_alike(
            rows_of(ours),
            ours,
            part,
            run_ours,
            run_theirs,
            tolerance=TOLERANCES[dtype],
            inputs=[x, y],
        )


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_an_encoder_layer_is_what_pytorchs_fast_path_computes(activation: str) -> None:
    theirs = nn.TransformerEncoderLayer(**options(d_model=14, nhead=2, activation=activation))
    ours = from_torch(filled(theirs).eval())
    x = random(B, N, 14, seed=3, dtype=torch.float32, trained=False)
    fast = vars(torch)["_transformer_encoder_layer_fwd"]
    with (
        torch.no_grad(),
        patch("torch._transformer_encoder_layer_fwd", side_effect=fast) as ran,
    ):
        for module in (theirs, to_torch(ours)):
            expected = module(x, src_key_padding_mask=~REAL)[REAL]
            assert_near(ours(x, mask=REAL[:, None, None, :])[REAL], expected, 1e-5, "output")
    assert ran.call_count == 2


def test_attention_is_what_pytorchs_fast_path_computes() -> None:
    theirs = filled(nn.MultiheadAttention(14, 2, batch_first=True)).eval()
    ours = from_torch(theirs)
    x = random(B, N, 14, seed=3, dtype=torch.float32, trained=False)
    fast = vars(torch)["_native_multi_head_attention"]
    with (
        torch.no_grad(),
        patch("torch._native_multi_head_attention", side_effect=fast) as ran,
    ):
        expected = theirs(x, x, x, key_padding_mask=~REAL)[0][REAL]
    assert_near(ours(x, mask=REAL[:, None, None, :])[REAL], expected, 1e-5, "output")
    assert ran.call_count == 1


def their_masks() -> dict[str, Tensor]:
    return {
        "tgt_mask": FUTURE,
        "tgt_key_padding_mask": ~REAL,
        "memory_key_padding_mask": ~REAL_MEMORY,
    }
