"""A text through a model, for the studio: which models there are, and the process that reads."""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import mmap
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.studio.jobs import Cancelled, Job
from regard.studio.places import Places
from regard.studio.process import Ended, Process

if TYPE_CHECKING:
    from regard.run import Run

BUILT_IN = {
    "minilm": "MiniLM: 6 layers × 12 heads, reads both ways, up to 512 tokens (83 MB)",
    "smollm2": "SmolLM2-135M: 30 layers × 9 heads, left to right, up to 8,192 tokens (93 MB)",
}
_GRACE = 1.0  # seconds in which a layer may be finished, so that the model need not be loaded again


class Models:
    """The models that may be chosen, and the process that reads with them.

    The process keeps the last model. It is started for the first text, and once more after it had
    to be ended, because a text was cancelled in the middle of a long layer.
    """

    def __init__(self, places: Places, folders: list[Path], closing: threading.Event) -> None:
        self._places = places
        self._folders = folders
        self._closing = closing
        self._process: Process | None = None

    def list(self) -> list[dict[str, Any]]:
        """Each with what it is, and whether it is on this machine already."""
        from regard.models.fetch import is_here

        found: list[dict[str, Any]] = [
            {"name": name, "about": about, "here": is_here(name)}
            for name, about in BUILT_IN.items()
        ]
        for folder in self._folders:
            found.append({"name": str(folder), "about": f"The folder {folder}", "here": True})
        return found

    def read(
        self, name: str, text: str, ablate: Mapping[int, list[int]], job: Job
    ) -> tuple[Run, float]:
        """The run of a text through a model by name, or in a folder in reach, and how many seconds
        it took. Raises ValueError in words, and Cancelled.
        """
        if name not in BUILT_IN:
            name = str(self._places.find(name))
        process = self._process or Process("regard.studio.reader")
        self._process = None
        run = None
        try:
            process.tell({"model": name, "text": text, "ablate": dict(ablate.items())})
            # torch, which the run will need here, is imported meanwhile.
            threading.Thread(target=_import_run, daemon=True).start()
            found = self._follow(process, job)
            if "run" in found:
                run = _taken(found["run"])
                process.tell({})
        except Ended as error:
            process.end()
            raise ValueError(
                f"The process that read the text ended ({error}): is there enough memory?"
            ) from None
        except BaseException:
            process.end()
            raise
        self._process = process
        if "error" in found:
            raise ValueError(found["error"])
        if run is None:
            raise Cancelled
        return run, found["seconds"]

    def _follow(self, process: Process, job: Job) -> dict[str, Any]:
        """What comes of it. Raises Cancelled, and the process is to be ended then."""
        step, done, total = "", 0, 0
        try:
            while not self._closing.is_set():
                job.tell(step, done, total)
                found = process.hear(0.1) or {}
                if "step" not in found:
                    if found:
                        return found
                    continue
                step, done, total = found["step"], found["done"], found["total"]
        except Cancelled:
            process.tell({"stop": True})
            while (found := process.hear(_GRACE)) and "step" in found:
                pass
            if found is not None and "run" not in found:
                return found
            raise
        raise Cancelled


def _import_run() -> None:
    with contextlib.suppress(ImportError):  # which the other process says in words
        importlib.import_module("regard.run")


def _taken(path: str) -> Run:
    """A run that `reader.py` has handed over, whose tensors lie in memory that both have."""
    import torch

    from regard.run.pack import unpack

    with open(path, "rb") as file:  # noqa: PTH123
        memory = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    end = len(memory) - 8
    about = json.loads(memory[end - int.from_bytes(memory[end:], "little") : end])

    def tensor(name: str) -> torch.Tensor:
        start, kind, shape = about["places"][name]
        dtype = getattr(torch, kind)
        if 0 in shape:
            return torch.empty(shape, dtype=dtype)
        count = math.prod(shape)
        return torch.frombuffer(memory, dtype=dtype, count=count, offset=start).reshape(shape)

    return unpack(about["document"], set(about["places"]), tensor, "the run")
