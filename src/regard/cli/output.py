"""What a command gives: lines on standard output, and the files that its options name."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from regard.cli.common import BadInput

if TYPE_CHECKING:
    from rich.console import Console
    from rich.text import Text

_WIDEST, _NARROWEST, _PIPED = 100, 40, 80


class Output:
    """Standard output, and the files of a command's options. `-` is standard output, which has
    nothing else then.

    A file that could not be written in the end is refused in the beginning, and so are two that
    are one.

    >>> Output(json="-", svg="-")
    Traceback (most recent call last):
    regard.cli.common.BadInput: --json and --svg cannot both go to standard output.
    >>> Output(json="no/such/file.json")
    Traceback (most recent call last):
    regard.cli.common.BadInput: cannot write no/such/file.json: No such file or directory.
    >>> Output(json="-").write("json", lambda: "content\\n")
    content
    """

    def __init__(self, **files: str | None) -> None:
        self._files = {name: path for name, path in files.items() if path is not None}
        names: dict[Path | str, str] = {}
        for name, path in self._files.items():
            with writing(path):
                target = Path(path).resolve()
                other = names.setdefault("-" if path == "-" else target, name)
                if other != name:
                    both = "go to standard output" if path == "-" else f"be written to {path}"
                    raise BadInput(f"--{other} and --{name} cannot both {both}.")
                if path == "-":
                    continue
                if target.is_file() or target.is_dir():
                    target.open("ab").close()
                if target.is_file() or not target.exists():  # else it is a terminal or a pipe
                    check_room(target.parent)

    @cached_property
    def console(self) -> Console:
        """As wide as the terminal, but no wider than is easy to read.

        `COLUMNS` sets the width; a pipe has 80. There are no colours in a pipe, under `NO_COLOR`,
        or in a terminal that has none.
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

    @property
    def width(self) -> int:
        """How many columns there are."""
        return self.console.width

    def print(self, lines: Sequence[Text]) -> None:
        """Print lines, in one go, unless a file is printed: a closed pipe is `main`'s to handle."""
        from regard.view.terminal import print_lines

        if "-" not in self._files.values():
            with self.console.capture() as captured:
                print_lines(lines, self.console)
            print(captured.get(), end="")

    def write(self, name: str, content: Callable[[], str]) -> None:
        """Write the file of an option, if it was given, and say so on standard error."""
        from regard._files import write_text

        path = self._files.get(name)
        if path == "-":
            print(content(), end="")
        elif path is not None:
            text = content()
            with writing(path):
                write_text(path, text)
            print(f"Wrote {path}", file=sys.stderr)

    def draw(self, lines: Sequence[Text], context: typer.Context, told: str = "") -> None:
        """Write lines as a picture of the terminal, below the command that was given; `told` says
        what is seen, for those who do not."""
        from regard.view import picture

        command = command_line(context.obj["arguments"], self._files)
        self.write("svg", lambda: picture(lines, self.width, command, told))


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


def check_figure(path: str) -> None:
    """Refuse before anything is measured what could not be written afterwards."""
    if Path(path).suffix.lower() not in (".svg", ".pdf", ".png"):
        raise BadInput(f"--figure must end in .svg, .pdf or .png; got {path!r}.")
    with writing(path):
        check_room(Path(path).resolve().parent)


def check_room(folder: Path) -> None:
    """Raise the OSError that writing a file there would."""
    from tempfile import TemporaryFile

    TemporaryFile(dir=folder).close()


def command_line(arguments: Sequence[str], files: Iterable[str]) -> str:
    """The command as it may be typed again, without the options that name files to write.

    >>> print(command_line(["explain", "I love", "--svg", "picture.svg"], ["svg"]))
    regard explain "I love"
    """
    written = tuple(f"--{name}" for name in files)
    shown: list[str] = []
    skip = False
    for argument in arguments:
        if not skip and not argument.startswith(written):
            shown.append(argument)
        skip = argument in written
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
