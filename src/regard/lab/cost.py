"""What attention costs as texts grow: comparisons, seconds and memory, written out and fused."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import time
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

from regard.lab import statistics
from regard.lab.experiment import Asked, Experiment, Setting
from regard.lab.measured import Chart, Finding, Measured, Outcome, Series, Table, Verdict
from regard.lab.said import Said

_LENGTHS = (1_000, 2_000, 4_000, 8_000, 16_000, 32_000, 64_000, 100_000)
_WIDTH = 64
_PIECE = 8_192  # queries that are computed at a time: in between it can be stopped
_STATUS = Path("/proc/self/status")
_GIGABYTE = 1e9
_WAYS = ("eager", "fused")
_FIRST = 4_000  # from here on calls are long enough for their exponent to mean something


def measure(asked: Asked) -> Measured:
    """One head of 64 numbers, every query against every key, at growing lengths."""
    import torch

    limit, window = asked["limit"] * _GIGABYTE, asked["window"]
    lengths = [n for n in _LENGTHS if n <= asked["longest"]]
    work = [float(n) ** 2 for n in lengths]
    rows: list[dict[str, Any]] = []
    with torch.no_grad():
        # A small one first brings in what is loaded once.
        _of_length(_PIECE // 16, limit, window, asked.seed, lambda share: None)
        for nth, n in enumerate(lengths):
            before = sum(work[:nth])
            step = partial(_tell, asked, before, work[nth], sum(work))
            rows.append(_of_length(n, limit, window, asked.seed, step))
            step(1.0)
    data = {"rows": rows, "limit": limit, "window": window, "width": _WIDTH}
    return Measured(data, [_table(rows)], _charts(rows))


def _tell(asked: Asked, before: float, work: float, of: float, share: float) -> None:
    asked.progress(before + work * share, of)


def _of_length(
    n: int, limit: float, window: int, seed: int, step: Callable[[float], None]
) -> dict[str, Any]:
    """Seconds and bytes of both ways at one length, and how far their answers are apart."""
    import torch

    generator = torch.Generator().manual_seed(seed + n)
    q, k, v = (torch.randn(1, 1, n, _WIDTH, generator=generator) for _ in range(3))
    # The scores, and the weights made of them: twice N × N of 4 bytes.
    row: dict[str, Any] = {"length": n, "comparisons": _compared(n, window), "needs": 8.0 * n * n}
    row["fused"], row["fused_bytes"] = _best(lambda: _fused(q, k, v, window, step))
    row["eager"] = row["eager_bytes"] = row["apart"] = None
    if row["needs"] <= limit:
        row["eager"], row["eager_bytes"] = _best(lambda: _eager(q, k, v, window))
        apart = _eager(q, k, v, window) - _fused(q, k, v, window, step)
        row["apart"] = float(apart.abs().max())
    return row


def _compared(n: int, window: int) -> int:
    """How many pairs of a query and a key are compared: all, or those within the window."""
    if not window or window >= n:
        return n * n
    return sum(min(n, i + window + 1) - max(0, i - window) for i in range(n))


def _eager(q: Any, k: Any, v: Any, window: int) -> Any:
    """Attention as it is written down: the whole matrix of scores, and that of weights."""
    import torch

    scores = q @ k.mT / _WIDTH**0.5
    if window:
        at = torch.arange(q.shape[2])
        scores.masked_fill_((at[:, None] - at).abs() > window, -torch.inf)
    return torch.softmax(scores, -1) @ v


def _fused(q: Any, k: Any, v: Any, window: int, step: Callable[[float], None]) -> Any:
    """The same, without either matrix, some thousand queries at a time."""
    import torch

    from regard import attention

    if window:  # few keys a query: the whole is done at once
        return attention(q, k, v, window=(window, window))
    out = torch.empty_like(q)
    n = q.shape[2]
    for first in range(0, n, _PIECE):
        rows = slice(first, first + _PIECE)
        out[:, :, rows] = attention(q[:, :, rows], k, v)
        step(min(1.0, (first + _PIECE) / n))
    return out


def _best(call: Callable[[], object]) -> tuple[float, float | None]:
    """The least seconds of a call, of three if it is short; and the bytes that it takes at most."""
    best = float("inf")
    seconds = 0.0
    taken = _peak(call)
    for _ in range(3):
        start = time.perf_counter()
        call()
        best = min(best, time.perf_counter() - start)
        seconds += best
        if seconds > 1.0:
            break
    return best, taken


def _peak(call: Callable[[], object]) -> float | None:
    """The most memory of a call above what is held before it; None where nobody counts it."""
    if not _STATUS.exists():
        return None
    _give_back()
    before = _bytes("VmRSS")
    try:  # the peak starts again from what is held now (Linux)
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")
    except OSError:
        return None
    made = call()
    taken = _bytes("VmHWM") - before
    del made
    return float(max(0, taken))


def _give_back() -> None:
    """Have memory that was freed go back to the system, or what is taken of it next goes unseen."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):  # another C library than GNU's
        ctypes.CDLL(None).malloc_trim(0)


