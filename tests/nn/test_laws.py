"""Laws that every model keeps, whatever its sizes and options are."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.nn import (
    ALiBi,
    Decoder,
    Encoder,
    LanguageModel,
    LanguageModelConfig,
    Learned,
    MultiHeadAttention,
    NoPosition,
    NotesNorm,
    Position,
    PostNorm,
    PreNorm,
    RelativeBias,
    Rotary,
    SelfAttention,
    Sinusoidal,
    StackConfig,
    Transformer,
    TransformerConfig,
)

POSITIONS: list[Position] = [
    NoPosition(),
    Sinusoidal(),
    Learned(17),
    Rotary(),
    Rotary(pairing="neighbours"),
    ALiBi(),
    RelativeBias(8, 16),
]


@st.composite
def stacks(draw: st.DrawFn) -> dict[str, Any]:
    """The options of a small stack; head widths are even, so that every position fits."""
    heads = draw(st.sampled_from([1, 2, 3]))
    options = {
        "heads": heads,
        "width": heads * draw(st.sampled_from([4, 6])),
        "layers": draw(st.integers(1, 2)),
        "kv_heads": draw(st.sampled_from([1, heads])),
        "hidden": draw(st.sampled_from([3, 7])),
        "activation": draw(st.sampled_from(["relu", "gelu", "swiglu"])),
        "norm": draw(st.sampled_from(["layer", "rms"])),
        "residual": draw(st.sampled_from([PostNorm(), PreNorm(), NotesNorm()])),
        "bias": draw(st.booleans()),
        "value_rank": draw(st.none() | st.just(2)),
    }
    if options["kv_heads"] == heads:
        options["split"] = draw(st.sampled_from(["whole", "slices"]))
    return options


seeds = st.integers(0, 2**31)


def made(kind: type[Encoder] | type[Decoder], options: dict[str, Any], **more: Any) -> Any:
    config = StackConfig(**options, **more)
    return kind(config, cross=False) if kind is Decoder else kind(config)


@settings(max_examples=20, deadline=None)
@given(options=stacks(), seed=seeds, n=st.sampled_from([2, 3, 5, 7]), data=st.data())
def test_without_positions_an_encoder_is_permutation_equivariant(
    options: dict[str, Any], seed: int, n: int, data: st.DataObject
) -> None:
    torch.manual_seed(seed)
    encoder = made(Encoder, options).double()
    x = torch.randn(2, n, options["width"], dtype=torch.float64)
    order = torch.tensor(data.draw(st.permutations(range(n))))
    torch.testing.assert_close(encoder(x[:, order]), encoder(x)[:, order], rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("position", POSITIONS[1:], ids=str)
@settings(max_examples=5, deadline=None)
@given(options=stacks(), seed=seeds)
def test_with_any_position_it_is_not(
    position: Position, options: dict[str, Any], seed: int
) -> None:
    torch.manual_seed(seed)
    encoder = made(Encoder, options | {"residual": PreNorm()}, position=position).double()
    with torch.no_grad():
        for name, part in encoder.named_parameters():
            if name == "positions.weight":  # relative biases begin with 0
                part.normal_()
    x = torch.randn(1, 5, options["width"], dtype=torch.float64)
    order = torch.tensor([3, 0, 4, 1, 2])
    assert (encoder(x[:, order]) - encoder(x)[:, order]).abs().max() > 1e-9


@pytest.mark.parametrize("position", POSITIONS, ids=str)
@settings(max_examples=6, deadline=None)
@given(
    options=stacks(),
    seed=seeds,
    n=st.sampled_from([2, 5, 11, 17]),
    at=st.floats(0, 1),
    worst=st.sampled_from([1.0, 1e30, float("nan"), float("inf")]),
)
def test_nothing_of_the_future_leaks_through_a_decoder(
    position: Position, options: dict[str, Any], seed: int, n: int, at: float, worst: float
) -> None:
    torch.manual_seed(seed)
    decoder = made(Decoder, options, position=position)
    x = torch.randn(2, n, options["width"])
    first = 1 + int(at * (n - 2))  # the first token that is changed
    changed = x.clone()
    changed[:, first:] = worst * torch.randn(2, n - first, options["width"])
    with torch.no_grad():
        assert torch.equal(decoder(changed)[:, :first], decoder(x)[:, :first])


@settings(max_examples=8, deadline=None)
@given(options=stacks(), seed=seeds, first=st.integers(1, 6))
def test_no_gradient_goes_back_from_the_past_to_the_future(
    options: dict[str, Any], seed: int, first: int
) -> None:
    torch.manual_seed(seed)
    decoder = made(Decoder, options, position=Rotary())
    x = torch.randn(1, 7, options["width"], requires_grad=True)
    decoder(x)[:, :first].square().sum().backward()
    assert x.grad is not None
    assert x.grad[:, first:].count_nonzero() == 0


def test_a_language_model_s_logits_do_not_know_later_tokens() -> None:
    torch.manual_seed(1)
    config = LanguageModelConfig(vocabulary=11, width=64, heads=4, layers=2, position=Rotary())
    model = LanguageModel(config)
    ids = torch.randint(11, (2, 67))
    for first in (1, 2, 31, 64, 66):
        other = ids.clone()
        other[:, first:] = torch.randint(11, (2, 67 - first))
        with torch.no_grad():
            assert torch.equal(model(other)[:, :first], model(ids)[:, :first])


def test_a_transformer_s_target_knows_all_of_the_source_and_nothing_later_of_itself() -> None:
    torch.manual_seed(2)
    config = TransformerConfig(vocabulary=11, width=12, heads=3, layers=2, position=Sinusoidal())
    model = Transformer(config).double()
    source, target = torch.randint(11, (2, 5)), torch.randint(11, (2, 7))
    other = target.clone()
    other[:, 3:] = (other[:, 3:] + 1) % 11
    assert torch.equal(model(source, other)[:, :3], model(source, target)[:, :3])
    changed = source.clone()
    changed[:, 4] = (changed[:, 4] + 1) % 11
    moved = (model(changed, target) - model(source, target)).abs().amax(-1)
    assert (moved > 1e-9).all()


@pytest.mark.parametrize("kind", [Encoder, Decoder])
@settings(max_examples=8, deadline=None)
@given(options=stacks(), seed=seeds, position=st.sampled_from(POSITIONS))
def test_a_sequence_does_not_know_what_else_is_in_its_batch(
    kind: Any, options: dict[str, Any], seed: int, position: Position
) -> None:
    torch.manual_seed(seed)
    stack = made(kind, options, position=position).double()
    x = torch.randn(3, 7, options["width"], dtype=torch.float64)
    with torch.no_grad():
        together = stack(x)
        alone = torch.cat([stack(one[None]) for one in x])
    torch.testing.assert_close(alone, together, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("worst", [1e38, float("nan"), float("inf")])
@settings(max_examples=8, deadline=None)
@given(options=stacks(), seed=seeds, position=st.sampled_from(POSITIONS))
def test_a_token_that_is_not_real_may_hold_anything(
    worst: float, options: dict[str, Any], seed: int, position: Position
) -> None:
    torch.manual_seed(seed)
    encoder = made(Encoder, options, position=position)
    x = torch.randn(2, 7, options["width"])
    real = torch.rand(2, 7) < 0.6
    spoilt = torch.where(real[..., None], x, worst)
    with torch.no_grad():
        wanted, found = encoder(x, mask=real), encoder(spoilt, mask=real)
        assert torch.equal(found[real], wanted[real])
        lengths = torch.tensor([7, 3])
        spoilt = x.clone()
        spoilt[1, 3:] = worst
        wanted, found = encoder(x, lengths=lengths), encoder(spoilt, lengths=lengths)
    assert torch.equal(found[0], wanted[0])
    assert torch.equal(found[1, :3], wanted[1, :3])


@settings(max_examples=8, deadline=None)
@given(options=stacks(), seed=seeds, position=st.sampled_from(POSITIONS))
def test_training_and_evaluation_and_gradients_on_or_off_give_the_same_bits(
    options: dict[str, Any], seed: int, position: Position
) -> None:
    torch.manual_seed(seed)
    stack = made(Decoder, options, position=position)
    x = torch.randn(2, 7, options["width"])
    wanted = stack(x)
    assert wanted.requires_grad
    with torch.no_grad():
        assert torch.equal(stack(x), wanted)
        assert torch.equal(stack.eval()(x), wanted)
    assert torch.equal(stack(x), wanted)


@settings(max_examples=8, deadline=None)
@given(options=stacks(), seed=seeds, more=st.integers(0, 5))
def test_a_window_as_wide_as_the_text_is_none(
    options: dict[str, Any], seed: int, more: int
) -> None:
    for kind in (Encoder, Decoder):
        torch.manual_seed(seed)
        free = made(kind, options).double()
        bound = made(kind, options, window=7 + more).double()
        bound.load_state_dict(free.state_dict())
        x = torch.randn(2, 7, options["width"], dtype=torch.float64)
        torch.testing.assert_close(bound(x), free(x), rtol=1e-9, atol=1e-9)


@settings(max_examples=8, deadline=None)
@given(seed=seeds, heads=st.sampled_from([1, 2, 3]))
def test_one_token_alone_gets_its_own_value(seed: int, heads: int) -> None:
    torch.manual_seed(seed)
    layer = MultiHeadAttention(6, heads, output=False)
    x = torch.randn(2, 1, 6)
    assert torch.equal(layer(x), layer.w_v(x))
    one = SelfAttention(6, value_width=5)
    assert torch.equal(one(x), one.w_v(x))


def test_the_same_pass_thirty_times_gives_the_same_bits() -> None:
    torch.manual_seed(3)
    stack = made(Decoder, {"width": 24, "heads": 3, "layers": 2}, position=Rotary())
    x = torch.randn(2, 31, 24)
    with torch.no_grad():
        wanted = stack(x)
        assert all(torch.equal(stack(x), wanted) for _ in range(30))
