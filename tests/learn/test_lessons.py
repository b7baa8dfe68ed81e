"""The course: lessons can be read, what they name exists, and their figures are right."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from helpers.figures_said import says_the_same_figures

from regard import reference
from regard.lab import LANGUAGES, NAMES
from regard.learn import LESSONS, lesson, lessons
from regard.learn.course import document, experiments
from regard.learn.lesson import read, runs
from regard.worked import example

# The example of the notes: X, and the matrices of head 1.
X = np.array(
    [[1.0, 0.5, 0.2, 0.1], [0.9, 1.1, 0.1, 0.0], [0.1, 0.2, 1.0, 0.5], [0.0, 0.1, 0.4, 1.2]]
)
W_Q = np.array([[1, 0], [0, 1], [1, 0], [0, 1]])
W_K = np.array([[1, 0], [0, 1], [0, 1], [1, 0]])
PRINTED_K = np.array([[1.2, 0.6], [0.9, 1.1], [0.7, 0.7], [1.3, 0.3]])


def _text(block: Any) -> str:
    """Everything that a block says."""
    if isinstance(block, dict):
        return " ".join(_text(value) for value in block.values())
    if isinstance(block, list):
        return " ".join(map(_text, block))
    return str(block)


def _table(name: str, heading: str, language: str = "en") -> list[list[str]]:
    """The rows of the first table below a heading that begins so."""
    blocks = lesson(name, language).blocks
    start = next(
        n for n, b in enumerate(blocks) if b["kind"] == "heading" and heading in _text(b["runs"])
    )
    found = next(b for b in blocks[start:] if b["kind"] == "table")
    return [["".join(run["text"] for run in cell) for cell in row] for row in found["rows"]]


@pytest.mark.parametrize("language", LANGUAGES)
@pytest.mark.parametrize("name", LESSONS)
def test_a_lesson_is_read_with_live_pictures_and_questions(name: str, language: str) -> None:
    found = lesson(name, language)
    kinds = [block["kind"] for block in found.blocks]
    assert found.title
    assert 2 <= kinds.count("question") + kinds.count("lab") <= 8
    assert kinds.count("question") >= 2
    assert {"flow", "try", "lab"} & set(kinds)
    for block in found.blocks:
        if block["kind"] == "question":
            assert 2 <= len(block["answers"]) <= 4
            assert all(each["why"] for each in block["answers"])


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_language_has_the_same_live_blocks(language: str) -> None:
    def alive(one: Any) -> list[Any]:
        kept = []
        for block in one.blocks:
            if block["kind"] in ("flow", "steps", "lab", "try"):
                kept.append({k: v for k, v in block.items() if k not in ("caption", "words")})
            elif block["kind"] == "question":
                kept.append([each["right"] for each in block["answers"]])
        return kept

    for name in LESSONS:
        assert alive(lesson(name, language)) == alive(lesson(name)), name


@pytest.mark.parametrize("language", LANGUAGES[1:])
@pytest.mark.parametrize("name", LESSONS)
def test_every_language_says_the_same_figures_block_by_block(name: str, language: str) -> None:
    english, other = lesson(name).blocks, lesson(name, language).blocks
    assert [block["kind"] for block in english] == [block["kind"] for block in other]
    for one, another in zip(english, other, strict=True):
        assert says_the_same_figures(_text(one), _text(another)), (one, another)


def test_every_experiment_has_its_place_in_the_course() -> None:
    assert set(experiments(lessons())) == set(NAMES)


def test_what_lessons_show_exists() -> None:
    for found in lessons():
        for block in found.blocks:
            if block["kind"] in ("flow", "steps"):
                trace = example(block["example"]).trace()
                assert block.get("step", "input") in trace.steps, (found.name, block)
        made = document(found, {})
        assert set(made["traces"]) == set(found.uses("flow", "example"))
        assert [each["name"] for each in made["lessons"]] == list(LESSONS)


def test_the_table_of_keys_has_what_was_printed_and_what_is_right() -> None:
    rows = _table("roles", "What the notes printed")
    printed = np.array([[float(x) for x in row[1].split()] for row in rows])
    right = np.array([[float(x) for x in row[2].split()] for row in rows])
    assert np.array_equal(printed, PRINTED_K)
    assert np.abs(right - X @ W_K).max() < 1e-12
    assert (np.abs(printed - right) > 1e-9).sum() == 7
    assert "Seven of the eight" in _text(list(lesson("roles").blocks))


def test_the_table_of_scores_has_the_two_that_do_not_follow_from_what_was_printed() -> None:
    words = ["I", "love", "apple", "phones"]
    q = X @ W_Q
    for name, printed, from_printed, right in _table("scores", "What the notes printed"):
        row, column = (words.index(word) for word in name.split(" · "))
        assert float(from_printed) == pytest.approx(q[row] @ PRINTED_K[column])
        assert float(right) == pytest.approx((q @ (X @ W_K).T)[row, column])
        assert abs(float(printed) - float(from_printed)) > 0.1


def test_the_output_of_the_is_impossible_as_printed_and_right_as_told() -> None:
    x = np.array([[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]])
    weights = reference.attention(x, x, x).weights[0]
    twice = weights @ x + weights[2] * x[2]
    printed, right, added = (
        [float(cell) for cell in row[1:]] for row in _table("output", "What the notes")
    )
    assert np.allclose(right, weights @ x, atol=5e-5)
    assert np.allclose(added, twice, atol=5e-5)
    assert np.allclose(printed, twice, atol=2e-4)
    assert max(printed) > x.max()


def test_the_scores_that_are_divided_give_the_weights_that_are_told() -> None:
    scores = np.array([6.0, 4.0])
    assert reference.softmax(scores).round(2).tolist() == [0.88, 0.12]
    assert reference.softmax(scores / 2).round(2).tolist() == [0.73, 0.27]
    told = _text(list(lesson("softmax").blocks))
    assert "0.88 and 0.12" in told
    assert "0.73 and 0.27" in told


@pytest.mark.parametrize("name", LESSONS)
def test_products_that_a_lesson_writes_out_come_to_what_it_says(name: str) -> None:
    """`0.4·1.3 + 1.3·0.3 = 0.91`, wherever it stands."""
    text = _text(list(lesson(name).blocks))
    found = re.findall(
        r"((?:\d[\d.]*·\d[\d.]*)(?: \+ \d[\d.]*·\d[\d.]*)+)(?: = [\d.]+ \+ [\d.]+)? = ([\d.]+)",
        text,
    )
    for products, result in found:
        value = sum(
            np.prod([float(x.rstrip(".")) for x in each.split("·")])
            for each in products.split(" + ")
        )
        assert value == pytest.approx(float(result.rstrip(".,;"))), products
    if name in ("roles", "scores"):
        assert found


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("no title", "must begin with a title"),
        ("# T\n\n```film\n```\n", "a block must be flow, steps, lab, try, question; got 'film'"),
        ("# T\n\n```lab\nname = 1\n```\n", "a block lab needs experiment; got name"),
        ('# T\n\n```question\nask = "?"\nanswers = []\n```\n', "one answer must be right"),
        ("# T\n\n![a](b.png)\n", "image is not known in a line"),
        ("# T\n\n> quoted\n", "blockquote_open is not known"),
    ],
)
def test_a_lesson_that_a_page_could_not_show_is_refused(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        read("one", text)


def test_text_stays_text() -> None:
    assert runs("a <b>c</b> `x`")[-1] == {"text": "x", "style": "code"}
    assert "".join(run["text"] for run in runs("a <b>c</b>")) == "a <b>c</b>"


def test_what_is_not_there_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match=r"there must be a lesson of that name \(why, "):
        lesson("gravity")
    with pytest.raises(ValueError, match="language must be one of en"):
        lesson("why", "xx")
