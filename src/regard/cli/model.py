"""A text through a model, for a command: told layer by layer, and what the model has not got."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from regard.cli.common import BadInput, plain_error, status

if TYPE_CHECKING:
    from regard import Run
    from regard.models import Loaded, Reading

_PATIENCE = 2.0  # seconds until it is said how far it has come

Places = Sequence[tuple[int | None, int | None]]  # layers and heads; None is any


def look(
    loaded: Loaded, reading: Reading, places: Places = (), **options: Any
) -> tuple[Run, float]:
    """The run of a text through a model, as `regard.ask.see` makes it, and how many seconds it
    took. Raises BadInput if the model has not got one of the places, or cannot take the text.
    """
    from regard.ask import see

    config = loaded.model.config.get_text_config()
    names = ("num_hidden_layers", "num_attention_heads")
    layers, heads = (getattr(config, name, None) for name in names)
    writes = getattr(config, "is_encoder_decoder", False)  # it has layers of two kinds
    if isinstance(layers, int) and isinstance(heads, int) and not writes:
        _refuse_places([heads] * layers, places)
    start = time.perf_counter()
    try:
        with progress() as tell:
            run = see(loaded, reading, progress=tell, **options)
    except RuntimeError as error:
        raise BadInput(f"{loaded.name} cannot read the text: {plain_error(error)}") from error
    seconds = time.perf_counter() - start
    _refuse_places([each.shape[1] for each in run.layers.values()], places)
    return run, seconds


@contextmanager
def progress() -> Generator[Callable[[int, int], None] | None]:
    """Says on standard error which block has been reached, if it is a terminal and takes long."""
    start = time.monotonic()
    with status() as show:

        def tell(number: int, total: int) -> None:
            seconds = time.monotonic() - start
            if show is not None and seconds >= _PATIENCE:
                show(f"layer {number} of {total}, {seconds:.0f} s")

        yield None if show is None else tell


def _refuse_places(heads: Sequence[int], places: Places) -> None:
    """`heads` says how many of them each layer has."""
    for layer, head in places:
        if layer is not None and layer >= len(heads):
            raise BadInput(f"there is no layer {layer}; there are {len(heads)} here, from 0.")
        most = max(heads, default=0) if layer is None else heads[layer]
        if head is not None and head >= most:
            where = "" if layer is None else f" in layer {layer}"
            raise BadInput(f"there is no head {head}{where}; there are {most} here, from 0.")
