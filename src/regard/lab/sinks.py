"""What happens to the weights if the first token, on which much of them rests, is taken away?"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from regard.lab import statistics
from regard.lab.experiment import Asked, Experiment, Setting
from regard.lab.marked import data
from regard.lab.measured import Chart, Finding, Measured, Outcome, Series, Table, Verdict
from regard.lab.said import Said
from regard.reference import Array

_WAYS = ("whole", "without", "blocked")
_SINK = 0.25  # of all weight: a token that gets a quarter of it, wherever one looks, is a sink
_HALF = 0.5  # the next first token inherits if it gets at least half of what the first one got
_ROUNDING = 1e-4  # nats: predictions that are no farther apart are the same, in float32
_LATE = 8  # a key counts if at least as many queries may look at it


def measure(asked: Asked) -> Measured:
    """The weight on the first token by layer; without it, and with all links to it cut. How far
    what the model predicts is from what it predicted before."""
    loaded = _model(asked)
    texts = data("texts")["texts"][: asked["texts"]]
    rows = []
    for number, text in enumerate(texts):
        reading = loaded.reader().read(text, first=asked["tokens"])
        rows.append(_of_text(asked, loaded, reading, number, len(texts)))
        asked.progress(number + 1, len(texts))
    names = list(rows[0])
    figures: dict[str, Any] = {"model": asked["model"], "texts": len(texts)}
    figures |= {name: [row[name] for row in rows] for name in names}
    return Measured(figures, [_table(figures)], [_chart(figures)])


def _model(asked: Asked) -> Any:
    """The model that is asked for; or one of SmolLM2's shape that has learned nothing."""
    loaded = asked.load("minilm" if asked["model"] == "minilm" else "smollm2")
    if asked["model"] != "random":
        return loaded
    import torch

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(asked.seed)
        return replace(loaded, model=type(loaded.model)(loaded.model.config).eval())


def _of_text(asked: Asked, loaded: Any, reading: Any, number: int, of: int) -> dict[str, Any]:
    """Shares by layer, and how far what is predicted moves, of a text of this number."""
    inputs = loaded.batch([reading])
    shorter = {name: x[:, 1:] for name, x in inputs.items()}
    layers = range(loaded.model.config.num_hidden_layers)
    n = inputs["input_ids"].shape[1]
    ordinary = n // 4  # another token, whose loss is there to compare with
    whole, out = _read(loaded, inputs, ())
    asked.progress(number + 0.25, of)
    without, out_without = _read(loaded, shorter, ())
    asked.progress(number + 0.5, of)
    blocked, out_blocked = _read(loaded, inputs, [(layer, None, None, 0) for layer in layers])
    asked.progress(number + 0.75, of)
    _, out_other = _read(loaded, inputs, [(layer, None, None, ordinary) for layer in layers])
    # Without key 0, if what it had went to the others in proportion.
    sees = np.tri(n) if loaded.decoder else np.ones((n, n))
    rest = whole[:, :, 1:, 1:]
    spread = rest / rest.sum(-1, keepdims=True).clip(1e-12)
    found: dict[str, Any] = {
        "whole": whole[:, :, 1:, 0].mean(axis=(1, 2)).tolist(),
        "without": without[:, :, 1:, 0].mean(axis=(1, 2)).tolist(),
        "blocked": _largest(blocked[:, :, 1:, 1:], sees[1:, 1:]).tolist(),
        "spread": _largest(spread, sees[1:, 1:]).tolist(),
        "last": float(whole[:, :, 1:, -1].mean()),
        "even": float((1 / sees[1:].sum(axis=-1)).mean()),
    }
    # Of the tokens behind both that were lost: early ones have little else to look at.
    after = slice(ordinary + 1, None)
    before = out[:, after]
    found["changes"] = {
        "without": _change(before, out_without[:, ordinary:], loaded.decoder),
        "blocked": _change(before, out_blocked[:, after], loaded.decoder),
        "ordinary": _change(before, out_other[:, after], loaded.decoder),
        "apart": _change(out_without[:, ordinary:], out_blocked[:, after], loaded.decoder),
    }
    return found


def _read(loaded: Any, inputs: Mapping[str, Any], block: Sequence[Any]) -> tuple[Array, Any]:
    """All weights (layers, heads, queries, keys), and what the model puts out."""
    import torch

    import regard

    watching = regard.watch(loaded.model, regard.See(), keep=("q", "k", "output"), block=block)
    with watching as run, torch.no_grad():
        loaded.model(**inputs)
    weights = [run.weights(layer)[0].numpy() for layer in range(len(run.layers))]
    return np.stack(weights).astype(float), run.output


