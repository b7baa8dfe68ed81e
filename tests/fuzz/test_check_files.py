"""Files of garbage, cut off and mixed: read within seconds, and nothing accused without numbers."""

from __future__ import annotations

import contextlib
import re
import time
from random import Random

from helpers.soak import attacks
from helpers.time_limit import within
from worked.forms import FORMATS
from worked.printing import made_up

from regard.worked import Unreadable, check_text

SLOW = 2  # seconds of processor time: how many take longer is printed
HANGS = 60  # seconds
LONGEST = 12_000  # characters
NAMES = ("a.md", "a.txt", "a.tex", "a.html", "a.ipynb", "a.json", "a.toml", "text")
LINES = (
    "The weights sum to 1, as softmax([2.0, 1.0]) = [0.73, 0.27] shows.",
    "T = 0.5: [0.88, 0.12]",
    "logits = [2.0, 1.0]",
    "Q = K = V = [[1, 0], [0, 1]]",
    "| Temperature | a | b |\n|---|---|---|\n| 0.5 | 0.88 | 0.12 |\n| 2.0 | 0.62 | 0.38 |",
    "output[0] = 0.73 * [1, 0] + 0.27 * [0, 1] = [0.73, 0.27]",
    '{"cells": [{"cell_type": "code", "source": ["A = softmax(S)\\n", "A"], "outputs": []}]}',
)


def a_document(choose: Random) -> str:
    """An example in one of the forms that are read, or some lines."""
    if choose.random() < 0.2:
        return "\n\n".join(choose.choice(LINES) for _ in range(choose.randint(1, 7)))
    return FORMATS[choose.choice(sorted(FORMATS))][0](made_up(choose.choice))


def a_file(choose: Random) -> str:
    """Garbage, a document that ends too soon or starts too late, or several in one another."""
    kind = choose.choice(("bytes", "cut", "mixed", "scrambled", "without numbers"))
    if kind == "bytes":
        return choose.randbytes(choose.randint(0, 2_000)).decode("utf-8", "replace")
    text = a_document(choose)
    if kind == "cut":
        start, end = sorted(choose.choices(range(len(text) + 1), k=2))
        return text[:end] if choose.random() < 0.5 else text[start:]
    if kind == "without numbers":
        return re.sub(r"\d|∞|inf", lambda _: choose.choice(["a", "x ", "—", ""]), text)
    if kind == "mixed":
        parts = [text, *(a_document(choose) for _ in range(choose.randint(1, 3)))]
        lines = [part.splitlines(keepends=True) for part in parts]
        at = choose.choice([1, 3, 20])
        return "".join("".join(own[k : k + at]) for k in range(0, 60, at) for own in lines)
    lines = text.splitlines(keepends=True)
    choose.shuffle(lines)
    return "".join(lines)


def test_any_file_is_read_or_refused_in_time_and_words_alone_are_never_accused() -> None:
    taken: list[float] = []
    for choose in attacks(100):
        text, name = a_file(choose)[:LONGEST], choose.choice(NAMES)
        start = time.process_time()
        with within(HANGS, text), contextlib.suppress(Unreadable):
            report = check_text(text, name)
            report.to_json()
            if not any(letter.isnumeric() for letter in text):
                assert not report.wrong, text
        taken.append(time.process_time() - start)
    slow = sum(seconds > SLOW for seconds in taken)
    print(f"{len(taken)} files, {slow} above {SLOW} s, the slowest {max(taken):.2f} s")
