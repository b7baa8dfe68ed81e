"""Does an RNN forget what attention can still reach? LSTM, GRU and attention, by distance."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from regard.lab import statistics
from regard.lab.experiment import Asked, Experiment, Setting
from regard.lab.measured import Chart, Finding, Measured, Outcome, Series, Table, Verdict
from regard.lab.recall_tasks import SIZES, TASKS
from regard.lab.said import Said
from regard.lab.statistics import Interval
from regard.lab.threads import one_thread

_DISTANCES = (2, 4, 8, 16, 32, 64, 128, 256, 512)
_RECURRENT = ("lstm", "gru")
_KINDS = (*_RECURRENT, "attention")
_SEQUENCES = 8  # whose gradients are measured at a time
_FADED = 2.0  # powers of ten below attention's: a gradient of less than a hundredth has faded
_KNOWS = 0.9  # who is right more often than this has not forgotten
_LOST = 1e-290  # what a gradient of exactly 0 is written as, or less


def measure(asked: Asked) -> Measured:
    """Gradients before training, seconds of a step, then training and what came of it."""
    distances = [n for n in _DISTANCES if n <= asked["longest"]]
    parts = {"initial": 1.0, "seconds": 0.5, "trained": asked["steps"] / 60.0}
    total = sum(parts.values())
    data: dict[str, Any] = {"distances": distances, "window": asked["window"]}
    # A token sees itself and window − 1 before it.
    seen = [not asked["window"] or n < asked["window"] for n in distances]
    one_step = [1 if reached else None for reached in seen]
    data["path"] = {**dict.fromkeys(_RECURRENT, distances), "attention": one_step}
    with one_thread():
        data |= _initial(asked, distances, lambda share: asked.progress(share, total))
    data["seconds"] = _seconds(asked, distances, lambda share: asked.progress(1 + share / 2, total))
    if asked["steps"]:
        data["trained"] = {}
        for nth, task in enumerate(TASKS):
            done = 1.5 + nth * parts["trained"] / 2
            of_task = parts["trained"] / 2

            def tell(share: float, done: float = done, of_task: float = of_task) -> None:
                asked.progress(done + share * of_task, total)

            with one_thread():
                data["trained"][task] = _trained(asked, task, distances, tell)
    return Measured(data, _tables(data), _charts(data))


def _initial(asked: Asked, distances: Sequence[int], tell: Any) -> dict[str, Any]:
    """Of each task and kind, at each distance: the gradient's reach (log₁₀) in each beginning."""
    from regard.lab.recall_readers import reach, readers

    found: dict[str, Any] = {task: {kind: [] for kind in _KINDS} for task in TASKS}
    parameters: dict[str, int] = {}
    steps = len(TASKS) * len(distances)
    for nth, task in enumerate(TASKS):
        some = [readers(task, asked.seed + n, asked["window"]) for n in range(asked["beginnings"])]
        counts = {k: sum(p.numel() for p in r.parameters()) for k, r in some[0].items()}
        parameters = parameters or counts
        for at, distance in enumerate(distances):
            for kind in _KINDS:
                logarithms = []
                for n, each in enumerate(some):
                    found_reach = reach(each[kind], task, distance, _SEQUENCES, asked.seed + n)
                    logarithms.append(float(found_reach.mean()))
                    tell((nth * len(distances) + at) / steps)
                found[task][kind].append(logarithms)
    return {"parameters": parameters, "initial": found}


def _seconds(asked: Asked, distances: Sequence[int], tell: Any) -> dict[str, Any]:
    """Seconds of a step of training on one sequence, by length; and on a batch at the longest."""
    from regard.lab.recall_readers import BATCH, readers, seconds

    some = readers(TASKS[0], asked.seed)
    lengths = [n for n in distances if n >= 8] or list(distances)
    if asked.quick:
        lengths = lengths[::-3][::-1]  # every third, and the longest
    else:
        lengths += [2 * lengths[-1], 4 * lengths[-1]]
    times: dict[str, Any] = {kind: [] for kind in _KINDS}
    for nth, length in enumerate(lengths):
        found = seconds(some, length, 1, asked["repeats"], lambda nth=nth: tell(nth / len(lengths)))
        for kind in _KINDS:
            times[kind].append(found[kind])
    batched = seconds(some, distances[-1], BATCH, asked["repeats"], lambda: tell(1.0))
    return {"lengths": lengths, "times": times, "batch": BATCH, "batched": batched}


