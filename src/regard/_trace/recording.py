"""What a model recorded, as steps: their names, labels, and the rule of each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from regard._rules.attention import Joined
from regard._rules.general import Copied, Given, Incoming, Linear, Summed
from regard._rules.rule import Axis, Rule, Step
from regard._steps import StepKind, dimensions
from regard._trace.build import joined_columns
from regard.nn._hooks import HookPoints, Recorded
from regard.reference import Array


def numbers(tensor: Tensor) -> Array:
    """The numbers of a tensor, in float64."""
    return own_numbers(tensor).astype(np.float64)


def own_numbers(tensor: Tensor) -> NDArray[Any]:
    """The numbers of a tensor, in its own precision if NumPy has it."""
    tensor = tensor.detach().cpu()
    return (tensor.float() if tensor.dtype == torch.bfloat16 else tensor).numpy()


class Recording:
    """The steps and the parameters of one pass, as they come in.

    `sequences` are the tokens of each sequence; `outcomes` the names of the logits' columns.
    `tensors` is what the last run of each module recorded. Without `copies` the parameters are
    those of the model, however it is trained on.
    """

    def __init__(
        self,
        model: nn.Module,
        sequences: Mapping[str, tuple[str, ...]],
        outcomes: Sequence[str],
        *,
        copies: bool = True,
    ) -> None:
        self.sequences, self.outcomes, self._copies = sequences, outcomes, copies
        self.steps: dict[str, Step] = {}
        self.matrices: dict[str, Array] = {}
        self.modules: dict[str, Any] = dict(model.named_modules())
        self.tensors: dict[str, Tensor] = {}
        self._names = {id(parameter): name for name, parameter in model.named_parameters()}
        self._visits: dict[str, int] = {}

    def take(self, recorded: Recorded) -> str:
        """Add one step; what a part without hook points records is of the module around it.

        Returns what the names of the module's steps begin with: a module that runs again has a
        number.
        """
        path, name = recorded.path, recorded.name
        while not hasattr(self.modules[path], "hook_points"):
            path = path.rpartition(".")[0]
        if self.begin(path) + name in self.steps:
            self._visits[path] = self._visits.get(path, 1) + 1
        begin = self.begin(path)
        self.tensors[begin + name] = recorded.tensor
        points: HookPoints = self.modules[path].hook_points()
        if name in points:
            tensor = recorded.tensor
            whole = tensor.ndim == 2 and tensor.is_floating_point()  # of a sequence, not a token
            array = numbers(tensor if whole else tensor[0])
            if array.ndim == 1:
                array = array[:, None]
            self.add(path, name, points[name], array, ("the whole",) if whole else None)
        return begin

    # ── names ────────────────────────────────────────────────────────────────────────────────

    def begin(self, path: str) -> str:
        """What the names of a module's steps begin with in its last run."""
        again = f"#{self._visits[path]}" if path in self._visits else ""
        return f"{path}{again}." if path or again else ""

    def parameter(self, parameter: Tensor) -> str:
        """The name of a parameter in the model; its numbers are kept."""
        name = self._names[id(parameter)]
        if name not in self.matrices:
            numbers = own_numbers(parameter)
            self.matrices[name] = numbers.copy() if self._copies else numbers
        return name

    def root(self, name: str) -> str:
        """The step of which this one is a copy, or itself."""
        rule = self.steps[name].rule
        return rule.of if isinstance(rule, Copied) and rule.row < 0 else name

    def resolve(self, rule: Rule, path: str) -> Rule:
        """The rule of a hook point, with the names that things have in the trace."""
        begin, values = self.begin(path), dict[str, Any]()
        for field in fields(rule):
            value, kind = getattr(rule, field.name), str(field.type)
            if value is None:
                continue
            if kind.startswith("StepName"):
                values[field.name] = self._step(value, begin)
            elif kind.startswith("tuple[StepName"):
                found = (self._step(name, begin) for name in value)
                values[field.name] = tuple(name for name in found if name)
            elif kind.startswith(("MatrixName", "TableName")):
                values[field.name] = self._matrix(value, path, keep=kind.startswith("MatrixName"))
        return replace(rule, **values)

    def _step(self, name: str, begin: str) -> str:
        if name == "^":
            return next(reversed(self.steps))
        found = [each for each in name.split("|") if begin + each in self.steps or not each]
        return begin + found[0] if found and found[0] else ""

    def _matrix(self, name: str, path: str, keep: bool) -> str | None:
        recorded = self.begin(path) + name
        if recorded in self.tensors:  # (1, …, N, width), or without its first axes
            tensor = self.tensors[recorded]
            self.matrices[recorded] = numbers(tensor.reshape(-1, tensor.shape[-1]))
            return recorded
        owner, _, last = name.rpartition(".")
        parameter = getattr(self.modules[f"{path}.{owner}".strip(".")], last, None)
        if parameter is None:
            return None
        return self.parameter(parameter) if keep else self._names[id(parameter)]

    # ── steps ────────────────────────────────────────────────────────────────────────────────

    def add(
        self,
        path: str,
        name: str,
        kind: StepKind,
        array: Array,
        rows: tuple[str, ...] | None = None,
    ) -> None:
        """One step more; its rule may be resolved already."""
        begin, rule = self.begin(path), kind.rule
        if not np.isfinite(array).all() and name != "scaled":  # −∞ where it is masked
            raise ValueError(
                f"trace(): every number of the model must be finite; step {begin}{name} has a NaN "
                "or an ∞. Look at the steps before it, or at the weights."
            )
        if isinstance(rule, Incoming):
            rule = self._source(array, rule)
        elif isinstance(rule, Summed) and rule.of[0] == "?":
            rule = self._residual(path, name, array)
        else:
            rule = self.resolve(rule, path)
            if isinstance(rule, Summed) and len(rule.of) == 1:
                rule = Copied(rule.of[0])
        tokens = Axis("token", self._tokens(path) if rows is None else rows)
        others = tokens.labels
        if name == "context" or begin + "context" in self.steps:
            others = self.sequences["source" if "source" in self.sequences else "context"]
        keys = Axis("key token", others)
        columns = keys
        if isinstance(rule, Joined):
            columns = joined_columns(self.steps[rule.of])
        elif kind.columns == "dimension":
            columns = dimensions(kind.symbol, array.shape[-1])
        elif kind.columns != "key token":
            labels = ("id",) if kind.columns == "id" else tuple(self.outcomes)
            columns = Axis("dimension", labels)
        axes = (keys if kind.of_keys else tokens, columns)
        if array.ndim == 3:
            size = self.modules[path].heads // len(array)  # query heads that a key head serves
            names = (
                f"head {h + 1}" if size == 1 else f"heads {h * size + 1}–{(h + 1) * size}"
                for h in range(len(array))
            )
            axes = (Axis("head", tuple(names)), *axes)
        kind = replace(kind, formula=self._formula(kind, rule, begin), rule=rule)
        self.steps[begin + name] = kind.step(begin + name, axes, array)

    def _tokens(self, path: str) -> tuple[str, ...]:
        """The tokens whose vectors the module of this name works on."""
        if "source" in self.sequences:
            first = path.partition(".")[0]
            return self.sequences["source" if first in ("embedding", "encoder") else "target"]
        return self.sequences["input"]

    def _source(self, array: Array, rule: Incoming) -> Rule:
        """Where numbers that come into a module are from: the last step that has the same."""
        for name, step in reversed(self.steps.items()):
            if step.array.shape == array.shape and np.array_equal(step.array, array):
                return step.rule if isinstance(step.rule, Copied) else Copied(name)
        return Given(rule.words)

    def _residual(self, path: str, name: str, array: Array) -> Rule:
        """What goes round a sublayer is what came into it, or into a norm before it."""
        part, begin = name.removesuffix(".residual"), self.begin(path)
        inside = f"{path}." if path else ""
        sublayer = self.begin(inside + part)
        added = self.steps[sublayer + "output"]
        norms = [self.begin(f"{inside}norms.{n}") for n in range(len(self.modules[path].norms))]
        away = {
            each + "input": np.abs(self.steps[each + "input"].array + added.array - array)
            for each in (sublayer, *norms)
            if each + "input" in self.steps
        }
        round_it = min(away, key=lambda each: float(away[each].max()))
        # One rounding takes a sum half of this far at most.
        dtype = self.tensors[begin + name].dtype
        if (away[round_it] > torch.finfo(dtype).eps * np.abs(array)).any():
            difference = f"{away[round_it].max():.1e}".replace("-", "−")
            raise ValueError(
                f"trace(): {inside}{name} must be what came into {part}, or into a norm before "
                f"it, plus what {part} made; it differs by {difference}, more than rounding "
                "explains. Only a Residual that adds these two can be traced."
            )
        source = self.root(round_it)
        if source == self.root(begin + "input"):  # the layer's own name for it
            source = begin + "input"
        return Summed((source, added.name))

    def _formula(self, kind: StepKind, rule: Rule, begin: str) -> str:
        """The formula of a hook point, with what this step was made from in its places."""
        if isinstance(rule, Given):
            return f"{kind.symbol}, given"
        if isinstance(kind.rule, Incoming) and isinstance(rule, Copied):
            return f"{kind.symbol} = {rule.of}"
        named = [
            name
            for field in fields(rule)
            if "StepName" in str(field.type) and (value := getattr(rule, field.name))
            for name in ((value,) if isinstance(value, str) else value)
        ]
        symbols = [self.steps[name].symbol for name in named]
        formula = kind.formula.format(
            *symbols,
            sum=" + ".join(symbols),
            name=named[0].removeprefix(begin) if named else "",
        )
        return f"{formula} + b" if isinstance(rule, Linear) and rule.bias is not None else formula
