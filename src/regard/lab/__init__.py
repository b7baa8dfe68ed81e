"""The lab: claims about attention as experiments, measured here and now, with a verdict.

>>> import regard.lab
>>> regard.lab.run("order", quick=True).outcome
'holds'
"""

from __future__ import annotations

import importlib
from collections.abc import Callable

from regard._arguments import shown
from regard.lab.experiment import Asked, Experiment, Setting
from regard.lab.measured import Bars, Chart, Finding, Maps, Measured, Series, Table, Verdict
from regard.lab.result import Result, about, perform
from regard.lab.said import LANGUAGES, Said

__all__ = [
    "LANGUAGES",
    "NAMES",
    "Asked",
    "Bars",
    "Chart",
    "Experiment",
    "Finding",
    "Maps",
    "Measured",
    "Result",
    "Said",
    "Series",
    "Setting",
    "Table",
    "Verdict",
    "about",
    "experiment",
    "run",
]

# In the order in which one meets them; each is a module here that has an EXPERIMENT.
NAMES = (
    "recall",
    "cost",
    "meaning",
    "order",
    "roles",
    "learning",
    "geometry",
    "scaling",
    "focus",
    "reference",
    "content",
    "heads",
    "width",
    "rank",
    "refine",
    "induction",
    "sinks",
)


def experiment(name: str) -> Experiment:
    """The experiment of that name.

    >>> experiment("order").name
    'order'
    >>> experiment("ordre")
    Traceback (most recent call last):
    ValueError: lab: there must be an experiment of that name (recall, ...); got 'ordre'.
    """
    if name not in NAMES:
        raise ValueError(
            f"lab: there must be an experiment of that name ({', '.join(NAMES)}); "
            f"got {shown(name)}."
        )
    return importlib.import_module(f"regard.lab.{name}").EXPERIMENT


def run(
    name: str,
    *,
    seed: int = 0,
    quick: bool = False,
    false: bool = False,
    guess: str | None = None,
    tell: Callable[[float], None] | None = None,
    say: Callable[[Said | None], None] | None = None,
    **settings: object,
) -> Result:
    """Measure on this machine, now, and judge.

    `quick` takes less time and is less sure; `false` breaks what the claim rests on; `settings` are
    those of the experiment. The same seed draws the same numbers. `tell` is told the share that is
    done, `say` what is done that has none (a model is loaded), and None when that is over.

    >>> run("order", quick=True, false=True).outcome
    'fails'
    """
    found = experiment(name)
    if guess is not None and guess not in found.guesses:
        raise ValueError(
            f"lab {name}: guess must be one of {', '.join(found.guesses)}; got {shown(guess)}."
        )
    values = found.values(settings, quick=quick, false=false)
    return perform(
        found, values, seed=seed, quick=quick, is_false=false, guess=guess, tell=tell, say=say
    )
