"""Where attention weights come from: the same parameters read many sentences."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from regard import reference
from regard.lab import statistics
from regard.lab.experiment import Asked, Experiment, Setting
from regard.lab.measured import Bars, Finding, Maps, Measured, Outcome, Table, Verdict
from regard.lab.minilm import SENTENCES
from regard.lab.said import Said
from regard.reference import Array

_WIDTH, _HEAD_WIDTH = 32, 16
_ROUNDING = 1e-9  # weights that differ by more than this are others
_MOST = 0.5  # "from the content": more of the variation than all else together


def measure(asked: Asked) -> Measured:
    """Weights of sentences of the same length: how far they differ, place by place, and how much of
    all variation that is. Of random attention layers; of layers whose weights are parameters; of
    every head of MiniLM."""
    sentences, models = [text.split() for text in SENTENCES[: asked["sentences"]]], asked["models"]
    with_model = asked["model"] == "minilm"
    found: dict[str, list[dict[str, float]]] = {"attention": [], "fixed": []}
    example: dict[str, Array] = {}
    for nth in range(models):
        random = asked.random(nth)
        for way, weights in _layers(random, sentences, asked["w_q"] == "zero").items():
            found[way].append(_figures(weights))
            example.setdefault(way, weights)
        asked.progress(nth + 1, models + (models if with_model else 0))
    data: dict[str, Any] = {"sentences": len(sentences), "words": len(sentences[0])}
    data |= {"models": models, "w_q": asked["w_q"], "model": asked["model"]} | found
    charts: list[Maps | Bars] = [_maps(example, sentences)]
    if with_model:
        data["minilm"] = _of_minilm(asked, len(sentences))
        charts.append(_bars(data["minilm"]))
        asked.progress(1, 1)
    return Measured(data, [_table(data)], charts)


def _layers(
    random: np.random.Generator, sentences: Sequence[Sequence[str]], blind: bool
) -> dict[str, Array]:
    """Weights (S, N, N) of an attention layer, and of one whose weights go by position alone."""
    vocabulary = sorted({word for words in sentences for word in words})
    vectors = random.standard_normal((len(vocabulary), _WIDTH))
    x = np.stack([vectors[[vocabulary.index(word) for word in words]] for words in sentences])
    n_words = x.shape[1]
    x = x + reference.sinusoidal(n_words, _WIDTH)
    w_q, w_k = random.standard_normal((2, _WIDTH, _HEAD_WIDTH)) / np.sqrt(_WIDTH)
    weights = reference.attention(x @ (0.0 * w_q if blind else w_q), x @ w_k, x).weights
    parameters = reference.softmax(random.standard_normal((n_words, n_words)))
    return {"attention": weights, "fixed": np.stack([parameters for _ in sentences])}


def _figures(weights: Array) -> dict[str, float]:
    return {"change": _change(weights), "share": _share(weights)}


def _change(weights: Array) -> float:
    """How much of a row's weight lies elsewhere in another sentence: the mean over all pairs of
    sentences of Σ |a − b| / 2, of weights (S, …, N, N)."""
    n = len(weights)
    moved = [np.abs(weights[i + 1 :] - weights[i]).sum(axis=-1) / 2 for i in range(n - 1)]
    return float(np.mean(np.concatenate([each.ravel() for each in moved])))


def _share(weights: Array) -> float:
    """Which share of the variance of weights (S, …, N, N) is between sentences at one place, and
    not between places: 0 if only places differ, 1 if only sentences do.

    The means of places vary by chance, too, as there are few sentences: that is taken off.
    """
    within = float(weights.var(axis=0, ddof=1).mean())
    middle = weights.mean(axis=0)
    places = float(((middle - 1 / weights.shape[-1]) ** 2).mean()) - within / len(weights)
    total = within + max(0.0, places)
    return within / total if total > _ROUNDING**2 else 0.0


def _of_minilm(asked: Asked, n_sentences: int) -> dict[str, Any]:
    """The same figures of all heads of MiniLM, with what they are without one of the sentences.

    Only words attend and are attended to here: the tokens that stand around every sentence are the
    same in all of them.
    """
    from regard.lab.minilm import read

    seen = read(asked, n_sentences)
    words = slice(1, -1)
    q, k = seen.q[..., words, :], seen.k[..., words, :]
    if asked["w_q"] == "zero":
        q = 0.0 * q
    weights = reference.attention(q, k, k).weights.swapaxes(0, 1)  # (S, L, H, N, N)
    shares = [[_share(weights[:, n, h]) for h in range(q.shape[2])] for n in range(len(q))]
    without = [np.delete(weights, n, axis=0) for n in range(n_sentences)]
    return {
        "change": _change(weights),
        "changes": [_change(each) for each in without],
        "share": _share(weights),
        "without": [_share(each) for each in without],
        "heads": shares,
    }


def _table(data: Mapping[str, Any]) -> Table:
    rows: list[list[Any]] = []
    for way in ("attention", "fixed"):
        change, share = (
            statistics.mean_share([found[name] for found in data[way]])
            for name in ("change", "share")
        )
        rows.append([Said(f"content.way.{way}"), *change, *share])
    columns = ["way", "change", "low", "high", "share", "low", "high"]
    return Table("content.table", [f"content.column.{name}" for name in columns], rows)


def _maps(example: Mapping[str, Array], sentences: Sequence[Sequence[str]]) -> Maps:
    """Both layers, each reading the first two sentences."""
    panes = []
    for way, weights in example.items():
        for n in range(2):
            name = Said(f"content.pane.{way}", {"words": " ".join(sentences[n])})
            panes.append((name, weights[n].tolist()))
    places = [str(n + 1) for n in range(len(sentences[0]))]
    return Maps("content.chart.weights", panes, places, places)


def _bars(minilm: Mapping[str, Any]) -> Bars:
    heads = np.array(minilm["heads"])
    return Bars(
        "content.chart.minilm",
        "content.column.share",
        [Said("content.layer", {"layer": n}) for n in range(len(heads))],
        ["content.column.share"],
        [heads.mean(axis=1).tolist()],
        [heads.min(axis=1).tolist()],
        [heads.max(axis=1).tolist()],
    )


def judge(data: Mapping[str, Any]) -> Verdict:
    """Do weights change with the sentence; and does most of their variation go with it?"""
    changes, shares = (
        statistics.mean_share([found[name] for found in data["attention"]])
        for name in ("change", "share")
    )
    least = min(found["change"] for found in data["attention"])
    fixed = max(found["change"] for found in data["fixed"])
    values = {"models": data["models"], "sentences": data["sentences"], "fixed": fixed}
    moves = least > _ROUNDING >= fixed
    findings = [_finding("holds" if moves else "fails", "moves", changes, **values)]
    findings.append(_finding(_outcome(shares), "share", shares, **values))
    notes = []
    if "minilm" in data:
        minilm = data["minilm"]
        change = statistics.jackknife(minilm["change"], minilm["changes"])
        shares = statistics.jackknife(minilm["share"], minilm["without"])
        values = {"change": change.value, "change_low": change.low, "change_high": change.high}
        values |= {"sentences": data["sentences"]}
        findings.append(_finding(_outcome(shares), "minilm", shares, **values))
        if moves:
            notes.append(_of_heads(minilm["heads"]))
    known = {"holds": "much", "fails": "little", "open": None}
    answer = known[_outcome(shares)] if moves else "stay"
    return Verdict(findings, answer, notes)


def _outcome(share: statistics.Interval) -> Outcome:
    return "holds" if share.low > _MOST else "fails" if share.high < _MOST else "open"


def _of_heads(heads: Sequence[Sequence[float]]) -> Said:
    """Heads are not alike: some go by position."""
    shares = np.array(heads)
    layer, head = np.unravel_index(shares.argmin(), shares.shape)
    values = {"layer": int(layer), "head": int(head), "least": float(shares.min())}
    values |= {"below": int((shares < _MOST).sum()), "heads": shares.size}
    return Said("content.note.heads", values)


def _finding(outcome: Outcome, key: str, interval: statistics.Interval, **values: Any) -> Finding:
    values |= {"value": interval.value, "low": interval.low, "high": interval.high}
    return Finding(outcome, Said(f"content.finding.{key}.{outcome}", values))


EXPERIMENT = Experiment(
    "content",
    guesses=("stay", "little", "much"),
    settings=(
        Setting("sentences", 24, quick=12, least=3, most=24),
        Setting("models", 50, quick=10, least=2, most=1000),
        Setting("w_q", "random", choices=("random", "zero")),
        Setting("model", "minilm", quick="none", choices=("none", "minilm")),
    ),
    false={"w_q": "zero"},
    measure=measure,
    judge=judge,
    needs=("minilm",),
)
