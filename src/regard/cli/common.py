"""What the commands share: reading, writing, what is refused, and the width of the output."""

from __future__ import annotations

import errno
import os
import re
import shlex
import sys
import warnings
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
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


# ── what is told ──────────────────────────────────────────────────────────────────────────────


def plain_error(error: BaseException) -> str:
    """What an error says, without the name of the function that says it.

    >>> plain_error(ValueError("inputs(): text must have a token."))
    'text must have a token.'
    """
    message = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return " ".join(re.sub(r"^\w+\(\)(: | )", "", message).split())


def not_written(path: str, error: OSError | ValueError) -> BadInput:
    """Why a file or a folder cannot be written.

    >>> print(not_written("a.json", OSError(28, "No space left on device")))
    cannot write a.json: No space left on device.
    """
    return BadInput(f"cannot write {path}: {getattr(error, 'strerror', None) or error}.")


@contextmanager
def notes() -> Generator[None]:
    """Tell what Regard warns of in one line each on standard error, when it is done; and refuse
    what cannot be done as bad input.

    >>> with notes():
    ...     raise ValueError("see(): text must have a token. Give it a word.")
    Traceback (most recent call last):
    regard.cli.common.BadInput: text must have a token. Give it a word.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            yield
        except (ValueError, KeyError, ImportError) as error:
            raise BadInput(plain_error(error)) from error
    for warning in caught:
        found = re.match(r"(?:watch|load|edges|sql)\(\): ", str(warning.message))
        if found is not None:
            from regard.view.labels import fit

            note = " ".join(str(warning.message)[found.end() :].split())
            print(fit(f"regard: note: {note}", 500), file=sys.stderr)


# ── what comes in ─────────────────────────────────────────────────────────────────────────────


def read_input(path: str) -> str:
    """The text of a file; `-` is standard input. Raises BadInput if it is no UTF-8, or too much."""
    name = "standard input" if path == "-" else path
    if path == "-" and sys.stdin is None:
        raise BadInput(f"{name} is closed: nothing to read.")
    try:
        with sys.stdin.buffer if path == "-" else Path(path).open("rb") as opened:
            content = opened.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise BadInput(f"{name} is longer than {_MOST_BYTES:,} bytes: not read.")
        return content.decode("utf-8")
    except UnicodeDecodeError as error:
        raise BadInput(f"{name} is not UTF-8: byte {error.start + 1} is wrong.") from None
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        reason = getattr(error, "strerror", None) or error
        raise BadInput(f"cannot read {name}: {reason}.") from error


def refuse_no_text(text: str, name: str = "the text") -> None:
    """Raise BadInput if the text is empty, or came from bytes that are no UTF-8.

    >>> refuse_no_text("love")
    """
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise BadInput(f"{name} is not UTF-8.")
    if not text.strip():
        raise BadInput(f"{name} is empty: give it a word.")


# ── what comes out ────────────────────────────────────────────────────────────────────────────


def refuse_two_outputs(**files: str | None) -> None:
    """At most one of these options may print to standard output.

    >>> refuse_two_outputs(json="-", svg="-")
    Traceback (most recent call last):
    regard.cli.common.BadInput: --json - and --svg - cannot both go to standard output.
    """
    printed = [f"--{name} -" for name, file in files.items() if file == "-"]
    if len(printed) > 1:
        raise BadInput(f"{' and '.join(printed[:2])} cannot both go to standard output.")


def check_file(path: str | None) -> None:
    """Refuse a file that cannot be written; None and `-`, standard output, are none.

    >>> check_file("no/such/file.json")
    Traceback (most recent call last):
    regard.cli.common.BadInput: cannot write no/such/file.json: No such file or directory.
    """
    if path is None or path == "-":
        return
    try:
        target = Path(path).resolve()
        if target.is_dir():
            raise OSError(errno.EISDIR, os.strerror(errno.EISDIR))
        if target.exists() and not os.access(target, os.W_OK):
            raise OSError(errno.EACCES, os.strerror(errno.EACCES))
        if not target.exists() or target.is_file():  # else it is a terminal or a pipe
            check_room(target.parent)
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        raise not_written(path, error) from error


def check_room(folder: Path) -> None:
    """Raise the OSError that writing a file there would.

    >>> check_room(Path("."))
    """
    code = 0
    if not folder.exists():
        code = errno.ENOENT
    elif not folder.is_dir():
        code = errno.ENOTDIR
    elif not os.access(folder, os.W_OK | os.X_OK):
        code = errno.EACCES
    if code:
        raise OSError(code, os.strerror(code))


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
    return Console(
        width=max(width, _NARROWEST),
        color_system=None if os.environ.get("NO_COLOR") else "auto",
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
        raise not_written(path, error) from error
    print(f"Wrote {path}", file=sys.stderr)


def write_picture(
    path: str, lines: Sequence[Text], console: Console, context: typer.Context
) -> None:
    """Write lines as a picture of the terminal, below the command that was given."""
    from regard.view import picture

    write_out(path, picture(lines, console.width, command_line(context.obj["arguments"])))
