"""What was changed on a module since its class made it is carried over, or refused by name."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.hugging_face_models import bert, gpt2, llama, made, marian
from torch import nn
from torch.nn.utils import parametrizations, prune
from transformers import (
    AttentionInterface,
    BertForMaskedLM,
    BertForSequenceClassification,
    BertModel,
    GPT2LMHeadModel,
    LlamaForCausalLM,
    MarianMTModel,
)
from transformers.models.llama.modeling_llama import LlamaAttention

from regard.nn import (
    Decoder,
    Encoder,
    EncoderLayer,
    LayerNorm,
    MultiHeadAttention,
    PreNorm,
    StackConfig,
    from_hugging_face,
    from_torch,
    to_torch,
)

MODELS: dict[str, Callable[..., Any]] = {
    "bert": lambda **more: BertModel(bert(**more)),
    "masked": lambda **more: BertForMaskedLM(bert(**more)),
    "classifier": lambda **more: BertForSequenceClassification(bert(**more)),
    "gpt2": lambda **more: GPT2LMHeadModel(gpt2(**more)),
    "llama": lambda **more: LlamaForCausalLM(llama(**more)),
    "marian": lambda **more: MarianMTModel(marian(**more)),
}
# The path of an attention, of a linear map in it, and of a stack of layers.
PLACES = {
    "bert": ("encoder.layer.1.attention.self", "query", "encoder.layer"),
    "masked": ("bert.encoder.layer.1.attention.self", "query", "bert.encoder.layer"),
    "classifier": ("bert.encoder.layer.1.attention.self", "query", "bert.encoder.layer"),
    "gpt2": ("transformer.h.1.attn", "c_attn", "transformer.h"),
    "llama": ("model.layers.1.self_attn", "q_proj", "model.layers"),
    "marian": ("model.decoder.layers.0.encoder_attn", "q_proj", "model.encoder.layers"),
}
IDS = torch.tensor([[3, 17, 5, 2, 11]])


class Other(LlamaAttention):
    pass


class LowRank(nn.Module):
    """What adapters put in the place of a linear map."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner, self.scaling = inner, 0.5

    def forward(self, x: Any) -> Any:
        return self.inner(x) * self.scaling


def put(model: nn.Module, path: str, part: nn.Module | None) -> None:
    owner, _, name = path.rpartition(".")
    setattr(model.get_submodule(owner), name, part)


def nothing(*_: Any) -> None:
    """A hook."""


HOOKS: dict[str, Callable[[Any], Any]] = {
    "forward hooks": lambda part: part.register_forward_hook(nothing),
    "forward pre hooks": lambda part: part.register_forward_pre_hook(nothing),
    "backward hooks": lambda part: part.register_full_backward_hook(nothing),
    "backward pre hooks": lambda part: part.register_full_backward_pre_hook(nothing),
    "state dict hooks": lambda part: part.register_state_dict_post_hook(nothing),
    "state dict pre hooks": lambda part: part.register_state_dict_pre_hook(nothing),
}
every_model = pytest.mark.parametrize("name", list(MODELS))


@pytest.mark.parametrize("name", ["gpt2", "marian"])
@pytest.mark.parametrize("kind", list(HOOKS))
def test_hooks_are_refused_by_the_name_of_their_module(name: str, kind: str) -> None:
    theirs, (path, linear, _) = made(MODELS[name]()), PLACES[name]
    HOOKS[kind](theirs.get_submodule(f"{path}.{linear}"))
    with pytest.raises(ValueError, match=rf"{path}\.{linear} must have no {kind}, has some"):
        from_hugging_face(theirs)
    theirs = made(MODELS[name]())
    HOOKS[kind](theirs)
    with pytest.raises(ValueError, match=f"the module itself must have no {kind}"):
        from_hugging_face(theirs)


