"""The steps of a model without their numbers: what a short pass tells of a long one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from regard._rules.rule import Axis, Step
from regard._trace.model import Prepared, take_all
from regard._trace.recording import Recording
from regard.nn._evaluation import evaluating
from regard.nn._hooks import recording

_SHORT = 7  # tokens: enough to tell which numbers are whose, and a mask from none
_NONE = np.zeros(0)


@dataclass(frozen=True, eq=False)
class Sketch:
    """Steps of a pass of few tokens, from which those of any pass of the model are had."""

    steps: Mapping[str, Step]
    sequences: Mapping[str, tuple[str, ...]]

    @property
    def is_usual(self) -> bool:
        """Had it tokens enough to be that of any other pass? One token has no later one to mask."""
        return all(len(tokens) == _SHORT for tokens in self.sequences.values())

    def of(self, sequences: Mapping[str, tuple[str, ...]]) -> dict[str, Step]:
        """The steps of a pass of these sequences, without numbers."""
        longer = {id(short): sequences[name] for name, short in self.sequences.items()}

        def axis(each: Axis) -> Axis:
            return replace(each, labels=longer.get(id(each.labels), each.labels))

        return {
            name: replace(step, axes=tuple(map(axis, step.axes)), array=_NONE)
            for name, step in self.steps.items()
        }


def sketched(asked: Prepared) -> Sketch:
    """The sketch of a model, by a pass of the first few tokens that it is given."""

    def short(tensor: Tensor) -> Tensor:
        return tensor[:, :_SHORT]

    # Tuples of their own: a sequence is told from another by which tuple it is.
    sequences = {
        name: tuple(x for x in tokens[:_SHORT]) for name, tokens in asked.sequences.items()
    }
    options: dict[str, Any] = {
        name: short(value) if isinstance(value, Tensor) else value
        for name, value in asked.options.items()
    }
    found = Recording(asked.model, sequences, asked.outcomes, copies=False)
    with evaluating(asked.model), torch.no_grad(), recording(asked.model) as recorded:
        asked.model(*map(short, asked.arguments), **options)
    take_all(found, recorded)
    return Sketch(found.steps, sequences)
