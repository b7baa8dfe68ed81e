"""Watching models of transformers: what is seen is what their eager attention reports."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.watch_checks import assert_layer_is
from helpers.watch_models import DECODERS, ENCODERS, MODELS, build
from torch import Tensor

import regard

B, N = 2, 11
SEE = regard.See(entropy=True, top=3, map=(3, 4), received=True, distance=True)


@pytest.fixture(autouse=True)
def _without_gradients() -> Any:
    with torch.no_grad():
        yield


def given(name: str) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(3)
    if name == "vit":
        return {"pixel_values": torch.randn(B, 3, 12, 12, generator=random)}
    ids = torch.randint(2, 59, (B, N), generator=random)
    inputs = {"input_ids": ids, "attention_mask": torch.ones(B, N, dtype=torch.int64)}
    if name in ("t5", "marian"):
        inputs["decoder_input_ids"] = torch.randint(2, 59, (B, 7), generator=random)
    return inputs


def attentions(name: str, inputs: dict[str, Tensor]) -> dict[str, list[Tensor]]:
    out = build(name, "eager")(**inputs, output_attentions=True)
    if name in ("t5", "marian"):
        return {
            "encoder": list(out.encoder_attentions),
            "decoder": list(out.decoder_attentions),
            "cross": list(out.cross_attentions),
        }
    return {"": list(out.attentions)}


def main_output(out: Any) -> Tensor:
    return out.logits if "logits" in out else out.last_hidden_state


def by_part(run: regard.Run) -> dict[str, list[regard.Layer]]:
    parts: dict[str, list[regard.Layer]] = {}
    for name, layer in run.layers.items():
        if "decoder" in name:
            part = "cross" if layer.cross else "decoder"
        else:
            part = "encoder" if "encoder." in name and "bert" not in name else ""
        parts.setdefault(part, []).append(layer)
    return parts


def compare(
    name: str, run: regard.Run, inputs: dict[str, Tensor], real: Tensor | None = None
) -> None:
    expected = attentions(name, inputs)
    found = by_part(run)
    if "" in expected:
        found = {"": list(run.layers.values())}
    assert {part: len(layers) for part, layers in found.items()} == {
        part: len(each) for part, each in expected.items()
    }
    for part, layers in found.items():
        for layer, weights in zip(layers, expected[part], strict=True):
            if part == "cross":
                assert layer.cross
                assert_layer_is(layer, weights, keys=real)
            elif part == "decoder":
                assert_layer_is(layer, weights)
            else:
                assert_layer_is(layer, weights, queries=real, keys=real)


@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("name", MODELS)
def test_every_statistic_is_that_of_the_models_own_weights(name: str, implementation: str) -> None:
    model, inputs = build(name, implementation), given(name)
    before = model.config._attn_implementation
    expected = main_output(model(**inputs))
    with regard.watch(model, SEE) as run:
        out = main_output(model(**inputs))
    assert model.config._attn_implementation == before
    torch.testing.assert_close(out, expected, atol=2e-4, rtol=1e-4)
    compare(name, run, inputs)


@pytest.mark.parametrize("side", ["left", "right"])
@pytest.mark.parametrize("name", [n for n in MODELS if n != "vit"])
def test_padding_on_either_side_is_in_no_statistic(name: str, side: str) -> None:
    model, inputs = build(name), given(name)
    inputs["attention_mask"][0, slice(0, 3) if side == "left" else slice(-3, None)] = 0
    real = inputs["attention_mask"].bool()
    expected = main_output(model(**inputs))
    with regard.watch(model, SEE) as run:
        out = main_output(model(**inputs))
    where = real if expected.shape[1] == N else torch.ones(B, 7, dtype=torch.bool)
    torch.testing.assert_close(out[where], expected[where], atol=2e-4, rtol=1e-4)
    compare(name, run, inputs, real)


@pytest.mark.parametrize("name", ["t5", "marian"])
def test_padding_of_the_encoder_is_not_the_decoders_even_if_both_are_as_long(name: str) -> None:
    model, inputs = build(name), given(name)
    inputs["decoder_input_ids"] = inputs["input_ids"].flip(1)
    inputs["attention_mask"][0, -3:] = 0
    with regard.watch(model, SEE) as run:
        model(**inputs)
    compare(name, run, inputs, inputs["attention_mask"].bool())
    assert all(layer.queries is None for layer in run.layers.values() if layer.cross)


@pytest.mark.parametrize("name", [*ENCODERS, *DECODERS, "t5"])
def test_weights_that_are_asked_for_are_returned(name: str) -> None:
    model, inputs = build(name), given(name)
    with regard.watch(model):
        out = model(**inputs, output_attentions=True)
    expected = attentions(name, inputs)
    found = (
        {"encoder": out.encoder_attentions, "decoder": out.decoder_attentions,
         "cross": out.cross_attentions}
        if name == "t5"
        else {"": out.attentions}
    )  # fmt: skip
    for part, each in expected.items():
        for a, b in zip(found[part], each, strict=True):
            torch.testing.assert_close(a, b, atol=2e-5, rtol=1e-3)


@pytest.mark.parametrize("keep", [(), ("q", "k")])
@pytest.mark.parametrize("name", DECODERS)
def test_a_generation_is_one_record(name: str, keep: tuple[str, ...]) -> None:
    model, inputs = build(name), given(name)
    arguments = {"max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False, "pad_token_id": 0}
    expected = model.generate(**inputs, **arguments)
    see = SEE if keep else regard.See(entropy=True, top=3, distance=True)
    with regard.watch(model, see, keep=keep) as run:
        found = model.generate(**inputs, **arguments)
    assert torch.equal(found, expected)
    whole = {"input_ids": found[:, :-1], "attention_mask": torch.ones_like(found[:, :-1])}
    full = build(name, "eager")(**whole, output_attentions=True).attentions
    assert len(run.layers) == len(full)
    for layer, weights in zip(run.layers.values(), full, strict=True):
        assert_layer_is(layer, weights, atol=5e-5, see=see)
    assert run.token_ids is not None
    assert torch.equal(run.token_ids, found[:, :-1])


def test_a_map_of_a_growing_text_without_q_and_k_is_refused_in_words() -> None:
    model, inputs = build("llama"), given("llama")
    with (
        pytest.warns(UserWarning, match=r"map of model\.layers\.0\.self_attn: not made"),
        regard.watch(model, regard.See(map=(3, 3))) as run,
    ):
        model.generate(**inputs, max_new_tokens=3, min_new_tokens=3, pad_token_id=0)
    assert all(layer.map is None for layer in run.layers.values())


def test_cross_attention_goes_on_while_generating() -> None:
    model, inputs = build("t5"), given("t5")
    del inputs["decoder_input_ids"]
    with regard.watch(model, regard.See(entropy=True)) as run:
        found = model.generate(**inputs, max_new_tokens=5, min_new_tokens=5, do_sample=False)
    crossed = [layer for layer in run.layers.values() if layer.cross]
    assert len(crossed) == 2
    assert all(layer.shape == (B, 6, found.shape[1] - 1, N) for layer in crossed)


def test_no_mask_of_all_queries_by_all_keys_is_built(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers import masking_utils

    model, inputs = build("mistral"), given("mistral")
    inputs["attention_mask"][0, :3] = 0

    def refuse(*_: Any, **__: Any) -> None:
        raise AssertionError("a whole mask was built")

    monkeypatch.setattr(masking_utils, "sdpa_mask", refuse)
    with regard.watch(model, SEE) as run:
        model(**inputs)
    assert run.layers["model.layers.0.self_attn"].options.window == (3, None)


def test_an_induction_head_is_scored_by_its_tokens() -> None:
    model = build("llama")
    ids = torch.tensor([[5, 6, 7, 8, 5, 6, 7, 8, 5]])
    with regard.watch(model, SEE) as run:
        weights = build("llama", "eager")(ids, output_attentions=True).attentions
        model(ids)
    for layer, full in zip(run.layers.values(), weights, strict=True):
        share = layer.shares["induction"]
        assert share[..., :4].isnan().all()
        for i in range(4, 9):
            torch.testing.assert_close(share[..., i], full[..., i, i - 3], atol=2e-5, rtol=1e-4)


def test_an_argument_that_the_attention_of_a_model_does_not_read_changes_nothing() -> None:
    model, inputs = build("llama"), given("llama")
    expected = model(**inputs, strange=torch.ones(1)).logits
    with regard.watch(model) as run:
        out = model(**inputs, strange=torch.ones(1)).logits
    assert len(run.layers) == 2
    torch.testing.assert_close(out, expected, atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("way", ["eager", "sdpa"])
@pytest.mark.parametrize("name", ["bert", "gpt2", "llama", "gemma2"])
@pytest.mark.parametrize("dtype", [torch.bool, torch.int64, torch.float32])
def test_a_mask_of_four_axes_is_added_where_the_model_adds_it(
    name: str, way: str, dtype: torch.dtype
) -> None:
    model, inputs = build(name, way), given(name)
    way = model.config._attn_implementation
    inputs["attention_mask"] = torch.ones(B, 1, N, N, dtype=torch.bool).tril().to(dtype)
    if way == "sdpa" and dtype == torch.int64:
        with pytest.raises(RuntimeError, match="attn_mask dtype"), regard.watch(model):
            model(**inputs)
        return
    expected = main_output(model(**inputs))
    with regard.watch(model, SEE) as run:
        out = main_output(model(**inputs))
    torch.testing.assert_close(out, expected, atol=2e-4, rtol=1e-4)
    is_added = way == "eager" or dtype != torch.bool
    for layer in run.layers.values():
        assert bool((layer.allowed == N).all()) == is_added


def test_a_mask_of_blocks_is_what_its_function_says() -> None:
    from torch.nn.attention.flex_attention import create_block_mask

    def near(_b: Tensor, _h: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return (key <= query) & (query - key < 3)

    mask = torch.ones(B, 1, N, N, dtype=torch.bool).tril().triu(-2)
    inputs = given("llama")
    expected = build("llama")(**inputs | {"attention_mask": mask}).logits
    model = build("llama", "flex_attention")
    blocks = create_block_mask(near, B, None, N, N, device="cpu")
    with regard.watch(model, SEE) as run:
        out = model(**inputs | {"attention_mask": blocks}).logits
    torch.testing.assert_close(out, expected, atol=2e-4, rtol=1e-4)
    assert len(run.layers) == 2
    model.set_attn_implementation("sdpa")
    with pytest.raises(TypeError, match="attn_mask"), regard.watch(model):
        model(**inputs | {"attention_mask": blocks})


def test_a_model_that_cannot_be_replaced_is_named() -> None:
    from transformers import YosoConfig, YosoModel

    torch.manual_seed(0)
    sizes: dict[str, Any] = {"hidden_size": 24, "num_hidden_layers": 2, "num_attention_heads": 6}
    model = YosoModel(YosoConfig(vocab_size=61, intermediate_size=32, **sizes)).eval()
    with pytest.warns(UserWarning, match="it was not seen"), regard.watch(model) as run:
        model(torch.arange(7)[None])
    assert not run.layers
    (line,) = run.unseen
    assert line.startswith("YosoModel: transformers computes its attention in a way")
    assert "scaled_dot_product_attention" not in line


def test_training_goes_on_with_the_same_gradients() -> None:
    gradients: list[Tensor] = []
    for watched in (False, True):
        model, inputs = build("llama"), given("llama")
        with torch.enable_grad():
            if watched:
                with regard.watch(model, regard.See(entropy=True)):
                    model(**inputs, labels=inputs["input_ids"]).loss.backward()
            else:
                model(**inputs, labels=inputs["input_ids"]).loss.backward()
        grad = model.model.layers[0].self_attn.q_proj.weight.grad
        assert grad is not None
        gradients.append(grad)
    torch.testing.assert_close(*gradients, atol=1e-4, rtol=1e-3)
