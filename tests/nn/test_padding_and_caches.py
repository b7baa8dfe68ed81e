"""What padding, windows and caches must not change, and what is refused because it would."""

import re

import pytest
import torch
from torch import Tensor

from regard.nn import (
    ALiBi,
    Cache,
    Encoder,
    EncoderLayer,
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

POSITIONS = [NoPosition(), Rotary(), ALiBi(), RelativeBias(), Learned(29), Sinusoidal()]


def model_with(position: Position, window: int | None = None) -> LanguageModel:
    torch.manual_seed(0)
    config = LanguageModelConfig(
        vocabulary=31, width=12, heads=3, layers=2, position=position, window=window
    )
    model = LanguageModel(config).eval()
    if isinstance(position, RelativeBias):
        torch.nn.init.normal_(model.get_parameter("decoder.positions.weight"))
    return model


def some_ids(*shape: int) -> Tensor:
    return torch.randint(31, shape, generator=torch.Generator().manual_seed(1))


@torch.no_grad()
@pytest.mark.parametrize("position", POSITIONS, ids=str)
def test_padding_between_real_tokens_changes_nothing_without_a_cache(position: Position) -> None:
    model, ids = model_with(position), some_ids(2, 7)
    spread = torch.zeros(2, 11, dtype=torch.int64)
    mask = torch.zeros(2, 11, dtype=torch.bool)
    for row, places in enumerate([(0, 1, 4, 5, 6, 9, 10), (1, 2, 3, 5, 7, 8, 9)]):
        spread[row, list(places)] = ids[row]
        mask[row, list(places)] = True
    torch.testing.assert_close(model(spread, mask=mask)[mask], model(ids).flatten(0, 1))


@torch.no_grad()
@pytest.mark.parametrize("position", POSITIONS, ids=str)
def test_a_prompt_padded_on_the_right_goes_on_in_a_cache_or_is_refused(position: Position) -> None:
    model, ids = model_with(position), some_ids(2, 7)
    mask = torch.tensor([[True] * 5, [True] * 3 + [False] * 2])
    prompt = ids[:, :5].masked_fill(~mask, 0)
    cache = model.new_cache(2)
    model(prompt, mask=mask, cache=cache)
    if isinstance(position, ALiBi | RelativeBias):
        with pytest.raises(ValueError, match="got padding between them"):
            model(ids[:, 5:], cache=cache)
        return
    found = model(ids[:, 5:], cache=cache)
    torch.testing.assert_close(found[0], model(ids)[0, 5:])
    alone = torch.cat([ids[1:, :3], ids[1:, 5:]], 1)
    torch.testing.assert_close(found[1], model(alone)[0, 3:])


@torch.no_grad()
def test_a_window_refuses_padding_between_real_tokens() -> None:
    model = model_with(Rotary(), window=3)
    mask = torch.tensor([[True, False, True]])
    with pytest.raises(ValueError, match="and a window counts what lies between"):
        model(some_ids(1, 3), mask=mask)


@torch.no_grad()
@pytest.mark.parametrize("side", ["left", "right", "lengths"])
def test_the_last_logits_are_those_of_the_last_real_token(side: str) -> None:
    model, ids = model_with(Rotary()), some_ids(2, 7)
    lengths = torch.tensor([7, 4])
    mask = torch.arange(7) < lengths[:, None]
    if side == "left":
        mask = mask.flip(1)
    padding = {"lengths": lengths} if side == "lengths" else {"mask": mask}
    found = model(ids, **padding, last=True)
    for row in range(2):
        own = ids[row][mask[row]][None]
        torch.testing.assert_close(found[row], model(own)[0, -1:])


@torch.no_grad()
def test_a_cache_without_a_window_keeps_the_models_own() -> None:
    model, ids = model_with(Rotary(), window=3), some_ids(2, 7)
    cache = Cache(batch=2, layers=2)
    parts = [model(ids[:, :5], cache=cache), model(ids[:, 5:], cache=cache)]
    torch.testing.assert_close(torch.cat(parts, 1), model(ids))


@torch.no_grad()
def test_attention_alone_sees_no_more_than_its_cache_keeps() -> None:
    torch.manual_seed(0)
    layer, x = MultiHeadAttention(6, heads=3), torch.randn(2, 7, 6)
    cache = KeyValues(window=2)
    found = torch.cat([layer(part, causal=True, cache=cache) for part in x.split([4, 3], 1)], 1)
    torch.testing.assert_close(found, layer(x, causal=True, window=(1, None)))


def transformer() -> Transformer:
    torch.manual_seed(0)
    config = TransformerConfig(vocabulary=31, width=12, heads=3, position=Rotary())
    return Transformer(config).eval()


@torch.no_grad()
def test_a_cache_remembers_which_tokens_of_the_source_are_real() -> None:
    model, source, target = transformer(), some_ids(2, 7), some_ids(2, 5)
    lengths, cache = torch.tensor([7, 4]), transformer().new_cache(2)
    whole = model(source, target, source_lengths=lengths)
    first = model(source, target[:, :3], source_lengths=lengths, cache=cache)
    then = model(source, target[:, 3:], cache=cache)
    torch.testing.assert_close(torch.cat([first, then], 1), whole)
    with pytest.raises(ValueError, match="source must be the one that the cache has been given"):
        model(source.flip(1), target[:, :1], cache=cache)


def test_a_cache_of_another_batch_is_refused_before_the_source_is_read() -> None:
    model = transformer()
    cache = model.new_cache(3)
    with pytest.raises(ValueError, match="must be those of 3 sequences"):
        model(some_ids(2, 7), some_ids(2, 5), cache=cache)
    assert cache.memory is None


@torch.no_grad()
def test_a_decoder_without_its_memory_leaves_the_cache_as_it_was() -> None:
    decoder = transformer().decoder
    cache = decoder.new_cache(2)
    with pytest.raises(ValueError, match=re.escape("must be given a memory (B, M, width)")):
        decoder(torch.zeros(2, 5, 12), cache=cache)
    assert cache.length == 0


@pytest.mark.parametrize("position", [Sinusoidal(), Learned(7)], ids=str)
def test_attention_alone_refuses_positions_that_are_added_to_embeddings(position: Position) -> None:
    with pytest.raises(ValueError, match="It is added to embeddings"):
        MultiHeadAttention(6, heads=3, position=position)


def test_attention_with_a_position_refuses_another_sequence() -> None:
    layer = MultiHeadAttention(6, heads=3, position=Rotary())
    with pytest.raises(ValueError, match="no meaning across two sequences"):
        layer(torch.zeros(1, 5, 6), context=torch.zeros(1, 7, 6))


@pytest.mark.parametrize("position", POSITIONS, ids=str)
@pytest.mark.parametrize("training", [True, False])
def test_every_position_works_under_autocast(position: Position, training: bool) -> None:
    torch.manual_seed(0)
    stack = Encoder(StackConfig(width=12, heads=3, layers=2, position=position)).train(training)
    x = torch.randn(2, 7, 12)
    with torch.autocast("cpu", torch.bfloat16), torch.set_grad_enabled(training):
        found = stack(x)
    torch.testing.assert_close(found.float(), stack(x), rtol=0.1, atol=0.1)


@pytest.mark.parametrize("position", POSITIONS, ids=str)
def test_low_rank_values_work_under_autocast(position: Position) -> None:
    stack = Encoder(StackConfig(width=12, heads=3, value_rank=2, position=position))
    with torch.autocast("cpu", torch.bfloat16):
        assert stack(torch.randn(2, 7, 12)).isfinite().all()


@torch.no_grad()
@pytest.mark.parametrize("part", ["decoder.layers.0.feed_forward", "decoder.layers.1.feed_forward"])
def test_a_cache_whose_pass_was_broken_off_is_refused(part: str) -> None:
    model, ids = model_with(Rotary()), some_ids(2, 5)
    cache = model.new_cache(2)
    model(ids, cache=cache)

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    handle = model.get_submodule(part).register_forward_pre_hook(stop)
    with pytest.raises(KeyboardInterrupt):
        model(ids, cache=cache)
    handle.remove()
    with pytest.raises(ValueError, match="last pass was broken off"):
        model(ids, cache=cache)


@torch.no_grad()
def test_a_cache_refuses_another_context() -> None:
    layer, cache = MultiHeadAttention(6, heads=3), KeyValues()
    layer(torch.zeros(1, 5, 6), torch.zeros(1, 7, 6), cache=cache)
    with pytest.raises(ValueError, match="of 7 tokens; got another, of 3"):
        layer(torch.zeros(1, 5, 6), torch.zeros(1, 3, 6), cache=cache)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"batch": -1, "layers": 1}, "batch must be at least 0; got -1"),
        ({"batch": 1, "layers": 0}, "layers must be at least 1; got 0"),
        ({"batch": 1, "layers": 1, "window": 0}, "window must be at least 1; got 0"),
        ({"batch": 1, "layers": 1, "window": 1.5}, "window must be a whole number; got 1.5"),
    ],
)
def test_sizes_of_a_cache_are_refused_in_words(options: dict[str, int], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        Cache(**options)


@pytest.mark.parametrize("lengths", [[-1, 5], [3, 6]])
def test_lengths_that_no_sequence_has_are_refused(lengths: list[int]) -> None:
    with pytest.raises(ValueError, match="lengths must be from 0 to the 5 tokens that there are"):
        model_with(Rotary())(some_ids(2, 5), lengths=torch.tensor(lengths))


@pytest.mark.parametrize("position", [Rotary(), ALiBi(), RelativeBias()], ids=str)
def test_a_layer_alone_refuses_a_position_that_it_cannot_place(position: Position) -> None:
    layer = EncoderLayer(StackConfig(width=12, heads=3, position=position))
    with pytest.raises(ValueError, match="must be told where its tokens stand"):
        layer(torch.zeros(1, 5, 12))


def test_alibi_in_few_bits_stays_finite_as_long_as_it_can() -> None:
    stack = Encoder(StackConfig(width=8, heads=8, position=ALiBi()))
    far = torch.tensor([[0, 70_000]])
    bias = stack.positions.place(far, 2, False, torch.float16).bias
    assert bias is not None
    assert bias[0, 7, 0, 1].item() == pytest.approx(-70_000 / 256, rel=1e-3)


@torch.no_grad()
def test_positions_that_are_given_count_with_a_mask_too() -> None:
    stack, x = Encoder(StackConfig(width=12, heads=3, position=ALiBi())), torch.randn(2, 5, 12)
    spread, mask = torch.tensor([[0, 1, 5, 6, 9]] * 2), torch.ones(2, 5, dtype=torch.bool)
    found = stack(x, positions=spread, mask=mask)
    torch.testing.assert_close(found, stack(x, positions=spread[:1]))
    assert not torch.allclose(found, stack(x))


def test_a_changed_configuration_derives_anew_what_was_not_given() -> None:
    config = TransformerConfig(vocabulary=31, width=12, heads=3, layers=2, final_norm=False)
    changed = config.but(width=24, bias=False, layers=3)
    assert changed == TransformerConfig(
        vocabulary=31, width=24, heads=3, layers=3, bias=False, final_norm=False
    )
    assert (changed.head_width, changed.hidden, changed.decoder_layers) == (8, 96, 3)
    assert changed.attention_bias is False
    assert changed.but(attention_bias=False).but(bias=True).attention_bias is False
