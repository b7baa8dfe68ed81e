"""Where do W_Q, W_K and W_V come from? Random matrices, looked at while they are learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from regard.lab import statistics
from regard.lab.experiment import Asked, Experiment, Setting
from regard.lab.measured import Chart, Finding, Maps, Measured, Outcome, Series, Table, Verdict
from regard.lab.said import Said
from regard.lab.threads import one_thread

_PANES = 6  # maps that are shown
_PLAIN = 2.0  # times the weight that equal weights would give: less than this is no structure
_STRUCTURED = 0.5  # of the weight, on the right token: more than half of it
_LEARNED = 0.5  # of the loss of the beginning: whose loss falls below this has learned


def measure(asked: Asked) -> Measured:
    """Several models at once, their maps and losses step by step."""
    from regard.lab.learning_training import TOKENS, train

    steps = asked["steps"]
    # Close together in the beginning, where most happens.
    at = sorted({0, *(round(steps * (n / 20) ** 2) for n in range(1, 21))})
    with one_thread():
        found = train(asked, at)
    data = {
        "at": at,
        "tokens": TOKENS,
        "frozen": asked["frozen"],
        "targets": asked["targets"],
        "share": found["share"],
        "loss": found["loss"],
        "moved": found["moved"],
    }
    shown = sorted({at[round(n * (len(at) - 1) / (_PANES - 1))] for n in range(_PANES)})
    panes = [
        (Said("learning.pane", {"step": step}), found["maps"][at.index(step)]) for step in shown
    ]
    names = found["names"]
    maps = Maps("learning.chart.maps", panes, names, names)
    return Measured(data, [_table(data)], [maps, _chart(data, "share"), _chart(data, "loss")])


def _table(data: Mapping[str, Any]) -> Table:
    columns = ["learning.column.step", "learning.column.loss"]
    columns += [f"learning.column.{name}" for name in ("share", "low", "high")]
    rows = [
        [
            step,
            float(np.mean(data["loss"], axis=0)[n]),
            *statistics.mean(np.array(data["share"])[:, n]),
        ]
        for n, step in enumerate(data["at"])
    ]
    return Table("learning.table", columns, rows)


def _chart(data: Mapping[str, Any], name: str) -> Chart:
    by_step: Sequence[Sequence[float]] = np.array(data[name]).T.tolist()
    intervals = [statistics.mean(numbers) for numbers in by_step]
    values, low, high = (list(numbers) for numbers in zip(*intervals, strict=True))
    lines = [Series("learning.series.measured", data["at"], values, low, high)]
    if name == "share":
        equal = [1 / data["tokens"]] * len(data["at"])
        lines.append(Series("learning.series.equal", data["at"], equal))
    return Chart(f"learning.chart.{name}", "learning.column.step", f"learning.axis.{name}", lines)


def judge(data: Mapping[str, Any]) -> Verdict:
    """Three parts: no structure in the beginning, structure in the end, and what was learned."""
    shares, losses = np.array(data["share"]), np.array(data["loss"])
    equal, models, steps = 1 / data["tokens"], len(shares), data["at"][-1]
    first, last = statistics.mean(shares[:, 0]), statistics.mean(shares[:, -1])
    values = {"models": models, "equal": equal, "tokens": data["tokens"], "steps": steps}
    findings = [
        _finding(
            "first",
            "holds"
            if first.high < _PLAIN * equal
            else "fails"
            if first.low > _PLAIN * equal
            else "open",
            values,
            first,
        ),
        _finding(
            "last",
            "holds" if last.low > _STRUCTURED else "fails" if last.high < _STRUCTURED else "open",
            values,
            last,
        ),
    ]
    left = statistics.mean(losses[:, -1] / losses[:, 0])
    values |= {"begin": float(losses[:, 0].mean()), "end": float(losses[:, -1].mean())}
    outcome: Outcome = (
        "holds" if left.high < _LEARNED else "fails" if left.low > _LEARNED else "open"
    )
    findings.append(_finding("loss", outcome, values, left))
    answer = "learned" if findings[1].outcome == "holds" else "random"
    moved = {name: statistics.mean(data["moved"][name]) for name in ("w_q", "w_k", "w_v")}
    notes = [Said("learning.note.moved", {name: x.value for name, x in moved.items()})]
    for what in ("frozen", "targets"):
        if data[what] not in (False, "reversed"):
            notes.append(Said(f"learning.note.{what}"))
    return Verdict(findings, None if findings[1].outcome == "open" else answer, notes)


def _finding(
    key: str, outcome: Outcome, values: Mapping[str, Any], interval: statistics.Interval
) -> Finding:
    figures = {"value": interval.value, "low": max(0.0, interval.low), "high": interval.high}
    return Finding(outcome, Said(f"learning.finding.{key}.{outcome}", {**values, **figures}))


EXPERIMENT = Experiment(
    "learning",
    guesses=("learned", "made", "random"),
    settings=(
        Setting("models", 8, quick=5, least=2, most=64),
        Setting("steps", 1000, quick=200, least=20, most=20_000),
        Setting("frozen", False),
        Setting("targets", "reversed", choices=("reversed", "random")),
    ),
    false={"frozen": True},
    measure=measure,
    judge=judge,
)
