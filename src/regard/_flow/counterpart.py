"""A model of transformers as its counterpart of `regard.nn`, and the flow of its run."""

from __future__ import annotations

import contextlib
import math
import unicodedata
import warnings
import weakref
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn

from regard._flow.model import ModelFlow, Subject
from regard._flow.sketch import Sketch, sketched
from regard._trace.inputs import names_of_ids
from regard._trace.model import Prepared
from regard.ask import see, target_tokens, texts_of
from regard.models import Loaded, Reading
from regard.run import Run
from regard.text import labels_of

_SAME = 1e-4  # how far the last hidden states of both may be apart, of the largest number
_ours: weakref.WeakKeyDictionary[nn.Module, tuple[Any, dict[str, Sketch]]]
_ours = weakref.WeakKeyDictionary()


class NoCounterpart(ValueError):
    """The model has none, or one that computes something else. Says which."""


def flow_through_counterpart(run: Run, loaded: Loaded, layer: int) -> ModelFlow:
    """The flow of a run, by the counterpart of its model. Raises NoCounterpart, and ValueError for
    a text that is too long for a flow.
    """
    again = run.again
    reading, target, ablate = _read(run, loaded)
    try:
        ours, sketches = counterpart(loaded)
    except (TypeError, ValueError) as error:
        raise NoCounterpart(f"regard.nn has no counterpart of {loaded.name}: {error}") from error
    if any(reading.type_ids):
        raise NoCounterpart("its text has several parts.")
    left_out = {int(n): frozenset(heads) for n, heads in ablate.items()}
    subject = _subject(loaded, ours, reading, target, layer, left_out)
    flow = ModelFlow(subject, sketch=sketches.get("plain") if not left_out else None)
    if not left_out and flow.skeleton.is_usual:
        sketches["plain"] = flow.skeleton
    theirs = _last_states(run, again if again is not None else partial(see, loaded, reading))
    assert flow.final is not None
    away = float((flow.final - theirs).abs().max() / theirs.abs().max())
    if not away <= _SAME:
        raise NoCounterpart(
            f"its counterpart computes something else: hidden states differ by {away:.0%} of the "
            "largest number."
        )
    flow.note = (
        f"These are the numbers of {loaded.name} itself as it reads this text. Every step is "
        "worked out with the model's own weights, and what comes out at the end is what the model "
        f"gives{_digits(away)}."
    )
    return flow


def _digits(away: float) -> str:
    """How many digits of two results are the same, by how far they are apart."""
    return f", the same to {-math.ceil(math.log10(away))} digits" if away > 0 else ""


def counterpart(loaded: Loaded) -> tuple[Any, dict[str, Sketch]]:
    """The model of `regard.nn` that computes what a model of transformers does, made once, or that
    it is; and what is known of its steps. Raises ValueError and TypeError.
    """
    found = _ours.get(loaded.model)
    if found is None:
        from regard.models.own import OwnModel
        from regard.nn import from_hugging_face

        theirs: Any = loaded.model
        ours = theirs.model if isinstance(theirs, OwnModel) else from_hugging_face(theirs).eval()
        found = _ours[theirs] = ours, {}
    return found


def prepare(run: Run) -> None:
    """Have the counterpart of a run's model ready, and its sketch, for a flow that may be asked
    for; nothing, if there is none.
    """
    if run.again is None:
        return
    loaded: Loaded = run.again.args[0]
    with contextlib.suppress(TypeError, ValueError):
        ours, sketches = counterpart(loaded)
        if "plain" not in sketches:
            reading, target, _ = _read(run, loaded)
            made = sketched(_subject(loaded, ours, reading, target, 0, {}).asked)
            if made.is_usual:
                sketches["plain"] = made


def _read(run: Run, loaded: Loaded) -> tuple[Reading, list[int] | None, Any]:
    """What the model of a run read, what it wrote, and which heads it was without."""
    again = run.again
    if again is None:
        if not isinstance(run.text, str):
            raise ValueError("flow(): the run must be of one text; it has several, or none.")
        return loaded.reader().read(run.text, "flow"), None, {}
    named = again.keywords
    return again.args[1], named.get("target"), named.get("ablate") or {}


