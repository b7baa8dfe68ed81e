"""The flow of a run: its model's counterpart where that computes the same, else what was seen."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.hugging_face_models import made, marian
from helpers.model_folders import save, small_bert, small_llama
from transformers import (
    BertForMaskedLM,
    Gemma2Config,
    Gemma2ForCausalLM,
    LlamaForCausalLM,
    MarianMTModel,
)

import regard
from regard._flow.model import ModelFlow
from regard._flow.watched import WatchedFlow
from regard.models import Loaded, load

TEXT = "i love apple phones"


def _loaded(model: Any, folder: Path) -> Loaded:
    save(model, folder)
    return load(folder)


@pytest.fixture
def llama(tmp_path: Path) -> Loaded:
    torch.manual_seed(3)
    return _loaded(LlamaForCausalLM(small_llama(initializer_range=0.4)), tmp_path)


def test_a_model_with_a_counterpart_is_shown_step_by_step(llama: Loaded) -> None:
    flow = llama.see(TEXT).flow(1)
    assert isinstance(flow, ModelFlow)
    assert flow.outline["chosen"] == "decoder.layers.1"
    assert flow.sequences["input"] == ("[CLS]", "i", "love", "apple", "phones", "[SEP]")
    with torch.no_grad():
        output = llama.model(**llama.inputs(TEXT), output_hidden_states=True)
    logits = flow.cells("logits", 0, (0, 6), (0, 11))
    np.testing.assert_allclose(logits, output.logits[0].numpy(), atol=1e-5)
    stage = "decoder.layers.0.feed_forward.residual"
    after = output.hidden_states[1][0].numpy()
    np.testing.assert_allclose(flow.cells(stage, 0, (0, 6), (0, 12)), after, atol=1e-5)
    assert flow.note.startswith(f"These are the numbers of {llama.name} itself as it reads ")
    assert re.search(r"what the model gives, the same to \d digits\.$", flow.note)


def test_another_word_is_read_as_if_it_had_stood_there(llama: Loaded) -> None:
    flow = llama.see(TEXT).flow()
    other = flow.changed([{"kind": "word", "position": 2, "text": "apple apple"}])
    truth = llama.see("i apple apple apple phones").flow()
    assert other.sequences == truth.sequences
    whole = (0, 7), (0, 11)
    assert np.array_equal(other.cells("logits", 0, *whole), truth.cells("logits", 0, *whole))
    cut = {"kind": "cut", "attention": "decoder.layers.1.attention", "row": 6, "column": 1}
    both = flow.changed([{"kind": "word", "position": 2, "text": "apple apple"}, cut])
    assert (both.steps["decoder.layers.1.attention.weights"].array[:, 6, 1] == 0).all()
    with pytest.raises(ValueError, match="which the model adds"):
        flow.changed([{"kind": "word", "position": 0, "text": "love"}])


def test_words_are_called_by_their_place_in_the_first_text(llama: Loaded) -> None:
    flow = llama.see(TEXT).flow()
    assert flow.outline["words"] == {"input": [None, 1, 2, 3, 4, None]}
    longer = {"kind": "word", "position": 2, "text": "apple apple"}
    last = {"kind": "word", "position": 4, "text": "love"}
    for changes in ([longer, last], [last, longer]):
        other = flow.changed(changes)
        assert other.sequences["input"][1:-1] == ("i", "apple", "apple", "apple", "love")
        assert other.outline["words"] == {"input": [None, 1, 2, 2, 3, 4, None]}
        assert other.title == "i apple apple apple love"


def test_a_word_of_several_tokens_is_swapped_as_a_whole() -> None:
    from regard._flow.counterpart import _swapped, _words
    from regard.models import Reading
    from regard.text import Token

    text = "so unhappily, yes"
    spans = [(0, 0), (0, 2), (2, 5), (5, 12), (12, 13), (13, 17)]  # with the blanks before words
    tokens = [Token(text[start:end], start, end) for start, end in spans]
    reading = Reading(text, tokens, [*range(6)], [0] * 6)
    words = _words(reading)
    assert words == [None, 1, 2, 2, 4, 5]
    made, of = _swapped(reading, words, {3: "sad", 5: "no"})
    assert made == "so sad, no"
    assert of == [1, 1, 2, 2, 2, 2, 4, 5, 5, 5]


@pytest.mark.parametrize(
    ("text", "spans", "words"),
    [
        ("그 동물은", [(0, 1), (0, 1), (1, 3), (2, 3), (3, 4), (3, 4), (4, 5)], [0, 0, *[2] * 5]),
        ("প্রাণী ও", [(0, 1), (1, 2), (1, 2), (2, 4), (4, 6), (6, 8)], [0, 0, 0, 0, 0, 5]),
    ],
)
def test_pieces_of_a_letter_and_signs_at_one_belong_to_its_word(
    text: str, spans: list[tuple[int, int]], words: list[int]
) -> None:
    from regard._flow.counterpart import _words
    from regard.models import Reading
    from regard.text import Token

    tokens = [Token(text[start:end], start, end) for start, end in spans]
    assert _words(Reading(text, tokens, [*range(len(spans))], [0] * len(spans))) == words


def test_heads_that_a_run_was_without_are_left_out(llama: Loaded) -> None:
    run = llama.see(TEXT, ablate={1: [2]}, keep=("hidden_states",))
    flow = run.flow()
    assert isinstance(flow, ModelFlow)
    assert (flow.steps["decoder.layers.1.attention.head_output"].array[2] == 0).all()


def test_a_counterpart_that_computes_something_else_is_not_shown(
    llama: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard._flow.counterpart._SAME", 0.0)
    flow = llama.see(TEXT).flow()
    assert isinstance(flow, WatchedFlow)
    assert "computes something else" in flow.note


def test_a_masked_model_and_one_that_writes_have_counterparts(tmp_path: Path) -> None:
    torch.manual_seed(3)
    masked = _loaded(BertForMaskedLM(small_bert(initializer_range=0.4)), tmp_path / "bert")
    flow = masked.see(TEXT).flow()
    assert isinstance(flow, ModelFlow)
    found, run = flow.predictions(2), masked.see(TEXT).predictions(5, 2)
    assert found is not None
    assert [each.token for each in found] == [each.token for each in run[0]]
    sizes = {"vocab_size": 11, "max_position_embeddings": 13}
    writer = _loaded(made(MarianMTModel(marian(**sizes))), tmp_path / "marian")
    run = writer.see(TEXT)
    flow = run.flow(3)
    assert isinstance(flow, ModelFlow)
    assert flow.outline["chosen"] == "decoder.layers.0"
    assert list(flow.outline["sequences"]) == ["input", "target"]
    weights = flow.steps["decoder.layers.0.cross.weights"].array
    np.testing.assert_allclose(weights, run.weights(3)[0].numpy(), atol=1e-5)


def test_any_other_model_is_shown_by_its_attentions(tmp_path: Path) -> None:
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
    torch.manual_seed(3)
    gemma = Gemma2ForCausalLM(
        Gemma2Config(**sizes, **more, initializer_range=0.5, attn_logit_softcapping=None)
    )
    loaded = _loaded(gemma, tmp_path)
    run = loaded.see(TEXT)
    flow = run.flow(1)
    assert isinstance(flow, WatchedFlow)
    assert [band["title"] for band in flow.outline["bands"]] == ["Layer 0", "Layer 1"]
    assert flow.outline["changes"] == []
    assert "was not seen" in flow.outline["lacks"]
    name = flow.outline["chosen"]
    for n, layer in enumerate(run.layers):
        found = flow.steps[f"{layer}.weights"].array
        np.testing.assert_allclose(found, run.weights(n)[0].numpy(), atol=1e-5)
        made_output = found @ np.repeat(flow.steps[f"{layer}.value"].array, 3, axis=0)
        np.testing.assert_allclose(flow.steps[f"{layer}.head_output"].array, made_output, atol=1e-5)
    line = flow.explain(f"{name}.scores", 2, 3, 1)
    assert line.count("·") == 4
    assert flow.picture(f"{name}.value", 2).values.shape == (6, 4)
    capped = Gemma2ForCausalLM(Gemma2Config(**sizes, **more, attn_logit_softcapping=2.0))
    flow = _loaded(capped, tmp_path / "capped").see(TEXT).flow()
    stages = [stage["part"] for stage in flow.outline["stages"].values()]
    assert stages[:5] == ["query", "key", "value", "weights", "head_output"]
    with pytest.raises(ValueError, match="can make"):
        flow.changed([{"kind": "scale", "on": False}])


def test_a_run_that_has_kept_nothing_says_what_it_needs(llama: Loaded, tmp_path: Path) -> None:
    llama.see(TEXT).save(tmp_path / "run")
    run = regard.load(tmp_path / "run")
    with pytest.raises(ValueError, match="must have kept q, k, v, output"):
        run.flow()
    assert isinstance(run.flow(model=llama), ModelFlow)


def test_a_sentence_is_read_by_a_model_that_is_here(monkeypatch: pytest.MonkeyPatch) -> None:
    from regard.models import _choose, model_for

    here: set[str] = set()
    monkeypatch.setattr(_choose, "is_here", here.__contains__)
    assert model_for("I love phones").model == ""
    flow = regard.flow("I love phones")
    assert flow.outline["kind"] == "attention"
    assert "random" in flow.note
    here.add("smollm2")
    assert model_for("I love phones").model == "smollm2"


def test_a_flow_says_which_model_reads_a_sentence_and_why(
    llama: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    from regard.models import Choice

    why = "Read by this one, as another would read [UNK] for apple."
    monkeypatch.setattr("regard.models.model_for", lambda text: Choice(llama.name, why))
    flow = regard.flow(TEXT, layer=1)
    assert flow.outline["note"].startswith(f"{why} These are the numbers of {llama.name} itself")
    assert flow.outline["chosen"] == "decoder.layers.1"


def test_what_minilm_does_not_know_is_read_by_smollm2() -> None:
    from regard.models import model_for
    from regard.models.fetch import fetch

    for name in ("minilm", "smollm2"):
        fetch(name)
    assert model_for("I love apple phones").model == "minilm"
    choice = model_for("나는 사과 전화기를 사랑한다 🦜")
    assert choice.model == "smollm2"
    assert "[UNK]" in choice.why
    assert model_for("word " * 600).model == "smollm2"
