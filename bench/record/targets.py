"""What the project aims at, and how far results of `regard bench` get: `targets.py FILE.json`."""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import geometric_mean

from regard._bench.plan import plan_cells
from regard._bench.results import Cell, Results, from_json
from regard._bench.types import padding_saved

__all__ = ["TARGETS", "Judged", "judge"]


def _beside_sdpa(_: Results, cell: Cell) -> float:
    return cell.ratio("sdpa", "regard" if "regard" in cell.seconds else "observed")


def _with_spread(results: Results, cell: Cell) -> float:
    """A cell may be slower than its peer by what the peer is slower than itself."""
    low, high = cell.noise() or (1.0, 1.0)
    return _beside_sdpa(results, cell) * max(high, 1 / low, 1.0)


# What is measured of a cell: whether it should be high or low, its unit, and how it is made.
_MEASURES: dict[str, tuple[str, str, Callable[[Results, Cell], float]]] = {
    "beside SDPA": ("≥", "×", _beside_sdpa),
    "beside SDPA, and its A/A spread": ("≥", "×", _with_spread),
    "fraction of peak": ("≥", "", lambda results, cell: results.fraction(cell, "regard")),
    "multiple of plain": ("≤", "×", lambda _, cell: cell.ratio("observed", "plain")),
    "multiple of plain with received": ("≤", "×", lambda _, cell: cell.ratio("received", "plain")),
    "eager as a multiple": ("≥", "×", lambda _, cell: cell.ratio("eager", "observed")),
    "the same with received": (
        "≥",
        "×",
        lambda _, cell: cell.ratio("eager with received", "received"),
    ),
    "Q Kᵀ, fraction of peak": (
        "≥",
        "",
        lambda results, cell: min(results.fraction(cell, name) for name in ("mean", "maximum")),
    ),
    "observed beside SDPA": ("≥", "×", lambda _, cell: cell.ratio("sdpa", "observed")),
    "multiple of float32": ("≤", "×", lambda _, cell: cell.ratio("regard", "float32")),
    "beside float32": ("≥", "×", lambda _, cell: cell.ratio("float32", "regard")),
    "multiple of SDPA": ("≤", "×", lambda _, cell: cell.ratio("regard", "sdpa")),
    "packed, of what padding saves": (
        "≥",
        "×",
        lambda _, cell: cell.ratio("padded", "packed") / padding_saved(cell.n),
    ),
    "above SDPA's": ("≤", "µs", lambda _, cell: 1e6 * cell.difference("regard", "sdpa")),
    "above the inputs": ("≤", "MB", lambda _, cell: cell.memory / 1e6),
}


@dataclass(frozen=True)
class Target:
    """A bound for the worst of the cells of these sizes, or for their geometric mean."""

    section: str
    measure: str
    bound: float
    n: tuple[int, int] = (1, 65_536)  # the least and the most
    causal: bool | None = None  # None: both
    d: int | None = None
    threads: int | None = None
    mean: bool = False
    dtype: str | None = None
    heads: tuple[int, int] | None = None  # query heads, key heads

    def about(self, cell: Cell) -> bool:
        """Whether the target is about a cell."""
        return (
            cell.section == self.section
            and self.n[0] <= cell.n <= self.n[1]
            and self.causal in (None, cell.causal)
            and self.d in (None, cell.d)
            and self.threads in (None, cell.threads)
            and self.dtype in (None, cell.dtype)
            and self.heads in (None, (cell.heads, cell.kv_heads or cell.heads))
        )


