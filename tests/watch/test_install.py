"""`regard.install`: our attention as one that transformers knows; and nothing stays behind."""

from __future__ import annotations

import copy
import json
import pickle
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers.hand_written import family
from helpers.watch_checks import assert_layer_is
from helpers.watch_models import DECODERS, MODELS, build
from torch import Tensor, nn

import regard

B, N, M = 2, 11, 7
SEE = regard.See(entropy=True, top=3, map=(3, 4), received=True, distance=True)


@pytest.fixture(autouse=True)
def _put_back() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    with torch.no_grad():
        build("bert")  # what transformers keeps of its own is there now
        before = state()
        yield
    regard.uninstall()
    assert state() == before
    torch.set_num_threads(threads)


def state() -> dict[str, Any]:
    """All that installing may touch, and what stands beside it."""
    import transformers
    from transformers import AttentionInterface, AttentionMaskInterface, masking_utils
    from transformers.integrations import sdpa_attention

    found: dict[str, Any] = {}
    for owner in (
        F,
        nn.Module,
        masking_utils,
        AttentionInterface,
        AttentionMaskInterface,
        transformers.PreTrainedModel,
        transformers.PretrainedConfig,
        sdpa_attention,
        transformers.modeling_utils.ALL_ATTENTION_FUNCTIONS,
    ):
        for name, value in vars(owner).items():
            is_kept = not name.startswith("__") and not name.endswith("cached_value")
            if is_kept:
                found[f"{owner}.{name}"] = id(value)
    for registry in (AttentionInterface, AttentionMaskInterface):
        found |= {f"{registry}[{key}]": id(x) for key, x in registry._global_mapping.items()}
    found["modes"] = torch._C._len_torch_function_stack()
    return found


def given(model: Any, padding: str = "none") -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(3)
    if model.main_input_name == "pixel_values":
        return {"pixel_values": torch.randn(B, 3, 12, 12, generator=random)}
    real = torch.ones(B, N, dtype=torch.int64)
    if padding != "none":
        real[0, slice(N - 3, None) if padding == "right" else slice(3)] = 0
    inputs = {"input_ids": torch.randint(2, 59, (B, N), generator=random), "attention_mask": real}
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = torch.randint(2, 59, (B, M), generator=random)
    return inputs


def main(out: Any) -> Tensor:
    return out.logits if "logits" in out else out.last_hidden_state


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("padding", ["none", "right", "left"])
def test_a_model_computes_what_it_computes_otherwise(name: str, padding: str) -> None:
    model = build(name)
    inputs = given(model, padding)
    expected = main(model(**inputs))
    regard.install()
    model.set_attn_implementation("regard")
    assert model.config._attn_implementation == "regard"
    out = main(model(**inputs))
    if "attention_mask" in inputs and expected.shape[1] == N:
        real = inputs["attention_mask"].bool()
        out, expected = out[real], expected[real]
    torch.testing.assert_close(out, expected, atol=2e-4, rtol=1e-4)


@pytest.mark.parametrize("name", ["llama", "gemma2", "t5"])
def test_it_is_our_kernel_that_computes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from regard._watch import call

    model = build(name)
    regard.install()
    model.set_attn_implementation("regard")
    calls: list[int] = []
    before = call.attention

    def counted(*args: Any, **kwargs: Any) -> Any:
        calls.append(1)
        return before(*args, **kwargs)

    monkeypatch.setattr(call, "attention", counted)
    model(**given(model))
    assert len(calls) == (6 if name == "t5" else 2)


@pytest.mark.parametrize("name", DECODERS)
def test_it_generates_the_same_tokens(name: str) -> None:
    model = build(name)
    inputs = given(model, "left")
    options = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    expected = model.generate(**inputs, **options)
    regard.install()
    model.set_attn_implementation("regard")
    assert torch.equal(model.generate(**inputs, **options), expected)


