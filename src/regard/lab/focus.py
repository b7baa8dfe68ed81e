"""How much weight goes to tokens that do not matter, as there are more and more of them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from regard.lab import statistics
from regard.lab.experiment import Asked, Experiment, Setting
from regard.lab.measured import Chart, Finding, Measured, Outcome, Series, Table, Verdict
from regard.lab.said import Said

if TYPE_CHECKING:
    from torch import Tensor

_WIDTH = 8  # of queries and keys
_WINDOW = 8  # irrelevant tokens that a window lets through
_MOST = 0.5  # "too global": more weight on what does not matter than on what does
_SLOPES = 0.9, 1.1  # of the margin that is needed, over ln N: 1 in theory
_MANY = 8  # from so many irrelevant tokens on the margin is compared with ln N
_HALVINGS = 30  # of an interval of 50: the margin is found to eight digits
_DEEPEST = 200  # no weight of float32 reaches so far


def measure(asked: Asked) -> Measured:
    """One relevant token among 1 to 4,096 others: the others' weight, the least weight, and the
    margin at which half of the weight is on the relevant one."""
    import torch

    sizes = [2**n for n in range(13) if 2**n <= asked["most"]]
    rows: list[dict[str, Any]] = []
    with torch.no_grad():
        for nth, n in enumerate(sizes):
            crowd = _crowd(asked, n, nth)
            masses = crowd.irrelevant(asked["margin"])
            rows.append(
                {
                    "others": n,
                    "masses": masses.tolist(),
                    "theory": _theory(n, asked["margin"], asked["spread"]),
                    "least": float(crowd.weights(asked["margin"]).min()),
                    "needed": _needed(asked, crowd, nth / len(sizes)),
                }
            )
            asked.progress(nth + 1, len(sizes))
        vanishes = _vanishes()
    data = {"margin": asked["margin"], "spread": asked["spread"], "way": asked["way"]}
    data |= {"draws": asked["draws"], "rows": rows, "vanishes": vanishes}
    return Measured(data, [_table(rows)], _charts(rows))


@dataclass(frozen=True, eq=False)
class _Crowd:
    """A query and N + 1 keys, many times: the last key is the one that matters.

    `q` (B, 1, 1, D); `k` (B, 1, N + 1, D), in which the last key has a score of 0.
    """

    q: Tensor
    k: Tensor
    way: str

    def keys(self, margin: float) -> Tensor:
        """The keys with the last one's score at the margin."""
        k = self.k.clone()
        k[:, :, -1:] += margin * _toward(self.q)
        return k

    def options(self, k: Tensor) -> dict[str, Any]:
        """Which keys a query may look at: all, its neighbours, or that with the largest score."""
        if self.way == "window":
            return {"window": (_WINDOW, 0)}
        if self.way == "top":
            return {"indices": (self.q @ k.mT).argmax(dim=-1, keepdim=True)}
        return {}

    def irrelevant(self, margin: float) -> Tensor:
        """The weight on all but the last key, (B,): the output, if their values are 1 and its 0."""
        import torch

        from regard import attention

        k = self.keys(margin)
        v = torch.ones_like(k[..., :1])
        v[:, :, -1] = 0.0
        return attention(self.q, k, v, **self.options(k)).flatten()

    def weights(self, margin: float) -> Tensor:
        """Every weight, (B, 1, 1, N + 1)."""
        from regard import weights

        k = self.keys(margin)
        return weights(self.q, k, **self.options(k))


def _crowd(asked: Asked, n: int, part: int) -> _Crowd:
    """Random queries, and keys whose scores are normal numbers; that of the last is 0."""
    import torch

    random = asked.random(part)
    draws = asked["draws"]
    q = torch.from_numpy(random.standard_normal((draws, 1, 1, _WIDTH)))
    k = torch.from_numpy(random.standard_normal((draws, 1, n + 1, _WIDTH)))
    scores = asked["spread"] * torch.from_numpy(random.standard_normal((draws, 1, n + 1, 1)))
    scores[:, :, -1] = 0.0
    found = k @ q.mT / math.sqrt(_WIDTH)
    return _Crowd(q, k + (scores - found) * _toward(q), asked["way"])


def _toward(q: Tensor) -> Tensor:
    """What has to be added to a key so that its scaled score with q grows by 1."""
    return math.sqrt(_WIDTH) * q / (q * q).sum(dim=-1, keepdim=True)


def _theory(n: int, margin: float, spread: float) -> float:
    """N e^(s²/2) / (N e^(s²/2) + e^m): scores of deviation s have exponentials of mean e^(s²/2)."""
    return 1 / (1 + math.exp(margin - math.log(n) - spread**2 / 2))


