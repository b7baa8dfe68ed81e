"""`regard train`: a model of one's own by a recipe, safe to kill, exact to resume."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.common import BadInput, flag, notes, option, plain_error, status
from regard.cli.output import Output

if TYPE_CHECKING:
    from rich.text import Text

    from regard.train import Outcome, Progress

EPILOG = """
\b
Examples:
  regard train                           which recipes there are
  regard train copy --out copy           the first task to learn: a minute or two
  regard train copy --show               the recipe, to start one's own from
  regard train language-model --out mine --set data.text=mine.txt
  regard train --out mine --resume       go on where it was stopped, or killed

\b
Ctrl-C, or SIGTERM, finishes the step and saves; a second one ends at once.
Whenever it is stopped, --resume goes on as if it never had been.
"""
_BARS = "▁▂▃▄▅▆▇█"
_EACH = 0.2  # seconds between two lines
_ENDED = {"done": "Done", "patience": "Stopped, as it did not get better,"}
_SELDOM = 5.0  # the same where lines are not written over


def train(
    recipe: Annotated[str | None, typer.Argument(metavar="RECIPE", show_default=False)] = None,
    out: Annotated[str | None, option("FOLDER", "Where the run is kept.")] = None,
    resume: Annotated[bool, flag("--resume", "Go on with the run that is there.")] = False,
    changed: Annotated[
        list[str] | None,
        option("KEY=VALUE", "Change the recipe: training.steps=100; may be repeated.", "--set"),
    ] = None,
    show: Annotated[bool, flag("--show", "Print the recipe, and train nothing.")] = False,
) -> None:
    """Train a Transformer of one's own, and watch attention form.

    RECIPE is the name of one that comes with it, or a TOML file; without it they are listed.
    """
    told = Output()
    if recipe is None and out is None:
        told.print(_listed(told.width))
        return
    from regard._followed import RECIPE
    from regard.train import Diverged, read_recipe
    from regard.train import train as go

    chosen = None
    if recipe is not None:
        with notes():
            chosen = read_recipe(recipe, changed or [])
    elif changed or show:
        raise BadInput("--set and --show go with a recipe.")
    if show:
        assert chosen is not None
        print(chosen.toml(), end="")
        return
    if out is None:
        raise BadInput("--out FOLDER is needed: the run is kept there.")
    if recipe is None and not resume:
        raise BadInput("a recipe is needed: regard train lists them; --resume goes on with a run.")
    with status() as line:
        teller = _Teller(line)
        try:
            with notes():
                found = go(
                    chosen,
                    out,
                    resume=resume,
                    tell=teller.tell,
                    note=teller.note,
                    show=teller.show,
                )
        except Diverged as error:
            _tell_page(out)
            raise BadInput(plain_error(error)) from None
        except BrokenPipeError:  # nobody reads what is told
            raise
        except (MemoryError, RuntimeError) as error:
            if isinstance(error, RuntimeError) and "DefaultCPUAllocator" not in str(error):
                raise
            raise BadInput(
                "there is not enough memory for that: a smaller [model], training.batch or "
                "data.length may fit."
            ) from error
        except OSError as error:
            wrong = f"cannot write {error.filename or out}: {error.strerror or error}."
            if (Path(out) / RECIPE).is_file():
                wrong += " What was saved before is whole: --resume goes on with it."
            raise BadInput(wrong) from error
    if os.environ.get("RANK", "0") == "0":  # of several processes one speaks
        told.print(_summary(found, told.width))
        # Paths stay in one piece, so that they can be copied.
        if found.ended not in _ENDED:
            print(f"regard train --out {shlex.quote(out)} --resume goes on.")
        _tell_page(out)


def _tell_page(out: str) -> None:
    if (page := Path(out) / "page.html").is_file():
        print(f"Wrote {page}", file=sys.stderr)


class _Teller:
    """Shows how far it is: a line that is written over in a terminal, else one an evaluation."""

    def __init__(self, line: Callable[[str], None] | None) -> None:
        self._line = line
        self._losses: list[float] = []
        self._next = 0.0
        self._shown = time.monotonic()

    def note(self, text: str) -> None:
        if self._line is not None:
            self._line("")
        print(f"regard: {text}", file=sys.stderr, flush=True)

    def show(self, text: str) -> None:
        """How far something is that takes its time; where it stays, now and then."""
        if self._line is not None:
            self._line(text)
        elif time.monotonic() - self._shown > _SELDOM:
            self._shown = time.monotonic()
            print(f"regard: {text}", file=sys.stderr, flush=True)

    def tell(self, progress: Progress) -> None:
        self._losses.append(progress.loss)
        if progress.scores is not None:
            scores = ", ".join(_score(*each) for each in progress.scores.items())
            if self._line is not None:
                self._line("")
            print(
                f"step {progress.step:,}: loss {progress.loss:.4f}; kept aside: {scores}",
                file=sys.stderr,
                flush=True,
            )
        now = time.monotonic()
        if self._line is not None and now >= self._next:
            self._next = now + _EACH
            self._line(
                f"{progress.step:,}/{progress.steps:,}  loss {progress.loss:.4f}  "
                f"{sparkline(self._losses, 16)}  {progress.rate:,.0f} tokens/s  "
                f"{_duration(progress.left)} left"
            )


def sparkline(values: list[float], width: int) -> str:
    """Values as a row of bars, each the mean of as many.

    >>> sparkline([1.0, 2.0, 3.0, 4.0], 4)
    '▁▃▅█'
    """
    count = min(width, len(values))
    cuts = [round(len(values) * n / count) for n in range(count + 1)]
    means = [sum(values[start:end]) / (end - start) for start, end in pairwise(cuts)]
    low, high = min(means), max(means)
    share = [(mean - low) / (high - low) if high > low else 0.0 for mean in means]
    return "".join(_BARS[int(each * (len(_BARS) - 1))] for each in share)


def _score(name: str, value: float) -> str:
    return f"{name} {value:.4f}" if name == "loss" else f"{name} {value:.1%}"


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _listed(width: int) -> list[Text]:
    from rich.text import Text

    from regard.train import read_recipe, shipped
    from regard.view.lines import paragraph

    lines: list[Text] = []
    for name in shipped():
        found = read_recipe(name)
        steps = f"{found.training.steps:,} steps of {found.training.batch}"
        first, *more = paragraph(f"{_ABOUT[found.task]} {steps}.", width, 16)
        lines += [Text.assemble((f"{name:<16}", "bold"), str(first).lstrip()), *more]
    last = "regard train RECIPE --out FOLDER trains it; --show prints it, to write one's own."
    return [*lines, Text(), Text(last, "dim")]


_ABOUT = {
    "copy": "An encoder and a decoder learn to say again what they read.",
    "reverse": "The same, backwards.",
    "sort": "The same, in the order of the alphabet.",
    "addition": "12+345 becomes 357, digit by digit.",
    "language-model": "What comes next: any text files; bytes, characters or pieces of words.",
    "translate": "Pairs of sentences, in TSV or JSON lines, from one to the other.",
    "classify": "Texts with a label each, in CSV.",
    "masked": "Words that are hidden, guessed from all others.",
}


def _summary(found: Outcome, width: int) -> list[Text]:
    from rich.text import Text

    from regard.view.lines import paragraph

    ended = _ENDED.get(found.ended, f"Stopped by {found.ended}")
    lines = [f"{ended} after {found.step:,} step{'s' * (found.step != 1)}."]
    if found.best is not None:
        scores = ", ".join(_score(*each) for each in found.best.items() if each[0] != "step")
        lines.append(f"The best was after {int(found.best['step']):,}: {scores}.")
    return [Text(str(line)) for text in lines for line in paragraph(text, width, 0)]
