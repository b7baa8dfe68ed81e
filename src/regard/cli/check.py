"""`regard check`: is a worked example right?"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from regard.cli.common import BadInput, command_line, make_console, print_out, write_out

__all__ = ["add_to", "check"]

_EPILOG = """
\b
Examples:
  regard check slides.md
  regard check slides.md --fix right.md
  regard check homework.txt --as "Table 3=weights" --as 12=K

It reads Markdown and tab-separated tables, rows like "q_love = [1.0, 1.1]",
LaTeX matrices, TOML and JSON. Exit code: 0 right, 1 wrong numbers, 2 not readable.
"""


def add_to(app: typer.Typer) -> None:
    """Make `check` a command of the app.

    >>> app = typer.Typer()
    >>> add_to(app)
    >>> [command.callback.__name__ for command in app.registered_commands]
    ['check']
    """
    app.command(epilog=_EPILOG)(check)


def check(
    context: typer.Context,
    file: Annotated[str, typer.Argument(metavar="FILE", help="The worked example.")],
    names: Annotated[
        list[str] | None,
        typer.Option(
            "--as", metavar="NAME=KIND", help="What a matrix is: by its name, or its line; ignore."
        ),
    ] = None,
    fix: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the text with its numbers put right.")
    ] = None,
    json: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the report as JSON; - prints it.")
    ] = None,
    svg: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write the report as a picture.")
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="Every wrong cell.")] = False,
) -> None:
    """Is this worked example right? Says which numbers are wrong, and where that began."""
    from regard.view import picture
    from regard.view.report import render_report
    from regard.worked import Unreadable, fix_text
    from regard.worked import check as check_file

    taken_as = dict(_pair(name) for name in names or ())
    if fix is not None and fix != "-" and Path(fix).exists() and Path(fix).samefile(file):
        raise BadInput("--fix would overwrite the file itself: name another.")
    if [json, fix, svg].count("-") > 1:
        raise BadInput("only one of --json, --fix and --svg can go to standard output.")
    try:
        report = check_file(file, taken_as)
        fixed = fix_text(report, taken_as) if fix is not None else ""
    except Unreadable as error:
        raise BadInput(str(error)) from error
    console = make_console()
    lines = render_report(report, console.width, everything=everything)
    if "-" not in (fix, json, svg):
        print_out(lines, console)
    if svg is not None:
        write_out(svg, picture(lines, console.width, command_line(context.obj["arguments"])))
    if json is not None:
        write_out(json, report.to_json() + "\n")
    if fix is not None:
        write_out(fix, fixed)
    raise typer.Exit(report.exit_code)


def _pair(name: str) -> tuple[str, str]:
    left, equals, kind = name.rpartition("=")
    if not equals or not left.strip() or not kind.strip():
        raise BadInput(f'--as needs NAME=KIND, such as "Table 3=weights"; got {name!r}.')
    return left, kind
