"""Explain and check for the studio: small, and without torch."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from regard.studio.checker import Checker

_MOST_NUMBERS = 400_000  # of all steps together: more is no page to look at


def examples() -> list[dict[str, str]]:
    """The worked examples by name and title."""
    from regard.worked import EXAMPLES, example

    return [{"name": name, "title": example(name).title} for name in EXAMPLES]


def explain(asked: dict[str, Any]) -> dict[str, Any]:
    """A trace as JSON: of a text, a worked example, or of X and matrices that were edited.

    `asked`: `text` or `example`; `causal`, `scale`, `positions`, `heads`, `width`, `seed`; and, if
    the reader has edited them, `edited`: `X`, `W_Q`, `W_K`, `W_V`, `W_O`. Raises ValueError.
    """
    settings: dict[str, Any] = {
        "causal": _flag(asked, "causal", False),
        "scale": _flag(asked, "scale", True),
        "positions": asked.get("positions", "none"),
    }
    if settings["positions"] not in ("none", "sinusoidal"):
        raise ValueError("positions must be none or sinusoidal.")
    edited = asked.get("edited")
    if edited is not None:
        trace = _edited(asked, edited, settings)
    elif asked.get("example") is not None:
        from regard.worked import EXAMPLES, example

        if asked["example"] not in EXAMPLES:
            raise ValueError(f"There are the examples {', '.join(EXAMPLES)}.")
        trace = example(asked["example"]).trace(**settings)
    else:
        trace = _of_text(asked, settings)
    return json.loads(trace.to_json())


def _of_text(asked: dict[str, Any], settings: dict[str, Any]) -> Any:
    from regard._trace import trace
    from regard.text import tokenize

    text = asked.get("text")
    if not isinstance(text, str):
        raise ValueError("Write a sentence, or choose an example.")
    heads, width = _number(asked, "heads", 2, 64), _number(asked, "width", 4, 512)
    n = len(tokenize(text))
    if n * width * 5 + heads * n * n * 3 > _MOST_NUMBERS:
        raise ValueError(f"{n} words are too many for a page of numbers: take fewer.")
    return trace(text, heads=heads, width=width, seed=_number(asked, "seed", 0, 2**31), **settings)


def _edited(asked: dict[str, Any], edited: Any, settings: dict[str, Any]) -> Any:
    from regard._trace import Projections, Trace

    if not isinstance(edited, dict) or not {"X", "W_Q", "W_K", "W_V"} <= edited.keys():
        raise ValueError("What was edited must have X, W_Q, W_K and W_V.")
    arrays = {name: _array(name, edited[name]) for name in edited if edited[name] is not None}
    tokens = asked.get("tokens")
    if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
        raise ValueError("The tokens must be texts.")
    heads = len(arrays["W_Q"]) if arrays["W_Q"].ndim == 3 else 1
    # Scores, scaled and as weights, of each head; and what each makes of X.
    made = 3 * heads * len(tokens) ** 2 + len(tokens) * sum(
        len(x.T) * heads for x in arrays.values()
    )
    if sum(array.size for array in arrays.values()) + made > _MOST_NUMBERS:
        raise ValueError("These are too many numbers for a page.")
    projections = Projections(
        arrays["W_Q"], arrays["W_K"], arrays["W_V"], arrays.get("W_O"), arrays.get("given_heads")
    )
    return Trace.build(
        tokens=tokens,
        embeddings=arrays["X"],
        projections=projections,
        title=str(asked.get("title", "")),
        note="The numbers were edited.",
        **settings,
    )


def _array(name: str, nested: Any) -> Any:
    try:
        array = np.array(nested, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} must be a matrix of numbers.") from error
    if array.ndim not in (2, 3) or not np.isfinite(array).all():
        raise ValueError(f"{name} must be a matrix of finite numbers.")
    return array


def _flag(asked: dict[str, Any], name: str, otherwise: bool) -> bool:
    value = asked.get(name, otherwise)
    if not isinstance(value, bool):
        raise ValueError(f"{name} must be true or false.")
    return value


def _number(asked: dict[str, Any], name: str, otherwise: int, most: int) -> int:
    value = asked.get(name, otherwise)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= most:
        raise ValueError(f"{name} must be a whole number up to {most}.")
    return value


def check(checker: Checker, asked: dict[str, Any]) -> dict[str, Any]:
    """What `regard check` finds in a text: its report as JSON, and the wrong places of the text.

    Raises ValueError, also for a text that cannot be read, or takes too long.
    """
    text, name = asked.get("text"), asked.get("name", "text")
    if not isinstance(text, str) or not text.strip():
        raise ValueError("Paste a worked example: matrices of numbers with their names.")
    if not isinstance(name, str) or len(name) > 200:
        raise ValueError("The name must be a short text.")
    if any("\ud800" <= character <= "\udfff" for character in text + name):
        raise ValueError("The text must be Unicode: there is half of a surrogate pair in it.")
    return checker.check(text, name)