def _trained(asked: Asked, task: str, distances: Sequence[int], tell: Any) -> dict[str, Any]:
    """Each kind after one training on all distances: who is right how often, and the gradient."""
    from regard.lab.recall_readers import reach, readers, right, train

    found: dict[str, Any] = {"of": asked["tested"], "chance": 1 / SIZES[task].answers}
    steps, seed = asked["steps"], asked.seed
    for nth, (kind, reader) in enumerate(readers(task, seed, asked["window"]).items()):
        losses = train(
            reader,
            task,
            distances,
            steps,
            seed + 1,
            lambda step, nth=nth: tell((nth + step / steps) / len(_KINDS)),
        )
        of_kind: dict[str, Any] = {"loss": losses[:: max(1, steps // 50)], "right": [], "reach": []}

        def trained(nth: int = nth) -> None:
            tell((nth + 1) / len(_KINDS))

        for distance in distances:
            of_kind["right"].append(right(reader, task, distance, found["of"], seed + 2, trained))
            logarithms = reach(reader, task, distance, 4 * _SEQUENCES, seed + 3)
            of_kind["reach"].append(list(statistics.mean(logarithms.tolist())))
            trained()
        found[kind] = of_kind
    return found


# ── what is shown ─────────────────────────────────────────────────────────────────────────────


def _shares(trained: Mapping[str, Any], kind: str) -> list[Interval]:
    return [statistics.share(right, trained["of"]) for right in trained[kind]["right"]]


def _tables(data: Mapping[str, Any]) -> list[Table]:
    distances, times = data["distances"], data["seconds"]
    columns = ["recall.column.task", "recall.column.distance"]
    columns += [f"recall.column.{what}.{kind}" for what in ("path", "reach") for kind in _KINDS]
    rows: list[list[Any]] = []
    for task, of_task in data["initial"].items():
        means = {kind: _means(of_task[kind]) for kind in _KINDS}
        rows += [
            [Said(f"recall.task.{task}"), distance, *(data["path"][kind][n] for kind in _KINDS)]
            + [10.0 ** means[kind][n].value for kind in _KINDS]
            for n, distance in enumerate(distances)
        ]
    found = [Table("recall.table.reach", columns, rows)]
    for task, trained in data.get("trained", {}).items():
        columns = ["recall.column.distance"]
        columns += [
            f"recall.column.{what}.{k}" for k in _KINDS for what in ("right", "low", "high")
        ]
        shares = {kind: _shares(trained, kind) for kind in _KINDS}
        rows = [
            [distance, *(x for kind in _KINDS for x in shares[kind][n])]
            for n, distance in enumerate(distances)
        ]
        found.append(Table(f"recall.table.{task}", columns, rows))
    columns = ["recall.column.length", *(f"recall.column.token.{kind}" for kind in _KINDS)]
    rows = [
        [length, *(1e6 * _middle(times["times"][kind][n]) / length for kind in _KINDS)]
        for n, length in enumerate(times["lengths"])
    ]
    return [*found, Table("recall.table.seconds", columns, rows)]


def _means(by_distance: Sequence[Sequence[float]]) -> list[Interval]:
    return [statistics.mean(logarithms) for logarithms in by_distance]


def _charts(data: Mapping[str, Any]) -> list[Chart]:
    distances, times = data["distances"], data["seconds"]
    trained = data.get("trained", {})

    def lines(found: Mapping[str, Sequence[Sequence[float]]], x: Sequence[int]) -> list[Series]:
        return [
            Series(f"recall.kind.{kind}", x, *zip(*found[kind], strict=True)) for kind in _KINDS
        ]

    def chart(key: str, x: str, y: str, series: list[Series], log: str) -> Chart:
        return Chart(f"recall.chart.{key}", f"recall.column.{x}", f"recall.axis.{y}", series, log)

    found = [
        chart(
            f"right.{task}",
            "distance",
            "right",
            lines({kind: _shares(of_task, kind) for kind in _KINDS}, distances),
            "x",
        )
        for task, of_task in trained.items()
    ]
    means = {kind: _means(data["initial"]["recall"][kind]) for kind in _KINDS}
    found.append(chart("reach", "distance", "reach", lines(means, distances), "x"))
    found += [
        chart(
            f"reached.{task}",
            "distance",
            "reach",
            lines({kind: of_task[kind]["reach"] for kind in _KINDS}, distances),
            "x",
        )
        for task, of_task in trained.items()
    ]
    per_token = {
        kind: [
            [f(x) * 1e6 / length for f in (_middle, min, max)]
            for x, length in zip(times["times"][kind], times["lengths"], strict=True)
        ]
        for kind in _KINDS
    }
    series = lines(per_token, times["lengths"])
    return [*found, chart("seconds", "length", "microseconds", series, "xy")]


# ── what follows ──────────────────────────────────────────────────────────────────────────────


def judge(data: Mapping[str, Any]) -> Verdict:
    """Four parts: the gradient's reach, the path, time a token, and what was learned."""
    reached, answer = _of_reach(data)
    findings = [reached, _of_path(data)]
    findings += [
        _of_training(data["distances"][-1], task, trained)
        for task, trained in data.get("trained", {}).items()
    ]
    findings.append(_of_seconds(data))
    return Verdict(findings, answer, _notes(data))


def _of_reach(data: Mapping[str, Any]) -> tuple[Finding, str | None]:
    """Before training, at the longest distance: has the gradient of a recurrent layer faded?"""
    last = {
        (task, kind): np.array(data["initial"][task][kind][-1]) for task in TASKS for kind in _KINDS
    }
    # The least of all gaps decides: that of the recurrent layer and the task where most is left.
    gap, task, kind = min(
        (statistics.mean(last[task, "attention"] - last[task, kind]), task, kind)
        for task in TASKS
        for kind in _RECURRENT
    )
    own, other = (statistics.mean(last[task, name]) for name in (kind, "attention"))
    reaches = 10.0**other.value > _LOST
    outcome: Outcome = "open"
    if not reaches or gap.high < _FADED:
        outcome = "fails"
    elif gap.low > _FADED:
        outcome = "holds"
    values = {"distance": data["distances"][-1], "kind": Said(f"recall.kind.{kind}")}
    values |= {"task": Said(f"recall.task.{task}")}
    values |= {"own": 10.0**own.value, "low": 10.0**own.low, "high": 10.0**own.high}
    values |= {"other": 10.0**other.value, "beginnings": len(last[task, kind])}
    values |= {"other_low": 10.0**other.low, "other_high": 10.0**other.high}
    key = outcome if reaches else "unreached"
    answer = {"holds": "rnn", "fails": "neither", "unreached": "both"}.get(key)
    return Finding(outcome, Said(f"recall.finding.reach.{key}", values)), answer


def _middle(times: Sequence[float]) -> float:
    """The geometric mean."""
    return float(np.exp(np.mean(np.log(times))))


def _of_path(data: Mapping[str, Any]) -> Finding:
    """How many steps lie between the first token and the answer: counted, not estimated."""
    paths, distance = data["path"], data["distances"][-1]
    values = {"distance": distance, "window": data["window"]}
    values |= {"recurrent": paths["lstm"][-1]}
    outcome: Outcome = "holds" if all(n == 1 for n in paths["attention"]) else "fails"
    return Finding(outcome, Said(f"recall.finding.path.{outcome}", values))


def _of_seconds(data: Mapping[str, Any]) -> Finding:
    """One sequence of the longest distance: does a token take less time if all are read at once?"""
    times, length = data["seconds"], data["distances"][-1]
    at = times["lengths"].index(length)
    logarithms = {kind: np.log(times["times"][kind][at]) for kind in _KINDS}
    fastest = min(_RECURRENT, key=lambda kind: float(logarithms[kind].mean()))
    gain = statistics.mean(logarithms[fastest] - logarithms["attention"])
    outcome: Outcome = "holds" if gain.low > 0 else "fails" if gain.high < 0 else "open"
    values = {"length": length, "kind": Said(f"recall.kind.{fastest}")}
    values |= {
        name: float(np.exp(x)) for name, x in zip(("times", "low", "high"), gain, strict=True)
    }
    # Geometric means, so that one divided by the other is how many times as long.
    each = {kind: 1e6 * float(np.exp(logarithms[kind].mean())) / length for kind in _KINDS}
    values |= {"own": each[fastest], "attention": each["attention"]}
    return Finding(outcome, Said(f"recall.finding.seconds.{outcome}", values))


def _of_training(distance: int, task: str, trained: Mapping[str, Any]) -> Finding:
    """After one training on all distances: who still knows the first token at the longest?"""
    shares = {kind: _shares(trained, kind)[-1] for kind in _KINDS}
    best = max(_RECURRENT, key=lambda kind: shares[kind].value)
    own, attention = shares[best], shares["attention"]
    outcome: Outcome = "open"
    if own.low > _KNOWS or own.low > attention.high:
        outcome = "fails"
    elif attention.low > own.high:
        outcome = "holds"
    values = {"distance": distance, "kind": Said(f"recall.kind.{best}"), "of": trained["of"]}
    values |= {"task": Said(f"recall.task.{task}"), "chance": trained["chance"]}
    values |= {"own": own.value, "low": own.low, "high": own.high, "attention": attention.value}
    values |= {"attention_low": attention.low, "attention_high": attention.high}
    return Finding(outcome, Said(f"recall.finding.training.{outcome}", values))


def _notes(data: Mapping[str, Any]) -> list[Said]:
    distances, times = data["distances"], data["seconds"]
    notes = []
    initial = {kind: [x.value for x in _means(data["initial"]["recall"][kind])] for kind in _KINDS}
    if len(distances) >= 3 and initial["attention"][-1] > np.log10(_LOST):
        halves = {
            kind: -np.log10(2) / statistics.slope(distances, initial[kind]).value
            for kind in _RECURRENT
        }
        power = statistics.slope(np.log10(distances), initial["attention"])
        values = {"power": power.value, "low": power.low, "high": power.high}
        notes.append(Said("recall.note.decay", values | {k: float(n) for k, n in halves.items()}))
    for task, trained in data.get("trained", {}).items():
        values: dict[str, Any] = {"distance": distances[-1], "task": Said(f"recall.task.{task}")}
        values |= {kind: 10.0 ** trained[kind]["reach"][-1][0] for kind in _KINDS}
        notes.append(Said("recall.note.trained", values))
    if "trained" in data:
        notes.append(Said("recall.note.once"))
    medians = {kind: float(np.median(times["batched"][kind])) for kind in _KINDS}
    batched = min(medians[kind] for kind in _RECURRENT) / medians["attention"]
    values = {"batch": times["batch"], "length": distances[-1], "times": batched}
    notes.append(Said("recall.note.batch", values))
    counts = ", ".join(f"{count:,}" for count in data["parameters"].values())
    return [*notes, Said("recall.note.parameters", {"counts": counts})]


EXPERIMENT = Experiment(
    "recall",
    guesses=("rnn", "both", "neither"),
    settings=(
        Setting("longest", 512, least=2, most=512),
        Setting("steps", 600, quick=0, least=0, most=20_000),
        Setting("beginnings", 5, quick=3, least=3, most=50),
        Setting("tested", 512, quick=128, least=64, most=10_000),
        Setting("repeats", 7, quick=4, least=3, most=100),
        Setting("window", 0, least=0, most=1024),
    ),
    false={"longest": 2},
    measure=measure,
    judge=judge,
)
