"""A recipe: everything that decides what a training comes to, in one file, checked key by key."""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import cached_property
from pathlib import Path
from typing import Any, cast

from regard._arguments import shown
from regard.nn.config import (
    LanguageModelConfig,
    MaskedLanguageModelConfig,
    SequenceClassifierConfig,
    StackConfig,
    TransformerConfig,
)
from regard.nn.position import Position
from regard.nn.residual import Residual
from regard.nn.serialization import Described
from regard.train.settings import (
    GeneratedData,
    MaskedData,
    Optimizer,
    PairData,
    Schedule,
    Section,
    TableData,
    TextData,
    Training,
    Watch,
    Wrong,
    unknown_key,
)
from regard.train.toml import write_toml

TASKS: dict[str, tuple[type[Section], type[StackConfig]]] = {
    **dict.fromkeys(("copy", "reverse", "sort", "addition"), (GeneratedData, TransformerConfig)),
    "language-model": (TextData, LanguageModelConfig),
    "translate": (PairData, TransformerConfig),
    "classify": (TableData, SequenceClassifierConfig),
    "masked": (MaskedData, MaskedLanguageModelConfig),
}
_SHIPPED = Path(__file__).parent / "recipes"
# What follows from the data, and is no business of a recipe's.
_FOLLOWS = ("vocabulary", "target_vocabulary", "classes", "segments", "causal")
# What may differ between a run and its continuation: not a number of the result depends on it.
_FREE = (
    *("training.strategy", "training.keep"),
    *("watch.every", "watch.pictures", "watch.tensorboard"),
)
_LARGEST = 1_000_000  # bytes of a recipe
_SECTIONS = {"optimizer": Optimizer, "schedule": Schedule, "training": Training, "watch": Watch}


@dataclass(frozen=True)
class Recipe:
    """What is trained, on what, and how.

    >>> recipe = read_recipe("copy")
    >>> recipe.task, recipe.optimizer.weight_decay
    ('copy', 0.0)
    """

    task: str
    seed: int
    model: Mapping[str, Any]  # the fields of the model's config, but for what follows from the data
    data: Section
    optimizer: Optimizer
    schedule: Schedule
    training: Training
    watch: Watch

    @cached_property
    def content(self) -> dict[str, Any]:
        """All of it, as TOML and JSON have it."""
        sections = {name: getattr(self, name).content() for name in ("data", *_SECTIONS)}
        model = {
            name: {key: inner for key, inner in each.to_dict().items() if inner is not None}
            if isinstance(each, Described)
            else each
            for name, each in self.model.items()
        }
        return {"task": self.task, "seed": self.seed, "model": model, **sections}

    def toml(self) -> str:
        return write_toml(self.content)

    @property
    def hash(self) -> str:
        """The same for the same recipe, whatever may differ between a run and its continuation."""
        decides = {name: each for name, each in _flat(self.content).items() if name not in _FREE}
        return hashlib.sha256(json.dumps(decides, sort_keys=True).encode("utf-8")).hexdigest()

    def config(self, **follows: Any) -> StackConfig:
        """The config of the model, with what follows from the data."""
        kind = TASKS[self.task][1]
        try:
            return kind(**{**self.model, **follows})
        except (ValueError, TypeError) as error:
            said = str(error).removeprefix(f"{kind.__name__}(): ")
            raise Wrong(f"recipe [model]: {said}") from None

    def check_same(self, other: Recipe, where: str) -> None:
        """Raise Wrong that names the first key in which a run's recipe differs from this one."""
        mine, its = _flat(self.content), _flat(other.content)
        for name in {**its, **mine}:
            if name not in _FREE and mine.get(name) != its.get(name):
                raise Wrong(
                    f"recipe: {name} must be {shown(its.get(name))}, as in the run in {where}; got "
                    f"{shown(mine.get(name))}. A run goes on with the recipe that it was begun "
                    "with: name another folder for another one."
                )


def shipped() -> list[str]:
    """The names of the recipes that come with it.

    >>> "copy" in shipped()
    True
    """
    return sorted(path.stem for path in _SHIPPED.glob("*.toml"))


