"""What each head does: scores that follow from the whole weights, needles, nulls and ablation."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from tokenizers import Tokenizer
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace
from transformers import (
    BertConfig,
    BertModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
)

import regard
from regard.ask import Scored, ScoredHead, heads
from regard.ask._needles import NAMES, hidden
from regard.models import Loaded

_WORDS = [
    "?",
    ".",
    *["The", "secret", "number", "of", "is"],
    *NAMES,
    *["a", "b", "c", "d", "e", "f", "g"],
]
_NUMBERS = [str(n) for n in range(1000, 10000)]
_IDS = {word: n for n, word in enumerate([*_WORDS, *_NUMBERS])}
TEXT = " ".join("abcdefg"[n * n % 7] for n in range(101))


def tokenizer_of() -> PreTrainedTokenizerFast:
    words = Tokenizer(WordLevel(_IDS, unk_token="?"))
    words.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=words)


def small(**changes: Any) -> Loaded:
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=len(_IDS),
        hidden_size=12,
        intermediate_size=7,
        num_hidden_layers=2,
        num_attention_heads=3,
        num_key_value_heads=1,
        max_position_embeddings=149,
        initializer_range=0.4,
        **changes,
    )
    model = LlamaForCausalLM(config).eval()
    return Loaded("small", model, tokenizer_of(), Path("small"), decoder=True)


def weights_of(loaded: Loaded, ids: list[int]) -> list[torch.Tensor]:
    """(H, N, N) of each layer."""
    with regard.watch(loaded.model, regard.See(), keep=("q", "k")) as run, torch.no_grad():
        loaded.model(input_ids=torch.tensor([ids]))
    return [layer.weights()[0].double() for layer in run.layers.values()]


def test_needles_stand_where_they_are_said_to_and_are_asked_for_at_the_end() -> None:
    loaded = small()
    ids = loaded.tokenizer.encode(TEXT)  # type: ignore[union-attr]
    hay = hidden("heads()", loaded, ids, 149, 3, 5, 0)
    words = {n: word for word, n in _IDS.items()}
    said = [words[n] for n in hay.ids]
    assert len(hay.ids) == 2 * 3 * 8 + 101
    for number, needle in enumerate(hay.needles):
        assert needle.depth == (number + 0.5) / 3
        fact = ["The", "secret", "number", "of", needle.name, "is"]
        assert said[needle.start - 6 : needle.start] == fact
        assert tuple(hay.ids[needle.start : needle.end]) == needle.answer
        (query,) = needle.queries
        assert said[query - 5 : query + 1] == fact
        assert hay.ids[query + 1] == needle.answer[0]
    assert len(hay.spans) == 5
    assert all("abcdefg".find(said[start]) >= 0 and end - start == 1 for start, end in hay.spans)
    # Without needles and questions, it is the text as it was.
    assert [word for word in said if word in "abcdefg"] == TEXT.split()


def test_scores_follow_from_the_whole_weights() -> None:
    loaded = small()
    found = heads(loaded, TEXT, needles=3, seed=5)
    ids = loaded.tokenizer.encode(TEXT)  # type: ignore[union-attr]
    hay = hidden("heads()", loaded, ids, 149, 3, 16, 5)
    n = len(hay.ids)
    last = [max((m for m in range(i) if hay.ids[m] == hay.ids[i]), default=-1) for i in range(n)]
    again = [i for i in range(n) if last[i] >= 0]
    for head in found.heads:
        weights = weights_of(loaded, hay.ids)[head.layer][head.head]
        asked = [float(weights[x.queries[0], x.start]) for x in hay.needles]
        others = [
            float(weights[x.queries[0], y.start])
            for x in hay.needles
            for y in hay.needles
            if x is not y
        ]
        null = torch.stack(
            [weights[[x.queries[0] for x in hay.needles], start].mean() for start, _ in hay.spans]
        )
        retrieval = head.scores["retrieval"]
        assert retrieval.value == pytest.approx(sum(asked) / 3, rel=1e-4)
        assert head.others == pytest.approx(sum(others) / 6, rel=1e-4)
        assert retrieval.null == pytest.approx(float(null.mean()), rel=1e-4)
        assert retrieval.most == pytest.approx(float(null.max()), rel=1e-4)
        expected = {
            "duplicate": [float(weights[i, last[i]]) for i in again],
            "induction": [float(weights[i, last[i] + 1]) for i in again],
            "previous": [float(weights[i, i - 1]) for i in range(1, n)],
            "first": weights[:, 0].tolist(),
        }
        single = torch.stack([weights[end:, start].mean() for start, end in hay.spans])
        for kind, values in expected.items():
            score = head.scores[kind]
            assert score.value == pytest.approx(sum(values) / len(values), rel=1e-4), kind
            assert score.most == pytest.approx(float(single.max()), rel=1e-4), kind


def test_recall_is_that_of_the_likeliest_tokens_and_falls_without_heads() -> None:
    loaded = small()
    found = heads(loaded, TEXT, needles=3, ablate=2)
    assert found.recall is not None
    assert found.ablated is not None
    assert found.without is not None
    best = sorted((head.layer, head.head) for head in found.best("retrieval", 2))
    assert found.without["without the best"] == best
    assert not set(best) & set(found.without["without random ones"])
    assert [len(chosen) for chosen in found.without.values()] == [0, 2, 2]
    ids = loaded.tokenizer.encode(TEXT)  # type: ignore[union-attr]
    hay = hidden("heads()", loaded, ids, 149, 3, 16, 1)  # other needles than the scores
    ablate: dict[str | int, list[int]] = {}
    for layer, head in best:
        ablate.setdefault(layer, []).append(head)
    for name, given in (("as it is", None), ("without the best", ablate)):
        with torch.no_grad(), regard.watch(loaded.model, regard.See(), ablate=given):
            logits = loaded.model(input_ids=torch.tensor([hay.ids])).logits[0].double()
        logs = [float(logits[x.queries[0]].log_softmax(-1)[x.answer[0]]) for x in hay.needles]
        assert found.ablated[name].log_probability == pytest.approx(sum(logs) / 3, rel=1e-4)
        right = [int(logits[x.queries[0]].argmax()) == x.answer[0] for x in hay.needles]
        assert found.ablated[name].found == sum(right)


def test_a_head_that_looks_at_every_needle_retrieves_none() -> None:
    score = {"retrieval": Scored(0.3, 0.01, 0.02)}
    assert ScoredHead(0, 0, score, 0.1).kinds == ["retrieval"]
    assert ScoredHead(0, 0, score, 0.2).kinds == []
    assert ScoredHead(0, 0, {"retrieval": Scored(0.3, 0.01, 0.4)}, 0.1).kinds == []
    assert ScoredHead(0, 0, {"retrieval": Scored(0.09, 0.0, 0.0)}, 0.0).kinds == []


def test_progress_comes_to_its_end() -> None:
    told: list[tuple[int, int]] = []
    heads(small(), TEXT, needles=2, ablate=1, progress=lambda *at: told.append(at))
    assert told[-1] == (8, 8)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"needles": 0}, r"heads\(\): needles must be at least 1; got 0"),
        ({"needles": 99}, r"heads\(\): needles must be from 1 to 28; got 99"),
        ({"ablate": -1}, r"heads\(\): ablate must be at least 0; got -1"),
        ({"text": "a b c"}, r"heads\(\): text must have at least 64 tokens for 2 needles; got 35"),
        ({"first": 50}, r"heads\(\): text must have at least 64 tokens for 2 needles; got 50"),
    ],
)
def test_wrong_input_is_refused_before_the_model_runs(
    arguments: dict[str, Any], message: str
) -> None:
    loaded = small()
    loaded.model.forward = None  # type: ignore[assignment,method-assign]
    given: dict[str, Any] = {"text": TEXT, "needles": 2, **arguments}
    with pytest.raises((TypeError, ValueError), match=message):
        heads(loaded, **given)


def test_a_model_that_predicts_nothing_is_refused_by_name() -> None:
    config = BertConfig(
        vocab_size=len(_IDS),
        hidden_size=12,
        num_hidden_layers=1,
        num_attention_heads=3,
        intermediate_size=5,
    )
    loaded = Loaded("bert", BertModel(config), tokenizer_of(), Path("bert"), decoder=False)
    with pytest.raises(ValueError, match="model must predict the next token; got bert"):
        heads(loaded, TEXT)
