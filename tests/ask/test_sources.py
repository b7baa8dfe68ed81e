"""Where an answer came from: shares that are sums of weights, and what blocking a source costs."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.asked_models import loaded_of, own, small
from helpers.model_folders import save, save_bert, save_masked, small_llama
from torch import Tensor
from transformers import LlamaForCausalLM, MarianMTModel

import regard
from regard.ask import Blocked, answer_sources
from regard.ask._blocked import pieces_of
from regard.ask._cut import usual_spans
from regard.models import Loaded, load

# Thirteen tokens: 0 to 2, 3 to 6, the question 7 and 8, the answer 9 and 10, 11 and 12.
TEXT = "i love phones\n\napple phones . i\n\nlove apple phones .\nlove ."
ANSWER = "phones .\nlove ."
OF = {"one": (0, 13), "two": (15, 31)}
LABELS = [-1, 0, 0, 1, 1, 1, 1, -1, -1, -1, -1, -1, -1]  # the first token is of no source


def log_probabilities(loaded: Loaded, blocked: list[int]) -> Tensor:
    """Of each token but the first, with keys hidden as padding is: by transformers alone."""
    inputs = loaded.inputs(TEXT)
    mask = torch.ones_like(inputs["input_ids"])
    mask[0, blocked] = 0
    with torch.no_grad():
        logits = loaded.model(input_ids=inputs["input_ids"], attention_mask=mask).logits[0]
    ids = inputs["input_ids"][0, 1:]
    return logits.double().log_softmax(-1)[:-1].gather(1, ids[:, None])[:, 0]


# ── shares ────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("by", ["weights", "contribution"])
@pytest.mark.parametrize("name", ["llama", "gpt2", "gemma 2", "own"])
def test_shares_are_sums_of_the_weights_from_where_tokens_are_predicted(name: str, by: Any) -> None:
    loaded = own() if name == "own" else loaded_of(small(name))
    run = loaded.see(TEXT, keep=("q", "k", "v"))
    n = len(LABELS)
    found = run.sources(ANSWER, OF, by=by, check=0)
    assert [each.tokens for each in found.sources] == [2, 4]
    assert [each.text for each in found.sentences] == ["phones .", "love ."]
    labels = torch.tensor(LABELS)
    for sentence, positions in zip(found.sentences, ([9, 10], [11, 12]), strict=True):
        rows = [position - 1 for position in positions]
        total, looked = torch.zeros(2, dtype=torch.float64), []
        for layer in run.layers.values():
            weights = layer.weights(sequence=0).double()[:, rows]
            looked.append(weights[..., labels >= 0].sum(-1).mean())
            if by == "contribution":
                assert layer.v is not None
                norms = layer.v[0].double().norm(dim=-1)
                weights = weights * norms.repeat_interleave(3 // norms.shape[0], 0)[:, None]
            total += torch.stack([weights[..., labels == k].sum() for k in (0, 1)])
        assert sentence.shares == pytest.approx((total / total.sum()).tolist(), rel=1e-5)
        assert sentence.looked == pytest.approx(float(torch.stack(looked).mean()), rel=1e-5)
        assert sentence.tokens == 2
        assert sentence.winner == int(total.argmax())
        head = sentence.heads[0]
        exact = run.weights(head.layer, head.head, sequence=0)[rows]
        weight = float(exact[:, labels == sentence.winner].sum(-1).mean())
        assert head.weight == pytest.approx(weight, rel=1e-5)
        weights_of = [each.weight for each in sentence.heads]
        assert weights_of == sorted(weights_of, reverse=True)
    assert n == len(run.tokens[0]) if run.tokens else False


def test_labels_of_tokens_are_as_good_as_characters() -> None:
    run = loaded_of(small("llama")).see(TEXT)
    expected = run.sources(ANSWER, OF, check=0)
    for labels in (LABELS, torch.tensor(LABELS, dtype=torch.int32)):
        found = run.sources(ANSWER, labels, check=0)
        assert [each.shares for each in found.sentences] == [
            each.shares for each in expected.sentences
        ]
    assert found.sources[1].name == "span 1"
    assert (found.sources[1].start, found.sources[1].end) == OF["two"]


def test_the_question_and_the_first_token_are_of_no_source() -> None:
    run = loaded_of(small("llama")).see(TEXT)
    found = run.sources(ANSWER, check=0)  # paragraphs, but for the one that the answer ends
    assert {each.name: (each.start, each.end) for each in found.sources} == {
        "paragraph 1": OF["one"],
        "paragraph 2": OF["two"],
    }
    assert found.sources[0].tokens == 2
    without = run.sources(ANSWER, question=". i", check=0)
    assert [each.tokens for each in without.sources] == [2, 2]


def test_turns_of_a_chat_are_sources_and_its_last_paragraph_is_the_question() -> None:
    chat = (
        "<|im_start|>system\nBe kind.<|im_end|>\n<|im_start|>user\nA cat.\n\nA dog.\n\nWho barks?"
        "<|im_end|>\n<|im_start|>assistant\nThe dog."
    )
    at = chat.index("The dog.")

    def pieces(has_question: bool) -> dict[str, str]:
        spans = usual_spans(chat, at, has_question)
        return {name: chat[slice(*where)] for name, where in spans.items()}

    usual = {"turn 1, system": "Be kind.", "paragraph 1": "A cat.", "paragraph 2": "A dog."}
    assert pieces(False) == usual
    assert pieces(True) == {**usual, "paragraph 3": "Who barks?"}


# ── what blocking says ────────────────────────────────────────────────────────────────────────


def test_what_is_lost_is_what_a_pass_with_the_source_hidden_lacks() -> None:
    loaded = loaded_of(small("llama"))
    found = loaded.see(TEXT).sources(ANSWER, OF, check=2, draws=3)
    before = log_probabilities(loaded, [])
    own_tokens, positions = ([1, 2], [3, 4, 5, 6]), ([9, 10], [11, 12])
    for sentence, at in zip(found.sentences, positions, strict=True):
        rows = [position - 1 for position in at]
        assert sentence.log_probability == pytest.approx(float(before[rows].sum()), rel=1e-5)
        assert [each.source for each in sentence.blocked] == sorted(
            (0, 1), key=lambda n: -sentence.shares[n]
        )
        for each in sentence.blocked:
            own_, others = own_tokens[each.source], own_tokens[1 - each.source]
            lost = before - log_probabilities(loaded, own_)
            assert each.lost == pytest.approx(float(lost[rows].sum()), rel=1e-4, abs=1e-5)
            pairs = pieces_of(own_, others, 3, seed=each.source)
            apart = []
            for inside, outside in pairs:
                a, b = (before - log_probabilities(loaded, some) for some in (inside, outside))
                apart.append(float((a - b)[rows].sum()))
            mean = sum(apart) / len(apart)
            assert each.inside - each.outside == pytest.approx(mean, rel=1e-3, abs=1e-5)
            assert each.low <= mean <= each.high
            assert each.draws == len(pairs)


def test_pieces_have_as_many_tokens_here_as_elsewhere() -> None:
    for n, m in ((3, 11), (11, 11), (11, 3), (5, 1), (1, 2)):
        own_, others = range(n), range(100, 100 + m)
        pairs = pieces_of(own_, others, 7, seed=5)
        assert len(pairs) == min(7, m)
        for inside, outside in pairs:
            assert len(inside) == len(outside) == len({*inside}) == len({*outside})
            assert {*inside} <= {*own_}
            assert {*outside} <= {*others}
        assert len({tuple(outside) for _, outside in pairs}) == len(pairs)
        if 2 * m >= 3 * n:
            assert all(inside == [*own_] for inside, _ in pairs)
    assert pieces_of([1, 2], [], 7, seed=5) == []


def test_a_source_is_a_cause_only_if_it_moves_the_answer_more_than_others() -> None:
    def verdict(lost: float, low: float, high: float, draws: int = 8) -> str:
        return Blocked(0, lost, 5, draws, lost, 0.0, low, high).verdict

    assert verdict(2.0, 0.5, 3.0) == "cause"
    assert verdict(2.0, -0.5, 3.0) == "elsewhere"
    assert verdict(0.09, 0.05, 0.1) == "little"
    assert verdict(-3.0, 0.5, 1.0) == "little"
    assert verdict(2.0, 0.0, 0.0, draws=1) == "alone"


def test_a_source_without_others_is_alone() -> None:
    found = loaded_of(small("llama")).see(TEXT).sources(ANSWER, {"one": (0, 13)})
    for sentence in found.sentences:
        assert sentence.shares == [1.0]
        assert sentence.blocked[0].verdict == "alone"
        assert math.isfinite(sentence.blocked[0].lost)


def test_the_model_of_a_run_without_a_head_is_asked_without_it() -> None:
    loaded = loaded_of(small("llama"))
    whole = loaded.see(TEXT).sources(ANSWER, OF, check=0)
    without = loaded.see(TEXT, ablate={0: [1]}).sources(ANSWER, OF, check=0)
    assert whole.sentences[0].log_probability != without.sentences[0].log_probability


# ── documents and a question ──────────────────────────────────────────────────────────────────


def test_documents_are_the_sources_of_what_a_model_writes() -> None:
    llama: Any = loaded_of(small("llama"))
    of_own: Any = own(head_bias=True)
    unlikely = torch.tensor([0.0] * 4 + [1.0] * 5 + [0.0] * 2).log()  # all that is no word
    llama.model.lm_head.register_forward_hook(lambda _, __, logits: logits + unlikely)
    with torch.no_grad():
        of_own.model.model.head.bias += unlikely.clamp(min=-1e4)
    for loaded in (llama, of_own):
        documents = {"a": "love phones", "b": "apple ."}
        found = answer_sources(loaded, documents, "i ?", tokens=2, check=0)
        text = "love phones\n\napple .\n\nQuestion: i ?\nAnswer: "
        assert found.text.startswith(text)
        assert [(each.name, each.tokens) for each in found.sources] == [("a", 1), ("b", 2)]
        ids = loaded.inputs(text)["input_ids"]
        with torch.no_grad():
            output = loaded.model(input_ids=ids)
        logits = output if isinstance(output, Tensor) else output.logits
        tokenizer: Any = loaded.tokenizer
        first = tokenizer.decode([int(logits[0, -1].argmax())])
        assert found.text[slice(*found.answer)].startswith(first.strip())
        given = answer_sources(loaded, documents, "i ?", "love .", check=0)
        assert given.text == f"{text}love ."


def test_one_document_is_cut_into_paragraphs() -> None:
    loaded = loaded_of(small("llama"))
    found = answer_sources(loaded, {"a": "love phones\n\napple ."}, "i", "love", check=0)
    assert [each.name for each in found.sources] == ["paragraph 1", "paragraph 2"]


# ── what is refused, before the model runs ────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (("no such",), "answer must stand in the text of the run; got 'no such', which does not"),
        (("",), "answer must stand in the text"),
        ((5,), r"answer must be a text, or \(start, end\) in characters; got 5"),
        (((3, 99),), "answer's end must be from 3 to 59; got 99"),
        (("i love",), r"answer must have tokens, and something before them; got 'i love'"),
        ((ANSWER, LABELS[:-2]), r"spans must have one label a token, \(13,\); got \(11,\)"),
        ((ANSWER, [0.5] * 13), "spans must be .* or one label a token"),
        ((ANSWER, "ab"), "spans must be .* or one label a token"),
        ((ANSWER, [-1] * 13), "spans must have labels from 0 on"),
        ((ANSWER, [*LABELS[:-1], 1]), "spans must stand before the answer, .* got 'span 1'"),
        ((ANSWER, {"a": (0, 99)}), "the end of 'a' must be from 0 to 59; got 99"),
        ((ANSWER, {"a": (0, 13), "b": (9, 20)}), "spans must not overlap; got 'b', 9 to 20"),
        ((ANSWER, {"a": (0, 59)}), "spans must stand before the answer"),
        ((ANSWER, {"a": 3}), "spans must be {name"),
        ((ANSWER, {"a": (0, 1)}), "each span must have a token, .* got 'a', which has none"),
        ((ANSWER, {}), "spans must have a source"),
    ],
)
def test_what_is_asked_must_be_in_the_text(given: Any, said: str) -> None:
    run = loaded_of(small("llama")).see(TEXT)
    assert run.again is not None
    run.again.args[0].model.forward = None
    with pytest.raises((ValueError, TypeError), match=rf"^sources\(\): ({said})"):
        run.sources(*given)
    with pytest.raises(ValueError, match="question must stand in the text before the answer"):
        run.sources(ANSWER, question="love .")
    with pytest.raises(ValueError, match="by must be 'weights' or 'contribution'; got 'heads'"):
        run.sources(ANSWER, OF, by="heads")  # pyright: ignore[reportArgumentType]


def test_models_that_do_not_predict_the_next_token_are_refused_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from helpers.hugging_face_models import made, marian

    save_bert(tmp_path / "vectors")
    save_masked(tmp_path / "masked")
    writer = made(MarianMTModel(marian(vocab_size=11, max_position_embeddings=13)))
    save(writer, tmp_path / "writer")
    text = "i love\n\napple phones"
    refused = {
        "BertModel, which gives vectors": load(tmp_path / "vectors"),
        "BertForMaskedLM, whose tokens see those behind them": load(tmp_path / "masked"),
        "MarianMTModel, which reads one text and writes another": load(tmp_path / "writer"),
    }
    for said, loaded in refused.items():
        run = loaded.see(text)
        with monkeypatch.context() as patch:
            patch.setattr(type(loaded.model), "forward", None)
            with pytest.raises(ValueError, match=rf"^sources\(\): .*; got {said}"):
                run.sources("phones")
            with pytest.raises(ValueError, match=rf"^sources\(\): .*; got {said}"):
                answer_sources(loaded, {"a": "i"}, "love", "apple")


def test_documents_must_have_words_and_leave_room_for_an_answer() -> None:
    loaded = loaded_of(small("llama"))
    for given, said in (
        (({}, "i"), "documents must each have a word; got none"),
        (({"a": " "}, "i"), "documents must each have a word; got 'a', which is empty"),
        (({"a": "i"}, " "), "question must have a word"),
        (({"a": "i"}, "i", " "), "answer must have a word"),
        (({"a": "love " * 9}, "i"), "must leave room for an answer in the 13 tokens"),
        (({"a": "love " * 9}, "i", "love"), "at most the 13 tokens that small has positions for"),
    ):
        with pytest.raises(ValueError, match=rf"^sources\(\): .*{said}"):
            answer_sources(loaded, *given)  # pyright: ignore[reportArgumentType]


def test_a_run_from_a_disk_needs_its_model(tmp_path: Path) -> None:
    torch.manual_seed(3)
    save(LlamaForCausalLM(small_llama(initializer_range=0.4)), tmp_path / "model")
    loaded = load(tmp_path / "model")
    run = loaded.see("i love\n\napple phones .\n\nlove ? i .")
    run.save(tmp_path / "run")
    again = regard.load(tmp_path / "run")
    with pytest.raises(ValueError, match=r"run\.sources\(…, model=regard\.models\.load"):
        again.sources("i .")
    assert again.sources("i .", model=loaded).info() == run.sources("i .").info()
