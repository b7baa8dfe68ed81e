"""Watching while training: the entropy of every head, every n steps, and heads that collapse."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, cast

from regard._arguments import shown, whole
from regard.run import Layer

COLLAPSED = 0.02  # of the entropy that equal weights would have


class Monitor:
    """Counts the steps of a model, and reports what its heads do at every n-th."""

    def __init__(
        self, every: int | None, report: Callable[[dict[str, Any]], object] | str | Path | None
    ) -> None:
        remedy = "It is how often a step is watched."
        self._every = 1 if every is None else whole("watch()", "every", every, 1, remedy=remedy)
        if isinstance(report, str | Path):
            report = Path(report).absolute()
        elif report is not None and not callable(cast("object", report)):
            raise TypeError(
                f"watch(): report must be a function or the path of a file; got {shown(report)}. "
                "A function gets one dictionary a layer."
            )
        self._report = report
        self._collapsed: set[tuple[str, int]] = set()
        self.lines = 0
        self.step = 0
        self.is_on = False

    def begin(self) -> None:
        """One more step of the model begins."""
        self.is_on = self.step % self._every == 0
        self.step += 1

    def end(self, layers: Mapping[str, Layer]) -> None:
        """A step that was watched has ended."""
        step = self.step - 1
        for name, layer in layers.items():
            heads = layer.heads
            line = {"step": step, "layer": name, "entropy": [head.entropy for head in heads]}
            self.lines += 1
            if callable(self._report):
                self._report(line)
            elif self._report is not None:
                with self._report.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(line) + "\n")
            for head in heads:
                spread, place = head.spread, (name, head.head)
                if head.entropy is None or spread is None or spread >= COLLAPSED:
                    continue
                if place not in self._collapsed:
                    self._collapsed.add(place)
                    said = collapse(name, head.head, step, head.entropy, spread)
                    warnings.warn(f"watch(): {said}", stacklevel=2)


def collapse(layer: str, head: int, step: int, entropy: float, spread: float) -> str:
    """What is said of a head whose weights have become narrow."""
    return (
        f"head {head} of {layer} has collapsed at step {step}: the mean entropy of its weights is "
        f"{entropy:.2g} nats, {spread:.1%} of what equal weights would have. It looks at one key "
        "only; a lower learning rate or a warm-up may help."
    )
