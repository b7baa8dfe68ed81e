"""Where the parts of a question stand in a text: its sources, and the sentences of its answer."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor

from regard._arguments import shown, whole
from regard.ask._cut import Range, sentences, tokens_in, usual_spans
from regard.models.own import class_name

if TYPE_CHECKING:
    from regard.models import Loaded, Reading

CALL = "sources()"
Spans = Mapping[str, Range] | Sequence[int] | Tensor
_WHOLE = (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8)


@dataclass(frozen=True)
class Source:
    """What an answer may have come from: its name, its characters, and how many tokens count."""

    name: str
    start: int
    end: int
    tokens: int


@dataclass(frozen=True, eq=False)
class Places:
    """The tokens of each source, and of each sentence of an answer.

    `labels` (N,): of which source each token is, −1 of none. Of the sentences `parts` has the
    characters, `positions` the tokens; those before an answer predict it.
    """

    sources: list[Source]
    labels: Tensor
    answer: Range
    parts: list[Range]
    positions: list[list[int]]

    @property
    def rows(self) -> list[int]:
        """The positions that predict the answer's tokens, in order."""
        return [position - 1 for some in self.positions for position in some]

    def tokens_of(self, source: int) -> list[int]:
        return (self.labels == source).nonzero()[:, 0].tolist()

    def elsewhere(self, source: int) -> list[int]:
        """The tokens of all other sources."""
        return ((self.labels >= 0) & (self.labels != source)).nonzero()[:, 0].tolist()


def places_of(
    reading: Reading, answer: str | Range, spans: Spans | None, question: str | None
) -> Places:
    """Find an answer, its sentences and its sources in a text. Raises ValueError and TypeError for
    an answer that is not there, spans that do not fit, and where there is no source.
    """
    text, tokens = reading.text, reading.tokens
    first, last = _answer(text, answer)
    parts = [part for part in sentences(text, first, last) if tokens_in(tokens, *part)]
    positions = [tokens_in(tokens, *part) for part in parts]
    if not positions or positions[0][0] == 0:
        raise ValueError(
            f"{CALL}: answer must have tokens, and something before them; got "
            f"{shown(text[first:last])} at character {first}. Put its sources before it."
        )
    begin = positions[0][0]
    left_out = {0}  # on the first token heads rest their weight, whatever it is
    if question is not None:
        asked = _found(text, "question", question, first)
        left_out |= set(tokens_in(tokens, *asked))
    if spans is None:
        spans = usual_spans(text, first, question is not None)
        if not spans:
            raise ValueError(
                f"{CALL}: the text must have paragraphs or turns of a chat before the answer; got "
                "none. Say spans={name: (start, end)}, in characters."
            )
    if isinstance(spans, Mapping):
        labels, ranges = _of_ranges(cast("Mapping[Any, Any]", spans), reading, begin)
    else:
        labels, ranges = _of_labels(spans, reading, begin)
    labels[sorted(left_out)] = -1
    sources = [
        Source(name, *where, int((labels == n).sum()))
        for n, (name, where) in enumerate(ranges.items())
    ]
    if empty := [each.name for each in sources if not each.tokens]:
        raise ValueError(
            f"{CALL}: each span must have a token, the first of the text and those of the question "
            f"not counted; got {shown(empty[0])}, which has none. Leave it out."
        )
    return Places(sources, labels, (first, last), parts, positions)


def check_causal(loaded: Loaded) -> None:
    """Raise ValueError, by name and before it has run, for a model that does not say how likely
    each token is after those before it.
    """
    model: Any = loaded.model
    if getattr(model.config, "is_encoder_decoder", False):
        got = "which reads one text and writes another"
    elif model.get_output_embeddings() is None:
        got = "which gives vectors, or classes"
    elif not loaded.decoder:
        got = "whose tokens see those behind them"
    else:
        return
    raise ValueError(
        f"{CALL}: {loaded.name} must be a model that predicts the next token from those before it; "
        f"got {class_name(model)}, {got}. smollm2 is one that does."
    )