TARGETS = (
    Target("forward", "beside SDPA", 1.25, mean=True),
    Target("forward", "beside SDPA, and its A/A spread", 1.0),
    Target("forward", "beside SDPA", 1.6, (64, 512), causal=True, mean=True),
    Target("forward", "fraction of peak", 0.80, (2048, 2048), causal=False, d=64, threads=1),
    Target("forward", "fraction of peak", 0.85, (2048, 2048), causal=False, d=128, threads=1),
    Target("observed", "multiple of plain", 1.08, (4096, 8192), causal=False),
    Target("observed", "multiple of plain", 1.15, (1024, 2048), causal=False),
    Target("observed", "multiple of plain", 1.4, (128, 512), causal=False),
    Target("observed", "beside SDPA", 1.1, (512, 8192), causal=False, mean=True),
    Target("observed", "multiple of plain", 1.08, (4096, 8192), causal=True),
    Target("observed", "multiple of plain", 1.15, (1024, 2048), causal=True),
    Target("observed", "multiple of plain", 1.4, (128, 512), causal=True),
    Target("observed", "beside SDPA", 1.1, (512, 8192), causal=True, mean=True),
    Target("rising", "multiple of plain", 1.3),
    Target("eager", "eager as a multiple", 9.0),
    Target("eager", "the same with received", 6.0),
    Target("observed", "multiple of plain with received", 1.75, (2048, 8192)),
    Target("tiles", "Q Kᵀ, fraction of peak", 0.60),
    Target("calls", "above SDPA's", 5.0),
    Target("memory", "above the inputs", 300.0),
    Target("types", "beside SDPA", 1.25, dtype="bfloat16", mean=True),
    Target("types", "beside SDPA, and its A/A spread", 1.0, dtype="bfloat16"),
    Target("types", "observed beside SDPA", 1.1, (512, 8192), dtype="bfloat16", mean=True),
    Target("types", "multiple of float32", 1.1, (128, 8192), dtype="bfloat16"),
    Target("types", "multiple of float32", 1.1, (128, 8192), dtype="float16"),
    Target("types", "beside SDPA", 1.0, dtype="float64"),
    Target("decode", "beside float32", 1.3, dtype="bfloat16", heads=(9, 3)),
    Target("decode", "beside float32", 1.5, dtype="bfloat16", heads=(8, 8)),
    Target("training", "multiple of SDPA", 1.25, (64, 64), dtype="float32"),
    Target("training", "multiple of SDPA", 1.8, (1, 1), dtype="float32"),
    Target("packed", "packed, of what padding saves", 1.0),
)


@dataclass(frozen=True)
class Judged:
    """What was reached of a target."""

    reached: float | None  # None: not measured
    met: bool | None  # None: only a part of its cells was measured, or nothing
    cells: int  # that were measured,
    of: int  # and that the target is about
    worst: str  # of these cells


def judge(target: Target, results: Results) -> Judged:
    """How far these results get; a target is about what is planned for one and two threads."""
    sign, _, measure = _MEASURES[target.measure]
    about = {_size(cell) for cell in plan_cells((1, 2)) if target.about(cell)}
    cells = [cell for cell in results.of(target.section) if _size(cell) in about]
    if not cells:
        return Judged(None, None, 0, len(about), "")
    values = [measure(results, cell) for cell in cells]
    worst = (max if sign == "≤" else min)(values)
    reached = geometric_mean(values) if target.mean else worst
    met = None
    if len(cells) == len(about):
        met = reached <= target.bound if sign == "≤" else reached >= target.bound
    return Judged(reached, met, len(cells), len(about), cells[values.index(worst)].title())


def _size(cell: Cell) -> tuple[int, int, bool, int, int, int, str]:
    heads = cell.heads, cell.kv_heads
    return cell.n, cell.d, cell.causal, cell.threads, *heads, cell.dtype


def main() -> None:
    """Print what is aimed at, what was reached, and where it was missed."""
    results = from_json(Path(sys.argv[1]).read_text(encoding="utf-8"))
    print("What the project aims at, and how far this gets")
    for target in TARGETS:
        sign, unit, _ = _MEASURES[target.measure]
        judged = judge(target, results)
        low, high = target.n
        causal = {None: "", True: ", causal", False: ", not causal"}[target.causal]
        about = "" if (low, high) == (1, 65_536) else f"N {low:,}–{high:,}{causal}"
        if low == high:
            about = f"N = {low:,}{f', d = {target.d}' if target.d else ''}{causal}"
        heads = "" if target.heads is None else f"{target.heads[1]} key heads"
        about = ", ".join(part for part in (target.dtype, heads, about) if part)
        reached = "–" if judged.reached is None else f"{judged.reached:.3g} {unit}"
        verdict = f"{judged.cells} of {judged.of}"
        if judged.met is not None:
            verdict = "yes" if judged.met else f"no: {judged.worst}"
        measure = target.measure + ", mean" * target.mean
        print(
            f"{target.section:<9}{measure:<32}{about:<31}{reached:>8}"
            f"  {sign} {f'{target.bound:g} {unit}':<7} {verdict}"
        )


if __name__ == "__main__":
    main()
