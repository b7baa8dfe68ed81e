"""`regard check`: is a worked example right?"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, NoReturn

import typer

from regard.cli.common import BadInput, flag, option, read_input
from regard.cli.output import Output

EPILOG = """
\b
Examples:
  regard check slides.md
  regard check slides.md --fix right.md
  regard check homework.txt --as "Table 3=weights" --as 12=K

It reads Markdown and tab-separated tables, rows like "q_love = [1.0, 1.1]",
LaTeX matrices, TOML and JSON. Exit code: 0 right, 1 wrong numbers, 2 not readable.
"""


def check(
    context: typer.Context,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The worked example; - reads standard input.")
    ],
    names: Annotated[
        list[str] | None,
        option("NAME=KIND", "What a matrix is: by its name, or its line; ignore.", "--as"),
    ] = None,
    fix: Annotated[str | None, option("FILE", "Write the text with its numbers put right.")] = None,
    json: Annotated[str | None, option("FILE", "Write the report as JSON; - prints it.")] = None,
    svg: Annotated[str | None, option("FILE", "Write the report as a picture.")] = None,
    everything: Annotated[bool, flag("--all", "Every wrong cell.")] = False,
    seconds: Annotated[float, option("N", "Give up after so long.", min=0.001, max=1e6)] = 60,
) -> None:
    """Is this worked example right?

    Says which numbers are wrong, and where that began.
    """
    from regard.view.report import render_report
    from regard.worked import Unreadable, check_text, fix_text
    from regard.worked import check as check_file

    taken_as = dict(_pair(name) for name in names or ())
    out = Output(fix=fix, json=json, svg=svg)
    for name, path in (("--fix", fix), ("--json", json), ("--svg", svg)):
        if path and Path(path).exists() and Path(file).exists() and Path(path).samefile(file):
            raise BadInput(f"{name} would overwrite the worked example itself: name another.")
    text = read_input("-") if file == "-" else ""
    try:
        with _within(seconds, file):
            if file == "-":
                report = check_text(text, "standard input", taken_as)
            else:
                report = check_file(file, taken_as)
            fixed, left = "", 0
            if fix is not None:
                fixed = fix_text(report)
                left = check_text(fixed, report.source.name, taken_as).exit_code
            lines = render_report(report, out.width, everything=everything)
    except Unreadable as error:
        raise BadInput(str(error)) from error
    out.print(lines)
    out.draw(lines, context)
    out.write("json", lambda: report.to_json() + "\n")
    out.write("fix", lambda: fixed)
    if left:
        what = "wrong numbers that nothing produces" if left == 1 else "an open question"
        print(f"{fix} still has {what}: check it.", file=sys.stderr)
    raise typer.Exit(report.exit_code)


@contextmanager
def _within(seconds: float, file: str) -> Generator[None]:
    """Raise BadInput when it has taken so long. An alarm gets through to a regular expression; it
    is for the main thread alone.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def stop(*_: object) -> NoReturn:
        name = "standard input" if file == "-" else file
        raise BadInput(f"{name} takes more than {seconds:g} s to read. --seconds N gives it more.")

    before = signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _pair(name: str) -> tuple[str, str]:
    left, equals, kind = name.rpartition("=")
    if not equals or not left.strip() or not kind.strip():
        raise BadInput(f'--as needs NAME=KIND, such as "Table 3=weights"; got {name!r}.')
    return left, kind
