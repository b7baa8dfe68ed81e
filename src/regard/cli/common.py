"""What the commands share: their options, what they read, and what is told and refused."""

from __future__ import annotations

import re
import sys
import threading
import time
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

_MOST_BYTES = 2**20


# ── what is asked for ─────────────────────────────────────────────────────────────────────────


def option(metavar: str | None, about: str, *names: str, **more: Any) -> Any:
    """An option of a command: what its value is called, and what it does."""
    return typer.Option(*names, metavar=metavar, help=about, **more)


def flag(name: str, about: str) -> Any:
    """An option that is given, or not."""
    return typer.Option(name, help=about)


Words = Annotated[list[str] | None, typer.Argument(metavar="TEXT", hidden=True)]
Svg = Annotated[str | None, option("FILE", "Write it as a picture; - prints it.")]
Html = Annotated[str | None, option("FILE", "Write a page to look at; - prints it.")]


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
    for name, called in options.items():
        message = re.sub(rf"^{name}(?= must )", called, message)
        message = re.sub(rf"\b{name}=(?=\w)", f"{called} ", message)
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
        found = re.match(r"(?:watch|load|edges|sql|train)\(\): ", str(warning.message))
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


@contextmanager
def waiting(
    show: Callable[[str], None] | None, every: float = 1.0
) -> Generator[Callable[[Callable[[float], str] | None], None]]:
    """What shows a line of something that takes its time, anew every second, made of the seconds so
    far; until it is given another one, or None.

    >>> with waiting(print) as say:
    ...     say(lambda seconds: f"loading, {seconds:.0f} s")
    ...     say(None)
    loading, 0 s
    """
    present: list[tuple[threading.Event, threading.Thread]] = []

    def tick(line: Callable[[float], str], over: threading.Event) -> None:
        start = time.monotonic()
        while show is not None and not over.wait(every):
            show(line(time.monotonic() - start))

    def say(line: Callable[[float], str] | None) -> None:
        while present:
            over, thread = present.pop()
            over.set()
            thread.join()
        if line is not None and show is not None:
            show(line(0.0))
            over = threading.Event()
            thread = threading.Thread(target=tick, args=(line, over), daemon=True)
            present.append((over, thread))
            thread.start()

    try:
        yield say
    finally:
        say(None)


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


def read_text(words: list[str] | None, file: str | None = None) -> str:
    """The text that the words are, or that a file holds; `-` is standard input.

    >>> read_text(["I", "love"])
    'I love'
    >>> read_text([" "])
    Traceback (most recent call last):
    regard.cli.common.BadInput: the text is empty: there is no word in it.
    """
    text = " ".join(words or ())
    if file is not None or text == "-":
        text = read_input(file or "-").removeprefix("\ufeff")
    name = "the text" if file is None else file
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise BadInput(f"{name} is not UTF-8.")
    if not text.strip():
        raise BadInput(f"{name} is empty: there is no word in it.")
    return text
