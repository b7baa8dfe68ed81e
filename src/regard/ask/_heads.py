"""`heads`: what each head of a model does, by scores beside their null distributions."""

from __future__ import annotations

import inspect
import math
import random
from collections.abc import Callable, Iterable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from regard._arguments import whole
from regard._watch import watch
from regard._watch.interventions import Interventions
from regard._watch.recording import Recording
from regard._watch.shares import NAMES
from regard._watch.watching import Watching
from regard.ask._needles import Haystack, hidden
from regard.ask._see import each_block
from regard.observation import See
from regard.run import Layer, Run

if TYPE_CHECKING:
    from regard.models import Loaded

_CALL = "heads()"
SPANS = 16  # random ones, of which a null distribution is made
ABLATED = 2048  # tokens of the text in which heads are ablated
# What a head has to reach at least to be called so, beside standing above every random span.
LEAST = {"retrieval": 0.1, "induction": 0.1, "duplicate": 0.1, "previous": 0.4, "first": 0.4}
KINDS = tuple(LEAST)


@dataclass(frozen=True)
class Scored:
    """A score of a head, and the same of random spans of the pass: their mean and the largest."""

    value: float
    null: float
    most: float

    def stands_out(self, kind: str) -> bool:
        return self.value >= LEAST[kind] and self.value > self.most


@dataclass(frozen=True)
class ScoredHead:
    """One head: its scores by kind; `others`, the weight on needles that were not asked for."""

    layer: int
    head: int
    scores: dict[str, Scored]
    others: float | None = None

    @property
    def kinds(self) -> list[str]:
        """What it does, by what stands out; a head that looks at any needle finds none."""
        found = [kind for kind, score in self.scores.items() if score.stands_out(kind)]
        others = self.others or 0.0
        if "retrieval" in found and self.scores["retrieval"].value <= 2 * others:
            found.remove("retrieval")
        return found


@dataclass(frozen=True)
class Recall:
    """How many of the needles were found, by the likeliest token at each of an answer; and the mean
    log-probability of the tokens of all answers."""

    found: int
    needles: int
    log_probability: float


@dataclass(frozen=True, eq=False)
class Heads:
    """What `heads` found. `recall` is that of the pass itself; `ablated` has the recall of another
    text of needles as it is, without the best retrieval heads and without random ones."""

    model: str
    tokens: int
    needles: list[dict[str, Any]]
    heads: list[ScoredHead]
    recall: Recall | None = None
    ablated: dict[str, Recall] | None = None
    without: dict[str, list[tuple[int, int]]] | None = None

    def best(self, kind: str, count: int | None = None) -> list[ScoredHead]:
        """Heads by a score, the highest first."""
        some = (head for head in self.heads if kind in head.scores)
        return sorted(some, key=lambda head: -head.scores[kind].value)[:count]

    def info(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "model": self.model,
            "tokens": self.tokens,
            "needles": self.needles,
            "least": LEAST,
            "heads": [
                {
                    "layer": head.layer,
                    "head": head.head,
                    "kinds": head.kinds,
                    "others": head.others,
                    **{kind: vars(score) for kind, score in head.scores.items()},
                }
                for head in self.heads
            ],
            "recall": None if self.recall is None else vars(self.recall),
            "ablated": self.ablated and {name: vars(x) for name, x in self.ablated.items()},
            "without": self.without,
        }


