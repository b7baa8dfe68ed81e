"""Texts that were made to take long, or to end in a crash: read at once, or refused in words."""

from __future__ import annotations

import contextlib
import json
import time

import pytest

from regard.worked import Unreadable, check_text

MATRIX = [[1, 2], [3, 4]]
EMOJI = {"cell_type": "code", "source": ["f()"], "outputs": [{"text": ["\U0001f600 1\n"]}]}
SLOW: dict[str, tuple[str, str]] = {
    "blanks": ("text", f"x ={' ' * 8_000}y"),
    "blanks that cannot be broken": ("text", "= " + "\u00a0" * 8_000 + "|"),
    "blanks in a cell": ("text", f"| a{' ' * 8_000}b | 1 |\n" * 3),
    "pipes": ("text", "| Q | K |\n|--|--|\n" * 470),
    "lines that are no table": ("text", "\n| a " * 1_600),
    "lists that are no table": ("text", "1;a,1,2\n" * 1_000),
    "examples": ("text", "Example 1\nq_a = [1, 2]\n" * 350),
    "keys of one matrix": ("a.json", json.dumps({f"q_{n}": [1, 2] for n in range(1_000)})),
    "keys of many heads": ("a.json", json.dumps({f"W_Q_{n}": MATRIX for n in range(500)})),
    "powers of powers": ("text", f"[1]{'^2' * 3_000}"),
    "outputs written in pairs of escapes": ("a.ipynb", json.dumps({"cells": [EMOJI] * 2_000})),
}


@pytest.mark.parametrize("name", SLOW)
def test_a_text_of_kilobytes_is_read_in_seconds(name: str) -> None:
    file, text = SLOW[name]
    start = time.process_time()
    with contextlib.suppress(Unreadable):
        check_text(text, file)
    assert time.process_time() - start < 8


@pytest.mark.parametrize(
    "text",
    [
        ".".join("a" * 2_000) + " = 1",
        "[" + ".".join("a" * 2_000) + "]\nQ = [[1]]",
        "[[" + ".".join("a" * 2_000) + "]]\nQ = [[1]]",
        "a = {" + ".".join("a" * 2_000) + " = 1}",
        "a = " + "{a.b.c = " * 400 + "1" + "}" * 400,
        "a = " + "[" * 2_000 + "]" * 2_000,
        '"a".' * 2_000 + "b = 1",
    ],
)
def test_toml_of_any_depth_is_refused_in_words(text: str) -> None:
    with pytest.raises(Unreadable, match="nested too deeply"):
        check_text(text, "a.toml")


def test_json_of_any_depth_is_refused_in_words() -> None:
    for text in ('{"a":' * 2_000 + "1" + "}" * 2_000, "[" * 10**5, "[" * 40 + "1" + "]" * 40):
        with pytest.raises(Unreadable):
            check_text(text, "a.json")


def test_dotted_keys_of_an_honest_depth_are_read() -> None:
    text = "[one.two.three]\nfour.Q = [[2, 1]]\nfour.K = [[3, 5]]\nfour.scores = [[11]]"
    assert check_text(text, "a.toml").exit_code == 0


@pytest.mark.parametrize("row", ["&", "&&", " & ", "\\\\", "&\\\\&"])
def test_a_table_without_cells_is_nothing_to_check(row: str) -> None:
    assert check_text(f"\\begin{{tabular}}{row}\\end{{tabular}}").exit_code == 2


@pytest.mark.parametrize("text", ["3\n+", "a = 3\n·", "[1, 2\n+]", "(3\n/)", "1 + 2 = 3\n-"])
def test_an_operator_that_ends_the_text_on_a_line_of_its_own_has_no_right_side(text: str) -> None:
    assert not check_text(text).wrong


def test_numbers_that_are_too_many_to_be_shared_by_all_examples_are_said_not_to_be() -> None:
    x = "\n".join(" ".join(f"{(7 * i + j) % 10 / 10}" for j in range(20)) for i in range(11))
    for n_examples in (3, 101):
        examples = "\n".join(f"Example {n}\n\nQ = [[1, 2]]\n" for n in range(n_examples))
        told = [r for r in check_text(f"X:\n\n{x}\n\n{examples}").remarks if "to be shared" in r]
        assert len(told) == (n_examples == 101), n_examples
        assert all("220 numbers" in remark and "101 examples" in remark for remark in told)
