"""Folders with tensors that came from elsewhere: what is read of them, and what is refused.

Start reading at `folder.read_checkpoint`. Nothing here is public; `regard.models`, `regard.nn` and
`regard.run` stand on it. torch is imported when it is needed, not before.
"""

from regard._checkpoint.errors import CheckpointError, is_from_rust, listed, plain
from regard._checkpoint.files import own_file, parse_object, read_bytes, read_object
from regard._checkpoint.folder import Checkpoint, read_checkpoint, read_tensors, too_large, within
from regard._checkpoint.safetensors_file import (
    TORCH_DTYPES,
    Entry,
    Opened,
    as_os_error,
    open_tensors,
    write_tensors,
)

__all__ = [
    "TORCH_DTYPES",
    "Checkpoint",
    "CheckpointError",
    "Entry",
    "Opened",
    "as_os_error",
    "is_from_rust",
    "listed",
    "open_tensors",
    "own_file",
    "parse_object",
    "plain",
    "read_bytes",
    "read_checkpoint",
    "read_object",
    "read_tensors",
    "too_large",
    "within",
    "write_tensors",
]
