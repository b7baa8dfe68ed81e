"""Blocks of weights: exact to the edges, at every level."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import pytest
import torch

import regard
import regard.run.atlas
from regard._wanted import asking
from regard.run import Layer, Options
from regard.run.atlas import blocks, build_levels, levels, small_map


def _layer(n_queries: int = 37, n_keys: int = 53, **options: Any) -> Layer:
    torch.manual_seed(0)
    q, k = torch.randn(2, 6, n_queries, 5), torch.randn(2, 3, n_keys, 5)
    _, seen = regard.attention(q, k, k, see=regard.See(), **options)
    return Layer("a", seen, Options(**options), q=q, k=k)


@pytest.mark.parametrize("options", [{}, {"causal": True}], ids=["all", "causal"])
@pytest.mark.parametrize("level", range(7))
@pytest.mark.parametrize("reduce", ["mean", "max"])
def test_a_block_is_what_its_weights_are(
    level: int, reduce: Literal["mean", "max"], options: dict[str, Any]
) -> None:
    layer = _layer(**options)
    size = 1 << level
    rows, columns = -(-37 // size), -(-53 // size)
    found = blocks(layer, None, level, (0, rows), (0, columns), reduce)
    weights = layer.weights().double()
    assert found.shape == (2, 6, rows, columns)
    for r in range(rows):
        for c in range(columns):
            tile = weights[..., r * size : (r + 1) * size, c * size : (c + 1) * size]
            expected = tile.mean((-2, -1)) if reduce == "mean" else tile.amax((-2, -1))
            torch.testing.assert_close(found[..., r, c].double(), expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(
    ("rows", "columns"), [((0, 1), (2, 5)), ((3, 5), (0, 7)), ((4, 5), (6, 7)), ((1, 3), (1, 2))]
)
def test_a_part_of_the_picture_is_that_part(
    rows: tuple[int, int], columns: tuple[int, int]
) -> None:
    layer = _layer()
    whole = blocks(layer, 4, 3, (0, 5), (0, 7))
    found = blocks(layer, 4, 3, rows, columns)
    assert torch.equal(found, whole[:, slice(*rows), slice(*columns)])


@pytest.mark.parametrize("height", [1, 2, 3, 1000])
def test_a_picture_made_in_strips_is_the_same(height: int, monkeypatch: pytest.MonkeyPatch) -> None:
    layer = _layer()
    whole = blocks(layer, None, 2, (1, 10), (2, 14))
    monkeypatch.setattr(regard.run.atlas, "_WEIGHTS", height * 4 * 45)
    assert torch.equal(blocks(layer, None, 2, (1, 10), (2, 14)), whole)


def test_what_takes_long_asks_whether_it_is_still_wanted() -> None:
    q = torch.randn(1, 3, 37, 5)
    _, seen = regard.attention(q, q, q, see=regard.See())
    run = regard.Run({"a": Layer("a", seen, q=q, k=q)}, hidden_states={"a": q[0]})
    work = {
        "blocks": lambda: blocks(run.layer(0), 0, 0, (0, 37), (0, 37)),
        "rollout": lambda: run.rollout(7),
        "edges": lambda: run.edges(0.01),
        "sql": lambda: run.sql("select * from edges"),
        "effect": lambda: run.effect(run),
    }
    for name, each in work.items():
        asked: list[str] = []
        with asking(lambda asked=asked, name=name: asked.append(name)):
            each()
        assert asked, name


@pytest.mark.parametrize(("length", "level"), [(256, 0), (257, 1), (8192, 5), (100_000, 9)])
def test_the_coarsest_level_is_the_first_that_fits_a_tile(length: int, level: int) -> None:
    lse = torch.zeros(1, 1, length)
    seen = regard.Observation(lse=lse, n_keys=length)
    assert levels(Layer("a", seen)) == level


@pytest.mark.parametrize("reduce", ["mean", "max"])
@pytest.mark.parametrize("level", [5, 6, 7, 9])
@pytest.mark.parametrize("head", [None, 1])
def test_what_is_kept_gives_the_same_picture(
    reduce: Literal["mean", "max"], level: int, head: int | None
) -> None:
    torch.manual_seed(0)
    q, k = torch.randn(1, 2, 4099, 3), torch.randn(1, 1, 4153, 3)
    _, seen = regard.attention(q, k, k, causal=True, see=regard.See())
    layer = Layer("a", seen, Options(causal=True), q=q, k=k)
    kept = build_levels(layer, ("mean", "max"))
    assert kept.levels is not None
    size = 1 << level
    rows, columns = -(-4099 // size), -(-4153 // size)
    for part in (((0, rows), (0, columns)), ((rows // 2, rows), (1, columns))):
        expected = blocks(layer, head, level, *part, reduce)
        found = blocks(kept, head, level, *part, reduce)
        torch.testing.assert_close(found, expected, atol=1e-7, rtol=1e-4)


@pytest.mark.parametrize("reduce", ["mean", "max"])
def test_one_block_of_any_level_holds_all_that_is_kept(reduce: Literal["mean", "max"]) -> None:
    q = torch.randn(1, 2, 4099, 3, generator=torch.Generator().manual_seed(0))
    _, seen = regard.attention(q, q, q, see=regard.See())
    layer = Layer("a", seen, q=q, k=q)
    found = blocks(build_levels(layer, (reduce,)), None, 40, (0, 1), (0, 1), reduce)
    expected = blocks(layer, None, 40, (0, 1), (0, 1), reduce)
    torch.testing.assert_close(found, expected, atol=1e-7, rtol=1e-4)


def test_a_short_text_keeps_no_pictures() -> None:
    layer = _layer()
    assert build_levels(layer) is layer


def test_what_is_kept_is_saved(tmp_path: Path) -> None:
    torch.manual_seed(0)
    q = torch.randn(1, 2, 4099, 3)
    _, seen = regard.attention(q, q, q, see=regard.See())
    layer = build_levels(Layer("a", seen, kv_heads=2, q=q, k=q), ("mean", "max"))
    regard.Run({"a": layer}).save(tmp_path / "run")
    found = regard.load(tmp_path / "run").layer(0).levels
    assert found is not None
    assert layer.levels is not None
    assert found.level == layer.levels.level
    for name in ("mean", "max"):
        assert torch.equal(found.pictures[name], layer.levels.pictures[name])


@pytest.mark.parametrize("level", [1, 5, 6])
def test_one_sequence_is_what_it_is_in_the_batch(level: int) -> None:
    generator = torch.Generator().manual_seed(3)
    q = torch.randn(2, 3, 8200, 3, generator=generator)
    _, seen = regard.attention(q, q, q, see=regard.See())
    layer = build_levels(Layer("a", seen, kv_heads=3, q=q, k=q), ("mean",))
    place = ((1, 5), (0, 7))
    both = blocks(layer, 2, level, *place)
    assert torch.equal(blocks(layer, 2, level, *place, sequence=1), both[1])
    assert torch.equal(blocks(layer, None, level, *place, sequence=1)[2], both[1])
    small = small_map(layer, 2)
    assert small is not None
    one = small_map(layer, 2, sequence=1)
    assert one is not None
    assert torch.equal(one, small[1])
