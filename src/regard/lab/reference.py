"""Which heads send "it" to the noun that it means? Chosen on one half, scored on the other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.lab import statistics
from regard.lab.experiment import Asked, Experiment, Setting
from regard.lab.marked import data, find, places, unmark
from regard.lab.measured import Bars, Finding, Maps, Measured, Outcome, Table, Verdict
from regard.lab.said import Said
from regard.reference import Array

_MODELS = ("minilm", "smollm2")
_MARKS = {"right": "[]", "other": "()", "verb": "//"}
_PLACES = ("noun", "verb", "the")
_BATCH = 10  # sentences that are read at a time


@dataclass(frozen=True)
class _Sentence:
    """What is known of a sentence: where its nouns stand, and which of them is meant."""

    text: str
    kind: str
    nouns: Sequence[tuple[int, int]]
    right: int
    verb: tuple[int, int]
    unit: int  # sentences of one unit are never in two halves


def measure(asked: Asked) -> Measured:
    """How often each head's strongest noun is the one that "it" means; the weights on it, on a verb
    and on "the"."""
    sentences = _sentences(asked)
    halves = _halves(sentences, asked.random(1))
    models = _MODELS if asked["model"] == "both" else (asked["model"],)
    found: dict[str, Any] = {}
    maps = []
    for nth, model in enumerate(models):
        nouns, others = _weights(asked, model, sentences, nth / len(models), 1 / len(models))
        is_right = np.array(
            [x.argmax(-1) == each.right for x, each in zip(nouns, sentences, strict=True)]
        )
        # Of the weight on nouns, the part on the right one: what decides between equal heads.
        part = np.mean(
            [
                x[..., each.right] / x.sum(-1).clip(1e-9)
                for x, each in zip(nouns, sentences, strict=True)
            ],
            axis=0,
        )
        found[model] = _scored(is_right, part, halves) | {"weights": others}
        values = is_right.mean(axis=0)
        maps.append(
            Maps(
                "reference.chart.heads",
                [(_called(model), values.tolist())],
                [str(layer) for layer in range(values.shape[0])],
                [str(head) for head in range(values.shape[1])],
            )
        )
    figures = {
        "answers": asked["answers"],
        "kinds": [each.kind for each in sentences],
        "previous": [int(each.right == len(each.nouns) - 1) for each in sentences],
        "uniform": [1 / len(each.nouns) for each in sentences],
        "models": found,
    }
    return Measured(figures, [_table(figures)], [*_bars(figures), *maps])


def _sentences(asked: Asked) -> list[_Sentence]:
    """As many of either kind as are asked for, two thirds of them of the first."""
    random = asked.random(0)
    found = []
    for kind, count in (
        ("before", 2 * asked["sentences"] // 3),
        ("after", asked["sentences"] // 3),
    ):
        texts = list(data("reference")[kind])
        chosen = np.linspace(0, len(texts) - 1, count).round().astype(int)
        if kind == "after":  # pairs stay together
            chosen = np.arange(count // 2 * 2)
        for number in chosen:
            marked = unmark(texts[number], _MARKS)
            nouns = sorted([*marked.spans["right"], *marked.spans["other"]])
            right = nouns.index(marked.spans["right"][0])
            if asked["answers"] == "shuffled":
                right = int(random.integers(len(nouns)))
            unit = number if kind == "before" else len(data("reference")["before"]) + number // 2
            verb = marked.spans["verb"][0]
            found.append(_Sentence(marked.text, kind, nouns, right, verb, int(unit)))
    return found


def _halves(sentences: Sequence[_Sentence], random: np.random.Generator) -> Array:
    """Of each sentence whether it is in the first half or in the second, 0 or 1."""
    half: dict[int, int] = {}
    for kind in ("before", "after"):
        units = sorted({each.unit for each in sentences if each.kind == kind})
        half |= {unit: n % 2 for n, unit in enumerate(random.permutation(units).tolist())}
    return np.array([half[each.unit] for each in sentences])


def _weights(
    asked: Asked, name: str, sentences: Sequence[_Sentence], before: float, share: float
) -> tuple[list[Array], dict[str, list[float]]]:
    """Of each sentence, the weight of "it" on its nouns (layers, heads, nouns); and, mean of all
    heads, on the noun that is meant, on a verb, on "the", and on the first token."""
    loaded = asked.load(name)
    import torch

    import regard

    nouns: list[Array] = []
    others: dict[str, list[float]] = {place: [] for place in (*_PLACES, "first")}
    for start in range(0, len(sentences), _BATCH):
        some = sentences[start : start + _BATCH]
        readings = [loaded.reader().read(each.text) for each in some]
        with regard.watch(loaded.model, regard.See(), keep=("q", "k")) as run, torch.no_grad():
            loaded.model(**loaded.batch(readings))
        layers = np.stack([run.weights(layer).numpy() for layer in range(len(run.layers))], axis=1)
        for each, reading, maps in zip(some, readings, layers, strict=True):
            (span,) = find(each.text, "it")
            row = maps[:, :, places(reading.tokens, [span])[0]].astype(float)
            of_noun = [row[..., places(reading.tokens, [noun])].sum(-1) for noun in each.nouns]
            nouns.append(np.stack(of_noun, axis=-1))
            mean = row.mean(axis=(0, 1))
            the = [at for at in find(each.text, "the") if 0 < at[0] < span[0]]
            others["noun"].append(
                float(mean[places(reading.tokens, [each.nouns[each.right]])].sum())
            )
            others["verb"].append(float(mean[places(reading.tokens, [each.verb])].sum()))
            others["the"].append(float(mean[places(reading.tokens, the)].mean()))
            others["first"].append(float(mean[0]))
        asked.progress(before + share * min(1, (start + _BATCH) / len(sentences)), 1)
    return nouns, others


def _scored(is_right: Array, part: Array, halves: Array) -> dict[str, Any]:
    """The best head of each half, and how it does on the other: `right` of each sentence, by the
    head that was chosen without it."""
    heads = []
    right = np.zeros(len(halves), dtype=int)
    own = np.zeros(len(halves), dtype=int)
    for half in (0, 1):
        here = halves == half
        accuracy = is_right[here].mean(axis=0) + 1e-6 * part
        layer, head = (int(n) for n in np.unravel_index(accuracy.argmax(), accuracy.shape))
        right[~here] = is_right[~here, layer, head]
        own[here] = is_right[here, layer, head]
        heads.append([layer, head])
    return {"heads": heads, "right": right.tolist(), "own": own.tolist()}


def _called(model: str) -> Said:
    return Said(f"lab.model.{model}")


def _table(figures: Mapping[str, Any]) -> Table:
    rows = []
    for name, model in figures["models"].items():
        found = statistics.share(sum(model["right"]), len(model["right"]))
        heads = ", ".join(f"{layer}.{head}" for layer, head in model["heads"])
        rows.append(
            [_called(name), heads, found.value, found.low, found.high]
            + [float(np.mean(model["own"]))]
            + [float(np.mean(figures[baseline])) for baseline in ("previous", "uniform")]
        )
    names = ("model", "heads", "right", "low", "high", "own", "previous", "uniform")
    return Table("reference.table", [f"reference.column.{name}" for name in names], rows)


def _bars(figures: Mapping[str, Any]) -> list[Bars]:
    models = figures["models"]
    groups = {
        "right": [statistics.share(sum(x["right"]), len(x["right"])) for x in models.values()],
        "own": [statistics.share(sum(x["own"]), len(x["own"])) for x in models.values()],
    }
    previous = statistics.share(sum(figures["previous"]), len(figures["previous"]))
    chance = float(np.mean(figures["uniform"]))
    groups |= {
        "previous": [previous] * len(models),
        "uniform": [statistics.Interval(chance, chance, chance)] * len(models),
    }
    weights = {
        place: [statistics.mean(model["weights"][place]) for model in models.values()]
        for place in _PLACES
    }
    names = [_called(name) for name in models]
    return [
        Bars(
            f"reference.chart.{title}",
            f"reference.axis.{title}",
            names,
            [f"reference.{keys}.{group}" for group in values],
            [[each.value for each in row] for row in values.values()],
            [[each.low for each in row] for row in values.values()],
            [[each.high for each in row] for row in values.values()],
        )
        for title, keys, values in (("right", "column", groups), ("weights", "place", weights))
    ]


def judge(data: Mapping[str, Any]) -> Verdict:
    """Of each model: is there a head that finds the noun; are the weights high, medium and low?"""
    findings = []
    notes = []
    for name, model in data["models"].items():
        findings.append(_of_head(name, model, data))
        notes += [_of_kinds(name, model, data["kinds"])]
        notes.append(
            Said(
                "reference.note.first",
                {
                    "model": _called(name),
                    "weight": float(np.mean(model["weights"]["first"])),
                },
            )
        )
    found = {finding.outcome for finding in findings}
    findings += [_of_order(name, model["weights"]) for name, model in data["models"].items()]
    answer = "head" if found == {"holds"} else "previous" if found == {"fails"} else None
    return Verdict(findings, answer, notes)


def _of_head(name: str, model: Mapping[str, Any], data: Mapping[str, Any]) -> Finding:
    right = np.asarray(model["right"])
    found = statistics.share(int(right.sum()), len(right))
    uniform, previous = float(np.mean(data["uniform"])), float(np.mean(data["previous"]))
    better = statistics.mean(right - np.asarray(data["previous"]))
    outcome: Outcome = "open"
    if found.low <= uniform or better.high < 0:
        outcome = "fails"
    elif better.low > 0:
        outcome = "holds"
    (layer_1, head_1), (layer_2, head_2) = model["heads"]
    values = {
        "model": _called(name),
        "first": f"{layer_1}.{head_1}",
        "second": f"{layer_2}.{head_2}",
        "right": found.value,
        "low": found.low,
        "high": found.high,
        "sentences": len(right),
        "own": float(np.mean(model["own"])),
        "previous": previous,
        "uniform": uniform,
    }
    return Finding(outcome, Said(f"reference.finding.head.{outcome}", values))


def _of_order(name: str, weights: Mapping[str, Sequence[float]]) -> Finding:
    """Is most of the weight on the noun, less on the verb, least on "the"?"""
    noun, verb, the = (np.asarray(weights[place]) for place in _PLACES)
    steps = [statistics.mean(noun - verb), statistics.mean(verb - the)]
    outcome: Outcome = "open"
    if all(step.low > 0 for step in steps):
        outcome = "holds"
    elif any(step.high < 0 for step in steps):
        outcome = "fails"
    values: dict[str, Any] = {"model": _called(name)}
    for place in _PLACES:
        found = statistics.mean(weights[place])
        values |= {place: found.value, f"{place}_low": found.low, f"{place}_high": found.high}
    return Finding(outcome, Said(f"reference.finding.order.{outcome}", values))


def _of_kinds(name: str, model: Mapping[str, Any], kinds: Sequence[str]) -> Said:
    """How the heads do where "it" comes after what tells, and where that only follows."""
    values: dict[str, Any] = {"model": _called(name)}
    for kind in ("before", "after"):
        right = [x for x, each in zip(model["right"], kinds, strict=True) if each == kind]
        found = statistics.share(sum(right), len(right))
        values |= {kind: found.value, f"{kind}_low": found.low, f"{kind}_high": found.high}
    return Said("reference.note.kinds", values)


EXPERIMENT = Experiment(
    "reference",
    guesses=("head", "previous", "all"),
    settings=(
        Setting("model", "both", quick="minilm", choices=("both", *_MODELS)),
        Setting("sentences", 60, least=12, most=60),
        Setting("answers", "right", choices=("right", "shuffled")),
    ),
    false={"answers": "shuffled"},
    measure=measure,
    judge=judge,
    needs=_MODELS,
)
