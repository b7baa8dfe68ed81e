"""Why scores are divided by √dₖ: how dot products grow, and what that does to softmax."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from regard import reference
from regard.lab import statistics
from regard.lab.experiment import Asked, Experiment, Setting
from regard.lab.measured import Chart, Finding, Measured, Outcome, Series, Table, Verdict
from regard.lab.said import Said
from regard.reference import Array

_WAYS = ("plain", "scaled")
_FIGURES = ("variance", "largest", "entropy", "gradient", "reach")
_DEAD = 0.1  # a gradient of less than this share of the scaled one counts as vanished
_BLOWN = 10.0  # one that grew to more than this many times that of the narrowest, as exploded


def measure(asked: Asked) -> Measured:
    """Variance of dot products, largest weight, entropy and gradients by width; then training."""
    widths = [2**n for n in range(1, 13) if 2**n <= asked["widest"]]
    trains = asked["steps"] > 0
    n_parts = len(widths) + (4 if trains else 0)
    measured: dict[str, dict[str, list[float]]] = {
        way: {name: [] for name in _FIGURES} for way in _WAYS
    }
    for nth, width in enumerate(widths):
        found = _of_width(asked, width, nth)
        for way, figures in found.items():
            for name, value in figures.items():
                measured[way][name].append(value)
        asked.progress(nth + 1, n_parts)
    data: dict[str, Any] = {"widths": widths, "keys": asked["keys"], "length": asked["length"]}
    data |= measured
    tables, charts = [_table(data)], _charts(data)
    if trains:
        from regard.lab.scaling_training import train

        data["training"] = train(
            asked, lambda share: asked.progress(len(widths) + 4 * share, n_parts)
        )
        charts.append(_curves(data["training"]))
    return Measured(data, tables, charts)


def _of_width(asked: Asked, width: int, part: int) -> dict[str, dict[str, float]]:
    """The figures of random queries and keys of this width, by way."""
    random = asked.random(part)
    n_keys = asked["keys"]
    n_queries = min(asked["queries"], max(16, 2**22 // (width * n_keys)) * 8)
    q = random.standard_normal((n_queries, width))
    k = random.standard_normal((n_keys, width))
    if asked["length"] == "one":
        q, k = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (q, k))
    scores = q @ k.T
    pull = random.standard_normal(
        (n_queries, n_keys)
    )  # the gradient that comes back to the weights
    found = {}
    for way, scale in (("plain", 1.0), ("scaled", width**-0.5)):
        weights = reference.softmax(scores * scale)
        back = _through_softmax(weights, pull)
        found[way] = {
            "variance": float((scores * scale).var()),
            "largest": float(weights.max(axis=1).mean()),
            "entropy": float(reference.entropy(weights).mean()),
            "gradient": float(np.median(np.linalg.norm(back, axis=1))),
            # What reaches a query: through the scale and the keys, by each of its numbers.
            "reach": float(np.median(np.linalg.norm(scale * back @ k, axis=1)) / np.sqrt(width)),
        }
    return found


def _through_softmax(weights: Array, pull: Array) -> Array:
    """The gradient before the softmax, of the one behind it: a · (g − Σ a g), row by row."""
    return weights * (pull - (weights * pull).sum(axis=1, keepdims=True))


def _table(data: Mapping[str, Any]) -> Table:
    columns = ["scaling.column.width"]
    columns += [f"scaling.column.{name}.{way}" for name in _FIGURES[:4] for way in _WAYS]
    rows = [
        [width, *(data[way][name][n] for name in _FIGURES[:4] for way in _WAYS)]
        for n, width in enumerate(data["widths"])
    ]
    return Table("scaling.table", columns, rows)


def _charts(data: Mapping[str, Any]) -> list[Any]:
    def chart(name: str, log: str) -> Chart:
        lines = [Series(f"scaling.way.{way}", data["widths"], data[way][name]) for way in _WAYS]
        return Chart(
            f"scaling.chart.{name}", "scaling.column.width", f"scaling.axis.{name}", lines, log
        )

    return [chart("variance", "xy"), chart("largest", "x"), chart("gradient", "xy")]


def _curves(training: Mapping[str, Any]) -> Chart:
    lines = [
        Series(
            f"scaling.way.{way}",
            training["at"],
            np.median(training[way], axis=0).tolist(),
            np.min(training[way], axis=0).tolist(),
            np.max(training[way], axis=0).tolist(),
        )
        for way in _WAYS
    ]
    return Chart("scaling.chart.training", "scaling.axis.step", "scaling.axis.loss", lines, "y")


def judge(data: Mapping[str, Any]) -> Verdict:
    """Five parts: growth, taming, vanishing, exploding, training."""
    widths, plain, scaled = data["widths"], data["plain"], data["scaled"]
    widest = widths[-1]
    grows = statistics.exponent(widths, plain["variance"])
    findings = [
        _finding(
            grows.low >= 0.9 and grows.high <= 1.1,
            "growth",
            exponent=grows.value,
            low=grows.low,
            high=grows.high,
            widest=widest,
            deviation=plain["variance"][-1] ** 0.5,
        )
    ]
    tame = max(abs(np.log(scaled["variance"][1:]))) < np.log(1.5)
    findings.append(
        _finding(bool(tame), "tame", least=min(scaled["variance"]), most=max(scaled["variance"]))
    )
    dead = plain["gradient"][-1] / scaled["gradient"][-1]
    findings.append(
        _finding(
            dead < _DEAD,
            "vanishes",
            share=dead,
            widest=widest,
            plain=plain["largest"][-1],
            scaled=scaled["largest"][-1],
        )
    )
    blown = max(max(plain[name]) / plain[name][0] for name in ("gradient", "reach"))
    # The notes say that it may explode as well: that is told, and is no part of the claim.
    exploded = Said(
        "scaling.finding.explodes" if blown > _BLOWN else "scaling.finding.no_explosion",
        {"most": blown},
    )
    if "training" in data:
        findings.append(_of_training(data["training"]))
    return Verdict(findings, "dies" if dead < _DEAD else "fine", [exploded])


def _of_training(training: Mapping[str, Any]) -> Finding:
    """Do the same models end with a smaller loss if their scores are divided?"""
    ends = {way: np.log([curve[-1] for curve in training[way]]) for way in _WAYS}
    gain = statistics.mean(ends["plain"] - ends["scaled"])
    outcome: Outcome = "holds" if gain.low > 0 else "fails" if gain.high < 0 else "open"
    values = {
        "models": len(training["plain"]),
        "width": training["width"],
        "plain": float(np.exp(np.mean(ends["plain"]))),
        "scaled": float(np.exp(np.mean(ends["scaled"]))),
        "times": float(np.exp(gain.value)),
        "low": float(np.exp(gain.low)),
        "high": float(np.exp(gain.high)),
    }
    return Finding(outcome, Said(f"scaling.finding.training.{outcome}", values))


def _finding(is_so: bool, key: str, **values: Any) -> Finding:
    outcome: Outcome = "holds" if is_so else "fails"
    return Finding(outcome, Said(f"scaling.finding.{key}.{outcome}", values))


EXPERIMENT = Experiment(
    "scaling",
    guesses=("dies", "grows", "fine"),
    settings=(
        Setting("widest", 4096, least=8, most=4096),
        Setting("keys", 64, least=2, most=1024),
        Setting("queries", 4096, quick=512, least=16, most=65536),
        Setting("length", "random", choices=("random", "one")),
        Setting("steps", 200, quick=40, least=0, most=5000),
        Setting("models", 12, quick=6, least=2, most=64),
    ),
    false={"length": "one"},
    measure=measure,
    judge=judge,
)
