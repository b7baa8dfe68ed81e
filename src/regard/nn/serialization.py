"""Descriptions: frozen dataclasses that are checked when they are made, and save to JSON."""

from __future__ import annotations

import json
import math
import reprlib
from dataclasses import MISSING, dataclass, fields, is_dataclass
from functools import cache
from typing import Annotated, Any, ClassVar, Literal, Self, get_args, get_origin, get_type_hints

from regard._arguments import flag, number, shown, whole


class Described:
    """The base of all descriptions. A subclass is a frozen dataclass, and known by its name.

    >>> from regard.nn import Rotary
    >>> Rotary(base=500_000.0).to_json()
    '{"type": "Rotary", "base": 500000.0, "pairing": "halves", "width": null}'
    >>> Described.from_json('{"type": "Rotary", "base": 500000.0}') == Rotary(base=500_000.0)
    True
    """

    _known: ClassVar[dict[str, type[Described]]] = {}

    def __init_subclass__(cls) -> None:
        known = Described._known.setdefault(cls.__name__, cls)
        if (known.__module__, known.__qualname__) != (cls.__module__, cls.__qualname__):
            raise TypeError(
                f"{cls.__name__}: a description must have a name of its own; {known.__module__} "
                "has one of that name. Descriptions are read by their names."
            )
        Described._known[cls.__name__] = cls

    def to_dict(self) -> dict[str, Any]:
        """Names and values that JSON has words for; `from_dict` gives the description back."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}  # pyright: ignore[reportArgumentType]
        return {"type": type(self).__name__} | {
            name: value.to_dict() if isinstance(value, Described) else value
            for name, value in values.items()
        }

    def to_json(self, indent: int | None = None) -> str:
        """The description as JSON."""
        return json.dumps(self.to_dict(), indent=indent, ensure_ascii=False, allow_nan=False)

    @classmethod
    def from_dict(cls, content: object) -> Self:
        """The description that `to_dict` wrote. Raises ValueError or TypeError on anything else."""
        if not isinstance(content, dict) or not isinstance(content.get("type"), str):
            raise ValueError(
                f"{cls.__name__}.from_dict(): a description must be an object with a type; got "
                f"{_short(content)}. to_dict() writes one."
            )
        kind = Described._known.get(content["type"])
        if kind is None or content["type"] not in _kinds(cls):
            raise ValueError(
                f"{cls.__name__}.from_dict(): type must be one of {', '.join(_kinds(cls))}; got "
                f"{_short(content['type'])}."
            )
        own = {field.name: field for field in fields(kind)}  # pyright: ignore[reportArgumentType]
        unknown = [name for name in content if name not in own and name != "type"]
        missing = [
            name
            for name, field in own.items()
            if name not in content and field.default is MISSING and field.default_factory is MISSING
        ]
        if unknown or missing:
            said = [f"no {_short(name)}" for name in unknown]
            said += [f"a value for {name}" for name in missing]
            raise ValueError(
                f"{kind.__name__}.from_dict(): it must have {' and '.join(said)}. "
                f"Its fields are {', '.join(own)}."
            )
        values = {name: value for name, value in content.items() if name != "type"}
        for name, value in values.items():
            if isinstance(value, dict):
                if any(isinstance(inner, dict) for inner in value.values()):
                    raise ValueError(
                        f"{kind.__name__}.from_dict(): {name} must be a description with nothing "
                        f"described inside it; got {_short(value)}."
                    )
                values[name] = Described.from_dict(value)
        return kind(**values)  # pyright: ignore[reportReturnType]

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The description that `to_json` wrote. Raises ValueError or TypeError on anything else."""
        try:
            content = json.loads(text)
        except (json.JSONDecodeError, RecursionError) as error:
            raise ValueError(f"{cls.__name__}.from_json(): not JSON: {error}.") from None
        return cls.from_dict(content)

    # ── what a field may be ─────────────────────────────────────────────────────────────────

    def __post_init__(self) -> None:
        """Check every field by its type; numbers of NumPy and of PyTorch become Python's.

        A whole number is at least 1, or at least 0 where that is the default. A float is within
        its `Bounds`.
        """
        types = _types(type(self))
        for field in fields(self):  # pyright: ignore[reportArgumentType]
            self._check(field.name, types[field.name], 0 if field.default == 0 else 1)

    def _check(self, name: str, kind: Any, least: int) -> None:
        call, value = self._call, getattr(self, name)
        if type(None) in get_args(kind):
            if value is None:
                return
            kind = get_args(kind)[0]
        if get_origin(kind) is Literal:
            if value not in get_args(kind):
                raise self._refuse(name, f"one of {', '.join(get_args(kind))}")
        elif get_origin(kind) is Annotated:
            bounds = get_args(kind)[1]
            found = number(call, name, value, bounds.least, remedy=f"It is {bounds}.")
            if found >= bounds.below:
                raise self._refuse(name, str(bounds))
            object.__setattr__(self, name, found)
        elif kind is int:
            remedy = f"It is a whole number of at least {least}."
            object.__setattr__(self, name, whole(call, name, value, least, remedy=remedy))
        elif kind is bool:
            flag(call, name, value)
        elif isinstance(kind, type) and not isinstance(value, kind):
            raise self._refuse(name, f"a {kind.__name__} ({', '.join(_kinds(kind))})")

    @property
    def _call(self) -> str:
        return f"{type(self).__name__}()"

    def _refuse(self, name: str, expected: str, remedy: str = "") -> ValueError:
        end = f" {remedy}" if remedy else ""
        found = shown(getattr(self, name))
        return ValueError(f"{self._call}: {name} must be {expected}; got {found}.{end}")


@dataclass(frozen=True)
class Bounds:
    """What a number may be: from `least` on, and below the other."""

    least: float
    below: float = math.inf

    def __str__(self) -> str:
        end = "" if self.below == math.inf else f" and below {self.below:g}"
        return f"a number of at least {self.least:g}{end}"


@cache
def _types(kind: type) -> dict[str, Any]:
    return get_type_hints(kind, include_extras=True)


def _kinds(base: type) -> list[str]:
    """The names of the descriptions of this base that can be made, and are no base themselves."""
    return sorted(
        name
        for name, kind in Described._known.items()
        if issubclass(kind, base) and is_dataclass(kind) and not name.startswith("_")
    )


def _short(value: object) -> str:
    text = reprlib.repr(value)  # which goes no deeper than six levels
    return text if len(text) <= 60 else text[:59] + "…"
