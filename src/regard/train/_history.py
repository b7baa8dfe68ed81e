"""The history of a run: its losses, scores, entropies and pictures, while it trains or after."""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from regard._checkpoint.errors import CheckpointError
from regard._followed import (
    LOG,
    diverged_where,
    in_order,
    lines_after,
    pictures_of,
    read_picture,
    status_of,
)
from regard.text import readable
from regard.train.api import read_kept
from regard.train.prepare import open_task
from regard.train.recipe import Recipe
from regard.train.settings import GeneratedData
from regard.train.watching import LONGEST

MOST_LOSSES, MOST_LOOKS, MOST_PICTURES = 1000, 200, 40  # that are shown
_MOST_CHOSEN = 6  # heads, two of a layer at most
_MOST_DRAWN = 100_000  # made-up sequences that are drawn to find the one that is looked at
Head = tuple[int, int]  # a layer, by its number, and a head


@dataclass(frozen=True)
class Curve:
    """A number over the steps: each point is the mean of `each` of them, the last of fewer."""

    steps: list[float]
    values: list[float | None]
    each: int = 1


@dataclass(frozen=True)
class PicturedLayer:
    """A layer, and the tokens that its queries and keys are in the example; none if not known."""

    name: str
    heads: int
    queries: list[str]
    keys: list[str]


@dataclass(frozen=True)
class Pictured:
    """Where each head looked in one example, after each of some `steps`.

    `weights` of each layer are (steps, heads, queries, keys); `example` are the tokens by the
    model's inputs; `chosen` the heads that changed most; `left_out`, how many pictures are on disk
    beside these.
    """

    steps: list[int]
    layers: list[PicturedLayer]
    weights: dict[str, NDArray[np.float16]]
    example: dict[str, list[str]]
    chosen: list[Head]
    left_out: int


@dataclass(frozen=True)
class History:
    """What is known of a training so far.

    `status`: "trains", "stopped" (it can go on), "ended", or "diverged" (the loss was no number any
    more; then `diverged` says where first). `entropies` has a curve for each head of each layer;
    `unread` counts lines of the log that say nothing.
    """

    name: str
    task: str
    step: int
    steps: int
    status: str
    losses: Curve
    learning_rates: Curve
    validation: dict[str, Curve]
    entropies: dict[str, list[Curve]]
    pictured: Pictured
    unread: int = 0
    diverged: str = ""

    def html(self, path: str | Path, language: str = "en") -> None:
        """Write one HTML file that shows it: the loss, and how attention formed. It needs no
        network.
        """
        from regard._files import write_text
        from regard.view.html.training import training_page

        write_text(path, training_page(self.document(), self.pictured.weights, language))

    def figure(
        self, path: str | Path, *, width: float = 7.0, dpi: float = 300, dark: bool = False
    ) -> None:
        """Write its curves, the loss and the scores, as SVG, PDF or PNG."""
        from regard.view.figure import training_figure

        training_figure(self.document(), path, width, dpi, dark)

    def document(self) -> dict[str, Any]:
        """All of it but the weights of the pictures, as JSON has it."""
        return {
            "name": self.name,
            "task": self.task,
            "step": self.step,
            "steps": self.steps,
            "status": self.status,
            "diverged": self.diverged,
            "losses": vars(self.losses),
            "learning_rates": vars(self.learning_rates),
            "validation": {name: vars(each) for name, each in self.validation.items()},
            "entropies": {
                name: [vars(each) for each in heads] for name, heads in self.entropies.items()
            },
            "unread": self.unread,
            **pictured_document(self.pictured),
        }


def history(folder: str | os.PathLike[str]) -> History:
    """What the folder of a run says of its training, whether it goes on or is over.

    Raises CheckpointError, a ValueError, if the folder is no run.

    >>> import tempfile
    >>> from regard.train import read_recipe, train
    >>> changes = ["model.width=8", "model.layers=1", "training.steps=3", "training.batch=2"]
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     _ = train(read_recipe("copy", changes), folder)
    ...     found = history(folder)
    >>> found.status, found.losses.steps, found.pictured.steps[-1]
    ('ended', [1.0, 2.0, 3.0], 3)
    """
    place = Path(folder)
    recipe = read_kept(place)
    read = lines_after(place / LOG)
    steps = [line for line in read.lines if "loss" in line]
    evaluated = [line for line in read.lines if "validation" in line]
    looked = [line["entropy"] | {"": line["step"]} for line in read.lines if "entropy" in line]
    names = dict.fromkeys(name for line in evaluated for name in line["validation"])
    layers = {name: len(heads) for line in looked for name, heads in line.items() if name}
    at = [float(line["step"]) for line in steps]
    looks = [float(line[""]) for line in looked]
    last = max((line["step"] for line in read.lines), default=0)
    validation = {
        name: Curve(
            [float(line["step"]) for line in evaluated],
            [line["validation"].get(name) for line in evaluated],
        )
        for name in names
    }
    return History(
        name=readable(place.resolve().name),
        task=recipe.task,
        step=last,
        steps=recipe.training.steps,
        status=status_of(place, recipe.content["training"], last),
        losses=thinned(at, [line["loss"] for line in steps], MOST_LOSSES),
        learning_rates=thinned(at, [line["learning_rate"] for line in steps], MOST_LOSSES),
        validation=validation,
        entropies={
            name: [
                thinned(looks, [_of(line.get(name), head) for line in looked], MOST_LOOKS)
                for head in range(layers[name])
            ]
            for name in sorted(layers, key=in_order)
        },
        pictured=pictured(place, recipe),
        unread=read.broken,
        diverged=diverged_where(place / LOG),
    )