def _needed(asked: Asked, crowd: _Crowd, done: float) -> float:
    """The margin at which the others have half of the weight, in the mean of all draws."""
    low, high = -10.0, 40.0
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        if float(crowd.irrelevant(middle).mean()) > _MOST:
            low = middle
        else:
            high = middle
        asked.progress(done, 1.0)
    return (low + high) / 2


def _vanishes() -> int | None:
    """The least whole difference of two scores at which float32 gives a weight of exactly 0."""
    import torch

    from regard import weights

    gaps = torch.arange(1.0, _DEEPEST)
    k = torch.stack([torch.zeros_like(gaps), -gaps], dim=1)[:, None, :, None]
    found = weights(torch.ones(len(gaps), 1, 1, 1), k, scale=1.0)[:, 0, 0, 1]
    zeros = gaps[found == 0]
    return int(zeros[0]) if len(zeros) else None


def _table(rows: list[dict[str, Any]]) -> Table:
    columns = ("others", "mass", "low", "high", "theory", "least", "needed", "logarithm")
    shown = [
        [
            row["others"],
            *statistics.mean_share(row["masses"]),
            row["theory"],
            row["least"],
            row["needed"],
            math.log(row["others"]),
        ]
        for row in rows
    ]
    return Table("focus.table", [f"focus.column.{name}" for name in columns], shown)


def _charts(rows: list[dict[str, Any]]) -> list[Chart]:
    others = [row["others"] for row in rows]
    mass, low, high = zip(*(statistics.mean_share(row["masses"]) for row in rows), strict=True)
    masses = [
        Series("focus.line.measured", others, mass, low, high),
        Series("focus.line.theory", others, [row["theory"] for row in rows]),
    ]
    margins = [
        Series("focus.line.needed", others, [row["needed"] for row in rows]),
        Series("focus.line.logarithm", others, [math.log(n) for n in others]),
    ]
    return [
        Chart("focus.chart.mass", "focus.column.others", "focus.column.mass", masses, "x"),
        Chart("focus.chart.margin", "focus.column.others", "focus.column.needed", margins, "x"),
    ]


def judge(data: Mapping[str, Any]) -> Verdict:
    """Three parts: no weight is 0; enough others have most of the weight; the margin that would
    keep it goes with ln N."""
    rows = data["rows"]
    last = rows[-1]
    least = min(row["least"] for row in rows)
    findings = [_finding("holds" if least > 0 else "fails", "never", least=least)]
    mass = statistics.mean_share(last["masses"])
    outcome: Outcome = "holds" if mass.low > _MOST else "fails" if mass.high < _MOST else "open"
    values = {"others": last["others"], "margin": data["margin"], "mass": mass.value}
    values |= {"low": mass.low, "high": mass.high, "theory": last["theory"]}
    findings.append(_finding(outcome, "mass", **values))
    many = [row for row in rows if row["others"] >= _MANY]
    grows = statistics.slope(
        [math.log(row["others"]) for row in many], [row["needed"] for row in many]
    )
    lowest, highest = _SLOPES
    outcome = "open"
    if lowest <= grows.low and grows.high <= highest:
        outcome = "holds"
    elif grows.high < lowest or grows.low > highest:
        outcome = "fails"
    values = {"slope": grows.value, "low": grows.low, "high": grows.high}
    values |= {"others": last["others"], "needed": last["needed"], "few": many[0]["others"]}
    values |= {"first": many[0]["needed"]}
    findings.append(_finding(outcome, "margin", **values))
    notes = []
    if data["vanishes"] is not None:
        notes.append(Said("focus.note.vanishes", {"gap": data["vanishes"]}))
    if data["way"] == "all":
        notes.append(_of_theory(rows))
    answer = "little" if mass.value < 0.25 else "half" if mass.value < 0.75 else "most"
    return Verdict(findings, answer, notes)


def _of_theory(rows: list[Mapping[str, Any]]) -> Said:
    """How far the means are from the formula, at most."""
    apart = {
        row["others"]: statistics.mean_share(row["masses"]).value - row["theory"] for row in rows
    }
    others = max(apart, key=lambda n: abs(apart[n]))
    return Said("focus.note.theory", {"apart": abs(apart[others]), "others": others})


def _finding(outcome: Outcome, key: str, **values: Any) -> Finding:
    return Finding(outcome, Said(f"focus.finding.{key}.{outcome}", values))


EXPERIMENT = Experiment(
    "focus",
    guesses=("little", "half", "most"),
    settings=(
        Setting("margin", 4.0, least=0.0, most=30.0),
        Setting("spread", 1.0, least=0.0, most=3.0),
        Setting("most", 4096, least=32, most=4096),
        Setting("draws", 100, quick=20, least=3, most=500),
        Setting("way", "all", choices=("all", "window", "top")),
    ),
    false={"way": "top"},
    measure=measure,
    judge=judge,
)
