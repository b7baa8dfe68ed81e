"""A text through a model, for the studio: which models there are, and the process that reads."""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import mmap
import os
import threading
import time
import warnings
from collections.abc import Generator, Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.studio.jobs import Cancelled, Job, failure
from regard.studio.places import Places
from regard.studio.process import Ended, Process, Teller, Worker

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
        self._worker = Worker(__name__)

    def list(self) -> list[dict[str, Any]]:
        """Each with what it is, and whether it is on this machine already."""
        from regard.models.fetch import is_here

        built_in = [
            {"name": name, "about": about, "here": is_here(name)}
            for name, about in BUILT_IN.items()
        ]
        return built_in + [
            {"name": str(folder), "about": f"The folder {folder}", "here": True}
            for folder in self._folders
        ]

    def read(
        self, name: str, text: str, ablate: Mapping[int, list[int]], job: Job
    ) -> tuple[Run, float]:
        """The run of a text through a model by name, or in a folder in reach, and how many seconds
        it took. Raises ValueError in words, and Cancelled.
        """
        if name not in BUILT_IN:
            name = str(self._places.find(name))
        run = None
        try:
            with self._worker.lend() as process:
                process.tell({"model": name, "text": text, "ablate": dict(ablate.items())})
                # torch, which the run will need here, is imported meanwhile.
                threading.Thread(target=_import_run, daemon=True).start()
                found = self._follow(process, job)
                if "run" in found:
                    run = _taken(found["run"])
                    process.tell({})
        except Ended as error:
            raise ValueError(
                f"The process that read the text ended ({error}): is there enough memory?"
            ) from None
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
    """A run that was handed over, whose tensors lie in memory that both processes have."""
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


# ── in the process ────────────────────────────────────────────────────────────────────────────


def main(handle: int) -> None:
    """Read texts until nobody asks any more: told layer by layer, and stopped in between."""
    teller = Teller(handle)
    name, loaded = "", None

    def tell(step: str, done: int = 0, total: int = 0) -> None:
        if teller.stop.is_set():
            raise Cancelled
        teller.tell({"step": step, "done": done, "total": total})

    def layer(done: int, total: int) -> None:
        tell(f"Layer {done} of {total}", done, total)

    while True:
        asked = teller.hear()
        try:
            if loaded is None or name != asked["model"]:
                from regard.models import load

                loaded = None  # so that the old one's memory is free first
                tell(f"Loading {Path(asked['model']).name}")
                name, loaded = asked["model"], load(asked["model"], progress=False)
            tell("Reading the text")
            ablate = {int(layer): heads for layer, heads in asked["ablate"].items()}
            keep = ("q", "k", "hidden_states", "output")
            start = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what they say is in run.notes
                run = loaded.see(asked["text"], keep=keep, ablate=ablate or None, progress=layer)
            seconds = time.perf_counter() - start
            _keep_levels(run, tell)
            with _handed_over(run) as file:
                teller.tell({"run": file, "seconds": seconds})
                teller.hear()  # until it was taken
            del run
        except Cancelled:
            teller.tell({"stopped": True})
        except Exception as error:  # noqa: BLE001, as it is told to the reader
            teller.tell({"error": failure(error)})


def _keep_levels(run: Run, tell: Any) -> None:
    """Make the pictures that the atlas of a long text begins with."""
    from regard.run.atlas import build_levels

    for n, (name, layer) in enumerate(run.layers.items()):
        told = partial(tell, f"Maps of layer {n} of {len(run.layers)}", n, len(run.layers))
        told()
        if layer.has_weights:
            run.layers[name] = build_levels(layer, ("mean",), lambda _, told=told: told())


@contextlib.contextmanager
def _handed_over(run: Run) -> Generator[str]:
    """A file in memory with all there is of a run, which `_taken` reads.

    The bytes of the tensors, and the document of `regard.run.pack` with their places at the end,
    whose length is in the last 8 bytes.
    """
    import torch

    from regard.run.pack import pack

    document, tensors = pack(run)
    places: dict[str, tuple[int, str, list[int]]] = {}
    with os.fdopen(os.memfd_create("regard-run"), "wb") as file:
        for name, x in tensors.items():
            file.write(bytes(-file.tell() % 64))
            places[name] = file.tell(), str(x.dtype).removeprefix("torch."), list(x.shape)
            file.write(memoryview(x.reshape(-1).view(torch.uint8).numpy()))  # pyright: ignore[reportArgumentType]
        about = json.dumps({"document": document, "places": places}, allow_nan=False).encode()
        file.write(about + len(about).to_bytes(8, "little"))
        file.flush()
        yield f"/proc/{os.getpid()}/fd/{file.fileno()}"
