"""`regard bench`: this machine, Regard beside its peers."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from regard import _amx
from regard.cli.common import BadInput, flag, option, read_input, status
from regard.cli.output import Output

if TYPE_CHECKING:
    from regard._bench.results import Results

EPILOG = """
\b
Examples:
  regard bench --quick
  regard bench --only forward --threads 1
  regard bench --json bench.json
  regard bench --from bench.json

\b
Every answer is checked before it is timed. Ctrl-C shows what has been measured so far.
Ratios are of calls that took turns in one process; A/A is one call against itself.
"""


def bench(
    quick: Annotated[bool, flag("--quick", "A few sizes, in well under a minute.")] = False,
    only: Annotated[
        list[str] | None,
        option(
            "SECTION",
            "Only forward, observed, tiles, calls, memory, types, decode, training or packed.",
        ),
    ] = None,
    threads: Annotated[
        str | None, option("1,2", "How many threads (1, and 2 if there are).")
    ] = None,
    rounds: Annotated[int | None, option("N", "Rounds, always as many.", min=1, max=1000)] = None,
    json: Annotated[str | None, option("FILE", "Write every number as JSON; - prints it.")] = None,
    source: Annotated[
        str | None, option("FILE", "Show this JSON again; measure nothing.", "--from")
    ] = None,
) -> None:
    """Is attention right and fast here, and what does looking cost?

    Raced against PyTorch's, which takes minutes, on a machine that has nothing else to do.
    """
    out = Output(json=json)
    from regard._bench.report import render_results
    from regard._bench.results import from_json, to_json

    if source is None:
        results = _measure(quick, only or [], threads, rounds)
    elif quick or only or threads or rounds:
        raise BadInput("--from shows what was measured: it goes with no option that measures.")
    else:
        try:
            results = from_json(read_input(source))
        except ValueError as error:  # no JSON, or other JSON
            raise BadInput(f"{source}: {error}") from error
    lines = render_results(results, out.width)
    if not results.complete:  # no file is written of half a run
        Output().print(lines)
        raise KeyboardInterrupt
    out.print(lines)
    out.write("json", lambda: to_json(results))


def _measure(quick: bool, only: list[str], threads: str | None, rounds: int | None) -> Results:
    from regard._bench.machine import processors
    from regard._bench.plan import QUICK_PACE, SECTIONS, plan_cells
    from regard._bench.results import Pace

    if threads is None:
        threads = "1,2" if processors() > 1 else "1"
    parts = threads.split(",")
    if not all(part.strip().isdecimal() and 0 < int(part) <= 1024 for part in parts):
        raise BadInput(f"--threads needs numbers from 1, such as 1,2; got {threads!r}.")
    if unknown := set(only) - set(SECTIONS):
        raise BadInput(f"--only takes {', '.join(SECTIONS)}; got {', '.join(sorted(unknown))}.")
    cells = plan_cells(
        threads=tuple(sorted({int(part) for part in parts})),
        sections=tuple(name for name in SECTIONS if name in only or not only),
        quick=quick,
    )
    pace = QUICK_PACE if quick else Pace()
    if rounds is not None:
        pace = replace(pace, rounds=rounds, fewer=rounds)
    avoided = _amx.avoid()
    try:
        from regard._bench.check import WrongAnswer
        from regard._bench.measure import measure
    except ImportError as error:
        raise BadInput(f"the native part, which is to be measured, is missing: {error}") from error
    start, before = time.monotonic(), ""
    with status() as show:

        def tell(number: int, of: int, section: str, cell: str) -> None:
            nonlocal before
            if show is not None:
                seconds = round(time.monotonic() - start)
                clock = f"{seconds // 60}:{seconds % 60:02}"
                show(f"[{number}/{of}] {clock} {section}: {cell}")
            elif section != before:
                print(f"measuring {section} …", file=sys.stderr, flush=True)
            before = section

        try:
            results = measure(cells, pace, tell)
            if avoided:
                results.notes.append(
                    "PyTorch's product of bfloat16 by AMX would end the process on this machine: "
                    f"it was told to do without ({_amx.SETTING}={_amx.WITHOUT}); its attention "
                    "multiplies by MKL, which keeps AMX."
                )
            return results
        except WrongAnswer as error:
            wrong = error
    print(f"regard: {wrong}", file=sys.stderr)
    raise typer.Exit(1)
