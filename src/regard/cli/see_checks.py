"""What `regard see` refuses before any work is done: a query, a folder or a file that cannot be."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Generator
from pathlib import Path
from typing import TYPE_CHECKING

from regard.cli.common import BadInput
from regard.cli.reading import notes, plain_error

if TYPE_CHECKING:
    import pyarrow as pa

    from regard import Run


def check_query(query: str) -> None:
    """Refuse what is no SELECT, or asks for what no run has.

    >>> check_query("select first from heads")
    >>> check_query("drop table heads")
    Traceback (most recent call last):
    regard.cli.common.BadInput: --sql must be one SELECT; got 'drop table heads'. Runs are read, ...
    """
    from regard.run._sql import check_names

    with _in_words():
        check_names(query)


def ask(run: Run, query: str) -> pa.Table:
    """The answer of a run to a query, with values as JSON has them. Raises BadInput in the terms of
    --sql.

    >>> from regard import Run
    >>> ask(Run(), "select 1 as one").to_pylist()
    [{'one': 1}]
    """
    from regard.run._sql import ask as ask_run

    with _in_words(), notes():
        return ask_run({None: run}, query, None, stacklevel=2, as_plain=True)


@contextlib.contextmanager
def _in_words() -> Generator[None]:
    try:
        yield
    except (ImportError, MemoryError) as error:
        raise BadInput(plain_error(error).replace("memory=…", "LIMIT")) from error
    except ValueError as error:
        raise BadInput(_sql_error(error)) from error


def _sql_error(error: ValueError) -> str:
    if error.__context__ is None:
        return plain_error(error).replace("query must", "--sql must", 1)
    said = " ".join(str(error.__context__).partition("\n\nLINE ")[0].split())
    stop = "" if said.endswith((".", "!", "?")) else "."
    return (
        f"--sql must be a query that DuckDB can answer; {said}{stop} The tables are edges, heads, "
        "layers and tokens; regard see --help has their columns."
    )


def check_folder(folder: str) -> None:
    """Refuse a folder that a run cannot be kept in.

    >>> check_folder("no/such/folder/yet")
    >>> check_folder(__file__)
    Traceback (most recent call last):
    regard.cli.common.BadInput: ... must be a folder, or not be there; it is a file. Name another.
    """
    from regard.run.disk import check_target

    try:
        target = check_target(folder)
        _check_room(next(above for above in target.parents if above.exists()))
    except OSError as error:
        raise _not_writable(folder, error) from error
    except (ValueError, ImportError) as error:
        raise BadInput(plain_error(error)) from error


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
            _check_room(target.parent)
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        raise _not_writable(path, error) from error


def _check_room(folder: Path) -> None:
    """Raise the OSError that writing a file there would."""
    code = 0
    if not folder.exists():
        code = errno.ENOENT
    elif not folder.is_dir():
        code = errno.ENOTDIR
    elif not os.access(folder, os.W_OK | os.X_OK):
        code = errno.EACCES
    if code:
        raise OSError(code, os.strerror(code))


def _not_writable(path: str, error: OSError | ValueError) -> BadInput:
    return BadInput(f"cannot write {path}: {getattr(error, 'strerror', None) or error}.")
