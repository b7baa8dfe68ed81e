"""Documents that are cut, mixed and damaged: read within seconds or refused in words."""

from __future__ import annotations

import contextlib
import re
import tempfile
from pathlib import Path
from random import Random

from fuzz.test_check import PARTS
from helpers.slides import pdf, pptx
from helpers.soak import attacks
from helpers.time_limit import within
from worked.forms import FORMATS
from worked.printing import made_up

from regard.worked import Report, Unreadable, check, check_text

SECONDS = 10
NAMES = ["a.md", "a.txt", "a.tex", "a.html", "a.ipynb", "a.json", "a.toml", "a.csv", "text"]


def written(choose: Random) -> tuple[str, str]:
    """An example in one of the forms, and the name of its file."""
    write, name = FORMATS[choose.choice(sorted(FORMATS))]
    return write(made_up(choose.choice, kinds=("self", "causal", "cross"))), name


def span(choose: Random, text: str) -> tuple[int, int]:
    start = choose.randint(0, len(text))
    return start, min(len(text), start + choose.choice([1, 2, 7, 40, 300]))


def damaged(choose: Random, text: str, other: str) -> str:
    """The text with one thing done to it."""
    a, b = span(choose, text)
    damage = choose.randint(0, 9)
    if damage == 0:
        return text[:a]
    if damage == 1:
        return text[a:]
    if damage == 2:
        return text[:a] + text[b:]
    if damage == 3:
        return text[:b] + text[a:b] * choose.choice([1, 2, 50]) + text[b:]
    if damage == 4:
        c, d = span(choose, other)
        return text[:a] + other[c:d] + text[b:]
    if damage == 5:
        return text[:a] + "".join(choose.choices(PARTS, k=choose.randint(1, 9))) + text[a:]
    if damage == 6:  # line by line from both
        one, two = text.splitlines(True), other.splitlines(True)
        lines = [choose.choice(pair) for pair in zip(one, two, strict=False)]
        return "".join([*lines, *one[len(two) :]])
    if damage == 7:
        return text[:a] + text[a:b][::-1] + text[b:]
    if damage == 8:
        mark = choose.choice("[](){}|&\\$\n=,;:.- \t0")
        return text.replace(mark, choose.choice(PARTS), choose.randint(1, 50))
    return (
        "".join(
            chr(choose.choice([choose.randint(1, 0x2FF), choose.randint(0x370, 0xD7FF)]))
            for _ in range(300)
        )
        + text[a:]
    )


def document(choose: Random) -> tuple[str, str]:
    """A document to which several things have happened."""
    text, name = written(choose)
    for _ in range(choose.randint(1, 6)):
        text = damaged(choose, text, written(choose)[0])[:60_000]
    return text, choose.choice([name, name, *NAMES])


def without_numbers(text: str) -> str:
    """The text with a letter for whatever is, or stands for, a number."""
    words = re.compile("inf|one|two|three|half|twice|first|second|third|identity", re.IGNORECASE)
    text = "".join("x" if letter.isnumeric() or letter == "∞" else letter for letter in text)
    return words.sub("x", text)


def read(text: str, name: str) -> Report | None:
    """What is found, or None where it is refused in one line."""
    with within(SECONDS, text):
        try:
            report = check_text(text, name)
            report.to_json()
        except Unreadable as error:
            refused = str(error)
        else:
            return report
    assert "\n" not in refused
    return None


def test_a_damaged_document_is_read_or_refused() -> None:
    for choose in attacks(100):
        read(*document(choose))


def test_nothing_is_accused_in_a_damaged_document_without_numbers() -> None:
    for choose in attacks(50):
        text, name = document(choose)
        report = read(without_numbers(text), name)
        assert report is None or not (report.wrong or report.wrong_claims), text


def test_a_damaged_file_is_read_or_refused() -> None:
    """Bytes that are lost or others, in slides too."""
    with tempfile.TemporaryDirectory() as folder:
        for choose in attacks(30):
            text, name = written(choose)
            kinds = {name: text.encode(), "a.pdf": pdf(text), "a.pptx": pptx(text)}
            name = choose.choice(sorted(kinds))
            content = bytearray(kinds[name])
            for _ in range(choose.randint(1, 20)):
                content[choose.randrange(len(content))] = choose.randrange(256)
            if choose.random() < 0.5:
                del content[choose.randrange(len(content)) :]
            path = Path(folder, name)
            path.write_bytes(content)
            with within(SECONDS, name), contextlib.suppress(Unreadable):
                check(path).to_json()
