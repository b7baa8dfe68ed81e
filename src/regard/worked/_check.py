"""`check`: is a worked example right? `fix_text`: the same text with its numbers put right."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from regard.worked.assemble import assemble
from regard.worked.cell import Cell
from regard.worked.figures import Figure
from regard.worked.read_structured import is_structured, read_structured
from regard.worked.read_text import read_text
from regard.worked.source import PROSE_LIMIT, Source, Unreadable, read_source
from regard.worked.verdict import Judged, judge

_MOST_ROUNDS = 24  # there are ten steps, and each may have to wait for the one before

__all__ = ["Report", "check", "check_text", "fix_text"]


@dataclass
class Report:
    """What `check` found: the exercises with their verdicts, and questions about the rest."""

    source: Source
    taken_as: Mapping[str, str] = field(default_factory=dict)
    exercises: list[Judged] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)

    @property
    def wrong(self) -> list[Cell]:
        return [cell for judged in self.exercises for cell in judged.wrong]

    @property
    def wrong_claims(self) -> int:
        return sum(not claim.is_right for judged in self.exercises for claim in judged.claims)

    @property
    def checked(self) -> int:
        return sum(judged.checked for judged in self.exercises)

    @property
    def exit_code(self) -> int:
        """0 all right, 1 something is wrong, 2 something could not be told."""
        if self.wrong or self.wrong_claims:
            return 1
        return 2 if self.questions else 0

    def to_json(self) -> str:
        """Everything, for other programs."""
        content = {
            "format": "regard.check",
            "version": 1,
            "file": self.source.name,
            "verdict": ("right", "wrong", "unclear")[self.exit_code],
            "checked": self.checked,
            "questions": self.questions,
            "exercises": [_plain(judged) for judged in self.exercises],
        }
        return json.dumps(content, ensure_ascii=False, indent=1, allow_nan=False)


def check(path: str | Path, taken_as: Mapping[str, str] | None = None) -> Report:
    """Check the worked example in a file. Raises `Unreadable` where it cannot be read.

    `taken_as` says what a matrix is, where its name does not: {"Raw matrix": "scores"}, or by its
    line {"12": "K"}; "ignore" leaves it out.
    """
    return _check(read_source(path), taken_as or {})


def check_text(text: str, name: str = "text", taken_as: Mapping[str, str] | None = None) -> Report:
    r"""Check a worked example in a string. The end of `name` (.json, .toml) tells its format.

    >>> report = check_text("Q = [[2, 3, 4, 1]]\nK = [[1, 0, 1, 0], [0, 1, 0, 1]]\nS = [[6, 5]]")
    >>> [(cell.name, cell.figure.text, cell.right_text) for cell in report.wrong]
    [('scores[1, 2]', '5', '4')]
    """
    return _check(Source.of(name, text), taken_as or {})


def _check(source: Source, taken_as: Mapping[str, str]) -> Report:
    structured = is_structured(source)
    if not structured and len(source.text) > PROSE_LIMIT:
        raise Unreadable(
            f"{source.name} has over {PROSE_LIMIT:,} characters, which no worked example "
            "has: not read."
        )
    found = read_structured(source) if structured else read_text(source)
    if not found.blocks:
        raise Unreadable(f"There is no matrix of numbers in {source.name}.")
    exercises, questions = assemble(source, found, taken_as)
    report = Report(source, taken_as, questions=questions)
    for exercise in exercises:
        try:
            report.exercises.append(judge(source, exercise))
        except Unreadable as error:
            raise Unreadable(f"{source.name}: {error}") from None
    if not any(exercise.matrices for exercise in exercises) and not questions:
        raise Unreadable(f"Nothing is left to check in {source.name}: everything is to be ignored.")
    report.questions += [question for judged in report.exercises for question in judged.questions]
    if not report.checked and not report.questions:
        names = ", ".join(
            matrix.symbol
            for judged in report.exercises
            for matrix in judged.exercise.matrices.values()
        )
        report.questions.append(f"There is nothing to check: only {names}, and no step after them.")
    return report


def fix_text(report: Report) -> str:
    """The text with every wrong number recomputed from the inputs, in the digits it was printed in.

    A number that is within reach of the inputs stays, even if another rounding would be closer;
    what follows from it is recomputed from it as printed. Where the numbers that stay do not agree
    with one another, all that is computed is recomputed in full. Numbers that nothing produces
    (given weights that do not sum to 1) stay: there is nothing to recompute them from.
    """
    text = report.source.text
    for _ in range(_MOST_ROUNDS):
        changes = _claims_put_right(report)
        # From the start of the chain: what is made of wrong numbers waits until they are right.
        changes += [
            (cell.figure, cell.right_text)
            for cell in report.wrong
            if not cell.is_tainted and cell.right_text != cell.figure.text
        ]
        if not changes and report.wrong:
            changes = _recomputed(report)
        if not changes:
            return report.source.mark + text
        text = _replaced(text, changes)
        report = _check(replace(report.source, text=text), report.taken_as)
    raise Unreadable(f"{report.source.name}: its numbers cannot be made to agree.")


def _claims_put_right(report: Report) -> list[tuple[Figure, str]]:
    return [
        (claim.figure, claim.right)
        for judged in report.exercises
        for claim in judged.claims
        if claim.figure is not None and not claim.is_right
    ]


def _recomputed(report: Report) -> list[tuple[Figure, str]]:
    """Everything that is computed, in full: for numbers that are within reach, but not together."""
    return [
        (figure, figure.like(float(exact[cell])))
        for judged in report.exercises
        for key, exact in judged.exact.items()
        for cell, figures in judged.exercise.matrices[key].figures.items()
        for figure in figures
        if math.isfinite(figure.value) and figure.like(float(exact[cell])) != figure.text
    ]


def _replaced(text: str, changes: list[tuple[Figure, str]]) -> str:
    for figure, new in sorted(changes, key=lambda change: -change[0].start):
        # A column of figures stays a column: a shorter number is filled up on the left.
        pad = ""
        before = text[: figure.start]
        if re.search(r"\S {2,}$", before) and len(new) < len(figure.text):
            pad = " " * (len(figure.text) - len(new))
        text = before + pad + new + text[figure.end :]
    return text


def _plain(judged: Judged) -> dict[str, Any]:
    return {
        "tokens": judged.exercise.tokens,
        "matrices": [
            {
                "kind": matrix.kind,
                "symbol": matrix.symbol,
                "head": matrix.head,
                "called": matrix.called,
                "line": matrix.line,
                "shape": list(matrix.shape),
                "given": key in judged.given,
            }
            for key, matrix in judged.exercise.matrices.items()
        ],
        "cells": [
            {
                "kind": cell.kind,
                "head": cell.head,
                "row": cell.row_label,
                "column": cell.column_label,
                "line": cell.line,
                "printed": cell.figure.text,
                "right": cell.right_text,
                "exact": cell.right if math.isfinite(cell.right) else str(cell.right),
                "from_inputs": "right" if cell.from_inputs else "wrong",
                "from_step": "follows" if cell.from_step else "does not follow",
                "origin": cell.origin,
                "cause": cell.cause,
                "inherited_from": judged.inherit_from(cell.kind, cell.head)
                if cell.origin == "inherited"
                else [],
            }
            for cell in judged.cells
        ],
        "claims": [
            {
                "about": claim.about,
                "printed": claim.printed,
                "right": claim.right,
                "is_right": claim.is_right,
                "line": claim.line,
            }
            for claim in judged.claims
        ],
        "remarks": [remark.text for remark in judged.remarks],
    }
