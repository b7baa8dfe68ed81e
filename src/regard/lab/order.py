"""Does attention know the order of its words? With and without positions, words are shuffled."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from regard._arguments import shown
from regard.lab.experiment import Asked, Experiment, Setting
from regard.lab.measured import Bars, Finding, Measured, Table, Verdict
from regard.lab.said import Said
from regard.text import tokenize

_KINDS = ("none", "sinusoidal", "learned", "rotary", "alibi")
_WIDTH, _HEADS, _LAYERS = 48, 4, 2
_ROUNDING = 1e-9  # a larger change than this is none of float64's rounding
_MOST_WORDS = 64


def measure(asked: Asked) -> Measured:
    """How far the output of a small Transformer, put back in order, is from that of the sentence as
    it stands: 0 if it does not know the order."""
    import torch

    words = _words(asked["sentence"])[:_MOST_WORDS]
    names = sorted(set(words))
    random = asked.random()
    vectors = torch.from_numpy(random.standard_normal((len(names), _WIDTH)))
    x = vectors[[names.index(word) for word in words]][None]
    shuffles = [np.arange(len(words))[::-1].copy()]
    shuffles += [random.permutation(len(words)) for _ in range(asked["shuffles"] - 1)]
    yours = _order(words, _words(asked["shuffled"]))
    changes: dict[str, list[float]] = {}
    of_yours: dict[str, float] = {}
    with torch.no_grad():
        for nth, kind in enumerate(_KINDS):
            model = _model(kind, len(words), asked["causal"], asked.seed)
            whole = model(x)

            def change(shuffle: Any, model: Any = model, whole: Any = whole) -> float:
                moved = torch.linalg.norm(model(x[:, shuffle]) - whole[:, shuffle])
                return float(moved / torch.linalg.norm(whole))

            changes[kind] = [change(shuffle) for shuffle in shuffles]
            if yours:
                of_yours[kind] = change(yours)
            asked.progress(nth + 1, len(_KINDS))
    data = {"words": words, "causal": asked["causal"], "changes": changes}
    if yours:
        data["yours"] = {"words": [words[n] for n in yours], "changes": of_yours}
    means = {kind: float(np.mean(found)) for kind, found in changes.items()}
    rows = [
        [Said(f"order.kind.{kind}"), means[kind], min(found), max(found)]
        + ([of_yours[kind]] if yours else [])
        for kind, found in changes.items()
    ]
    columns = ["order.column.kind", "order.column.mean", "lab.column.least", "lab.column.most"]
    columns += ["order.column.yours"] if yours else []
    bars = Bars(
        "order.chart",
        "order.column.mean",
        [Said(f"order.kind.{kind}") for kind in _KINDS],
        ["order.column.mean"],
        [[means[kind] for kind in _KINDS]],
        [[min(changes[kind]) for kind in _KINDS]],
        [[max(changes[kind]) for kind in _KINDS]],
    )
    return Measured(data, [Table("order.table", columns, rows)], [bars])


def _words(text: str) -> list[str]:
    return [token.text for token in tokenize(text)]


def _order(words: Sequence[str], shuffled: Sequence[str]) -> list[int]:
    """Where each of the shuffled words stands in the sentence, equal words in their order.

    >>> _order(["the", "dog", "the", "man"], ["man", "the", "the", "dog"])
    [3, 0, 2, 1]
    """
    places: dict[str, list[int]] = {}
    for place, word in enumerate(words):
        places.setdefault(word, []).append(place)
    return [places[word].pop(0) for word in shuffled]


def check(values: Mapping[str, Any]) -> None:
    """An order of the reader's own must be of the words of the sentence, and of no others."""
    words, shuffled = _words(values["sentence"]), _words(values["shuffled"])
    if not values["shuffled"]:
        return
    if len(words) > _MOST_WORDS:
        raise ValueError(
            f"lab order: sentence must have at most {_MOST_WORDS} words to be put into an order of "
            f"your own; got {len(words)}. Leave shuffled empty, or shorten it."
        )
    missing, more = Counter(words) - Counter(shuffled), Counter(shuffled) - Counter(words)
    got = [f"no {shown(word)}" for word in missing.elements()]
    got += [f"{shown(word)} too much" for word in more.elements()]
    if got:
        raise ValueError(
            "lab order: shuffled must have the words of the sentence, each as often as it stands "
            f"there; got {', '.join(got)}."
        )


