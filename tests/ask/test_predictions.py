"""What comes next: the softmax of the model's own logits, at every position, top few only."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.model_folders import save, save_bert, save_masked, small_llama
from transformers import Gemma2Config, Gemma2ForCausalLM, LlamaForCausalLM, MarianMTModel

import regard
from regard.models import Loaded, load

TEXT = "i love apple phones"


def _near(found: list[Any], logits: torch.Tensor, top: int) -> None:
    shares, ids = logits.double().softmax(-1).topk(top)
    assert [each.id for each in found] == ids.tolist()
    assert [each.probability for each in found] == pytest.approx(shares.tolist(), abs=1e-6)


@pytest.fixture
def llama(tmp_path: Path) -> Loaded:
    torch.manual_seed(3)
    save(LlamaForCausalLM(small_llama(initializer_range=0.4)), tmp_path)
    return load(tmp_path)


def test_each_position_predicts_what_the_model_does(
    llama: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.ask._predictions.PIECE", 23)  # two rows at a time
    run = llama.see(TEXT)
    with torch.no_grad():
        logits = llama.model(**llama.inputs(TEXT)).logits[0]
    found = run.predictions(top=3)
    assert len(found) == 6
    for position, each in enumerate(found):
        _near(each, logits[position], 3)
    assert found[0][0].token == llama.tokenizer.decode([found[0][0].id])  # pyright: ignore
    _near(run.predictions(3, position=-1)[0], logits[5], 3)
    _near(run.predictions(5, 2)[0], logits[2], 5)
    kept = llama.see(TEXT, keep=("output",))
    _near(kept.predictions(position=5)[0], logits[5], 5)
    assert not llama.model.base_model._forward_hooks


def test_what_is_kept_needs_no_model() -> None:
    run = regard.Run(output=torch.tensor([[[0.0, 2.0, 1.0], [3.0, 0.0, 1.0]]]))
    assert [[each.id for each in one] for one in run.predictions(2)] == [[1, 2], [0, 2]]
    assert [each.id for each in run.predictions(1, 0)[0]] == [1]


def test_heads_that_are_left_out_are_missed(llama: Loaded) -> None:
    run = llama.see(TEXT, ablate={0: [1]}, keep=("output",), logits=None)
    assert run.output is not None
    found = llama.see(TEXT, ablate={0: [1]}).predictions(3)
    for position, each in enumerate(found):
        _near(each, run.output[0, position], 3)


def test_a_head_that_does_more_than_multiply_makes_its_logits_itself(tmp_path: Path) -> None:
    sizes: dict[str, Any] = {
        "vocab_size": 11,
        "hidden_size": 12,
        "num_hidden_layers": 2,
        "head_dim": 4,
    }
    more: dict[str, Any] = {
        "num_attention_heads": 3,
        "num_key_value_heads": 1,
        "intermediate_size": 7,
    }
    config = Gemma2Config(**sizes, **more, final_logit_softcapping=0.5, initializer_range=0.8)
    torch.manual_seed(3)
    save(Gemma2ForCausalLM(config), tmp_path)
    loaded = load(tmp_path)
    with torch.no_grad():
        logits = loaded.model(**loaded.inputs(TEXT)).logits[0]
    for position, each in enumerate(loaded.see(TEXT).predictions(3)):
        _near(each, logits[position], 3)


def test_a_masked_model_says_what_stands_in_each_place(tmp_path: Path) -> None:
    save_masked(tmp_path)
    loaded = load(tmp_path)
    with torch.no_grad():
        logits = loaded.model(**loaded.inputs(TEXT)).logits[0]
    for position, each in enumerate(loaded.see(TEXT).predictions(2)):
        _near(each, logits[position], 2)


def test_a_model_of_vectors_predicts_nothing(tmp_path: Path) -> None:
    save_bert(tmp_path)
    with pytest.raises(ValueError, match="must be a model that predicts tokens"):
        load(tmp_path).see(TEXT).predictions()


def test_a_run_without_a_model_must_be_given_one(llama: Loaded, tmp_path: Path) -> None:
    run = llama.see(TEXT)
    run.save(tmp_path / "run")
    again = regard.load(tmp_path / "run")
    with pytest.raises(ValueError, match="must know its model"):
        again.predictions()
    assert again.predictions(2, model=llama) == run.predictions(2)
    with pytest.raises(ValueError, match="There are 6 tokens"):
        run.predictions(position=6)


def marian(folder: Path) -> Loaded:
    """A small model that reads one text and writes another."""
    from helpers.hugging_face_models import made
    from helpers.hugging_face_models import marian as config

    model = made(MarianMTModel(config(vocab_size=11, max_position_embeddings=13)))
    save(model, folder)
    return load(folder)


def test_a_model_that_writes_is_seen_with_what_it_writes(tmp_path: Path) -> None:
    loaded = marian(tmp_path)
    run = loaded.see(TEXT, keep=("q", "k", "output"))
    assert run.again is not None
    target = run.again.keywords["target"]
    assert target[0] == 0  # what it starts with
    inputs = loaded.inputs(TEXT)
    with torch.no_grad():
        logits = loaded.model(**inputs, decoder_input_ids=torch.tensor([target])).logits[0]
    assert logits[:-1].argmax(-1).tolist() == target[1:]
    kinds = [(layer.cross, layer.shape[2:]) for layer in run.layers.values()]
    n, m = len(target), inputs["input_ids"].shape[1]
    assert kinds == [(False, (m, m))] * 2 + [(False, (n, n)), (True, (n, m))]
    own = run.layer(2).tokens
    assert own is not None
    assert len(own[0]) == n
    for position, each in enumerate(run.predictions(3)):
        _near(each, logits[position], 3)
    short = loaded.see(TEXT, target=[0, 5])
    assert short.layer(3).shape[2:] == (2, m)
    save_masked(tmp_path / "masked")
    masked = load(tmp_path / "masked")
    with pytest.raises(ValueError, match="leave target out"):
        masked.see(TEXT, target=[1])
