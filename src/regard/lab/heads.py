"""Do different heads learn different relations? Kinds of heads, and how far apart they are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from regard.lab import statistics
from regard.lab.experiment import Asked, Experiment, Setting
from regard.lab.marked import data
from regard.lab.measured import Bars, Finding, Maps, Measured, Outcome, Table, Verdict
from regard.lab.said import Said
from regard.reference import Array

# How a key stands to a query, each key in the first that fits.
_RELATIONS = ("self", "first", "last", "same", "previous", "next", "mark", "near", "far")
_NEAR = 4  # tokens
_UNNAMED = ("mixed", "broad")  # kinds of `run.heads` that say of no place where a head looks
_TIMES = 2.0  # heads that learned nothing differ a little, too: learning must make it twice as much


def measure(asked: Asked) -> Measured:
    """Kinds of heads on a text, and how far heads are apart in what they look at, against how far
    one head is from itself on another text."""
    loaded = asked.load("minilm")
    texts = [asked["text"], *data("texts")["texts"][: asked["texts"]]]
    untrained = replace(loaded, model=_random(loaded.model.config, asked.seed + 1))
    model = loaded
    if asked["weights"] == "random":
        model = replace(loaded, model=_random(loaded.model.config, asked.seed))
    profiles, kinds = _profiles(asked, model, texts, 0.0)
    others, _ = _profiles(asked, untrained, texts, 0.5)
    within, between, apart = _distances(profiles)
    n_layers, n_heads = loaded.model.config.num_hidden_layers, profiles.shape[0]
    names = [f"{layer}.{head}" for layer in range(n_layers) for head in range(n_heads // n_layers)]
    figures = {
        "weights": asked["weights"],
        "heads": names,
        "texts": len(texts),
        "kinds": kinds,
        "within": within.tolist(),
        "between": between.tolist(),
        "untrained": _distances(others)[1].tolist(),
    }
    panes = [("heads.chart.pane", apart.round(3).tolist())]
    charts = [_bars(kinds[0]), Maps("heads.chart.apart", panes, names, names)]
    return Measured(figures, [_table(profiles, names)], charts)


def _random(config: Any, seed: int) -> Any:
    """A model of the same shape that has learned nothing."""
    import torch
    from transformers import AutoModel

    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        return AutoModel.from_config(config).eval()


def _profiles(
    asked: Asked, loaded: Any, texts: Sequence[str], before: float
) -> tuple[Array, list[list[str]]]:
    """What share of its weight a head puts on keys of each relation, (heads, texts, relations); and
    the kind of each head on each text."""
    profiles, kinds = [], []
    for number, text in enumerate(texts):
        reading = loaded.reader().read(text)
        run = loaded.see(reading, keep=("q", "k"))
        kinds.append([head["kind"] for head in run.heads()])
        relation = _relations(reading)
        weights = np.concatenate([run.weights(n)[0].numpy() for n in range(len(run.layers))])
        rows = weights[:, 1:-1].astype(float)  # of the tokens of the text itself
        shares = [(rows * (relation[1:-1] == n)).sum(-1).mean(-1) for n in range(len(_RELATIONS))]
        profiles.append(np.stack(shares, axis=-1))
        asked.progress(before + 0.5 * (number + 1) / len(texts), 1)
    return np.stack(profiles, axis=1), kinds


def _relations(reading: Any) -> Array:
    """How each key stands to each query (tokens, tokens), by number."""
    n = len(reading.ids)
    at, ids = np.arange(n), np.asarray(reading.ids)
    away = at[None, :] - at[:, None]
    is_mark = np.array([not any(map(str.isalnum, token.text)) for token in reading.tokens])
    tests = [
        away == 0,
        np.broadcast_to(at == 0, (n, n)),
        np.broadcast_to(at == n - 1, (n, n)),
        ids[None, :] == ids[:, None],
        away == -1,
        away == 1,
        np.broadcast_to(is_mark, (n, n)),
        np.abs(away) <= _NEAR,
    ]
    return np.select(tests, range(len(tests)), len(tests))


def _distances(profiles: Array) -> tuple[Array, Array, Array]:
    """Of each head, how far it is from itself on another text, and from another head on another
    text: the share of the weight that is on keys of other relations. And of each two heads."""
    n_heads, n_texts, _ = profiles.shape
    total = np.zeros((n_heads, n_heads))
    for one in range(n_texts):
        for two in range(n_texts):
            if one != two:
                change = profiles[:, None, one] - profiles[None, :, two]
                total += np.abs(change).sum(axis=-1) / 2
    apart = total / (n_texts * (n_texts - 1))
    within = np.diag(apart)
    return within, (apart.sum(axis=1) - within) / (n_heads - 1), apart


def _table(profiles: Array, names: Sequence[str]) -> Table:
    """For each relation the head that has most of it on the first text, and what it has on the
    others."""
    rows = []
    for number, relation in enumerate(_RELATIONS):
        best = int(profiles[:, 0, number].argmax())
        shares = [profiles[best, 0, number], profiles[best, 1:, number].mean()]
        mean = float(profiles[:, :, number].mean())
        rows.append([Said(f"heads.relation.{relation}"), names[best], *map(float, shares), mean])
    columns = ("relation", "head", "here", "elsewhere", "mean")
    return Table("heads.table", [f"heads.column.{name}" for name in columns], rows)


def _bars(kinds: Sequence[str]) -> Bars:
    counts = Counter(kinds).most_common()
    return Bars(
        "heads.chart.kinds",
        "heads.axis.heads",
        [Said(f"heads.kind.{kind.replace(' ', '_')}") for kind, _ in counts],
        ["heads.axis.heads"],
        [[float(count) for _, count in counts]],
    )


def judge(data: Mapping[str, Any]) -> Verdict:
    """Heads must differ more than texts make a head differ from itself; more than learning nothing
    makes them; and be of several kinds."""
    within, between = np.asarray(data["within"]), np.asarray(data["between"])
    times = statistics.ratio(between, within)
    findings = [
        _finding(
            statistics.mean(between - within),
            "apart",
            within=float(within.mean()),
            between=float(between.mean()),
            times=times.value,
            low=times.low,
            high=times.high,
            heads=len(within),
            texts=data["texts"],
        )
    ]
    untrained = np.asarray(data["untrained"])
    learned = statistics.ratio(between, untrained)
    findings.append(
        _finding(
            statistics.mean(between - _TIMES * untrained),
            "learned",
            untrained=float(untrained.mean()),
            between=float(between.mean()),
            times=learned.value,
            low=learned.low,
            high=learned.high,
        )
    )
    findings.append(_of_kinds(data["kinds"]))
    named = sum(kind not in _UNNAMED for kind in data["kinds"][0])
    answer = "different" if 2 * named > len(within) else "few"
    if any(finding.outcome == "fails" for finding in findings):
        answer = "same"
    return Verdict(findings, answer, [Said("heads.note.kinds")])


def _of_kinds(kinds: Sequence[Sequence[str]]) -> Finding:
    """Is there more than one kind of place that heads mostly look at?"""
    here = Counter(kinds[0])
    named = [kind for kind in here if kind not in _UNNAMED]
    same = sum(
        kind == other for others in kinds[1:] for kind, other in zip(kinds[0], others, strict=True)
    )
    stays = statistics.share(same, len(kinds[0]) * (len(kinds) - 1))
    values = {
        "kinds": len(named),
        "named": sum(here[kind] for kind in named),
        "heads": len(kinds[0]),
        "broad": here["broad"],
        "mixed": here["mixed"],
        "stays": stays.value,
        "low": stays.low,
        "high": stays.high,
    }
    outcome: Outcome = "holds" if len(named) >= 2 else "fails"
    return Finding(outcome, Said(f"heads.finding.kinds.{outcome}", values))


def _finding(difference: statistics.Interval, key: str, **values: Any) -> Finding:
    outcome: Outcome = "open"
    if difference.low > 0:
        outcome = "holds"
    elif difference.high < 0:
        outcome = "fails"
    return Finding(outcome, Said(f"heads.finding.{key}.{outcome}", values))


EXPERIMENT = Experiment(
    "heads",
    guesses=("different", "few", "same"),
    settings=(
        Setting(
            "text",
            "The animal did not cross the street because it was too tired, and the street was "
            "full of cars. So the animal sat down, closed its eyes, and waited for the night.",
            most=2000,
        ),
        Setting("texts", 6, quick=3, least=1, most=6),
        Setting("weights", "trained", choices=("trained", "random")),
    ),
    false={"weights": "random"},
    measure=measure,
    judge=judge,
    needs=("minilm",),
)
