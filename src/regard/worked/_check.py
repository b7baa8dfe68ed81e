"""`check`: is a worked example right? `fix_text`: the same text with its numbers put right."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from regard._collector import uncollected
from regard.worked.assemble import assemble
from regard.worked.equations import Equation, judge_equalities
from regard.worked.judged import Cell, Judged
from regard.worked.links import Link, links
from regard.worked.softmaxes import softmaxes
from regard.worked.verdict import judge, settle
from regard.written.figures import Figure
from regard.written.found import Claim
from regard.written.notebooks import is_notebook
from regard.written.read import read_document
from regard.written.sayings import sayings
from regard.written.source import Source, Unreadable, read_source

# What is computed, and may be made of a matrix without a name.
_MADE = ("scores", "scaled", "weights", "head_output", "concatenated", "output")
_MOST_ROUNDS = 24  # there are ten steps, and each may have to wait for the one before

__all__ = ["Report", "check", "check_text", "fix_text"]


@dataclass
class Report:
    """What `check` found: equations, exercises with their verdicts, and what could not be told."""

    source: Source
    taken_as: Mapping[str, str] = field(default_factory=dict)
    exercises: list[Judged] = field(default_factory=list)
    equations: list[Equation] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    questions: list[str] = field(default_factory=list)
    remarks: list[str] = field(default_factory=list)
    passed_over: list[tuple[int, str]] = field(default_factory=list)  # lines, and what is there
    claims: list[Claim] = field(default_factory=list)  # wrong whatever the numbers are
    unnamed: dict[int, str] = field(default_factory=dict)  # questions that need no answer, by line

    @cached_property
    def of_steps(self) -> set[int]:
        """Where the figures stand that a step of an exercise gives."""
        return {
            figure.start
            for judged in self.exercises
            for figure, _ in judged.computed()
            if figure.start not in judged.unchecked
        }

    @cached_property
    def equation_cells(self) -> list[Cell]:
        """What does not follow within its own equation, or by the numbers before it."""
        told = self.of_steps | {c.figure.start for judged in self.exercises for c in judged.wrong}
        cells: list[Cell] = []
        for statement in (*self.equations, *self.links):
            text = statement.text
            title = text if len(text) <= 48 else f"{text[:23]}…{text[-24:]}"
            for figure, right in statement.wrong:
                if figure.start not in told:
                    told.add(figure.start)
                    line = self.source.line(figure.start)
                    cells.append(Cell(figure, line, right, statement.cause, title=title))
        return cells

    @property
    def wrong(self) -> list[Cell]:
        return [c for judged in self.exercises for c in judged.wrong] + self.equation_cells

    @property
    def wrong_claims(self) -> int:
        in_steps = [claim for judged in self.exercises for claim in judged.claims]
        return sum(not claim.is_right for claim in (*in_steps, *self.claims))

    @property
    def checked(self) -> int:
        in_steps = sum(judged.checked for judged in self.exercises)
        proven = (row for link in self.links if link.is_proof for row in link.value.rows)
        linked = sum(len(row) for row in proven if row[0].start not in self.of_steps)
        alone = sum(equation.checked for equation in self.equations) + len(self.claims)
        return in_steps + linked + alone

    @property
    def statements(self) -> int:
        """How many statements were checked: equations, computed matrices, claims."""
        given = sum(kind == "weights" for judged in self.exercises for kind, _ in judged.given)
        steps = sum(len(judged.exact) + len(judged.claims) for judged in self.exercises)
        alone = len(self.links) + len(self.claims) + sum(e.checked > 0 for e in self.equations)
        return given + steps + alone

    @property
    def exit_code(self) -> int:
        """0 something was checked and nothing is wrong, 1 something is, 2 nothing was checked."""
        if self.wrong or self.wrong_claims:
            return 1
        return 0 if self.checked else 2

    def to_json(self) -> str:
        """Everything, for other programs."""
        content = {
            "format": "regard.check",
            "version": 2,
            "file": self.source.name,
            "verdict": ("right", "wrong", "unclear")[self.exit_code],
            "checked": self.checked,
            "statements": self.statements,
            "not_understood": [{"line": line, "what": what} for line, what in self.passed_over],
            "questions": self.questions,
            "remarks": self.remarks,
            "claims": [_plain_claim(claim) for claim in self.claims],
            "equations": [_plain_cell(cell) for cell in self.equation_cells],
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


@uncollected
def _check(source: Source, taken_as: Mapping[str, str]) -> Report:
    found = read_document(source)
    by_numbers = links(found.values) if found.is_prose else []
    wrong = (each for link in by_numbers for each in link.wrong)
    equations = [e for e in judge_equalities(found.equations, wrong) if e.checked or e.doubt]
    exercises, questions, unnamed = assemble(source, found, taken_as)
    for exercise in exercises:
        exercise.by_program = is_notebook(source)
    judged = [judge(source, exercise) for exercise in exercises]
    told = {f.start for link in by_numbers if link.is_proof for f in link.value.figures}
    told |= {f.start for e in equations for f in (*e.right, *(f for f, _ in e.wrong))}
    by_numbers += softmaxes(source, found, told) if found.is_prose else []
    judged = settle(source, judged, equations, by_numbers)
    report = Report(source, taken_as, judged, equations, by_numbers, questions, found.remarks)
    report.claims = sayings(source, found.lines, _sums_to_one(judged))
    report.questions += [question for judged in report.exercises for question in judged.questions]
    right = report.of_steps - {cell.figure.start for each in judged for cell in each.wrong}
    report.remarks += [
        f"Line {source.line(equation.start)}: the sides of “{equation.text[:60]}” do not agree, "
        "though its result is right: is a factor misprinted?"
        for equation in equations
        if any(figure.start in right for figure, _ in equation.wrong)
    ]
    lacking = any(kind in _MADE for judged in report.exercises for kind, _ in judged.given)
    if lacking or not report.checked:
        report.questions[:0] = [question for _, question in unnamed]
    else:
        report.unnamed = dict(unnamed)
    passed_over = [(source.line(start), what) for start, what in found.passed_over]
    passed_over += [
        (source.line(e.start), f"{e.text[:60]}: {e.doubt}") for e in equations if e.doubt
    ]
    passed_over += [(line, "a matrix without a name") for line in report.unnamed]
    report.passed_over = sorted(set(passed_over))
    if not report.checked and not report.questions:
        matrices = [m for e in exercises for m in e.matrices.values()]
        names = ", ".join(dict.fromkeys(matrix.symbol for matrix in matrices))
        only = f"only {names}, and no step after them" if names else "no number that follows"
        report.questions.append(f"There is nothing to check: {only}.")
    return report


def _sums_to_one(judged: list[Judged]) -> bool:
    """Whether the rows of a printed output sum to 1."""
    matrices = [matrix for each in judged for matrix in each.exercise.matrices.values()]
    outputs = [m for m in matrices if m.kind in ("head_output", "output", "concatenated")]
    return any(all(abs(total - 1) <= slack for total, slack in m.row_sums) for m in outputs)


def fix_text(report: Report) -> str:
    """The text with every wrong number recomputed from the inputs, in the digits it was printed in.

    A number that is within reach of the inputs stays, even if another rounding would be closer;
    what follows from it is recomputed from it as printed. Where the numbers that stay do not agree
    with one another, all that is computed is recomputed in full. Numbers that nothing produces
    (given weights that do not sum to 1) stay: there is nothing to recompute them from.
    """
    text = report.source.text
    for _ in range(_MOST_ROUNDS):
        claims = [claim for judged in report.exercises for claim in judged.claims]
        changes = [(c.figure, c.right) for c in claims if c.figure is not None and not c.is_right]
        # From the start of the chain: what is made of wrong numbers waits until they are right.
        wrong = [cell for judged in report.exercises for cell in judged.wrong]
        changes += _put_right([cell for cell in wrong if not cell.is_tainted])
        if wrong and not changes:
            # They are within reach, but not together: all that is computed, in full.
            changes = [
                (figure, new)
                for judged in report.exercises
                for figure, exact in judged.computed()
                if math.isfinite(figure.value) and (new := figure.like(exact)) != figure.text
            ]
        changes = changes or _put_right(report.equation_cells)
        if not changes:
            return report.source.mark + text
        text = _replaced(text, changes)
        report = _check(replace(report.source, text=text), report.taken_as)
    raise Unreadable(f"{report.source.name}: its numbers cannot be made to agree.")


def _put_right(cells: list[Cell]) -> list[tuple[Figure, str]]:
    return [(c.figure, c.right_text) for c in cells if c.right_text != c.figure.text]


def _replaced(text: str, changes: list[tuple[Figure, str]]) -> str:
    for figure, new in sorted(changes, key=lambda change: -change[0].start):
        # A column of figures stays a column: a shorter number is filled up on the left.
        before = text[: figure.start]
        wide = new.rjust(len(figure.text)) if re.search(r"\S {2,}$", before) else new
        text = before + wide + text[figure.end :]
    return text


def _plain_cell(cell: Cell) -> dict[str, Any]:
    same = ("kind", "name", "head", "line", "origin", "cause")
    return {key: getattr(cell, key) for key in same} | {
        "row": cell.row_label,
        "column": cell.column_label,
        "printed": cell.figure.text,
        "right": cell.right_text,
        "exact": cell.right if math.isfinite(cell.right) else str(cell.right),
        "from_inputs": "right" if cell.from_inputs else "wrong",
        "from_step": "follows" if cell.from_step else "does not follow",
    }


def _plain_claim(claim: Claim) -> dict[str, Any]:
    return {key: getattr(claim, key) for key in ("about", "printed", "right", "is_right", "line")}


def _plain(judged: Judged) -> dict[str, Any]:
    matrices = [
        {key: getattr(matrix, key) for key in ("kind", "symbol", "head", "called", "line", "shape")}
        | {"given": matrix.key in judged.given}
        for matrix in judged.exercise.matrices.values()
    ]
    return {
        "tokens": judged.exercise.tokens,
        "matrices": matrices,
        "cells": [
            _plain_cell(c)
            | {"inherited_from": judged.inherit_from(c.kind, c.head) * (c.origin == "inherited")}
            for c in judged.cells
        ],
        "claims": [_plain_claim(claim) for claim in judged.claims],
        "remarks": judged.remarks,
    }
