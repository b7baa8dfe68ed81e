"""Does a word's vector move with its context, and because it looks at the words that tell?"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from regard.lab import statistics
from regard.lab.experiment import Asked, Experiment, Setting
from regard.lab.marked import Marked, data, find, places, unmark
from regard.lab.meaning_own import read_own
from regard.lab.measured import Bars, Chart, Finding, Measured, Outcome, Series, Table, Verdict
from regard.lab.said import Said, plain
from regard.reference import Array

_WORDS = ("apple", "bank", "creature")
# What the word may look at: everything; all but as many other words as there are cues; all but the
# cues; and all, where nobody else may look at the cues, either.
_WAYS = ("whole", "others", "cues", "nobody")
_SLIGHT = 0.05  # a difference of cosines, of 2 at most, that is no move to speak of
_MOST = 0.5  # "because" means: without it, most of the move is gone


def measure(asked: Asked) -> Measured:
    """How much nearer a word is to one sense than to the other after each layer, in sentences of
    both, with and without links."""
    loaded = asked.load("minilm")
    words = _words(asked)
    found: dict[str, Any] = {}
    for part, (word, senses) in enumerate(words.items()):
        random = asked.random(part)
        poles = [_poles(loaded, sense["words"]) for sense in senses.values()]
        n_pairs = min(asked["pairs"], *(len(sense["sentences"]) for sense in senses.values()))
        texts = [text for sense in senses.values() for text in sense["sentences"][:n_pairs]]
        if asked["context"] == "shuffled":
            texts = [texts[n] for n in random.permutation(len(texts))]
        rows = []
        for number, text in enumerate(texts, 1):
            sentence = unmark(text, {"cue": "**"})
            rows.append(_read(loaded, sentence, word, asked["context"], poles, random))
            asked.progress(part + number / len(texts), len(words))
        found[word] = {"senses": list(senses), "lean": {}, "own": asked["own"] != ""}
        found[word]["weight"] = [row["weight"] for row in rows]
        found[word]["fewer"] = sum(row["fewer"] for row in rows)
        found[word]["near"] = np.mean([row["near"] for row in rows], axis=0).round(4).tolist()
        for way in _WAYS:
            leans = [[round(x, 6) for x in row[way]] for row in rows]
            found[word]["lean"][way] = [leans[:n_pairs], leans[n_pairs:]]
    figures = {"context": asked["context"], "words": found}
    return Measured(figures, [_table(figures)], _charts(figures))


def _words(asked: Asked) -> Mapping[str, Mapping[str, Any]]:
    """Each word that is asked for: of each of its senses, the words and the sentences."""
    if asked["own"]:
        return dict([read_own(asked["own"])])
    return {name: data("meaning")[name] for name in _WORDS if asked["word"] in ("all", name)}


def _poles(loaded: Any, words: Sequence[str]) -> Array:
    """The vectors (words, layers, width) of the words that name a sense, each read alone."""
    vectors = []
    for word in words:
        reading = loaded.reader().read(word)
        own = places(reading.tokens, [(0, len(word))])
        vectors.append(_states(loaded, loaded.batch([reading]), ())[0][:, own].mean(axis=1))
    return np.stack(vectors)


def _states(loaded: Any, inputs: Mapping[str, Any], block: Sequence[Any]) -> tuple[Array, Any]:
    """Every token before the first layer and after each, (layers + 1, tokens, width); the run."""
    import torch

    import regard

    keep = ("hidden_states",) if block else ("q", "k", "hidden_states")
    watching = regard.watch(loaded.model, regard.See(), keep=keep, block=block)
    with watching as run, torch.no_grad():
        loaded.model(**inputs)
    states = [run.between["embedding"], *run.hidden_states.values()]
    return torch.stack([state[0] for state in states]).double().numpy(), run


def _read(
    loaded: Any,
    sentence: Marked,
    word: str,
    context: str,
    poles: Sequence[Array],
    random: np.random.Generator,
) -> dict[str, Any]:
    """One sentence: by way, how much nearer its word is to the first sense than to the second."""
    reading = loaded.reader().read(sentence.text)
    inputs = loaded.batch([reading])
    own = places(reading.tokens, find(sentence.text, word))
    cues = places(reading.tokens, sentence.spans["cue"])
    rest = [
        number
        for number, token in enumerate(reading.tokens)
        if token.start < token.end and number not in own and number not in cues
    ]
    others = sorted(random.permutation(rest)[: len(cues)].tolist())
    if context == "masked":
        inputs["input_ids"][0, cues] = loaded.tokenizer.mask_token_id
    layers = range(loaded.model.config.num_hidden_layers)

    def links(queries: Sequence[int | None], keys: Sequence[int]) -> list[Any]:
        return [(layer, None, query, key) for layer in layers for query in queries for key in keys]

    blocked = {
        "whole": [],
        "others": links(own, others),
        "cues": links(own, cues),
        "nobody": links([None], cues),
    }
    found: dict[str, Any] = {"fewer": len(others) < len(cues)}
    for way, block in blocked.items():
        states, run = _states(loaded, inputs, block)
        near = [_cosine(states[:, own].mean(axis=1), pole) for pole in poles]
        found[way] = (near[0] - near[1]).tolist()
        if way == "whole":
            rows = slice(own[0], own[-1] + 1)
            maps = [run.weights(layer, rows=rows)[0].numpy() for layer in layers]
            weights = np.mean(maps, axis=(0, 1, 2))
            on_rest = float(weights[rest].mean()) if rest else None
            found["weight"] = [float(weights[cues].mean()), on_rest]
            found["near"] = [float(near[0][0]), float(near[1][0])]
    return found


def _cosine(vectors: Array, pole: Array) -> Array:
    """Of each layer, the mean cosine of a vector (layers, width) to some words of a sense."""
    lengths = np.linalg.norm(vectors, axis=-1) * np.linalg.norm(pole, axis=-1)
    return ((vectors * pole).sum(axis=-1) / lengths).mean(axis=0)


def _moves(word: Mapping[str, Any], way: str, layer: int = -1) -> Array:
    """Of each pair of sentences, one of either sense, how far their words moved from before the
    first layer towards their own sense: what both do alike is no such move."""
    first, second = (np.asarray(leans, dtype=float) for leans in word["lean"][way])
    moved = first[:, layer] - first[:, 0] - second[:, layer] + second[:, 0]
    return moved / 2


def _compared(word: Mapping[str, Any]) -> bool:
    """Were there as many other words as cues in each sentence, whose links could be cut instead?"""
    return word.get("fewer", 0) == 0


def _weights(words: Iterable[Mapping[str, Any]]) -> tuple[float, float | None]:
    """The mean weight on a cue, and on another word if there was one."""
    cues, others = zip(*(pair for word in words for pair in word["weight"]), strict=True)
    known = [weight for weight in others if weight is not None]
    return float(np.mean(cues)), float(np.mean(known)) if known else None


def _table(figures: Mapping[str, Any]) -> Table:
    rows = []
    for name, word in figures["words"].items():
        moves = [_mean(word, way)[0] for way in _WAYS]
        rows.append([plain(name), *moves, *_weights([word])])
    columns = ["meaning.column.word", *(f"meaning.column.{way}" for way in _WAYS)]
    columns += ["meaning.column.weight.cue", "meaning.column.weight.other"]
    return Table("meaning.table", columns, rows)


def _charts(figures: Mapping[str, Any]) -> list[Chart | Bars]:
    words = figures["words"]
    lines = []
    for name, word in words.items():
        layers = range(len(word["lean"]["whole"][0][0]))
        found = [statistics.mean(_moves(word, "whole", layer)) for layer in layers]
        lines.append(
            Series(
                plain(name),
                list(layers),
                [each.value for each in found],
                [each.low for each in found],
                [each.high for each in found],
            )
        )
    of = [[_mean(word, way) for word in words.values()] for way in _WAYS]
    return [
        Chart("meaning.chart.layers", "meaning.axis.layer", "meaning.axis.move", lines),
        Bars(
            "meaning.chart.blocked",
            "meaning.axis.move",
            [plain(name) for name in words],
            [f"meaning.column.{way}" for way in _WAYS],
            [[value for value, _, _ in row] for row in of],
            [[low for _, low, _ in row] for row in of],
            [[high for _, _, high in row] for row in of],
        ),
    ]


def _mean(word: Mapping[str, Any], way: str) -> tuple[float | None, float | None, float | None]:
    """The move after the last layer, and from where to where it may be; None three times where as
    many links to others as to cues could not be cut."""
    if way == "others" and not _compared(word):
        return None, None, None
    found = statistics.mean(_moves(word, way))
    return found.value, found.low, found.high


def judge(data: Mapping[str, Any]) -> Verdict:
    """Each word must move; and over all words more of the move must be gone without the links to
    the cues than without as many others, and most of it."""
    words = data["words"]
    findings = [_of_move(name, word) for name, word in words.items()]
    moves = {way: np.concatenate([_moves(word, way) for word in words.values()]) for way in _WAYS}
    found = {finding.outcome for finding in findings}
    answer = None if "holds" in found else "stays"
    if found == {"holds"}:
        findings += _of_cause(moves, all(map(_compared, words.values())))
        answer = {"holds": "cues", "fails": "anyway", "open": None}[findings[-1].outcome]
    notes = []
    if found > {"holds"}:
        values = {way: float(moves[way].mean()) for way in ("whole", "cues")}
        notes.append(Said("meaning.note.cut", values))
    for name, word in words.items():
        values = {"word": name, "first": word["near"][0], "second": word["near"][1]}
        first, second = _senses(word)
        notes.append(Said("meaning.note.before", values | {"one": first, "other": second}))
    cues, others = _weights(words.values())
    if others is not None:
        notes.append(Said("meaning.note.weight", {"cue": cues, "other": others}))
    return Verdict(findings, answer, notes)


def _senses(word: Mapping[str, Any]) -> tuple[Said, Said]:
    """What the two senses are called: by their own words, if they are the reader's."""
    is_own = word.get("own", False)
    first, second = (
        plain(sense) if is_own else Said(f"meaning.sense.{sense}") for sense in word["senses"]
    )
    return first, second


