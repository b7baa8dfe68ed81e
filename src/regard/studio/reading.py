"""A text through a model, for the studio: told layer by layer, and stopped when nobody wants it."""

from __future__ import annotations

import inspect
import threading
import time
import warnings
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.studio.jobs import Job
from regard.studio.places import Places

if TYPE_CHECKING:
    from regard.models import Loaded
    from regard.run import Run

__all__ = ["BUILT_IN", "Models", "keep_levels", "read"]

BUILT_IN = {
    "minilm": "MiniLM: 6 layers × 12 heads, reads both ways, up to 512 tokens (83 MB)",
    "smollm2": "SmolLM2-135M: 30 layers × 9 heads, left to right, up to 8,192 tokens (93 MB)",
}


class Models:
    """The models that may be chosen, and the last one that was loaded."""

    def __init__(self, places: Places, folders: list[Path]) -> None:
        self._places = places
        self._folders = folders
        self._loaded: tuple[str, Loaded] | None = None
        self._lock = threading.Lock()

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

    def load(self, name: str, job: Job) -> Loaded:
        """A model by name, or a folder in reach. Raises ValueError in words."""
        from regard.models import load

        if name not in BUILT_IN:
            name = str(self._places.find(name))
        with self._lock:
            if self._loaded is None or self._loaded[0] != name:
                self._loaded = None  # so that the old one's memory is free first
                job.tell(f"Loading {Path(name).name}")
                self._loaded = name, load(name, progress=False)
            loaded = self._loaded[1]
        if loaded.tokenizer is None:
            raise ValueError("This model has no tokenizer.json: it cannot read a text.")
        if "decoder_input_ids" in inspect.signature(loaded.model.forward).parameters:
            raise ValueError("This model reads one text and writes another; a page has only one.")
        return loaded


def read(loaded: Loaded, text: str, cut: Mapping[int, list[int]], job: Job) -> tuple[Run, float]:
    """The run of a text, q and k and the tokens' vectors kept, and how many seconds it took."""
    import torch

    from regard import See, watch
    from regard._watch.blocks import each_block

    def told(done: int, total: int) -> None:
        job.tell(f"Layer {done} of {total}", done, total)

    inputs: dict[str, Any] = {**loaded.inputs(text)}
    taken = inspect.signature(loaded.model.forward).parameters
    if "use_cache" in taken:
        inputs["use_cache"] = False
    if "logits_to_keep" in taken:
        inputs["logits_to_keep"] = 1  # all of them, of a long text, are gigabytes
    watching = watch(
        loaded.model,
        See(entropy=True, top=8, map=(64, 64), distance=True),
        keep=("q", "k", "vectors", "output"),
        tokenizer=loaded.tokenizer,
        text=text,
        cut=dict(cut.items()) or None,
    )
    job.tell("Reading the text")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what they say is in run.notes
        start = time.perf_counter()
        with watching as run, torch.no_grad(), each_block(loaded.model, told):
            loaded.model(**inputs)
    return run, time.perf_counter() - start


def keep_levels(run: Run, job: Job) -> None:
    """Make the pictures that the atlas of a long text begins with."""
    from regard.run.atlas import build_levels

    for n, (name, layer) in enumerate(run.layers.items()):
        words = f"Maps of layer {n} of {len(run.layers)}"
        job.tell(words, n, len(run.layers))
        if layer.q is not None and layer.k is not None:
            told = partial(job.tell, words, n, len(run.layers))
            run.layers[name] = build_levels(layer, ("mean",), lambda _, told=told: told())