def _answer(text: str, answer: object) -> Range:
    if isinstance(answer, str):
        return _found(text, "answer", answer, len(text))
    given: Any = answer
    if not isinstance(answer, tuple) or len(given) != 2:
        raise TypeError(
            f"{CALL}: answer must be a text, or (start, end) in characters; got {shown(answer)}. "
            "It is what the model has said, or would."
        )
    start = whole(CALL, "answer's start", given[0], 0, len(text), "It counts characters.")
    end = whole(CALL, "answer's end", given[1], start, len(text), "It counts characters.")
    return start, end


def _found(text: str, name: str, piece: object, end: int) -> Range:
    """The last place of a piece that ends before `end`."""
    if not isinstance(piece, str):
        raise TypeError(f"{CALL}: {name} must be a str; got {shown(piece)}. Give its text.")
    wanted = piece.strip()
    at = text.rfind(wanted, 0, end) if wanted else -1
    if at < 0:
        where = "the text of the run" if name == "answer" else "the text before the answer"
        raise ValueError(
            f"{CALL}: {name} must stand in {where}; got {shown(piece)}, which does not. See a text "
            "that has the sources, the question and the answer, one after the other."
        )
    return at, at + len(wanted)


def _of_ranges(
    spans: Mapping[Any, Any], reading: Reading, begin: int
) -> tuple[Tensor, dict[str, Range]]:
    """Labels of tokens from ranges of characters. `begin` is the first token of the answer."""
    if not spans:
        raise ValueError(f"{CALL}: spans must have a source; got none. None takes the paragraphs.")
    labels = torch.full((len(reading.ids),), -1)
    most = len(reading.text)
    found: dict[str, Range] = {}
    for number, (name, where) in enumerate(spans.items()):
        if (
            not isinstance(name, str)
            or not isinstance(where, tuple)
            or len(cast("Any", where)) != 2
        ):
            raise TypeError(
                f"{CALL}: spans must be {{name: (start, end)}}, or one label a token; got "
                f"{shown(name)}: {shown(where)}. Starts and ends count characters."
            )
        given: Any = where
        start = whole(CALL, f"the start of {name!r}", given[0], 0, most, "It counts characters.")
        end = whole(CALL, f"the end of {name!r}", given[1], start, most, "It counts characters.")
        inside = tokens_in(reading.tokens, start, end)
        if any(labels[n] >= 0 for n in inside):
            raise ValueError(
                f"{CALL}: spans must not overlap; got {name!r}, {start} to {end}, of which a part "
                "is in another one. Each token is of one source."
            )
        _check_before(name, inside, begin)
        labels[inside] = number
        found[name] = (start, end)
    return labels, found


def _of_labels(spans: object, reading: Reading, begin: int) -> tuple[Tensor, dict[str, Range]]:
    """Labels of tokens as they were given, and the characters from their first to their last."""
    n = len(reading.ids)
    try:
        given = torch.as_tensor(spans)
    except (TypeError, ValueError, RuntimeError):
        given = torch.zeros(())
    if given.dtype not in _WHOLE or given.dim() != 1:
        raise TypeError(
            f"{CALL}: spans must be {{name: (start, end)}}, or one label a token, whole numbers "
            f"from 0, −1 for none; got {shown(spans)}."
        )
    if len(given) != n:
        raise ValueError(
            f"{CALL}: spans must have one label a token, ({n},); got ({len(given)},). "
            "run.tokens has the tokens."
        )
    labels = given.long().cpu().clone()
    count = int(labels.max()) + 1 if n else 0
    if count == 0 or int(labels.min()) < -1:
        raise ValueError(
            f"{CALL}: spans must have labels from 0 on, and −1 for none; got {int(labels.min())} "
            f"to {int(labels.max())}."
        )
    found: dict[str, Range] = {}
    for label in range(count):
        inside: list[int] = (labels == label).nonzero()[:, 0].tolist()
        _check_before(f"span {label}", inside, begin)
        ends = [reading.tokens[each] for each in inside] or [reading.tokens[0]]
        found[f"span {label}"] = (ends[0].start, ends[-1].end)
    return labels, found


def _check_before(name: str, inside: list[int], begin: int) -> None:
    if inside and inside[-1] >= begin:
        raise ValueError(
            f"{CALL}: spans must stand before the answer, which begins with token {begin}; got "
            f"{name!r}, which reaches token {inside[-1]}. An answer cannot come from what follows."
        )
