"""Which matrix sets the width of the output; and heads that see all of X or a slice of it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from regard import reference
from regard.lab import statistics
from regard.lab.experiment import Asked, Experiment, Setting
from regard.lab.measured import Finding, Maps, Measured, Outcome, Table, Verdict
from regard.lab.said import Said
from regard.reference import Array

_KEYS = (1, 2, 3, 5, 8, 13, 32)  # widths of W_Q and W_K that are tried
_VALUES = (1, 2, 3, 7, 17, 64)  # widths of W_V
_WAYS = ("whole", "slice")
_ROUNDING = 1e-12  # an output that changes by a smaller share does not change


def measure(asked: Asked) -> Measured:
    """Outputs of every d_k and d_v; numbers of both kinds of heads; and how far the output of each
    head changes if one slice of X is drawn anew."""
    width = asked["heads"] * asked["head_width"]
    x = asked.random().standard_normal((asked["tokens"], width))
    grid = [
        {"d_k": d_k, "d_v": d_v, "out": _width_of_output(asked, x, d_k, d_v)}
        for d_k in _KEYS
        for d_v in _VALUES
    ]
    ways: dict[str, dict[str, Any]] = {}
    for nth, way in enumerate(_WAYS):
        as_slices = way == "slice" and asked["slices"]
        found = []
        for draw in range(asked["draws"]):
            found.append(_of_heads(asked, as_slices, draw))
            asked.progress(nth * asked["draws"] + draw + 1, len(_WAYS) * asked["draws"])
        ways[way] = {
            "parameters": found[0]["parameters"],
            "heads": np.mean([each["heads"] for each in found], axis=0).tolist(),
            "others": [each["others"] for each in found],
            "most": max(each["most"] for each in found),
            "joined": [each["joined"] for each in found],
        }
    data = {"heads": asked["heads"], "head_width": asked["head_width"], "width": width}
    data |= {"output_matrix": asked["output_matrix"], "slices": asked["slices"]}
    data |= {"grid": grid, "ways": ways}
    return Measured(data, [_widths(data), _numbers(data)], [_maps(ways)])


def _width_of_output(asked: Asked, x: Array, d_k: int, d_v: int) -> int:
    """How many numbers a token has behind attention, and behind W_O if there is one."""
    random = asked.random(1)
    width = x.shape[1]
    w_q, w_k = random.standard_normal((2, width, d_k))
    w_v = random.standard_normal((width, d_v))
    out = reference.attention(x @ w_q, x @ w_k, x @ w_v).output
    if asked["output_matrix"]:
        out = out @ random.standard_normal((d_v, width))
    return out.shape[-1]


def _of_heads(asked: Asked, as_slices: bool, draw: int) -> dict[str, Any]:
    """Random heads: how many numbers they have; head by head (rows), how far its output changes if
    a slice (columns) is drawn anew; what the slices of others do to it, in the mean and at most;
    and how far the numbers of others' slices change behind W_O, where all heads are joined."""
    random = asked.random(2 + draw)
    heads, narrow = asked["heads"], asked["head_width"]
    width = heads * narrow
    read = narrow if as_slices else width  # the columns of X that a head reads
    x = random.standard_normal((asked["tokens"], width))
    w_q, w_k, w_v = random.standard_normal((3, heads, read, narrow)) / np.sqrt(read)
    w_o = random.standard_normal((width, width)) / np.sqrt(width)
    split = "slice" if as_slices else "project"
    before = reference.multi_head(x, w_q, w_k, w_v, w_o, split=split)
    change = np.zeros((heads, heads))
    joined = []
    for n in range(heads):
        own = slice(n * narrow, (n + 1) * narrow)
        other = x.copy()
        other[:, own] = random.standard_normal((len(x), narrow))
        after = reference.multi_head(other, w_q, w_k, w_v, w_o, split=split)
        moved = np.linalg.norm(after.heads.output - before.heads.output, axis=(1, 2))
        change[:, n] = moved / np.linalg.norm(before.heads.output, axis=(1, 2))
        apart, size = (
            np.linalg.norm(np.delete(y, own, axis=1))
            for y in (after.output - before.output, before.output)
        )
        joined.append(apart / size)
    others = change[~np.eye(heads, dtype=bool)]
    return {
        "parameters": w_q.size + w_k.size + w_v.size,
        "heads": change.tolist(),
        "others": float(others.mean()),
        "most": float(others.max()),
        "joined": float(np.mean(joined)),
    }