def test_a_model_is_loaded_with_it_and_saved_without_a_trace(tmp_path: Path) -> None:
    from transformers import AutoModelForCausalLM

    build("llama").save_pretrained(tmp_path / "one")
    regard.install()
    model = AutoModelForCausalLM.from_pretrained(tmp_path / "one", attn_implementation="regard")
    assert model.config._attn_implementation == "regard"
    again = pickle.loads(pickle.dumps(model.config))
    assert again._attn_implementation == "regard"
    twin = copy.deepcopy(model)
    ids = given(model)["input_ids"]
    assert torch.equal(twin(ids).logits, model(ids).logits)
    model.save_pretrained(tmp_path / "two")
    texts = [(tmp_path / each / "config.json").read_text() for each in ("one", "two")]
    assert json.loads(texts[0]) == json.loads(texts[1])


@pytest.mark.parametrize("name", ["llama", "bert", "t5", "marian"])
def test_weights_are_those_that_were_asked_for(name: str) -> None:
    model = build(name, "eager")
    inputs = given(model, "right")
    expected = model(**inputs, output_attentions=True)
    regard.install(weights={1: [4, 2]})
    model.set_attn_implementation("regard")
    found = model(**inputs, output_attentions=True)
    kinds = [key for key, full in expected.items() if key.endswith("attentions") and full]
    assert len(kinds) == (3 if model.config.is_encoder_decoder else 1)
    for kind in kinds:
        full, (first, some) = expected[kind], found[kind]
        assert len(full) == 2
        assert first is None
        assert bool(some[:, [0, 1, 3, 5]].isnan().all())
        # The second sequence has no padding, whose rows differ.
        torch.testing.assert_close(some[1, [2, 4]], full[1][1, [2, 4]], atol=2e-5, rtol=1e-4)
    regard.install(weights={0: None})
    first, second = model(**inputs, output_attentions=True)[kinds[0]]
    assert second is None
    assert not bool(first[1].isnan().any())
    regard.install()
    assert all(x is not None for x in model(**inputs, output_attentions=True)[kinds[0]])
    assert not model(**inputs).get(kinds[0])


def test_weights_of_each_step_of_a_generation_are_those_of_eager() -> None:
    model = build("llama", "eager")
    ids = given(model)["input_ids"]
    options: dict[str, Any] = {
        "max_new_tokens": 3,
        "min_new_tokens": 3,
        "do_sample": False,
        "output_attentions": True,
        "return_dict_in_generate": True,
        "pad_token_id": 0,
    }
    expected = model.generate(ids, **options).attentions
    regard.install(weights={0: [3]})
    model.set_attn_implementation("regard")
    found = model.generate(ids, **options).attentions
    assert len(found) == len(expected) == 3
    for some, full in zip(found, expected, strict=True):
        assert some[1] is None
        torch.testing.assert_close(some[0][:, 3], full[0][:, 3], atol=2e-5, rtol=1e-4)


def test_heads_that_a_layer_does_not_have_are_refused() -> None:
    model = build("llama")
    regard.install(weights={0: [6]})
    model.set_attn_implementation("regard")
    with pytest.raises(ValueError, match="heads of layer 0 must be from 0 to 5; got 6"):
        model(given(model)["input_ids"], output_attentions=True)
    for wrong in ({"a": [0]}, {0: [-1]}, {0: 3}, {0: "12"}, {True: [0]}):
        with pytest.raises(ValueError, match=r"weights must be \{layer: heads\}"):
            regard.install(weights=wrong)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="weights must be"):
        regard.install(weights=[0])  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="sdpa"):
        regard.install(sdpa="yes")  # pyright: ignore[reportArgumentType]


