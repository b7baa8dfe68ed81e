"""`see`: a text through a model, in Python as in the commands."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.model_folders import save, save_bert, save_llama, small_llama

import regard
from regard.ask import see
from regard.models import Loaded, Reader, load, open_model
from regard.text import Token

TEXT = "i love apple phones . i love it"


@pytest.fixture(scope="module")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    folder = tmp_path_factory.mktemp("encoder")
    save_bert(folder)
    return load(folder)


@pytest.fixture(scope="module")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    folder = tmp_path_factory.mktemp("decoder")
    save_llama(folder)
    return load(folder)


def test_the_weights_are_those_of_transformers(decoder: Loaded) -> None:
    run = decoder.see(TEXT)
    decoder.model.set_attn_implementation("eager")
    with torch.no_grad():
        truth = decoder.model(**decoder.inputs(TEXT), output_attentions=True).attentions
    decoder.model.set_attn_implementation("sdpa")
    for number, own in enumerate(truth):
        torch.testing.assert_close(run.weights(number), own, atol=1e-5, rtol=1e-5)


def test_the_tokenizer_runs_once_for_a_text(
    encoder: Loaded, monkeypatch: pytest.MonkeyPatch
) -> None:
    times: list[object] = []
    encode = Reader._encode

    def counted(self: Reader, text: object, operation: str) -> Any:
        times.append(text)
        return encode(self, text, operation)

    def never(*_: object, **__: object) -> None:
        raise AssertionError("the tokenizer ran once more")

    monkeypatch.setattr(Reader, "_encode", counted)
    monkeypatch.setattr(type(encoder.tokenizer), "__call__", never)
    see(encoder, encoder.reader().read(TEXT))
    assert times == [TEXT]


def test_a_special_token_has_one_span_wherever_it_is_asked_for(encoder: Loaded) -> None:
    text = "i love it"
    with (
        torch.no_grad(),
        regard.watch(encoder.model, tokenizer=encoder.tokenizer, text=text) as run,
    ):
        encoder.model(**encoder.inputs(text))
    seen = encoder.see(text)
    assert run.tokens is not None
    assert seen.tokens is not None
    for tokens in (run.tokens[0], seen.tokens[0], encoder.tokens(text)):
        assert tokens[0] == Token("[CLS]", 0, 0)
        assert tokens[-1] == Token("[SEP]", 9, 9)


@pytest.mark.parametrize("first", [3, 5, 9])
def test_first_reads_the_first_tokens_and_special_ones_stay_around_them(
    encoder: Loaded, first: int
) -> None:
    whole, part = encoder.see(TEXT), encoder.see(TEXT, first=first)
    assert whole.tokens is not None
    assert part.tokens is not None
    assert len(part.tokens[0]) == first
    assert part.tokens[0][:-1] == whole.tokens[0][: first - 1]
    assert part.text == TEXT[: part.tokens[0][-1].end]
    assert isinstance(part.text, str)
    again = encoder.see(part.text)
    assert again.token_ids is not None
    assert part.token_ids is not None
    assert torch.equal(part.token_ids, again.token_ids)
    assert again.tokens == part.tokens


def test_first_of_a_short_text_is_all_of_it(encoder: Loaded) -> None:
    assert encoder.see(TEXT, first=10).text == encoder.see(TEXT, first=99).text == TEXT


@pytest.mark.parametrize("first", [0, 1, 2])
def test_first_without_room_for_a_token_of_the_text_is_refused(encoder: Loaded, first: int) -> None:
    with pytest.raises(ValueError, match=rf"see\(\): first must leave room .* got {first}\."):
        encoder.see(TEXT, first=first)


def test_first_of_a_text_that_was_read_is_refused(encoder: Loaded) -> None:
    reading = encoder.reader().read(TEXT)
    with pytest.raises(ValueError, match=r"see\(\): first must be left out .*; got 3\. Give "):
        encoder.see(reading, first=3)


@pytest.mark.parametrize("text", ["", " \n"])
def test_a_text_without_a_word_is_refused(encoder: Loaded, decoder: Loaded, text: str) -> None:
    for loaded in (encoder, decoder):
        with pytest.raises(ValueError, match=r"see\(\): text must have a word; got '.*'\. Give"):
            loaded.see(text)


def test_a_text_that_is_no_text_is_refused(encoder: Loaded) -> None:
    with pytest.raises(TypeError, match=r"see\(\): text must be a str; got int\."):
        encoder.see(3)  # type: ignore[arg-type]


def test_a_text_that_is_too_long_is_refused_with_what_to_do_and_first_does_it(
    encoder: Loaded,
) -> None:
    text = "love " * 12
    with pytest.raises(ValueError, match=r"see\(\): text .* at most the 13 .*got 14.* first=13"):
        encoder.see(text)
    assert encoder.see(text, first=13).token_ids.shape == (1, 13)  # type: ignore[union-attr]


def test_a_text_that_is_too_long_is_known_without_torch(tmp_path: Path) -> None:
    import subprocess
    import sys

    save_bert(tmp_path)
    code = (
        "import sys; from regard.models import open_model\n"
        f"opened = open_model({str(tmp_path)!r})\n"
        "try: opened.read('love ' * 12)\n"
        "except ValueError as error: print(error)\n"
        "print({'torch', 'transformers'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    said = done.stdout.splitlines()
    assert "at most the 13 tokens" in said[0]
    assert said[1] == "set()"


def test_before_its_weights_are_read_a_model_reads_what_it_does_afterwards(encoder: Loaded) -> None:
    reading = open_model(encoder.folder).read("i ate 🍎")
    assert reading == encoder.reader().read("i ate 🍎")
    assert reading.unknown == ["ate", "🍎"]


def test_progress_gets_every_block_and_may_end_it(encoder: Loaded) -> None:
    told: list[tuple[int, int]] = []
    encoder.see(TEXT, progress=lambda done, total: told.append((done, total)))
    assert told == [(1, 2), (2, 2)]

    def end(done: int, total: int) -> None:
        raise TimeoutError

    with pytest.raises(TimeoutError):
        encoder.see(TEXT, progress=end)


def test_logits_are_those_of_the_last_token_unless_all_are_asked_for(tmp_path: Path) -> None:
    from transformers import LlamaForCausalLM

    save(LlamaForCausalLM(small_llama()), tmp_path)
    loaded = load(tmp_path)
    one, all_ = (loaded.see(TEXT, keep=("output",), logits=logits).output for logits in (1, None))
    assert one is not None
    assert all_ is not None
    assert (one.shape[1], all_.shape[1]) == (1, 10)
    torch.testing.assert_close(one[:, -1], all_[:, -1])


def test_heads_are_ablated(encoder: Loaded) -> None:
    kept = ("hidden_states", "output")
    run, without = (encoder.see(TEXT, keep=kept, ablate=heads) for heads in (None, {1: [0, 2]}))
    changed = {
        name: change.relative.max().item() for name, change in run.effect(without).layers.items()
    }
    assert [value > 0 for value in changed.values()] == [False, True]
