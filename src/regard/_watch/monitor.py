"""Watching while training: the entropy of every head, every n steps, and heads that collapse."""

from __future__ import annotations

import json
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TextIO, cast

from regard._arguments import shown, whole
from regard.run import Layer

_COLLAPSED = 0.02  # of the entropy that equal weights would have


class Monitor:
    """Counts the steps of a model, and reports what its heads do at every n-th."""

    def __init__(
        self, every: int, report: Callable[[dict[str, Any]], object] | str | Path | None
    ) -> None:
        every = whole("watch()", "every", every, 1, remedy="It is how often a step is watched.")
        if (
            report is not None
            and not callable(report)
            and not isinstance(cast("object", report), str | Path)
        ):
            raise TypeError(
                f"watch(): report must be a function or the path of a file; got {shown(report)}. "
                "A function gets one dictionary a layer."
            )
        self.lines = 0
        self._every = every
        self._report = report if callable(report) else None
        self._path = None if report is None or callable(report) else Path(report)
        self._file: TextIO | None = None
        self._collapsed: set[tuple[str, int]] = set()
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
            if self._report is not None:
                self._report(line)
            if self._path is not None:
                if self._file is None:
                    self._file = self._path.open("a", encoding="utf-8")
                self._file.write(json.dumps(line) + "\n")
                self._file.flush()
            for head in heads:
                self._check(step, name, head.head, head.entropy, head.spread)

    def _check(
        self, step: int, layer: str, head: int, entropy: float | None, spread: float | None
    ) -> None:
        if entropy is None or spread is None or spread >= _COLLAPSED:
            return
        if (layer, head) in self._collapsed:
            return
        self._collapsed.add((layer, head))
        warnings.warn(
            f"watch(): head {head} of {layer} has collapsed at step {step}: the mean entropy of "
            f"its weights is {entropy:.2g} nats, {spread:.1%} of what equal weights would have. "
            "It looks at one key only; a lower learning rate or a warm-up may help.",
            stacklevel=2,
        )

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None