def _whisper() -> Any:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    torch.manual_seed(3)
    config = WhisperConfig(
        vocab_size=61,
        d_model=24,
        encoder_layers=2,
        decoder_layers=2,
        encoder_attention_heads=6,
        decoder_attention_heads=6,
        encoder_ffn_dim=37,
        decoder_ffn_dim=37,
        num_mel_bins=8,
        max_source_positions=50,
        max_target_positions=16,
        decoder_start_token_id=1,
        bos_token_id=2,
        eos_token_id=3,
        pad_token_id=3,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    return WhisperForConditionalGeneration(config).eval()


def test_word_timestamps_of_whisper_come_from_the_heads_that_were_asked_for(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    model = _whisper()
    features = torch.randn(1, 8, 100)
    model.generation_config.alignment_heads = [[0, 2], [1, 4]]
    model.generation_config.no_timestamps_token_id = 50
    options: dict[str, Any] = {"return_timestamps": True, "return_token_timestamps": True}
    options |= {"max_new_tokens": 6, "min_new_tokens": 6, "return_dict_in_generate": True}
    expected = model.generate(features, **options)
    model.set_attn_implementation("sdpa")
    regard.install(weights={0: [2], 1: [4]})
    model.set_attn_implementation("regard")
    seen: list[Any] = []
    extract = type(model)._extract_token_timestamps

    def extracted(self: Any, outputs: Any, *args: Any, **kwargs: Any) -> Any:
        seen.append(outputs.cross_attentions)
        return extract(self, outputs, *args, **kwargs)

    monkeypatch.setattr(type(model), "_extract_token_timestamps", extracted)
    found = model.generate(features, **options)
    assert torch.equal(found["sequences"], expected["sequences"])
    torch.testing.assert_close(found["token_timestamps"], expected["token_timestamps"])
    (steps,) = seen
    for first, second in steps:
        assert first.isnan().flatten(2).all(-1)[0].tolist() == [n != 2 for n in range(6)]
        assert second.isnan().flatten(2).all(-1)[0].tolist() == [n != 4 for n in range(6)]


# ── with a watch ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["llama", "bert", "gemma2", "marian"])
def test_a_watch_sees_a_model_that_has_it(name: str) -> None:
    model = build(name, "eager")
    inputs = given(model)
    expected = model(**inputs, output_attentions=True)
    regard.install()
    model.set_attn_implementation("regard")
    with regard.watch(model, SEE) as run:
        out = main(model(**inputs))
    torch.testing.assert_close(out, main(expected), atol=2e-4, rtol=1e-4)
    kinds = ("attentions", "encoder_attentions", "decoder_attentions", "cross_attentions")
    full = [x for kind in kinds for x in expected.get(kind) or ()]
    assert len(run.layers) == len(full)
    assert not run.unseen
    if len(full) == 2:
        for layer, weights in zip(run.layers.values(), full, strict=True):
            assert_layer_is(layer, weights)
    assert torch.equal(main(model(**inputs)), out)


@pytest.mark.parametrize("sdpa", [False, True])
def test_it_can_be_installed_and_left_inside_a_watch(sdpa: bool) -> None:
    model = build("llama")
    ids = given(model)["input_ids"]
    expected = model(ids).logits
    before = state()
    with regard.watch(model) as run:
        regard.install(sdpa=sdpa)
        model.set_attn_implementation("regard")
        one = model(ids).logits
        regard.uninstall()
        model.set_attn_implementation("sdpa")
        two = model(ids).logits
    assert state() == before
    for out in (one, two):
        torch.testing.assert_close(out, expected, atol=2e-4, rtol=1e-4)
    assert [name.partition("#")[0] for name in run.layers] == [
        "model.layers.0.self_attn",
        "model.layers.1.self_attn",
    ] * 2
    regard.install()
    with regard.watch(model):
        regard.uninstall()
        regard.install()
        model(ids)
    model.set_attn_implementation("regard")
    torch.testing.assert_close(model(ids).logits, expected, atol=2e-4, rtol=1e-4)


# ── in and out ────────────────────────────────────────────────────────────────────────────────


def test_it_can_be_installed_twice_and_uninstalled_twice() -> None:
    before = state()
    regard.install(weights={0: [1]}, sdpa=True)
    regard.install()
    assert F.scaled_dot_product_attention is torch._C._nn.scaled_dot_product_attention  # pyright: ignore[reportAttributeAccessIssue]
    regard.uninstall()
    regard.uninstall()
    assert state() == before


def test_without_it_a_model_that_has_it_says_so() -> None:
    model = build("llama")
    regard.install()
    model.set_attn_implementation("regard")
    regard.uninstall()
    with pytest.raises(KeyError, match="regard"):
        model(given(model)["input_ids"])
    with pytest.raises(ValueError, match="is not supported"):
        build("gpt2").set_attn_implementation("regard")
    model.set_attn_implementation("sdpa")
    model(given(model)["input_ids"])


def test_threads_may_install_and_leave_at_once() -> None:
    model = build("llama")
    ids = given(model)["input_ids"]
    expected = model(ids).logits
    before, wrong = state(), list[BaseException]()

    def come_and_go() -> None:
        try:
            for n in range(5):
                regard.install(weights={n: None}, sdpa=n % 2 == 0)
                with torch.no_grad():
                    torch.testing.assert_close(model(ids).logits, expected, atol=2e-4, rtol=1e-4)
                regard.uninstall()
        except BaseException as error:  # noqa: BLE001 — which is told below
            wrong.append(error)

    threads = [threading.Thread(target=come_and_go) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong
    regard.uninstall()
    assert state() == before


@pytest.mark.filterwarnings("ignore:.*torch.jit.script")
@pytest.mark.parametrize("name", ["gptj", "mpnet", "xlnet"])
def test_a_model_with_attention_of_its_own_is_refused_before_it_runs(
    name: str, tmp_path: Path
) -> None:
    model = family(name)
    model.save_pretrained(tmp_path)
    regard.install()
    with pytest.raises(ValueError, match="computes it in its own way"):
        type(model).from_pretrained(tmp_path, attn_implementation="regard")
    model.set_attn_implementation("regard")  # which only warns
    assert model.config._attn_implementation != "regard"


def test_an_argument_that_is_not_known_is_refused() -> None:
    model = build("llama")
    regard.install()
    model.set_attn_implementation("regard")
    with pytest.raises(ValueError, match=r"must be softmax.*got strange"):
        model(given(model)["input_ids"], strange=torch.ones(1))


def test_gradients_and_dropout_are_at_work_in_training() -> None:
    gradients: list[Tensor] = []
    for way in ("sdpa", "regard"):
        regard.install()
        model = build("llama")
        model.set_attn_implementation(way)
        with torch.enable_grad():
            ids = given(model)["input_ids"]
            model(ids, labels=ids).loss.backward()
        gradients.append(model.model.layers[0].self_attn.q_proj.weight.grad)
    torch.testing.assert_close(*gradients, atol=1e-4, rtol=1e-3)


def test_what_is_compiled_computes_the_same() -> None:
    model = build("llama")
    inputs = given(model, "right")
    expected = model(**inputs).logits
    regard.install()
    model.set_attn_implementation("regard")
    compiled: Any = torch.compile(model, backend="eager")
    real = inputs["attention_mask"].bool()
    out = compiled(**inputs).logits
    torch.testing.assert_close(out[real], expected[real], atol=2e-4, rtol=1e-4)


def test_without_transformers_only_sdpa_can_be_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib
    import importlib.util

    def missing(name: str, *args: Any) -> Any:
        if name.partition(".")[0] == "transformers":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return imported(name, *args)

    imported, found = importlib.import_module, importlib.util.find_spec
    with monkeypatch.context() as patch:
        patch.setattr(importlib, "import_module", missing)
        patch.setattr(importlib.util, "find_spec", lambda name: found(f"no_{name}"))
        with pytest.raises(ImportError, match=r"install\(\): transformers must be installed"):
            regard.install()
        regard.install(sdpa=True)
        x = torch.randn(B, 3, N, 5)
        ours = regard.scaled_dot_product_attention(x, x, x)
        assert torch.equal(F.scaled_dot_product_attention(x, x, x), ours)
        regard.uninstall()
