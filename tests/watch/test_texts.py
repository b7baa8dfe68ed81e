"""Whose tokens are whose: several texts in one `with`, several threads, a text not read."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.watch_models import build
from torch import Tensor, nn

import regard
from regard.run import load

SEE = regard.See(entropy=True, top=5)


class Words:
    """A tokenizer that has learnt what it is given: one token a word, numbered from 2 on."""

    def __init__(self, *texts: str) -> None:
        self.words = list(dict.fromkeys(word for text in texts for word in text.split()))

    def __call__(self, text: str, **_: Any) -> dict[str, Any]:
        ids, spans, at = [], [], 0
        for word in text.split():
            at = text.index(word, at)
            ids.append(self.words.index(word) + 2)
            spans.append((at, at + len(word)))
            at += len(word)
        return {"input_ids": ids, "offset_mapping": spans}

    def convert_ids_to_tokens(self, ids: list[int]) -> list[str]:
        return [self.decode([token]) for token in ids]

    def decode(self, ids: list[int]) -> str:
        (token,) = ids
        return self.words[token - 2] if 2 <= token < len(self.words) + 2 else f"<{token}>"

    def ids(self, text: str) -> Tensor:
        return torch.tensor([self(text)["input_ids"]])


ONE, TWO = "the cat sat on the mat", "a dog lay under one chair"


@pytest.fixture(autouse=True)
def _without_gradients() -> Any:
    with torch.no_grad():
        yield


def words_of(run: regard.Run, layer: int) -> list[str]:
    rows = run.edges(0.0, layers=layer, heads=0).to_pylist()
    found = {row["key"]: row["key_token"] for row in rows}
    return [found[key] for key in sorted(found)]


@pytest.mark.parametrize("text", [None, [ONE, TWO], ONE, TWO])
def test_the_edges_of_each_pass_have_its_own_words(text: Any, tmp_path: Path) -> None:
    model, tokenizer = build("bert"), Words(ONE, TWO)
    with regard.watch(model, SEE, keep=("q", "k"), tokenizer=tokenizer, text=text) as run:
        model(tokenizer.ids(ONE))
        model(tokenizer.ids(TWO))
    run.save(tmp_path / "run")
    for each in (run, load(tmp_path / "run")):
        assert len(each.layers) == 4
        for n in range(4):
            assert words_of(each, n) == (ONE if n < 2 else TWO).split()
        found = each.sql("select distinct key_token as t from edges where layer = 0").to_pylist()
        assert {row["t"] for row in found} <= set(ONE.split())
        assert each.tokens is not None
        assert [token.text for token in each.tokens[0]] == TWO.split()
        assert each.token_ids is not None
        assert torch.equal(each.token_ids, tokenizer.ids(TWO))
        assert each.layer(3).tokens is None
        own = each.layer(0).tokens
        assert own is not None
        if text in (ONE, [ONE, TWO]):
            assert [ONE[token.start : token.end] for token in own[0]] == ONE.split()
    assert run.text == ([TWO] if isinstance(text, list) else text)


def test_texts_of_one_batch_are_named_as_before() -> None:
    model, tokenizer = build("bert"), Words(ONE, TWO)
    ids = torch.cat([tokenizer.ids(ONE), tokenizer.ids(TWO)])
    with regard.watch(model, SEE, tokenizer=tokenizer, text=[ONE, TWO]) as run:
        model(ids)
        model(ids)
    assert run.text == [ONE, TWO]
    assert run.tokens is not None
    assert [[token.text for token in one] for one in run.tokens] == [ONE.split(), TWO.split()]
    assert all(layer.tokens is None for layer in run.layers.values())


def test_a_decoders_tokens_are_not_its_encoders() -> None:
    model, tokenizer = build("t5"), Words(ONE, TWO)
    with regard.watch(model, SEE, keep=("q", "k"), tokenizer=tokenizer, text=ONE) as run:
        model(input_ids=tokenizer.ids(ONE), decoder_input_ids=tokenizer.ids(TWO))
    for n, (name, layer) in enumerate(run.layers.items()):
        if not layer.cross:
            expected = TWO if name.startswith("decoder") else ONE
            assert words_of(run, n) == expected.split()


def test_what_was_read_without_ids_has_no_words_of_another_pass() -> None:
    model, tokenizer = build("bert"), Words(ONE, TWO)
    vectors = model.embeddings.word_embeddings(tokenizer.ids(ONE))
    with regard.watch(model, SEE, keep=("q", "k"), tokenizer=tokenizer) as run:
        model(inputs_embeds=vectors)
        model(tokenizer.ids(TWO))
    assert words_of(run, 0) == [None] * 6
    assert words_of(run, 2) == TWO.split()


def test_old_runs_without_tokens_of_layers_are_read(tmp_path: Path) -> None:
    import json

    model, tokenizer = build("bert"), Words(ONE)
    with regard.watch(model, SEE, tokenizer=tokenizer, text=ONE) as run:
        model(tokenizer.ids(ONE))
    run.save(tmp_path / "run")
    document = json.loads((tmp_path / "run" / "run.json").read_text())
    assert document["format"] == 1
    assert all("tokens" not in layer for layer in document["layers"])


# ── a text that is another one ────────────────────────────────────────────────────────────────


def test_a_text_that_the_model_did_not_read_is_said() -> None:
    model, tokenizer = build("bert"), Words(ONE, TWO)
    with (
        pytest.warns(UserWarning, match="text: it is not what the model read"),
        regard.watch(model, SEE, tokenizer=tokenizer, text=TWO) as run,
    ):
        model(tokenizer.ids(ONE))
    assert run.text is None
    assert "text" in run.notes[0]
    assert run.tokens is not None
    assert [token.text for token in run.tokens[0]] == ONE.split()


def test_a_text_that_was_read_in_one_of_two_passes_is_kept() -> None:
    model, tokenizer = build("bert"), Words(ONE, TWO)
    with regard.watch(model, SEE, tokenizer=tokenizer, text=ONE) as run:
        model(tokenizer.ids(TWO))
        model(tokenizer.ids(ONE))
    assert run.text == ONE
    assert not run.notes


# ── threads ───────────────────────────────────────────────────────────────────────────────────


def test_induction_goes_by_the_tokens_of_its_own_thread() -> None:
    class Slow(nn.Module):
        """A model that waits inside, until another thread has begun."""

        def __init__(self) -> None:
            super().__init__()
            self.model = build("llama")
            self.begun = threading.Barrier(2)

        def forward(self, input_ids: Tensor) -> Tensor:
            self.begun.wait(20)
            return self.model(input_ids=input_ids).logits

    repeated, other = torch.tensor([[5, 6, 7, 8, 5, 6, 7]]), torch.arange(9, 16)[None]
    model = Slow().eval()
    with regard.watch(model, SEE) as run:

        def read(ids: Tensor) -> None:
            with torch.no_grad():
                model(ids)

        threads = [threading.Thread(target=read, args=(ids,)) for ids in (repeated, other)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
    repeats = sorted(
        bool((~layer.shares["induction"].isnan()).any()) for layer in run.layers.values()
    )
    assert repeats == [False, False, True, True]


def test_a_decoder_whose_ids_are_not_known_has_no_words() -> None:
    model, tokenizer = build("t5"), Words(ONE, TWO)
    with regard.watch(model, SEE, keep=("q", "k"), tokenizer=tokenizer, text=ONE) as run:
        model(input_ids=tokenizer.ids(ONE), labels=tokenizer.ids(TWO))
    for n, (name, layer) in enumerate(run.layers.items()):
        if not layer.cross:
            expected = [None] * 6 if name.startswith("decoder") else ONE.split()
            assert words_of(run, n) == expected


def test_ids_that_are_written_over_are_those_that_were_read() -> None:
    model, tokenizer = build("bert"), Words(ONE, TWO)
    ids = tokenizer.ids(ONE)
    with regard.watch(model, SEE, tokenizer=tokenizer) as run:
        model(ids)
        ids.copy_(tokenizer.ids(TWO))
    assert run.tokens is not None
    assert [token.text for token in run.tokens[0]] == ONE.split()


def test_a_tokenizer_that_fails_takes_nothing_with_it_but_the_names() -> None:
    class Slow(Words):
        def __call__(self, text: str, **given: Any) -> dict[str, Any]:
            if given.get("return_offsets_mapping"):
                raise NotImplementedError("return_offset_mapping is not available")
            return super().__call__(text)

    model, tokenizer = build("bert"), Slow(ONE)
    with (
        pytest.warns(UserWarning, match="tokens: not named. The tokenizer failed: NotImpl"),
        regard.watch(model, SEE, keep=("output",), tokenizer=tokenizer, text=ONE) as run,
    ):
        out = model(tokenizer.ids(ONE)).last_hidden_state
    assert run.output is not None
    assert torch.equal(run.output, out)
    assert len(run.layers) == 2
    assert run.notes


@pytest.mark.parametrize("pad", [5, 0])
def test_padding_repeats_no_token(pad: int) -> None:
    model = build("llama")
    ids = torch.tensor([[pad, pad, pad, 5, 6, 7, 6, 9]])
    real = torch.tensor([[0, 0, 0, 1, 1, 1, 1, 1]])
    with regard.watch(model, SEE) as run:
        model(ids, attention_mask=real)
    for layer in run.layers.values():
        known = ~layer.shares["induction"][0, 0].isnan()
        assert known.nonzero()[:, 0].tolist() == [6]