def _bytes(name: str) -> int:
    lines = _STATUS.read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{name}:")) * 1024


def _table(rows: list[dict[str, Any]]) -> Table:
    columns = ["cost.column.length", "cost.column.comparisons"]
    columns += [f"cost.column.{way}.{what}" for what in ("seconds", "megabytes") for way in _WAYS]
    shown = [
        [
            row["length"],
            row["comparisons"],
            *(row[way] for way in _WAYS),
            *(None if row[f"{way}_bytes"] is None else row[f"{way}_bytes"] / 1e6 for way in _WAYS),
        ]
        for row in rows
    ]
    return Table("cost.table", columns, shown)


def _charts(rows: list[dict[str, Any]]) -> list[Chart]:
    def chart(what: str, axis: str, of: str, by: float) -> Chart:
        series = []
        for way in _WAYS:
            found = [row for row in rows if row[f"{way}{of}"]]
            x, y = [row["length"] for row in found], [row[f"{way}{of}"] / by for row in found]
            series.append(Series(f"cost.way.{way}", x, y))
        return Chart(f"cost.chart.{what}", "cost.column.length", axis, series, "xy")

    return [
        chart("seconds", "lab.axis.seconds", "", 1.0),
        chart("memory", "lab.axis.megabytes", "_bytes", 1e6),
    ]


def judge(data: Mapping[str, Any]) -> Verdict:
    """Do comparisons and seconds grow with the square of the length; and does memory?"""
    rows = data["rows"]
    lengths = [row["length"] for row in rows]
    compared = statistics.exponent(lengths, [row["comparisons"] for row in rows])
    findings = [
        _finding(
            abs(compared.value - 2) < 0.01,
            "comparisons",
            exponent=compared.value,
            longest=lengths[-1],
            most=rows[-1]["comparisons"],
        )
    ]
    long = [row for row in rows if row["length"] >= _FIRST]
    if len(long) >= 3:
        grows = statistics.exponent([row["length"] for row in long], [row["fused"] for row in long])
        values = {"exponent": grows.value, "low": grows.low, "high": grows.high}
        outcome: Outcome = "open"
        if 1.7 <= grows.value <= 2.3 and grows.high - grows.low < 1.2:
            outcome = "holds"
        elif grows.high < 1.7 or grows.low > 2.3:
            outcome = "fails"
        values |= {"longest": lengths[-1], "seconds": rows[-1]["fused"]}
        findings.append(Finding(outcome, Said(f"cost.finding.seconds.{outcome}", values)))
    notes = _of_memory(rows, data["limit"])
    answer = "square" if findings[0].outcome == "holds" else "straight"
    if findings[-1].outcome == "open":
        answer = None
    return Verdict(findings, answer, notes)


def _of_memory(rows: list[Mapping[str, Any]], limit: float) -> list[Said]:
    """The matrix of weights takes N²; fused attention has none."""
    notes = []
    eager = [row for row in rows if row["eager_bytes"] and row["length"] >= 2_000]
    if len(eager) >= 2:
        first, last = eager[-2], eager[-1]
        values = {
            "first": first["length"],
            "last": last["length"],
            "times": last["length"] / first["length"],
            "more": last["eager_bytes"] / first["eager_bytes"],
        }
        notes.append(Said("cost.note.eager", values))
    fused = rows[-1]
    if fused["fused_bytes"] is not None:
        values = {
            "longest": fused["length"],
            "fused": fused["fused_bytes"] / 1e6,
            "needs": fused["needs"] / _GIGABYTE,
        }
        notes.append(Said("cost.note.fused", values))
    ends = int((limit / 8) ** 0.5)
    notes.append(Said("cost.note.limit", {"limit": limit / _GIGABYTE, "length": ends}))
    return notes


def _finding(is_so: bool, key: str, **values: Any) -> Finding:
    outcome: Outcome = "holds" if is_so else "fails"
    return Finding(outcome, Said(f"cost.finding.{key}.{outcome}", values))


EXPERIMENT = Experiment(
    "cost",
    guesses=("straight", "square", "cube"),
    settings=(
        Setting("longest", 100_000, quick=16_000, least=4_000, most=100_000),
        Setting("limit", 2.0, quick=1.0, least=0.01, most=1000.0),
        Setting("window", 0, least=0, most=100_000),
    ),
    false={"window": 128},
    measure=measure,
    judge=judge,
)
