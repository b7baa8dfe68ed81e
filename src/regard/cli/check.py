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
  regard check course/

It reads Markdown, LaTeX, HTML, notebooks and plain text, TOML and JSON; with
pip install 'regard[slides]' PDF and PPTX. Several files, or a folder: a line each.
Exit code: 0 something was checked and nothing is wrong, 1 something is wrong,
2 nothing could be checked.
"""


def check(
    context: typer.Context,
    files: Annotated[
        list[str],
        typer.Argument(metavar="FILE…", help="Documents, or a folder; - reads standard input."),
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
    if len(files) > 1 or Path(files[0]).is_dir():
        if taken_as or fix is not None:
            raise BadInput("--as and --fix are for one document at a time.")
        _check_all(context, files, Output(json=json, svg=svg), seconds)
    file = files[0]
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


_READ = (".md", ".markdown", ".txt", ".tex", ".html", ".htm", ".ipynb", ".rst", ".pdf", ".pptx")


def _is_document(path: Path) -> bool:
    return path.suffix.lower() in _READ and not any(part.startswith(".") for part in path.parts)


def _check_all(context: typer.Context, names: list[str], out: Output, seconds: float) -> NoReturn:
    """Many documents, a line each; the worst of them decides how it ends."""
    from regard.view.report import render_summary
    from regard.worked import Report, Unreadable
    from regard.worked import check as check_file

    paths: list[Path] = []
    for name in names:
        folder = Path(name)
        inside = sorted(folder.rglob("*")) if folder.is_dir() else [folder]
        paths += [p for p in inside if not folder.is_dir() or _is_document(p.relative_to(folder))]
    if not paths:
        raise BadInput(f"There is no document in {names[0]} ({', '.join(_READ)}).")
    reports: list[Report | str] = []
    for path in paths:
        try:
            with _within(seconds, str(path)):
                reports.append(check_file(path))
        except Unreadable as error:
            reports.append(str(error))
    lines = render_summary(reports, out.width)
    out.print(lines)
    out.draw(lines, context)
    read = [report for report in reports if not isinstance(report, str)]
    out.write("json", lambda: "[" + ",\n".join(report.to_json() for report in read) + "]\n")
    codes = {report.exit_code for report in read}
    raise typer.Exit(1 if 1 in codes else 0 if 0 in codes else 2)


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
