"""The process that reads texts with models: told layer by layer, and stopped in between."""

from __future__ import annotations

import inspect
import json
import os
import re
import time
import traceback
import warnings
from collections.abc import Callable, Generator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.studio.jobs import Cancelled
from regard.studio.process import Teller

if TYPE_CHECKING:
    from regard.models import Loaded
    from regard.run import Run

Tell = Callable[[str, int, int], None]


def main(handle: int) -> None:
    """Read texts until nobody asks any more."""
    teller = Teller(handle)

    def tell(step: str, done: int = 0, total: int = 0) -> None:
        if teller.stop.is_set():
            raise Cancelled
        teller.tell({"step": step, "done": done, "total": total})

    name, loaded = "", None
    while True:
        asked = teller.hear()
        try:
            if loaded is None or name != asked["model"]:
                loaded = None  # so that the old one's memory is free first
                tell(f"Loading {Path(asked['model']).name}")
                name, loaded = asked["model"], _load(asked["model"])
            ablate = {int(layer): heads for layer, heads in asked["ablate"].items()}
            run, seconds = _read(loaded, asked["text"], ablate, tell)
            _keep_levels(run, tell)
            with _handed_over(run) as file:
                teller.tell({"run": file, "seconds": seconds})
                teller.hear()  # until it was taken
            del run
        except Cancelled:
            teller.tell({"stopped": True})
        except Exception as error:  # noqa: BLE001, as it is told to the reader
            teller.tell({"error": _words(error)})


def _load(name: str) -> Loaded:
    """A model by name, or a folder. Raises ValueError in words."""
    from regard.models import load

    loaded = load(name, progress=False)
    if loaded.tokenizer is None:
        raise ValueError("This model has no tokenizer.json: it cannot read a text.")
    if "decoder_input_ids" in inspect.signature(loaded.model.forward).parameters:
        raise ValueError("This model reads one text and writes another; a page has only one.")
    return loaded


def _read(
    loaded: Loaded, text: str, ablate: Mapping[int, list[int]], tell: Tell
) -> tuple[Run, float]:
    """The run of a text, q and k and the hidden states kept, and how many seconds it took."""
    import torch

    from regard import See, watch
    from regard._watch.modules import each_block

    tell("Reading the text", 0, 0)
    inputs: dict[str, Any] = {**loaded.inputs(text)}
    taken = inspect.signature(loaded.model.forward).parameters
    if "use_cache" in taken:
        inputs["use_cache"] = False
    if "logits_to_keep" in taken:
        inputs["logits_to_keep"] = 1  # all of them, of a long text, are gigabytes
    watching = watch(
        loaded.model,
        See(entropy=True, top=8, map=(64, 64), distance=True),
        keep=("q", "k", "hidden_states", "output"),
        tokenizer=loaded.tokenizer,
        text=text,
        ablate=dict(ablate.items()) or None,
    )

    def told(done: int, total: int) -> None:
        tell(f"Layer {done} of {total}", done, total)

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # what they say is in run.notes
        start = time.perf_counter()
        with watching as run, torch.no_grad(), each_block(loaded.model, told):
            loaded.model(**inputs)
    return run, time.perf_counter() - start


def _keep_levels(run: Run, tell: Tell) -> None:
    """Make the pictures that the atlas of a long text begins with."""
    from regard.run.atlas import build_levels

    for n, (name, layer) in enumerate(run.layers.items()):
        words = f"Maps of layer {n} of {len(run.layers)}"
        tell(words, n, len(run.layers))
        if layer.has_weights:
            told = partial(tell, words, n, len(run.layers))
            run.layers[name] = build_levels(layer, ("mean",), lambda _, told=told: told())


@contextmanager
def _handed_over(run: Run) -> Generator[str]:
    """A file in memory with all there is of a run; `reading.py` takes it from there.

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


def _words(error: Exception) -> str:
    """What went wrong, as the reader may know it."""
    said = re.sub(r"^[\w.]+\(\): ", "", str(error))
    if isinstance(error, MemoryError) or "DefaultCPUAllocator" in said:
        return "There is not enough memory for that."
    if isinstance(error, ValueError | ImportError):
        return said
    traceback.print_exception(error)
    return f"That went wrong, and should not have: {type(error).__name__}: {said}"
