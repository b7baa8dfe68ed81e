"""The numbers of a checkpoint whose headers have been checked: finite, in float32 if asked."""

from __future__ import annotations

import contextlib
from typing import TYPE_CHECKING

from regard._checkpoint.errors import CheckpointError, listed, plain
from regard._checkpoint.folder import Checkpoint
from regard._checkpoint.header import open_tensors

if TYPE_CHECKING:
    import torch
    from torch import Tensor

__all__ = ["read_tensors"]


def read_tensors(
    checkpoint: Checkpoint, *, dtype: torch.dtype | None = None, allow_not_finite: bool = False
) -> dict[str, Tensor]:
    """All tensors by name; those of floating point as `dtype`, if there is one, else as they are.

    They are in memory: what happens to the files later does not reach them.

    >>> import tempfile, torch
    >>> from pathlib import Path
    >>> from safetensors.torch import save_file
    >>> from regard._checkpoint.folder import read_checkpoint
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     weights = {"w": torch.tensor([1.0, 2.0], dtype=torch.bfloat16)}
    ...     save_file(weights, Path(folder, "model.safetensors"))
    ...     read_tensors(read_checkpoint(Path(folder)), dtype=torch.float32)
    {'w': tensor([1., 2.])}
    """
    found: dict[str, Tensor] = {}
    bad: list[str] = []
    for path, entries in checkpoint.files.items():
        with contextlib.closing(open_tensors(path)) as opened:
            if opened.entries != entries:
                raise CheckpointError(
                    path, "stay as it is while it is read", "another header", "Load it again."
                )
            for name, entry in entries.items():
                tensor = opened.tensor(entry)
                if tensor.is_floating_point():
                    tensor = tensor.to(dtype or tensor.dtype)
                    if not allow_not_finite and not _is_finite(tensor):
                        bad.append(f"{plain(name)} in {path.name}")
                found[name] = tensor
    if bad:
        raise CheckpointError(
            checkpoint.folder,
            f"have finite weights{_in(dtype)}",
            f"NaN or infinity in {listed(bad)}",
            "The model would compute NaN. Load with allow_not_finite=True to look at it all the "
            "same.",
            tensor=bad[0].rpartition(" in ")[0] if len(bad) == 1 else None,
        )
    return found


def _is_finite(tensor: Tensor) -> bool:
    """Neither NaN nor infinite anywhere; the extremes tell, and cost no second tensor."""
    if tensor.numel() == 0:
        return True
    smallest, largest = tensor.aminmax()
    return bool(smallest.isfinite() and largest.isfinite())


def _in(dtype: torch.dtype | None) -> str:
    return "" if dtype is None else f" in {str(dtype).removeprefix('torch.')}"
