"""Reading a text with a model, for a command: what is told meanwhile, and what is refused."""

from __future__ import annotations

import inspect
import re
import sys
import time
import warnings
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from regard.cli.common import BadInput

if TYPE_CHECKING:
    from torch import nn

    from regard import Run
    from regard.models import Loaded

__all__ = [
    "check_place",
    "load_model",
    "look",
    "notes",
    "plain_error",
    "progress",
    "refuse_no_text",
]

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


def look(
    loaded: Loaded,
    text: str,
    *,
    keep: Iterable[str] | None = None,
    cut: Mapping[str | int, Iterable[int]] | None = None,
    effect: bool = False,
) -> tuple[Run, float]:
    """The run of a text through a model, and how many seconds it took.

    `keep` is what `regard.watch` keeps; None keeps q and k of texts that are not long. `effect`
    keeps what `run.effect` needs. Raises BadInput if the model cannot take the text.
    """
    import torch

    from regard import See, watch

    try:
        inputs: dict[str, Any] = loaded.inputs(text)
    except ValueError as error:
        raise BadInput(plain_error(error)) from error
    length = inputs["input_ids"].shape[1]
    kept = set(("q", "k") if length <= _LONG else ()) if keep is None else set(keep)
    side = 64 if kept >= {"q", "k"} else 24  # without q and k, a map must fit as it is
    kept |= {"vectors", "output"} if effect else set()
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
        cut=cut,
    )
    try:
        with notes(), watching as run, torch.no_grad(), progress(loaded.model):
            start = time.perf_counter()
            loaded.model(**inputs)
            seconds = time.perf_counter() - start
    except (ValueError, RuntimeError) as error:
        raise BadInput(f"{loaded.name} cannot read the text: {plain_error(error)}") from error
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
    from torch import nn

    stacks = [module for module in model.modules() if isinstance(module, nn.ModuleList)]
    blocks = list(max(stacks, key=len, default=[]))
    if sys.stderr is None or not sys.stderr.isatty() or not blocks:
        yield
        return
    start = time.monotonic()
    shown = False

    def tell(number: int) -> None:
        nonlocal shown
        seconds = time.monotonic() - start
        if seconds >= _PATIENCE:
            shown = True
            line = f"\r\x1b[Klayer {number} of {len(blocks)}, {seconds:.0f} s"
            print(line, end="", file=sys.stderr, flush=True)

    hooks = [
        block.register_forward_hook(lambda *_, number=number: tell(number))
        for number, block in enumerate(blocks, 1)
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        if shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def check_place(run: Run, layer: int | None, head: int | None) -> None:
    """Refuse a layer or a head that the model has not got.

    >>> from regard import Run
    >>> check_place(Run(), None, None)
    """
    layers = list(run.layers.values())
    if layer is not None and layer >= len(layers):
        raise BadInput(f"there is no layer {layer}; there are {len(layers)} here, from 0.")
    here = layers if layer is None else [layers[layer]]
    most = max((each.shape[1] for each in here), default=0)
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
