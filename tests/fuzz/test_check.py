"""Whatever text is given to `check`, it is read within seconds, or refused in words."""

from __future__ import annotations

import contextlib
import json
from random import Random
from typing import Any

from helpers.soak import attacks
from helpers.time_limit import within

from regard.worked import Unreadable, check_text

LONGEST = 6_000  # characters
SECONDS = 10
PARTS = (
    *" \t\n()[]{}1=:|\\&#-−+$,;_*`>/·×^%√…é한\r\u00a0\u200b",
    *("0.5", "1 ", "1,", "1;", "= ", "||", "| 1 ", "| a ", "1 & ", "--", "$$", "[1]", "[1, 2]"),
    *("[[1, 2]]", "(1, 2)", "a_", "Q", "K = ", "x = ", "Q = [1, 2]\n", "q_a = [1, 2]\n", "**"),
    *("\\begin{bmatrix}", "\\end{bmatrix}", "\\begin{tabular}", "\\end{tabular}", "\\\\", "> "),
    *("\\begin{array}{c}", "\\approx", "\\to", "\\cdot", "\\left", "\\text{a}", "\\frac{1}{2}"),
    *('"a",', "'a'", '["a"', "// ", "→", "≈", "sqrt", "d_k = ", "d_k = 2\n", "1_", "1e", "e5"),
    *("1 %", "inf", "∞", "−inf", "∈", "R^{", "softmax(", "head 1", "Example 1\n", "## Step 2\n"),
    *("1. ", "- ", "ᵀ", "Q·K", "weights", "scores", "identity", "W_Q", "\r\n", "W_1\n", "1\t2\n"),
    *("| Q | K |\n|--|--|\n", "1 2\n", "a 1 2\n", "a,1,2\n", "divided by 1.41", "tokens"),
)
KEYS = (
    "Q",
    "K_{}",
    "q_{}",
    "x{}",
    "W_Q",
    "weights_{}",
    "scores{}",
    "tokens",
    "d_k",
    "head_{}",
    "z_{}",
)
VALUES: tuple[Any, ...] = (
    *([1, 2], [[1, 2], [3, 4]], [[1]], 1, "a", [["a"]], [[[1, 2], [3, 4]]], [], {}, None, True),
    *({"a": [1, 2], "b": [3, 4]}, {"Q": [[1, 2]]}, [{"Q": [[1]]}], [[1], [1, 2]], -1e400, "-inf"),
)


def some(choose: Random, most: int) -> str:
    return "".join(choose.choice(PARTS) for _ in range(choose.randint(0, most)))


def try_it(text: str, name: str) -> None:
    with within(SECONDS, text), contextlib.suppress(Unreadable):
        check_text(text, name).to_json()


def test_a_part_again_and_again_is_read_within_seconds() -> None:
    for choose in attacks(60):
        part = some(choose, 2) or " "
        text = some(choose, 3) + part * (LONGEST // len(part)) + some(choose, 2)
        try_it(text, choose.choice(["text", "a.md", "a.txt"]))


def test_any_mixture_is_read_or_refused() -> None:
    for choose in attacks(150):
        try_it(some(choose, 200), choose.choice(["text", "a.md", "a.json", "a.toml"]))


def test_any_json_and_toml_is_read_or_refused() -> None:
    for choose in attacks(40):
        kinds = [(choose.choice(KEYS), choose.choice(VALUES)) for _ in range(choose.randint(1, 3))]
        many = choose.choice([1, 2, 7, 300])
        content = {key.format(n): value for n in range(many) for key, value in kinds}
        try_it(json.dumps(content), "a.json")
        dots = ".".join(
            choose.choice(["a", "Q", '"x y"', "1"]) for _ in range(choose.randint(1, 50))
        )
        lines = [
            f"{key.format(n)} = {json.dumps(value)}" for n in range(many) for key, value in kinds
        ]
        try_it("\n".join([*lines, f"{dots} = [[1]]", f"[{dots}]", "K = [[2]]"]), "a.toml")
