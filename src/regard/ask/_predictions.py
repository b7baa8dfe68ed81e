"""`predictions`: the likeliest tokens at each position of a run, and how likely each is."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from functools import cache, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from regard._arguments import whole
from regard.ask._see import LONG, see
from regard.models.own import class_name
from regard.run.choose import index_of

if TYPE_CHECKING:
    from regard.models import Loaded
    from regard.run import Run

PIECE = 2**22  # logits that are in memory at a time: 16 MB
SAME = 1e-4  # how far the last logits of two computations may be apart, of the largest


class Prediction(NamedTuple):
    """A token that a model predicts: its text, its probability, and its id."""

    token: str
    probability: float
    id: int


def predictions(
    run: Run, top: int = 5, position: int | None = None, *, model: Loaded | None = None
) -> list[list[Prediction]]:
    """The `top` likeliest tokens of each position of the first text, likeliest first.

    Of a language model that is what follows the token; of a masked one what may stand in its
    place; of one that reads a text and writes another, what it writes next. With a `position`
    (from 0, or from the end below 0) there is one list, of that one.

    The model reads the text once more, unless the run has kept its output. All logits of a long
    text are never in memory at once. Raises ValueError if the model predicts no tokens.

    >>> import regard
    >>> output = torch.tensor([[[0.0, 2.0, 1.0]]])
    >>> run = regard.Run(output=output)
    >>> [[(id, round(p, 2)) for _, p, id in one] for one in predictions(run, 2)]
    [[(1, 0.67), (2, 0.24)]]
    """
    top = whole("predictions()", "top", top, 1)
    loaded = model
    if loaded is None and run.again is not None:
        loaded = run.again.args[0]
    n = _length(run)
    if position is not None:
        position = index_of("predictions()", "position", position, n, f"There are {n} tokens.")
    text_of = texts_of(None if loaded is None else loaded.tokenizer)
    known = _known(run, loaded, n)
    if known is not None and (known.shape[0] == n or position == n - 1):
        rows = known if position is None else known[position - n :][:1]
        return likeliest(rows, text_of, top)
    again = run.again
    if model is not None and isinstance(run.text, str):
        again = partial(see, model, run.text)
    if again is None or loaded is None:
        raise ValueError(
            "predictions(): the run must know its model, or have kept its whole output; got "
            "neither. Give it the model: run.predictions(model=regard.models.load(name))."
        )
    return _once_more(again, loaded, position, n, text_of, top)


def predicts(run: Run) -> bool:
    """Can a page be told what the model of a run predicts: does it know its model, does that
    predict tokens, and is the text not long?
    """
    loaded: Loaded | None = None if run.again is None else run.again.args[0]
    if loaded is None or loaded.model.get_output_embeddings() is None:
        return False
    return _length(run) <= LONG


def predictions_info(run: Run, top: int = 5) -> list[list[list[Any]]] | None:
    """Of each position the likeliest tokens with their probabilities, as pages are told; None of a
    run that does not know its model, whose model predicts none, or whose text is long.
    """
    if not predicts(run):
        return None
    found = predictions(run, top)
    return [[[each.token, round(each.probability, 6)] for each in one] for one in found]


def likeliest(logits: Tensor, text_of: Callable[[int], str], top: int) -> list[list[Prediction]]:
    """The likeliest tokens of each row of logits (rows, vocabulary), with their probabilities."""
    found: list[list[Prediction]] = []
    for rows in logits.split(max(1, PIECE // max(1, logits.shape[1]))):
        shares = rows.double().softmax(-1)
        values, ids = shares.topk(min(top, shares.shape[1]))
        found += [
            [Prediction(text_of(id), share, id) for share, id in zip(*each, strict=True)]
            for each in zip(values.tolist(), ids.tolist(), strict=True)
        ]
    return found


def _length(run: Run) -> int:
    """How many positions predict something: those of the last layer's queries."""
    layers = list(run.layers.values())
    if layers:
        return layers[-1].shape[2]
    return 0 if run.output is None else run.output.shape[1]


