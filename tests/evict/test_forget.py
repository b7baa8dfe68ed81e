"""Forgetting: what is left is what was there, positions go on, and nothing is lost unasked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from helpers.watch_models import build
from torch import Tensor
from transformers import DynamicCache

import regard
from regard.evict import POLICIES, Full, Policy, SinkAndWindow, SlidingWindow, forget
from regard.nn import ALiBi, LanguageModel, LanguageModelConfig, Rotary

N, NEW = 13, 7
SEE = regard.See(received=True)


@pytest.fixture(autouse=True)
def _without_gradients() -> Any:
    with torch.no_grad():
        yield


def tokens(count: int) -> Tensor:
    return torch.randint(2, 59, (1, count), generator=torch.Generator().manual_seed(5))


def own(**options: Any) -> LanguageModel:
    torch.manual_seed(7)
    given: dict[str, Any] = {"position": Rotary(), "layers": 2, **options}
    config = LanguageModelConfig(vocabulary=59, width=24, heads=6, kv_heads=2, **given)
    return LanguageModel(config).eval()


def read(model: Any, ids: Tensor) -> tuple[Any, regard.Run]:
    """A cache with the tokens, and what was seen of them."""
    is_own = isinstance(model, LanguageModel)
    cache = model.new_cache(len(ids)) if is_own else DynamicCache(config=model.config)
    with regard.watch(model, SEE, keep=("q", "k")) as run:
        go_on(model, cache, ids)
    return cache, run


def go_on(model: Any, cache: Any, ids: Tensor) -> Tensor:
    if isinstance(model, LanguageModel):
        return model(ids, cache=cache)
    return model(input_ids=ids, past_key_values=cache, use_cache=True).logits


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
@pytest.mark.parametrize("make", [own, lambda: build("llama")], ids=["own", "llama"])
def test_who_keeps_all_has_the_very_bits(make: Any, policy: Policy) -> None:
    model, ids = make(), tokens(N + NEW)
    cache, _ = read(model, ids[:, :N])
    expected = go_on(model, cache, ids[:, N:])
    cache, run = read(model, ids[:, :N])
    forget(cache, policy, 1.0, run)
    assert torch.equal(go_on(model, cache, ids[:, N:]), expected)


@pytest.mark.parametrize("steps", [1, NEW])
@pytest.mark.parametrize("make", [own, lambda: build("llama")], ids=["own", "llama"])
def test_positions_go_on_from_the_true_length(make: Any, steps: int) -> None:
    """A window over the last keys is what the same model says whose mask hides the others."""
    model, ids = make(), tokens(N + NEW)
    cache, _ = read(model, ids[:, :N])
    forget(cache, SinkAndWindow(sinks=2), 5 / N)
    found = [go_on(model, cache, some) for some in ids[:, N:].split(steps, 1)]
    hidden = [key for key in range(N) if 2 <= key < N - 3]
    links = [(None, None, query, key) for query in range(N, N + NEW) for key in hidden]
    layers = 2 if isinstance(model, LanguageModel) else model.config.num_hidden_layers
    blocked = [(layer, *link[1:]) for layer in range(layers) for link in links]
    with regard.watch(model, regard.See(), block=blocked):
        whole = model(ids) if isinstance(model, LanguageModel) else model(input_ids=ids).logits
    torch.testing.assert_close(torch.cat(found, 1), whole[:, N:], rtol=1e-4, atol=1e-5)


def test_the_two_caches_forget_alike() -> None:
    theirs = build("llama")
    ours = regard.nn.from_hugging_face(theirs)
    ids = tokens(N + NEW)
    for policy in POLICIES[1:]:
        made: list[Tensor] = []
        for model in (theirs, ours):
            cache, run = read(model, ids[:, :N])
            run.layers = {str(n): replace(x, name="") for n, x in enumerate(run.layers.values())}
            forget(cache, policy, 0.4, run)
            made.append(go_on(model, cache, ids[:, N:]))
        torch.testing.assert_close(made[0], made[1], rtol=1e-4, atol=1e-5)


def test_generation_goes_on_with_what_is_left() -> None:
    model, ids = build("llama"), tokens(N)
    cache, run = read(model, ids[:, :-1])
    forget(cache, POLICIES[2], 0.5, run)
    assert cache.get_seq_length() == N - 1
    assert cache.layers[0].keys.shape[2] == 6
    made = model.generate(
        ids, past_key_values=cache, max_new_tokens=NEW, min_new_tokens=NEW, do_sample=False
    )
    assert made.shape == (1, N + NEW)
    assert cache.get_seq_length() == N + NEW - 1
    again, run = read(model, ids[:, :-1])
    forget(again, POLICIES[2], 0.5, run)
    for n in range(NEW):
        logits = go_on(model, again, made[:, N - 1 + n : N + n])
        assert int(logits[0, -1].argmax()) == int(made[0, N + n])


def test_it_can_forget_again() -> None:
    model, ids = own(), tokens(N + NEW)
    cache, _ = read(model, ids[:, :N])
    forget(cache, SlidingWindow(), 5 / N)
    go_on(model, cache, ids[:, N:])
    forget(cache, SlidingWindow(), 0.5)
    assert (cache.length, cache.layers[1].n_kept) == (N + NEW, 6)


class Odd:
    """No cache at all."""


def test_what_cannot_be_forgotten_is_refused_and_left_as_it_was() -> None:
    model, ids = own(), tokens(N)
    cache, _ = read(model, ids)
    for keep in (0, 1.5, -1, float("nan")):
        with pytest.raises(ValueError, match=r"forget\(\): keep must be"):
            forget(cache, SlidingWindow(), keep)
    with pytest.raises(TypeError, match=r"forget\(\): policy must be one of regard.evict"):
        forget(cache, "window", 0.5)  # pyright: ignore[reportArgumentType]
    with pytest.raises(TypeError, match="transformers' DynamicCache; got Odd"):
        forget(Odd(), Full(), 0.5)  # pyright: ignore[reportArgumentType]
    with pytest.raises(ValueError, match=r"run must be what was seen of the prefix.* got None"):
        forget(cache, POLICIES[1], 0.5)
    with pytest.raises(ValueError, match=r"run must be of what the cache holds"):
        forget(cache, POLICIES[1], 0.5, read(model, ids[:, :5])[1])
    with pytest.raises(ValueError, match="got an empty one"):
        forget(model.new_cache(1), SlidingWindow(), 0.5)
    with pytest.raises(ValueError, match="cache must have no window; got one of 5"):
        forget(model.new_cache(1, window=5), SlidingWindow(), 0.5)
    with pytest.raises(ValueError, match="DynamicSlidingWindowLayer"):
        forget(read(build("gemma2"), ids)[0], SlidingWindow(), 0.5)
    assert (cache.length, cache.layers[0].n_kept, cache.forgets) == (N, N, False)


def test_padding_is_refused() -> None:
    model = own()
    cache, mask = model.new_cache(2), torch.ones(2, N, dtype=torch.bool)
    mask[1, :3] = False
    model(tokens(N).expand(2, -1), mask=mask, cache=cache)
    with pytest.raises(ValueError, match="sequences without padding"):
        forget(cache, SlidingWindow(), 0.5)


def test_positions_that_are_counted_in_keys_are_refused() -> None:
    model = own(position=ALiBi())
    cache, _ = read(model, tokens(N))
    forget(cache, SlidingWindow(), 0.5)
    with pytest.raises(ValueError, match="must hold every key for ALiBi, which counts them"):
        go_on(model, cache, tokens(1))
