"""A text through a model, for the studio: which models there are, and the process that reads."""

from __future__ import annotations

import contextlib
import importlib
import threading
import time
import warnings
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard._wanted import asking, still_wanted
from regard.models.fetch import is_here
from regard.studio.flowing import OpenFlows
from regard.studio.jobs import Cancelled, Job, failure
from regard.studio.places import Places, Settings
from regard.studio.process import Ended, Teller, Worker, follow, shared_file

if TYPE_CHECKING:
    from regard.run import Run

BUILT_IN = {
    "minilm": "MiniLM: 6 layers × 12 heads, reads both ways, up to 512 tokens (83 MB)",
    "smollm2": "SmolLM2-135M: 30 layers × 9 heads, left to right, up to 8,192 tokens (93 MB)",
}


class Models:
    """The models that may be chosen, and the process that reads with them.

    The process keeps the last model. It is started for the first text, and once more after it had
    to be ended, because a text was cancelled in the middle of a long layer.
    """

    def __init__(self, settings: Settings, closing: threading.Event) -> None:
        self._places = Places([*settings.folders, *settings.models, settings.store])
        self._folders = settings.models
        self._closing = closing
        self._worker = Worker(__name__)
        self._one = threading.Lock()  # a question at a time, as the process has one model

    def list(self) -> list[dict[str, Any]]:
        """Each with what it is, and whether it is on this machine already."""
        built_in = [
            {"name": name, "about": about, "here": is_here(name)}
            for name, about in BUILT_IN.items()
        ]
        return built_in + [
            {"name": str(folder), "about": f"The folder {folder}", "here": True}
            for folder in self._folders
        ]

    def named(self, name: str) -> str | None:
        """The model that a run names as its own; None if it is not here, or there are two."""
        known = [*BUILT_IN, *map(str, self._folders)]
        found = [each for each in known if Path(each).name == name]
        return found[0] if len(found) == 1 else None

    def read(
        self, name: str, text: str, ablate: Mapping[int, list[int]], job: Job
    ) -> tuple[Run, dict[str, Any]]:
        """The run of a text through a model by name, or in a folder in reach; how many `seconds` it
        took, how many `bytes` it has, and whether it `predicts` tokens and `has_lens`. Raises
        ValueError in words, and Cancelled.
        """
        if name not in BUILT_IN:
            name = str(self._places.find(name))
        run = None
        try:
            with self._alone(job), self._worker.lend() as process:
                process.tell({"model": name, "text": text, "ablate": dict(ablate.items())})
                # torch, which the run will need here, is imported meanwhile.
                threading.Thread(target=_import_run, daemon=True).start()
                # A run that came too late would wait to be taken.
                found = follow(process, job, self._closing, kept=lambda told: "run" not in told)
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
        return run, found

    def ask_flow(
        self, origin: dict[str, Any], question: str, given: dict[str, Any], job: Job | None
    ) -> Any:
        """What the flow of a text through a model is asked. Raises ValueError in words, Cancelled
        if the job was, and what `still_wanted` raises where there is none.
        """
        name = origin["model"]
        if name not in BUILT_IN:
            name = str(self._places.find(name))
        origin = {**origin, "model": name}
        asked = {"model": name, "origin": origin, "question": question, "given": given}
        try:
            with self._alone(job), self._worker.lend() as process:
                process.tell(asked)
                found = follow(process, job, self._closing)
        except Ended as error:
            raise ValueError(
                f"The process that read the text ended ({error}): is there enough memory?"
            ) from None
        if "error" in found:
            raise ValueError(found["error"])
        if "answer" not in found:
            raise Cancelled
        return found["answer"]

    @contextlib.contextmanager
    def _alone(self, job: Job | None) -> Generator[None]:
        """Wait for the process, as long as somebody wants it."""
        while not self._one.acquire(timeout=0.1):
            if self._closing.is_set():
                raise Cancelled
            if job is None:
                still_wanted()
            else:
                job.tell("Waiting for another text")
        try:
            yield
        finally:
            self._one.release()


def _import_run() -> None:
    with contextlib.suppress(ImportError):  # which the other process says in words
        importlib.import_module("regard.run")


def _taken(path: str) -> Run:
    """A run that was handed over, whose tensors lie in memory that both processes have."""
    import torch

    from regard.run.pack import unpack

    document, tensors = torch.load(path, mmap=True, weights_only=True)
    return unpack(document, tensors, "the run")


# ── in the process ────────────────────────────────────────────────────────────────────────────


def main(handle: int) -> None:
    """Read texts until nobody asks any more: told layer by layer, and stopped in between."""
    teller = Teller(handle)
    name, loaded = "", None
    flows = OpenFlows()

    def check() -> None:
        if teller.stop.is_set():
            raise Cancelled

    def tell(step: str, done: int = 0, total: int = 0) -> None:
        check()
        teller.tell({"step": step, "done": done, "total": total})

    def layer(done: int, total: int) -> None:
        tell(f"Layer {done} of {total}", done, total)

    while True:
        asked = teller.hear()
        try:
            if loaded is None or name != asked["model"]:
                loaded = None  # so that the old one's memory is free first
                flows.forget()
                tell(f"Loading {Path(asked['model']).name}")
            import torch

            from regard.ask import has_lens, predicts
            from regard.models import load
            from regard.run.atlas import build_levels
            from regard.run.info import finite
            from regard.run.pack import pack

            torch.serialization.set_crc32_options(False)  # as what is handed over stays in memory
            if loaded is None:
                name, loaded = asked["model"], load(asked["model"], progress=False)
            if "question" in asked:
                with warnings.catch_warnings(), asking(check):
                    warnings.simplefilter("ignore")  # what they say is in run.notes
                    teller.tell({"answer": finite(flows.answer(asked, loaded, layer))})
                continue
            tell("Reading the text")
            ablate = {int(layer): heads for layer, heads in asked["ablate"].items()}
            keep = ("q", "k", "hidden_states", "output")
            start = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # what they say is in run.notes
                run = loaded.see(asked["text"], keep=keep, ablate=ablate or None, progress=layer)
            seconds = time.perf_counter() - start
            total = len(run.layers)
            for n, (key, each) in enumerate(run.layers.items()):
                tell(f"Maps of layer {n} of {total}", n, total)
                if each.has_weights:
                    with asking(check):  # the pictures that the atlas of a long text begins with
                        run.layers[key] = build_levels(each)
            with shared_file() as (file, path):
                torch.save(pack(run), file)
                file.flush()
                about = {"seconds": seconds, "bytes": file.tell(), "predicts": predicts(run)}
                about |= {"has_lens": has_lens(run)}
                teller.tell({"run": path, **about})
                teller.hear()  # until it was taken
            flows.keep(asked, run)
            del run
        except Cancelled:
            teller.tell({"stopped": True})
        except Exception as error:  # noqa: BLE001, as it is told to the reader
            teller.tell({"error": failure(error)})
