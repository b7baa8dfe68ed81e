"""Reading a text with a model, for a command: what is told meanwhile, and what is refused."""

from __future__ import annotations

import inspect
import re
import sys
import time
import warnings
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from regard.cli.common import BadInput

if TYPE_CHECKING:
    from torch import nn

    from regard import Run
    from regard.models import Loaded
    from regard.text import Token

_LONG = 2048  # tokens; of a longer text q and k are kept only where they are needed
_PATIENCE = 2.0  # seconds until it is said how far it has come


def load_model(name: str) -> Loaded:
    """A model and its tokenizer. Raises BadInput where it cannot be had.

    >>> load_model("./no/such/folder")
    Traceback (most recent call last):
    regard.cli.common.BadInput: ./no/such/folder must be a folder, minilm, smollm2, or the id ...
    """
    try:
        from regard.models import load

        with notes():
            loaded = load(name)
    except (ValueError, ImportError) as error:
        raise BadInput(plain_error(error)) from error
    if loaded.tokenizer is None:
        raise BadInput(f"{name} has no tokenizer.json: it cannot read a text.")
    if "decoder_input_ids" in inspect.signature(loaded.model.forward).parameters:
        raise BadInput(
            f"{name} reads one text and writes another ({type(loaded.model).__name__}): a command "
            "has only one text. In Python, regard.watch sees such a model."
        )
    return loaded


@dataclass(frozen=True)
class Reading:
    """The tokens of a text as a model reads them, one that it does not know being its `sign`, and
    the pieces of the text that are unknown to it."""

    tokens: list[Token]
    unknown: list[str]
    sign: str


def read_tokens(loaded: Loaded, text: str) -> Reading:
    """How a model reads a text, before it runs. Raises BadInput if it cannot take the text."""
    ids = _inputs(loaded, text)["input_ids"][0].tolist()
    own = loaded.tokens(text)
    tokens = _as_read(loaded, own, ids)
    unknown = [one.text for one, read in zip(own, tokens, strict=True) if one.text != read.text]
    return Reading(tokens, unknown, _unknown_sign(loaded))


def _inputs(loaded: Loaded, text: str) -> dict[str, Any]:
    try:
        return {**loaded.inputs(text)}
    except ValueError as error:
        raise BadInput(plain_error(error)) from error


def _as_read(loaded: Loaded, tokens: Sequence[Token], ids: Sequence[int]) -> list[Token]:
    """The tokens, with the model's sign for the text of each that it does not know."""
    sign = _unknown_sign(loaded)
    assert loaded.tokenizer is not None
    unknown = loaded.tokenizer.backend_tokenizer.token_to_id(sign)
    return [
        replace(token, text=sign) if number == unknown and token.start < token.end else token
        for token, number in zip(tokens, ids, strict=True)
    ]


def _unknown_sign(loaded: Loaded) -> str:
    """What the tokenizer puts for what it does not know, such as [UNK]; empty if it has none."""
    assert loaded.tokenizer is not None
    own = getattr(loaded.tokenizer.backend_tokenizer.model, "unk_token", None)
    return own or getattr(loaded.tokenizer, "unk_token", None) or ""


