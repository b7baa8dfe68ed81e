"""A text through a model, for a command: what is told meanwhile, and what is refused."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from regard.cli.common import BadInput, notes, plain_error

if TYPE_CHECKING:
    from regard import Run
    from regard.models import Loaded, Reading

_PATIENCE = 2.0  # seconds until it is said how far it has come


def read_tokens(name: str, text: str, first: int | None = None) -> Reading:
    """How a model reads a text, known before the model is loaded. Raises BadInput if it cannot.

    >>> read_tokens("./no/such/folder", "love")
    Traceback (most recent call last):
    regard.cli.common.BadInput: ./no/such/folder must be a folder, minilm, smollm2, or the id ...
    """
    with notes():
        from regard.models import load_reader

        reader = load_reader(name)
        if reader is None:
            raise BadInput(f"{name} has no tokenizer.json: it cannot read a text.")
        reading = reader.read(text, first=first)
        try:
            reader.check([reading])
        except ValueError as error:
            raise BadInput(plain_error(error).replace(" first=", " --first ")) from error
    return reading


def load_model(name: str) -> Loaded:
    """A model and its tokenizer. Raises BadInput where it cannot be had."""
    with notes():
        from regard.models import load

        return load(name)


def look(loaded: Loaded, reading: Reading, **options: Any) -> tuple[Run, float]:
    """The run of a text through a model, as `regard.ask.see` makes it, and how many seconds it
    took. Raises BadInput if the model cannot take the text.
    """
    from regard.ask import see

    start = time.perf_counter()
    try:
        with notes(), progress() as tell:
            run = see(loaded, reading, progress=tell, **options)
    except (BadInput, RuntimeError) as error:
        raise BadInput(f"{loaded.name} cannot read the text: {plain_error(error)}") from error
    return run, time.perf_counter() - start


@contextmanager
def progress() -> Generator[Callable[[int, int], None] | None]:
    """Says on standard error which block has been reached, if it is a terminal and takes long.

    >>> with progress() as tell:
    ...     print(tell)
    None
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
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
        yield tell
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