@every_model
def test_other_parts_are_refused_by_name(name: str) -> None:
    path, linear, stack = PLACES[name]
    inside = f"{path}.{linear}"

    def parametrised(model: Any) -> None:
        parametrizations.weight_norm(model.get_submodule(inside))

    def pruned(model: Any) -> None:
        prune.l1_unstructured(model.get_submodule(inside), "weight", 3)

    def replaced(model: Any) -> None:
        part = model.get_submodule(path)
        part.forward = part.forward

    def wrapped(model: Any) -> None:
        put(model, inside, LowRank(model.get_submodule(inside)))

    changes: list[tuple[Callable[[Any], None], str]] = [
        (wrapped, rf"{inside} must be a \w+, is a LowRank"),
        (lambda model: put(model, inside, nn.Identity()), rf"{inside} must be a \w+, is a Identi"),
        (parametrised, rf"{inside} must be a \w+, is a Parametrized"),
        (pruned, f"{inside} must have no forward pre hooks"),
        (replaced, rf"{path}\.forward must be that of its class, was replaced"),
        (
            lambda model: put(model, f"{stack}.0", nn.Identity()),
            rf"{stack}\.0 must be a \w+, is a Identity",
        ),
        (lambda model: model.get_submodule(stack).pop(1), rf"{stack}\.1 must be there, is not"),
        (
            lambda model: model.get_submodule(stack).append(nn.Identity()),
            rf"{stack}\.2, a Identity, must not be there",
        ),
        (
            lambda model: put(model, f"{stack}.1", model.get_submodule(f"{stack}.0")),
            rf"{stack}\.1[.\w]* must be a parameter of its own, is {stack}\.0",
        ),
        (
            lambda model: model.get_submodule(inside).weight.register_hook(lambda x: 2 * x),
            rf"{inside}\.weight must have no hooks, has some",
        ),
    ]
    for change, said in changes:
        theirs = made(MODELS[name]())
        change(theirs)
        with pytest.raises(ValueError, match=said):
            from_hugging_face(theirs)


@pytest.mark.parametrize(
    ("name", "path", "attribute", "value"),
    [
        ("llama", "model.layers.1.self_attn", "scaling", 0.5),
        ("llama", "model.layers.1.self_attn", "is_causal", False),
        ("llama", "model.layers.1.self_attn", "attention_dropout", 0.25),
        ("llama", "model.layers.0.input_layernorm", "variance_epsilon", 0.5),
        ("llama", "model.rotary_emb", "attention_scaling", 2.0),
        ("gpt2", "transformer.h.1.attn", "scaling", 0.5),
        ("gpt2", "transformer.h.1.attn", "is_causal", False),
        ("gpt2", "transformer.h.0.ln_1", "eps", 0.5),
        ("bert", "encoder.layer.1.attention.self", "scaling", 0.5),
        ("bert", "encoder.layer.1.attention.self", "is_causal", True),
        ("bert", "encoder.layer.0.output.dropout", "p", 0.25),
        ("bert", "embeddings.word_embeddings", "max_norm", 0.5),
        ("classifier", "dropout", "p", 0.25),
        ("marian", "model.decoder.layers.0.self_attn", "is_causal", False),
        ("marian", "model.encoder.layers.1", "activation_dropout", 0.25),
        ("marian", "model.encoder", "embed_scale", 2.0),
    ],
)
def test_attributes_that_are_no_longer_those_of_the_configuration_are_refused(
    name: str, path: str, attribute: str, value: Any
) -> None:
    theirs = made(MODELS[name]())
    setattr(theirs.get_submodule(path), attribute, value)
    with pytest.raises(ValueError, match=rf"{path}\.{attribute} must be .*, is {value}"):
        from_hugging_face(theirs)


def test_other_functions_classes_and_numbers_are_refused() -> None:
    theirs = made(MODELS["llama"]())
    theirs.model.layers[1].mlp.act_fn = nn.ReLU()
    with pytest.raises(ValueError, match=r"layers\.1\.mlp\.act_fn must be a SiLU\w*, is a ReLU"):
        from_hugging_face(theirs)
    theirs = made(MODELS["gpt2"](activation_function="gelu_new"))
    theirs.config.activation_function = "relu"  # after the model was made
    with pytest.raises(ValueError, match=r"h\.0\.mlp\.act must be a ReLU, is a NewGELU"):
        from_hugging_face(theirs)
    theirs = made(MODELS["llama"]())
    theirs.model.layers[1].self_attn.__class__ = Other
    with pytest.raises(ValueError, match=r"self_attn must be a LlamaAttention, is a Other"):
        from_hugging_face(theirs)
    theirs = made(MODELS["llama"]())
    theirs.model.rotary_emb.inv_freq.mul_(1.01)
    with pytest.raises(ValueError, match=r"model\.rotary_emb\.inv_freq must be what"):
        from_hugging_face(theirs)
    theirs = made(MODELS["bert"]())
    theirs.embeddings.position_ids.copy_(theirs.embeddings.position_ids.flip(-1))
    with pytest.raises(ValueError, match=r"embeddings\.position_ids must be what"):
        from_hugging_face(theirs)


