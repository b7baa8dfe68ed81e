"""What a dot product measures: the angle between two vectors, and their lengths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from regard.lab import statistics
from regard.lab.experiment import Asked, Experiment, Setting
from regard.lab.measured import Chart, Finding, Maps, Measured, Outcome, Series, Table, Verdict
from regard.lab.said import Said, plain
from regard.reference import Array

_ROUNDING = 1e-12  # of a dot product, as a share of the product of the lengths
_STRETCHES = (1.0, 2.0, 4.0, 8.0, 16.0)
_TURNS = tuple(range(0, 361, 15))  # degrees
_EXPONENT = 0.01  # an exponent that is this near to a whole number is that number
_SENTENCES = 24


def measure(asked: Asked) -> Measured:
    """Two vectors of the plane, turned and stretched; random ones; then those of a real head."""
    one = asked["length"] == "one"
    q, k = np.array([asked["q_x"], asked["q_y"]]), np.array([asked["k_x"], asked["k_y"]])
    data: dict[str, Any] = {"length": asked["length"], "model": asked["model"]}
    data["vectors"] = _pair(q, k, one)
    data["turned"] = [_pair(q, _turned(q, k, degrees), one) for degrees in _TURNS]
    data["stretched"] = [_pair(q, times * k, one) for times in _STRETCHES]
    data["random"] = _random_pairs(asked, one)
    asked.progress(1, 2)
    charts: list[Chart | Maps] = [_plane(q, k, one), _by_angle(q, k, one)]
    if asked["model"] == "minilm":
        found = _of_heads(asked, one)
        layer, head = asked["layer"], asked["head"]
        data["head"] = {"layer": layer, "head": head}
        data["head"] |= {name: found[name][layer, :, head].tolist() for name in found}
        data["heads"] = {name: found[name].mean(axis=1).tolist() for name in found}
        charts.append(_maps(data["heads"]))
    asked.progress(2, 2)
    return Measured(data, [_table(data)], charts)


def _pair(q: Array, k: Array, one: bool) -> dict[str, float | None]:
    """Angle, lengths, dot product and cosine; the angle is that of the drawing, from no product."""
    q, k = _unit(q, one), _unit(k, one)
    lengths = float(np.hypot(*q)), float(np.hypot(*k))
    dot = float(q @ k)
    angle = cosine = None
    if lengths[0] * lengths[1] > 0:
        angle = _angle(q, k)
        cosine = dot / (lengths[0] * lengths[1])
    return {
        "angle": angle,
        "q_length": lengths[0],
        "k_length": lengths[1],
        "dot": dot,
        "cosine": cosine,
    }


def _angle(q: Array, k: Array) -> float:
    """Degrees from 0 to 180 between the directions of two vectors."""
    apart = np.degrees(np.arctan2(q[1], q[0]) - np.arctan2(k[1], k[0])) % 360.0
    return float(min(apart, 360.0 - apart))


def _unit(vectors: Array, one: bool) -> Array:
    """The vectors, brought to length 1 if that is asked for."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / np.where(lengths > 0, lengths, 1.0) if one else vectors


def _turned(q: Array, k: Array, degrees: float) -> Array:
    """A vector as long as k that stands at this angle to q."""
    at = np.arctan2(q[1], q[0]) + np.radians(degrees)
    return float(np.hypot(*k)) * np.array([np.cos(at), np.sin(at)])


def _random_pairs(asked: Asked, one: bool) -> dict[str, int]:
    """Random vectors: how often the sign is that of the angle; which of two keys is preferred."""
    pairs = asked["pairs"]
    q, k, other = (_unit(x, one) for x in asked.random().standard_normal((3, pairs, 2)))
    angles = np.array([_angle(a, b) for a, b in zip(q, k, strict=True)])
    dots, others = (q * k).sum(axis=1), (q * other).sum(axis=1)
    cosines = dots / np.linalg.norm(k, axis=1), others / np.linalg.norm(other, axis=1)
    return {
        "pairs": pairs,
        "signs": int((np.sign(dots) == np.sign(90.0 - angles)).sum()),
        "more_parallel": int(((dots > others) == (cosines[0] > cosines[1])).sum()),
    }


