"""Float32 without gradients, as it is used: the cache and generation on the native kernels."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from torch import Tensor

from regard._linear import MOST_ROWS
from regard.nn import (
    ALiBi,
    Cache,
    LanguageModel,
    LanguageModelConfig,
    Learned,
    NoPosition,
    Position,
    RelativeBias,
    Rotary,
    Sinusoidal,
    generate,
)

POSITIONS = [
    NoPosition(),
    Sinusoidal(),
    Sinusoidal(layout="halves"),
    Learned(37),
    Rotary(),
    Rotary(pairing="neighbours", width=2),
    ALiBi(),
    RelativeBias(buckets=4, distance=7),
]
VOCABULARY, HEADS = 13, 3
MANY = MOST_ROWS + 1  # sequences: one token of each is more rows than the native linear map takes

every_model = pytest.mark.parametrize(
    ("position", "window", "kv_heads"), [*product(POSITIONS, [None, 1, 3], [1, HEADS])], ids=repr
)


def language_model(position: Position, window: int | None, kv_heads: int) -> LanguageModel:
    """A model of float32 whose tokens depend on those before them."""
    torch.manual_seed(7)
    config = LanguageModelConfig(
        vocabulary=VOCABULARY,
        width=12,
        heads=HEADS,
        kv_heads=kv_heads,
        layers=2,
        hidden=17,
        position=position,
        window=window,
        tied=False,
    )
    model = LanguageModel(config).eval()
    for name, parameter in model.named_parameters():  # biases of distances begin as 0
        if "norm" not in name:  # greater matrices in the layers enlarge what rounding does
            torch.nn.init.normal_(parameter, std=0.3 if "layers" in name else 1.5)
    with torch.no_grad():  # a token tends to be followed by the next one, not by itself
        model.head.weight.copy_(0.3 * model.embedding.tokens.weight.roll(1, 0))
    assert next(model.parameters()).dtype == torch.float32
    return model


def some_ids(batch: int, tokens: int) -> Tensor:
    return torch.randint(VOCABULARY, (batch, tokens), generator=torch.Generator().manual_seed(3))


def assert_same(found: Tensor, expected: Tensor) -> None:
    assert found.dtype == torch.float32
    torch.testing.assert_close(found, expected, rtol=0.0, atol=1e-5)


def in_chunks(model: LanguageModel, ids: Tensor, cache: Cache, sizes: list[int]) -> Tensor:
    return torch.cat([model(part, cache=cache) for part in ids.split(sizes, 1)], 1)


@every_model
@torch.no_grad()
def test_cached_in_chunks_equals_recomputed(
    position: Position, window: int | None, kv_heads: int
) -> None:
    model = language_model(position, window, kv_heads)
    for batch, sizes in ((2, [11, 1, 1, 5, 1]), (1, [1] * 5 + [7, 7]), (MANY, [2, 1, 3, 1])):
        ids = some_ids(batch, sum(sizes))
        found = in_chunks(model, ids, model.new_cache(batch), sizes)
        assert_same(found, model(ids))


@every_model
@torch.no_grad()
def test_left_padded_in_chunks_equals_unpadded(
    position: Position, window: int | None, kv_heads: int
) -> None:
    model = language_model(position, window, kv_heads)
    for batch in (3, MANY):
        padding = [(0, 2, 6)[n % 3] for n in range(batch)]
        ids, after = some_ids(batch, 7), some_ids(batch, 5)
        cache = model.new_cache(batch)
        found = [model(ids, mask=torch.arange(7) >= torch.tensor(padding)[:, None], cache=cache)]
        together = torch.cat([*found, in_chunks(model, after, cache, [1, 3, 1])], 1)
        for n, before in list(enumerate(padding))[-3:]:
            alone = model(torch.cat([ids[n, before:], after[n]])[None])[0]
            assert_same(together[n, before:], alone)


@torch.no_grad()
def recomputed(model: LanguageModel, prompt: list[int], count: int) -> tuple[list[int], Tensor]:
    """The most probable tokens and their log p, the whole text computed again for each of them."""
    ids, scores = list(prompt), []
    for _ in range(count):
        best = model(torch.tensor([ids]))[0, -1].log_softmax(-1).topk(2)
        assert best.values[0] - best.values[1] > 1e-4  # rounding cannot change which is the first
        ids.append(int(best.indices[0]))
        scores.append(best.values[0])
    return ids[len(prompt) :], torch.stack(scores)


@every_model
def test_greedy_is_the_most_probable_token_of_the_whole_text_each_time(
    position: Position, window: int | None, kv_heads: int
) -> None:
    model = language_model(position, window, kv_heads)
    prompts = [[3, 1, 4, 1, 5], [9, 2], [6]]
    expected = [recomputed(model, prompt, 7) for prompt in prompts]
    options: dict[str, Any] = {"max_new_tokens": 7}
    for copies in (1, 6):  # of 3 prompts: 18 are more rows than the native linear map takes
        found = generate(model, prompts * copies, **options)
        assert found.tokens == [tokens for tokens, _ in expected] * copies
        for scores, (_, known) in zip(found.scores, expected * copies, strict=True):
            assert_same(torch.tensor(scores), known)
    for prompt, (tokens, _) in zip(prompts, expected, strict=True):
        assert generate(model, prompt, **options).tokens == [tokens]
