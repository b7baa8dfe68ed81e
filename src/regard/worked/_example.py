"""The worked examples by name: data files, and the trace of each."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

from regard._trace import Positions, Projections, Trace

__all__ = ["EXAMPLES", "Example", "example"]

_SYMBOLS = {"embeddings": "X", "query": "Q", "key": "K", "value": "V", "weights": "A"}
EXAMPLES = ("apple", "cat", "poem", "scaling", "given")


@dataclass(frozen=True)
class Example:
    """A worked example: what it is about, and the matrices that it starts from."""

    name: str
    title: str
    about: str
    content: dict[str, Any]

    def trace(
        self, *, positions: Positions = "none", causal: bool = False, scale: bool = True
    ) -> Trace:
        """Every step of it, computed from its inputs."""
        given = self.content
        projections = None
        if "W_Q" in given:
            maps = (given[name] for name in ("W_Q", "W_K", "W_V"))
            given_heads = given.get("head_2", {}).get("head_output")
            projections = Projections(*maps, given_heads=given_heads)
        elif positions != "none":
            raise ValueError(f"The example {self.name!r} has no input to add positions to.")
        usual = positions == "none" and not causal and scale
        unchanged = "" if usual or "head_2" not in given else " It stays as it is given."
        return Trace.build(
            tokens=given["tokens"],
            key_tokens=given.get("key_tokens"),
            projections=projections,
            **{name: given.get(symbol) for name, symbol in _SYMBOLS.items()},
            positions=positions,
            causal=causal,
            scale=scale,
            title=self.title,
            note=self.about + unchanged,
        )


def example(name: str) -> Example:
    """The worked example of that name; `EXAMPLES` lists them.

    >>> step = example("scaling").trace().steps["weights"]
    >>> step.array.round(2)
    array([[[0.73, 0.27]]])
    """
    if name not in EXAMPLES:
        raise KeyError(
            f"example(): there is no example {name!r}. There are: {', '.join(EXAMPLES)}."
        )
    source = files("regard.worked").joinpath("data", f"{name}.toml")
    content = tomllib.loads(source.read_text(encoding="utf-8"))
    return Example(name, content["title"], content["about"].strip(), content)