def _of_heads(asked: Asked, one: bool) -> dict[str, Array]:
    """Of each layer, sentence and head of MiniLM, (L, B, H): how far the dot product orders keys as
    their cosine does, and as their lengths do; how often both choose the same key; how much the
    lengths of keys differ."""
    from regard.lab.minilm import read

    seen = read(asked, _SENTENCES)
    q, k = _unit(seen.q, one), _unit(seen.k, one)
    dots = q @ np.swapaxes(k, -1, -2)  # (L, B, H, N, N)
    lengths = np.linalg.norm(seen.k, axis=-1)  # (L, B, H, N): those that keys had
    cosines = _unit(seen.q, True) @ np.swapaxes(_unit(seen.k, True), -1, -2)
    same = dots.argmax(axis=-1) == cosines.argmax(axis=-1)
    return {
        "by_cosine": statistics.rank_correlation(dots, cosines).mean(axis=-1),
        "by_length": statistics.rank_correlation(dots, lengths[..., None, :]).mean(axis=-1),
        "same_choice": same.mean(axis=-1),
        "spread": lengths.std(axis=-1) / lengths.mean(axis=-1),
    }


def _table(data: Mapping[str, Any]) -> Table:
    columns = ("what", "q_length", "k_length", "angle", "dot", "cosine")
    names = columns[1:]
    rows: list[list[Any]] = [
        [Said("geometry.row.given"), *(data["vectors"][name] for name in names)]
    ]
    for times, found in zip(_STRETCHES[1:], data["stretched"][1:], strict=True):
        said = Said("geometry.row.stretched", {"times": times})
        rows.append([said, *(found[name] for name in names)])
    for degrees in (0, 90, 180):
        found = data["turned"][_TURNS.index(degrees)]
        said = Said("geometry.row.turned", {"degrees": degrees})
        rows.append([said, *(found[name] for name in names)])
    return Table("geometry.table", [f"geometry.column.{name}" for name in columns], rows)


def _plane(q: Array, k: Array, one: bool) -> Chart:
    """Both vectors as arrows from 0."""
    lines = []
    for name, vector in (("q", _unit(q, one)), ("k", _unit(k, one))):
        lines.append(Series(plain(name), [0.0, float(vector[0])], [0.0, float(vector[1])]))
    return Chart("geometry.chart.plane", "geometry.axis.x", "geometry.axis.y", lines)


def _by_angle(q: Array, k: Array, one: bool) -> Chart:
    """The dot product at every angle, with k as long as it is, and longer; and the cosine."""
    lines = []
    for times in (1.0, 2.0, 4.0):
        found = [_pair(q, times * _turned(q, k, degrees), one) for degrees in _TURNS]
        said = Said("geometry.line.dot", {"times": times})
        lines.append(Series(said, list(_TURNS), [pair["dot"] for pair in found]))
    found = [_pair(q, _turned(q, k, degrees), one) for degrees in _TURNS]
    lines.append(Series("geometry.column.cosine", list(_TURNS), [pair["cosine"] for pair in found]))
    return Chart("geometry.chart.angle", "geometry.column.angle", "geometry.column.dot", lines)


def _maps(heads: Mapping[str, Any]) -> Maps:
    panes = [(Said(f"geometry.pane.{name}"), heads[name]) for name in ("by_cosine", "by_length")]
    layers, n_heads = len(heads["by_cosine"]), len(heads["by_cosine"][0])
    rows, columns = [str(n) for n in range(layers)], [str(n) for n in range(n_heads)]
    return Maps("geometry.chart.heads", panes, rows, columns, signed=True)


def judge(data: Mapping[str, Any]) -> Verdict:
    """Three parts: the sign goes by the angle; the product grows with length and the cosine does
    not; in a real head it orders keys by direction more than by length."""
    findings = [_of_signs(data), _of_growth(data)]
    notes = []
    random = data["random"]
    chosen = statistics.share(random["more_parallel"], random["pairs"])
    values = {"pairs": random["pairs"], "share": chosen.value} | _ends(chosen)
    key = "choice" if chosen.value < 1 else "always"
    notes.append(Said(f"geometry.note.{key}", values))
    if "head" in data:
        findings.append(_of_head(data["head"]))
        notes += _of_all_heads(data["head"], data["heads"])
    twice = data["stretched"][1]["dot"], data["stretched"][0]["dot"]
    grows = abs(twice[0]) > 1.5 * abs(twice[1])
    at_right_angle = findings[1].outcome == "open"
    return Verdict(findings, None if at_right_angle else "dot" if grows else "neither", notes)


