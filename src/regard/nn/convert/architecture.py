"""What a table for an architecture of Hugging Face holds, and how their options are read."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor, nn

from regard.nn.config import StackConfig
from regard.nn.convert.rows import Row

__all__ = ["ACTIVATIONS", "Architecture", "Refused", "chosen", "option", "options_of"]

Options = Mapping[str, Any]
Read = Callable[[Options], Any]

# Their names of activations, ours.
ACTIVATIONS = {
    "gelu": "gelu",
    "gelu_new": "gelu_tanh",
    "gelu_pytorch_tanh": "gelu_tanh",
    "relu": "relu",
    "silu": "silu",
    "swish": "silu",
}

# What no architecture may have, as it changes what is computed: option, what it may be.
NEVER: dict[str, tuple[Any, ...]] = {
    "auto_map": (),
    "quantization_config": (),
    "sliding_window": (),
    "use_sliding_window": (False,),
    "pruned_heads": ({},),
}


@dataclass(frozen=True)
class Architecture:
    """One class of transformers and ours for it: options by `fields`, tensors by `rows`.

    - `fields`: each field of our configuration, and how it is read from their options
    - `fixed`: fields that are always so
    - `must`: options that we have no counterpart of, and what they may be; None and absent are fine
    - `alike`: pairs of options that must be equal, as here one field stands for both
    - `unused`: patterns of their names that nothing here needs
    - `tied_only`: names of theirs that nothing needs if `tie_word_embeddings` is False
    - `computed`: patterns of tensors of theirs that are computed here, and how; they must agree
    """

    name: str
    model_type: str
    model: type[nn.Module]
    config: type[StackConfig]
    rows: tuple[Row, ...]
    fields: Mapping[str, Read]
    fixed: Mapping[str, Any]
    must: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    alike: tuple[tuple[str, str], ...] = ()
    unused: tuple[str, ...] = ()
    tied_only: tuple[str, ...] = ()
    computed: Mapping[str, Callable[[Any, int], Tensor]] = field(default_factory=dict)

    def table(self, options: Options) -> tuple[tuple[Row, ...], tuple[str, ...]]:
        """The rows for a model of these options, and the patterns of names that nothing needs."""
        spare = self.tied_only if options.get("tie_word_embeddings") is False else ()
        rows = tuple(row for row in self.rows if row.theirs not in spare)
        return rows, (*self.unused, *self.computed, *spare)


class Refused(ValueError):
    """An option that has no counterpart; its text says which, what it must be, what it is."""


def option(
    name: str, default: Any = ..., means: Callable[[Any], Any] = lambda value: value
) -> Read:
    """Reads one option; `default` is what it is if it is absent, … if it must be there.

    >>> option("n_inner", 0)({}), option("n_positions", means=float)({"n_positions": 5})
    (0, 5.0)
    """

    def read(options: Options) -> Any:
        found = options.get(name)
        if found is None and default is ...:
            raise Refused(f"{name} must be given; got none")
        return means(default if found is None else found)

    return read


def chosen(name: str, choices: Mapping[str, Any], default: Any = ...) -> Read:
    """Reads one option that is one of several words.

    >>> chosen("hidden_act", ACTIVATIONS)({"hidden_act": "swish"})
    'silu'
    """

    def means(found: Any) -> Any:
        if not isinstance(found, str) or found not in choices:
            raise Refused(f"{name} must be one of {', '.join(choices)}; got {found!r}")
        return choices[found]

    return option(name, default, means)


def options_of(architecture: Architecture, options: Options) -> dict[str, Any]:
    """The fields of our configuration. Raises ValueError that names all options without one."""
    values: dict[str, Any] = dict(architecture.fixed)
    refused: list[str] = []
    if options.get("model_type", architecture.model_type) != architecture.model_type:
        refused.append(
            f"model_type must be {architecture.model_type!r}; got {options['model_type']!r}"
        )
    for name, allowed in (NEVER | dict(architecture.must)).items():
        found = options.get(name)
        if found is not None and not any(_is(found, each) for each in allowed):
            wanted = " or ".join(map(repr, allowed)) or "absent"
            refused.append(f"{name} must be {wanted}; got {found!r}")
    for one, other in architecture.alike:
        wanted, found = options.get(one), options.get(other)
        if found is not None and found != wanted:
            refused.append(f"{other} must be {wanted!r}, as {one}; got {found!r}")
    for name, read in architecture.fields.items():
        try:
            values[name] = read(options)
        except Refused as error:
            refused.append(str(error))
    if refused:
        raise ValueError(
            f"from_hugging_face(): of {architecture.name}'s options {'; '.join(refused)}. "
            "regard.nn has no counterpart."
        )
    return values


def _is(found: object, allowed: object) -> bool:
    return found == allowed and isinstance(found, bool) == isinstance(allowed, bool)
