"""A cache: what it remembers is what would be computed again; what is not its own it refuses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from regard.nn import (
    ALiBi,
    Cache,
    Decoder,
    KeyValues,
    LanguageModel,
    LanguageModelConfig,
    Learned,
    MultiHeadAttention,
    NoPosition,
    Position,
    RelativeBias,
    Rotary,
    Sinusoidal,
    StackConfig,
    Transformer,
    TransformerConfig,
)

POSITIONS = [
    NoPosition(),
    Sinusoidal(),
    Sinusoidal(layout="halves"),
    Learned(27),
    Rotary(),
    Rotary(pairing="neighbours", width=2),
    ALiBi(),
    RelativeBias(buckets=4, distance=7),
]
BATCH, TOKENS, VOCABULARY = 2, 19, 13


def assert_same(found: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def language_model(
    position: Position, window: int | None = None, layers: int = 2, kv_heads: int = 3
) -> LanguageModel:
    torch.manual_seed(7)
    config = LanguageModelConfig(
        vocabulary=VOCABULARY,
        width=12,
        heads=3,
        kv_heads=kv_heads,
        layers=layers,
        hidden=17,
        position=position,
        window=window,
    )
    model = LanguageModel(config).double().eval()
    for parameter in model.parameters():  # biases of distances begin as 0
        torch.nn.init.normal_(parameter, std=0.5)
    return model


def some_ids(batch: int = BATCH, tokens: int = TOKENS) -> Tensor:
    return torch.randint(VOCABULARY, (batch, tokens), generator=torch.Generator().manual_seed(3))


def in_chunks(model: LanguageModel, ids: Tensor, cache: Cache, sizes: list[int]) -> Tensor:
    with torch.no_grad():
        return torch.cat([model(part, cache=cache) for part in ids.split(sizes, 1)], 1)


@pytest.mark.parametrize("position", POSITIONS, ids=repr)
@pytest.mark.parametrize("sizes", [[1] * TOKENS, [11, 1, 1, 5, 1]], ids=str)
def test_cached_equals_recomputed(position: Position, sizes: list[int]) -> None:
    model, ids = language_model(position), some_ids()
    found = in_chunks(model, ids, model.new_cache(BATCH), sizes)
    assert_same(found, model(ids).detach())


@pytest.mark.parametrize("position", POSITIONS, ids=repr)
@pytest.mark.parametrize("window", [1, 5, 23])
@pytest.mark.parametrize("sizes", [[1] * TOKENS, [2, 11, 1, 5]], ids=str)
def test_sliding_equals_a_window_recomputed(
    position: Position, window: int, sizes: list[int]
) -> None:
    model, ids = language_model(position, window), some_ids()
    found = in_chunks(model, ids, model.new_cache(BATCH), sizes)
    assert_same(found, model(ids).detach())


@pytest.mark.parametrize("position", [Rotary(), ALiBi()], ids=repr)
@pytest.mark.parametrize("window", [None, 3])
def test_attention_that_stands_alone_goes_on_counting(
    position: Position, window: int | None
) -> None:
    torch.manual_seed(5)
    layer = MultiHeadAttention(6, heads=3, position=position).double()
    x, cache = torch.randn(2, 11, 6, dtype=torch.float64), KeyValues(window)
    sees = None if window is None else (window - 1, None)
    with torch.no_grad():
        whole = layer(x, causal=True, window=sees)
        parts = [
            layer(part, causal=True, window=sees, cache=cache) for part in x.split([2, 1, 5, 3], 1)
        ]
    assert_same(torch.cat(parts, 1), whole)


@given(
    padding=st.lists(st.integers(0, 6), min_size=3, max_size=3),
    sizes=st.lists(st.integers(1, 5), min_size=1, max_size=4),
    window=st.sampled_from([None, 1, 3]),
    position=st.sampled_from(POSITIONS),
)
@settings(max_examples=20, deadline=None)
def test_left_padded_in_chunks_equals_unpadded(
    padding: list[int], sizes: list[int], window: int | None, position: Position
) -> None:
    model, ids = language_model(position, window), some_ids(3, 7)
    real = torch.arange(7) >= torch.tensor(padding)[:, None]
    cache = model.new_cache(3)
    with torch.no_grad():
        found = [model(ids, mask=real, cache=cache)]
        after = some_ids(3, sum(sizes))
        found += [model(part, cache=cache) for part in after.split(sizes, 1)]
        together = torch.cat(found, 1)
        for n, before in enumerate(padding):
            alone = model(torch.cat([ids[n, before:], after[n]])[None])
            assert_same(together[n, before:], alone[0])


def test_a_decoder_by_itself_counts_the_real_tokens() -> None:
    torch.manual_seed(5)
    decoder = Decoder(StackConfig(width=6, heads=3, position=Learned(11)), cross=False).double()
    x = torch.randn(2, 11, 6, dtype=torch.float64)
    real = torch.tensor([[False, False, True, True, True], [True] * 5])
    cache = decoder.new_cache(2)
    with torch.no_grad():
        found = [decoder(x[:, :5], mask=real, cache=cache)]
        found += [decoder(part, cache=cache) for part in x[:, 5:].split([1, 2, 3], 1)]
        together = torch.cat(found, 1)
        assert_same(together[:1, 2:], decoder(x[:1, 2:]))
        assert_same(together[1:], decoder(x[1:]))


def test_padding_in_a_later_chunk_is_no_token() -> None:
    model, ids = language_model(Rotary()), some_ids()
    cache = model.new_cache(BATCH)
    real = torch.tensor([[True, False, True], [True, True, True]])
    with torch.no_grad():
        model(ids[:, :5], cache=cache)
        model(ids[:, 5:8], mask=real, cache=cache)
        found = model(ids[:, 8:], cache=cache)
        kept = torch.cat([ids[:1, :6], ids[:1, 7:]], 1)
        assert_same(found[0], model(kept)[0, 7:])
        assert_same(found[1], model(ids)[1, 8:])
    assert cache.real is not None
    assert cache.real.shape == (BATCH, TOKENS)
    assert cache.real.sum(1).tolist() == [TOKENS - 1, TOKENS]


def test_a_sliding_cache_does_not_grow_and_seldom_moves() -> None:
    cache, one = KeyValues(window=7), torch.zeros(1, 1, 1, 3)
    rooms: set[int] = set()
    moved = 0
    before = -1
    for _ in range(200):
        keys, _ = cache.extend(one, one)
        rooms.add(keys.untyped_storage().nbytes())
        moved += keys.storage_offset() < before
        before = keys.storage_offset()
    assert len(rooms) == 1
    assert moved <= 200 / 7
    assert cache.length == 200
    assert cache.n_kept == 7


def test_rows_that_are_selected_go_on_as_themselves() -> None:
    model, ids = language_model(Rotary()), some_ids(3, 11)
    real = torch.ones(3, 5, dtype=torch.bool)
    real[1, :2] = False
    rows = torch.tensor([2, 1, 1, 0])
    whole, chosen = model.new_cache(3), model.new_cache(3)
    with torch.no_grad():
        for cache in (whole, chosen):
            model(ids[:, :5], mask=real, cache=cache)
        chosen.select(rows)
        expected = model(ids[:, 5:], cache=whole)[rows]
        assert_same(model(ids[rows, 5:], cache=chosen), expected)


def test_the_source_of_a_transformer_is_looked_at_once_and_selected_with_the_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    torch.manual_seed(11)
    model = Transformer(TransformerConfig(vocabulary=VOCABULARY, width=6, heads=3)).double().eval()
    source, target, rows = some_ids(3, 7), some_ids(3, 5), torch.tensor([2, 0])
    cache = model.new_cache(3)
    with torch.no_grad():
        memory = model.encode(source)
        model.decode(target[:, :2], memory, cache=cache)
        cache.select(rows)
        with monkeypatch.context() as patch:  # keys and values are not computed again
            patch.setattr(model.decoder.get_submodule("layers.0.cross.w_k"), "forward", None)
            found = model.decode(target[rows, 2:], memory[rows], cache=cache)
        expected = model(source, target)[rows, 2:]
    assert_same(found, expected)


def of_two(seed: int = 11, **options: Any) -> Transformer:
    torch.manual_seed(seed)
    config = TransformerConfig(vocabulary=VOCABULARY, width=6, heads=3, layers=2, **options)
    return Transformer(config).eval()


both_modes = pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])


@both_modes
def test_another_memory_of_the_same_length_is_refused_and_leaves_the_cache_as_it_was(
    mode: Callable[[], Any],
) -> None:
    model, target = of_two(), some_ids(3, 5)
    cache = model.new_cache(3)
    with mode():
        memory, other = model.encode(some_ids(3, 7)), model.encode(some_ids(3, 7).flip(0))
        expected = model.decode(target, memory)[:, 2:]
        model.decode(target[:, :2], memory, cache=cache)
        for another in (other, other[:, :5], memory.clone().index_fill_(1, torch.tensor(6), 0.5)):
            with pytest.raises(ValueError, match="Decoder: memory must be the one that the cache"):
                model.decode(target[:, 2:], another, cache=cache)
        found = model.decode(target[:, 2:4], memory.clone(), cache=cache)
        last = model.decode(target[:, 4:], memory, cache=cache)
    torch.testing.assert_close(torch.cat([found, last], 1), expected)


@both_modes
def test_a_memory_that_was_written_over_is_refused(mode: Callable[[], Any]) -> None:
    model, target = of_two(), some_ids(3, 5)
    cache = model.new_cache(3)
    with mode():
        memory = model.encode(some_ids(3, 7))
        model.decode(target[:, :2], memory, cache=cache)
        first = memory.clone()
        memory.copy_(model.encode(some_ids(3, 7).flip(0)))
        for given in (memory, first):
            with pytest.raises(ValueError, match="or the same with other numbers written to it"):
                model.decode(target[:, 2:], given, cache=cache)


@both_modes
def test_another_context_of_a_cached_attention_is_refused(mode: Callable[[], Any]) -> None:
    torch.manual_seed(3)
    layer, cache = MultiHeadAttention(6, heads=3, context_width=5).eval(), KeyValues()
    x, context = torch.randn(2, 3, 6), torch.randn(2, 7, 5)
    with mode():
        expected = layer(x, context, cache=cache)
        assert torch.equal(layer(x, context, cache=cache), expected)
        assert torch.equal(layer(x, context.clone(), cache=cache), expected)
        with pytest.raises(ValueError, match="MultiHeadAttention: context must be the one that"):
            layer(x, context + 1, cache=cache)
        context[:, :, 2] = 0.5
        with pytest.raises(ValueError, match="MultiHeadAttention: context must be the one that"):
            layer(x, context, cache=cache)


def test_a_context_with_nan_behind_its_end_is_known_again() -> None:
    torch.manual_seed(3)
    layer, cache = MultiHeadAttention(6, heads=3).eval(), KeyValues()
    x, context, lengths = torch.randn(2, 3, 6), torch.randn(2, 7, 6), torch.tensor([7, 5])
    context[1, 5:] = torch.nan
    with torch.no_grad():
        expected = layer(x, context, lengths=lengths, cache=cache)
        assert torch.equal(layer(x, context.clone(), lengths=lengths, cache=cache), expected)


@both_modes
def test_a_source_that_was_written_over_is_refused(mode: Callable[[], Any]) -> None:
    model, target, source = of_two(), some_ids(3, 5), some_ids(3, 7)
    cache, lengths = model.new_cache(3), torch.tensor([7, 5, 6])
    with mode():
        model(source, target[:, :2], source_lengths=lengths, cache=cache)
        lengths[0] = 3
        with pytest.raises(ValueError, match="source must be the one that the cache"):
            model(source, target[:, 2:], source_lengths=lengths, cache=cache)
        lengths[0] = 7
        model(source, target[:, 2:3], source_lengths=lengths, cache=cache)
        source.copy_(source.flip(0))
        with pytest.raises(ValueError, match="source must be the one that the cache"):
            model(source, target[:, 3:], source_lengths=lengths, cache=cache)


def test_an_encoded_source_and_a_memory_are_not_mixed_in_one_cache() -> None:
    model, target, source = of_two(), some_ids(3, 5), some_ids(3, 7)
    with torch.no_grad():
        cache = model.new_cache(3)
        model(source, target[:, :2], cache=cache)
        model.decode(target[:, 2:3], model.encode(source), cache=cache)
        with pytest.raises(ValueError, match="memory must be the one"):
            model.decode(target[:, 3:], model.encode(source.flip(0)), cache=cache)
        cache = model.new_cache(3)
        model.decode(target[:, :2], model.encode(source), cache=cache)
        with pytest.raises(ValueError, match="memory must be the one"):
            model(source.flip(0), target[:, 2:], cache=cache)
        model(source, target[:, 2:], cache=cache)


def test_a_cache_of_another_batch_is_refused() -> None:
    model = language_model(Rotary())
    with pytest.raises(
        ValueError, match=r"Cache: the tokens must be those of 3 .* got 2\. A cache"
    ):
        model(some_ids(2), cache=model.new_cache(3))


def test_a_cache_of_another_model_is_refused() -> None:
    model, deeper, wider = (
        language_model(Rotary()),
        language_model(Rotary(), layers=3),
        language_model(Rotary(), kv_heads=1),
    )
    cache = model.new_cache(BATCH)
    with torch.no_grad():
        model(some_ids(), cache=cache)
        with pytest.raises(ValueError, match=r"Cache: the model must have 2 layers; got one of 3"):
            deeper(some_ids(), cache=cache)
        with pytest.raises(
            ValueError, match=r"Cache: keys must be of 3 heads of width 4 in .* 1 of"
        ):
            wider(some_ids(), cache=cache)
        with pytest.raises(ValueError, match=r"in torch.float64, as before; got .* torch.float32"):
            cache.layers[0].extend(torch.zeros(BATCH, 3, 1, 4), torch.zeros(BATCH, 3, 1, 4))


def test_a_cache_whose_pass_was_broken_off_is_refused() -> None:
    model, ids = language_model(Rotary()), some_ids()
    cache = model.new_cache(BATCH)

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    hook = model.decoder.layers[1].register_forward_pre_hook(interrupt)
    with torch.no_grad():
        with pytest.raises(KeyboardInterrupt):
            model(ids, cache=cache)
        hook.remove()
        with pytest.raises(ValueError, match=r"Cache: every layer must hold the 19 tokens so far"):
            model(ids, cache=cache)


def test_keys_with_a_gradient_are_refused() -> None:
    model = language_model(Rotary())
    with pytest.raises(ValueError, match=r"Cache: keys and values must carry no gradient"):
        model(some_ids(), cache=model.new_cache(BATCH))
