"""What a recipe may say: its sections, each a frozen dataclass that is checked key by key."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import MISSING, dataclass, fields
from typing import Annotated, Any, ClassVar, Literal, Self

from regard._arguments import shown
from regard.nn.config import Chance
from regard.nn.serialization import Bounds, Described

Positive = Annotated[float, Bounds(1e-12)]
NotNegative = Annotated[float, Bounds(0.0)]
Share = Annotated[float, Bounds(0.0, 1.0)]
Tokens = Literal["bytes", "characters", "bpe"]


class Wrong(ValueError):
    """A recipe that cannot be followed: the message names the key."""


class Section(Described):
    """A part of a recipe. An error names its section and the key."""

    section: ClassVar[str]

    @property
    def _call(self) -> str:
        return f"recipe [{self.section}]"

    @classmethod
    def read(cls, content: Mapping[str, Any]) -> Self:
        """The section that a table of TOML describes. Raises Wrong, which names the key.

        >>> Optimizer.read({"learning_rate": 0.001}).clip
        1.0
        >>> Optimizer.read({"learning_rat": 0.001})
        Traceback (most recent call last):
        regard.train.settings.Wrong: recipe [optimizer]: learning_rat must be one of its keys; got
        'learning_rat'. Did you mean learning_rate?
        """
        own = {field.name: field for field in fields(cls)}  # pyright: ignore[reportArgumentType]
        for name in content:
            if name not in own:
                raise unknown_key(f"recipe [{cls.section}]", name, own)
        missing = [
            name
            for name, field in own.items()
            if name not in content and field.default is MISSING and field.default_factory is MISSING
        ]
        if missing:
            raise Wrong(f"recipe [{cls.section}]: {missing[0]} must be given; got nothing.")
        try:
            return cls(**content)
        except (ValueError, TypeError) as error:
            raise Wrong(str(error)) from None

    def _check(self, name: str, kind: Any, least: int) -> None:
        value = getattr(self, name)
        if kind is str:
            if not isinstance(value, str):
                raise self._refuse(name, "a text")
        elif kind == tuple[str, ...]:
            several = [value] if isinstance(value, str) else value
            if not isinstance(several, list | tuple) or not all(
                isinstance(each, str) for each in several
            ):
                raise self._refuse(name, "a text, or a list of texts")
            object.__setattr__(self, name, tuple(several))
        else:
            super()._check(name, kind, least)

    def content(self) -> dict[str, Any]:
        """Its keys and values, as TOML and JSON have them."""
        found = {field.name: getattr(self, field.name) for field in fields(self)}  # pyright: ignore[reportArgumentType]
        return {
            name: list(each) if isinstance(each, tuple) else each for name, each in found.items()
        }


def unknown_key(call: str, name: str, known: Mapping[str, Any]) -> Wrong:
    """The error for a key that there is not."""
    near = difflib.get_close_matches(name, known, 1)
    remedy = f"Did you mean {near[0]}?" if near else f"They are {', '.join(known)}."
    return Wrong(f"{call}: {name} must be one of its keys; got {shown(name)}. {remedy}")


# ── what is learned from ──────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class GeneratedData(Section):
    """Sequences that are made up: of `shortest` to `longest` symbols out of so many `symbols`.

    For sums the symbols are digits, and the lengths those of the two numbers. `validation`: how
    many sequences, never seen in training, are kept aside.
    """

    section = "data"
    symbols: int = 26
    shortest: int = 1
    longest: int = 10
    validation: int = 512


@dataclass(frozen=True, kw_only=True)
class TextData(Section):
    """Running text: names of texts that can be fetched, files, or folders of .txt files.

    `tokens`: what a token is; `vocabulary`: how many of them BPE makes; `length`: how many the
    model reads at once; `validation`: the share at the end that is kept aside.
    """

    section = "data"
    text: tuple[str, ...]
    tokens: Tokens = "characters"
    vocabulary: int = 4096
    length: int = 64
    validation: Share = 0.1


@dataclass(frozen=True, kw_only=True)
class MaskedData(TextData):
    """Running text of which a `share` of the tokens is hidden."""

    share: Share = 0.15


@dataclass(frozen=True, kw_only=True)
class PairData(Section):
    """Pairs of a source and a target, in a file of tab-separated columns or of JSON lines.

    `source` and `target` are the columns: numbers from 1 in a TSV file, keys in JSON lines. Pairs
    of more than `longest` tokens on either side are left out. `validation`: how many pairs are kept
    aside.
    """

    section = "data"
    pairs: str
    source: str = "1"
    target: str = "2"
    tokens: Tokens = "bpe"
    vocabulary: int = 8192
    longest: int = 64
    validation: int = 1000


@dataclass(frozen=True, kw_only=True)
class TableData(Section):
    """Texts with a label each, in a CSV file with a header: its columns `text` and `label`."""

    section = "data"
    table: str
    text: str = "text"
    label: str = "label"
    tokens: Tokens = "bpe"
    vocabulary: int = 4096
    longest: int = 128
    validation: Share = 0.1


# ── how ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, kw_only=True)
class Optimizer(Section):
    """AdamW; `weight_decay` is for matrices alone. `clip`: the longest gradient; 0 is any."""

    section = "optimizer"
    learning_rate: Positive = 1e-3
    beta1: Share = 0.9
    beta2: Share = 0.99
    eps: Positive = 1e-8
    weight_decay: NotNegative = 0.1
    clip: NotNegative = 1.0


@dataclass(frozen=True, kw_only=True)
class Schedule(Section):
    """The learning rate over time: after `warmup` steps from 0 up it goes down as the `kind` says.

    "cosine" goes to `least`, a share of the learning rate, at the last step; "inverse-sqrt" as
    1/√step (Vaswani, "Noam"); "constant" stays.
    """

    section = "schedule"
    kind: Literal["cosine", "inverse-sqrt", "constant"] = "cosine"
    warmup: int = 0
    least: Share = 0.1


@dataclass(frozen=True, kw_only=True)
class Training(Section):
    """How long, and in what portions.

    `batch` sequences make a step, in `accumulate` parts, one after the other. `evaluate`, `save`:
    every so many steps; `keep`: how many of the newest checkpoints, beside the best one.
    `patience`: stop after so many evaluations without a better one; 0 is never. `strategy`: how
    several processes share the work.
    """

    section = "training"
    steps: int
    batch: int
    accumulate: int = 1
    label_smoothing: Chance = 0.0
    evaluate: int = 250
    save: int = 250
    keep: int = 2
    patience: int = 0
    autocast: Literal["none", "bfloat16"] = "none"
    compile: bool = False
    strategy: Literal["none", "ddp", "fsdp"] = "none"


@dataclass(frozen=True, kw_only=True)
class Watch(Section):
    """What is seen while it learns: the entropy of each head `every` so many steps (0: never), and
    so many `pictures` of where heads look, ever farther apart. `tensorboard`: is the log written
    for TensorBoard, too.
    """

    section = "watch"
    every: int = 0
    pictures: int = 0
    tensorboard: bool = False