def test_a_class_of_ones_own_is_refused_by_any_name() -> None:
    own = type("LlamaForCausalLM", (LlamaForCausalLM,), {"__module__": "mine"})
    with pytest.raises(TypeError, match="must be the class of transformers; got one of mine"):
        from_hugging_face(own(llama()))


def test_an_attention_of_ones_own_is_refused() -> None:
    AttentionInterface.register("my_own", lambda *_, **__: None)
    theirs = MODELS["llama"]()
    theirs.config._attn_implementation = "my_own"
    with pytest.raises(ValueError, match=r"attn_implementation must be one of .*; got 'my_own'"):
        from_hugging_face(theirs)


@pytest.mark.parametrize(
    ("name", "tied", "path"),
    [
        ("gpt2", True, "lm_head.weight"),
        ("llama", False, "lm_head.weight"),
        ("masked", True, "cls.predictions.decoder.weight"),
        ("marian", True, "lm_head.weight"),
    ],
)
def test_ties_that_were_undone_or_made_are_refused(name: str, tied: bool, path: str) -> None:
    theirs = made(MODELS[name]())
    owner = theirs.get_submodule(path.rpartition(".")[0])
    if tied:
        owner.weight = nn.Parameter(owner.weight.detach().clone())
        said = rf"{path} must be .*, the same parameter, is another"
    else:
        owner.weight = theirs.get_input_embeddings().weight
        said = rf"{path} must be a parameter of its own, is "
    with pytest.raises(ValueError, match=said):
        from_hugging_face(theirs)


def test_parts_in_another_mode_are_refused_where_something_drops_out() -> None:
    theirs = made(MODELS["bert"](hidden_dropout_prob=0.5), training=True)
    theirs.encoder.layer[0].eval()
    with pytest.raises(ValueError, match=r"encoder\.layer\.0 must be in training, as the whole"):
        from_hugging_face(theirs)
    theirs = made(MODELS["bert"]())
    theirs.encoder.layer[0].train()
    assert not from_hugging_face(theirs).training


def saved_and_loaded(model: Any, folder: Path) -> Any:
    model.save_pretrained(folder)
    return type(model).from_pretrained(folder)


@every_model
def test_what_changes_nothing_that_is_computed_is_taken(name: str, tmp_path: Path) -> None:
    def looked_at(model: Any) -> None:
        more = {"decoder_input_ids": IDS} if name == "marian" else {}
        model(IDS, output_hidden_states=True, output_attentions=True, **more)

    def shortened(model: Any) -> None:
        if name == "llama":
            del model.model.layers[1]
            model.config.num_hidden_layers = 1

    def checkpointed(model: Any) -> None:
        try:
            model.activation_checkpointing_enable()
        except AttributeError:  # before transformers 5.23
            model.gradient_checkpointing_enable()

    changes: list[Callable[[Any], Any]] = [
        looked_at,
        shortened,
        copy.deepcopy,
        checkpointed,
        lambda model: model.enable_input_require_grads(),
        lambda model: model.resize_token_embeddings(29) and None,
        lambda model: setattr(model, "_compiled_call_impl", model._call_impl),
        lambda model: setattr(model, "note", "mine"),
        lambda model: model.set_attn_implementation("eager"),
        lambda model: saved_and_loaded(model, tmp_path / name),
        lambda model: model.requires_grad_(False) and None,
        lambda model: model.to(torch.bfloat16) and None,
    ]
    for change in changes:
        theirs = made(MODELS[name]())
        changed = change(theirs)
        from_hugging_face(theirs if changed is None else changed)


# ── PyTorch's modules, and ours ──────────────────────────────────────────────────────────────


def encoder(**more: Any) -> nn.TransformerEncoder:
    options: dict[str, Any] = {"dropout": 0.0, "batch_first": True} | more
    layer = nn.TransformerEncoderLayer(12, 3, 7, **options)
    return nn.TransformerEncoder(layer, 2, nn.LayerNorm(12), enable_nested_tensor=False)


def decoder() -> nn.TransformerDecoder:
    return nn.TransformerDecoder(nn.TransformerDecoderLayer(12, 3, 7, dropout=0.0), 2)


def our_encoder() -> Encoder:
    return Encoder(StackConfig(width=12, heads=3, layers=2, residual=PreNorm(), norm_eps=1e-4))


def our_decoder() -> Decoder:
    return Decoder(StackConfig(width=12, heads=3, layers=2))