def _subject(
    loaded: Loaded,
    ours: Any,
    reading: Reading,
    target: list[int] | None,
    layer: int,
    left_out: dict[int, frozenset[int]],
) -> Subject:
    """The pass of a text, with its tokens named as in every view."""
    tokenizer: Any = loaded.tokenizer
    sequences = {"input": labels_of(reading.tokens)}
    arguments: tuple[Tensor, ...] = (torch.tensor([reading.ids]),)
    if target is not None:
        own = tuple(token.label for token in target_tokens(loaded, target))
        sequences, arguments = (
            {"source": sequences["input"], "target": own},
            (*arguments, torch.tensor([target])),
        )
    head = getattr(ours, "head", None)
    outcomes = _names(tokenizer, head.out_features) if isinstance(head, nn.Linear) else ()

    words = _words(reading)

    def with_words(others: Mapping[int, str]) -> Subject:
        text, of = _swapped(reading, words, others)
        read = loaded.reader().read(text, "changed")
        loaded.reader().check([read], "changed")
        stood = [of[each.start] if each.start < each.end else None for each in read.tokens]
        return replace(_subject(loaded, ours, read, target, layer, left_out), words=stood)

    asked = Prepared(ours, sequences, arguments, {}, outcomes, reading.text, "")
    more: dict[str, Any] = {"words": words, "text_of": texts_of(tokenizer)}
    more["with_words"] = with_words
    return Subject(asked, loaded.name, layer=layer, left_out=left_out, **more)


@cache
def _names(tokenizer: Any, count: int) -> tuple[str, ...]:
    return names_of_ids(range(count), tokenizer)


def _words(reading: Reading) -> list[int | None]:
    """Of each token the first that is a piece of its word; None of those that a model adds."""
    found: list[int | None] = []
    text, end = reading.text, 0  # of the token before
    for n, token in enumerate(reading.tokens):
        if token.start == token.end:
            found.append(None)
            continue
        shared = token.start < end  # several tokens make a letter
        follows = token.start == end > 0 and _is_in_words(text[end - 1]) and _is_in_words(text[end])
        found.append(found[-1] if shared or follows else n)
        end = token.end
    return found


def _is_in_words(letter: str) -> bool:
    """A letter, a digit, or a sign that stands at one, as Bengali's vowels do."""
    return letter.isalnum() or unicodedata.category(letter).startswith("M")


def _swapped(
    reading: Reading, words: Sequence[int | None], others: Mapping[int, str]
) -> tuple[str, list[int | None]]:
    """The text with other words, by any of their tokens; and of each letter of it, the word of the
    first text that it stands for.
    """
    text, of = reading.text, list[int | None]([None] * len(reading.text))
    for token, first in zip(reading.tokens, words, strict=True):
        of[token.start : token.end] = [first] * (token.end - token.start)
    spans: dict[int, tuple[int, int, str]] = {}
    for position, other in others.items():
        first = words[position]
        if first is None:
            raise ValueError(
                f"changed(): the position of another word must be in the text; {position} is "
                f"{reading.tokens[position].text}, which the model adds."
            )
        own = [token for token, n in zip(reading.tokens, words, strict=True) if n == first]
        start, end = own[0].start, own[-1].end
        blanks = len(text[start:end]) - len(text[start:end].lstrip())  # which a token begins with
        spans[first] = start + blanks % (end - start), end, other
    made, made_of, at = "", list[int | None](), 0
    for first, (start, end, other) in sorted(spans.items()):
        made += text[at:start] + other
        made_of += [*of[at:start], *[first] * len(other)]
        at = end
    return made + text[at:], made_of + of[at:]


def _last_states(run: Run, again: partial[Run]) -> Tensor:
    """What the last block of the model itself gave, (N, width)."""
    kept = run.hidden_states
    if not kept:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # they were told of the run itself
            kept = again(keep=("hidden_states",)).hidden_states
    return list(kept.values())[-1][0]
