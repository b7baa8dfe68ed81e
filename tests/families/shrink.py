"""A configuration made small by the names of what is in it: widths, layers, heads, words."""

from __future__ import annotations

import json
import re
from typing import Any

WIDTH, HEADS, HEAD_WIDTH, INNER, WORDS, PLACES, IMAGE, PATCH = 32, 4, 8, 48, 97, 128, 32, 8

# What a number becomes by its name: the first that matches counts. Those of _DEPTH are all that is
# done to a family whose widths depend on each other in ways that names do not tell.
_DEPTH: dict[str, int] = {
    r"(text_|src_|tgt_|decoder_|additional_|t2u_)?vocab_size(_per_layer_input)?": WORDS,
    r"max_window_layers": 1,
    r"first_k_dense_replace|num_dense_layers|moe_layer_start_index": 1,
    r"num_feat_extract_layers": 99,
    r"num_kv_shared_layers|num_hash_layers|num_nextn_predict_layers": 0,
    r"(num_|n_|.+_)?(hidden_)?layers": 2,
    r"n_layer|(num_)?.*hidden_layers|layers|depth|num_self_attends_per_block": 2,
    r"num_encoder_blocks|num_stages": 4,
    r"(num_|n_routed_|num_local_|moe_num_)experts": 4,
    r"num_experts_per_tok(en)?|moe_topk|moe_k|moe_top_k|top_k_experts": 2,
    r"(n_|num_|moe_num_)shared_experts|n_group|topk_group|num_expert_group": 1,
    r"sliding_window|attention_window_size|attention_chunk_size|local_attention": 5,
    r"index_topk": 3,
    r"num_(object_)?queries|num_latents|num_query_tokens|num_detection_tokens": 7,
    r"expert_capacity": 64,
    r"mm_tokens_per_image": 4,
    r"image_seq_length|num_image_tokens": 16,
    r"(attn_layer|expert_layer)_(period)": 2,
    r"(attn_layer|expert_layer)_(offset)": 1,
    r"entity_vocab_size|ngram_vocab_size_base|encoder_hash_byte_group_vocab": 101,
}
_WIDTHS: dict[str, int] = {
    r".*(num_key_value|kv_n|num_kv)_?heads": 2,
    r"mamba_n_heads|mamba_num_heads": 4,
    r"mamba_(d_head|head_dim|headdim)": 16,  # as wide as all heads together, twice the model
    r"rotary_dim": 4,
    r"upsample_groups|attention_hidden_size": WIDTH,
    r"(num_|n_)?(.*_)?heads?|n_head": HEADS,
    r"linear_num_(key|value)_heads": 2,
    r"linear_(key|value)_head_dim|ssm_state_size|.*_?state_size": 8,
    r"mamba_d_state|mamba_chunk_size|chunk_size": 8,
    r"(qk_(nope|rope)_|v_|index_|cross_|swa_)?head_dim": HEAD_WIDTH,
    r"d_kv|dim_head|attention_head_size": HEAD_WIDTH,
    r"qk_head_dim": 2 * HEAD_WIDTH,
    r"(q|kv)_lora_rank": 16,
    r"o_lora_rank": 8,
    r"query_pre_attn_scalar": HEAD_WIDTH,
    r"(.*_)?(intermediate_size|ffn_dim|d_ff|n_inner|mlp_dim|ffn_hidden_size|linear_units)": INNER,
    r"dim_feedforward|dim_ff|dff|d_inner|feed_forward_size|intermediate_size_mlp": INNER,
    r"share_expert_dim|expert_ffn_hidden_size": INNER,
    r"(num_|n_|max_)?(.*_)?position(s|_embeddings|_embedding_size)|n_ctx|max_seq_len": PLACES,
    r"relative_attention_num_buckets|num_buckets": 8,
    r"hidden_size_per_layer_input": 8,
    r"(.*_)?(hidden_size|hidden_dim|d_model|embed_dim|embedding_size|emb_dim|n_embd)": WIDTH,
    r"dim|(projection|proj|output|project|embedding|condition|encoder|decoder)_dim": WIDTH,
    r"lru_width|d_embed|word_embed_proj_dim|.*_hidden_size|projection_size": WIDTH,
    r"pooler_output_size|hidden_channels|fpn_hidden_size|moe_hidden_size": WIDTH,
    r"image_size|pretrain_image_size": IMAGE,
    r"patch_size": PATCH,
}  # fmt: skip
_SPECIAL = re.compile(r".*_(token_(id|index)|tokens?_ids?)$|_?(pad|bos|eos)_token_id")
_FIRST_SPECIAL = {"pad": 0, "bos": 1, "eos": 2, "sep": 2, "cls": 1, "decoder_start": 1}
_SQUARES = {"image_size": IMAGE, "patch_size": PATCH}
# Widths of one layer after another.
_LISTS = {"conv_dim", "tdnn_dim"}
# One for each layer, however long the list is.
_PER_LAYER = re.compile(
    r"(.*_)?layer_types|layers_block_type|attention_layers|attn_layers|indexer_types|no_rope_layers"
    r"|.*_per_layer|activation_sparsity_pattern|layer_rope_theta|layers_types"
)