def _of_move(name: str, word: Mapping[str, Any]) -> Finding:
    moves = _moves(word, "whole")
    found = statistics.mean(moves)
    outcome: Outcome = "open"
    if found.low > 0:
        outcome = "holds"
    elif found.high < _SLIGHT:
        outcome = "fails"
    first, second = _senses(word)
    values = {
        "word": name,
        "one": first,
        "other": second,
        "pairs": len(moves),
        "right": int((moves > 0).sum()),
        "move": found.value,
        "low": found.low,
        "high": found.high,
        "chance": statistics.sign_test(moves),
    }
    return Finding(outcome, Said(f"meaning.finding.move.{outcome}", values))


def _of_cause(moves: Mapping[str, Array], compared: bool) -> list[Finding]:
    """Are links to the cues a cause, more than as many others (if there were as many, `compared`);
    and are they most of it?"""
    whole, cues, others = moves["whole"], moves["cues"], moves["others"]
    values: dict[str, Any] = {}
    for way in _WAYS[1:]:
        gone = statistics.ratio(whole - moves[way], whole)
        values |= {way: gone.value, f"{way}_low": gone.low, f"{way}_high": gone.high}
    findings = []
    for key, found in (
        ("cause", statistics.mean(others - cues)),
        ("most", statistics.mean(whole * (1 - _MOST) - cues)),
    ):
        outcome: Outcome = "holds" if found.low > 0 else "fails" if found.high < 0 else "open"
        if key == "cause" and not compared:
            findings.append(Finding("open", Said("meaning.finding.cause.alone", values)))
        else:
            findings.append(Finding(outcome, Said(f"meaning.finding.{key}.{outcome}", values)))
    return findings


def check(values: Mapping[str, Any]) -> None:
    """A word of the reader's own must have its five parts."""
    if values["own"]:
        read_own(values["own"])


EXPERIMENT = Experiment(
    "meaning",
    guesses=("cues", "anyway", "stays"),
    settings=(
        # A quick run has time for enough sentences of one word to tell what its cues do.
        Setting("word", "all", quick="apple", choices=("all", *_WORDS)),
        Setting("pairs", 20, quick=7, least=3, most=20),
        Setting("context", "whole", choices=("whole", "masked", "shuffled")),
        Setting("own", "", least=0, most=6000),
    ),
    false={"context": "shuffled"},
    measure=measure,
    judge=judge,
    needs=("minilm",),
    check=check,
)