def _of(heads: list[float | None] | None, head: int) -> float | None:
    return heads[head] if heads is not None and head < len(heads) else None


def thinned(steps: Sequence[float], values: Sequence[float | None], most: int) -> Curve:
    """At most so many points: the means of portions of equally many, which the last may lack.

    >>> thinned([1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 3.0, None, 4.0, 9.0], 3)
    Curve(steps=[1.5, 3.5, 5.0], values=[2.0, 4.0, 9.0], each=2)
    """
    each = max(1, math.ceil(len(steps) / most))
    if each == 1:
        return Curve([*steps], [*values])
    starts = range(0, len(steps), each)
    means = [_mean(values[start : start + each]) for start in starts]
    return Curve([_mean(steps[start : start + each]) or 0.0 for start in starts], means, each)


def _mean(values: Sequence[float | None]) -> float | None:
    known = [x for x in values if x is not None]
    return sum(known) / len(known) if known else None


# ── pictures ──────────────────────────────────────────────────────────────────────────────────


def pictured(folder: Path, recipe: Recipe) -> Pictured:
    """The pictures of a run: the first, the last, and as many between as are shown."""
    files = pictures_of(folder)
    wanted = evenly(list(files), MOST_PICTURES)
    found: dict[int, dict[str, NDArray[np.float16]]] = {}
    for step in wanted:
        try:
            found[step] = read_picture(files[step])
        except CheckpointError:
            continue  # it is counted as left out
    shapes = {step: {name: x.shape for name, x in each.items()} for step, each in found.items()}
    kept = [step for step in found if shapes[step] == shapes[max(found)]]
    names = list(found[kept[-1]]) if kept else []
    weights = {name: np.stack([found[step][name] for step in kept]) for name in names}
    tokens = _example(folder, recipe) if kept else {}
    layers: list[PicturedLayer] = []
    for name in names:
        _, heads, queries, keys = weights[name].shape
        own, other = (tokens.get(part, []) for part in _parts(name, tokens))
        are_known = len(own) == queries and len(other) == keys
        shown = (own, other) if are_known else (list[str](), list[str]())
        layers.append(PicturedLayer(name, heads, *shown))
    changes = {
        (layer, head): change
        for layer, name in enumerate(names)
        for head, change in enumerate(_changes(weights[name]))
    }
    return Pictured(kept, layers, weights, tokens, chosen(changes), len(files) - len(kept))


def pictured_document(found: Pictured) -> dict[str, Any]:
    """What is said of pictures, without their weights."""
    return {
        "pictures": found.steps,
        "layers": [vars(layer) for layer in found.layers],
        "example": found.example,
        "chosen": [list(head) for head in found.chosen],
        "left_out": found.left_out,
    }


def evenly(steps: list[int], most: int) -> list[int]:
    """So many of them at most, the first and the last among them.

    >>> evenly([0, 1, 2, 3, 4, 5], 3), evenly([0, 7], 3)
    ([0, 2, 5], [0, 7])
    """
    if len(steps) <= most:
        return steps
    return [steps[(len(steps) - 1) * n // (most - 1)] for n in range(most)]


def _changes(weights: NDArray[np.float16]) -> list[float]:
    """Of each head, the share of its weight that is on other keys at last than at first."""
    first, last = weights[0].astype(np.float64), weights[-1].astype(np.float64)
    shares = np.nan_to_num(np.abs(last - first)).sum(-1) / 2  # (H, Nq)
    return shares.mean(-1).tolist() if shares.size else [0.0] * len(weights[0])


def chosen(changes: dict[Head, float]) -> list[Head]:
    """The heads that changed most: the first of each layer before any second one.

    >>> chosen({(0, 0): 0.1, (0, 1): 0.3, (1, 0): 0.2})
    [(0, 0), (0, 1), (1, 0)]
    """
    ranked: list[tuple[int, float, Head]] = []
    ordered = sorted(changes, key=lambda head: -changes[head])
    for head in ordered:
        place = sum(1 for _, _, (layer, _) in ranked if layer == head[0])
        ranked.append((place, -changes[head], head))
    best = sorted(each for each in ranked if each[0] < 2)[:_MOST_CHOSEN]
    return sorted(head for _, _, head in best)


def _parts(name: str, tokens: dict[str, list[str]]) -> tuple[str, str]:
    """Which of the model's inputs the queries of a layer are, and which its keys."""
    if "source" not in tokens:
        return "ids", "ids"
    if name.startswith("encoder"):
        return "source", "source"
    return "target", "source" if name.endswith(".cross") else "target"


def _example(folder: Path, recipe: Recipe) -> dict[str, list[str]]:
    """The tokens that were looked at, by the model's inputs; none if the data is gone."""
    data = recipe.data
    if isinstance(data, GeneratedData) and data.validation > _MOST_DRAWN:
        return {}
    try:
        task = open_task(recipe, folder)
        inputs = task.example()
    except (ValueError, OSError, StopIteration, KeyError):
        return {}
    return {
        name: [_text(task.tokenizer, number) for number in each[0, :LONGEST].tolist()]
        for name, each in inputs.items()
        if each.dim() > 1
    }


def _text(tokenizer: Any, number: int) -> str:
    """A token as a reader sees it; a byte that is no letter by itself as the tokenizer has it."""
    text = tokenizer.decode([number], skip_special_tokens=False)
    if not text or "\ufffd" in text:
        text = tokenizer.id_to_token(number) or str(number)
    return readable(text)
