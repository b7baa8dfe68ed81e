"""The steps of a model: which there are, and that their numbers are the model's own."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from helpers.traced_models import IDS, MADE, TARGET, made, settle, traced
from numpy.testing import assert_allclose, assert_array_equal
from torch import nn

import regard
from regard import Trace, reference, trace
from regard._rules.general import Summed
from regard.nn import (
    Encoder,
    EncoderLayer,
    MultiHeadAttention,
    PostNorm,
    SelfAttention,
    StackConfig,
)


def run(model: nn.Module, given: Any, options: dict[str, Any]) -> np.ndarray:
    """What the model itself makes of what its trace was given."""
    one = torch.as_tensor(given)[None]
    own = {name: options[name] for name in ("causal",) if name in options}
    if "context" in options:
        memory = "context" if isinstance(model, MultiHeadAttention) else "memory"
        own[memory] = options["context"][None]
    more = [torch.tensor([options["target"]])] if "target" in options else []
    with torch.no_grad():
        return model(one, *more, **own)[0].numpy()


@pytest.mark.parametrize("name", MADE)
def test_the_last_step_is_what_the_model_gives(name: str) -> None:
    model, given, options = made(name)
    found = trace(given, model=model, **options)
    last = found.steps[list(found.steps)[-1]]
    assert_array_equal(np.squeeze(last.array), np.squeeze(run(model, given, options)))


@pytest.mark.parametrize("name", MADE)
def test_every_step_has_a_label_for_every_place_and_says_what_it_means(name: str) -> None:
    for step in traced(name).steps.values():
        assert step.array.shape == tuple(len(axis.labels) for axis in step.axes)
        assert step.title
        assert step.symbol
        assert step.meaning
        assert step.formula


@pytest.mark.parametrize("name", MADE)
def test_weights_times_values_is_the_output_of_every_head(name: str) -> None:
    found = traced(name)
    for attention in found.attentions:
        begin = f"{attention}." if attention else ""
        weights, values, output = (
            found.steps[begin + each].array for each in ("weights", "value", "head_output")
        )
        assert_allclose(weights.sum(-1), np.ones(weights.shape[:2]), rtol=1e-12)
        shared = np.repeat(values, len(weights) // len(values), axis=0)
        assert_allclose(weights @ shared, output, rtol=1e-12, atol=1e-13)


def test_the_names_of_an_encoder_layers_steps_are_these() -> None:
    assert list(traced("post-norm").steps) == [
        "input",
        *(f"attention.{name}" for name in ("input", "query", "key", "value", "scores", "scaled")),
        *(f"attention.{name}" for name in ("weights", "head_output", "concatenated", "output")),
        "attention.residual",
        "norms.0.input",
        "norms.0.output",
        *(f"feed_forward.{name}" for name in ("input", "hidden", "activated", "output")),
        "feed_forward.residual",
        "norms.1.input",
        "norms.1.output",
        "output",
    ]


def test_a_transformer_has_source_and_target_and_looks_from_one_to_the_other() -> None:
    model, *_ = made("transformer")
    source, target = [*"abcde"], [*"xyz"]
    found = trace(IDS, model=model, target=TARGET, tokens=source, target_tokens=target)
    assert found.sequences == {"source": tuple(source), "target": tuple(target)}
    cross = found.steps["decoder.layers.0.cross.weights"]
    assert [axis.labels for axis in cross.axes[-2:]] == [tuple(target), tuple(source)]
    assert cross.array.shape == (6, 3, 5)
    own = found.steps["encoder.layers.1.attention.weights"]
    assert [axis.labels for axis in own.axes[-2:]] == [tuple(source)] * 2
    decoder = found.steps["decoder.layers.0.attention.weights"]
    assert [axis.labels for axis in decoder.axes[-2:]] == [tuple(target)] * 2
    assert found.steps["target_embedding.tokens"].axes[0].labels == tuple(target)
    assert found.steps["decoder.layers.0.cross.context"].formula == (
        "Y = encoder.layers.1.norms.1.output"
    )
    assert found.attentions == (
        "encoder.layers.0.attention",
        "encoder.layers.1.attention",
        "decoder.layers.0.attention",
        "decoder.layers.0.cross",
    )


def test_a_pre_norm_residual_goes_round_the_norm_and_a_post_norm_one_round_the_sublayer() -> None:
    for name in ("pre-norm", "post-norm", "decoder layer", "decoder layer alone"):
        found = traced(name)
        for step in found.steps.values():
            if step.name.endswith(".residual"):
                assert isinstance(step.rule, Summed)
                x, sublayer = (found.steps[each].array for each in step.rule.of)
                assert_array_equal(x + sublayer, step.array)
    assert traced("pre-norm").steps["attention.residual"].formula == "R = input + attention"
    assert traced("pre-norm").steps["feed_forward.residual"].formula == (
        "R = attention.residual + feed_forward"
    )
    assert traced("post-norm").steps["feed_forward.residual"].formula == (
        "R = norms.0.output + feed_forward"
    )
    assert "attention.residual" not in traced("notes' norm").steps
    assert traced("notes' norm").steps["feed_forward.residual"].formula == (
        "R = attention.output + feed_forward"
    )


def test_a_key_head_is_named_for_the_query_heads_that_it_serves() -> None:
    found = traced("grouped")
    assert found.steps["key"].axes[0].labels == ("heads 1–3", "heads 4–6")
    assert found.steps["query"].axes[0].labels == tuple(f"head {h}" for h in range(1, 7))


def test_scores_are_of_what_was_turned_and_alibi_is_added() -> None:
    found = traced("rotary halves")
    scores = np.einsum(
        "hid,hjd->hij", *(found.steps[f"turned_{name}"].array for name in ("query", "key"))
    )
    assert_allclose(found.steps["scores"].array, scores, rtol=1e-12)
    found = traced("ALiBi")
    bias = found.steps["bias"].array
    assert_array_equal(bias[:, 4, 1], [-3 / 16, -3 / 256, -3 / 4])
    scaled = found.steps["scores"].array / 2 + bias
    earlier = np.tril(np.ones((5, 5), dtype=bool))
    assert_allclose(found.steps["scaled"].array[:, earlier], scaled[:, earlier], rtol=1e-12)
    assert (found.steps["scaled"].array[:, ~earlier] == -np.inf).all()


def test_a_window_masks_what_is_too_far_away() -> None:
    found = traced("window")
    near = reference.allowed_keys(5, 5, window=(1, 1))
    assert_array_equal(found.steps["attention.weights"].array > 0, np.stack([near] * 6))
    assert found.explain("attention.scaled", 0, 4) == (
        "−∞: masked, as “x5” may not be seen by “x1”"
    )


def test_a_module_that_runs_twice_has_its_steps_twice() -> None:
    encoder = Encoder(StackConfig(width=6, heads=3, layers=2, residual=PostNorm()))
    encoder.layers[1] = encoder.layers[0]
    settle(encoder)
    found = trace(torch.randn(5, 6, generator=torch.Generator().manual_seed(3)), model=encoder)
    assert found.attentions == ("layers.0.attention", "layers.0.attention#2")
    first, second = (found.steps[f"{name}.output"].array for name in found.attentions)
    assert (first != second).any()
    for name in ("layers.0.attention#2.query", "layers.0#2.attention.residual"):
        said = found.explain(name, 1, 1)
        total = math.fsum(math.prod(t) if isinstance(t, tuple) else t for t in said.terms)
        assert total == pytest.approx(said.value, rel=1e-12)
    for name in found.steps:
        found.explain(name, -1, -1)


# ── what it is given ──────────────────────────────────────────────────────────────────────────


def test_a_text_has_random_embeddings_for_a_module_without_a_vocabulary() -> None:
    layer = SelfAttention(7)
    found = trace("the cat and the dog", model=layer, seed=3)
    x = found.steps["input"].array
    assert found.sequences["input"] == ("the", "cat", "and", "the", "dog")
    assert_array_equal(x[0], x[3])
    assert_allclose(x, trace("the cat and the dog", width=7, heads=1, seed=3).steps["input"].array,
                    atol=1e-6)  # fmt: skip
    assert "random numbers (seed 3)" in found.note


class Pieces:
    """A tokenizer as `transformers` has them, of words by their length."""

    is_fast = True

    def __call__(self, text: str, **options: Any) -> dict[str, Any]:
        words = text.split()
        ends = np.cumsum([len(word) + 1 for word in words]) - 1
        spans = [(int(end) - len(word), int(end)) for word, end in zip(words, ends, strict=True)]
        found: dict[str, Any] = {"input_ids": [0, *map(len, words)]}
        return found | {"offset_mapping": [(0, 0), *spans]}

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return ["[start]" if each == 0 else f"##{each}" for each in ids]


def test_a_text_is_read_by_a_tokenizer_and_its_tokens_are_pieces_of_it() -> None:
    model, *_ = made("language model")
    found = trace("I love phones", model=model, tokenizer=Pieces())
    assert found.sequences["input"] == ("[start]", "I", "love", "phones")
    assert found.steps["embedding.ids"].array.tolist() == [[0], [1], [4], [6]]
    assert found.title == "I love phones"
    assert found.steps["logits"].axes[1].labels[:3] == ("[start]", "##1", "##2")
    assert trace([0, 6], model=model, tokenizer=Pieces()).sequences["input"] == ("[start]", "##6")


def test_a_function_is_a_tokenizer_too() -> None:
    model, *_ = made("language model")
    found = trace("I love phones", model=model, tokenizer=lambda text: [len(text), 3])
    assert found.sequences["input"] == ("id 13", "id 3")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_numbers_are_the_models_own_in_any_precision(dtype: torch.dtype) -> None:
    model, given, _ = made("language model")
    model = model.to(dtype)
    found = trace(given, model=model)
    with torch.no_grad():
        logits = model(torch.tensor([given]))[0]
    assert_array_equal(found.steps["logits"].array, logits.double().numpy())


def test_nothing_drops_out_and_every_module_stays_in_the_mode_it_was_in() -> None:
    config = StackConfig(width=6, heads=3, residual=PostNorm(), dropout=0.5)
    layer = EncoderLayer(config)
    layer.feed_forward.eval()
    x = torch.randn(5, 6, generator=torch.Generator().manual_seed(1))
    one, other = (trace(x, model=layer).steps["output"].array for _ in range(2))
    assert_array_equal(one, other)
    assert layer.training
    assert layer.attention.training
    assert not layer.feed_forward.training


def test_a_trace_keeps_its_numbers_when_the_model_is_trained_on() -> None:
    model, given, options = made("language model")
    found = trace(given, model=model, **options)
    before = {
        name: [found.explain(name, 0, 0), found.explain(name, -1, -1)] for name in found.steps
    }
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.fill_(9.0)
    for name, lines in before.items():
        assert [found.explain(name, 0, 0), found.explain(name, -1, -1)] == lines


def test_gradients_and_recorders_are_left_alone() -> None:
    from regard.nn import _hooks

    model, given, _ = made("language model")
    trace(given, model=model)
    assert all(parameter.grad is None for parameter in model.parameters())
    assert torch.is_grad_enabled()
    assert not _hooks.is_recording()


# ── the check ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["language model", "transformer", "ALiBi", "grouped"])
def test_an_output_that_does_not_follow_from_the_weights_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, dtype: torch.dtype
) -> None:
    from regard.nn import attention as module

    right = module.attention

    def wrong(*args: Any, **options: Any) -> Any:
        out = right(*args, **options)
        return out * (1 + 64 * torch.finfo(out.dtype).eps)

    model, given, options = made(name)
    model = model.to(dtype)
    trace(given, model=model, **options)
    monkeypatch.setattr(module, "attention", wrong)
    with pytest.raises(
        ValueError, match=r"weights · V must be what the model computed; it differs"
    ):
        trace(given, model=model, **options)


def test_a_trace_says_that_it_was_checked() -> None:
    assert "Checked: in attention weights · V is what it computed" in traced("grouped").note
    assert "Checked: in each of 4 attentions" in traced("transformer").note
    assert "Checked" not in traced("layer norm").note


# ── what there is ─────────────────────────────────────────────────────────────────────────────


def test_printing_lists_every_step_with_its_shape_and_formula() -> None:
    found = traced("decoder layer")
    lines = str(found).splitlines()
    assert lines[0] == "DecoderLayer: 5 input tokens, 3 context tokens, 36 steps"
    assert [line.split()[0] for line in lines[1:-1]] == list(found.steps)
    assert lines[-1].startswith('Numbers: .steps["input"].array; how one came about: .explain(')
    query = next(line for line in lines if line.startswith("  cross.query "))
    assert query.split(maxsplit=6)[1:] == ["6", "×", "5", "×", "4", "Q = X W_Q + b"]
    key = next(line for line in lines if line.startswith("  cross.key "))
    assert key.endswith("2 × 3 × 4  K = Y W_K + b")
    assert repr(found) == f"<Trace of {lines[0]}>"


def test_a_step_that_is_not_there_is_refused_with_names_that_are_like_it() -> None:
    found = traced("language model")
    with pytest.raises(KeyError, match=r"no step 'weights'. It has: decoder.layers.0.attention"):
        found.explain("weights", 0, 0)
    with pytest.raises(KeyError, match=r"no step 'nonsense'. It has: embedding.ids, .*, …"):
        found.explain("nonsense", 0, 0)
    with pytest.raises(KeyError, match=r"there is no token 'cat'. There are: I, love"):
        found.explain("logits", "cat", 0)
    with pytest.raises(KeyError, match="'love' occurs 2 times: say love#1, love#2"):
        found.explain("logits", "love", 0)


def test_the_door_is_the_same_for_models() -> None:
    assert isinstance(regard.trace([1], model=made("language model")[0]), Trace)


def test_watching_a_model_gives_the_same_weights_under_the_same_names() -> None:
    model, source, options = made("transformer")
    found = trace(source, model=model, **options)
    with regard.watch(model, keep=("q", "k")) as run, torch.no_grad():
        model(torch.tensor([source]), torch.tensor([options["target"]]))
    assert tuple(run.layers) == found.attentions
    for name, layer in run.layers.items():
        assert_allclose(layer.weights()[0], found.steps[f"{name}.weights"].array, rtol=1e-10)
