"""After each layer: the last norm and the head of the model itself, on what the layer gave."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.asked_models import TEXT, loaded_of, own, small
from helpers.model_folders import save, save_bert, save_masked, small_llama
from transformers import LlamaForCausalLM, LlamaForSequenceClassification

import regard
from regard.ask import has_lens, lens_info
from regard.models import Loaded, load


@pytest.fixture(scope="module")
def llama() -> Loaded:
    return loaded_of(small("llama"))


def _near(found: list[Any], logits: torch.Tensor) -> None:
    shares, ids = logits.double().softmax(-1).topk(len(found))
    assert [each.id for each in found] == ids.tolist()
    assert [each.probability for each in found] == pytest.approx(shares.tolist(), abs=1e-6)


def _same(found: list[Any], expected: list[Any]) -> None:
    """The same tokens at each position, with the same probabilities but for rounding."""
    for some, others in zip(found, expected, strict=True):
        assert [each.id for each in some] == [each.id for each in others]
        shares = [[each.probability for each in one] for one in (some, others)]
        assert shares[0] == pytest.approx(shares[1], abs=1e-6)


def test_each_layer_is_read_as_if_the_model_ended_there(
    llama: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.ask._lens.PIECE", 23)  # two rows at a time
    run = llama.see(TEXT)
    model: Any = llama.model
    with torch.no_grad():
        states = model.model(**llama.inputs(TEXT), output_hidden_states=True).hidden_states
    hooks = sum(len(each._forward_hooks) for each in model.modules())
    found = run.lens(top=3)
    assert len(found) == 3
    for layer, of in enumerate(found[:-1]):  # the last of these states has its norm already
        with torch.no_grad():
            logits = model.lm_head(model.model.norm(states[layer + 1][0]))
        assert len(of) == len(logits) == 5
        for position, each in enumerate(of):
            _near(each, logits[position])
    _same(found[-1], run.predictions(3))
    _same(run.lens(1, 3), found[1])
    _same(run.lens("model.layers.1.self_attn", 3, position=-2), [found[1][-2]])
    for some, of in zip(run.lens(top=3, position=2), found, strict=True):
        _same(some, [of[2]])
    assert sum(len(each._forward_hooks) for each in model.modules()) == hooks


@pytest.mark.parametrize("name", ["gpt2", "gpt-neox", "cohere", "granite", "gemma 2", "olmo 2"])
def test_the_last_layer_says_what_the_model_predicts(name: str) -> None:
    run = loaded_of(small(name)).see(TEXT)
    _same(run.lens()[-1], run.predictions())


def test_a_model_of_regard_nn_has_one_too() -> None:
    loaded = own()
    run = loaded.see(TEXT)
    inner: Any = loaded.model
    decoder = inner.model.decoder
    ids = loaded.inputs(TEXT)["input_ids"]
    with torch.no_grad():
        x = inner.model.embedding(ids)
        states: list[Any] = []
        with decoder.layers[0].register_forward_hook(lambda _, __, y: states.append(y)):
            decoder(x)
        logits = inner.model.head(decoder.norm(states[0]))[0]
    for position, each in enumerate(run.lens(0)):
        _near(each, logits[position])
    _same(run.lens()[1], run.predictions())


def test_heads_that_are_left_out_are_missed(llama: Loaded) -> None:
    run = llama.see(TEXT, ablate={0: [1], 2: [0]})
    _same(run.lens()[-1], run.predictions())
    assert run.lens(0) != llama.see(TEXT).lens(0)


def test_a_run_from_a_disk_needs_its_model(tmp_path: Path) -> None:
    torch.manual_seed(3)
    save(LlamaForCausalLM(small_llama(initializer_range=0.4)), tmp_path / "model")
    loaded = load(tmp_path / "model")
    run = loaded.see(TEXT, ablate={0: [1]})
    run.save(tmp_path / "run")
    again = regard.load(tmp_path / "run")
    with pytest.raises(ValueError, match=r"model=regard\.models\.load"):
        again.lens()
    for some, others in zip(again.lens(model=loaded), run.lens(), strict=True):
        _same(some, others)
    other = loaded_of(small("llama"))
    with pytest.raises(ValueError, match="which has 7 tokens; got small, which reads 5"):
        again.lens(model=other)


def test_what_has_no_such_head_is_refused_before_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_bert(tmp_path / "vectors")
    save_masked(tmp_path / "masked")
    classes = LlamaForSequenceClassification(small_llama(num_labels=3, pad_token_id=0))
    refused = {
        "which gives vectors, or classes": [load(tmp_path / "vectors"), loaded_of(classes)],
        r"whose head \(cls\.predictions\.decoder\) is not linear": [load(tmp_path / "masked")],
        "no norm after its blocks": [loaded_of(small(name)) for name in ("gpt", "opt, post-norm")],
        r"in torch\.bfloat16": [loaded_of(small("llama").bfloat16())],
    }
    for said, all_of_them in refused.items():
        for loaded in all_of_them:
            run = loaded.see(TEXT)
            with monkeypatch.context() as patch:
                patch.setattr(type(loaded.model), "forward", None)
                with pytest.raises(ValueError, match=rf"^lens\(\): .*; got \w+, .*{said}"):
                    run.lens()
                assert not has_lens(run)


def test_pages_are_told_of_texts_that_are_not_long(
    llama: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = llama.see(TEXT)
    told = lens_info(run, 2)
    assert told is not None
    assert told[1][3] == [
        [each.token, round(each.probability, 6)] for each in run.lens(1, 2, position=3)[0]
    ]
    monkeypatch.setattr("regard.ask._lens.LENS", 4)
    assert lens_info(run) is None
    assert lens_info(regard.Run()) is None


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"layer": 3}, "layer must be from -3 to 2; got 3"),
        ({"layer": "block"}, "layer must be the name of a layer; got 'block'"),
        ({"position": 5}, "position must be from -5 to 4; got 5. There are 5 tokens."),
        ({"top": 0}, "top must be at least 1; got 0"),
    ],
)
def test_what_is_asked_must_be_there(llama: Loaded, given: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=rf"^lens\(\): {said}"):
        llama.see(TEXT).lens(**given)
