"""`sources`: what each sentence of an answer came from, and whether that is a cause."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from regard._arguments import shown, whole
from regard.ask._blocked import Blocked, Blocking
from regard.ask._cut import Range
from regard.ask._pass import Again, again_of
from regard.ask._places import CALL, Places, Source, Spans, check_causal, places_of
from regard.observation import See

if TYPE_CHECKING:
    from regard.models import Loaded
    from regard.run import Run
    from regard.run.layer import Layer

_HEADS = 5  # that are told of each sentence

By = Literal["weights", "contribution"]


@dataclass(frozen=True)
class Head:
    """A head, and how much of its weight goes to a source, on average over a sentence's tokens."""

    layer: int
    head: int
    weight: float


@dataclass(frozen=True)
class Sentence:
    """A sentence of an answer: its characters, and where it came from.

    - `log_probability`: of its `tokens` tokens, given all before it, in nats
    - `shares`: of each source, over all heads and layers; they add up to 1
    - `looked`: how much of all weight, without ‖v‖, went to sources at all
    - `heads`: those that look most at the source with the largest share, the `winner`
    - `blocked`: what it loses without the sources that were blocked, the winner first
    """

    text: str
    start: int
    end: int
    tokens: int
    log_probability: float
    shares: list[float]
    looked: float
    heads: tuple[Head, ...]
    blocked: tuple[Blocked, ...] = ()

    @property
    def winner(self) -> int:
        return max(range(len(self.shares)), key=self.shares.__getitem__)


@dataclass(frozen=True, eq=False)
class Sources:
    """Where an answer came from, sentence by sentence; `sources` by their numbers.

    `by` says what was counted; `unseen` are modules whose attention could not be seen, nor blocked.
    """

    model: str
    text: str
    answer: Range
    sources: list[Source]
    sentences: list[Sentence]
    by: By = "contribution"
    unseen: tuple[str, ...] = ()

    def info(self) -> dict[str, Any]:
        """As JSON and pages have it."""
        rows = [
            {
                **vars(each),
                "winner": each.winner,
                "heads": [vars(head) for head in each.heads],
                "blocked": [{**vars(one), "verdict": one.verdict} for one in each.blocked],
            }
            for each in self.sentences
        ]
        return {
            "model": self.model,
            "text": self.text,
            "answer": list(self.answer),
            "by": self.by,
            "sources": [vars(each) for each in self.sources],
            "sentences": rows,
            "unseen": list(self.unseen),
        }


def sources(
    run: Run,
    answer: str | Range,
    spans: Spans | None = None,
    *,
    question: str | None = None,
    by: By = "contribution",
    check: int = 1,
    draws: int = 8,
    model: Loaded | None = None,
    progress: Callable[[int], None] | None = None,
) -> Sources:
    """Of each sentence of an answer, how much its tokens looked at each source, and whether the
    model needs that source to say it.

    The text of the run has sources, question and answer, one after the other. The share of a source
    is the weight that the positions before each token of the sentence, which predict it, give to
    the tokens of the source, times the length of the values there, ‖v‖, over all heads and layers;
    of what goes to sources at all. What goes to the question, the answer, a template, or the first
    token of the text is in none.

    - `answer`: a text of which the last place counts, or (start, end) in characters
    - `spans`: {name: (start, end)} in characters; or a label for each token, from 0, −1 for none.
      Unless given: paragraphs, and turns of a chat
    - `question`: a text before the answer, whose tokens are of no source
    - `by`: "contribution", weight · ‖v‖, for which q, k and v of all layers are in memory; or
      "weights" alone
    - `check`: how many sources of each sentence, the largest share first, are blocked, so that no
      token sees them; and `draws` pieces of the same length elsewhere (`Blocked`)
    - `progress`: gets the number of each blocked pass that is done

    The model reads the text once more, and once for each that is blocked. Raises ValueError and
    TypeError, before it does, for what is not in the text, and for a model that is not causal.

    >>> import regard
    >>> sources(regard.Run(), "Mary did.")
    Traceback (most recent call last):
    ValueError: sources(): the run must know its model, and be of one text; got one from a disk, ...
    """
    again = again_of(CALL, run, model)
    check_causal(again.loaded)
    places = places_of(again.reading, answer, spans, question)
    return sources_of(again, places, by=by, check=check, draws=draws, progress=progress)


