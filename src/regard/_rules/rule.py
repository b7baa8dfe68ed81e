"""A step, and the rule that says how it was made, by the names of what it was made from."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Literal, NamedTuple, Protocol, dataclass_transform

from regard._arithmetic import Explanation, figure
from regard.reference import Array

AxisName = Literal["head", "token", "key token", "dimension"]
# What a field of a rule names: a step (where there is none of that name, a matrix), a matrix, or a
# table that is too large to be kept.
StepName = str
MatrixName = str
TableName = str

_KNOWN: dict[str, type[Rule]] = {}


@dataclass(frozen=True)
class Axis:
    """One axis of a step's array: what it runs over, and the name of each place on it."""

    name: AxisName
    labels: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Step:
    """One named step: its array, with a label for each place on each of its axes, and its rule.

    `kind` says whose title and meaning it has, where steps of one name have several: pages find
    both in the language of the reader by it, or else by the last part of the name.
    """

    name: str
    title: str
    symbol: str
    formula: str
    meaning: str
    axes: tuple[Axis, ...]
    array: Array
    rule: Rule
    kind: str = ""

    @property
    def has_heads(self) -> bool:
        return self.axes[0].name == "head"


class Cell(NamedTuple):
    """A number of a step, and where it stands: head, row, column."""

    value: float
    h: int
    i: int
    j: int

    def told(self, line: str, terms: Iterable[Any] = ()) -> Explanation:
        """The number, and behind it how it came about."""
        return Explanation(f"{figure(self.value)} {line}", self.value, terms)


class Traced(Protocol):
    """The steps and the matrices that rules name."""

    @property
    def steps(self) -> Mapping[str, Step]: ...
    @property
    def matrices(self) -> Mapping[str, Array]: ...


@dataclass_transform(frozen_default=True, eq_default=False)
@dataclass(frozen=True, eq=False, repr=False)
class Rule(ABC):
    """The base. Rules are plain data: names and numbers, which JSON has words for.

    Each is a frozen dataclass. They compare and print alike here, once: to write these methods anew
    for every rule, as `dataclass` would, takes half of the time in which they are imported.
    """

    def __init_subclass__(cls) -> None:
        _KNOWN[cls.__name__] = dataclass(frozen=True, eq=False, repr=False)(cls)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), *vars(self).values()))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({values})"

    @abstractmethod
    def explain(self, trace: Traced, step: Step, cell: Cell) -> Explanation:
        """The calculation behind one cell of the step."""

    def to_dict(self) -> dict[str, Any]:
        """Its name, and its fields by theirs."""
        content = {field.name: getattr(self, field.name) for field in fields(self)}
        return {"rule": type(self).__name__, **content}

    @staticmethod
    def from_dict(content: Any) -> Rule:
        """The rule that `to_dict` wrote. Raises ValueError, TypeError or LookupError."""
        values: dict[str, Any] = dict(content)
        kind = _KNOWN[values.pop("rule")]
        for field in fields(kind):
            value, wanted = values[field.name], str(field.type)
            if value is None:
                fits = wanted.endswith("| None")
            elif wanted == "float":
                fits = type(value) in (int, float)
                values[field.name] = float(value) if fits else value
            elif wanted.startswith("tuple"):
                fits = isinstance(value, list) and all(isinstance(name, str) for name in value)
                values[field.name] = tuple(value) if fits else value
            else:
                fits = type(value) is _TYPES.get(wanted, str)
            if not fits:
                raise ValueError(f"{field.name} of {kind.__name__} is {value!r}")
        return kind(**values)


_TYPES = {"int": int, "bool": bool}  # all others are texts


def numbers_of(trace: Traced, name: str) -> Array:
    """The numbers of a step, or of a matrix where no step has that name."""
    return trace.steps[name].array if name in trace.steps else trace.matrices[name]


def in_head(array: Array, h: int, heads: int | None = None) -> Array:
    """The matrix of head h, or of the key head that serves it, of so many query heads.

    An array without heads is the same for all.
    """
    if array.ndim != 3:
        return array
    return array[h if heads is None else h * len(array) // heads]
