"""SmolLM2 reads a long text, in one process to a file, and on ranks, each beside that file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import regard
from regard.models import Loaded, load
from regard.observation import FIELDS
from regard.run import Run

SEE = regard.See(
    entropy=True, top=4, map=(37, 41), received=True, distance=True, max_logit=True, contribution=2
)
DOCUMENTS = Path(__file__).parents[2] / "docs"


def ids_of(loaded: Loaded, size: int) -> Tensor:
    """The first tokens of the documents, one after the other."""
    found: list[int] = []
    for path in sorted(DOCUMENTS.glob("*.md")):
        found += loaded.reader().read(path.read_text(encoding="utf-8")).ids
        if len(found) >= size:
            break
    assert len(found) >= size
    return torch.tensor([found[:size]])


def statistics(run: Run) -> dict[str, Tensor]:
    """Everything that was seen, of all layers behind each other."""
    layers = list(run.layers.values())
    found = {
        name: torch.stack([getattr(layer.seen, name) for layer in layers])
        for name in FIELDS
        if getattr(layers[0].seen, name) is not None
    }
    for name in layers[0].shares:
        found[f"share of {name}"] = torch.stack([layer.shares[name] for layer in layers])
    return found


@torch.no_grad()
def read_alone(size: int, folder: Path) -> None:
    loaded = load("smollm2")
    ids = ids_of(loaded, size)
    with regard.watch(loaded.model, SEE) as run:
        out = loaded.model(ids)
    np.save(folder / "logits.npy", out.logits[0].numpy())
    torch.save(statistics(run), folder / "seen.pt")


@torch.no_grad()
def read_shared(mesh: Any, size: int, folder: Path) -> dict[str, float]:
    """How far what this rank has is from what one process found, by name: the furthest number, as
    a share of the largest there is; of keys, how many are others."""
    loaded = load("smollm2")
    ids = ids_of(loaded, size)
    with (
        regard.parallel.sequence(loaded.model, mesh) as shared,
        regard.watch(loaded.model, SEE) as run,
    ):
        part = shared(ids)
    whole = np.load(folder / "logits.npy", mmap_mode="r")
    wanted = torch.from_numpy(whole[part.positions.numpy()])
    furthest = {"logits": _apart(part.output[0], wanted)}
    same = (part.output[0].argmax(1) == wanted.argmax(1)).double().mean()
    furthest["likeliest tokens"] = 1 - float(same)
    expected: dict[str, Tensor] = torch.load(folder / "seen.pt", mmap=True)
    found = statistics(run)
    assert found.keys() == expected.keys()
    for name, x in expected.items():
        is_key = name.endswith("keys")
        other = float((found[name] != x).double().mean()) if is_key else _apart(found[name], x)
        furthest[name] = other
    return furthest


def _apart(found: Tensor, expected: Tensor) -> float:
    assert found.shape == expected.shape
    assert torch.equal(found.isfinite(), expected.isfinite())
    found, expected = found.nan_to_num(0.0, 0.0, 0.0), expected.nan_to_num(0.0, 0.0, 0.0)
    return float((found - expected).abs().max() / expected.abs().max())