def _largest(weights: Array, sees: Array) -> Array:
    """Of each layer, the most that any one key gets on average from those who may look at it, which
    is 1 in `sees`, (queries, keys)."""
    count = sees.sum(axis=0)
    got = weights.mean(axis=1).sum(axis=1) / count
    return got[:, count >= _LATE].max(axis=-1)


def _change(before: Any, after: Any, is_logits: bool) -> float:
    """How far predictions are from what they were, in nats, the mean of all tokens; of a model
    that predicts no words, how far its vectors are, of their length."""
    from regard.run.effect import compare

    change = compare(before, after, is_logits)
    found = change.divergence if is_logits else change.relative
    assert found is not None
    return float(found.mean())


def _table(figures: Mapping[str, Any]) -> Table:
    means = {name: np.mean(figures[name], axis=0) for name in (*_WAYS, "spread")}
    rows = [
        [layer, *(float(means[name][layer]) for name in (*_WAYS, "spread"))]
        for layer in range(len(means["whole"]))
    ]
    names = ("layer", *_WAYS, "spread")
    return Table("sinks.table", [f"sinks.column.{name}" for name in names], rows)


def _chart(figures: Mapping[str, Any]) -> Chart:
    lines = []
    for name in (*_WAYS, "spread"):
        values = np.asarray(figures[name])
        layers = list(range(values.shape[1]))
        low, high = values.min(axis=0).tolist(), values.max(axis=0).tolist()
        lines.append(
            Series(f"sinks.column.{name}", layers, values.mean(axis=0).tolist(), low, high)
        )
    return Chart("sinks.chart", "sinks.column.layer", "sinks.axis.share", lines)


def judge(data: Mapping[str, Any]) -> Verdict:
    """Is there a sink; does the next token inherit it; or does the weight spread?"""
    shares = {name: np.mean(data[name], axis=1) for name in (*_WAYS, "spread")}
    first = statistics.mean(shares["whole"])
    values = {
        "share": first.value,
        "low": first.low,
        "high": first.high,
        "even": float(np.mean(data["even"])),
        "texts": data["texts"],
        "model": Said(f"sinks.choice.model.{data['model']}"),
    }
    outcome = _outcome(first, _SINK)
    findings = [Finding(outcome, Said(f"sinks.finding.sink.{outcome}", values))]
    notes = _of_changes(data)
    if data["model"] == "minilm":
        last = statistics.mean(data["last"])
        notes.append(Said("sinks.note.last", last._asdict()))
    if outcome == "fails":
        return Verdict(findings, "none", notes)
    heir = statistics.mean(shares["without"])
    outcome = _outcome(statistics.mean(shares["without"] - _HALF * shares["whole"]), 0.0)
    values = {"share": heir.value, "low": heir.low, "high": heir.high, "first": first.value}
    findings.append(Finding(outcome, Said(f"sinks.finding.heir.{outcome}", values)))
    largest, spread = statistics.mean(shares["blocked"]), statistics.mean(shares["spread"])
    outcome = _outcome(statistics.mean(shares["blocked"] - shares["spread"]), 0.0)
    values = {"share": largest.value, "low": largest.low, "high": largest.high}
    values |= {"spread": spread.value, "spread_low": spread.low, "spread_high": spread.high}
    findings.append(Finding(outcome, Said(f"sinks.finding.blocked.{outcome}", values)))
    answers = {"holds": "heir", "fails": "spread", "open": None}
    return Verdict(findings, answers[outcome], notes)


def _outcome(found: statistics.Interval, least: float) -> Outcome:
    return "holds" if found.low > least else "fails" if found.high < least else "open"


def _of_changes(data: Mapping[str, Any]) -> list[Said]:
    """What the loss does to what is predicted."""
    values: dict[str, float] = {}
    for name in ("without", "blocked", "ordinary"):
        found = statistics.mean([each[name] for each in data["changes"]])
        values |= {name: found.value, f"{name}_low": found.low, f"{name}_high": found.high}
    what = "vectors" if data["model"] == "minilm" else "words"
    apart = max(each["apart"] for each in data["changes"])
    same = [Said("sinks.note.same", {"apart": apart})] if apart <= _ROUNDING else []
    return [Said(f"sinks.note.{what}", values), *same]


EXPERIMENT = Experiment(
    "sinks",
    guesses=("heir", "spread", "none"),
    settings=(
        Setting("model", "smollm2", choices=("smollm2", "minilm", "random")),
        Setting("texts", 6, quick=3, least=2, most=6),
        Setting("tokens", 48, quick=32, least=16, most=60),
    ),
    false={"model": "random"},
    measure=measure,
    judge=judge,
    needs=("smollm2",),
)