def _of_signs(data: Mapping[str, Any]) -> Finding:
    """Positive below 90°, negative above, 0 at a right angle."""
    random = data["random"]
    share = statistics.share(random["signs"], random["pairs"])
    turned = {degrees: data["turned"][_TURNS.index(degrees)] for degrees in (0, 90, 180)}
    values = {"pairs": random["pairs"], "share": share.value, "low": share.low}
    values |= {"aligned": turned[0]["dot"], "across": turned[90]["dot"]}
    values |= {"opposite": turned[180]["dot"]}
    if turned[0]["cosine"] is None:
        return Finding("open", Said("geometry.finding.sign.open"))
    size = turned[90]["q_length"] * turned[90]["k_length"]
    is_so = (
        random["signs"] == random["pairs"]
        and turned[0]["dot"] > 0 > turned[180]["dot"]
        and abs(turned[90]["dot"]) <= _ROUNDING * size
    )
    outcome: Outcome = "holds" if is_so else "fails"
    return Finding(outcome, Said(f"geometry.finding.sign.{outcome}", values))


def _of_growth(data: Mapping[str, Any]) -> Finding:
    """As k is stretched, the product must grow as its length and the cosine must stay."""
    stretched = data["stretched"]
    cosine = stretched[0]["cosine"]
    if cosine is None or abs(cosine) <= _ROUNDING:
        return Finding("open", Said("geometry.finding.length.open"))
    dots = statistics.exponent(_STRETCHES, [abs(pair["dot"]) for pair in stretched])
    cosines = statistics.exponent(_STRETCHES, [abs(pair["cosine"]) for pair in stretched])
    is_so = abs(dots.value - 1) <= _EXPONENT and abs(cosines.value) <= _EXPONENT
    values = {"times": _STRETCHES[-1], "first": stretched[0]["dot"], "last": stretched[-1]["dot"]}
    values |= {"exponent": abs(dots.value), "cosine": cosine, "end": stretched[-1]["cosine"]}
    outcome: Outcome = "holds" if is_so else "fails"
    return Finding(outcome, Said(f"geometry.finding.length.{outcome}", values))


def _of_head(head: Mapping[str, Any]) -> Finding:
    """Sentence by sentence: is the order of keys nearer to that of cosines than of lengths?"""
    by_cosine, by_length = (statistics.mean(head[name]) for name in ("by_cosine", "by_length"))
    more = statistics.mean(np.abs(head["by_cosine"]) - np.abs(head["by_length"]))
    outcome: Outcome = "holds" if more.low > 0 else "fails" if more.high < 0 else "open"
    values = {"layer": head["layer"], "head": head["head"], "sentences": len(head["by_cosine"])}
    values |= {"cosine": by_cosine.value, "length": by_length.value}
    values |= {f"cosine_{end}": value for end, value in _ends(by_cosine).items()}
    values |= {f"length_{end}": value for end, value in _ends(by_length).items()}
    return Finding(outcome, Said(f"geometry.finding.head.{outcome}", values))


def _of_all_heads(head: Mapping[str, Any], heads: Mapping[str, Any]) -> list[Said]:
    """How often both choose the same key in this head; and how far heads differ in that."""
    same, spread = statistics.mean(head["same_choice"]), statistics.mean(head["spread"])
    by_cosine, by_length = np.array(heads["by_cosine"]), np.array(heads["by_length"])
    layer, number = np.unravel_index(by_cosine.argmin(), by_cosine.shape)
    values = {"same": same.value, "spread": spread.value} | _ends(same)
    all_heads = {"heads": by_cosine.size, "median": float(np.median(by_cosine))}
    all_heads |= {"least": float(by_cosine.min()), "layer": int(layer), "head": int(number)}
    all_heads |= {"decided": int((np.abs(by_length) > np.abs(by_cosine)).sum())}
    return [Said("geometry.note.head", values), Said("geometry.note.heads", all_heads)]


def _ends(interval: statistics.Interval) -> dict[str, float]:
    return {"low": interval.low, "high": interval.high}


EXPERIMENT = Experiment(
    "geometry",
    guesses=("dot", "both", "neither"),
    settings=(
        Setting("q_x", 2.0, least=-10.0, most=10.0),
        Setting("q_y", 1.0, least=-10.0, most=10.0),
        Setting("k_x", 1.0, least=-10.0, most=10.0),
        Setting("k_y", 2.0, least=-10.0, most=10.0),
        Setting("pairs", 10_000, quick=2_000, least=100, most=100_000),
        Setting("length", "free", choices=("free", "one")),
        Setting("model", "minilm", quick="none", choices=("none", "minilm")),
        Setting("layer", 2, least=0, most=5),
        Setting("head", 0, least=0, most=11),
    ),
    false={"length": "one"},
    measure=measure,
    judge=judge,
    needs=("minilm",),
)
