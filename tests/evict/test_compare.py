"""Comparing: real losses, at the same memory, with the full cache above."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.asked_models import loaded_of, own
from helpers.model_folders import small_bert, small_llama
from torch.nn.functional import cross_entropy
from transformers import BertForMaskedLM, LlamaForCausalLM

import regard
from regard.evict import POLICIES, Full, Random, SlidingWindow, compare

TEXT = "i love apple phones . apple phones love i . " * 5
AFTER = 13


@pytest.fixture(scope="module")
def loaded() -> Any:
    torch.manual_seed(5)
    sizes = {"num_hidden_layers": 3, "initializer_range": 0.4, "max_position_embeddings": 199}
    return loaded_of(LlamaForCausalLM(small_llama(**sizes)))


def losses(model: Any, ids: torch.Tensor, hidden: int) -> torch.Tensor:
    """Of the tokens after the first that follows, which cannot see the first `hidden` ones."""
    first = len(ids) - AFTER
    blocked = [
        (layer, None, query, key)
        for layer in range(model.config.num_hidden_layers)
        for query in range(first, len(ids))
        for key in range(hidden)
    ]
    with torch.no_grad(), regard.watch(model, regard.See(), block=blocked or None):
        logits = model(input_ids=ids[None]).logits[0]
    return cross_entropy(logits[first:-1], ids[first + 1 :])


def test_losses_are_those_of_a_model_that_cannot_see_what_was_forgotten(loaded: Any) -> None:
    found = compare(loaded, TEXT, 0.3, policies=[SlidingWindow()], continuation=AFTER, needles=0)
    ids = torch.tensor(loaded.reader().read(TEXT).ids)
    full, window = found.scores
    kept = -(-3 * (len(ids) - AFTER) // 10)
    assert (full.policy, full.keep, full.kept) == ("Full", 1.0, len(ids) - AFTER)
    assert (window.policy, window.keep, window.kept) == ("SlidingWindow", 0.3, kept)
    assert full.loss == pytest.approx(float(losses(loaded.model, ids, 0)), rel=1e-5)
    hidden = len(ids) - AFTER - kept
    assert window.loss == pytest.approx(float(losses(loaded.model, ids, hidden)), rel=1e-5)
    assert abs(window.loss - full.loss) > 1e-3


def test_all_policies_have_the_same_memory(loaded: Any) -> None:
    found = compare(loaded, TEXT, [0.5, 0.25], needles=2)
    assert [score.policy for score in found.scores[1:6]] == [each.name for each in POLICIES[1:]]
    assert [score.keep for score in found.scores] == [1.0] + [0.25] * 5 + [0.5] * 5
    for share in (0.25, 0.5):
        some = [score for score in found.scores if score.keep == share]
        assert len({(score.kept, score.bytes) for score in some}) == 1
        assert some[0].bytes / found.scores[0].bytes == pytest.approx(some[0].kept / found.prefix)
    assert all(0 <= score.found <= 2 for score in found.scores)


def test_who_keeps_all_is_the_full_cache(loaded: Any) -> None:
    found = compare(loaded, TEXT, 1.0, needles=1)
    assert {(score.loss, score.kept, score.found) for score in found.scores} == {
        (found.scores[0].loss, found.prefix, found.scores[0].found)
    }


def test_it_says_how_far_it_is_and_can_be_stopped(loaded: Any) -> None:
    said: list[tuple[str, int, int]] = []
    compare(loaded, TEXT, needles=1, progress=lambda *told: said.append(told))
    assert [done for _, done, _ in said] == list(range(1, len(said) + 1))
    assert {total for _, _, total in said} == {len(said)}

    def stop(what: str, done: int, total: int) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        compare(loaded, TEXT, needles=1, progress=stop)


def test_a_figure_has_both_charts(loaded: Any, tmp_path: Path) -> None:
    found = compare(loaded, TEXT, [0.25, 0.5], policies=[Full(), Random()], needles=1)
    found.figure(tmp_path / "evict.svg")
    drawn = (tmp_path / "evict.svg").read_text()
    assert drawn.count("share of the cache that is kept") >= 1
    assert "needles found" in drawn


def test_what_cannot_be_compared_is_refused_before_the_model_runs(
    loaded: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError

    monkeypatch.setattr(type(loaded.model), "forward", _with_signature(loaded.model, never))
    with pytest.raises(ValueError, match=r"compare\(\): text must have at least 16 tokens; got 4"):
        compare(loaded, "i love apple phones")
    for keep in (0, 1.01, []):
        with pytest.raises(ValueError, match=r"compare\(\): keep must be"):
            compare(loaded, TEXT, keep)
    with pytest.raises(ValueError, match=r"compare\(\): continuation must be"):
        compare(loaded, TEXT, continuation=50)
    with pytest.raises(ValueError, match=r"compare\(\): needles must be"):
        compare(loaded, TEXT, needles=-1)
    with pytest.raises(TypeError, match=r"policies must be of regard\.evict; got 'window'"):
        compare(loaded, TEXT, policies=["window"])  # pyright: ignore[reportArgumentType]
    encoder = loaded_of(BertForMaskedLM(small_bert()), decoder=False)
    with pytest.raises(ValueError, match="the model must predict the next token"):
        compare(encoder, TEXT)
    with pytest.raises(ValueError, match="must take a cache of transformers"):
        compare(own(), TEXT)


def _with_signature(model: Any, function: Any) -> Any:
    import functools

    return functools.wraps(type(model).forward)(function)


def test_a_model_finds_a_number_that_is_still_there() -> None:
    loaded = regard.models.load("smollm2")
    text = "The ship left the harbour at dawn. Nobody on the quay looked up from the nets. " * 7
    found = compare(loaded, text, 0.3, policies=[SlidingWindow()], needles=2)
    full, window = found.scores
    assert full.found == 2
    assert window.found < 2
