"""What is aimed at, and how far it gets."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from regard._bench.plan import full_plan
from regard._bench.results import Cell, Results, mean_ratio

__all__ = ["Target", "targets"]

_THREADS = (1, 2)


@dataclass(frozen=True)
class Target:
    """One number that is aimed at, and what was reached.

    >>> Target("forward", 1.25, at_most=False, unit="×", reached=1.3, cells=60, of=60).met
    True
    """

    what: str
    bound: float
    at_most: bool
    unit: str = ""
    reached: float | None = None  # None: not measured
    cells: int = 0  # that were measured,
    of: int = 1  # and that the target is about
    where: str = ""  # which cell decided

    @property
    def met(self) -> bool | None:
        """Whether it was reached; None where only a part was measured, or nothing."""
        if self.reached is None or self.cells < self.of:
            return None
        return self.reached <= self.bound if self.at_most else self.reached >= self.bound


def targets(results: Results) -> list[Target]:
    """All targets, with what these results reach of them.

    >>> targets(Results())[0].reached is None
    True
    """
    return [
        *_forward(results),
        *_observed(results),
        *_pooled(results),
        *_small_and_large(results),
    ]


def _forward(results: Results) -> Iterator[Target]:
    cells, of = _select(results, "forward")
    yield _mean("forward beside SDPA, geometric mean", 1.25, cells, of, "sdpa", "regard")
    slowest = min(cells, key=lambda cell: cell.ratio("sdpa", "regard") * cell.doubt(), default=None)
    yield Target(
        "its slowest cell; 1 less the A/A spread",
        1.0 if slowest is None else 1 / slowest.doubt(),
        at_most=False,
        unit="×",
        reached=slowest and slowest.ratio("sdpa", "regard"),
        cells=len(cells),
        of=of,
        where=slowest.title() if slowest else "",
    )
    cells, of = _select(results, "forward", lambda cell: cell.causal and cell.n <= 512)
    yield _mean("causal, N ≤ 512, geometric mean", 1.6, cells, of, "sdpa", "regard")
    for d, bound in ((64, 0.80), (128, 0.85)):
        cells, of = _select(
            results,
            "forward",
            lambda cell, d=d: (cell.n, cell.d, cell.causal, cell.threads) == (2048, d, False, 1),
        )
        reached = results.fraction(cells[0], "regard") if cells else None
        what = f"fraction of peak, N = 2,048, d = {d}, 1 thread"
        yield Target(what, bound, False, "", reached, len(cells), of)


def _observed(results: Results) -> Iterator[Target]:
    for causal, name in ((False, "observed"), (True, "the same, causal")):
        for what, bound, low, high in (
            ("N ≥ 4,096", 1.08, 4096, 1 << 62),
            ("N 1,024–2,048", 1.15, 1024, 2048),
            ("N 128–512", 1.4, 128, 512),
        ):
            cells, of = _select(
                results,
                "observed",
                lambda cell, low=low, high=high, causal=causal: (
                    low <= cell.n <= high and cell.causal == causal
                ),
            )
            what = f"{name}, multiple of plain, {what}"
            yield _worst(what, bound, cells, of, "observed", "plain")
        cells, of = _select(
            results,
            "observed",
            lambda cell, causal=causal: cell.n >= 512 and cell.causal == causal,
        )
        what = f"{name}, beside SDPA, N ≥ 512, mean"
        yield _mean(what, 1.1, cells, of, "sdpa", "observed")
    cells, of = _select(results, "rising")
    what = "observed, rising scores, multiple of plain"
    yield _worst(what, 1.3, cells, of, "observed", "plain")
    cells, of = _select(results, "eager")
    what = "observed beside eager PyTorch, N = 4,096"
    yield _mean(what, 9.0, cells, of, "eager", "observed")
    what = "the same with received"
    yield _mean(what, 6.0, cells, of, "eager with received", "received")
    cells, of = _select(results, "observed", lambda cell: cell.n >= 2048)
    what = "with received, multiple of plain, N ≥ 2,048"
    yield _worst(what, 1.75, cells, of, "received", "plain")


def _pooled(results: Results) -> Iterator[Target]:
    cells, of = _select(results, "tiles")
    fractions = {
        results.fraction(cell, name): f"{name}, {cell.title()}"
        for cell in cells
        for name in ("mean", "maximum")
    }
    lowest = min(fractions, default=None)
    what = "pooled, 256 × 256: its Q Kᵀ, fraction of peak"
    yield Target(what, 0.60, False, "", lowest, len(cells), of, fractions.get(lowest or 0.0, ""))


def _small_and_large(results: Results) -> Iterator[Target]:
    calls = results.of("calls")
    more = 1e6 * calls[0].difference("regard", "sdpa") if calls else None
    yield Target("smallest call, above SDPA's", 5.0, True, "µs", more, len(calls))
    kept = [kept for kept in results.memory if kept.n == 65_536]
    peak = kept[0].peak / 1e6 if kept else None
    what = "memory above the inputs, N = 65,536, observed"
    yield Target(what, 300.0, True, "MB", peak, len(kept))


def _select(
    results: Results, section: str, wanted: Callable[[Cell], bool] = lambda cell: True
) -> tuple[list[Cell], int]:
    """The measured cells that a target is about, and how many it is about."""
    of = {
        _key(cell)
        for cell in full_plan(_THREADS).cells()
        if cell.section == section and wanted(cell)
    }
    return [cell for cell in results.of(section) if _key(cell) in of], len(of)


def _key(cell: Cell) -> tuple[int, int, bool, int, int]:
    return cell.n, cell.d, cell.causal, cell.threads, cell.heads


def _mean(what: str, bound: float, cells: list[Cell], of: int, slow: str, fast: str) -> Target:
    reached = mean_ratio(cells, slow, fast) if cells else None
    return Target(what, bound, False, "×", reached, len(cells), of)


def _worst(what: str, bound: float, cells: list[Cell], of: int, slow: str, fast: str) -> Target:
    worst = max(cells, key=lambda cell: cell.ratio(slow, fast), default=None)
    reached = worst.ratio(slow, fast) if worst else None
    where = worst.title() if worst else ""
    return Target(what, bound, True, "×", reached, len(cells), of, where)
