"""A model that is being built from a config may not outgrow the weights that came with it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

from regard._checkpoint.errors import CheckpointError
from regard._checkpoint.folder import Checkpoint

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["too_large", "within"]


@contextlib.contextmanager
def within(file: Path, checkpoint: Checkpoint, *, tensors: int, numbers: int) -> Generator[None]:
    """Refuse a model that is being built in this thread once it has more parameters than this.

    `file` is the config that describes it. A parameter that is set twice counts twice.

    >>> import torch
    >>> nothing = Checkpoint(Path("folder"), {})
    >>> with within(Path("config.json"), nothing, tensors=2, numbers=11), torch.device("meta"):
    ...     _ = torch.nn.Linear(3, 5)
    Traceback (most recent call last):
    regard._checkpoint.errors.CheckpointError: load(): config.json must describe a model of about
    the 0 numbers that the folder holds; got one of more than 11. Copy the folder again, whole.
    """
    from torch.nn.modules.module import register_module_parameter_registration_hook

    thread = threading.get_ident()
    counted = [0, 0]

    def count(module: object, name: str, parameter: Tensor | None) -> None:
        if parameter is None or threading.get_ident() != thread:
            return
        counted[0] += 1
        counted[1] += parameter.numel()
        if counted[0] > tensors:
            held = len(checkpoint.names)
            raise too_large(file, held, "tensors", f"more than {tensors:,}")
        if counted[1] > numbers:
            raise too_large(file, checkpoint.count, "numbers", f"more than {numbers:,}")

    handle = register_module_parameter_registration_hook(count)
    try:
        yield
    finally:
        handle.remove()


def too_large(file: Path, held: int, of_what: str, found: str) -> CheckpointError:
    """The error for a config that describes more than the folder holds.

    >>> print(too_large(Path("config.json"), 3, "tensors", "5"))
    load(): config.json must describe a model of about the 3 tensors that the folder holds; got one
    of 5. Copy the folder again, whole.
    """
    return CheckpointError(
        file,
        f"describe a model of about the {held:,} {of_what} that the folder holds",
        f"one of {found}",
        "Copy the folder again, whole.",
    )
