"""Can a model repeat what it read once (… A B … A → B)? With one layer, and with two."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from regard.lab import statistics
from regard.lab.experiment import Asked, Experiment, Setting
from regard.lab.measured import Bars, Chart, Finding, Measured, Outcome, Series, Table, Verdict
from regard.lab.said import Said
from regard.lab.threads import one_thread

_LAYERS = ("one", "two")
_SEEN = 1e-3  # of a score's spread: a smaller change than this is not worth the name
_REPEATS = 0.8  # who is right more often than this repeats
_CANNOT = 0.5  # who is right less often than this does not
_POINTS = 31  # of a curve


def measure(asked: Asked) -> Measured:
    """What a score can depend on; then models of one and of two layers, trained and watched."""
    with one_thread():
        data = _measured(asked)
    return Measured(data, _tables(data), _charts(data))


def _measured(asked: Asked) -> dict[str, Any]:
    from regard.lab.induction_training import model_of, sees_before, train, watched

    models, steps, fixed = asked["models"], asked["steps"], asked["distance"] == "fixed"
    names = _LAYERS if asked["two"] else _LAYERS[:1]
    total = models * len(names)
    data: dict[str, Any] = {"distance": asked["distance"], "steps": steps}
    data["sees"] = {name: [] for name in _LAYERS}
    for seed in range(asked.seed, asked.seed + models):
        for layers, name in enumerate(_LAYERS, 1):
            data["sees"][name].append(sees_before(model_of(layers, seed), seed))
            asked.progress(0, total)
    every = max(1, steps // (_POINTS - 1))
    data["at"] = list(range(0, steps, every))
    for nth, name in enumerate(names):
        of_layers = data[name] = {"right": [], "induction": [], "previous": [], "curves": []}
        for which in range(models):
            done = nth * models + which
            model = model_of(nth + 1, asked.seed + which)
            curve = train(
                model,
                steps,
                fixed,
                asked.seed + which,
                lambda step, done=done: asked.progress(done + step / steps, total),
            )
            of_layers["curves"].append(curve[::every])
            seen = watched(model, fixed, asked["tested"], asked.seed + which)
            for what, value in seen.items():
                of_layers[what].append(value)
    asked.progress(total, total)
    return data


def _trained(data: Mapping[str, Any]) -> list[str]:
    return [name for name in _LAYERS if name in data]


def _tables(data: Mapping[str, Any]) -> list[Table]:
    whats, names = ("right", "induction", "previous"), _trained(data)
    columns = ["induction.column.model"]
    columns += [f"induction.column.{what}.{name}" for what in whats for name in names]
    rows = [
        [nth + 1, *(data[name][what][nth] for what in whats for name in names)]
        for nth in range(len(data["one"]["right"]))
    ]
    return [Table("induction.table", columns, rows)]


def _charts(data: Mapping[str, Any]) -> list[Chart | Bars]:
    names, whats = _trained(data), ("right", "induction")
    groups = [[statistics.mean(data[name][what]) for name in names] for what in whats]
    learned = _bars("learned", names, groups, [f"induction.axis.{what}" for what in whats])
    lines = [
        Series(f"induction.layers.{name}", data["at"], *_range(data[name]["curves"]))
        for name in names
    ]
    loss = Chart("induction.chart.loss", "induction.axis.step", "induction.axis.loss", lines)
    sees = [[statistics.mean(data["sees"][name]) for name in _LAYERS]]
    return [learned, loss, _bars("sees", _LAYERS, sees, ["induction.axis.sees"])]


def _bars(
    key: str,
    names: Sequence[str],
    groups: Sequence[Sequence[statistics.Interval]],
    of: Sequence[str],
) -> Bars:
    value, low, high = ([[each[n] for each in group] for group in groups] for n in range(3))
    axis = of[0] if len(of) == 1 else "induction.axis.share"
    layers = [f"induction.layers.{name}" for name in names]
    return Bars(f"induction.chart.{key}", axis, layers, list(of), value, low, high)


def _range(curves: Sequence[Sequence[float]]) -> list[list[float]]:
    """Of several curves, point by point, the middle one, the lowest and the highest."""
    import numpy as np

    return [f(curves, axis=0).tolist() for f in (np.median, np.min, np.max)]


def judge(data: Mapping[str, Any]) -> Verdict:
    """Three parts: what a score can depend on; two layers, if trained, repeat; one does not."""
    one, two = data["sees"]["one"], data["sees"]["two"]
    sees = statistics.mean(two)
    outcome: Outcome = "open"
    if max(one) > _SEEN or sees.high < _SEEN:
        outcome = "fails"
    elif max(one) == 0.0 and sees.low > _SEEN:
        outcome = "holds"
    values = {"one": max(one), "two": sees.value, "low": sees.low, "high": sees.high}
    findings = [Finding(outcome, Said(f"induction.finding.sees.{outcome}", values))]
    if "two" in data:
        findings.append(_of_two(data))
    findings.append(_of_one(data))
    if "two" not in data:
        answer = "both" if findings[-1].outcome == "fails" else None
        return Verdict(findings, answer, [Said("induction.note.one")])
    answers = {("holds", "holds"): "two", ("holds", "fails"): "both", ("fails", "holds"): "none"}
    answer = answers.get((findings[1].outcome, findings[2].outcome))
    heads = {name: statistics.mean(data[name]["previous"]) for name in _LAYERS}
    values = {
        f"{name}{end}": min(1.0, max(0.0, number))
        for name, interval in heads.items()
        for end, number in zip(("", "_low", "_high"), interval, strict=True)
    }
    return Verdict(findings, answer, [Said("induction.note.previous", values)])


def _values(data: Mapping[str, Any], name: str) -> dict[str, Any]:
    right, heads = (statistics.mean(data[name][what]) for what in ("right", "induction"))
    values = {"models": len(data[name]["right"]), "steps": data["steps"]}
    values |= {"right": right.value, "low": max(0.0, right.low), "high": min(1.0, right.high)}
    values |= {"share": heads.value, "share_low": max(0.0, heads.low)}
    return values | {"share_high": min(1.0, heads.high)}


def _of_two(data: Mapping[str, Any]) -> Finding:
    right = statistics.mean(data["two"]["right"])
    outcome: Outcome = "open"
    if right.low > _REPEATS:
        outcome = "holds"
    elif right.high < _REPEATS:
        outcome = "fails"
    return Finding(outcome, Said(f"induction.finding.two.{outcome}", _values(data, "two")))


def _of_one(data: Mapping[str, Any]) -> Finding:
    right = statistics.mean(data["one"]["right"])
    outcome: Outcome = "open"
    if right.high < _CANNOT:
        outcome = "holds"
    elif right.low > _CANNOT:
        outcome = "fails"
    return Finding(outcome, Said(f"induction.finding.one.{outcome}", _values(data, "one")))


EXPERIMENT = Experiment(
    "induction",
    guesses=("two", "both", "none"),
    settings=(
        Setting("models", 4, quick=3, least=2, most=50),
        Setting("steps", 450, quick=120, least=1, most=20_000),
        Setting("two", True, quick=False),
        Setting("tested", 256, quick=64, least=16, most=10_000),
        Setting("distance", "varied", choices=("varied", "fixed")),
    ),
    false={"distance": "fixed"},
    measure=measure,
    judge=judge,
)