def sources_of(
    again: Again,
    places: Places,
    *,
    by: By = "contribution",
    check: int = 1,
    draws: int = 8,
    progress: Callable[[int], None] | None = None,
) -> Sources:
    """The same, where all places are known."""
    if by not in ("weights", "contribution"):
        raise ValueError(
            f"{CALL}: by must be 'weights' or 'contribution'; got {shown(by)}. The second "
            "multiplies each weight with the length of the value it brings."
        )
    check = whole(CALL, "check", check, 0, remedy="0 blocks none.")
    draws = whole(CALL, "draws", draws, 2, remedy="Of fewer there is no interval.")
    count = len(places.sources)
    keep = ("q", "k", "v") if by == "contribution" else ()
    logits, run = again.rows(places.rows, See(spans=places.labels, n_spans=count), keep=keep)
    weights, unseen = looks(run, places), tuple(run.unseen)
    counted = weights if by == "weights" else looks(run, places, by)
    del run
    blocking = Blocking(again, places, progress)
    before = blocking.take(logits)
    found: list[Sentence] = []
    checked: dict[int, list[Blocked]] = {}
    text, first = again.reading.text, 0
    for n, (part, positions) in enumerate(zip(places.parts, places.positions, strict=True)):
        rows = slice(first, first := first + len(positions))
        shares = shares_of(counted, rows)
        order = sorted(range(count), key=shares.__getitem__, reverse=True)
        for source in order[:check]:
            if source not in checked:
                checked[source] = blocking.check(source, before, draws, seed=source)
        found.append(
            Sentence(
                text[slice(*part)],
                *part,
                len(positions),
                before[n],
                shares,
                float(
                    torch.cat([each[:, rows].mean(1) for each in weights.values()]).sum(1).mean()
                ),
                _strongest(weights, rows, order[0]),
                tuple(checked[source][n] for source in order[:check]),
            )
        )
    name = again.loaded.name
    return Sources(name, text, places.answer, places.sources, found, by, unseen)


def looks(run: Run, places: Places, by: By = "weights") -> dict[int, Tensor]:
    """By the number of a layer, what its heads give to each source: (heads, rows, sources), of the
    rows that predict the answer. Raises ValueError if no layer tells it.
    """
    count = len(places.sources)
    found: dict[int, Tensor] = {}
    for number, layer in enumerate(run.layers.values()):
        if layer.seen.spans is None:  # its keys are no tokens
            continue
        if by == "contribution":
            found[number] = _contributions(layer, places, count)
        else:
            found[number] = layer.seen.spans[0][:, places.rows].double().cpu()
    if not found:
        raise ValueError(
            f"{CALL}: the model must have attention to its tokens that can be seen; got "
            f"{len(run.layers)} layers, none of which tells. run.unseen says what was missed."
        )
    return found


def shares_of(counted: dict[int, Tensor], rows: slice) -> list[float]:
    """The share of each source over all heads and layers, of what goes to sources."""
    total = torch.stack([each[:, rows].sum((0, 1)) for each in counted.values()]).sum(0)
    everything = float(total.sum())
    even = torch.full_like(total, 1 / len(total))
    return (total / everything if everything > 0 else even).tolist()


def _contributions(layer: Layer, places: Places, count: int) -> Tensor:
    """Σ weight · ‖v‖ over the tokens of each source: (heads, rows, sources)."""
    assert layer.v is not None
    norms = layer.v[0].double().norm(dim=-1)
    norms = norms.repeat_interleave(layer.shape[1] // norms.shape[0], 0)  # (heads, keys)
    of = torch.nn.functional.one_hot(places.labels + 1, count + 1)[:, 1:].double()
    rows = (layer.weights(None, (row, row + 1), sequence=0) for row in places.rows)
    return torch.cat([(row.double() * norms[:, None]) @ of for row in rows], 1)


def _strongest(weights: dict[int, Tensor], rows: slice, source: int) -> tuple[Head, ...]:
    """The heads that give most of their weight to a source."""
    found = [
        Head(layer, head, weight)
        for layer, each in weights.items()
        for head, weight in enumerate(each[:, rows, source].mean(1).tolist())
    ]
    return tuple(sorted(found, key=lambda head: -head.weight)[:_HEADS])