class Shrink:
    """`sizes(default)` of one configuration, parts included: what it is to be made with.

    Ids of special tokens are given out from one list, so that the parts of a model agree on them.
    """

    def __init__(self, widths: bool, fill: bool = False) -> None:
        self._has_widths = widths
        self._fill = fill  # give sizes also to what the configuration leaves open
        self._rules = [(re.compile(name), size) for name, size in _DEPTH.items()]
        if widths:
            self._rules += [(re.compile(name), size) for name, size in _WIDTHS.items()]
        self._special: dict[str, int] = {}

    def sizes(self, default: Any) -> dict[str, Any]:
        told = default.to_dict()
        found: dict[str, Any] = {}
        layers = self._layers(told)
        for name, value in told.items():
            part = vars(default).get(name)
            if hasattr(part, "to_dict") and hasattr(part, "model_type"):
                found[name] = _own(told[name]) | self.sizes(part)
            elif _SPECIAL.fullmatch(name):
                found[name] = self._token(name, value)
            elif isinstance(value, list) and _PER_LAYER.fullmatch(name) and layers:
                found[name] = [value[n] for n in layers if n < len(value)]
            elif name in _SQUARES and self._has_widths and isinstance(value, list | tuple):
                if len(value) == 2 and isinstance(told.get("patch_size"), list | tuple):
                    found[name] = [min(x, _SQUARES[name]) for x in value]
            elif isinstance(value, list | tuple) and name in _LISTS and self._has_widths:
                found[name] = [WIDTH] * len(value)
            elif isinstance(value, dict) and "mrope_section" in json.dumps(value, default=str):
                found[name] = _with_sections(value)
            elif isinstance(value, int) and not isinstance(value, bool):
                size = self._size(name, value)
                if size != value:
                    found[name] = size
        if layers is not None:
            for name in ("num_hidden_layers", "n_layer", "num_layers"):
                if name in told:
                    found[name] = len(layers)
        self._agree(told, found)
        _tap(told, found)
        if self._fill:
            open_ones = (name for name, value in told.items() if value is None)
            found |= {name: size for name in open_ones if (size := self._size(name, 10**9)) < 10**9}
        return {name: value for name, value in found.items() if value is not None}

    def _size(self, name: str, value: int) -> int:
        for rule, size in self._rules:
            if rule.fullmatch(name):
                return min(size, value) if value > 0 else value
        return value

    def _token(self, name: str, value: Any) -> Any:
        if value is None or isinstance(value, list | tuple):
            return [self._token(f"{name}{n}", x) for n, x in enumerate(value)] if value else None
        stem = re.sub("_?token_?(id|index)$", "", name).strip("_")
        if stem in _FIRST_SPECIAL:
            return _FIRST_SPECIAL[stem]
        return self._special.setdefault(stem, 3 + len(self._special))

    def _layers(self, told: dict[str, Any]) -> list[int] | None:
        """Which layers are kept where a list says what each is: one of each kind, or two."""
        lists = [
            value
            for name, value in told.items()
            if isinstance(value, list) and len(value) > 1 and _PER_LAYER.fullmatch(name)
        ]
        if not lists:
            return None
        count = min(map(len, lists))
        kinds = [tuple(map(str, each)) for each in zip(*(x[:count] for x in lists), strict=True)]
        kept = sorted({kinds.index(kind) for kind in dict.fromkeys(kinds)})[:6]
        return kept if len(kept) > 1 else [0, 1]

    def _agree(self, told: dict[str, Any], found: dict[str, Any]) -> None:
        """Sizes that follow from others of the same configuration."""
        heads = told.get("num_attention_heads")
        if isinstance(heads, int) and told.get("num_key_value_heads") == heads:
            keys = "num_key_value_heads"
            found[keys] = found.get("num_attention_heads", heads)
        if isinstance(told.get("num_heads"), list) and isinstance(told.get("embed_dim"), int):
            found["embed_dim"] = HEAD_WIDTH * told["num_heads"][0]  # twice as wide at every stage
            if isinstance(told.get("window_size"), int) and isinstance(told.get("image_size"), int):
                found |= {"image_size": 2 * IMAGE, "window_size": 2}
        if isinstance(depths := told.get("depths"), list) and all(type(x) is int for x in depths):
            found["depths"] = [min(x, 2) for x in depths]
        if "kv_lora_rank" in told and "num_attention_heads" in found:
            found["num_key_value_heads"] = found["num_attention_heads"]


def _own(told: dict[str, Any]) -> dict[str, Any]:
    """What a part says that not every configuration does: the whole may have other defaults for it
    than the part alone."""
    from transformers import PreTrainedConfig

    usual = PreTrainedConfig().to_dict().keys() - {"model_type"}
    usual |= {"per_layer_config", "out_features", "stage_names"}  # which follow from the layers
    return {
        name: value
        for name, value in told.items()
        if name not in usual and not name.startswith("_") and value is not None
    }


def _with_sections(rope: dict[str, Any]) -> dict[str, Any]:
    """Rotary parameters, whose sections are half as many as a head's turned numbers."""
    found: dict[str, Any] = {
        name: _with_sections(value) if isinstance(value, dict) else value
        for name, value in rope.items()
    }
    if found.get("mrope_section"):
        turned = HEAD_WIDTH * (found.get("partial_rotary_factor") or 1) // 2
        found["mrope_section"] = [1, 1, 2] if turned >= 4 else [1, 1, 0]
    return found


def _tap(told: dict[str, Any], found: dict[str, Any]) -> None:
    """The layers of a backbone that others get: the last ones, as many as before."""
    taps = told.get("out_indices")
    if isinstance(taps, list | tuple) and taps and "num_hidden_layers" in told:
        count = max(len(taps), 2)
        found["num_hidden_layers"] = count
        found["out_indices"] = list(range(count - len(taps) + 1, count + 1))
