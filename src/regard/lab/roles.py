"""Why queries and keys have matrices of their own: scores with W_Q = W_K, and with two matrices."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import reference
from regard.lab import statistics
from regard.lab.experiment import Asked, Experiment, Setting
from regard.lab.measured import (
    Bars,
    Chart,
    Finding,
    Maps,
    Measured,
    Outcome,
    Series,
    Table,
    Verdict,
)
from regard.lab.said import Said
from regard.reference import Array

_WAYS = ("same", "separate")
_KINDS = (
    "drawn",
    "normed",
    "one",
)  # tokens as drawn, with a layer norm; queries and keys of length 1
_WIDTHS = (1, 2, 4, 8, 16, 32, 64)
_ROUNDING = 1e-12  # scores that differ by a smaller share than this are the same but for rounding
_BROKEN = 0.1  # scores that differ by a larger share than this are not symmetric to anybody
_MOSTLY = 0.5  # "likes itself best": more often than all others together
_SHOWN = 8  # tokens of the matrices that are drawn


def measure(asked: Asked) -> Measured:
    """Random tokens and matrices, many times: how far the scores are from their transpose, and how
    often the largest score of a row is that of a token with itself."""
    n_parts = 1 + len(_WIDTHS)
    found = _draws(asked, asked["head_width"], asked["draws"], 0)
    asked.progress(1, n_parts)
    by_width: dict[str, list[list[float]]] = {way: [] for way in _WAYS}
    for nth, width in enumerate(_WIDTHS):
        drawn = _draws(asked, width, max(20, asked["draws"] // 4), nth + 1)
        for way in _WAYS:
            by_width[way].append(list(statistics.mean_share(drawn[way]["itself"]["drawn"])))
        asked.progress(2 + nth, n_parts)
    examples = {way: drawn.pop("example") for way, drawn in found.items()}
    data = {"tokens": asked["tokens"], "head_width": asked["head_width"], "draws": asked["draws"]}
    data |= {"same": asked["same"], "ways": found, "widths": list(_WIDTHS), "by_width": by_width}
    return Measured(data, [_table(data)], [_maps(data, examples), _bars(data), _chart(data)])


def _draws(asked: Asked, head_width: int, draws: int, part: int) -> dict[str, dict[str, Any]]:
    """Of each way, by draw: the asymmetry, and by kind the share of tokens that like themselves
    best; and how much longer the keys are that others prefer to their own."""
    random = asked.random(part)
    tokens, width = asked["tokens"], asked["width"]
    x = random.standard_normal((draws, tokens, width))
    w_q, w_k = random.standard_normal((2, draws, width, head_width)) / np.sqrt(width)
    normed = reference.layer_norm(x)
    found: dict[str, dict[str, Any]] = {}
    for way in _WAYS:
        w_other = w_q if way == "same" and asked["same"] else w_k
        itself: dict[str, list[float]] = {}
        scores = _scores(x @ w_q, x @ w_other)
        itself["drawn"] = _likes_itself(scores).mean(axis=1).tolist()
        itself["normed"] = (
            _likes_itself(_scores(normed @ w_q, normed @ w_other)).mean(axis=1).tolist()
        )
        q, k = (y / np.linalg.norm(y, axis=-1, keepdims=True) for y in (x @ w_q, x @ w_other))
        itself["one"] = _likes_itself(_scores(q, k)).mean(axis=1).tolist()
        apart = np.linalg.norm(scores - np.swapaxes(scores, 1, 2), axis=(1, 2))
        found[way] = {
            "asymmetry": (apart / np.linalg.norm(scores, axis=(1, 2))).tolist(),
            "itself": itself,
            "longer": _longer(scores, np.linalg.norm(x @ w_other, axis=-1)),
            "example": scores[0, :_SHOWN, :_SHOWN].tolist(),
        }
    return found


def _scores(q: Array, k: Array) -> Array:
    """The scores as attention computes them, scaled: (draws, N, N)."""
    return reference.attention(q, k, k).scaled


def _likes_itself(scores: Array) -> NDArray[np.bool_]:
    """Of each token, (draws, N): is its score with itself the largest of its row?"""
    return scores.argmax(axis=2) == np.arange(scores.shape[1])


def _longer(scores: Array, lengths: Array) -> float | None:
    """How many times as long as a token's own key the one is that it prefers, where it does."""
    preferred = np.take_along_axis(lengths, scores.argmax(axis=2), axis=1)
    others = ~_likes_itself(scores)
    return float(np.median((preferred / lengths)[others])) if others.any() else None


