"""The one form of all experiments: a question, settings, what is measured, how it is judged."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

from regard._arguments import shown
from regard._wanted import still_wanted
from regard.lab.measured import Measured, Verdict
from regard.lab.said import Said

Value = int | float | str | bool
Kind = Literal["whole", "number", "choice", "flag", "text"]


@dataclass(frozen=True)
class Setting:
    """Something that a reader may change: a slider, a switch, a choice or a field.

    `quick` is its value in a quick run, if that is another one. `least` and `most` of a text count
    characters; without `least` it must have one.
    """

    name: str
    default: Value
    quick: Value | None = None
    least: float | None = None
    most: float | None = None
    choices: Sequence[str] = ()

    @property
    def kind(self) -> Kind:
        if isinstance(self.default, bool):
            return "flag"
        if isinstance(self.default, str):
            return "choice" if self.choices else "text"
        return "whole" if isinstance(self.default, int) else "number"

    def read(self, call: str, value: object) -> Value:
        """The value that somebody gave, as a text or as it is.

        >>> Setting("steps", 3, least=1, most=9).read("lab()", "5")
        5
        >>> Setting("steps", 3, least=1, most=9).read("lab()", 12)
        Traceback (most recent call last):
        ValueError: lab(): steps must be a whole number from 1 to 9; got 12.
        """
        found = self._parsed(value)
        if found is None:
            raise ValueError(f"{call}: {self.name} must be {self.allowed}; got {shown(value)}.")
        return found

    @property
    def allowed(self) -> str:
        """What its value may be, in words."""
        if self.kind == "flag":
            return "on or off"
        if self.kind == "choice":
            return f"one of {', '.join(self.choices)}"
        if self.kind == "text":
            return f"a text of {self._shortest} to {self.most:g} characters"
        what = "a whole number" if self.kind == "whole" else "a number"
        return f"{what} from {self.least:g} to {self.most:g}"

    @property
    def _shortest(self) -> int:
        return 1 if self.least is None else int(self.least)

    def _parsed(self, value: object) -> Value | None:
        if self.kind == "flag":
            known = {"on": True, "off": False, "true": True, "false": False}
            return value if isinstance(value, bool) else known.get(str(value).lower())
        if self.kind == "choice":
            return value if value in self.choices else None  # pyright: ignore[reportReturnType]
        if self.kind == "text":
            if not isinstance(value, str):
                return None
            text = value.strip()
            return text if self._shortest <= len(text) <= (self.most or 200) else None
        if isinstance(value, bool):
            return None
        try:
            found = float(str(value))
        except ValueError:
            return None
        least = -math.inf if self.least is None else self.least
        most = math.inf if self.most is None else self.most
        if not least <= found <= most or (self.kind == "whole" and found != int(found)):
            return None
        return int(found) if self.kind == "whole" else found


@dataclass(frozen=True)
class Asked:
    """What a run was asked for: its settings by name, its seed, and whom to tell how far it is.

    `say` is told what is done that has no share, and None when that is over.
    """

    values: Mapping[str, Value]
    seed: int = 0
    quick: bool = False
    tell: Callable[[float], None] = field(default=lambda share: None)
    say: Callable[[Said | None], None] = field(default=lambda said: None)

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    def progress(self, done: float, of: float) -> None:
        """Say how much is done; raises if the work is no longer wanted."""
        still_wanted()
        self.tell(min(1.0, done / of) if of else 1.0)

    def load(self, name: str) -> Any:
        """The model of that name and its tokenizer; that it is being loaded is said."""
        still_wanted()
        self.say(Said("lab.loading", {"model": Said(f"lab.model.{name}")}))
        from regard.models import load

        loaded = load(name, progress=False)
        self.say(None)
        return loaded

    def random(self, part: int = 0) -> np.random.Generator:
        """Random numbers of this seed; each part of an experiment draws its own."""
        return np.random.default_rng([self.seed, part])


@dataclass(frozen=True)
class Experiment:
    """A claim that can be put to the test.

    Its texts are in the table of words under its name: `title`, `claim`, `question`, `about`,
    `false.about`, `guess.…` for each guess, `setting.…` for each setting, `choice.setting.…` for
    each of its choices. `false` are the settings that break what the claim rests on. `check`
    refuses settings that do not go together, with a ValueError. `judge` sees nothing but
    `Measured.data`, so that the same figures always have the same verdict.
    """

    name: str
    guesses: Sequence[str]
    settings: Sequence[Setting]
    false: Mapping[str, Value]
    measure: Callable[[Asked], Measured]
    judge: Callable[[Mapping[str, Any]], Verdict]
    needs: tuple[str, ...] = ()  # the models that it reads with: "minilm", "smollm2"
    check: Callable[[Mapping[str, Value]], None] = field(default=lambda values: None)

    def said(self, key: str) -> Said:
        """One of its own texts."""
        return Said(f"{self.name}.{key}")

    def values(
        self, given: Mapping[str, object], *, quick: bool = False, false: bool = False
    ) -> dict[str, Value]:
        """All settings: those given, checked; else those that make it false or quick, if asked for.

        >>> steps = Setting("steps", 100, quick=10, least=1, most=1000)
        >>> some = Experiment("some", (), [steps], {}, None, None)
        >>> some.values({}, quick=True), some.values({"steps": "7"})
        ({'steps': 10}, {'steps': 7})
        >>> some.values({"stops": 7})
        Traceback (most recent call last):
        ValueError: lab some: stops must be one of its settings, which are steps; got 7.
        """
        call = f"lab {self.name}"
        names = [setting.name for setting in self.settings]
        for name, value in given.items():
            if name not in names:
                raise ValueError(
                    f"{call}: {name} must be one of its settings, which are {', '.join(names)}; "
                    f"got {shown(value)}."
                )
        found: dict[str, Value] = {}
        for setting in self.settings:
            value = setting.default
            if quick and setting.quick is not None:
                value = setting.quick
            if false and setting.name in self.false:
                value = self.false[setting.name]
            if setting.name in given:
                value = setting.read(call, given[setting.name])
            found[setting.name] = value
        self.check(found)
        return found
