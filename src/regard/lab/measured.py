"""What an experiment measured: numbers to judge by, tables and charts to look at."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from regard.lab.said import Said
from regard.lab.told import told, told_pane

Cell = float | int | str | bool | Said | None
Outcome = Literal["holds", "fails", "open"]


@dataclass(frozen=True)
class Table:
    """Rows of numbers and texts; `columns` are keys of words, `title` too."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]

    def document(self, language: str) -> dict[str, Any]:
        return {
            "title": _text(self.title, language),
            "columns": [_text(column, language) for column in self.columns],
            "rows": [[_plain(cell, language) for cell in row] for row in self.rows],
        }


@dataclass(frozen=True)
class Series:
    """One line of a chart: its name, its points, and where a point may lie (low to high)."""

    name: str | Said
    x: Sequence[float]
    y: Sequence[float | None]
    low: Sequence[float | None] | None = None
    high: Sequence[float | None] | None = None

    def document(self, language: str) -> dict[str, Any]:
        found: dict[str, Any] = {"name": _text(self.name, language)}
        found |= {"x": list(self.x), "y": [_finite(y) for y in self.y]}
        if self.low is not None and self.high is not None:
            found["low"] = [_finite(y) for y in self.low]
            found["high"] = [_finite(y) for y in self.high]
        return found


@dataclass(frozen=True)
class Chart:
    """Lines over numbers: `x` and `y` say what the axes are, as keys of words.

    `log` names the axes that go by the logarithm: "x", "y", "xy" or none.
    """

    title: str
    x: str
    y: str
    series: Sequence[Series]
    log: str = ""

    def document(self, language: str) -> dict[str, Any]:
        found = {
            "kind": "lines",
            "title": _text(self.title, language),
            "x": _text(self.x, language),
            "y": _text(self.y, language),
            "log": self.log,
            "series": [series.document(language) for series in self.series],
        }
        return found | {"told": told(found, language)}


@dataclass(frozen=True)
class Bars:
    """A bar for each name, with where it may end; `groups` bars side by side for each of them."""

    title: str
    y: str
    names: Sequence[str | Said]
    groups: Sequence[str | Said]
    values: Sequence[Sequence[float | None]]  # of each group a number for each name
    low: Sequence[Sequence[float | None]] | None = None
    high: Sequence[Sequence[float | None]] | None = None

    def document(self, language: str) -> dict[str, Any]:
        found: dict[str, Any] = {
            "kind": "bars",
            "title": _text(self.title, language),
            "y": _text(self.y, language),
            "names": [_text(name, language) for name in self.names],
            "groups": [_text(name, language) for name in self.groups],
            "values": [[_finite(y) for y in row] for row in self.values],
        }
        if self.low is not None and self.high is not None:
            found["low"] = [[_finite(y) for y in row] for row in self.low]
            found["high"] = [[_finite(y) for y in row] for row in self.high]
        return found | {"told": told(found, language)}


@dataclass(frozen=True)
class Maps:
    """Matrices side by side, each with its name: weights by default, from 0 to 1."""

    title: str
    panes: Sequence[tuple[str | Said, Sequence[Sequence[float]]]]
    rows: Sequence[str]
    columns: Sequence[str]
    signed: bool = False

    def document(self, language: str) -> dict[str, Any]:
        found: dict[str, Any] = {
            "kind": "maps",
            "title": _text(self.title, language),
            "rows": list(self.rows),
            "columns": list(self.columns),
            "signed": self.signed,
            "panes": [
                {"name": _text(name, language), "values": [[_finite(y) for y in r] for r in matrix]}
                for name, matrix in self.panes
            ],
        }
        for pane in found["panes"]:
            pane["told"] = told_pane(found, pane, language)
        return found | {"told": told(found, language)}


@dataclass(frozen=True)
class Measured:
    """`data` is what the verdict follows from: plain numbers, lists and texts, as JSON has them."""

    data: Mapping[str, Any]
    tables: Sequence[Table] = ()
    charts: Sequence[Chart | Bars | Maps] = ()
    notes: Sequence[Said] = ()


@dataclass(frozen=True)
class Finding:
    """One part of a claim: what came out, in words with its figures and their uncertainty."""

    outcome: Outcome
    said: Said


@dataclass(frozen=True)
class Verdict:
    """What the figures say of the claim: `findings`, the one that decides first; `answer` is which
    of the predictions turned out to be right, if one did."""

    findings: Sequence[Finding]
    answer: str | None = None
    notes: Sequence[Said] = field(default_factory=tuple)

    @property
    def outcome(self) -> Outcome:
        """That of the claim as a whole: it holds if every part of it does.

        >>> Verdict([Finding("holds", Said("a")), Finding("open", Said("b"))]).outcome
        'open'
        """
        found = {finding.outcome for finding in self.findings}
        return "fails" if "fails" in found else "open" if "open" in found or not found else "holds"

    def document(self, language: str) -> dict[str, Any]:
        return {
            "outcome": self.outcome,
            "said": Said(f"lab.outcome.{self.outcome}").text(language),
            "answer": self.answer,
            "findings": [
                {"outcome": finding.outcome, "said": finding.said.text(language)}
                for finding in self.findings
            ],
            "notes": [note.text(language) for note in self.notes],
        }


def _text(what: str | Said, language: str) -> str:
    return what.text(language) if isinstance(what, Said) else Said(what).text(language)


def _plain(cell: Cell, language: str) -> float | int | str | bool | None:
    if isinstance(cell, Said):
        return cell.text(language)
    return _finite(cell) if isinstance(cell, float) else cell


def _finite(value: float | None) -> float | None:
    """A number as JSON can have it; None where there is none."""
    if value is None or value != value or value in (float("inf"), float("-inf")):
        return None
    return float(value)
