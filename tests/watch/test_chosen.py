"""Sparse attention, whose indexer chooses the keys of each query: seen with the keys it chose."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import AutoConfig, AutoModelForCausalLM

import regard

TOP = 5  # keys that are chosen
N = 19


@pytest.fixture
def installed() -> Iterator[None]:
    regard.install()
    yield
    regard.uninstall()


def model(family: str) -> Any:
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        family,
        vocab_size=97,
        hidden_size=48,
        intermediate_size=64,
        moe_intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        n_routed_experts=4,
        num_experts_per_tok=2,
        n_group=1,
        topk_group=1,
        first_k_dense_replace=1,
        kv_lora_rank=16,
        q_lora_rank=24,
        qk_rope_head_dim=8,
        qk_nope_head_dim=8,
        v_head_dim=16,
        index_topk=TOP,
        index_n_heads=2,
        index_head_dim=16,
    )
    return AutoModelForCausalLM.from_config(config).eval()


@pytest.mark.parametrize("family", ["deepseek_v32", "glm_moe_dsa"])
@pytest.mark.usefixtures("installed")
def test_the_chosen_keys_are_seen_and_no_mask_of_all_is_kept(family: str) -> None:
    watched = model(family)
    ids = torch.randint(97, (2, N), generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        watched.set_attn_implementation("eager")
        eager = watched(ids, output_attentions=True)
        watched.set_attn_implementation("regard")
        with regard.watch(watched, keep=("q", "k")) as run:
            logits = watched(ids).logits
    torch.testing.assert_close(logits, eager.logits, rtol=2e-5, atol=2e-6)
    assert not run.unseen
    for layer, weights in zip(run.layers.values(), eager.attentions, strict=True):
        assert layer.options.mask is None
        assert layer.options.indices is not None
        assert layer.options.indices.shape == (2, 1, N, TOP)
        torch.testing.assert_close(layer.weights(), weights, rtol=1e-5, atol=1e-6)
        assert int((weights > 0).sum(-1).max()) <= TOP


@pytest.mark.usefixtures("installed")
def test_a_generation_is_one_record_with_the_keys_of_each_step() -> None:
    watched = model("deepseek_v32")
    ids = torch.randint(97, (1, 7), generator=torch.Generator().manual_seed(3))
    asked: dict[str, Any] = {
        "max_new_tokens": 5,
        "do_sample": False,
        "attention_mask": torch.ones_like(ids),
        "pad_token_id": 0,
    }
    watched.set_attn_implementation("eager")
    eager = watched.generate(ids, **asked, output_attentions=True, return_dict_in_generate=True)
    watched.set_attn_implementation("regard")
    with regard.watch(watched, keep=("q", "k")) as run:
        found = watched.generate(ids, **asked)
    assert torch.equal(found, eager.sequences)
    assert len(run.layers) == 2
    for number, layer in enumerate(run.layers.values()):
        weights, row = layer.weights(), 0
        for step in eager.attentions:
            expected = step[number]
            rows, n_keys = expected.shape[2:]
            found = weights[:, :, row : row + rows, :n_keys]
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)
            row += rows
        assert row == weights.shape[2]


@pytest.mark.usefixtures("installed")
def test_packed_sequences_are_told_by_cumulative_lengths() -> None:
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(1)
    sizes: dict[str, Any] = {"hidden_size": 48, "intermediate_size": 64, "num_hidden_layers": 2}
    config = LlamaConfig(vocab_size=97, num_attention_heads=6, num_key_value_heads=2, **sizes)
    watched: Any = LlamaForCausalLM(config).eval()
    watched.set_attn_implementation("regard")
    ids = torch.randint(97, (1, 18), generator=torch.Generator().manual_seed(3))
    ends = torch.tensor([0, 7, 18], dtype=torch.int32)
    with torch.no_grad():
        # With a cache, as is usual, transformers does not look at positions.
        packed = watched(
            ids,
            position_ids=torch.cat([torch.arange(7), torch.arange(11)])[None],
            cu_seq_lens_q=ends,
            cu_seq_lens_k=ends,
            max_length_q=11,
            max_length_k=11,
        ).logits
        for part in (slice(0, 7), slice(7, 18)):
            alone = watched(ids[:, part]).logits
            torch.testing.assert_close(packed[:, part], alone, rtol=1e-4, atol=1e-5)


# ── keys that stand for blocks of tokens ──────────────────────────────────────────────────────

SPARSE, HEAVY = "compressed_sparse_attention", "heavily_compressed_attention"


def compressing() -> Any:
    torch.manual_seed(0)
    config = AutoConfig.for_model(
        "deepseek_v4",
        vocab_size=97,
        hidden_size=64,
        moe_intermediate_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        head_dim=32,
        q_lora_rank=24,
        num_experts_per_tok=2,
        n_routed_experts=4,
        layer_types=["sliding_attention", SPARSE, HEAVY],
        compress_rates={SPARSE: 3, HEAVY: 5},
        hc_mult=2,
        sliding_window=7,
        o_groups=2,
        o_lora_rank=16,
        index_n_heads=2,
        index_head_dim=16,
        index_topk=3,
        partial_rotary_factor=0.5,
    )
    made = AutoModelForCausalLM.from_config(config).eval()
    for name, parameter in made.named_parameters():
        if "sinks" in name or "position_bias" in name:
            torch.nn.init.normal_(parameter)
    return made


@pytest.mark.parametrize("use_cache", [False, True])
def test_compressed_keys_are_seen_with_the_tokens_they_stand_for(
    use_cache: bool, tmp_path: Path
) -> None:
    watched = compressing()
    ids = torch.randint(97, (2, N), generator=torch.Generator().manual_seed(3))
    with torch.no_grad():
        eager = watched(ids, output_attentions=True, use_cache=False)
        with regard.watch(watched, keep=("q", "k")) as run:
            logits = watched(ids, use_cache=use_cache).logits
    torch.testing.assert_close(logits, eager.logits, rtol=2e-5, atol=2e-6)
    assert not run.unseen
    run.save(tmp_path / "run")
    for found in (run, regard.load(tmp_path / "run")):
        plain, sparse, heavy = found.layers.values()
        for layer, weights in zip((plain, sparse, heavy), eager.attentions, strict=True):
            torch.testing.assert_close(layer.weights(), weights, rtol=1e-4, atol=1e-6)
        assert plain.spans is None
        assert sparse.spans is not None
        assert heavy.spans is not None
        assert sparse.spans[: N + 3].tolist()[-4:] == [[18, 19], [0, 3], [0, 6], [3, 9]]
        assert heavy.spans[N:].tolist() == [[0, 5], [5, 10], [10, 15]]


def test_no_token_moves_a_compressed_key_that_does_not_stand_for_it() -> None:
    """What a key stands for, found by changing one token after the other."""
    watched = compressing()
    ids = torch.randint(97, (1, N), generator=torch.Generator().manual_seed(3))

    def keys(ids: torch.Tensor) -> dict[str, torch.Tensor]:
        with torch.no_grad(), regard.watch(watched, keep=("k",)) as run:
            watched(ids, use_cache=False)
        layer = list(run.layers.values())[1]
        assert layer.k is not None
        assert layer.spans is not None
        return {"k": layer.k[0, 0].clone(), "spans": layer.spans}

    # The layer below looks back: what a later token moves comes by its own key alone.
    before = keys(ids)
    for token in (N - 1, N - 4):
        changed = ids.clone()
        changed[0, token] = (changed[0, token] + 1) % 97
        moved = (keys(changed)["k"] != before["k"]).any(-1)
        ends = before["spans"][:, 1]
        assert not bool(moved[ends <= token].any())
        assert bool(moved[token])


def test_steps_with_a_cache_are_said_not_to_be_seen() -> None:
    watched = compressing()
    ids = torch.randint(97, (1, 7), generator=torch.Generator().manual_seed(3))
    asked: dict[str, Any] = {"max_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    expected = watched.generate(ids, **asked)
    with pytest.warns(UserWarning, match="blocks of tokens"), regard.watch(watched) as run:
        assert torch.equal(watched.generate(ids, **asked), expected)
    (said,) = run.unseen
    assert "layers.1.self_attn, model.layers.2.self_attn: what it computed with a cache" in said


@pytest.mark.usefixtures("installed")
def test_a_cache_made_in_advance_has_free_places_that_are_not_chosen() -> None:
    watched = model("deepseek_v32")
    ids = torch.randint(97, (1, 7), generator=torch.Generator().manual_seed(3))
    asked: dict[str, Any] = {
        "max_new_tokens": 4,
        "do_sample": False,
        "attention_mask": torch.ones_like(ids),
        "pad_token_id": 0,
        "cache_implementation": "static",
        "disable_compile": True,
    }
    watched.set_attn_implementation("eager")
    expected = watched.generate(ids, **asked)
    watched.set_attn_implementation("regard")
    assert torch.equal(watched.generate(ids, **asked), expected)
