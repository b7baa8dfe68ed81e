"""What a page asks, and whether each part of it is what it must be."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request


class Question(dict[str, Any]):
    """The JSON object of a request, by the names of its parts. Each of its methods raises
    ValueError, which says what a part must be.

    >>> Question(heads=3).number("heads", 2, most=64)
    3
    >>> Question(causal=1).flag("causal", False)
    Traceback (most recent call last):
    ValueError: causal must be true or false.
    """

    @classmethod
    async def of(cls, request: Request) -> Question:
        """The question of a request: JSON, in Unicode, with finite numbers."""
        if request.headers.get("content-type", "").partition(";")[0] != "application/json":
            raise ValueError("A question must be JSON.")
        raw = await request.body()
        try:
            body = json.loads(raw)
            json.dumps(body, ensure_ascii=False, allow_nan=False).encode()
        except UnicodeEncodeError:
            raise ValueError(
                "A question must be Unicode: it has half of a surrogate pair."
            ) from None
        except (ValueError, RecursionError):
            body = None
        if not isinstance(body, dict):
            raise ValueError("A question must be a JSON object, with finite numbers.")
        return cls(body)

    def text(self, name: str, refusal: str, *, most: int | None = None) -> str:
        """A text that is not empty; `refusal` says what is missing."""
        value = self.get(name)
        if not isinstance(value, str) or not value.strip():
            raise ValueError(refusal)
        if most is not None and len(value) > most:
            raise ValueError(f"A {name} may have {most:,} characters.")
        return value

    def flag(self, name: str, otherwise: bool) -> bool:
        value = self.get(name, otherwise)
        if not isinstance(value, bool):
            raise ValueError(f"{name} must be true or false.")
        return value

    def number(self, name: str, otherwise: int, *, most: int) -> int:
        value = self.get(name, otherwise)
        if type(value) is not int or not 0 <= value <= most:
            raise ValueError(f"{name} must be a whole number up to {most}.")
        return value

    def choice(self, name: str, choices: tuple[str, ...], otherwise: str) -> str:
        value = self.get(name, otherwise)
        if value not in choices:
            raise ValueError(f"{name} must be {' or '.join(choices)}.")
        return value

    def texts(self, name: str, refusal: str) -> list[str]:
        """Several texts, at least one."""
        value = self.get(name)
        if not isinstance(value, list) or not all(isinstance(each, str) for each in value):
            raise ValueError(refusal)
        return value

    def names(self, name: str) -> dict[str, str]:
        """Short texts by name; none unless given."""
        value = self.get(name, {})
        if not isinstance(value, dict) or not all(
            isinstance(text, str) and max(len(key), len(text)) <= 200 for key, text in value.items()
        ):
            raise ValueError(f"{name} must be an object of short texts.")
        return value

    def heads(self, name: str) -> dict[int, list[int]]:
        """The heads of each layer, of pairs [layer, head]."""
        value = self.get(name)
        found: dict[int, list[int]] = {}
        for pair in value if isinstance(value, list) and value else [None]:
            if not isinstance(pair, list) or [type(x) for x in pair] != [int, int]:
                raise ValueError("Heads to ablate are pairs of a layer and a head.")
            found.setdefault(pair[0], []).append(pair[1])
        return found