def texts_of(tokenizer: Any) -> Callable[[int], str]:
    """What a token stands for, as text; its bytes, where they are only a piece of a letter; its
    number, where the tokenizer has none for it.
    """

    @cache
    def text(id: int) -> str:
        if tokenizer is None or (name := tokenizer.convert_ids_to_tokens(id)) is None:
            return f"id {id}"
        found = tokenizer.decode([id]) or str(name)
        return _in_bytes(str(name)) or found if "\ufffd" in found else found

    return text


def _in_bytes(name: str) -> str:
    """The bytes of a token by its name in a vocabulary of bytes: `ìĿ`, or `<0xEC>`; empty if it is
    no such name.

    >>> _in_bytes("ìĿ"), _in_bytes("<0xEC>"), _in_bytes("ĠëĮĢ")[:11], _in_bytes("고")
    ('bytes EC 9D', 'byte EC', 'bytes 20 EB', '')
    """
    if found := re.fullmatch(r"<0x([0-9A-F]{2})>", name):
        return f"byte {found[1]}"
    letters = _letters_of_bytes()
    if not name or any(letter not in letters for letter in name):
        return ""
    several = "s" if len(name) > 1 else ""
    return f"byte{several} " + " ".join(f"{letters[letter]:02X}" for letter in name)


@cache
def _letters_of_bytes() -> dict[str, int]:
    """Which byte a letter stands for where every byte has one: those that print are themselves, the
    others follow from 256 on.
    """
    plain = {*range(33, 127), *range(161, 173), *range(174, 256)}
    others = [byte for byte in range(256) if byte not in plain]
    return {chr(byte): byte for byte in plain} | {
        chr(256 + n): byte for n, byte in enumerate(others)
    }


def _known(run: Run, loaded: Loaded | None, n: int) -> Tensor | None:
    """The logits that the run has kept of its last tokens, (tokens, vocabulary)."""
    output = run.output
    if output is None or output.dim() != 3 or output.shape[1] > n:
        return None
    if loaded is not None:
        _refuse_vectors(loaded)
    return output[0].float()


def _refuse_vectors(loaded: Loaded) -> None:
    """Raise ValueError if what the model gives are not logits of tokens."""
    if loaded.model.get_output_embeddings() is None:
        raise ValueError(
            f"predictions(): {loaded.name} must be a model that predicts tokens; it gives vectors, "
            f"or classes ({class_name(loaded.model)}). smollm2 predicts the next one."
        )


def _once_more(
    again: partial[Run],
    loaded: Loaded,
    position: int | None,
    n: int,
    text_of: Callable[[int], str],
    top: int,
) -> list[list[Prediction]]:
    """From another pass of the same text: its last vectors, row by row through the head."""
    _refuse_vectors(loaded)
    with warnings.catch_warnings(), _captured(loaded.model.base_model) as states:
        warnings.simplefilter("ignore")  # they were told of the run itself
        run = again(keep=("output",))
    assert run.output is not None
    if run.output.shape[1] == n:
        rows = run.output[0] if position is None else run.output[0, position, None]
        return likeliest(rows, text_of, top)
    head: Any = loaded.model.get_output_embeddings()
    with torch.no_grad():
        last, own = head(states[-1][:, -1:])[0, 0], run.output[0, -1]
        if not torch.allclose(last, own, rtol=0.0, atol=SAME * float(own.abs().max())):
            # Its head does more than multiply: it must make all logits by itself.
            return likeliest(_all_logits(again, position), text_of, top)
        hidden = states[-1][0] if position is None else states[-1][0, position, None]
        size = max(1, PIECE // head.weight.shape[0])
        pieces = (likeliest(head(rows), text_of, top) for rows in hidden.split(size))
        return [each for piece in pieces for each in piece]


def _all_logits(again: partial[Run], position: int | None) -> Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        output = again(keep=("output",), logits=None).output
    assert output is not None
    return output[0] if position is None else output[0, position, None]


@contextmanager
def _captured(module: Any) -> Generator[list[Tensor]]:
    """Inside the `with`, the list grows by the last hidden states that a model gives."""
    found: list[Tensor] = []

    def keep(_: Any, __: Any, output: Any) -> None:
        found.append(output[0].detach())

    with module.register_forward_hook(keep):
        yield found
