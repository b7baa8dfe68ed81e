"""A report of `check` as the page shows it: each finding with its place in a line of the text."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any

from regard.worked import Report
from regard.worked.exercise import Matrix
from regard.worked.judged import Cell, Judged
from regard.written.found import Claim
from regard.written.names import SYMBOLS

__all__ = ["as_shown"]

# What the command is told by --as, the page is told by a menu in the line of the matrix.
_SAY_IT = re.compile(r" Say it with --as (\d+)=.*$")
_IN_THE_PAGE = [
    (_SAY_IT, ""),
    (re.compile(r", or say --as \d+=\S+$"), "."),
    (re.compile(r"--as (\d+)=… says it"), r"the menu in line \1 says what it is"),
    (re.compile(r"say so with --as (\d+)=…\.?"), r"say so in the menu of line \1."),
    (re.compile("as asked for by --as"), "as you said"),
    (re.compile(r"^--as(?: \S+=…)?: "), ""),
]


def in_the_page(words: str) -> str:
    """What `check` says, without the flags of its command.

    >>> in_the_page("Is it something else? It was left alone; --as 7=… says it.")
    'Is it something else? It was left alone; the menu in line 7 says what it is.'
    """
    for flag, instead in _IN_THE_PAGE:
        words = flag.sub(instead, words)
    return words


def as_shown(report: Report) -> dict[str, Any]:
    """What the page shows. Places are a line, and characters (code points) within it.

    >>> from regard.worked import check_text
    >>> text = "Q = [[2, 3, 4, 1]]\\nK = [[1, 0, 1, 0], [0, 1, 0, 1]]\\nscores = [[6, 5]]"
    >>> found = as_shown(check_text(text))["findings"][0]
    >>> found["line"], found["start"], found["end"], found["printed"], found["right"]
    (3, 14, 15, '5', '4')
    """
    shown = _Shown(report)
    remarks = [said for said in report.questions if "?" not in said] + report.remarks
    remarks += [remark for judged in report.exercises for remark in judged.remarks]
    return {
        "file": report.source.name,
        "text": report.source.text,
        "verdict": ("right", "wrong", "unclear")[report.exit_code],
        "checked": report.checked,
        "statements": report.statements,
        "findings": shown.findings(),
        "matrices": [
            shown.matrix(judged, matrix, number if len(report.exercises) > 1 else 0)
            for number, judged in enumerate(report.exercises, 1)
            for matrix in judged.exercise.matrices.values()
        ],
        "kinds": list(dict.fromkeys(SYMBOLS.values())),
        "not_understood": [
            {"line": line, "what": what}
            for line, what in report.passed_over
            if line not in report.unnamed
        ],
        "questions": [
            _question(said) for said in (*report.questions, *report.unnamed.values()) if "?" in said
        ],
        "remarks": [in_the_page(remark) for remark in dict.fromkeys(remarks)],
    }


class _Shown:
    def __init__(self, report: Report) -> None:
        self.report, self.source = report, report.source

    def findings(self) -> list[dict[str, Any]]:
        """Wrong numbers and claims in the order of the text, each place once."""
        found = [self._cell(cell, []) for cell in self.report.equation_cells]
        claims: list[Claim] = [*self.report.claims]
        for judged in self.report.exercises:
            claims += judged.claims
            causes: dict[tuple[str, int | None], list[str]] = {}
            for cell in judged.wrong:
                key = (cell.kind, cell.head)
                if cell.origin == "inherited" and key not in causes:
                    causes[key] = judged.inherit_from(*key)
                found.append(self._cell(cell, causes.get(key, [])))
        found += [self._claim(claim) for claim in claims if not claim.is_right]
        places = {(f["line"], f["start"], f["end"], f["name"] * (not f["end"])): f for f in found}
        return sorted(places.values(), key=lambda each: (each["line"], each["start"]))

    def _cell(self, cell: Cell, causes: list[str]) -> dict[str, Any]:
        return {
            **self._place(cell.figure.start, cell.figure.end),
            "kind": "equation" if cell.kind == "equation" else "cell",
            "name": cell.name,
            "printed": cell.figure.text,
            "right": cell.right_text,
            "first": cell.origin == "first",
            "symbol": cell.symbol,
            "causes": causes if cell.origin == "inherited" else [],
            "cause": cell.cause,
        }

    def _claim(self, claim: Claim) -> dict[str, Any]:
        place = {"line": claim.line, "start": 0, "end": 0}
        if claim.figure is not None:
            place = self._place(claim.figure.start, claim.figure.end)
        return {
            **place,
            "kind": "claim",
            "name": claim.about,
            "printed": claim.printed,
            "right": claim.right,
            "first": True,
            "symbol": "",
            "causes": [],
            "cause": "",
        }

    def _place(self, start: int, end: int) -> dict[str, int]:
        text = self.source.text
        begin = text.rfind("\n", 0, start) + 1
        stop = text.find("\n", start, end)
        return {
            "line": self.source.line(start),
            "start": start - begin,
            "end": (end if stop < 0 else stop) - begin,
        }

    def matrix(self, judged: Judged, matrix: Matrix, example: int) -> dict[str, Any]:
        """What a matrix was taken for, how it fared, and the lines by which that is said anew."""
        key = (matrix.kind, matrix.head)
        several = matrix.head is not None and len(judged.exercise.heads) > 1
        origins = Counter(c.origin for c in judged.wrong if (c.kind, c.head) == key)
        lines = sorted(
            {
                self.source.line(figure.start)
                for (_, column), figures in matrix.figures.items()
                if column == 0
                for figure in figures
            }
        )
        # Rows that are written one by one ("q_the = [1, 0]") are each named by their own line.
        is_in_rows = matrix.blocks >= len(lines) > 1
        return {
            "example": example,
            "symbol": matrix.symbol,
            "head": matrix.head if several else None,
            "called": matrix.called,
            "line": matrix.line,
            "lines": lines if is_in_rows else [matrix.line],
            "shape": list(matrix.shape),
            "reason": in_the_page(matrix.reason),
            "first": origins["first"],
            "inherited": origins["inherited"],
            "state": "not checked"
            if key in judged.unknown
            else "given"
            if key in judged.given
            else "computed",
        }


def _question(question: str) -> dict[str, Any]:
    """A question with its line, and whether the menu of that line answers it."""
    asked = _SAY_IT.search(question)
    line = re.match(r"line (\d+): ", question)
    return {
        "line": int(line[1]) if line else 0,
        "words": in_the_page(question[line.end() :] if line else question),
        "menu": asked is not None,
    }
