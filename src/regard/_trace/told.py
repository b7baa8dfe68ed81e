"""What a model told, collected to steps: their names, labels, and where each came from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard._rules.general import Copied, Given, Linear
from regard._rules.rule import AxisName, Rule
from regard._steps import Axis, Step, dimensions
from regard._trace.kinds import KINDS
from regard.reference import Array


def numbers(tensor: Tensor) -> Array:
    """The numbers of a tensor, in float64."""
    return _own(tensor).astype(np.float64)


def _own(tensor: Tensor) -> NDArray[Any]:
    """The numbers of a tensor, in its own precision if NumPy has it."""
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


class Book:
    """The steps and the parameters of one pass, as they come in.

    `sequences` are the tokens of each sequence; `outcomes` the names of the logits' columns.
    """

    def __init__(
        self,
        model: nn.Module,
        sequences: Mapping[str, tuple[str, ...]],
        outcomes: Sequence[str],
    ) -> None:
        self.sequences, self.outcomes = sequences, outcomes
        self.steps: dict[str, Step] = {}
        self.matrices: dict[str, Array] = {}
        self.modules = dict(model.named_modules())
        self._names = {id(parameter): name for name, parameter in model.named_parameters()}
        self._visits: dict[str, int] = {}

    # ── names ────────────────────────────────────────────────────────────────────────────────

    def enter(self, path: str, name: str) -> str:
        """What the names of a module's steps begin with; a module that runs again is numbered."""
        if self.begin(path) + name in self.steps:
            self._visits[path] = self._visits.get(path, 1) + 1
        return self.begin(path)

    def begin(self, path: str) -> str:
        """What the names of a module's steps begin with in its last run."""
        again = f"#{self._visits[path]}" if path in self._visits else ""
        return f"{path}{again}." if path or again else ""

    def tokens(self, path: str) -> tuple[str, ...]:
        """The tokens whose vectors the module of this name works on."""
        if "source" in self.sequences:
            first = path.partition(".")[0]
            return self.sequences["source" if first in ("embedding", "encoder") else "target"]
        return self.sequences["input"]

    @property
    def others(self) -> tuple[str, ...]:
        """The tokens of the sequence that cross-attention looks at."""
        return self.sequences["source" if "source" in self.sequences else "context"]

    def called(self, parameter: Tensor) -> str:
        """The name of a parameter in the model."""
        return self._names[id(parameter)]

    def parameter(self, parameter: Tensor | None) -> str | None:
        """The name of a parameter in the model; its numbers are kept."""
        if parameter is None:
            return None
        name = self.called(parameter)
        if name not in self.matrices:
            self.matrices[name] = _own(parameter).copy()
        return name

    def product(self, left: str, linear: nn.Module) -> Linear:
        """The rule of a step that a linear map made of the step `left`."""
        weight = self.parameter(linear.get_parameter("weight"))
        assert weight is not None
        bias = getattr(linear, "bias", None)
        return Linear(left, weight, self.parameter(bias))

    # ── steps ────────────────────────────────────────────────────────────────────────────────

    def source(self, array: Array, words: str = "") -> Rule:
        """Where numbers that come into a module are from: the last step that has the same."""
        for name, step in reversed(self.steps.items()):
            if step.array.shape == array.shape and np.array_equal(step.array, array):
                return step.rule if isinstance(step.rule, Copied) else Copied(name)
        return Given(words)

    def root(self, name: str) -> str:
        """The step of which this one is a copy, or itself."""
        rule = self.steps[name].rule
        return rule.of if isinstance(rule, Copied) and rule.row < 0 else name

    def add(
        self,
        name: str,
        array: Array,
        kind: str,
        rule: Rule,
        rows: Axis,
        columns: Axis | None = None,
        *,
        formula: str = "",
        heads: tuple[str, ...] = (),
    ) -> None:
        """One step more. Its columns are dimensions unless they are given."""
        if not np.isfinite(array).all() and kind != "scaled":  # −∞ where it is masked
            raise ValueError(
                f"trace(): every number of the model must be finite; step {name} has a NaN or an "
                "∞. Look at the steps before it, or at the weights."
            )
        if columns is None:
            columns = dimensions(KINDS[kind].dimension, array.shape[-1])
        axes = (rows, columns)
        if array.ndim == 3:
            labels = heads or tuple(f"head {h + 1}" for h in range(len(array)))
            axes = (Axis("head", labels), *axes)
        usual = formula or _formula(kind, rule)
        self.steps[name] = KINDS[kind].step(name, axes, array, rule=rule, formula=usual)


def tokens_axis(labels: Sequence[str], name: AxisName = "token") -> Axis:
    """Rows that are tokens."""
    return Axis(name, tuple(labels))


def _formula(kind: str, rule: Rule) -> str:
    usual = KINDS[kind]
    if isinstance(rule, Copied):
        return f"{usual.symbol} = {rule.of}"
    if isinstance(rule, Given):
        return f"{usual.symbol}, given"
    if isinstance(rule, Linear) and rule.bias is not None:
        return f"{usual.formula} + b"
    return usual.formula
