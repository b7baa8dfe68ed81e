"""`generate` and `stream`: greedy tokens, stopping, unequal prompts, modes, encoder and decoder."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch
from helpers.varied_models import language_model, transformer
from torch import Tensor

from regard.nn import (
    ALiBi,
    Generated,
    LanguageModel,
    Learned,
    NoPosition,
    Position,
    RelativeBias,
    Rotary,
    Sinusoidal,
    Transformer,
    generate,
    stream,
)

POSITIONS = [NoPosition(), Sinusoidal(), Learned(29), Rotary(), ALiBi(), RelativeBias()]
PROMPTS = [[3, 1, 4, 1, 5], [9, 2], [6, 5, 3, 5, 8, 9, 7], [9]]


def recomputed(
    model: LanguageModel, prompt: list[int], count: int
) -> tuple[list[int], list[float]]:
    """The most probable tokens, the whole text computed again for each of them."""
    ids, scores = list(prompt), []
    with torch.no_grad():
        for _ in range(count):
            found = model(torch.tensor([ids]))[0, -1].log_softmax(-1)
            ids.append(int(found.argmax()))
            scores.append(float(found.max()))
    return ids[len(prompt) :], scores


def assert_alike(found: Generated, expected: list[Generated]) -> None:
    """Each sequence of `found` is what one of `expected` says."""
    assert found.tokens == [one.tokens[0] for one in expected]
    assert found.stopped == [one.stopped[0] for one in expected]
    for scores, one in zip(found.scores, expected, strict=True):
        assert scores == pytest.approx(one.scores[0], rel=1e-11, abs=1e-11)


@pytest.mark.parametrize("position", POSITIONS, ids=repr)
@pytest.mark.parametrize("window", [None, 3])
def test_greedy_is_the_most_probable_token_of_the_whole_text_each_time(
    position: Position, window: int | None
) -> None:
    model = language_model(position, window=window)
    tokens, scores = recomputed(model, PROMPTS[0], 11)
    found = generate(model, PROMPTS[0], max_new_tokens=11)
    assert found.tokens == [tokens]
    assert found.scores[0] == pytest.approx(scores, rel=1e-11)
    assert found.totals == [pytest.approx(sum(scores))]
    assert len(set(tokens)) > 1


@pytest.mark.parametrize("position", POSITIONS, ids=repr)
def test_unequal_prompts_give_what_each_gives_alone(position: Position) -> None:
    model = language_model(position)
    alone = [generate(model, prompt, max_new_tokens=11) for prompt in PROMPTS]
    assert_alike(generate(model, PROMPTS, max_new_tokens=11), alone)


@pytest.mark.parametrize("window", [1, 3])
def test_a_window_that_is_asked_for_is_as_if_it_were_the_models_own(window: int) -> None:
    with_window, without = language_model(window=window), language_model()
    expected = generate(with_window, PROMPTS, max_new_tokens=7)
    found = generate(without, PROMPTS, max_new_tokens=7, window=window)
    assert found == expected
    assert found != generate(without, PROMPTS, max_new_tokens=7)


def test_float32_and_bfloat16_run() -> None:
    model = language_model().float()
    alone = [generate(model, prompt, max_new_tokens=5).tokens[0] for prompt in PROMPTS]
    assert generate(model, PROMPTS, max_new_tokens=5).tokens == alone
    found = generate(model.bfloat16(), PROMPTS, max_new_tokens=5)
    assert all(len(tokens) == 5 for tokens in found.tokens)
    assert all(score <= 0.0 for scores in found.scores for score in scores)


@pytest.mark.parametrize(
    "prompts",
    [torch.tensor([3, 1, 4]), [3, 1, 4], (3, 1, 4), torch.tensor([[3, 1, 4]]), [[3, 1, 4]]],
    ids=repr,
)
def test_prompts_come_in_any_form(prompts: Any) -> None:
    model = language_model()
    assert generate(model, prompts, max_new_tokens=2) == generate(
        model, [torch.tensor([3, 1, 4], dtype=torch.int32)], max_new_tokens=2
    )


def test_a_sequence_ends_with_its_stop_token_and_the_others_go_on() -> None:
    model = language_model()
    free = generate(model, PROMPTS, max_new_tokens=11)
    stop = {free.tokens[0][3], free.tokens[2][5]}
    found = generate(model, PROMPTS, max_new_tokens=11, stop=stop)
    for tokens, long, stopped in zip(found.tokens, free.tokens, found.stopped, strict=True):
        ends = [n for n, token in enumerate(long) if token in stop]
        assert tokens == (long[: ends[0] + 1] if ends else long)
        assert stopped == bool(ends)
    assert len({len(tokens) for tokens in found.tokens}) > 1
    assert_alike(
        found, [generate(model, prompt, max_new_tokens=11, stop=stop) for prompt in PROMPTS]
    )


def test_it_ends_as_soon_as_all_have_stopped() -> None:
    model, passes = language_model(), []
    model.register_forward_hook(lambda *_: passes.append(1))
    found = generate(model, PROMPTS, max_new_tokens=11, stop=range(13))
    assert [len(tokens) for tokens in found.tokens] == [1] * len(PROMPTS)
    assert found.stopped == [True] * len(PROMPTS)
    assert len(passes) == 1


def test_the_prompt_is_read_in_one_pass_and_each_token_once() -> None:
    model, read = language_model(), []
    model.embedding.register_forward_hook(lambda _, given, __: read.append(given[0].shape[1]))
    generate(model, PROMPTS[0], max_new_tokens=5)
    assert read == [5, 1, 1, 1, 1]


def test_a_banned_token_is_never_said() -> None:
    model = language_model(head_bias=True)
    torch.nn.init.zeros_(model.head.bias)
    first = generate(model, PROMPTS[0], max_new_tokens=7).tokens[0]
    with torch.no_grad():
        model.head.bias[first[0]] = -math.inf
    choices: list[dict[str, Any]] = [{}, {"beams": 3}, {"temperature": 9.0, "seed": 1}]
    for options in choices:
        found = generate(model, PROMPTS[0], max_new_tokens=7, **options)
        assert first[0] not in found.tokens[0]
        assert all(map(math.isfinite, found.scores[0]))


def test_streaming_is_generating() -> None:
    model = language_model()
    options: dict[str, Any] = {"max_new_tokens": 7, "stop": [2, 3], "temperature": 1.5, "seed": 23}
    expected = generate(model, PROMPTS, **options)
    found: list[list[int]] = [[] for _ in PROMPTS]
    for sequence, token in stream(model, PROMPTS, **options):
        found[sequence].append(token)
    assert found == expected.tokens
    assert list(stream(model, PROMPTS[0], **options)) == expected.tokens[0]
    assert list(model.stream(torch.tensor(PROMPTS[0]), **options)) == expected.tokens[0]
    assert model.generate(PROMPTS, **options) == expected


def test_a_token_is_streamed_before_the_next_is_computed() -> None:
    model, passes = language_model(), []
    model.register_forward_hook(lambda *_: passes.append(1))
    tokens = stream(model, PROMPTS[0], max_new_tokens=7)
    assert not passes
    for n in range(1, 4):
        next(tokens)
        assert len(passes) == n
    assert isinstance(tokens, Iterator)
    tokens.close()  # pyright: ignore[reportAttributeAccessIssue]
    assert next(tokens, None) is None


@pytest.mark.parametrize("of", [torch.tensor, np.array])
def test_stop_tokens_may_be_an_array_of_one_or_several(of: Any) -> None:
    model = language_model()
    first = generate(model, PROMPTS, max_new_tokens=11)
    several = [first.tokens[0][2], first.tokens[2][1]]
    for stop in (several[0], several):
        found = generate(model, PROMPTS, max_new_tokens=11, stop=of(stop))
        assert found == generate(model, PROMPTS, max_new_tokens=11, stop=stop)
        assert found != first


def modes(model: torch.nn.Module) -> list[bool]:
    return [module.training for module in model.modules()]


def test_dropout_is_off_and_every_module_keeps_its_mode() -> None:
    model = language_model(dropout=0.5)
    expected = generate(model, PROMPTS, max_new_tokens=5)
    model.train()
    model.decoder.layers[1].eval()
    before = modes(model)
    assert generate(model, PROMPTS, max_new_tokens=5) == expected
    assert modes(model) == before
    generate(model, PROMPTS, max_new_tokens=5, beams=2)
    assert modes(model) == before
    tokens = stream(model, PROMPTS[0], max_new_tokens=5)
    for token, same in zip(tokens, expected.tokens[0], strict=True):
        assert token == same
        assert modes(model) == before
        assert torch.is_grad_enabled()
        assert not torch.is_inference_mode_enabled()


def test_a_mode_that_is_set_between_two_tokens_stays() -> None:
    model = language_model(dropout=0.5)
    expected = generate(model, PROMPTS[0], max_new_tokens=5).tokens[0]
    tokens, found = stream(model.train(), PROMPTS[0], max_new_tokens=5), []
    for n, token in enumerate(tokens):
        found.append(token)
        assert modes(model) == [n % 2 == 0] * len(modes(model))
        model.train(n % 2 == 1)
    assert found == expected


def test_an_interruption_leaves_the_mode_as_it_was() -> None:
    model = language_model().train()
    before, passes = modes(model), []

    def interrupt(*_: object) -> None:
        passes.append(1)
        if len(passes) % 3 == 0:
            raise KeyboardInterrupt

    model.decoder.layers[1].register_forward_hook(interrupt)
    for beams in (1, 2):
        with pytest.raises(KeyboardInterrupt):
            generate(model, PROMPTS, max_new_tokens=7, beams=beams)
        assert modes(model) == before
    with pytest.raises(KeyboardInterrupt):
        list(stream(model, PROMPTS, max_new_tokens=7))
    assert modes(model) == before
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("position", POSITIONS, ids=repr)
def test_a_model_can_be_trained_after_it_has_generated(position: Position) -> None:
    model = language_model(position)
    generate(model, PROMPTS, max_new_tokens=3)
    model(torch.tensor([PROMPTS[0]])).sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


# ── encoder and decoder ───────────────────────────────────────────────────────────────────────


def translated(model: Transformer, source: list[int], start: list[int], count: int) -> list[int]:
    target = list(start)
    with torch.no_grad():
        for _ in range(count):
            logits: Tensor = model(torch.tensor([source]), torch.tensor([target]))
            target.append(int(logits[0, -1].argmax()))
    return target[len(start) :]


@pytest.mark.parametrize("position", POSITIONS, ids=repr)
def test_a_transformer_generates_from_sources_of_unequal_lengths(position: Position) -> None:
    model = transformer(position)
    found = generate(model, PROMPTS, start=1, max_new_tokens=7)
    assert found.tokens == [translated(model, source, [1], 7) for source in PROMPTS]
    starts = [[1], [1, 2, 3], [5, 4], [2]]
    found = model.generate(PROMPTS, start=starts, max_new_tokens=7, stop=3)
    alone = [
        generate(model, source, start=start, max_new_tokens=7, stop=3)
        for source, start in zip(PROMPTS, starts, strict=True)
    ]
    assert_alike(found, alone)
    long = [translated(model, *pair, 7) for pair in zip(PROMPTS, starts, strict=True)]
    assert found.tokens == [row[: row.index(3) + 1] if 3 in row else row for row in long]
    shared = generate(model, PROMPTS, start=[1, 2], max_new_tokens=3)
    assert shared.tokens == [translated(model, source, [1, 2], 3) for source in PROMPTS]


def test_a_transformer_streams_and_searches() -> None:
    model = transformer()
    expected = generate(model, PROMPTS[0], start=1, max_new_tokens=7)
    assert list(model.stream(PROMPTS[0], start=1, max_new_tokens=7)) == expected.tokens[0]
    options: dict[str, Any] = {"start": 1, "max_new_tokens": 5, "beams": 3, "stop": [2, 7]}
    alone = [generate(model, source, **options) for source in PROMPTS]
    assert_alike(generate(model, PROMPTS, **options), alone)


def test_a_transformer_takes_its_source_by_name() -> None:
    model = transformer()
    expected = model.generate(PROMPTS[0], start=1, max_new_tokens=5)
    assert model.generate(source=PROMPTS[0], start=1, max_new_tokens=5) == expected
    assert list(model.stream(source=PROMPTS[0], start=1, max_new_tokens=5)) == expected.tokens[0]
