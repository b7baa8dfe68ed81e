"""Attention makes the context, the feed-forward layer refines it: whose step is how long?"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np

from regard.lab import statistics
from regard.lab.experiment import Asked, Experiment, Setting
from regard.lab.marked import data, find, places, unmark
from regard.lab.measured import Bars, Chart, Finding, Measured, Outcome, Series, Table, Verdict
from regard.lab.said import Said

_PARTS = ("attention", "feed_forward")
# In each sentence one word is exchanged for another, which is as long in tokens.
_EXCHANGED = {"apple": "letter", "bank": "house", "creature": "machine"}
_ROUNDING = 1e-4  # of a part's length: a smaller change is float32's rounding, layer by layer
_EVEN = 0.1  # a share within this of a half counts as a half


def measure(asked: Asked) -> Measured:
    """Of every token and layer, how long the two parts of its move are; and how far each part
    changes if another word of the sentence does, while the token itself is kept as it is."""
    loaded = asked.load("minilm")
    import torch

    cases = _cases(asked["sentences"])
    shares, along, direct, apart = [], [], [], []
    with torch.no_grad():
        for number, (text, word) in enumerate(cases):
            inputs, place = _inputs(loaded, text, word)
            inputs = inputs.expand(2, -1).clone()
            other = loaded.reader().read(_EXCHANGED[word])
            inputs[1, place] = other.ids[1]
            found = _of_sentence(loaded.model, inputs, place, asked["links"])
            for values, value in zip((shares, along, direct, apart), found, strict=True):
                values.append(value)
            asked.progress(number + 1, len(cases))
    figures = {
        "links": asked["links"],
        "share": np.round(shares, 6).tolist(),  # sentences, layers: of the feed-forward layer
        "along": np.round(along, 6).tolist(),
        "direct": np.asarray(direct).tolist(),  # sentences, parts, layers
        "apart": np.round(apart, 6).tolist(),  # sentences, parts, layers
    }
    return Measured(figures, [_table(figures)], _charts(figures))


def _cases(count: int) -> list[tuple[str, str]]:
    """As many sentences, of all words and senses in turn, with the word that is exchanged."""
    lists = [
        [(unmark(sentence, {"cue": "**"}).text, word) for sentence in sense["sentences"]]
        for word, senses in data("meaning").items()
        for sense in senses.values()
    ]
    return [case for cases in zip(*lists, strict=True) for case in cases][:count]


def _inputs(loaded: Any, text: str, word: str) -> tuple[Any, int]:
    reading = loaded.reader().read(text)
    (place,) = places(reading.tokens, find(text, word))
    return loaded.batch([reading])["input_ids"], place


def _of_sentence(model: Any, ids: Any, place: int, links: str) -> tuple[Any, Any, Any, Any]:
    """Of each layer, means over the tokens of the text but the one that was exchanged.

    - the share of the feed-forward layer in the lengths of the two parts, and in the move itself
    - of both parts, the change if all other tokens are those of the second text, and this is not
    - how far the token in the one text is from itself in the other, after both parts
    """
    import torch

    n = ids.shape[1]
    tokens = [at for at in range(1, n - 1) if at != place]
    mask = None
    if links == "own":  # each token may look at itself alone
        mask = torch.full((n, n), -torch.inf).fill_diagonal_(0.0)[None, None]
    state = model.embeddings(ids)
    share, along, direct, apart = [], [], [[], []], [[], []]
    for layer in model.encoder.layer:
        between = _attend(layer, state, mask)
        after = _feed(layer, between)
        moved, fed = between[0] - state[0], after[0] - between[0]
        lengths = moved.norm(dim=-1), fed.norm(dim=-1)
        whole = moved + fed
        share.append(_mean(lengths[1] / (lengths[0] + lengths[1]), tokens))
        along.append(_mean((fed * whole).sum(-1) / (whole * whole).sum(-1), tokens))
        for part, (before, then, length, step) in enumerate(
            (
                (state, between, lengths[0], partial(_attend, layer, mask=mask)),
                (between, after, lengths[1], partial(_feed, layer)),
            )
        ):
            mixed = before[1].repeat(len(tokens), 1, 1)
            rows = torch.arange(len(tokens))
            mixed[rows, tokens] = before[0, tokens]
            change = (step(mixed)[rows, tokens] - then[0, tokens]).norm(dim=-1) / length[tokens]
            direct[part].append(float(change.mean()))
            far = (then[1] - then[0]).norm(dim=-1) / then[0].norm(dim=-1)
            apart[part].append(_mean(far, tokens))
        state = after
    return share, along, direct, apart


def _attend(layer: Any, state: Any, mask: Any) -> Any:
    """The tokens after attention: what it adds, added and normed."""
    return layer.attention(state, attention_mask=mask)[0]


def _feed(layer: Any, between: Any) -> Any:
    """The tokens after the feed-forward layer: what it adds, added and normed."""
    return layer.output(layer.intermediate(between), between)


def _mean(values: Any, tokens: list[int]) -> float:
    return float(values[tokens].mean())


def _table(figures: Mapping[str, Any]) -> Table:
    share, along = (np.mean(figures[name], axis=0) for name in ("share", "along"))
    direct = np.mean(figures["direct"], axis=0)
    rows = [
        [n, 1 - share[n], share[n], along[n], direct[0, n], direct[1, n]] for n in range(len(share))
    ]
    names = (
        "layer",
        "attention",
        "feed_forward",
        "along",
        "direct.attention",
        "direct.feed_forward",
    )
    return Table(
        "refine.table",
        [f"refine.column.{name}" for name in names],
        [[cell if n == 0 else float(cell) for n, cell in enumerate(row)] for row in rows],
    )


def _charts(figures: Mapping[str, Any]) -> list[Bars | Chart]:
    share = np.asarray(figures["share"])
    found = [[statistics.mean(x[:, n]) for n in range(share.shape[1])] for x in (1 - share, share)]
    apart = np.asarray(figures["apart"])
    layers = list(range(share.shape[1]))
    lines = []
    for part, name in enumerate(_PARTS):
        each = [statistics.mean(apart[:, part, n]) for n in range(len(layers))]
        lines.append(
            Series(
                f"refine.after.{name}",
                layers,
                [x.value for x in each],
                [x.low for x in each],
                [x.high for x in each],
            )
        )
    bars = Bars(
        "refine.chart.share",
        "refine.axis.share",
        [Said("refine.layer", {"layer": layer}) for layer in layers],
        [f"refine.part.{name}" for name in _PARTS],
        [[x.value for x in row] for row in found],
        [[x.low for x in row] for row in found],
        [[x.high for x in row] for row in found],
    )
    return [bars, Chart("refine.chart.apart", "refine.axis.layer", "refine.axis.apart", lines)]


def judge(data: Mapping[str, Any]) -> Verdict:
    """Only attention may bring in other words; and its part of the moves must be the larger one."""
    direct = np.asarray(data["direct"])
    context = statistics.mean(direct[:, 0].mean(axis=1))
    leak = float(direct[:, 1].max())
    values: dict[str, Any] = {
        "attention": context.value,
        "low": context.low,
        "high": context.high,
        "feed_forward": leak,
        "sentences": len(direct),
    }
    makes = "holds" if context.low > _ROUNDING and leak <= _ROUNDING else "fails"
    findings = [Finding(makes, Said(f"refine.finding.context.{makes}", values))]
    share = statistics.mean(np.asarray(data["share"]).mean(axis=1))
    along = statistics.mean(np.asarray(data["along"]).mean(axis=1))
    refines: Outcome = "holds" if share.high < 0.5 else "fails" if share.low > 0.5 else "open"
    values = {
        "share": share.value,
        "low": share.low,
        "high": share.high,
        "along": along.value,
        "along_low": along.low,
        "along_high": along.high,
    }
    findings.append(Finding(refines, Said(f"refine.finding.share.{refines}", values)))
    answer = "even"
    if abs(share.value - 0.5) > _EVEN:
        answer = "feed_forward" if share.value > 0.5 else "attention"
    return Verdict(findings, answer, _of_passing(np.asarray(data["apart"])))


def _of_passing(apart: Any) -> list[Said]:
    """Does the feed-forward layer make the difference that a context makes larger or smaller?"""
    if apart[:, 0].min() <= _ROUNDING:
        return []
    found = statistics.mean(np.log(apart[:, 1] / apart[:, 0]).mean(axis=1))
    times = {name: float(np.exp(x)) for name, x in found._asdict().items()}
    return [Said("refine.note.passing", times)]


EXPERIMENT = Experiment(
    "refine",
    guesses=("attention", "even", "feed_forward"),
    settings=(
        Setting("sentences", 60, quick=12, least=3, most=120),
        Setting("links", "all", choices=("all", "own")),
    ),
    false={"links": "own"},
    measure=measure,
    judge=judge,
    needs=("minilm",),
)
