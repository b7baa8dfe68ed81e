"""A few small models of each package, with random weights, and what to call them with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib import import_module
from typing import Any

import torch
from torch import Tensor, nn


@dataclass
class Trial:
    name: str
    model: nn.Module
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict[str, Any])
    real: Tensor | None = None  # (B, N): which tokens are no padding


def _part(name: str) -> Any:
    """A module of a package that is here only for `make packages`, and unknown to checkers."""
    _declare_operators()
    return import_module(name)


@cache
def _declare_operators() -> torch.library.Library:
    """Have torchvision imported by who finds it, though its compiled part is for other builds of
    PyTorch: what it describes is declared, and nothing of it is ever computed."""
    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor a, Tensor b, float c) -> Tensor")
    return library


def ids(*shape: int) -> Tensor:
    return torch.randint(3, 50, shape)


def mask_of(*lengths: int) -> Tensor:
    return torch.arange(max(lengths)) < torch.tensor(lengths)[:, None]


def x_transformers() -> Iterator[Trial]:
    x = _part("x_transformers")
    real = mask_of(11, 7)
    kinds: dict[str, dict[str, Any]] = {
        "flash": {"attn_flash": True},
        "by hand": {},
        "rotary, grouped": {"attn_flash": True, "rotary_pos_emb": True, "attn_kv_heads": 2},
        "ALiBi": {"attn_flash": True, "alibi_pos_bias": True},
        "relative bias": {"rel_pos_bias": True},
        "memory keys": {"attn_num_mem_kv": 3},
        "talking heads": {"attn_pre_talking_heads": True},
        "top 3 of the scores": {"attn_sparse_topk": 3},
        "q and k of length 1": {"attn_qk_norm": True, "attn_flash": True},
    }
    for name, options in kinds.items():
        layers = x.Decoder(dim=24, depth=2, heads=4, attn_dim_head=8, **options)
        model = x.TransformerWrapper(num_tokens=59, max_seq_len=32, attn_layers=layers)
        yield Trial(f"decoder, {name}", model, (ids(2, 11),))
    for flash in (True, False):
        layers = x.Encoder(dim=24, depth=2, heads=4, attn_dim_head=8, attn_flash=flash)
        model = x.TransformerWrapper(num_tokens=59, max_seq_len=32, attn_layers=layers)
        name = f"encoder, padded, {'flash' if flash else 'by hand'}"
        yield Trial(name, model, (ids(2, 11),), {"mask": real}, real)
    model = x.XTransformer(
        dim=24,
        enc_num_tokens=59,
        enc_depth=2,
        enc_heads=4,
        enc_max_seq_len=16,
        dec_num_tokens=59,
        dec_depth=2,
        dec_heads=4,
        dec_max_seq_len=16,
    )
    yield Trial("encoder and decoder", model, (ids(2, 11), ids(2, 7)), {"mask": real})


def timm() -> Iterator[Trial]:
    create = _part("timm").create_model
    small: dict[str, Any] = {"embed_dim": 24, "depth": 2, "num_heads": 4, "img_size": 32}
    small |= {"patch_size": 8, "num_classes": 5}
    x = torch.randn(2, 3, 32, 32)
    for name in ("vit_tiny_patch16_224", "deit3_small_patch16_224", "beit_base_patch16_224"):
        yield Trial(name, create(name, **small), (x,))
    eva = {**small, "embed_dim": 32}
    yield Trial("eva02_tiny_patch14_224", create("eva02_tiny_patch14_224", **eva), (x,))
    pooled = {**small, "global_pool": "map"}
    yield Trial("vit, attention pooling", create("vit_tiny_patch16_224", **pooled), (x,))
    by_windows: dict[str, Any] = {"img_size": 32, "patch_size": 2, "window_size": 4}
    by_windows |= {"embed_dim": 12, "depths": (2, 2), "num_heads": (2, 4), "num_classes": 5}
    for name in ("swin_tiny_patch4_window7_224", "swinv2_tiny_window8_256"):
        yield Trial(name, create(name, **by_windows), (x,))
    for name in ("xcit_nano_12_p16_224", "cait_xxs24_224"):
        yield Trial(name, create(name, **small), (x,))
    yield Trial("resnet10t", create("resnet10t", num_classes=5), (x,))


def diffusers() -> Iterator[Trial]:
    d = _part("diffusers")
    unet = d.UNet2DConditionModel(
        sample_size=8,
        block_out_channels=(16, 32),
        layers_per_block=1,
        cross_attention_dim=24,
        attention_head_dim=4,
        norm_num_groups=8,
        down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "CrossAttnUpBlock2D"),
    )
    words = torch.randn(2, 7, 24)
    yield Trial("UNet2DConditionModel", unet, (torch.randn(2, 4, 8, 8), 3, words))
    unet = d.UNet2DConditionModel.from_config(unet.config)
    processors = _part("diffusers.models.attention_processor")
    unet.set_attn_processor(processors.AttnProcessor())
    yield Trial("UNet2DConditionModel, by hand", unet, (torch.randn(2, 4, 8, 8), 3, words))
    dit = d.DiTTransformer2DModel(
        num_attention_heads=2,
        attention_head_dim=12,
        in_channels=4,
        num_layers=2,
        sample_size=8,
        num_embeds_ada_norm=11,
        norm_num_groups=4,
    )
    given = {"timestep": torch.tensor([3, 5]), "class_labels": torch.tensor([1, 2])}
    yield Trial("DiTTransformer2DModel", dit, (torch.randn(2, 4, 8, 8),), given)
    sd3 = d.SD3Transformer2DModel(
        sample_size=8,
        patch_size=2,
        in_channels=4,
        num_layers=2,
        attention_head_dim=8,
        num_attention_heads=3,
        joint_attention_dim=24,
        caption_projection_dim=24,
        pooled_projection_dim=16,
        out_channels=4,
        pos_embed_max_size=8,
    )
    given = {
        "hidden_states": torch.randn(2, 4, 8, 8),
        "encoder_hidden_states": words,
        "pooled_projections": torch.randn(2, 16),
        "timestep": torch.tensor([3, 5]),
    }
    yield Trial("SD3Transformer2DModel", sd3, (), given)
    flux = d.FluxTransformer2DModel(
        patch_size=1,
        in_channels=4,
        num_layers=1,
        num_single_layers=1,
        attention_head_dim=12,
        num_attention_heads=2,
        joint_attention_dim=24,
        pooled_projection_dim=16,
        axes_dims_rope=(4, 4, 4),
    )
    given = {
        "hidden_states": torch.randn(2, 16, 4),
        "encoder_hidden_states": words,
        "pooled_projections": torch.randn(2, 16),
        "timestep": torch.tensor([0.3, 0.5]),
        "img_ids": torch.randn(16, 3),
        "txt_ids": torch.zeros(7, 3),
    }
    yield Trial("FluxTransformer2DModel", flux, (), given)
    vae = d.AutoencoderKL(block_out_channels=(8,), norm_num_groups=4, latent_channels=2)
    yield Trial("AutoencoderKL", vae, (torch.randn(2, 3, 8, 8),))


def open_clip() -> Iterator[Trial]:
    o = _part("open_clip")
    vision: dict[str, Any] = {"image_size": 32, "layers": 2, "width": 32, "head_width": 8}
    vision |= {"patch_size": 8}
    text: dict[str, Any] = {"context_length": 11, "vocab_size": 59, "width": 24, "heads": 3}
    text |= {"layers": 2}
    given = (torch.randn(2, 3, 32, 32), ids(2, 11))
    yield Trial("CLIP", o.CLIP(16, vision, text), given)
    pooled = {**vision, "attentional_pool": True, "attn_pooler_heads": 2}
    yield Trial("CLIP, attention pooling", o.CLIP(16, pooled, text), given)
    pooled |= {"output_tokens": True}
    own = {**text, "embed_cls": True, "pad_id": 0, "output_tokens": True}
    more = {"context_length": 11, "vocab_size": 59, "width": 24, "heads": 3, "layers": 2}
    coca = o.CoCa(24, {**more, "attn_pooler_heads": 2}, own, pooled)
    yield Trial("CoCa", coca, given)


def sentence_transformers() -> Iterator[Trial]:
    s, t = _part("sentence_transformers"), _part("transformers")
    small: dict[str, Any] = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 4}
    small |= {"intermediate_size": 32, "vocab_size": 59}
    real = mask_of(11, 7)
    inputs = {"input_ids": ids(2, 11), "attention_mask": real.long()}
    modules = _part("sentence_transformers.sentence_transformer.modules")

    class Words(nn.Module):
        """What its Transformer module does, whose files it would read."""

        def __init__(self, attention: str) -> None:
            super().__init__()
            config = t.BertConfig(**small, attn_implementation=attention)
            self.auto_model = t.BertModel(config, add_pooling_layer=False)

        def forward(self, features: dict[str, Tensor], **_: Any) -> dict[str, Tensor]:
            out = self.auto_model(features["input_ids"], features["attention_mask"])
            return {**features, "token_embeddings": out.last_hidden_state}

    for attention in ("sdpa", "eager"):
        model = s.SentenceTransformer(
            modules=[Words(attention), modules.Pooling(24), modules.Normalize()], device="cpu"
        )
        yield Trial(f"SentenceTransformer, {attention}", model, (inputs,), {}, real)


def torchtune() -> Iterator[Trial]:
    llama, gemma = _part("torchtune.models.llama3_2"), _part("torchtune.models.gemma2")
    small: dict[str, Any] = {"vocab_size": 59, "num_layers": 2, "num_heads": 4, "embed_dim": 32}
    small |= {"num_kv_heads": 2, "max_seq_len": 32, "intermediate_dim": 48}
    yield Trial("llama3_2", llama.llama3_2(**small), (ids(2, 11),))
    mask = torch.ones(11, 11, dtype=torch.bool).tril().expand(2, -1, -1)
    yield Trial("llama3_2, a mask", llama.llama3_2(**small), (ids(2, 11),), {"mask": mask})
    more = {**small, "head_dim": 8, "norm_eps": 1e-6, "hidden_capping_value": 50.0}
    more |= {"final_capping_value": 30.0, "sliding_window_size": 5}
    yield Trial("gemma2", gemma.gemma2(**more), (ids(2, 11),))