def look(
    loaded: Loaded,
    text: str,
    *,
    keep: Iterable[str] | None = None,
    ablate: Mapping[str | int, Iterable[int]] | None = None,
    effect: bool = False,
) -> tuple[Run, float]:
    """The run of a text through a model, and how many seconds it took.

    `keep` is what `regard.watch` keeps; None keeps q and k of texts that are not long. `effect`
    keeps what `run.effect` needs. The tokens of the run are those of `read_tokens`. Raises BadInput
    if the model cannot take the text.
    """
    import torch

    from regard import See, watch

    inputs = _inputs(loaded, text)
    length = inputs["input_ids"].shape[1]
    kept = set(("q", "k") if length <= _LONG else ()) if keep is None else set(keep)
    side = 64 if kept >= {"q", "k"} else 24  # without q and k, a map must fit as it is
    kept |= {"hidden_states", "output"} if effect else set()
    taken = inspect.signature(loaded.model.forward).parameters
    if "use_cache" in taken:
        inputs["use_cache"] = False
    if "logits_to_keep" in taken and not effect:
        inputs["logits_to_keep"] = 1  # all of them, of a long text, are gigabytes
    watching = watch(
        loaded.model,
        See(entropy=True, top=8, map=(side, side), distance=True),
        keep=sorted(kept),
        tokenizer=loaded.tokenizer,
        text=text,
        ablate=ablate,
    )
    try:
        with notes(), watching as run, torch.no_grad(), progress(loaded.model):
            start = time.perf_counter()
            loaded.model(**inputs)
            seconds = time.perf_counter() - start
    except (ValueError, RuntimeError) as error:
        raise BadInput(f"{loaded.name} cannot read the text: {plain_error(error)}") from error
    if run.tokens:
        run.tokens = [_as_read(loaded, run.tokens[0], inputs["input_ids"][0].tolist())]
    return run, seconds


@contextmanager
def notes() -> Generator[None]:
    """Tell what Regard warns of in one line each on standard error, when it is done.

    >>> with notes():
    ...     pass
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        found = re.match(r"(?:watch|load|edges|sql)\(\): ", str(warning.message))
        if found is not None:
            from regard.view.labels import fit

            note = " ".join(str(warning.message)[found.end() :].split())
            print(fit(f"regard: note: {note}", 500), file=sys.stderr)


@contextmanager
def progress(model: nn.Module) -> Generator[None]:
    """Say on standard error which block has been reached, if it is a terminal and takes long.

    >>> import torch
    >>> with progress(torch.nn.Identity()):
    ...     pass
    """
    from regard._watch.modules import each_block

    if sys.stderr is None or not sys.stderr.isatty():
        yield
        return
    start = time.monotonic()
    shown = False

    def tell(number: int, total: int) -> None:
        nonlocal shown
        seconds = time.monotonic() - start
        if seconds >= _PATIENCE:
            shown = True
            line = f"\r\x1b[Klayer {number} of {total}, {seconds:.0f} s"
            print(line, end="", file=sys.stderr, flush=True)

    try:
        with each_block(model, tell):
            yield
    finally:
        if shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def check_config(loaded: Loaded, layer: int | None, head: int | None) -> None:
    """Refuse a layer or a head that the model has not got by its config, before it runs."""
    config = loaded.model.config.get_text_config()
    names = ("num_hidden_layers", "num_attention_heads")
    layers, heads = (getattr(config, name, None) for name in names)
    if isinstance(layers, int) and isinstance(heads, int):
        _refuse_place([heads] * layers, layer, head)


def check_place(run: Run, layer: int | None, head: int | None) -> None:
    """Refuse a layer or a head that was not seen.

    >>> from regard import Run
    >>> check_place(Run(), None, None)
    """
    _refuse_place([each.shape[1] for each in run.layers.values()], layer, head)


def _refuse_place(heads: Sequence[int], layer: int | None, head: int | None) -> None:
    """`heads` says how many of them each layer has."""
    if layer is not None and layer >= len(heads):
        raise BadInput(f"there is no layer {layer}; there are {len(heads)} here, from 0.")
    most = max(heads, default=0) if layer is None else heads[layer]
    if head is not None and head >= most:
        where = "" if layer is None else f" in layer {layer}"
        raise BadInput(f"there is no head {head}{where}; there are {most} here, from 0.")


def refuse_no_text(text: str, name: str = "the text") -> None:
    """Raise BadInput if the text is empty, or came from bytes that are no UTF-8.

    >>> refuse_no_text("love")
    """
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise BadInput(f"{name} is not UTF-8.")
    if not text.strip():
        raise BadInput(f"{name} is empty: give it a word.")


def plain_error(error: BaseException) -> str:
    """What an error says, without the name of the function that says it.

    >>> plain_error(ValueError("inputs(): text must have a token."))
    'text must have a token.'
    """
    message = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return " ".join(re.sub(r"^\w+\(\)(: | )", "", message).split())