def _table(data: Mapping[str, Any]) -> Table:
    rows: list[list[Any]] = []
    for kind in _KINDS:
        row: list[Any] = [Said(f"roles.kind.{kind}")]
        for way in _WAYS:
            row += list(statistics.mean_share(data["ways"][way]["itself"][kind]))
        rows.append(row)
    columns = ["roles.column.kind"]
    for way in _WAYS:
        columns += [f"roles.column.{_way(data, way)}", "roles.column.low", "roles.column.high"]
    return Table("roles.table", columns, rows)


def _way(data: Mapping[str, Any], way: str) -> str:
    """The name of a way: what should be one matrix may have been two."""
    return "broken" if way == "same" and not data["same"] else way


def _maps(data: Mapping[str, Any], examples: Mapping[str, Any]) -> Maps:
    """Scores of one draw, in both ways, as shares of the largest."""
    panes = []
    for way, scores in examples.items():
        shares = (np.array(scores) / np.abs(scores).max()).tolist()
        panes.append((Said(f"roles.way.{_way(data, way)}"), shares))
    names = [str(n) for n in range(len(examples["same"]))]
    return Maps("roles.chart.scores", panes, names, names, signed=True)


def _bars(data: Mapping[str, Any]) -> Bars:
    found = [
        [statistics.mean_share(data["ways"][way]["itself"][kind]) for kind in _KINDS]
        for way in _WAYS
    ]
    return Bars(
        "roles.chart.itself",
        "roles.axis.itself",
        [Said(f"roles.kind.{kind}") for kind in _KINDS],
        [Said(f"roles.way.{_way(data, way)}") for way in _WAYS],
        [[each.value for each in row] for row in found],
        [[each.low for each in row] for row in found],
        [[each.high for each in row] for row in found],
    )


def _chart(data: Mapping[str, Any]) -> Chart:
    lines = []
    for way in _WAYS:
        value, low, high = zip(*data["by_width"][way], strict=True)
        lines.append(Series(f"roles.way.{_way(data, way)}", data["widths"], value, low, high))
    return Chart("roles.chart.width", "roles.axis.width", "roles.axis.itself", lines, "x")


def judge(data: Mapping[str, Any]) -> Verdict:
    """Three parts: one matrix makes symmetric scores, two do not; with one, a token likes itself
    best."""
    same, separate = (data["ways"][way] for way in _WAYS)
    most = max(same["asymmetry"])
    values = {"draws": data["draws"], "most": most}
    symmetric = most <= _ROUNDING
    findings = [_finding("holds" if symmetric else "fails", "symmetric", **values)]
    apart = statistics.mean(separate["asymmetry"])
    broken: Outcome = (
        "holds" if apart.low > _BROKEN else "fails" if apart.high < _BROKEN else "open"
    )
    values = {"apart": apart.value, "low": apart.low, "high": apart.high}
    findings.append(_finding(broken, "broken", **values))
    likes = statistics.mean_share(same["itself"]["drawn"])
    other = statistics.mean_share(separate["itself"]["drawn"])
    outcome: Outcome = (
        "holds" if likes.low > _MOSTLY else "fails" if likes.high < _MOSTLY else "open"
    )
    values = {"tokens": data["tokens"], "head_width": data["head_width"], "share": likes.value}
    values |= {"low": likes.low, "high": likes.high, "other": other.value}
    values |= {"other_low": other.low, "other_high": other.high, "chance": 1 / data["tokens"]}
    findings.append(_finding(outcome, "itself", **values))
    always = min(same["itself"]["drawn"]) == 1.0
    answer = "always" if always else "mostly" if likes.low > _MOSTLY else None
    if likes.low <= 1 / data["tokens"] <= likes.high or likes.high < 2 / data["tokens"]:
        answer = "chance"
    return Verdict(findings, answer, _notes(data, always))


def _notes(data: Mapping[str, Any], always: bool) -> list[Said]:
    """Not always: how often not, why, and when it is sure."""
    same = data["ways"]["same"]
    notes = []
    if data["same"] and not always and same["longer"] is not None:
        notes.append(Said("roles.note.not_always", {"longer": same["longer"]}))
    normed, one = (statistics.mean_share(same["itself"][kind]) for kind in ("normed", "one"))
    values = {"normed": normed.value, "low": normed.low, "high": normed.high, "one": one.value}
    notes.append(Said("roles.note.lengths" if data["same"] else "roles.note.lengths_apart", values))
    return notes


def _finding(outcome: Outcome, key: str, **values: Any) -> Finding:
    return Finding(outcome, Said(f"roles.finding.{key}.{outcome}", values))


EXPERIMENT = Experiment(
    "roles",
    guesses=("always", "mostly", "chance"),
    settings=(
        Setting("tokens", 16, least=2, most=128),
        Setting("width", 64, least=2, most=256),
        Setting("head_width", 16, least=1, most=256),
        Setting("draws", 400, quick=100, least=10, most=1000),
        Setting("same", True),
    ),
    false={"same": False},
    measure=measure,
    judge=judge,
)
