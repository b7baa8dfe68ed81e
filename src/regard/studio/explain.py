"""Explain for the studio: a trace of a sentence, an example, or of numbers that were edited."""

from __future__ import annotations

import json
from typing import Any

import numpy as np

from regard.studio.question import Question

_MOST_NUMBERS = 400_000  # of all steps together: more is no page to look at
_STAYS = " A head that is known by its output only stays as it is given."


def examples() -> list[dict[str, str]]:
    """The worked examples by name and title."""
    from regard.worked import EXAMPLES, example

    return [{"name": name, "title": example(name).title} for name in EXAMPLES]


def explain(asked: Question) -> dict[str, Any]:
    """A trace as JSON: of a text, a worked example, or of X and matrices that were edited.

    `asked`: `text` or `example`; `causal`, `scale`, `positions`, `heads`, `width`, `seed`; and, if
    the reader has edited them, `edited`: `X`, `W_Q`, `W_K`, `W_V`, `W_O`, and the `given_heads`,
    the outputs of heads that are known by their result only. Raises ValueError.
    """
    settings: dict[str, Any] = {
        "causal": asked.flag("causal", False),
        "scale": asked.flag("scale", True),
        "positions": asked.choice("positions", ("none", "sinusoidal"), "none"),
    }
    if asked.get("edited") is not None:
        trace = _edited(asked, settings)
    elif asked.get("example") is not None:
        from regard.worked import EXAMPLES, example

        if asked["example"] not in EXAMPLES:
            raise ValueError(f"There are the examples {', '.join(EXAMPLES)}.")
        trace = example(asked["example"]).trace(**settings)
    else:
        from regard._trace import trace as trace_text
        from regard.text import tokenize

        text = asked.text("text", "Write a sentence, or choose an example.")
        heads, width = asked.number("heads", 2, most=64), asked.number("width", 4, most=512)
        n = len(tokenize(text))
        if n * width * 5 + heads * n * n * 3 > _MOST_NUMBERS:
            raise ValueError(f"{n} words are too many for a page of numbers: take fewer.")
        seed = asked.number("seed", 0, most=2**31)
        trace = trace_text(text, heads=heads, width=width, seed=seed, **settings)
    return json.loads(trace.to_json())


def _edited(asked: Question, settings: dict[str, Any]) -> Any:
    from regard._trace import Projections, Trace

    edited = asked["edited"]
    given = edited if isinstance(edited, dict) else {}
    arrays = {name: _array(name, each) for name, each in given.items() if each is not None}
    if not {"X", "W_Q", "W_K", "W_V"} <= arrays.keys():
        raise ValueError("What was edited must have X, W_Q, W_K and W_V.")
    tokens = asked.texts("tokens", "The tokens must be texts.")
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
        note="The numbers were edited." + (_STAYS if "given_heads" in arrays else ""),
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
