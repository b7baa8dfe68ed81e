"""watch on the modules of regard.nn: every attention by name, generation, ablation, and moves."""

from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard import reference
from regard.nn import (
    ALiBi,
    Cache,
    LanguageModel,
    LanguageModelConfig,
    Learned,
    NotesNorm,
    Position,
    PostNorm,
    PreNorm,
    Residual,
    Rotary,
    Transformer,
    TransformerConfig,
)
from regard.nn._hooks import recording

SEE = regard.See(entropy=True, top=3)


def language_model(**options: Any) -> LanguageModel:
    torch.manual_seed(0)
    config: dict[str, Any] = {"vocabulary": 31, "width": 15, "heads": 3, "kv_heads": 1, "layers": 2}
    return LanguageModel(LanguageModelConfig(**config | options)).eval()


def transformer() -> Transformer:
    torch.manual_seed(0)
    config = TransformerConfig(vocabulary=31, width=15, heads=3, layers=2, position=Learned(11))
    return Transformer(config).eval()


def some_ids(*shape: int) -> Tensor:
    return torch.randint(31, shape, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
def test_every_attention_of_a_transformer_is_seen_by_name_and_is_exact() -> None:
    model, source, target = transformer(), some_ids(2, 7), some_ids(2, 5)
    lengths = torch.tensor([7, 4])
    blind = model(source, target, source_lengths=lengths)
    with regard.watch(model, SEE, keep=("q", "k", "v", "output")) as run:
        watched = model(source, target, source_lengths=lengths)
    assert torch.equal(watched, blind)
    encoder = [f"encoder.layers.{n}.attention" for n in range(2)]
    decoder = [f"decoder.layers.{n}.{part}" for n in range(2) for part in ("attention", "cross")]
    assert list(run.layers) == encoder + decoder
    assert [layer.cross for layer in run.layers.values()] == [False] * 2 + [False, True] * 2
    for name, layer in run.layers.items():
        assert layer.q is not None
        assert layer.k is not None
        assert layer.v is not None
        assert layer.output is not None
        assert layer.entropy is not None
        truth = reference.attention(
            layer.q.double().numpy(),
            layer.k.double().numpy(),
            layer.v.double().numpy(),
            causal=name in decoder[::2],
            lengths=None if name in decoder[::2] else lengths.numpy(),
        )
        entropy = torch.from_numpy(reference.entropy(truth.weights))
        torch.testing.assert_close(layer.entropy.double(), entropy, rtol=1e-5, atol=1e-5)
        output = torch.from_numpy(truth.output)
        torch.testing.assert_close(layer.output.double(), output, rtol=5e-6, atol=1e-5)


class Brackets:
    def decode(self, ids: list[int], **_: Any) -> str:
        return "".join(f"<{i}>" for i in ids)


@torch.no_grad()
def test_source_and_target_of_a_transformer_give_their_own_tokens() -> None:
    model, source, target = transformer(), some_ids(1, 7), some_ids(1, 5)
    with regard.watch(model, SEE, tokenizer=Brackets()) as run:
        model(source, target=target)
    assert run.token_ids is not None
    assert torch.equal(run.token_ids, source)
    named = run.layers["decoder.layers.0.attention"].tokens
    assert named is not None
    assert [token.text for token in named[0]] == [f"<{i}>" for i in target[0].tolist()]


@torch.no_grad()
@pytest.mark.parametrize("position", [Rotary(width=4), ALiBi(), Learned(11)], ids=str)
def test_generation_with_a_cache_is_seen_as_one_pass(position: Position) -> None:
    model, ids = language_model(position=position), some_ids(2, 11)
    with regard.watch(model, SEE) as whole:
        model(ids)
    with regard.watch(model, SEE) as run:
        cache = model.new_cache(2)
        for start, end in ((0, 5), (5, 6), (6, 7), (7, 11)):
            model(ids[:, start:end], cache=cache)
    assert isinstance(cache, Cache)
    assert run.token_ids is not None
    assert torch.equal(run.token_ids, ids)
    for name, layer in whole.layers.items():
        torch.testing.assert_close(run.layers[name].entropy, layer.entropy)
        assert run.layers[name].shape == (2, 3, 11, 11)


@torch.no_grad()
@pytest.mark.parametrize("norm", ["layer", "rms"])
@pytest.mark.parametrize("residual", [PostNorm(), PreNorm(), NotesNorm()], ids=str)
def test_where_attention_leaves_a_token_is_what_the_layer_says(
    residual: Residual, norm: str
) -> None:
    model = language_model(residual=residual, norm=norm, position=Rotary(width=4))
    ids = some_ids(1, 7)
    with recording(model) as told, regard.watch(model, SEE, keep=("hidden_states",)) as run:
        model(ids)
    step = {"PostNorm": "norms.0 output", "PreNorm": " attention.residual"}.get(
        type(residual).__name__, "attention output"
    )
    part, name = step.split(" ")
    for n in range(2):
        path = f"decoder.layers.{n}" + (f".{part}" if part else "")
        (said,) = [x.tensor for x in told if x.path == path and x.name == name]
        torch.testing.assert_close(run.between[f"decoder.layers.{n}"], said)


@torch.no_grad()
def test_a_cut_head_gives_what_a_head_of_zeros_gives() -> None:
    model, ids = language_model(position=Rotary(width=4)), some_ids(2, 7)
    with regard.watch(model, SEE, ablate={1: [2]}):
        ablated = model(ids)
    mix = model.get_parameter("decoder.layers.1.attention.w_o.weight")
    mix[:, 10:15] = 0.0
    torch.testing.assert_close(ablated, model(ids))


@torch.no_grad()
def test_what_a_transformer_generates_is_seen_with_its_own_tokens() -> None:
    model, source = transformer(), some_ids(1, 7)
    with regard.watch(model, SEE, tokenizer=Brackets()) as run:
        written = model.generate(source, start=3, max_new_tokens=5).tokens[0]
    read = [3, *written[:-1]]  # the last token is never read
    layer = run.layers["decoder.layers.1.attention"]
    assert layer.shape == (1, 3, 5, 5)
    assert layer.tokens is not None
    assert [token.text for token in layer.tokens[0]] == [f"<{i}>" for i in read]
    assert run.layers["decoder.layers.1.cross"].shape == (1, 3, 5, 7)
    with regard.watch(model, SEE) as whole:
        model(source, torch.tensor([read]))
    for name, seen in whole.layers.items():
        assert seen.entropy is not None
        torch.testing.assert_close(run.layers[name].entropy, seen.entropy)
