"""What a value of low rank loses: W_V against the best product of two thin matrices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard import reference
from regard.lab import statistics
from regard.lab.experiment import Asked, Experiment, Setting
from regard.lab.measured import Chart, Finding, Measured, Outcome, Series, Table, Verdict
from regard.lab.said import Said
from regard.reference import Array

_SHARES = (1 / 32, 1 / 16, 1 / 8, 1 / 4, 3 / 8, 1 / 2, 3 / 4, 1.0)  # of the width, as ranks
_LOST = 0.1  # a tenth of the values: with a smaller error nobody would speak of a loss
_MUCH = 1 / 3  # of the values: what the predictions call more than a third
_TOKENS = 240  # that random matrices read; as many as MiniLM's 24 sentences have
_SENTENCES = 24
_HEAD = 0  # of each layer of MiniLM, whose W_V · W_O is looked at as a product


def measure(asked: Asked) -> Measured:
    """The least error of every rank, by singular values; the error of the values at one rank; of
    random matrices and of MiniLM's."""
    width, n_matrices = asked["width"], asked["matrices"]
    with_model = asked["model"] == "minilm"
    n_parts = n_matrices + (6 if with_model else 0)
    rank = _rank(asked["share"], width)
    data: dict[str, Any] = {"share": asked["share"], "matrix": asked["matrix"], "random": []}
    data |= {"width": width, "rank": rank, "shares": list(_SHARES)}
    for nth in range(n_matrices):
        random = asked.random(nth)
        x = random.standard_normal((_TOKENS, width))
        w_v = random.standard_normal((width, width)) / np.sqrt(width)
        if asked["matrix"] == "product":
            w_v = w_v[:, :rank] @ random.standard_normal((rank, width)) / np.sqrt(rank)
        data["random"].append(_figures(x, w_v, asked["share"]))
        asked.progress(nth + 1, n_parts)
    data["parameters"] = data["random"][0]["parameters"]
    if with_model:
        data["minilm"] = _of_minilm(asked, n_matrices, n_parts)
    return Measured(data, [_table(data)], [_chart(data)])


def _rank(share: float, width: int) -> int:
    return max(1, round(share * width))


def _figures(x: Array, w_v: Array, share: float) -> dict[str, Any]:
    """Of W_V and the tokens that it reads: by rank the least error of the matrix, as a share of its
    size; the error of the values X·V_down·V_up; and the least that any matrix of that rank could
    make of just these tokens."""
    left, sizes, right = np.linalg.svd(w_v)
    width = len(w_v)
    rank = _rank(share, width)
    v_down, v_up = left[:, :rank] * sizes[:rank], right[:rank]
    values = x @ w_v
    error = np.linalg.norm(values - reference.low_rank_value(x, v_down, v_up))
    of_values = np.linalg.svd(values, compute_uv=False)
    return {
        "errors": [_left_out(sizes, _rank(each, width)) for each in _SHARES],
        "error": _left_out(sizes, rank),
        "lost": float(error / np.linalg.norm(values)),
        "least": _left_out(of_values, rank),
        "enough": next(r for r in range(width + 1) if _left_out(sizes, r) <= _LOST) / width,
        "parameters": {"thin": v_down.size + v_up.size, "whole": w_v.size},
    }


def _left_out(sizes: NDArray[Any], rank: int) -> float:
    """The error of the best matrix of this rank, of singular values: √(Σ rest² / Σ all²)."""
    return float(np.sqrt((sizes[rank:] ** 2).sum() / (sizes**2).sum()))


def _of_minilm(asked: Asked, done: int, of: int) -> dict[str, Any]:
    """The figures of every layer's W_V; or of one head's W_V · W_O, which is a product itself."""
    from regard.lab.minilm import read

    seen = read(asked, _SENTENCES)
    width, head_width = seen.w_v.shape[1], seen.q.shape[-1]
    columns = slice(_HEAD * head_width, (_HEAD + 1) * head_width)
    layers = []
    for nth, (hidden, w_v, w_o) in enumerate(zip(seen.hidden, seen.w_v, seen.w_o, strict=True)):
        matrix = w_v[:, columns] @ w_o[columns] if asked["matrix"] == "product" else w_v
        layers.append(_figures(hidden.reshape(-1, width), matrix, asked["share"]))
        asked.progress(done + nth + 1, of)
    rank = _rank(asked["share"], width)
    return {"layers": layers, "width": width, "rank": rank, "head_width": head_width}


