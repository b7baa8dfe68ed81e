"""Models of transformers that do something unusual: seen rightly, or named in words."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.watch_checks import assert_layer_is
from helpers.watch_families import small
from helpers.watch_models import build
from torch import Tensor

import regard

B, N, M = 2, 11, 7
SEE = regard.See(entropy=True, top=3, map=(3, 4), received=True, distance=True)
TWO = ("switch", "longt5", "umt5", "nllb_moe")  # those with an encoder and a decoder
EAGER = ("switch", "longt5", "nllb_moe", "mamba")  # those that have nothing else


@pytest.fixture(autouse=True)
def _without_gradients() -> Any:
    with torch.no_grad():
        yield


def made(name: str, implementation: str = "sdpa") -> Any:
    return build(name, "eager" if name in EAGER else implementation)


def given(name: str, padded: bool = False) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(3)
    if name == "beit":
        return {"pixel_values": torch.randn(B, 3, 12, 12, generator=random)}
    inputs = {"input_ids": torch.randint(2, 59, (B, N), generator=random)}
    inputs["attention_mask"] = torch.ones(B, N, dtype=torch.int64)
    inputs["attention_mask"][0, N - 3 :] = 0 if padded else 1
    if name in TWO:
        inputs["decoder_input_ids"] = torch.randint(2, 59, (B, M), generator=random)
    return inputs


def main_output(out: Any) -> Tensor:
    return out.logits if "logits" in out else out.last_hidden_state


def same(
    name: str, implementation: str = "sdpa", padded: bool = False, keep: tuple[str, ...] = ()
) -> regard.Run:
    """The run of a model whose output is that of the unwatched one at real positions."""
    model, inputs = made(name, implementation), given(name, padded)
    expected = main_output(model(**inputs))
    with regard.watch(model, SEE, keep=keep) as run:
        out = main_output(model(**inputs))
    if expected.shape[1] == N:
        real = inputs["attention_mask"].bool()
        out, expected = out[real], expected[real]
    torch.testing.assert_close(out, expected, atol=2e-4, rtol=1e-4)
    return run


@pytest.mark.parametrize("name", ["layoutlm", "switch"])
def test_padding_in_a_mask_of_the_models_own_is_in_no_statistic(name: str) -> None:
    run = same(name, padded=True)
    real = given(name, padded=True)["attention_mask"].bool()
    encoder = [layer for key, layer in run.layers.items() if not key.startswith("decoder")]
    assert len(encoder) == 2
    for layer in encoder:
        assert layer.queries is not None
        assert torch.equal(layer.queries, real)
        assert layer.received is not None
        assert layer.received.sum(-1)[0].tolist() == pytest.approx([N - 3] * 6)
    if name == "layoutlm":
        full = made(name, "eager")(**given(name, padded=True), output_attentions=True).attentions
        for layer, weights in zip(encoder, full, strict=True):
            assert_layer_is(layer, weights, queries=real, keys=real)


def test_padding_of_a_longt5_decoder_is_in_no_statistic() -> None:
    model, inputs = made("longt5"), given("longt5")
    real = torch.ones(B, M, dtype=torch.int64)
    real[1, 4:] = 0
    with pytest.warns(UserWarning, match="cannot be seen"), regard.watch(model, SEE) as run:
        model(**inputs, decoder_attention_mask=real)
    assert len(run.layers) == 4
    for layer in run.layers.values():
        assert layer.received is not None
        assert layer.received.sum(-1)[1].tolist() == pytest.approx([4] * 6, rel=1e-5)


@pytest.mark.parametrize("length", [M, N])
def test_what_looks_at_encoder_hidden_states_is_cross(length: int) -> None:
    model, inputs = made("umt5"), given("umt5")
    inputs["decoder_input_ids"] = inputs["input_ids"].flip(1)[:, :length]
    with regard.watch(model, SEE) as run:
        model(**inputs)
    crossed = {name for name, layer in run.layers.items() if layer.cross}
    assert crossed == {f"decoder.block.{n}.layer.1.EncDecAttention" for n in range(2)}


def test_cross_attention_of_umt5_goes_on_while_generating() -> None:
    model, inputs = made("umt5"), given("umt5")
    del inputs["decoder_input_ids"]
    with regard.watch(model, regard.See(entropy=True)) as run:
        found = model.generate(**inputs, max_new_tokens=5, min_new_tokens=5, do_sample=False)
    assert len(run.layers) == 6
    crossed = [layer for layer in run.layers.values() if layer.cross]
    assert [layer.shape for layer in crossed] == [(B, 6, found.shape[1] - 1, N)] * 2


@pytest.mark.parametrize("padded", [False, True])
def test_a_window_to_both_sides_is_as_wide_as_the_models(padded: bool) -> None:
    run = same("modernbert", padded=padded)
    inputs = given("modernbert", padded)
    real = inputs["attention_mask"].bool() if padded else None
    full = made("modernbert", "eager")(**inputs, output_attentions=True).attentions
    for layer, weights in zip(run.layers.values(), full, strict=True):
        assert_layer_is(layer, weights, queries=real, keys=real)
    assert any(layer.options.window not in (None, (None, None)) for layer in run.layers.values())


def test_a_mask_of_numbers_is_added_to_the_position_bias_of_t5() -> None:
    inputs, random = given("t5"), torch.Generator().manual_seed(11)
    inputs["decoder_input_ids"] = inputs["input_ids"].flip(1)[:, :M]
    inputs["attention_mask"] = torch.randn(B, 1, N, N, generator=random)
    model = build("t5")
    expected = model.encoder(inputs["input_ids"], attention_mask=inputs["attention_mask"])
    eager = build("t5", "eager").encoder(
        inputs["input_ids"], attention_mask=inputs["attention_mask"], output_attentions=True
    )
    with regard.watch(model, SEE) as run:
        out = model.encoder(inputs["input_ids"], attention_mask=inputs["attention_mask"])
    torch.testing.assert_close(
        out.last_hidden_state, expected.last_hidden_state, atol=2e-4, rtol=1e-4
    )
    for layer, weights in zip(run.layers.values(), eager.attentions, strict=True):
        assert_layer_is(layer, weights)


@pytest.mark.parametrize("padded", [False, True])
def test_falcon_with_one_head_of_keys_is_seen(padded: bool) -> None:
    run = same("falcon", padded=padded, keep=("q", "k"))
    real = given("falcon", padded)["attention_mask"].bool()
    assert len(run.layers) == 2
    for layer in run.layers.values():
        assert layer.options.causal
        assert layer.kv_heads == 1
        assert layer.q is not None
        assert layer.k is not None
        scores = (layer.q @ layer.k.mT).double() / 2
        allowed = torch.ones(N, N).tril().bool() & real[:, None, None]
        full = scores.masked_fill(~allowed, -torch.inf).softmax(-1)
        some = real if padded else None
        assert_layer_is(layer, full, queries=some, keys=some)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize("implementation", ["sdpa", "eager"])
@pytest.mark.parametrize("name", ["beit", "doge", "nllb_moe"])
def test_a_model_that_computes_with_its_mask_runs_as_unwatched(
    name: str, implementation: str, padded: bool
) -> None:
    run = same(name, implementation, padded)
    assert len(run.layers) == (6 if name in TWO else 2)


def test_a_pattern_is_whatever_its_mask_is() -> None:
    from transformers import masking_utils

    from regard._watch.hugging_face_masks import Pattern

    model = build("bert")
    inputs = given("bert", padded=True)
    patterns: list[Any] = []

    def keep(_: Any, args: Any, kwargs: Any) -> None:
        patterns.extend(x for x in (*args, *kwargs.values()) if isinstance(x, Pattern))

    handle = model.encoder.layer[0].register_forward_pre_hook(keep, with_kwargs=True)
    with regard.watch(model):
        model(**inputs)
    handle.remove()
    (pattern,) = patterns
    whole = masking_utils.sdpa_mask(
        B,
        N,
        N,
        mask_function=masking_utils.bidirectional_mask_function,
        attention_mask=inputs["attention_mask"].bool(),
        allow_is_causal_skip=False,
    )
    assert whole is not None
    bias = torch.randn(1, 1, N, N)
    for found, expected in (
        (pattern[:, :, 1:, :3], whole[:, :, 1:, :3]),
        (bias + pattern, bias + whole),
        (pattern + bias, whole + bias),
        (bias * pattern, bias * whole),
        (~pattern, ~whole),
        (pattern & whole, whole),
        (whole.logical_not() | pattern, torch.ones_like(whole)),
        (torch.where(pattern, 0.0, -1.0), torch.where(whole, 0.0, -1.0)),
        (torch.cat([pattern, whole], 1), torch.cat([whole, whole], 1)),
        (pattern.float(), whole.float()),
        (pattern.sum(-1), whole.sum(-1)),
        (bias.masked_fill(pattern, 0.0), bias.masked_fill(whole, 0.0)),
    ):
        assert torch.equal(found, expected)
    assert pattern.device == whole.device
    assert pattern.size() == whole.size()


def test_a_model_of_transformers_is_told_in_one_line_and_not_advised_to_be_rewritten() -> None:
    model, inputs = made("longt5"), given("longt5")
    with pytest.warns(UserWarning, match="cannot be seen"), regard.watch(model) as run:
        model(**inputs)
    assert run.unseen == [
        "encoder.block.0.layer.0.LocalSelfAttention and 1 more: LongT5ForConditionalGeneration of "
        "transformers computes attention in its own way here, and cannot be seen."
    ]
    assert run.layers


def test_a_model_without_attention_is_not_told_about_attention_by_hand() -> None:
    model = made("mamba")
    with (
        pytest.warns(UserWarning, match="no weights to see") as caught,
        regard.watch(model) as run,
    ):
        model(given("mamba")["input_ids"])
    assert run.unseen == ["layers 0–1 are state-space mixing (Mamba): there are no weights to see."]
    for warning in caught:
        assert "softmax" not in str(warning.message)
        assert "scaled_dot_product" not in str(warning.message)


# ── numbers of layers ─────────────────────────────────────────────────────────────────────────


def test_a_module_that_runs_several_times_has_a_number_for_each() -> None:
    inputs = given("albert")
    full = build("albert", "eager")(**inputs, output_attentions=True).attentions
    model = build("albert")
    with regard.watch(model, SEE, layers=[1]) as run:
        model(**inputs)
    (layer,) = run.layers.values()
    assert_layer_is(layer, full[1])
    with regard.watch(model, SEE, ablate={1: [0, 1, 2, 3, 4, 5]}, keep="output") as run:
        model(**inputs)
    assert run.ablated == {list(run.layers)[1]: [0, 1, 2, 3, 4, 5]}
    first, second = (run.layer(n).output for n in range(2))
    assert first is not None
    assert first.abs().sum() > 0
    assert second is not None
    assert second.abs().sum() == 0
    with regard.watch(model, SEE, block=[(1, None, None, 4)]) as run:
        model(**inputs)
    assert [layer.allowed.min().item() for layer in run.layers.values()] == [N, N - 1]


def test_layers_stand_in_the_order_of_computation() -> None:
    model, inputs = build("bert"), given("bert")
    with regard.watch(model) as run:
        for _ in range(2):
            model(**inputs)
    first, second = (f"encoder.layer.{n}.attention.self" for n in range(2))
    assert list(run.layers) == [first, second, f"{first}#2", f"{second}#2"]
    with (
        pytest.warns(UserWarning, match="of the last of 2 passes only"),
        regard.watch(model, ablate={1: [0]}, keep="output") as run,
    ):
        [model(**inputs) for _ in range(2)]
    for n, layer in enumerate(run.layers.values()):
        assert layer.output is not None
        assert bool(layer.output[:, 0].any()) == (n % 2 == 0)


def test_rollout_goes_through_a_module_several_times_if_it_is_told_to() -> None:
    model, inputs = build("albert"), given("albert")
    with regard.watch(model, regard.See(), keep=("q", "k")) as run:
        model(**inputs)
    with pytest.raises(ValueError, match="each module must be there once"):
        run.rollout(3)
    share = run.rollout(3, layers=[0, 1])
    full = build("albert", "eager")(**inputs, output_attentions=True).attentions
    expected = torch.eye(N, dtype=torch.float64)[3]
    for weights in reversed(full):
        expected = 0.5 * expected + 0.5 * expected @ weights[0].double().mean(0)
    torch.testing.assert_close(share, expected, atol=1e-5, rtol=1e-4)


def test_usual_maps_that_generating_leaves_out_are_not_warned_of(
    recwarn: pytest.WarningsRecorder,
) -> None:
    model, inputs = build("llama"), given("llama")
    with regard.watch(model) as run:
        model.generate(**inputs, max_new_tokens=3, min_new_tokens=3, pad_token_id=0)
    assert not run.notes
    assert not [each for each in recwarn if "watch()" in str(each.message)]
    assert all(layer.map is None for layer in run.layers.values())


def test_the_router_of_jamba_is_not_called_attention() -> None:
    model = small("jamba")
    expected = model(**given("jamba")).logits
    with pytest.warns(UserWarning, match="state-space"), regard.watch(model) as run:
        out = model(**given("jamba")).logits
    torch.testing.assert_close(out, expected, atol=2e-4, rtol=1e-4)
    assert list(run.layers) == ["model.layers.1.self_attn"]
    assert [line.partition(" is ")[0] for line in run.unseen] == ["layer 0 of model.layers"]


@pytest.mark.parametrize("padded", [False, True])
def test_a_model_with_keys_that_are_no_tokens_is_seen_as_it_runs(padded: bool) -> None:
    model, inputs = small("deepseek_v4"), given("deepseek_v4", padded)
    expected = model(**inputs).logits
    with regard.watch(model) as run:
        out = model(**inputs).logits
    real = inputs.get("attention_mask", torch.ones_like(inputs["input_ids"])).bool()
    torch.testing.assert_close(out[real], expected[real], atol=2e-5, rtol=1e-4)
    assert len(run.layers) == 2
    assert not run.unseen


@pytest.mark.parametrize("family", ["deepseek_v32", "minimax_m3_vl", "glm_moe_dsa"])
def test_a_model_that_chooses_keys_by_its_mask_is_seen(family: str) -> None:
    model, inputs = small(family), given(family)
    expected = model(**inputs)[0]
    with regard.watch(model, SEE) as run:
        out = model(**inputs)[0]
    torch.testing.assert_close(out, expected, atol=2e-4, rtol=1e-4)
    assert len(run.layers) == 2


def test_a_model_that_goes_by_having_no_mask_generates_as_unwatched() -> None:
    model, ids = small("roberta"), given("roberta")["input_ids"]
    model.set_attn_implementation("sdpa")
    options: dict[str, Any] = {
        "max_new_tokens": 3,
        "do_sample": False,
        "cache_implementation": "static",
        "disable_compile": True,
        "output_logits": True,
        "return_dict_in_generate": True,
    }
    expected = torch.stack(model.generate(ids, **options).logits)
    with regard.watch(model):
        out = torch.stack(model.generate(ids, **options).logits)
    torch.testing.assert_close(out, expected, atol=2e-4, rtol=1e-4)
