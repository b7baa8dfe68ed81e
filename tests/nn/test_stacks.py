"""Stacks of layers: padding on either side is as if it were not there."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.formulas import array, close, encoder_layer, norm, scrambled

from regard.nn import (
    ALiBi,
    Decoder,
    Encoder,
    EncoderLayer,
    Learned,
    NoPosition,
    Position,
    RelativeBias,
    Rotary,
    Sinusoidal,
    StackConfig,
)
from regard.nn.stacks import positions_in

POSITIONS = [
    NoPosition(),
    Sinusoidal(),
    Sinusoidal(layout="halves"),
    Learned(7),
    Rotary(),
    Rotary(pairing="neighbours", width=2),
    ALiBi(),
    RelativeBias(8, 16),
]
X = torch.randn(2, 7, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
MEMORY = torch.randn(2, 5, 12, dtype=torch.float64, generator=torch.Generator().manual_seed(2))
LENGTHS = torch.tensor([7, 4])


def config(**options: Any) -> StackConfig:
    return StackConfig(width=12, heads=3, hidden=7, layers=2, **options)


def encoder(position: Position, **options: Any) -> Encoder:
    stack = scrambled(Encoder(config(position=position, **options)))
    assert isinstance(stack, Encoder)
    return stack


def decoder(position: Position, *, cross: bool = False, **options: Any) -> Decoder:
    stack = scrambled(Decoder(config(position=position, **options), cross=cross))
    assert isinstance(stack, Decoder)
    return stack


@pytest.mark.parametrize("position", POSITIONS, ids=str)
@pytest.mark.parametrize("make", [encoder, decoder])
def test_padding_on_either_side_is_as_if_it_were_not_there(make: Any, position: Position) -> None:
    stack = make(position)
    alone = stack(X[1:, :4])[0]
    spoilt = X.clone()
    spoilt[1, 4:] = 1e6
    mask = torch.arange(7) < LENGTHS[:, None]
    for y in (stack(spoilt, lengths=LENGTHS), stack(spoilt, mask=mask)):
        close(y[1, :4], alone, 1e-10)
        close(y[0], stack(X[:1])[0], 1e-10)
    left = torch.cat([torch.full((1, 3, 12), 1e6, dtype=torch.float64), X[1:, :4]], 1)
    y = stack(torch.cat([X[:1], left]), mask=torch.arange(7) >= 7 - LENGTHS[:, None])
    close(y[1, 3:], alone, 1e-10)


@pytest.mark.parametrize("padded", ["memory_mask", "memory_lengths"])
def test_padding_of_the_memory_is_as_if_it_were_not_there(padded: str) -> None:
    stack = decoder(Rotary(), cross=True)
    alone = stack(X[1:], memory=MEMORY[1:, :3])
    lengths, spoilt = torch.tensor([5, 3]), MEMORY.clone()
    spoilt[1, 3:] = 1e6
    how = {"memory_lengths": lengths, "memory_mask": torch.arange(5) < lengths[:, None]}
    close(stack(X, memory=spoilt, **{padded: how[padded]})[1], alone[0], 1e-10)


@pytest.mark.parametrize("window", [None, 3])
@pytest.mark.parametrize("position", POSITIONS, ids=str)
def test_a_decoder_that_is_not_causal_is_an_encoder(position: Position, window: int | None) -> None:
    options = config(position=position, window=window)
    whole = scrambled(Encoder(options))
    found = Decoder(options, cross=False, causal=False).double()
    found.load_state_dict(whole.state_dict())
    assert torch.equal(found(X, lengths=LENGTHS), whole(X, lengths=LENGTHS))
    with pytest.raises(ValueError, match="causal must be True for a cache"):
        found.new_cache(2)


def test_positions_count_real_tokens() -> None:
    mask = torch.tensor([[False, False, True, True], [True, False, True, True]])
    assert positions_in(4, mask, mask.device).tolist() == [[0, 0, 0, 1], [0, 0, 1, 2]]
    assert positions_in(3, None, mask.device).tolist() == [[0, 1, 2]]


@pytest.mark.parametrize("position", POSITIONS[1:], ids=str)
def test_positions_may_be_given(position: Position) -> None:
    stack = encoder(position)
    given = stack(X, positions=torch.arange(7)[None])
    assert torch.equal(given, stack(X))
    if isinstance(position, Sinusoidal | Learned | Rotary):
        assert not torch.allclose(stack(X, positions=torch.arange(6, -1, -1)[None]), given)


WRONG_POSITIONS: list[tuple[Any, type[Exception], str]] = [
    (torch.arange(7)[None] - 1, ValueError, "from 0 to 2147483647; got -1"),
    (torch.arange(7)[None] + 2**31 - 6, ValueError, "from 0 to 2147483647; got 2147483648"),
    (torch.full((1, 7), 2**63 - 1), ValueError, "from 0 to 2147483647; got 9223372036854775807"),
    (torch.arange(7)[None] + 0.5, TypeError, "int64 or int32; got torch.float32"),
    (torch.arange(7)[None].double(), TypeError, "int64 or int32; got torch.float64"),
    (torch.ones(1, 7, dtype=torch.bool), TypeError, "int64 or int32; got torch.bool"),
    (torch.arange(7)[None].to(torch.uint8), TypeError, "int64 or int32; got torch.uint8"),
    (torch.arange(7)[None] * 1j, TypeError, "int64 or int32; got torch.complex64"),
    (torch.arange(7), ValueError, r"\(1 or 2, 7\); got \(7,\)"),
    (torch.arange(5)[None], ValueError, r"\(1 or 2, 7\); got \(1, 5\)"),
    (torch.zeros(3, 7).long(), ValueError, r"\(1 or 2, 7\); got \(3, 7\)"),
    ([[0, 1, 2, 3, 4, 5, 6]], TypeError, "a tensor; got list"),
]


@pytest.mark.parametrize("position", POSITIONS[1:], ids=str)
@pytest.mark.parametrize("make", [encoder, decoder])
def test_positions_that_are_no_places_are_refused(make: Any, position: Position) -> None:
    stack = make(position)
    for given, error, said in WRONG_POSITIONS:
        with pytest.raises(error, match=rf"^{type(stack).__name__}: positions must be .*{said}"):
            stack(X, positions=given)
    assert torch.equal(stack(X, positions=torch.arange(7, dtype=torch.int32)[None]), stack(X))


def test_positions_that_are_no_places_leave_the_cache_as_it_was() -> None:
    stack = decoder(Rotary())
    cache = stack.new_cache(2)
    with torch.no_grad():
        with pytest.raises(ValueError, match="positions must be from 0"):
            stack(X, positions=torch.arange(7)[None] - 1, cache=cache)
        assert torch.equal(stack(X, cache=cache), stack(X))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bool, torch.complex64])
def test_lengths_that_are_no_counts_are_refused_before_any_layer_runs(dtype: torch.dtype) -> None:
    stack = encoder(Rotary())
    stack.layers[0].register_forward_pre_hook(lambda *_: pytest.fail("a layer ran"))
    with pytest.raises(TypeError, match=f"Encoder: lengths must be whole numbers, .*; got {dtype}"):
        stack(X, lengths=LENGTHS.to(dtype))


def test_positions_that_are_added_come_first_and_once() -> None:
    stack = encoder(Sinusoidal())
    added = stack.positions.embed(torch.arange(7)[None], torch.float64)
    assert added is not None
    wanted = array(X + added)
    for layer in stack.layers:
        assert isinstance(layer, EncoderLayer)
        wanted = encoder_layer(layer, wanted, "pre")
    assert stack.norm is not None
    close(stack(X), norm(stack.norm, wanted), 1e-11)
    left = scrambled(Encoder(config(position=Sinusoidal()), adds_position=False))
    close(left(X + added), stack(X))
    sizes = config(position=Learned(7))
    assert len(list(Encoder(sizes).positions.parameters())) == 1
    assert not list(Encoder(sizes, adds_position=False).positions.parameters())


def test_a_stack_has_one_position_for_all_layers() -> None:
    names = [name for name, _ in encoder(RelativeBias(8, 16)).named_parameters()]
    assert [name for name in names if "positions" in name] == ["positions.weight"]


@pytest.mark.parametrize("make", [encoder, decoder])
def test_an_input_of_another_shape_is_refused_in_words(make: Any) -> None:
    stack = make(NoPosition())
    name = type(stack).__name__
    for shape in ((7, 12), (2, 7, 11), (2, 3, 7, 12)):
        with pytest.raises(ValueError, match=rf"^{name}: x must be \(B, N, width\)") as caught:
            stack(torch.zeros(shape, dtype=torch.float64))
        assert str(shape) in str(caught.value)
    with pytest.raises(TypeError, match=rf"^{name}: mask must be bool.*got torch.int64. Say mask"):
        stack(X, mask=torch.ones(2, 7, dtype=torch.int64))
    with pytest.raises(ValueError, match=rf"^{name}: mask must be \(B, N\) = \(2, 7\); got"):
        stack(X, mask=torch.ones(2, 6, dtype=torch.bool))
    with pytest.raises(ValueError, match=rf"^{name}: lengths must be \(B,\) = \(2,\); got \(3,\)"):
        stack(X, lengths=torch.tensor([1, 2, 3]))


def test_empty_batches_and_sequences_go_through() -> None:
    for position in POSITIONS:
        for shape in ((0, 7, 12), (2, 0, 12), (2, 1, 12)):
            for stack in (encoder(position), decoder(position)):
                assert stack(torch.zeros(shape, dtype=torch.float64)).shape == shape
