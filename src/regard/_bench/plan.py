"""Which cells are measured: those of the record, or a few of them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from regard._bench import types
from regard._bench.results import Cell, Pace

SECTIONS = ("forward", "observed", "tiles", "calls", "memory", *types.SECTIONS)
QUICK_PACE = Pace(rounds=3, seconds=0.1)


def plan_cells(
    threads: tuple[int, ...], sections: tuple[str, ...] = SECTIONS, quick: bool = False
) -> Iterator[Cell]:
    """The cells of the chosen sections, not measured yet: minutes, or well under one if `quick`.

    The section `observed` brings `rising` (scores that rise along every row) and `eager` along.
    """
    lengths, widths = (64, 128, 512, 2048, 8192), (32, 64, 128)
    observed_lengths, observed_widths = (128, 512, 1024, 2048, 4096, 8192), (64, 128)
    received_from, eager_length = 2048, 4096  # N from which `received` is raced; of the eager race
    tile_lengths, memory_length = (4096, 8192), 65_536
    if quick:
        lengths, widths = (64, 512, 2048), (64,)
        observed_lengths, observed_widths = (128, 1024), (64,)
        received_from, eager_length = 1024, 512
        tile_lengths, memory_length = (1024,), 8192

    fewest, most = min(threads), max(threads)
    if "forward" in sections:
        for number, d, causal, n in product(threads, widths, (False, True), lengths):
            yield Cell("forward", n, d, causal, number)
    if "observed" in sections:
        for number, d, n in product(threads, observed_widths, observed_lengths):
            if number == most or n <= 4096:  # the longest takes too long with fewer threads
                yield Cell("observed", n, d, False, number, received=n >= received_from)
        for n in observed_lengths:
            yield Cell("observed", n, 64, True, most, received=n >= received_from)
        for number in threads:
            yield Cell("rising", eager_length, 64, False, number)
        yield Cell("eager", eager_length, 64, False, most, received=True)
    if "tiles" in sections:
        for number, n in product(threads, tile_lengths):
            yield Cell("tiles", n, 64, False, number)
    if "calls" in sections:
        yield Cell("calls", 1, 64, False, fewest, heads=1)
    if "memory" in sections:
        yield Cell("memory", memory_length, 64, False, most, heads=1)
    halves = ("bfloat16", "float16")
    if "types" in sections:
        for dtype, number, causal in product((*halves, "float64"), threads, (False, True)):
            for n in (512,) if quick else (128, 512, 2048):
                yield Cell("types", n, 64, causal, number, dtype=dtype)
        # What models are loaded in has the grid of float32, but for what takes minutes with SDPA.
        for number, d, causal, n in product(threads, widths, (False, True), lengths):
            if not quick and n <= 2048 and (d != 64 or n == 64):
                yield Cell("types", n, d, causal, number, dtype="bfloat16")
    if "decode" in sections:
        for dtype, (heads, kv_heads) in product(halves, ((9, 3), (8, 8))):
            yield Cell("decode", 8192, 64, False, most, heads, dtype=dtype, kv_heads=kv_heads)
    if "training" in sections:
        for dtype, (n, heads) in product(("float32", "bfloat16"), ((1, 1), (64, 8), (512, 8))):
            yield Cell("training", n, 64, False, fewest, heads, dtype=dtype)
    if "packed" in sections:
        for number in threads:
            yield Cell("packed", 1024 if quick else 4096, 64, True, number)
