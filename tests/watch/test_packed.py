"""Sequences packed into one, as transformers' collator packs them, are watched as such."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    DataCollatorWithFlattening,
    LlamaConfig,
    LlamaForCausalLM,
    MistralConfig,
    MistralForCausalLM,
    masking_utils,
)

import regard
from regard._watch.hugging_face_masks import MaskFunction, Pattern

LENGTHS = (7, 13, 1, 5)
SMALL: dict[str, Any] = {
    "vocab_size": 97,
    "hidden_size": 48,
    "intermediate_size": 64,
    "num_hidden_layers": 2,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
}


def model(window: int | None, implementation: str) -> Any:
    torch.manual_seed(2)
    if window is None:
        made = LlamaForCausalLM(LlamaConfig(**SMALL))
    else:
        made = MistralForCausalLM(MistralConfig(**SMALL, sliding_window=window))
    made.set_attn_implementation(implementation)
    return made.eval()


def packed() -> tuple[list[list[int]], dict[str, Any]]:
    generator = torch.Generator().manual_seed(1)
    texts = [torch.randint(97, (n,), generator=generator).tolist() for n in LENGTHS]
    collate = DataCollatorWithFlattening(return_flash_attn_kwargs=True)
    return texts, {**collate([{"input_ids": text} for text in texts]), "use_cache": False}


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("window", [None, 5])
def test_a_pack_of_texts_is_seen_as_each_text_alone(
    window: int | None, implementation: str
) -> None:
    watched = model(window, implementation)
    texts, batch = packed()
    with torch.no_grad():
        blind = watched(**batch).logits
        with regard.watch(watched, keep=("q", "k")) as run:
            logits = watched(**batch).logits
        torch.testing.assert_close(logits, blind, rtol=2e-5, atol=2e-6)
        assert not run.unseen
        start = 0
        for text in texts:
            part = slice(start, start + len(text))
            with regard.watch(watched) as alone:
                watched(torch.tensor([text]), use_cache=False)
            for name, layer in alone.layers.items():
                for share in ("first", "self", "previous", "induction"):
                    found = run.layers[name].shares[share][:, :, part]
                    expected = layer.shares[share]
                    torch.testing.assert_close(
                        found, expected, rtol=1e-4, atol=1e-5, equal_nan=True
                    )
                for field in ("entropy", "distance", "lse"):
                    found = getattr(run.layers[name], field)[:, :, part]
                    torch.testing.assert_close(found, getattr(layer, field), rtol=1e-4, atol=1e-5)
            start += len(text)


def test_its_weights_are_those_of_eager_and_survive_a_file(tmp_path: Path) -> None:
    watched = model(None, "eager")
    _, batch = packed()
    with torch.no_grad():
        expected = watched(**batch, output_attentions=True).attentions
        with regard.watch(watched, keep=("q", "k")) as run:
            watched(**batch)
    run.save(tmp_path / "run")
    for found in (run, regard.load(tmp_path / "run")):
        for layer, weights in zip(found.layers.values(), expected, strict=True):
            assert layer.options.segments is not None
            assert layer.options.mask is None  # nothing of N × N is kept
            torch.testing.assert_close(layer.weights(), weights, rtol=1e-5, atol=1e-6)
            rows = layer.weights(rows=(3, 17), head=4)
            torch.testing.assert_close(rows, weights[:, 4, 3:17], rtol=1e-5, atol=1e-6)
        assert len(found.edges(0.5)) == sum(int((weights >= 0.5).sum()) for weights in expected)


@pytest.mark.parametrize("jumps", [False, True])
def test_positions_that_jump_within_a_sequence_are_no_distances_between_tokens(
    jumps: bool,
) -> None:
    """A window counts transformers' own positions; only if they go up by one are they ours."""
    given: dict[str, Any] = {
        "batch_size": 1,
        "q_length": 11,
        "kv_length": 11,
        "attention_mask": None,
        "allow_is_causal_skip": False,
    }
    ids = torch.tensor([[0] * 5 + [1] * 6])
    counted = torch.tensor([[0, 1, 2, 3, 4, 0, 1, 2, 3, 4, 5]])
    if jumps:
        counted[0, 8:] += 3
    given["mask_function"] = masking_utils.and_masks(
        masking_utils.packed_sequence_mask_function(ids),
        masking_utils.remap_positions_for_packed_sequence(
            masking_utils.sliding_window_causal_mask_function(3), counted
        ),
    )
    expected = masking_utils.sdpa_mask(**given)
    found = MaskFunction(masking_utils.sdpa_mask, lambda _: True)(**given)
    assert isinstance(found, Pattern)
    assert expected is not None
    options = found.options
    assert (options.segments is None) == jumps
    q, k = torch.randn(2, 1, 1, 11, 5, dtype=torch.float64)
    weights = regard.weights(
        q,
        k,
        causal=options.causal,
        window=options.window,
        mask=options.mask,
        segments=options.segments,
    )
    assert torch.equal(weights > 0, expected)
