"""What the commands share: reading, writing, what is refused, and the width of the output."""

from __future__ import annotations

import os
import re
import shlex
import sys
import warnings
from collections.abc import Callable, Generator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_MOST_BYTES = 2**20
_WIDEST, _NARROWEST, _PIPED = 100, 40, 80
_WRITTEN = ("--svg", "--json", "--html", "--fix")  # options that name a file to write

Words = Annotated[list[str] | None, typer.Argument(metavar="TEXT", hidden=True)]
Svg = Annotated[
    str | None, typer.Option(metavar="FILE", help="Write it as a picture; - prints it.")
]
Html = Annotated[
    str | None, typer.Option(metavar="FILE", help="Write a page to look at; - prints it.")
]


class BadInput(typer.TyperException):
    """What the user gave cannot be used: one line says why, and the exit code is 2."""

    exit_code = 2


# ── what is told ──────────────────────────────────────────────────────────────────────────────


def plain_error(error: BaseException, **options: str) -> str:
    """What an error says, without the name of the function that says it, and with the names that
    arguments have as options.

    >>> plain_error(ValueError("see(): first must be from 1. Say first=5."), first="--first")
    '--first must be from 1. Say --first 5.'
    """
    message = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    message = " ".join(re.sub(r"^\w+\(\)(: | )", "", message).split())
    for name, option in options.items():
        message = re.sub(rf"^{name}(?= must )", option, message)
        message = re.sub(rf"\b{name}=(?=\w)", f"{option} ", message)
    return message


@contextmanager
def notes(**options: str) -> Generator[None]:
    """Tell what Regard warns of in one line each on standard error, when it is done; and refuse
    what cannot be done as bad input, with `options` for the names of arguments.

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
            raise BadInput(plain_error(error, **options)) from error
    for warning in caught:
        found = re.match(r"(?:watch|load|edges|sql)\(\): ", str(warning.message))
        if found is not None:
            from regard.view.labels import fit

            note = " ".join(str(warning.message)[found.end() :].split())
            print(fit(f"regard: note: {note}", 500), file=sys.stderr)


@contextmanager
def status() -> Generator[Callable[[str], None] | None]:
    """What shows a line on standard error in place of the last one, and is gone in the end; None
    if that is no terminal.

    >>> with status() as show:
    ...     print(show)
    None
    """
    if sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    shown = ""

    def show(line: str) -> None:
        nonlocal shown
        shown = line[:79]
        print(f"\r\x1b[K{shown}", end="", file=sys.stderr, flush=True)

    try:
        yield show
    finally:
        if shown:
            show("")


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
        raise BadInput(f"{name} is empty: there is no word in it.")


# ── what comes out ────────────────────────────────────────────────────────────────────────────


@contextmanager
def writing(path: str) -> Generator[None]:
    """Refuse a file or a folder that cannot be written.

    >>> with writing("a.json"):
    ...     raise OSError(28, "No space left on device")
    Traceback (most recent call last):
    regard.cli.common.BadInput: cannot write a.json: No space left on device.
    """
    try:
        yield
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        reason = getattr(error, "strerror", None) or error
        raise BadInput(f"cannot write {path}: {reason}.") from error


def check_outputs(**files: str | None) -> None:
    """Refuse files that could not be written in the end, and two that are one; `-` is standard
    output, and None is no file.

    >>> check_outputs(json="-", svg="-")
    Traceback (most recent call last):
    regard.cli.common.BadInput: --json and --svg cannot both go to standard output.
    >>> check_outputs(json="no/such/file.json")
    Traceback (most recent call last):
    regard.cli.common.BadInput: cannot write no/such/file.json: No such file or directory.
    """
    options: dict[Path | str, str] = {}
    for name, path in files.items():
        if path is None:
            continue
        with writing(path):
            target = path if path == "-" else Path(path).resolve()
            other = options.setdefault(target, name)
            if other != name:
                both = "go to standard output" if path == "-" else f"be written to {path}"
                raise BadInput(f"--{other} and --{name} cannot both {both}.")
            if not isinstance(target, Path):
                continue
            if target.is_file() or target.is_dir():
                target.open("ab").close()
            if target.is_file() or not target.exists():  # else it is a terminal or a pipe
                check_room(target.parent)


def check_room(folder: Path) -> None:
    """Raise the OSError that writing a file there would.

    >>> check_room(Path("."))
    """
    from tempfile import TemporaryFile

    TemporaryFile(dir=folder).close()


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
    with writing(path):
        write_text(path, content)
    print(f"Wrote {path}", file=sys.stderr)


def write_picture(
    path: str, lines: Sequence[Text], console: Console, context: typer.Context
) -> None:
    """Write lines as a picture of the terminal, below the command that was given."""
    from regard.view import picture

    write_out(path, picture(lines, console.width, command_line(context.obj["arguments"])))