def _widths(data: Mapping[str, Any]) -> Table:
    rows = []
    for d_v in _VALUES:
        found = [each["out"] for each in data["grid"] if each["d_v"] == d_v]
        rows.append([d_v, min(found), max(found)])
    columns = ("width.column.d_v", "lab.column.least", "lab.column.most")
    return Table("width.table.widths", columns, rows)


def _numbers(data: Mapping[str, Any]) -> Table:
    rows = []
    for way, found in data["ways"].items():
        change = statistics.mean(found["others"])
        rows.append([Said(f"width.way.{way}"), found["parameters"], *change])
    columns = ("way", "parameters", "others", "low", "high")
    return Table("width.table.heads", [f"width.column.{name}" for name in columns], rows)


def _maps(ways: Mapping[str, Any]) -> Maps:
    """Change of each head by each slice, as a share of the largest of all."""
    most = max(np.max(found["heads"]) for found in ways.values())
    panes = [
        (Said(f"width.way.{way}"), (np.array(found["heads"]) / most).tolist())
        for way, found in ways.items()
    ]
    names = [str(n) for n in range(len(ways["whole"]["heads"]))]
    return Maps("width.chart.heads", panes, names, names)


def judge(data: Mapping[str, Any]) -> Verdict:
    """Three parts: W_V sets the width; slices need 1/h of the numbers; and are blind to others."""
    whole, slices = (data["ways"][way] for way in _WAYS)
    grid = data["grid"]
    right = sum(each["out"] == each["d_v"] for each in grid)
    values = {"right": right, "of": len(grid), "width": data["width"]}
    values |= {"widths": len({each["out"] for each in grid})}
    findings = [_finding(right == len(grid), "width", **values)]
    values = {"whole": whole["parameters"], "slices": slices["parameters"], "heads": data["heads"]}
    values |= {"times": whole["parameters"] / slices["parameters"]}
    fewer = slices["parameters"] * data["heads"] == whole["parameters"]
    findings.append(_finding(fewer, "count", **values))
    most = slices["most"]
    seen, mean = (statistics.mean(each["others"]) for each in (whole, slices))
    blind = most <= _ROUNDING
    values = {"most": most, "mean": mean.value, "mean_low": mean.low, "mean_high": mean.high}
    values |= {"seen": seen.value, "low": seen.low, "high": seen.high}
    findings.append(_finding(blind, "blind", **values))
    notes = []
    if blind:
        joined = statistics.mean(slices["joined"])
        values = {"joined": joined.value, "low": joined.low, "high": joined.high}
        notes.append(Said("width.note.joined", values))
    if not data["output_matrix"]:
        notes.append(Said("width.note.output", {"width": data["width"]}))
    return Verdict(findings, "nothing" if blind else "all" if mean.value > 0.5 else "little", notes)


def _finding(is_so: bool, key: str, **values: Any) -> Finding:
    outcome: Outcome = "holds" if is_so else "fails"
    return Finding(outcome, Said(f"width.finding.{key}.{outcome}", values))


EXPERIMENT = Experiment(
    "width",
    guesses=("nothing", "little", "all"),
    settings=(
        Setting("heads", 4, least=2, most=12),
        Setting("head_width", 12, least=1, most=32),
        Setting("tokens", 11, least=2, most=64),
        Setting("draws", 50, quick=10, least=2, most=500),
        Setting("slices", True),
        Setting("output_matrix", False),
    ),
    false={"slices": False, "output_matrix": True},
    measure=measure,
    judge=judge,
)
