"""A small run for the tests of training: what its recipe is, and how to train it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from regard.train import Outcome, Recipe, train
from regard.train.recipe import recipe_of

TEXT = "the cat sat on the mat; the dog sat on the log. " * 23


def small(task: str = "copy", **changes: Any) -> Recipe:
    """A recipe of few steps: `changes` such as training={"steps": 3} go over it."""
    content: dict[str, Any] = {
        "task": task,
        "seed": 3,
        "model": {"width": 8, "heads": 2, "layers": 1, "hidden": 16, "dropout": 0.1},
        "data": {"symbols": 5, "shortest": 1, "longest": 5, "validation": 7},
        "optimizer": {"learning_rate": 1e-2},
        "schedule": {"warmup": 3},
        "training": {"steps": 13, "batch": 6, "evaluate": 5, "save": 3, "keep": 2},
        "watch": {"every": 4, "pictures": 3},
    }
    if task == "language-model":
        content["data"] = {"text": "text.txt", "length": 11}
    for section, values in changes.items():
        content[section] = {**content[section], **values} if isinstance(values, dict) else values
    return recipe_of(content)


def trained(folder: Path, recipe: Recipe | None = None, **options: Any) -> Outcome:
    return train(recipe or small(), folder, resume=True, **options)


def left(folder: Path) -> dict[str, Any]:
    """What a run has left: the bytes of its last checkpoint and of its pictures, and its log."""
    newest = sorted((folder / "checkpoints").glob("step-*"))[-1]
    found: dict[str, Any] = {
        path.name: path.read_bytes() for path in newest.iterdir() if path.name != "manifest.json"
    }
    found |= {path.name: path.read_bytes() for path in (folder / "pictures").glob("step-*")}
    found["step"] = newest.name
    found["log"] = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return found