CONVERTED: dict[str, tuple[Callable[[], Any], Callable[[Any], Any], tuple[str, ...]]] = {
    "attention": (lambda: nn.MultiheadAttention(12, 3), from_torch, ("", "out_proj")),
    "encoder": (encoder, from_torch, ("", "layers.1", "layers.1.self_attn", "layers.0.norm2")),
    "decoder": (decoder, from_torch, ("layers.1.multihead_attn", "layers.0.dropout3")),
    "whole": (
        lambda: nn.Transformer(12, 2, 1, 1, 7, batch_first=True),
        from_torch,
        ("", "encoder", "decoder.layers.0.linear1"),
    ),
    "our attention": (lambda: MultiHeadAttention(12, 3), to_torch, ("", "w_v")),
    "our encoder": (our_encoder, to_torch, ("", "layers.1.norms.0", "layers.0.feed_forward")),
    "our decoder": (our_decoder, to_torch, ("layers.1.cross.w_q", "norm")),
}


@pytest.mark.parametrize("name", list(CONVERTED))
@pytest.mark.parametrize("kind", list(HOOKS))
def test_hooks_on_modules_of_pytorch_and_on_ours_are_refused(name: str, kind: str) -> None:
    make, convert, paths = CONVERTED[name]
    for path in paths:
        module = make()
        convert(module)
        HOOKS[kind](module.get_submodule(path))
        with pytest.raises(ValueError, match=f"must have no {kind}, has some"):
            convert(module)


@pytest.mark.parametrize("name", list(CONVERTED))
def test_a_forward_of_its_own_is_refused(name: str) -> None:
    make, convert, paths = CONVERTED[name]
    for path in paths:
        module = make()
        part = module.get_submodule(path)
        part.forward = lambda *_: None
        said = path or "the module itself"
        with pytest.raises(ValueError, match=rf"{said}\.forward must be that of its class"):
            convert(module)


def test_attributes_of_pytorchs_modules_are_theirs_or_refused() -> None:
    for path, attribute, value in (
        ("layers.1", "norm_first", True),
        ("layers.1.self_attn", "batch_first", False),
        ("layers.1.self_attn", "head_dim", 6),
        ("layers.0.norm2", "eps", 0.5),
        ("layers.1.dropout2", "p", 0.5),
        ("layers.1", "activation", nn.functional.silu),
        ("layers.0", "activation_relu_or_gelu", 2),
    ):
        module = encoder()
        setattr(module.get_submodule(path), attribute, value)
        with pytest.raises(ValueError, match=rf"{path}(:|\.).*must be"):
            from_torch(module)


def test_a_stack_with_fewer_layers_is_taken_and_one_with_a_layer_twice_refused() -> None:
    module, x = encoder(norm_first=True).eval(), torch.randn(2, 5, 12)
    del module.layers[0]
    torch.testing.assert_close(from_torch(module)(x), module(x))
    module = encoder()
    module.layers[1] = module.layers[0]
    with pytest.raises(ValueError, match=r"layers\.1\.\S+ must be a parameter of its own"):
        from_torch(module)


def test_attributes_of_our_modules_are_those_of_the_configuration_or_refused() -> None:
    for path, attribute, value in (
        ("layers.1.attention", "dropout", 0.5),
        ("layers.1.dropout", "p", 0.5),
        ("layers.0.norms.1", "eps", 0.5),
        ("norm", "eps", 0.5),
        ("layers.1.feed_forward", "activation", "relu"),
        ("layers.1", "config", StackConfig(width=12, heads=3, norm_eps=0.5)),
    ):
        module = our_encoder()
        setattr(module.get_submodule(path), attribute, value)
        with pytest.raises(ValueError, match=rf"{path}\.{attribute} must be"):
            to_torch(module)


def test_parts_of_our_modules_are_ours_or_refused() -> None:
    for path, part in (
        ("layers.1.norms.0", nn.Identity()),
        ("layers.1.norms.0", nn.LayerNorm(12)),
        ("layers.1.feed_forward.dropout", nn.Identity()),
        ("norm", LayerNorm(12, 0.5)),
        ("layers.1.attention.w_q", nn.Linear(12, 12)),
    ):
        module = our_encoder()
        put(module, path, part)
        with pytest.raises(ValueError, match=rf"{path}[.\w]* must be"):
            to_torch(module)
    module = our_encoder()
    module.layers[1] = module.layers[0]
    with pytest.raises(ValueError, match=r"layers\.1\.\S+ must be a parameter of its own"):
        to_torch(module)
    layer: Any = EncoderLayer(StackConfig(width=12, heads=3))
    layer.attention.w_k.weight = layer.attention.w_q.weight
    with pytest.raises(ValueError, match=r"w_k\.weight must be a parameter of its own"):
        to_torch(layer)
