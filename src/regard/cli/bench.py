"""`regard bench`: this machine, Regard beside its peers."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.common import BadInput, make_console, print_out, write_out

if TYPE_CHECKING:
    from regard._bench.plan import Plan
    from regard._bench.results import Results

__all__ = ["add_to", "bench"]

_EPILOG = """
\b
Examples:
  regard bench --quick
  regard bench --only forward --threads 1
  regard bench --json bench.json --svg bench.svg
  regard bench --from bench.json --markdown README.md

\b
Every answer is checked before it is timed. Ctrl-C shows what has been measured so far.
Ratios are of calls that took turns in one process; A/A is the peer against itself.
"""


def add_to(app: typer.Typer) -> None:
    """Make `bench` a command of the app.

    >>> app = typer.Typer()
    >>> add_to(app)
    >>> [command.callback.__name__ for command in app.registered_commands]
    ['bench']
    """
    app.command(epilog=_EPILOG)(bench)


def bench(
    quick: Annotated[
        bool, typer.Option("--quick", help="A few sizes, in well under a minute.")
    ] = False,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="SECTION", help="Only forward, observed, tiles, calls or memory."),
    ] = None,
    threads: Annotated[
        str | None, typer.Option(metavar="1,2", help="How many threads (1, and 2 if there are).")
    ] = None,
    rounds: Annotated[
        int | None, typer.Option(min=1, max=1000, metavar="N", help="Rounds, always as many.")
    ] = None,
    json: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write every number as JSON; - prints it.")
    ] = None,
    svg: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write a figure; - prints it.")
    ] = None,
    markdown: Annotated[
        str | None,
        typer.Option(metavar="FILE", help="Write tables between the markers of FILE; - prints."),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option("--from", metavar="FILE", help="Show this JSON again; measure nothing."),
    ] = None,
) -> None:
    """How fast attention is here, plain and observed, beside PyTorch's.

    Takes minutes, on a machine that has nothing else to do.
    """
    if [json, svg, markdown].count("-") > 1:
        raise BadInput("only one of --json, --svg and --markdown can go to standard output.")
    _place(markdown)  # complains before minutes are spent
    if source is not None:
        if quick or only or threads or rounds:
            raise BadInput("--from shows what was measured: it goes with no option that measures.")
        results = _read(source)
    else:
        results = _measure(_plan(quick, only, threads, rounds))
    console = make_console()
    if "-" not in (json, svg, markdown) or not results.complete:
        from regard._bench.report import render_results

        print_out(render_results(results, console.width), console)
    if not results.complete:
        raise KeyboardInterrupt  # no file is written of half a run
    _write(results, json, svg, markdown)


def _plan(quick: bool, only: list[str] | None, threads: str | None, rounds: int | None) -> Plan:
    from regard._bench.plan import SECTIONS, full_plan, quick_plan, usual_threads

    numbers = usual_threads() if threads is None else _numbers(threads)
    plan = quick_plan(numbers) if quick else full_plan(numbers)
    if only:
        if unknown := set(only) - set(SECTIONS):
            raise BadInput(f"--only takes {', '.join(SECTIONS)}; got {', '.join(unknown)}.")
        plan = replace(plan, sections=tuple(name for name in SECTIONS if name in only))
    if rounds is not None:
        plan = replace(plan, pace=replace(plan.pace, rounds=rounds, fewer=rounds))
    return plan


def _numbers(threads: str) -> tuple[int, ...]:
    parts = threads.split(",")
    if not all(part.strip().isdecimal() and 0 < int(part) <= 1024 for part in parts):
        raise BadInput(f"--threads needs numbers from 1, such as 1,2; got {threads!r}.")
    return tuple(sorted({int(part) for part in parts}))


def _measure(plan: Plan) -> Results:
    try:
        from regard._bench.check import WrongAnswer
        from regard._bench.measure import measure
    except ImportError as error:
        raise BadInput(f"the native part, which is to be measured, is missing: {error}") from error
    progress = _Progress()
    try:
        return measure(plan, progress)
    except WrongAnswer as error:
        progress.clear()
        print(f"regard: {error}", file=sys.stderr)
        raise typer.Exit(1) from error
    finally:
        progress.clear()


class _Progress:
    """Says on standard error what is being measured: in one line, or a line a section in a pipe."""

    def __init__(self) -> None:
        self.start = time.monotonic()
        self.terminal = sys.stderr is not None and sys.stderr.isatty()
        self.section = ""

    def __call__(self, number: int, of: int, section: str, cell: str) -> None:
        if self.terminal:
            seconds = round(time.monotonic() - self.start)
            line = f"[{number}/{of}] {seconds // 60}:{seconds % 60:02} {section}: {cell}"
            print(f"\r\x1b[K{line[:79]}", end="", file=sys.stderr, flush=True)
        elif section != self.section:
            print(f"measuring {section} …", file=sys.stderr, flush=True)
        self.section = section

    def clear(self) -> None:
        """Leave an empty line to whatever comes next."""
        if self.terminal:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _read(source: str) -> Results:
    from regard._bench.stored import from_json

    try:
        return from_json(Path(source).read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"cannot read {source}: {error.strerror or error}.") from error
    except ValueError as error:  # no JSON, no UTF-8, or other JSON
        raise BadInput(f"{source}: {error}") from error


def _write(results: Results, json: str | None, svg: str | None, markdown: str | None) -> None:
    if json is not None:
        from regard._bench.stored import to_json

        write_out(json, to_json(results))
    if svg is not None:
        from regard._bench.figure import figure

        write_out(svg, figure(results))
    if markdown is not None:
        from regard._bench.table import insert_between_markers
        from regard._bench.table import markdown as tables

        place = _place(markdown)
        table = tables(results)
        write_out(markdown, f"{table}\n" if place is None else insert_between_markers(place, table))


def _place(markdown: str | None) -> str | None:
    """The text of the file that takes the tables; None where there is none yet."""
    if markdown in (None, "-") or not Path(markdown).exists():
        return None
    from regard._bench.table import insert_between_markers

    try:
        text = Path(markdown).read_text(encoding="utf-8")
        insert_between_markers(text, "")
    except OSError as error:
        raise BadInput(f"cannot read {markdown}: {error.strerror or error}.") from error
    except ValueError as error:
        raise BadInput(f"{markdown} has no place for the tables: {error}") from error
    return text
