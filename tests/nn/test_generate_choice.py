"""Which token comes next: top-k, top-p and beams by their definitions; seeds that repeat."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
import torch
from helpers.varied_models import language_model
from hypothesis import example, given, settings
from hypothesis import strategies as st

from regard.nn import LanguageModel, generate
from regard.nn.generation.decoding import beam_search, draw, kept
from regard.nn.generation.feed import Feed
from regard.nn.generation.inputs import Options

PROMPTS = [[1, 2, 0, 2], [2], [0, 1]]


# ── top-k and top-p ───────────────────────────────────────────────────────────────────────────


def kept_by_definition(
    logits: list[float], temperature: float, top_k: int | None, top_p: float | None
) -> list[int]:
    """The tokens by falling logit, then rising id; the first k; the fewest that hold p of those."""
    tokens = sorted(range(len(logits)), key=lambda token: (-logits[token], token))[:top_k]
    values = np.array([logits[token] for token in tokens]) / temperature
    shares = np.exp(values - values.max())
    for count in range(1, len(tokens) + 1):
        if top_p is not None and shares[:count].sum() >= top_p * shares.sum():
            return tokens[:count]
    return tokens


@given(
    logits=st.lists(st.integers(-3, 3), min_size=1, max_size=13),  # few values: many ties
    temperature=st.sampled_from([0.5, 1.0, 3.0]),
    top_k=st.none() | st.integers(1, 17),
    top_p=st.none() | st.floats(0.01, 1.0),
)
@settings(max_examples=150, deadline=None)
def test_what_is_kept_is_what_the_definition_says(
    logits: list[int], temperature: float, top_k: int | None, top_p: float | None
) -> None:
    numbers = [float(x) for x in logits]
    tokens, shares = kept(torch.tensor(numbers), temperature, top_k, top_p)
    expected = kept_by_definition(numbers, temperature, top_k, top_p)
    assert sorted(tokens.tolist()) == sorted(expected)
    if top_p is not None and top_p < 1.0:
        assert tokens.tolist() == expected
    probabilities = np.exp((np.array(numbers)[tokens] - max(numbers)) / temperature)
    np.testing.assert_allclose(shares.numpy(), probabilities, rtol=1e-12)


@pytest.mark.parametrize(
    ("top_k", "top_p", "expected"),
    [(3, None, [0, 1, 2]), (None, 0.5, [0, 1]), (None, 0.51, [0, 1, 2]), (3, 0.5, [0, 1])],
)
def test_of_equally_probable_tokens_the_first_are_kept(
    top_k: int | None, top_p: float | None, expected: list[int]
) -> None:
    assert kept(torch.zeros(4), 1.0, top_k, top_p)[0].tolist() == expected


def test_top_p_finds_its_tokens_among_very_many() -> None:
    flat = torch.zeros(5003)
    tokens, _ = kept(flat, 1.0, top_p=0.75)
    assert tokens.tolist() == list(range(3753))  # the least n with n / 5003 ≥ 0.75
    assert kept(flat, 1.0, top_k=701)[0].tolist() == list(range(701))
    steep = torch.arange(5003.0)
    assert kept(steep, 1.0, top_p=0.9)[0].tolist() == [5002, 5001, 5000]


def test_a_small_temperature_leaves_the_best_token_and_a_great_one_all() -> None:
    logits = torch.tensor([1.0, 3.0, 2.0])
    assert kept(logits, 1e-300)[1].tolist() == [0.0, 1.0, 0.0]
    assert kept(logits, 1e300)[1].tolist() == [1.0, 1.0, 1.0]


@given(
    shares=st.lists(st.floats(0.0, 1.0), min_size=1, max_size=11).filter(lambda x: max(x) > 1e-9),
    uniform=st.floats(0.0, 1.0, exclude_max=True),
)
@example(shares=[0.0, 1.0, 1.0], uniform=0.0)
@example(shares=[0.5, 0.5, 0.0], uniform=0.5)
@example(shares=[0.1, 0.2, 0.3, 0.0], uniform=float(np.nextafter(1.0, 0.0)))
@settings(max_examples=150, deadline=None)
def test_a_token_is_drawn_where_the_shares_pass_the_uniform_number(
    shares: list[float], uniform: float
) -> None:
    tokens = torch.arange(len(shares)) + 100
    found = draw(tokens, torch.tensor(shares, dtype=torch.float64), uniform) - 100
    upto = np.cumsum(shares)
    assert found == next(n for n, total in enumerate(upto) if total > uniform * upto[-1])
    assert shares[found] > 0.0


def test_tokens_are_drawn_as_often_as_they_are_probable() -> None:
    model = language_model(vocabulary=5)
    with torch.no_grad():
        expected = (model(torch.tensor([PROMPTS[0]]))[0, -1] / 1.5).softmax(-1).numpy()
    found = generate(model, [PROMPTS[0]] * 997, max_new_tokens=1, temperature=1.5, seed=1)
    counts = np.bincount([tokens[0] for tokens in found.tokens], minlength=5)
    spread = np.sqrt(997 * expected * (1 - expected))
    assert (np.abs(counts - 997 * expected) < 5 * spread).all()


# ── seeds ─────────────────────────────────────────────────────────────────────────────────────


def test_a_seed_repeats_and_another_differs() -> None:
    model = language_model(vocabulary=7)
    options: dict[str, Any] = {"max_new_tokens": 17, "temperature": 2.0, "top_p": 0.95}
    first = generate(model, PROMPTS, seed=5, **options)
    assert generate(model, PROMPTS, seed=5, **options) == first
    assert generate(model, PROMPTS, seed=31, **options) != first
    shorter = generate(model, PROMPTS, seed=5, **options | {"max_new_tokens": 5})
    assert shorter.tokens == [tokens[:5] for tokens in first.tokens]


def test_sequence_n_draws_as_it_would_alone_with_seed_plus_n() -> None:
    model = language_model(vocabulary=7)
    options: dict[str, Any] = {"max_new_tokens": 11, "temperature": 2.0, "top_k": 5, "stop": 3}
    found = generate(model, PROMPTS, seed=5, **options)
    for n, prompt in enumerate(PROMPTS):
        alone = generate(model, prompt, seed=5 + n, **options)
        assert found.tokens[n] == alone.tokens[0]
        assert found.scores[n] == pytest.approx(alone.scores[0], rel=1e-11)
    same = generate(model, [PROMPTS[0]] * 3, seed=5, **options)
    assert len(set(map(tuple, same.tokens))) > 1


def test_without_a_seed_that_of_torch_counts_and_with_one_it_is_left_alone() -> None:
    model = language_model(vocabulary=7)
    options: dict[str, Any] = {"max_new_tokens": 11, "temperature": 2.0}
    torch.manual_seed(3)
    first, second = (generate(model, PROMPTS, **options) for _ in range(2))
    torch.manual_seed(3)
    assert generate(model, PROMPTS, **options) == first
    assert second != first
    before = torch.get_rng_state()
    generate(model, PROMPTS, seed=5, **options)
    assert torch.equal(torch.get_rng_state(), before)


def test_scores_are_the_models_own_log_probabilities() -> None:
    model = language_model(vocabulary=7)
    found = generate(model, PROMPTS, max_new_tokens=5, temperature=3.0, top_k=4, seed=1)
    for prompt, tokens, scores in zip(PROMPTS, found.tokens, found.scores, strict=True):
        assert scores == pytest.approx(scored(model, prompt, tokens), rel=1e-11)


def scored(model: LanguageModel, prompt: list[int], tokens: list[int]) -> list[float]:
    with torch.no_grad():
        found = model(torch.tensor([prompt + tokens]))[0].log_softmax(-1)
    places = range(len(prompt) - 1, len(prompt) + len(tokens) - 1)
    return [float(found[place, token]) for place, token in zip(places, tokens, strict=True)]


@pytest.mark.parametrize("options", [{"top_k": 1}, {"top_p": 1e-9}, {"temperature": 1e-30}])
def test_one_token_to_draw_from_is_greedy(options: dict[str, Any]) -> None:
    model = language_model(vocabulary=7)
    greedy = generate(model, PROMPTS, max_new_tokens=11)
    options = {"temperature": 1.0} | options
    found = generate(model, PROMPTS, max_new_tokens=11, **options)
    assert found.tokens == greedy.tokens


def test_a_seed_changes_nothing_where_nothing_is_drawn() -> None:
    model = language_model(vocabulary=7)
    greedy = generate(model, PROMPTS, max_new_tokens=5)
    assert generate(model, PROMPTS, max_new_tokens=5, seed=3) == greedy


# ── beam search ───────────────────────────────────────────────────────────────────────────────


def test_one_beam_is_greedy() -> None:
    model = language_model(vocabulary=7)
    for stop in (frozenset[int](), frozenset([2, 5])):
        options = Options(max_new_tokens=11, stop=stop)
        feed = Feed("generate()", model, PROMPTS)
        with feed.quiet():
            found = beam_search(feed, options)
        assert found == generate(model, PROMPTS, max_new_tokens=11, stop=stop)
        assert found == generate(model, PROMPTS, max_new_tokens=11, stop=stop, beams=1)


def every_sequence(vocabulary: int, length: int, stop: set[int]) -> set[tuple[int, ...]]:
    """All that generation may give: up to the first stop token, or of full length."""
    found: set[tuple[int, ...]] = set()
    for tokens in itertools.product(range(vocabulary), repeat=length):
        ends = [n for n, token in enumerate(tokens) if token in stop]
        found.add(tokens[: ends[0] + 1] if ends else tokens)
    return found


@pytest.mark.parametrize("penalty", [-1.0, 0.0, 0.7, 1.0, 2.0])
@pytest.mark.parametrize("stop", [set[int](), {1}, {0, 2}], ids=str)
def test_beams_enough_for_all_find_the_best_of_all(penalty: float, stop: set[int]) -> None:
    model, vocabulary, length = language_model(vocabulary=3), 3, 4
    found = generate(
        model,
        PROMPTS,
        max_new_tokens=length,
        stop=stop,
        beams=vocabulary**length,
        length_penalty=penalty,
    )
    for n, prompt in enumerate(PROMPTS):
        worth = {
            tokens: sum(scored(model, prompt, list(tokens))) / len(tokens) ** penalty
            for tokens in every_sequence(vocabulary, length, stop)
        }
        best = max(worth, key=lambda tokens: worth[tokens])
        assert tuple(found.tokens[n]) == best
        assert found.totals[n] / len(best) ** penalty == pytest.approx(worth[best], rel=1e-11)
        assert found.stopped[n] == (best[-1] in stop)


def searched(
    model: LanguageModel, prompt: list[int], length: int, stop: set[int], beams: int, penalty: float
) -> list[int]:
    """Beam search as it is defined, each sequence computed anew, and nothing ended early."""

    def worth(tokens: tuple[int, ...]) -> float:
        return sum(scored(model, prompt, list(tokens))) / len(tokens) ** penalty

    kept: list[tuple[int, ...]] = [()]
    for _ in range(length):
        pool = [tokens for tokens in kept if tokens and tokens[-1] in stop]
        for tokens in kept:
            if not tokens or tokens[-1] not in stop:
                pool += [(*tokens, token) for token in range(model.config.vocabulary)]
        kept = sorted(pool, key=worth, reverse=True)[:beams]
    return list(kept[0])


@given(
    beams=st.integers(2, 5),
    penalty=st.sampled_from([-0.5, 0.0, 1.0, 1.7]),
    stop=st.sets(st.integers(0, 4), max_size=2),
    prompt=st.lists(st.integers(0, 4), min_size=1, max_size=3),
)
@settings(max_examples=15, deadline=None)
def test_few_beams_find_what_the_definition_finds(
    beams: int, penalty: float, stop: set[int], prompt: list[int]
) -> None:
    model = language_model(vocabulary=5)
    found = generate(
        model, prompt, max_new_tokens=5, stop=stop, beams=beams, length_penalty=penalty
    )
    assert found.tokens[0] == searched(model, prompt, 5, stop, beams, penalty)
    assert found.scores[0] == pytest.approx(scored(model, prompt, found.tokens[0]), rel=1e-11)


class Scripted:
    """A model of two tokens, 1 stops: how probable that is first, and how probable from then on."""

    count = 1

    def __init__(self, first: float, later: float) -> None:
        self.first, self.later = first, later

    def begin(self) -> tuple[torch.Tensor, torch.Tensor]:
        return self.logits(self.first, 1)

    def next(self, tokens: list[int]) -> tuple[torch.Tensor, torch.Tensor]:
        return self.logits(self.later, len(tokens))

    def select(self, rows: list[int], *, memory: bool) -> None: ...

    def logits(self, stop: float, rows: int) -> tuple[torch.Tensor, torch.Tensor]:
        found = torch.tensor([[1.0 - stop, stop]] * rows, dtype=torch.float64).log()
        return found, found.logsumexp(-1)


@pytest.mark.parametrize(
    ("penalty", "first", "later", "expected"),
    [
        (1.0, 0.9, 1e-9, [0] * 31),  # log 0.1 / 31 > log 0.9, though log 0.1 / 2 is not
        (0.0, 0.9, 1e-9, [1]),
        (-1.0, 0.3, 1.0 - 1e-9, [0, 1]),  # 2 log 0.7 > log 0.3, though 31 log 0.7 is not
    ],
)
def test_a_search_goes_on_as_long_as_it_may_find_better(
    penalty: float, first: float, later: float, expected: list[int]
) -> None:
    feed: Any = Scripted(first, later)
    options = Options(31, stop=frozenset([1]), beams=2, length_penalty=penalty)
    assert beam_search(feed, options).tokens == [expected]


@pytest.mark.parametrize("stop", [None, 2])
def test_beams_of_unequal_prompts_are_those_of_each_alone(stop: int | None) -> None:
    model = language_model(vocabulary=7)
    options: dict[str, Any] = {"max_new_tokens": 7, "beams": 3, "stop": stop}
    found = generate(model, PROMPTS, **options)
    for n, prompt in enumerate(PROMPTS):
        alone = generate(model, prompt, **options)
        assert found.tokens[n] == alone.tokens[0]
        assert found.scores[n] == pytest.approx(alone.scores[0], rel=1e-11)


def test_more_beams_than_tokens_or_sequences_are_fine() -> None:
    model = language_model(vocabulary=3)
    found = generate(model, PROMPTS, max_new_tokens=2, beams=97)
    assert [len(tokens) for tokens in found.tokens] == [2, 2, 2]
