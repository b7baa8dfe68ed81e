"""JSON objects that came from elsewhere: of a sane size, in UTF-8, no key twice."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from regard._checkpoint.errors import CheckpointError, plain

__all__ = ["parse_object", "read_bytes", "read_object"]


class _Twice(ValueError):
    """A key that stands twice in one object."""


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found:
            raise _Twice(key)
        found[key] = value
    return found


def parse_object(content: bytes, file: str | Path, what: str = "be") -> dict[str, Any]:
    """The JSON object in `content`; `file` is its name in an error.

    >>> parse_object(b'{"a": 1}', "config.json")
    {'a': 1}
    >>> parse_object(b'{"a": 1, "a": 2}', "config.json")
    Traceback (most recent call last):
    regard._checkpoint.errors.CheckpointError: load(): config.json must be a JSON object with each
    key once; got 'a' twice. Remove one of the two.
    """
    again = "Copy the file again from where it came from."
    try:
        found = json.loads(content.decode("utf-8"), object_pairs_hook=_unique)
    except _Twice as error:
        raise CheckpointError(
            file,
            f"{what} a JSON object with each key once",
            f"'{plain(error)}' twice",
            "Remove one of the two.",
        ) from None
    except RecursionError:
        raise CheckpointError(
            file, f"{what} a JSON object", "one nested too deeply", again
        ) from None
    except ValueError as error:  # of JSON, UTF-8, or a number with thousands of digits
        raise CheckpointError(
            file, f"{what} a JSON object in UTF-8", f"something else ({plain(error)})", again
        ) from None
    if not isinstance(found, dict):
        kind = {"list": "an array", "str": "a string", "NoneType": "null", "bool": "true or false"}
        name = kind.get(type(found).__name__, "a number")
        raise CheckpointError(file, f"{what} a JSON object", name, again)
    return found


def read_object(path: Path, limit: int) -> dict[str, Any]:
    """The JSON object in a file of at most `limit` bytes.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "config.json")
    ...     _ = path.write_text('{"model_type": "bert"}')
    ...     read_object(path, limit=1000)
    {'model_type': 'bert'}
    """
    return parse_object(read_bytes(path, limit), path)


def read_bytes(path: Path, limit: int) -> bytes:
    """What is in a file of at most `limit` bytes.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "tokenizer.json")
    ...     _ = path.write_text("{}")
    ...     read_bytes(path, limit=1000)
    b'{}'
    """
    try:
        with path.open("rb") as file:
            content = file.read(limit + 1)
    except OSError as error:
        raise CheckpointError(
            path, "be readable", str(error.strerror or error), "Check its permissions."
        ) from error
    if len(content) > limit:
        raise CheckpointError(
            path, f"have at most {limit:,} bytes", "more", "Is it the file that it says it is?"
        )
    return content
