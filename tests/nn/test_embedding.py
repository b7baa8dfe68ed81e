"""Embeddings: what is no id, no part of the text and no position is refused in words."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from regard.nn import Embedding, Learned, Position, Rotary, Sinusoidal, StackConfig

BATCH, TOKENS = 2, 5
IDS = torch.arange(BATCH * TOKENS).view(BATCH, TOKENS)


def embedding(position: Position | None = None, segments: int = 3) -> Embedding:
    position = Learned(7) if position is None else position
    config = StackConfig(width=6, heads=3, position=position)
    return Embedding(config, vocabulary=11, segments=segments)


def test_positions_are_rows_of_the_table_for_one_sequence_or_for_all() -> None:
    layer = embedding()
    with torch.no_grad():
        without = layer(IDS) - layer.positions.get_parameter("weight")[:TOKENS]
        for batch in (1, BATCH):
            where = torch.tensor([[6, 0, 2, 2, 1], [0, 1, 3, 5, 6]], dtype=torch.int32)[:batch]
            added = layer.positions.get_parameter("weight")[where.long()]
            torch.testing.assert_close(layer(IDS, where), without + added)


def test_parts_of_the_text_are_the_first_unless_given() -> None:
    layer = embedding()
    kinds = torch.tensor([[0, 1, 2, 2, 0], [1, 1, 0, 0, 2]])
    table = layer.get_parameter("segments.weight")
    with torch.no_grad():
        torch.testing.assert_close(layer(IDS, None, kinds) - layer(IDS), table[kinds] - table[0])


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"segments": IDS[:1] * 0}, ValueError, r"segments must be \(B, N\) = \(2, 5\), .*\(1, 5"),
        ({"segments": IDS[:, :3] * 0}, ValueError, r"segments must be \(B, N\) = .*; got \(2, 3\)"),
        ({"segments": IDS[0] * 0}, ValueError, r"segments must be \(B, N\) = .*; got \(5,\)"),
        ({"segments": IDS * 0 + 3}, ValueError, "segments must be from 0 to 2, .*; got 3"),
        ({"segments": IDS * 0 - 1}, ValueError, "segments must be from 0 to 2, .*; got -1"),
        (
            {"segments": IDS * 0.0},
            TypeError,
            "segments must be whole numbers, .*; got torch.float32",
        ),
        ({"positions": IDS * 0 - 1}, ValueError, "positions must be from 0 to 2147483647; got -1"),
        (
            {"positions": IDS * 0.0},
            TypeError,
            "positions must be whole numbers, .*; got torch.float",
        ),
        ({"positions": IDS[0]}, ValueError, r"positions must be .* \(1 or 2, 5\); got \(5,\)"),
        ({"positions": IDS[:, :1] * 0}, ValueError, r"\(1 or 2, 5\); got \(2, 1\)"),
        ({"positions": torch.zeros(3, 5).long()}, ValueError, r"\(1 or 2, 5\); got \(3, 5\)"),
    ],
)
def test_what_does_not_fit_the_ids_is_refused_before_any_work(
    given: dict[str, Tensor], error: type[Exception], message: str
) -> None:
    layer, looked_up = embedding(), []
    layer.tokens.register_forward_pre_hook(lambda *_: looked_up.append(1))
    with pytest.raises(error, match=f"^Embedding: .*{message}"):
        layer(IDS, **given)
    assert not looked_up


def test_a_position_beyond_the_table_is_refused_in_words() -> None:
    layer = embedding()
    with pytest.raises(ValueError, match=r"Learned\(length=7\): there must be at most 7 tokens"):
        layer(IDS, IDS.clamp(max=7))


def test_parts_of_the_text_are_refused_where_there_are_none() -> None:
    layer = embedding(segments=0)
    with pytest.raises(ValueError, match=r"segments must be left out: the model has none"):
        layer(IDS, None, IDS * 0)


@pytest.mark.parametrize("position", [Sinusoidal(), Learned(7)], ids=repr)
def test_positions_that_are_added_are_counted_from_0(position: Position) -> None:
    for where in (IDS - 7, IDS + 2**31):
        with pytest.raises(ValueError, match=r"Embedding: positions must be from 0 to 2147483647"):
            embedding(position)(IDS, where)


def test_positions_that_nobody_adds_may_be_any() -> None:
    assert embedding(Rotary())(IDS, IDS - 7).shape == (BATCH, TOKENS, 6)