def heads(
    loaded: Loaded,
    text: str,
    *,
    first: int | None = None,
    needles: int = 10,
    ablate: int = 0,
    seed: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> Heads:
    """What each head of a model does while it reads a text, needles in it, and is asked for them.

    All are shares of a query's weight. `retrieval`: on the answer of the needle that is asked for,
    the mean over the tokens that predict it. `induction`: on what followed the last time that the
    query's token stood there; `duplicate`: on that token itself; `previous`: on the token before;
    `first`: on the first token, the mean over all queries that have such a key. Beside each stands
    what random spans of the same pass get: as long as an answer, or, for one key, by token.

    - `text`, `first`: what needles are put into; all together no more than `first` tokens
    - `needles`: how many, at depths that are evenly spaced
    - `ablate`: how many of the best retrieval heads are ablated together, against as many random
      ones, in a text of up to 2,048 tokens with other needles
    - `progress`: gets how many blocks are done, and of how many

    Raises ValueError, before the model runs, for one that predicts no tokens, and for a text that
    is too short.

    >>> heads(None, "a text", needles=0)
    Traceback (most recent call last):
    regard._arguments.WrongValue: heads(): needles must be at least 1; got 0. Each has a name of ...
    """
    whole(_CALL, "needles", needles, 1, remedy="Each has a name of its own.")
    whole(_CALL, "ablate", ablate, 0, remedy="0 ablates none.")
    if not loaded.decoder or loaded.model.get_output_embeddings() is None:
        raise ValueError(
            f"{_CALL}: model must predict the next token; got {loaded.name}, which does not. "
            "run.heads() says what the heads of any model do on a text."
        )
    reader = loaded.reader()
    most = min(x for x in (first, reader.positions, 2**20) if x is not None)
    tokenizer: Any = loaded.tokenizer
    ids = list(tokenizer.encode(text, verbose=False))
    hay = hidden(_CALL, loaded, ids, most, needles, SPANS, seed)
    less = hidden(_CALL, loaded, ids, min(most, ABLATED), needles, SPANS, seed + 1)
    telling = _Telling(progress, 4 if ablate else 1)
    run, logits = _watched(loaded, hay, telling)
    found = [
        scored
        for number, layer in enumerate(run.layers.values())
        if not layer.cross
        for scored in _scored(number, layer, hay)
    ]
    of = [{"name": x.name, "depth": x.depth, "position": x.start} for x in hay.needles]
    result = Heads(loaded.name, len(hay.ids), of, found, _recall(hay, logits))
    if not ablate:
        return result
    ranked = [(head.layer, head.head) for head in result.best("retrieval")]
    ablate = min(ablate, len(ranked) // 2)
    rest = sorted(ranked[ablate:])
    without = {
        "as it is": [],
        "without the best": sorted(ranked[:ablate]),
        "without random ones": sorted(random.Random(seed).sample(rest, ablate)),
    }
    recalls = {
        name: _recall(less, _ablated(loaded, less, chosen, telling))
        for name, chosen in without.items()
    }
    return Heads(result.model, result.tokens, of, found, result.recall, recalls, without)


class _Telling:
    """Progress over several passes."""

    def __init__(self, progress: Callable[[int, int], None] | None, passes: int) -> None:
        self._progress, self._passes, self._done = progress, passes, 0

    def around(self, model: Any) -> Any:
        if self._progress is None:
            return nullcontext()
        done, progress = self._done, self._progress
        self._done += 1
        return each_block(model, lambda n, total: progress(done * total + n, self._passes * total))


def _inputs(loaded: Loaded, hay: Haystack) -> dict[str, Any]:
    taken = inspect.signature(loaded.model.forward).parameters
    wanted = sorted(query for needle in hay.needles for query in needle.queries)
    settings = {"use_cache": False, "logits_to_keep": torch.tensor(wanted)}
    ids = torch.tensor([hay.ids])
    return {"input_ids": ids, **{name: x for name, x in settings.items() if name in taken}}


def _watched(loaded: Loaded, hay: Haystack, telling: _Telling) -> tuple[Run, Tensor]:
    """One pass: what was seen of it, and its logits."""
    labels = torch.full((len(hay.ids),), -1)
    spans = [*((needle.start, needle.end) for needle in hay.needles), *hay.spans]
    for label, (start, end) in enumerate(spans):
        labels[start:end] = label
    model: Any = loaded.model
    none = Interventions(model, None, None)
    see = See(spans=labels, n_spans=len(spans))
    recording = Recording(model, see, frozenset(), None, none, None, None)
    recording.shares = (*NAMES, "duplicate")
    watching = Watching(model, recording, None)
    watching.enter()
    try:
        with torch.no_grad(), telling.around(model):
            logits = _logits(model(**_inputs(loaded, hay)))
    except BaseException as error:
        watching.leave(error)
        raise
    return watching.leave(None, quiet=True), logits


def _ablated(
    loaded: Loaded, hay: Haystack, chosen: Iterable[tuple[int, int]], telling: _Telling
) -> Tensor:
    model: Any = loaded.model
    without: dict[str | int, list[int]] = {}
    for layer, head in chosen:
        without.setdefault(layer, []).append(head)
    given: Mapping[str | int, list[int]] | None = without or None
    with watch(model, See(), layers=[0], ablate=given), torch.no_grad(), telling.around(model):
        return _logits(model(**_inputs(loaded, hay)))


def _logits(output: Any) -> Tensor:
    return (output if isinstance(output, Tensor) else output.logits)[0].detach()


def _recall(hay: Haystack, logits: Tensor) -> Recall:
    """`logits` are those of all queries of the needles, or of the whole text."""
    wanted = sorted(query for needle in hay.needles for query in needle.queries)
    rows = {query: n if len(logits) == len(wanted) else query for n, query in enumerate(wanted)}
    found, logs = 0, list[float]()
    for needle in hay.needles:
        each = logits[[rows[query] for query in needle.queries]].double()
        answer = torch.tensor(needle.answer)
        found += bool((each.argmax(-1) == answer).all())
        logs += each.log_softmax(-1).gather(1, answer[:, None])[:, 0].tolist()
    return Recall(found, len(hay.needles), math.fsum(logs) / len(logs))


def _scored(number: int, layer: Layer, hay: Haystack) -> list[ScoredHead]:
    """The heads of a layer."""
    spans = layer.seen.spans
    assert spans is not None
    count = len(hay.needles)
    asked, wrong, null = list[Tensor](), list[Tensor](), list[Tensor]()
    for n, needle in enumerate(hay.needles):
        rows = spans[0][:, list(needle.queries)].double().mean(1)  # (H, S)
        asked.append(rows[:, n])
        others = [m for m in range(count) if m != n]
        wrong.append(rows[:, others].mean(1) if others else rows[:, n] * 0)
        null.append(rows[:, count:])
    by_kind = {"retrieval": (torch.stack(asked).mean(0), torch.stack(null).mean(0))}
    # Of one key: what a token of a random span gets from the queries behind it.
    single = torch.stack(
        [
            spans[0, :, end:, count + n].double().mean(1) / (end - start)
            for n, (start, end) in enumerate(hay.spans)
        ],
        1,
    )
    for kind in KINDS[1:]:
        if kind in layer.shares:
            share = layer.shares[kind][0].double()
            by_kind[kind] = (share.nanmean(1), single)
    others = torch.stack(wrong).mean(0).tolist()
    heads: list[ScoredHead] = []
    for head in range(layer.shape[1]):
        scores = {
            kind: Scored(float(value[head]), float(null[head].mean()), float(null[head].amax()))
            for kind, (value, null) in by_kind.items()
        }
        heads.append(ScoredHead(number, head, scores, others[head] if count > 1 else None))
    return heads
