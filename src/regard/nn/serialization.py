"""Descriptions: frozen dataclasses that are checked when they are made, and save to JSON."""

from __future__ import annotations

import json
import reprlib
import sys
from dataclasses import MISSING, fields, is_dataclass
from typing import Any, ClassVar, Self


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
        if kind is None or not _may_be(kind, cls):
            names = [name for name, known in Described._known.items() if _may_be(known, cls)]
            raise ValueError(
                f"{cls.__name__}.from_dict(): type must be one of {', '.join(sorted(names))}; got "
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

    # ── what a field may be, said alike everywhere ──────────────────────────────────────────

    def _refuse(self, name: str, expected: str, remedy: str = "") -> ValueError:
        found = _short(getattr(self, name))
        end = f" {remedy}" if remedy else ""
        return ValueError(f"{type(self).__name__}(): {name} must be {expected}; got {found}.{end}")

    def _check_count(self, *names: str, least: int = 1) -> None:
        for name in names:
            value = getattr(self, name)
            if type(value) is not int or value < least:
                raise self._refuse(name, f"a whole number of at least {least}")

    def _check_maybe_count(self, *names: str) -> None:
        for name in names:
            value = getattr(self, name)
            if value is not None and (type(value) is not int or value < 1):
                raise self._refuse(name, "None, or a whole number of at least 1")

    def _check_number(self, name: str, low: float, high: float) -> None:
        """Low is allowed, high is not."""
        value = getattr(self, name)
        if (
            isinstance(value, bool)
            or not isinstance(value, int | float)
            or not low <= value < high
            or value > sys.float_info.max  # a whole number can be
        ):
            end = "" if high == float("inf") else f" and below {high:g}"
            raise self._refuse(name, f"a number of at least {low:g}{end}")

    def _check_choice(self, name: str, choices: tuple[str, ...]) -> None:
        if getattr(self, name) not in choices:
            raise self._refuse(name, f"one of {', '.join(choices)}")

    def _check_flag(self, *names: str) -> None:
        for name in names:
            if type(getattr(self, name)) is not bool:
                raise self._refuse(name, "True or False")

    def _check_is(self, name: str, kind: type, example: str) -> None:
        if not isinstance(getattr(self, name), kind):
            raise self._refuse(name, f"a {kind.__name__}, such as {example}")


def _may_be(kind: type, base: type) -> bool:
    """Is it a kind of this base that can be made, and no base itself?"""
    return issubclass(kind, base) and is_dataclass(kind) and not kind.__name__.startswith("_")


def _short(value: object) -> str:
    text = reprlib.repr(value)  # which goes no deeper than six levels
    return text if len(text) <= 60 else text[:59] + "…"