def _model(kind: str, length: int, causal: bool, seed: int) -> Any:
    """A Transformer of two layers whose tokens know where they stand in this way."""
    import torch

    from regard.nn import (
        ALiBi,
        Decoder,
        Encoder,
        Learned,
        NoPosition,
        Rotary,
        Sinusoidal,
        StackConfig,
    )

    position = {
        "none": NoPosition(),
        "sinusoidal": Sinusoidal(),
        "learned": Learned(length),
        "rotary": Rotary(),
        "alibi": ALiBi(),
    }[kind]
    config = StackConfig(width=_WIDTH, heads=_HEADS, layers=_LAYERS, position=position)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model = Decoder(config, cross=False) if causal else Encoder(config)
    return model.double().eval()


def judge(data: Mapping[str, Any]) -> Verdict:
    """Without positions nothing may change but the places; with any of them something must."""
    changes = data["changes"]
    blind = max(changes["none"])
    values = {"change": blind, "words": len(data["words"]), "shuffles": len(changes["none"])}
    moved = "causal" if data["causal"] else "moved"
    findings = [
        Finding("holds", Said("order.finding.blind", values))
        if blind <= _ROUNDING
        else Finding("fails", Said(f"order.finding.{moved}", values))
    ]
    knowing = [kind for kind in _KINDS[1:] if np.mean(changes[kind]) > _ROUNDING]
    least = min(_KINDS[1:], key=lambda kind: float(np.mean(changes[kind])))
    values = {
        "known": len(knowing),
        "of": len(_KINDS) - 1,
        "least": float(np.mean(changes[least])),
        "kind": Said(f"order.kind.{least}"),
    }
    all_know = len(knowing) == len(_KINDS) - 1
    key = "order.finding.known" if all_know else "order.finding.unknown"
    findings.append(Finding("holds" if all_know else "fails", Said(key, values)))
    # The first shuffle is the sentence read backwards: what counts distances alone cannot tell.
    mirrored = [kind for kind in knowing if changes[kind][0] <= _ROUNDING]
    notes = [
        Said("order.finding.mirror", {"kinds": Said(f"order.kind.{kind}")}) for kind in mirrored
    ]
    if "yours" in data:
        notes.append(_of_yours(data))
    return Verdict(findings, "same" if blind <= _ROUNDING else "other", notes)


def _of_yours(data: Mapping[str, Any]) -> Said:
    """What the reader's own order changes: nothing, only with positions, or even without them."""
    changes = data["yours"]["changes"]
    least, most = (end(_KINDS[1:], key=lambda kind: changes[kind]) for end in (min, max))
    values = {
        "words": " ".join(data["yours"]["words"]),
        "none": changes["none"],
        "least": changes[least],
        "least_kind": Said(f"order.kind.{least}"),
        "most": changes[most],
        "most_kind": Said(f"order.kind.{most}"),
    }
    is_same = data["yours"]["words"] == data["words"]
    key = "same" if is_same else "blind" if changes["none"] <= _ROUNDING else "moved"
    return Said(f"order.yours.{key}", values)


EXPERIMENT = Experiment(
    "order",
    guesses=("same", "other", "words"),
    settings=(
        Setting("sentence", "The dog bites the man , not the man the dog", most=400),
        Setting("shuffled", "", least=0, most=400),
        Setting("shuffles", 50, quick=10, least=2, most=1000),
        Setting("causal", False),
    ),
    false={"causal": True},
    measure=measure,
    judge=judge,
    check=check,
)
