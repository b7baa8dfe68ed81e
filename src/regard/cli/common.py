"""What the commands share: reading, writing, and the width and colours of the output."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_MOST_BYTES = 2**20
_WIDEST, _NARROWEST, _PIPED = 100, 40, 80


_WRITTEN = ("--svg", "--json", "--html", "--fix")  # options that name a file to write


class BadInput(typer.TyperException):
    """What the user gave cannot be used: one line says why, and the exit code is 2."""

    exit_code = 2


def command_line(arguments: Sequence[str]) -> str:
    """The command as it may be typed again, without the files that it wrote.

    >>> print(command_line(["explain", "I love", "--svg", "picture.svg"]))
    regard explain "I love"
    """
    shown: list[str] = []
    skip = False
    for argument in arguments:
        if not skip and not argument.startswith(_WRITTEN):
            shown.append(argument)
        skip = argument in _WRITTEN
    return " ".join(["regard", *map(quoted, shown)])


def refuse_two_outputs(**files: str | None) -> None:
    """At most one of these options may print to standard output.

    >>> refuse_two_outputs(json="-", svg="-")
    Traceback (most recent call last):
    regard.cli.common.BadInput: --json - and --svg - cannot both go to standard output.
    """
    printed = [f"--{name} -" for name, file in files.items() if file == "-"]
    if len(printed) > 1:
        raise BadInput(f"{' and '.join(printed[:2])} cannot both go to standard output.")


def quoted(argument: str) -> str:
    """An argument as it is typed in a shell; in double quotes where these are enough.

    >>> print(quoted("I didn't"), quoted("it"), quoted("$HOME"))
    "I didn't" it '$HOME'
    """
    plain = shlex.quote(argument)
    if plain == argument or not argument or set(argument) & set('"$`\\!'):
        return plain
    return f'"{argument}"'


def make_console() -> Console:
    """A console for standard output: as wide as the terminal, but no wider than is easy to read.

    `COLUMNS` sets the width; a pipe has 80. There are no colours in a pipe, under `NO_COLOR`, or in
    a terminal that has none.

    >>> make_console().width >= 40
    True
    """
    from rich.console import Console

    columns = os.environ.get("COLUMNS", "")
    if columns.isdecimal() and int(columns) > 0:
        width = int(columns)
    elif sys.stdout is not None and sys.stdout.isatty():
        width = min(os.get_terminal_size(sys.stdout.fileno()).columns or _PIPED, _WIDEST)
    else:
        width = _PIPED
    plain = bool(os.environ.get("NO_COLOR"))
    return Console(
        width=max(width, _NARROWEST),
        color_system=None if plain else "auto",
        markup=False,
        emoji=False,
        highlight=False,
    )


def print_out(lines: Sequence[Text], console: Console) -> None:
    """Print lines to standard output, in one go: a closed pipe is `main`'s to handle.

    >>> from rich.text import Text
    >>> print_out([Text("[red]")], make_console())
    [red]
    """
    from regard.view.terminal import print_lines

    with console.capture() as captured:
        print_lines(lines, console)
    print(captured.get(), end="")


def read_standard_input() -> str:
    """The text of standard input. Raises BadInput if it is no UTF-8, or too much."""
    content = sys.stdin.buffer.read(_MOST_BYTES + 1)
    if len(content) > _MOST_BYTES:
        raise BadInput(f"standard input is longer than {_MOST_BYTES:,} bytes: not read.")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"standard input is not UTF-8: byte {error.start + 1} is wrong.") from None


def write_out(path: str, content: str) -> None:
    """Write a file and say so on standard error; `-` is standard output.

    >>> write_out("-", "content\\n")
    content
    """
    from regard._files import write_text

    if path == "-":
        print(content, end="")
        return
    try:
        write_text(path, content)
    except OSError as error:
        raise BadInput(f"cannot write {path}: {error.strerror or error}.") from error
    print(f"Wrote {path}", file=sys.stderr)
