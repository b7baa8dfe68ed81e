"""Regard: self-attention you can look at.

The rooms, in the order data walks through them:

- `regard.reference`: the truth; every step of attention in NumPy float64, written to be read
- `regard.See`, `regard.Observation`, `regard.merge`: what to look at, what was seen, its parts
- `regard.attention`, `regard.scaled_dot_product_attention`: fast attention that says what it did
- `regard.weights`, `regard.pooled`: any part of the weights, any time later
- `regard.backends`: who computes here, and why
- `regard.nn`: Transformers whose modules read like the formulas
- `regard.text`: text to tokens, each with its span
- `regard.models`: a name or a folder to a model and its tokenizer
- `regard.watch`: any PyTorch model, and where every head of it looked
- `regard.monitor`: the same while it trains, and a warning before it goes wrong
- `regard.install`, `regard.uninstall`: our attention as one that transformers knows
- `regard.ask`: what can be asked of a model: `see` a text, the steps of one head
- `regard.evict`: what a cache may forget, and what that costs
- `regard.Run`, `regard.load`: what was seen of a model, kept on disk; edges, SQL, exact tiles
- `regard.trace`, `regard.Trace`: every step of one pass, named, and how each cell came about
- `regard.flow`: a whole pass in one picture, of which everything can be changed
- `regard.worked`: worked examples as data, and `check`, which finds the wrong cells of one
- `regard.view`: a trace in the terminal
- `regard.corpus`, `regard.load_corpus`: a model over many texts, and the tables that come of it
- `regard.lab`: claims about attention, as experiments
- `regard.parallel`: one sequence over many ranks
- `regard.cli`: the commands

Names are resolved when they are first used, so that importing the package costs nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from regard import ask, corpus, evict, lab, models, nn, parallel, reference, run, text, view
    from regard import worked as worked
    from regard._arithmetic import Explanation
    from regard._attention import (
        Backend,
        attention,
        backends,
        pooled,
        scaled_dot_product_attention,
        weights,
    )
    from regard._flow import Flow, flow
    from regard._merge import merge
    from regard._trace import ModelTrace, Projections, Trace, trace
    from regard._watch import install, monitor, uninstall, watch
    from regard.corpus import load_corpus
    from regard.observation import Observation, See
    from regard.run import Head, Layer, Run, load

    __version__: str

__all__ = [
    "Backend",
    "Explanation",
    "Flow",
    "Head",
    "Layer",
    "ModelTrace",
    "Observation",
    "Projections",
    "Run",
    "See",
    "Trace",
    "__version__",
    "ask",
    "attention",
    "backends",
    "corpus",
    "evict",
    "flow",
    "install",
    "lab",
    "load",
    "load_corpus",
    "merge",
    "models",
    "monitor",
    "nn",
    "parallel",
    "pooled",
    "reference",
    "run",
    "scaled_dot_product_attention",
    "text",
    "trace",
    "uninstall",
    "view",
    "watch",
    "weights",
    "worked",
]

_HOME = {
    "Explanation": "regard._arithmetic",
    **dict.fromkeys(("ModelTrace", "Projections", "Trace", "trace"), "regard._trace"),
    **dict.fromkeys(("Flow", "flow"), "regard._flow"),
    "merge": "regard._merge",
    **dict.fromkeys(("install", "monitor", "uninstall", "watch"), "regard._watch"),
    **dict.fromkeys(("Head", "Layer", "Run", "load"), "regard.run"),
    "load_corpus": "regard.corpus",
    **dict.fromkeys(("Observation", "See"), "regard.observation"),
    **dict.fromkeys(("Backend", "attention", "backends"), "regard._attention"),
    **dict.fromkeys(("pooled", "scaled_dot_product_attention", "weights"), "regard._attention"),
}


def __getattr__(name: str) -> Any:
    if name in _HOME:
        found = getattr(importlib.import_module(_HOME[name]), name)
        globals()[name] = found  # so that it costs nothing from now on
        return found
    if name == "__version__":
        from importlib.metadata import version

        return version("regard")
    if name in __all__:
        return importlib.import_module(f"regard.{name}")
    raise AttributeError(f"module 'regard' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
