"""A rule says how a step of a model was made; this is what all rules have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, NamedTuple

from regard._arithmetic import Explanation
from regard._steps import Step
from regard.reference import Array

if TYPE_CHECKING:
    from regard._trace.model import ModelTrace


class Cell(NamedTuple):
    """A number of a step, and where it stands: head, row, column."""

    value: float
    h: int
    i: int
    j: int


@dataclass(frozen=True)
class Rule(ABC):
    """The base. Fields that are texts name steps of the trace, or matrices; they save to JSON."""

    @abstractmethod
    def explain(self, trace: ModelTrace, step: Step, cell: Cell) -> Explanation:
        """The calculation behind one cell of the step."""

    def to_dict(self) -> dict[str, Any]:
        """Names and values that JSON has words for."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def from_dict(cls, content: Any) -> Rule:
        """The rule that `to_dict` wrote. Raises ValueError, TypeError or LookupError."""
        values = dict(content)
        for field in fields(cls):
            if str(field.type) == "tuple[str, ...]":
                values[field.name] = tuple(map(_text, values[field.name]))
            elif type(values[field.name]) not in _TYPES[str(field.type)]:
                raise ValueError(f"{field.name} of {cls.__name__} is {values[field.name]!r}")
        return cls(**values)


_TYPES: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "str | None": (str, type(None)),
    "float": (int, float),
    "int": (int,),
    "bool": (bool,),
}


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(f"expected a name; got {value!r}")
    return value


def row_of(step: Step, h: int, i: int) -> Array:
    """Row i of a step, in head h if it has heads."""
    return step.array[h, i] if step.has_heads else step.array[i]