def _groups(data: Mapping[str, Any]) -> dict[str, Sequence[Mapping[str, Any]]]:
    """What was measured, by where the matrices come from."""
    found = {"random": data["random"]}
    return found | ({"minilm": data["minilm"]["layers"]} if "minilm" in data else {})


def _table(data: Mapping[str, Any]) -> Table:
    groups = _groups(data)
    rows: list[list[Any]] = []
    for nth, share in enumerate(data["shares"]):
        row: list[Any] = [share, 2 * share]
        for matrices in groups.values():
            row += list(statistics.mean([each["errors"][nth] for each in matrices]))
        rows.append(row)
    columns = ["rank.column.share", "rank.column.parameters"]
    for name in groups:
        columns += [f"rank.column.{name}", "rank.column.low", "rank.column.high"]
    return Table("rank.table", columns, rows)


def _chart(data: Mapping[str, Any]) -> Chart:
    lines = []
    for name, matrices in _groups(data).items():
        errors = np.array([each["errors"] for each in matrices])
        lines.append(
            Series(
                f"rank.column.{name}",
                data["shares"],
                errors.mean(axis=0).tolist(),
                errors.min(axis=0).tolist(),
                errors.max(axis=0).tolist(),
            )
        )
    return Chart("rank.chart", "rank.column.share", "rank.axis.error", lines)


def judge(data: Mapping[str, Any]) -> Verdict:
    """Does the product save parameters; and does it lose more than a tenth of the values?"""
    thin, whole = data["parameters"]["thin"], data["parameters"]["whole"]
    values = {"rank": data["rank"], "width": data["width"], "thin": thin, "whole": whole}
    values |= {"part": thin / whole, "half": data["width"] // 2}
    counted = thin == 2 * data["rank"] * data["width"] and thin < whole
    findings = [_finding("holds" if counted else "fails", "count", **values)]
    lost = statistics.mean([each["lost"] for each in data["random"]])
    matrices = len(data["random"])
    findings.append(_of_loss("random", lost, rank=data["rank"], count=matrices))
    notes = []
    enough = statistics.mean([each["enough"] for each in data["random"]])
    values = {"random": enough.value, "low": enough.low, "high": enough.high}
    if data["matrix"] == "whole":
        notes.append(Said("rank.note.enough", values))
    if "minilm" in data:
        minilm, layers = data["minilm"], data["minilm"]["layers"]
        lost = statistics.mean([each["lost"] for each in layers])
        findings.append(_of_loss("minilm", lost, rank=minilm["rank"], count=len(layers)))
        notes += _of_model(minilm, data["matrix"])
    answers = {"little": lost.high < _LOST, "some": lost.low > _LOST and lost.high < _MUCH}
    answers["much"] = lost.low > _MUCH
    return Verdict(findings, next((name for name, so in answers.items() if so), None), notes)


def _of_loss(name: str, lost: statistics.Interval, **values: Any) -> Finding:
    outcome: Outcome = "holds" if lost.low > _LOST else "fails" if lost.high < _LOST else "open"
    values |= {"lost": lost.value, "low": lost.low, "high": lost.high}
    return _finding(outcome, name, **values)


def _of_model(minilm: Mapping[str, Any], matrix: str) -> list[Said]:
    """What rank would do, what the best choice for these texts would lose, and what a head is."""
    layers, width, narrow = minilm["layers"], minilm["width"], minilm["head_width"]
    values = {"narrow": narrow, "width": width, "thin": 2 * narrow * width, "whole": width**2}
    notes = [Said("rank.note.head", values)]
    if matrix == "whole":
        enough = statistics.mean([each["enough"] for each in layers])
        least = statistics.mean([each["least"] for each in layers])
        values = {"enough": enough.value, "low": enough.low, "high": enough.high}
        notes.append(Said("rank.note.minilm", values))
        values = {"least": least.value, "low": least.low, "high": least.high}
        notes.append(Said("rank.note.least", values | {"rank": minilm["rank"]}))
    return notes


def _finding(outcome: Outcome, key: str, **values: Any) -> Finding:
    return Finding(outcome, Said(f"rank.finding.{key}.{outcome}", values))


EXPERIMENT = Experiment(
    "rank",
    guesses=("little", "some", "much"),
    settings=(
        Setting("share", 0.25, least=0.01, most=1.0),
        Setting("width", 384, quick=128, least=8, most=512),
        Setting("matrices", 10, quick=5, least=2, most=50),
        Setting("matrix", "whole", choices=("whole", "product")),
        Setting("model", "minilm", quick="none", choices=("none", "minilm")),
    ),
    false={"matrix": "product"},
    measure=measure,
    judge=judge,
    needs=("minilm",),
)
