"""`load`: what a folder holds is what is computed with."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.model_folders import (
    edit_json,
    edit_weights,
    save,
    save_bert,
    save_llama,
    save_masked,
    small_bert,
    small_llama,
)
from transformers import (
    BertModel,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaModel,
    PreTrainedModel,
    RobertaConfig,
    RobertaModel,
)

from regard.models import CheckpointError, Loaded, load

IDS = torch.tensor([[2, 4, 5, 6, 3]])


def save_gpt2(folder: Path) -> PreTrainedModel:
    torch.manual_seed(6)
    config = GPT2Config(vocab_size=11, n_embd=12, n_layer=2, n_head=3, n_positions=13)
    return save(GPT2LMHeadModel(config), folder)


def save_roberta(folder: Path) -> PreTrainedModel:
    torch.manual_seed(7)
    sizes: dict[str, Any] = small_bert().to_dict()
    config = RobertaConfig.from_dict(sizes | {"pad_token_id": 1, "model_type": "roberta"})
    return save(RobertaModel(config), folder)


@pytest.mark.parametrize(
    ("make", "decoder"),
    [
        (save_bert, False),
        (save_masked, False),
        (save_llama, True),
        (save_gpt2, True),
        (save_roberta, False),
    ],
)
def test_a_saved_model_computes_the_same_when_it_is_loaded(
    make: Callable[[Path], PreTrainedModel], decoder: bool, tmp_path: Path
) -> None:
    saved = make(tmp_path)
    loaded = load(tmp_path)
    assert type(loaded.model) is type(saved)
    assert not loaded.model.training
    assert loaded.decoder is decoder
    assert loaded.notes == ()
    with torch.no_grad():
        assert torch.equal(loaded.model(IDS)[0], saved(IDS)[0])


def test_it_is_taken_apart_into_model_and_tokenizer(tmp_path: Path) -> None:
    save_bert(tmp_path)
    loaded = load(str(tmp_path))
    model, tokenizer = loaded
    assert model is loaded.model
    assert tokenizer is loaded.tokenizer
    assert tokenizer.pad_token == "[PAD]"
    assert tokenizer.cls_token == "[CLS]"
    assert tokenizer.eos_token is None  # it is not in the vocabulary
    assert "BertModel" not in repr(loaded)
    assert loaded.folder == tmp_path


def test_shards_are_put_together(tmp_path: Path) -> None:
    saved = save_llama(tmp_path, max_shard_size="2KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    with torch.no_grad():
        assert torch.equal(load(tmp_path).model(IDS)[0], saved(IDS)[0])


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_weights_of_any_float_type_become_float32(tmp_path: Path, dtype: torch.dtype) -> None:
    saved = save_bert(tmp_path)
    edit_weights(tmp_path, lambda all_: all_.update({k: v.to(dtype) for k, v in all_.items()}))
    edit_json(tmp_path / "config.json", dtype=str(dtype).removeprefix("torch."))
    loaded = load(tmp_path)
    for name, weight in loaded.model.state_dict().items():
        assert weight.dtype == torch.float32
        assert torch.equal(weight, saved.state_dict()[name].to(dtype).float())


def test_a_checkpoint_without_pooler_gets_a_model_without_pooler(tmp_path: Path) -> None:
    saved = save(BertModel(small_bert(), add_pooling_layer=False), tmp_path)
    loaded = load(tmp_path)
    assert getattr(loaded.model, "pooler") is None  # noqa: B009
    assert ["pooler" in note for note in loaded.notes] == [True]
    with torch.no_grad():
        assert torch.equal(loaded.model(IDS)[0], saved(IDS)[0])


def test_buffers_that_a_model_computes_by_itself_are_named_in_a_note(tmp_path: Path) -> None:
    save_bert(tmp_path)
    edit_weights(tmp_path, lambda all_: all_.update({"embeddings.position_ids": torch.arange(13)}))
    assert "embeddings.position_ids" in load(tmp_path).notes[0]


def test_tied_weights_may_be_missing_and_stay_tied(tmp_path: Path) -> None:
    save_llama(tmp_path)
    model: Any = load(tmp_path).model
    assert model.lm_head.weight is model.model.embed_tokens.weight


def test_a_base_model_of_a_decoder_is_a_decoder(tmp_path: Path) -> None:
    save(LlamaModel(small_llama()), tmp_path)
    assert load(tmp_path).decoder


def test_the_links_of_a_hugging_face_cache_are_followed(tmp_path: Path) -> None:
    saved = save_bert(tmp_path / "saved")
    snapshot = tmp_path / "models--x--y" / "snapshots" / "abc"
    blobs = tmp_path / "models--x--y" / "blobs"
    for folder in (snapshot, blobs):
        folder.mkdir(parents=True)
    for number, path in enumerate((tmp_path / "saved").iterdir()):
        shutil.copy(path, blobs / f"{number:040}")
        (snapshot / path.name).symlink_to(Path("..", "..", "blobs", f"{number:040}"))
    with torch.no_grad():
        assert torch.equal(load(snapshot).model(IDS)[0], saved(IDS)[0])


def test_the_files_may_change_once_a_model_is_loaded(tmp_path: Path) -> None:
    save_bert(tmp_path)
    loaded = load(tmp_path)
    before = {name: weight.clone() for name, weight in loaded.model.state_dict().items()}
    path = tmp_path / "model.safetensors"
    path.write_bytes(bytes(path.stat().st_size))
    for name, weight in loaded.model.state_dict().items():
        assert torch.equal(weight, before[name])


@pytest.fixture(scope="module")
def bert(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    folder = tmp_path_factory.mktemp("bert")
    save_bert(folder)
    return load(folder)


def test_nothing_is_cut_off_and_one_text_is_not_padded(bert: Loaded) -> None:
    found = bert.inputs("i love apple phones . i")
    assert found["input_ids"].tolist() == [[2, 4, 5, 6, 7, 8, 4, 3]]
    assert found["attention_mask"].tolist() == [[1] * 8]
    assert bert.model(**found)[0].shape == (1, 8, 12)


def test_a_batch_is_padded_on_the_right_and_padding_changes_nothing(bert: Loaded) -> None:
    found = bert.inputs(["i love apple", "i"])
    assert found["input_ids"].tolist() == [[2, 4, 5, 6, 3], [2, 4, 3, 0, 0]]
    assert found["attention_mask"].tolist() == [[1] * 5, [1, 1, 1, 0, 0]]
    with torch.no_grad():
        together = bert.model(**found)[0][1, :3]
        alone = bert.model(**bert.inputs("i"))[0][0]
    torch.testing.assert_close(together, alone)


def test_a_decoder_gets_only_what_it_takes(tmp_path: Path) -> None:
    save_llama(tmp_path)
    loaded = load(tmp_path)
    assert set(loaded.inputs("i love")) == {"input_ids", "attention_mask"}
    assert set(loaded.inputs(["i love", "i"])) == {"input_ids", "attention_mask"}


def test_a_model_without_kinds_of_parts_is_told_of_none(tmp_path: Path) -> None:
    """GPT-2 takes token types, and would add the row of token 0 to every token."""
    model, loaded = save_gpt2(tmp_path), load(tmp_path)
    inputs = loaded.inputs("i love apple")
    assert sorted(inputs) == ["attention_mask", "input_ids"]
    with torch.no_grad():
        expected = model(input_ids=inputs["input_ids"]).logits
        assert torch.equal(loaded.model(**inputs).logits, expected)


def test_tokens_have_spans_and_special_ones_an_empty_span(bert: Loaded) -> None:
    text = "  i  love  "
    tokens = bert.tokens(text)
    assert [token.text for token in tokens] == ["[CLS]", "i", "love", "[SEP]"]
    assert [(token.start, token.end) for token in tokens] == [(0, 0), (2, 3), (5, 9), (9, 9)]
    assert len(tokens) == bert.inputs(text)["input_ids"].shape[1]


def test_an_unknown_word_is_shown_as_it_was_written(bert: Loaded) -> None:
    assert [token.text for token in bert.tokens("i ভাত")] == ["[CLS]", "i", "ভাত", "[SEP]"]


@pytest.mark.parametrize(
    ("text", "kind", "words"),
    [
        ("i " * 12, ValueError, ("at most the 13 tokens", "got 14")),
        (["i", "i " * 12], ValueError, ("13", "14")),
        ([], ValueError, ("empty",)),
        (3, TypeError, ("text",)),
        (["i", None], TypeError, ("str", "NoneType")),
        (b"i", TypeError, ("str", "bytes")),
        ("i \ud800", ValueError, ("Unicode", "at 2")),
    ],
)
def test_text_that_the_model_cannot_take_is_refused_in_words(
    bert: Loaded, text: Any, kind: type[Exception], words: tuple[str, ...]
) -> None:
    with pytest.raises(kind) as caught:
        bert.inputs(text)
    assert type(caught.value) is kind
    for word in ("inputs(): ", *words):
        assert word in str(caught.value)


def test_as_many_tokens_as_positions_are_taken(bert: Loaded) -> None:
    assert bert.model(**bert.inputs("i " * 11))[0].shape == (1, 13, 12)


def test_positions_that_roberta_cannot_use_are_not_counted(tmp_path: Path) -> None:
    save_roberta(tmp_path)
    loaded = load(tmp_path)
    assert loaded.model(**loaded.inputs("i " * 9))[0].shape == (1, 11, 12)
    with pytest.raises(ValueError, match="at most the 11 tokens"):
        loaded.inputs("i " * 10)


def test_a_tokenizer_that_is_too_large_for_its_model_is_told_in_words(tmp_path: Path) -> None:
    save(BertModel(small_bert(vocab_size=6)), tmp_path)
    loaded = load(tmp_path)
    assert loaded.inputs("i love")["input_ids"].tolist() == [[2, 4, 5, 3]]
    with pytest.raises(ValueError, match="'apple', whose number is 6"):
        loaded.inputs("i love apple")


def test_a_folder_without_tokenizer_loads_and_says_so_when_text_comes(tmp_path: Path) -> None:
    save_bert(tmp_path)
    (tmp_path / "tokenizer.json").unlink()
    loaded = load(tmp_path)
    assert loaded.tokenizer is None
    with pytest.raises(ValueError, match=r"inputs\(\): .*tokenizer\.json"):
        loaded.inputs("i")


def test_a_tokenizer_that_fails_on_a_text_does_so_in_words(tmp_path: Path) -> None:
    save_bert(tmp_path)
    path = tmp_path / "tokenizer.json"
    path.write_text(path.read_text().replace('"unk_token": "[UNK]"', '"unk_token": "[NO]"'))
    loaded = load(tmp_path)
    assert len(loaded.tokens("i love")) == 4
    with pytest.raises(ValueError, match=r"tokens\(\): .*Missing \[UNK\]"):
        loaded.tokens("strange")


def test_a_tokenizer_that_panics_is_an_error_like_any_other(tmp_path: Path) -> None:
    save_bert(tmp_path)
    post: dict[str, Any] = json.loads((tmp_path / "tokenizer.json").read_text())["post_processor"]
    edit_json(tmp_path / "tokenizer.json", post_processor=post | {"special_tokens": {}})
    with pytest.raises(ValueError, match=r"inputs\(\): .*no entry found.*may be broken"):
        load(tmp_path).inputs("i")


def test_no_text_at_all_is_refused(tmp_path: Path) -> None:
    save_bert(tmp_path)
    edit_json(tmp_path / "tokenizer.json", post_processor=None)
    with pytest.raises(ValueError, match="at least one token"):
        load(tmp_path).inputs("")


@pytest.mark.parametrize("path", [3, None, ["minilm"]])
def test_what_is_no_path_is_a_type_error(path: Any) -> None:
    with pytest.raises(TypeError, match=r"load\(\): name_or_path must be a str or a path; got "):
        load(path)


def test_a_path_is_never_looked_up_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(CheckpointError, match="minilm must be a folder; got nothing there"):
        load(Path("minilm"))


def test_without_a_network_the_built_in_names_are_told() -> None:
    with pytest.raises(CheckpointError, match=r"Hub.*minilm and smollm2 come from"):
        load("nobody/no-such-model-of-this-name")


def test_an_error_survives_being_sent_to_another_process() -> None:
    import pickle

    error = CheckpointError("a", "be b", "c", "Do d.", tensor="e")
    copy = pickle.loads(pickle.dumps(error))
    assert str(copy) == str(error) == "load(): tensor e in a must be b; got c. Do d."
    assert copy.tensor == "e"