def read_recipe(name_or_path: str | Path, changes: Iterable[str] = ()) -> Recipe:
    """A recipe by its name, or of a TOML file; `changes` such as "training.steps=100" go over it.

    >>> read_recipe("copy", ["training.steps=7"]).training.steps
    7
    >>> read_recipe("copy", ["training.stops=7"])
    Traceback (most recent call last):
    regard.train.settings.Wrong: recipe [training]: stops must be one of its keys; got 'stops'. Did
    you mean steps?
    """
    if isinstance(name_or_path, str) and name_or_path in shipped():
        path = _SHIPPED / f"{name_or_path}.toml"
    else:
        path = Path(name_or_path)
    try:
        if path.exists() and not path.is_file():  # a pipe may never end
            found = "a folder" if path.is_dir() else "something else"
            raise Wrong(f"recipe: {path} must be a regular file; got {found}.")
        if path.exists() and path.stat().st_size > _LARGEST:
            raise Wrong(f"recipe: {path} must have at most {_LARGEST:,} bytes; got more.")
        content = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise Wrong(
            f"recipe: {shown(str(name_or_path))} must be a file, or one of {', '.join(shipped())}; "
            "got neither."
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise Wrong(f"recipe: {path} must be TOML in UTF-8; got something else: {error}.") from None
    except (OSError, ValueError) as error:
        if isinstance(error, Wrong):
            raise
        raise Wrong(f"recipe: {path} must be a file that can be read; got: {error}.") from None
    for change in changes:
        _change(content, change)
    return recipe_of(content)


def recipe_of(content: Mapping[str, Any]) -> Recipe:
    """The recipe that a document describes. Raises Wrong, which names the key."""
    known = dict.fromkeys(["task", "seed", "model", "data", *_SECTIONS])
    for name in content:
        if name not in known:
            raise unknown_key("recipe", name, known)
    task = content.get("task")
    if not isinstance(task, str) or task not in TASKS:
        raise Wrong(f"recipe: task must be one of {', '.join(TASKS)}; got {shown(task)}.")
    seed = content.get("seed", 0)
    if isinstance(seed, bool) or not isinstance(seed, int) or not 0 <= seed < 2**31:
        raise Wrong(
            f"recipe: seed must be a whole number from 0 to {2**31 - 1}; got {shown(seed)}."
        )
    for name in ("model", "data", *_SECTIONS):
        if not isinstance(content.get(name, {}), Mapping):
            raise Wrong(f"recipe: {name} must be a table, [{name}]; got {shown(content[name])}.")
    data, config = TASKS[task]
    sections = {name: kind.read(content.get(name, {})) for name, kind in _SECTIONS.items()}
    made = Recipe(
        task,
        seed,
        _model(config, content.get("model", {})),
        data.read(content.get("data", {})),
        **cast("dict[str, Any]", sections),
    )
    made.config(vocabulary=7, **({"classes": 2} if task == "classify" else {}))  # is it a model?
    if isinstance(made.data, GeneratedData) and made.data.shortest > made.data.longest:
        raise Wrong(
            f"recipe [data]: shortest must be at most longest, {made.data.longest}; got "
            f"{made.data.shortest}."
        )
    training = made.training
    if training.batch % training.accumulate:
        raise Wrong(
            f"recipe [training]: batch must be a multiple of accumulate, {training.accumulate}; "
            f"got {training.batch}."
        )
    return made


def _model(kind: type[StackConfig], content: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of a config: a position or a residual is a name, or a table with a type."""
    own = {field.name: field for field in fields(kind) if field.name not in _FOLLOWS}
    found: dict[str, Any] = {}
    for name, value in content.items():
        if name not in own:
            raise unknown_key("recipe [model]", name, own)
        if name in ("position", "residual"):
            described = {"type": value} if isinstance(value, str) else value
            try:
                value = {"position": Position, "residual": Residual}[name].from_dict(described)
            except (ValueError, TypeError) as error:
                said = str(error).partition("(): ")[2] or str(error)
                raise Wrong(f"recipe [model]: {name}: {said}") from None
        found[name] = value
    for name, field in own.items():
        if name not in found and field.default is MISSING and field.default_factory is MISSING:
            raise Wrong(f"recipe [model]: {name} must be given; got nothing.")
    return found


def _change(content: dict[str, Any], change: str) -> None:
    """Put one change, `a.b=c`, into a document; c is a value of TOML, or else a text."""
    path, sign, text = change.partition("=")
    keys = path.strip().split(".")
    if not sign or not all(keys):
        raise Wrong(f"recipe: a change must be written as training.steps=100; got {shown(change)}.")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    inner: Any = content
    for key in keys[:-1]:
        inner = inner.setdefault(key, {})
        if not isinstance(inner, dict):
            raise Wrong(f"recipe: {path} must be a key of a table; got one of {shown(inner)}.")
    inner[keys[-1]] = value


def _flat(content: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, each in content.items():
        if isinstance(each, Mapping):
            found |= _flat(each, f"{before}{name}.")
        else:
            found[f"{before}{name}"] = each
    return found
