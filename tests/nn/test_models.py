"""Models: token ids in, and what their formulas say out; bad input is refused before any work."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from helpers.formulas import ACTIVATIONS, array, close, linear, norm, scrambled
from torch import Tensor, nn

from regard import reference
from regard.nn import (
    ALiBi,
    EncoderModel,
    EncoderModelConfig,
    LanguageModel,
    LanguageModelConfig,
    Learned,
    MaskedLanguageModel,
    MaskedLanguageModelConfig,
    Position,
    RelativeBias,
    Rotary,
    SequenceClassifier,
    SequenceClassifierConfig,
    Sinusoidal,
    Transformer,
    TransformerConfig,
)

SIZES: dict[str, Any] = {"vocabulary": 11, "width": 12, "heads": 3, "hidden": 7, "layers": 2}
IDS = torch.tensor([[1, 5, 2, 7, 3], [4, 0, 10, 6, 8]])
POSITIONS = [Sinusoidal(), Learned(7), Rotary(), ALiBi(), RelativeBias(8, 16)]


def language(**options: Any) -> LanguageModel:
    model = scrambled(LanguageModel(LanguageModelConfig(**(SIZES | options))))
    assert isinstance(model, LanguageModel)
    return model


def encoder(**options: Any) -> EncoderModel:
    model = scrambled(EncoderModel(EncoderModelConfig(**(SIZES | options))))
    assert isinstance(model, EncoderModel)
    return model


def classifier(**options: Any) -> SequenceClassifier:
    config = SequenceClassifierConfig(**(SIZES | options), classes=5)
    model = scrambled(SequenceClassifier(config))
    assert isinstance(model, SequenceClassifier)
    return model


def masked(**options: Any) -> MaskedLanguageModel:
    model = scrambled(MaskedLanguageModel(MaskedLanguageModelConfig(**(SIZES | options))))
    assert isinstance(model, MaskedLanguageModel)
    return model


def transformer(**options: Any) -> Transformer:
    model = scrambled(Transformer(TransformerConfig(**(SIZES | options))))
    assert isinstance(model, Transformer)
    return model


# ── what they compute ─────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("scale", [True, False])
@pytest.mark.parametrize("has_norm", [True, False])
def test_embeddings_are_rows_plus_segments_plus_positions(scale: bool, has_norm: bool) -> None:
    model = encoder(
        segments=2, position=Sinusoidal(), embedding_scale=scale, embedding_norm=has_norm
    )
    embedding, kinds = model.embedding, torch.tensor([[0, 0, 1, 1, 1], [1, 0, 0, 0, 0]])
    tokens, segments = embedding.tokens, embedding.segments
    assert segments is not None
    wanted = array(tokens.weight)[IDS.numpy()] * (12**0.5 if scale else 1.0)
    wanted = wanted + array(segments.weight)[kinds.numpy()] + reference.sinusoidal(5, 12)
    if embedding.norm is not None:
        wanted = norm(embedding.norm, wanted)
    close(embedding(IDS, segments=kinds), wanted)
    close(model(IDS, segments=kinds), model.encoder(torch.from_numpy(wanted)))
    zero = torch.zeros_like(IDS)
    assert torch.equal(model(IDS), model(IDS, segments=zero))


def test_a_language_model_is_embedding_decoder_head() -> None:
    model = language(head_bias=True, tied=False)
    x = model.decoder(model.embedding(IDS))
    close(model.hidden(IDS), x)
    close(model(IDS), linear(array(x), model.head))
    close(model(IDS, last=True), model(IDS)[:, -1:])


def test_a_masked_language_model_is_its_formula() -> None:
    model = masked(tied=False, norm="rms")
    x = linear(array(model.body(IDS)), model.transform)
    close(model(IDS), linear(norm(model.norm, ACTIVATIONS["gelu"](x)), model.head))


@pytest.mark.parametrize("pooler", [True, False])
@pytest.mark.parametrize("pooling", ["mean", "first"])
def test_a_classifier_pools_real_tokens(pooling: Any, pooler: bool) -> None:
    model = classifier(pooling=pooling, pooler=pooler)
    lengths = torch.tensor([5, 2])
    x = array(model.body(IDS, lengths=lengths))
    pooled = x[:, 0] if pooling == "first" else np.stack([x[0].mean(0), x[1, :2].mean(0)])
    if model.pooler is not None:
        pooled = np.tanh(linear(pooled, model.pooler))
    wanted = linear(pooled, model.head)
    close(model(IDS, lengths=lengths), wanted)
    right = torch.arange(5) < lengths[:, None]
    close(model(IDS, mask=right), wanted)
    left = torch.stack([IDS[0], torch.tensor([9, 9, 9, 4, 0])])
    close(model(left, mask=right.flip(1)), wanted, 1e-11)


def test_the_mean_of_no_tokens_is_0() -> None:
    found = encoder().mean(IDS, lengths=torch.tensor([0, 5]))
    assert torch.equal(found[0], torch.zeros(12, dtype=torch.float64))
    assert found.isfinite().all()


def test_a_transformer_decodes_what_it_encoded() -> None:
    model = transformer(head_bias=True, tied=False, target_vocabulary=13, decoder_layers=3)
    target = torch.tensor([[12, 3, 1], [0, 7, 11]])
    memory = model.encode(IDS)
    close(memory, model.encoder(model.embedding(IDS)))
    x = model.decoder(model.target_embedding(target), memory=memory)
    close(model(IDS, target), linear(array(x), model.head))
    assert model(IDS, target).shape == (2, 3, 13)
    assert len(model.decoder.layers) == 3
    assert len(model.encoder.layers) == 2
    close(model.decode(target, memory, last=True), model(IDS, target)[:, -1:])


# ── padding ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("position", POSITIONS, ids=str)
@pytest.mark.parametrize("make", [language, encoder, masked])
def test_padded_on_either_side_is_as_unpadded(make: Any, position: Position) -> None:
    model = make(position=position)
    alone = model(IDS[1:, :3])[0]
    lengths = torch.tensor([5, 3])
    right = torch.arange(5) < lengths[:, None]
    close(model(IDS, lengths=lengths)[1, :3], alone, 1e-10)
    close(model(IDS, mask=right)[1, :3], alone, 1e-10)
    left = torch.stack([IDS[0], torch.cat([torch.tensor([9, 9]), IDS[1, :3]])])
    close(model(left, mask=right.flip(1))[1, 2:], alone, 1e-10)


@pytest.mark.parametrize("position", POSITIONS, ids=str)
def test_a_transformer_sees_no_padding_on_any_side(position: Position) -> None:
    model = transformer(position=position)
    target = torch.tensor([[2, 3, 1, 5], [8, 7, 10, 9]])
    alone = model(IDS[1:, :3], target[1:, :2])[0]
    of_source, of_target = torch.tensor([5, 3]), torch.tensor([4, 2])
    found = model(IDS, target, source_lengths=of_source, target_lengths=of_target)
    close(found[1, :2], alone, 1e-10)
    masks = {
        "source_mask": torch.arange(5) < of_source[:, None],
        "target_mask": torch.arange(4) < of_target[:, None],
    }
    close(model(IDS, target, **masks)[1, :2], alone, 1e-10)
    source = torch.stack([IDS[0], torch.cat([torch.tensor([9, 9]), IDS[1, :3]])])
    later = torch.stack([target[0], torch.cat([torch.tensor([9, 9]), target[1, :2]])])
    turned = {name: mask.flip(1) for name, mask in masks.items()}
    close(model(source, later, **turned)[1, 2:], alone, 1e-10)


# ── tied tables ───────────────────────────────────────────────────────────────────────────────


def tables(model: nn.Module, *names: str) -> list[Tensor]:
    return [model.get_parameter(f"{name}.weight") for name in names]


def test_tied_tables_are_one_and_learn_as_one() -> None:
    for model, names in (
        (language(), ["embedding.tokens", "head"]),
        (masked(), ["body.embedding.tokens", "head"]),
        (transformer(), ["embedding.tokens", "target_embedding.tokens", "head"]),
        (transformer(target_vocabulary=13), ["target_embedding.tokens", "head"]),
    ):
        first, *others = tables(model, *names)
        assert all(other is first for other in others)
        assert len({id(part) for part in model.parameters()}) == len(list(model.parameters()))
        before = first.detach().clone()
        logits = model(IDS, IDS) if isinstance(model, Transformer) else model(IDS)
        logits.square().sum().backward()
        torch.optim.SGD(model.parameters(), lr=0.1).step()
        assert not torch.equal(first, before)
        assert all(torch.equal(other, first) for other in tables(model, *names))
        again = model.double().float().double()
        assert all(other is tables(again, *names)[0] for other in tables(again, *names))


def test_tables_that_are_not_tied_are_apart() -> None:
    one, two = tables(language(tied=False), "embedding.tokens", "head")
    assert one is not two
    model = transformer(tied=False)
    source, target, head = tables(model, "embedding.tokens", "target_embedding.tokens", "head")
    assert source is target  # one vocabulary
    assert head is not target
    model = transformer(target_vocabulary=13)
    source, target = tables(model, "embedding.tokens", "target_embedding.tokens")
    assert source.shape == (11, 12)
    assert target.shape == (13, 12)


# ── bad input ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("make", [language, encoder, masked, classifier])
def test_tokens_that_are_none_are_refused_in_words(make: Any) -> None:
    model = make()
    with pytest.raises(ValueError, match=r"ids must be from 0 to 10, one of the 11 tokens; got 11"):
        model(torch.tensor([[1, 11]]))
    with pytest.raises(ValueError, match=r"ids must be from 0 to 10, one of the 11 tokens; got -1"):
        model(torch.tensor([[1, -1]]))
    with pytest.raises(TypeError, match=r"ids must be whole numbers, .*; got torch.float32"):
        model(torch.zeros(1, 2))
    with pytest.raises(ValueError, match=r"ids must be \(B, N\); got \(2,\)"):
        model(torch.tensor([1, 2]))
    with pytest.raises(TypeError, match=r"mask must be bool.*got torch.int64"):
        model(IDS, mask=torch.ones_like(IDS))
    with pytest.raises(ValueError, match=r"mask must be \(B, N\) = \(2, 5\); got \(2, 4\)"):
        model(IDS, mask=torch.ones(2, 4, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"lengths must be \(B,\) = \(2,\); got \(1,\)"):
        model(IDS, lengths=torch.tensor([5]))
    assert model(IDS.int()).shape == model(IDS).shape


def test_a_transformer_refuses_both_sides_in_words() -> None:
    model = transformer(target_vocabulary=13)
    with pytest.raises(ValueError, match=r"from 0 to 10, one of the 11 tokens; got 12"):
        model(torch.tensor([[12]]), torch.tensor([[12]]))
    with pytest.raises(ValueError, match=r"from 0 to 12, one of the 13 tokens; got 13"):
        model(torch.tensor([[1]]), torch.tensor([[13]]))
    with pytest.raises(ValueError, match=r"target must be of 2 sequences, as source is; got 1"):
        model(IDS, IDS[:1])
    with pytest.raises(TypeError, match="mask must be bool"):
        model(IDS, IDS, target_mask=torch.ones_like(IDS))


def test_segments_that_are_none_are_refused_in_words() -> None:
    with pytest.raises(ValueError, match=r"segments must be from 0 to 1, one of the 2 kinds"):
        encoder(segments=2)(IDS, segments=torch.full_like(IDS, 2))
    with pytest.raises(ValueError, match="segments must be left out: the model has none"):
        encoder()(IDS, segments=torch.zeros_like(IDS))


def test_a_cache_of_another_batch_or_model_is_refused_and_left_as_it_was() -> None:
    model = language()
    with torch.no_grad():
        cache = model.new_cache(3)
        with pytest.raises(ValueError, match=r"must be those of 3 sequences, as before; got 2"):
            model(IDS, cache=cache)
        cache = language(layers=1).new_cache(2)
        with pytest.raises(ValueError, match=r"the model must have 1 layers; got one of 2"):
            model(IDS, cache=cache)
        assert cache.length == 0
    with pytest.raises(ValueError, match="must carry no gradient"):
        model(IDS, cache=model.new_cache(2))


def test_batches_and_sequences_of_nothing_go_through() -> None:
    for model in (language(), encoder(), masked()):
        assert model(IDS[:0]).shape[:2] == (0, 5)
        assert model(IDS[:, :0]).shape[:2] == (2, 0)
        assert model(IDS[:, :1]).shape[:2] == (2, 1)
    assert transformer()(IDS, IDS[:, :1]).shape == (2, 1, 11)
