"""`Options`: which keys a query may attend to, as the reference says, and of any part as of all."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from regard import reference
from regard._attention.options import Options, part, row_chunks
from regard._attention.segments import spans_of

B, H = 2, 3
Ids = tuple[Tensor, Tensor]  # the segments of queries and keys
Drawn = tuple[Options, int, int, Ids | None]
CPU = torch.device("cpu")


@st.composite
def drawn_options(draw: st.DrawFn) -> Drawn:
    """Options with anything that forbids keys, how many queries and keys there are, and what their
    segments are made of."""
    n_queries, n_keys = draw(st.integers(1, 7)), draw(st.integers(1, 9))
    side = st.none() | st.integers(0, 5)
    generator = torch.Generator().manual_seed(draw(st.integers(0, 2**32)))

    def cells() -> Tensor:
        full = (B, H, n_queries, n_keys)
        shape = [size if draw(st.booleans()) else 1 for size in full]
        return torch.rand(shape[draw(st.integers(0, 3)) :], generator=generator)

    options: dict[str, Any] = {
        "causal": draw(st.booleans()),
        "window": draw(st.none() | st.tuples(side, side)),
        "position": draw(st.none() | st.integers(-3, 9)),
    }
    if draw(st.booleans()):
        options["mask"] = cells() < 0.7
    if draw(st.booleans()):
        x = cells()
        options["bias"] = torch.where(x < 0.2, -math.inf, x)
    if draw(st.booleans()):
        lengths = st.lists(st.integers(-1, n_keys + 1), min_size=B, max_size=B)
        options["lengths"] = torch.tensor(draw(lengths))
    if draw(st.booleans()):
        shape = [size if draw(st.booleans()) else 1 for size in (B, H)]
        chosen = torch.randint(-1, n_keys, (*shape, n_queries, 3), generator=generator)
        options["indices"] = chosen.sort(-1).values
    ids = None
    if draw(st.booleans()):
        batch = draw(st.sampled_from((1, B)))
        queries, keys = (
            torch.randint(-1, 3, (batch, size), generator=generator).sort(-1).values
            for size in (n_queries, n_keys)
        )
        ids = queries, keys
        options["segments"] = spans_of(*ids, options["position"])
    return Options(**options), n_queries, n_keys, ids


def truth(options: Options, n_queries: int, n_keys: int, ids: Ids | None) -> Tensor:
    """(B, H, Nq, Nk), by the reference."""
    q, k = np.ones((B, H, n_queries, 1)), np.ones((B, H, n_keys, 1))
    arguments: dict[str, Any] = {
        name: x.numpy() if isinstance(x, Tensor) else x for name, x in options.arguments().items()
    }
    arguments["segments"] = None if ids is None else tuple(x.numpy() for x in ids)
    return torch.from_numpy(reference.attention(q, k, k, **arguments).allowed.copy())


def full(options: Options, n_queries: int, n_keys: int) -> Tensor:
    return options.allowed(n_queries, n_keys, CPU).expand(B, H, n_queries, n_keys)


@given(drawn_options())
def test_allowed_is_what_the_reference_allows(made: Drawn) -> None:
    options, n_queries, n_keys, _ = made
    expected = truth(*made)
    assert torch.equal(full(options, n_queries, n_keys), expected)
    counts = options.count((B, H, n_queries, n_keys), CPU)
    assert torch.equal(counts, expected.sum(-1))
    real = torch.rand(B, n_keys, generator=torch.Generator().manual_seed(n_keys)) < 0.6
    counts = options.count((B, H, n_queries, n_keys), CPU, real)
    assert torch.equal(counts, (expected & real[:, None, None]).sum(-1))


@given(drawn_options(), st.data())
def test_of_some_rows_it_is_the_same(made: Drawn, data: st.DataObject) -> None:
    options, n_queries, n_keys, _ = made
    expected = truth(*made)
    start, stop = sorted(
        (data.draw(st.integers(0, n_queries)), data.draw(st.integers(0, n_queries)))
    )
    of_rows = options.rows(slice(start, stop), n_queries, n_keys)
    assert torch.equal(full(of_rows, stop - start, n_keys), expected[:, :, start:stop])
    chosen = data.draw(st.lists(st.integers(0, n_queries - 1), min_size=1, unique=True))
    index = torch.tensor(sorted(chosen))
    of_rows = options.rows(index, n_queries, n_keys)
    assert torch.equal(full(of_rows, len(index), n_keys), expected[:, :, index])


@given(drawn_options(), st.integers(0, B - 1), st.integers(0, H - 1))
def test_of_one_head_it_is_the_same(made: Drawn, b: int, h: int) -> None:
    options, n_queries, n_keys, _ = made
    found = options.head(h, b).allowed(n_queries, n_keys, CPU)
    assert torch.equal(found[0, 0], truth(*made)[b, h])


@given(drawn_options(), st.data())
def test_of_a_tile_it_is_the_same(made: Drawn, data: st.DataObject) -> None:
    options, n_queries, n_keys, _ = made
    row, key = data.draw(st.integers(0, n_queries - 1)), data.draw(st.integers(0, n_keys - 1))
    rows, keys = slice(row, n_queries), slice(key, n_keys)
    positions = options.places(rows, n_queries, n_keys, CPU)
    mask, bias = part(options.mask, rows, keys), part(options.bias, rows, keys)
    expected = truth(*made)[:, :, rows, keys]
    allowed = torch.ones_like(expected)
    size = n_queries, n_keys
    for forbidden in options.forbidden(rows, torch.arange(key, n_keys), size, mask, bias):
        allowed = allowed & ~forbidden
    assert torch.equal(allowed, expected)
    low, high = options.bounds(int(positions.min()), int(positions.max()))
    columns = expected.any(0).any(0).any(0).nonzero()[:, 0] + key
    assert low is None or bool((columns >= low).all())
    assert high is None or bool((columns < high).all())


def test_a_row_that_is_too_large_for_a_chunk_is_one_by_itself() -> None:
    assert [*row_chunks(3, 2**40)] == [slice(0, 1), slice(1, 2), slice(2, 3)]
    assert [*row_chunks(3, 0)] == [slice(0, 3)]
    assert [*row_chunks(0, 7)] == []
