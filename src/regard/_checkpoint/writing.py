"""What the system refuses to write is an OSError, also where a library has an error of its own."""

from __future__ import annotations

import contextlib
import os
import re
import stat
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch import Tensor

__all__ = ["as_os_error", "write_tensors"]


@contextlib.contextmanager
def as_os_error(file: Path) -> Generator[None]:
    """Raise OSError for an error of a library written in Rust that has the system's number in it.

    >>> with as_os_error(Path("model.safetensors")):
    ...     raise ValueError("I/O error: No space left on device (os error 28)")
    Traceback (most recent call last):
    OSError: [Errno 28] No space left on device: 'model.safetensors'
    """
    try:
        yield
    except Exception as error:
        number = re.search(r"\(os error (\d+)\)", str(error))
        if number is None or isinstance(error, OSError):
            raise
        code = int(number[1])
        raise OSError(code, os.strerror(code), str(file)) from error


def write_tensors(
    library: Any, tensors: dict[str, Tensor], file: Path, about: dict[str, str]
) -> None:
    """Write tensors and what is said `about` them to a file, which has the usual permissions.

    `library` is safetensors.torch.

    >>> import tempfile
    >>> import safetensors.torch
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_tensors(safetensors.torch, {}, Path(folder, "model.safetensors"), {})
    ...     [path.name for path in Path(folder).iterdir()]
    ['model.safetensors']
    """
    file.touch()
    mode = stat.S_IMODE(file.stat().st_mode)
    with as_os_error(file):
        library.save_file(tensors, file, about)
    file.chmod(mode)  # the library makes its file for the owner alone
