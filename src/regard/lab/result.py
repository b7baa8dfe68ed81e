"""A run of an experiment: what was asked, measured and judged, as one document."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

from regard.lab.experiment import Asked, Experiment, Value
from regard.lab.measured import Measured, Verdict
from regard.lab.said import Said, words

FORMAT, VERSION = "regard.lab", 1
_LIBRARIES = ("regard", "numpy", "torch", "transformers")


@dataclass(frozen=True)
class Result:
    """What came out: `verdict` in words, `data` that it follows from, tables and charts."""

    experiment: Experiment
    asked: Asked
    is_false: bool
    measured: Measured
    verdict: Verdict
    seconds: float
    guess: str | None = None

    @property
    def outcome(self) -> str:
        """ "holds", "fails" or "open"."""
        return self.verdict.outcome

    @property
    def data(self) -> Mapping[str, Any]:
        """The figures that the verdict follows from."""
        return self.measured.data

    def document(self, language: str = "en") -> dict[str, Any]:
        """All of it as JSON has it, with its texts in a language."""
        experiment = self.experiment
        return {
            "format": FORMAT,
            "version": VERSION,
            **about(experiment, language),
            "settings": dict(self.asked.values),
            "seed": self.asked.seed,
            "quick": self.asked.quick,
            "false": self.is_false,
            "guess": self.guess,
            "verdict": self.verdict.document(language),
            "data": self.measured.data,
            "tables": [table.document(language) for table in self.measured.tables],
            "charts": [chart.document(language) for chart in self.measured.charts],
            "notes": [note.text(language) for note in self.measured.notes],
            "seconds": round(self.seconds, 2),
            "versions": versions(),
            "made": self._made(language),
        }

    def _made(self, language: str) -> str:
        names = {"machine": Said("lab.machine").text(language)}
        told = ", ".join(f"{names.get(name, name)} {number}" for name, number in versions().items())
        values = {"seconds": self.seconds, "seed": self.asked.seed, "versions": told}
        return Said("lab.frame.made", values).text(language)

    def to_json(self, language: str = "en") -> str:
        """The document as JSON."""
        return json.dumps(self.document(language), ensure_ascii=False, indent=1) + "\n"

    def html(self, path: str | Path, language: str = "en") -> None:
        """Write a page of one file that shows it."""
        from regard._files import write_text
        from regard.view.html.lab import lab_page

        write_text(path, lab_page(self.document(language)))

    def figure(
        self, path: str | Path, *, width: float = 7.0, dpi: float = 300, dark: bool = False
    ) -> None:
        """Write its charts as SVG, PDF or PNG."""
        from regard.view.figure import lab_figure

        lab_figure(self.document(), path, width, dpi, dark)

    def __str__(self) -> str:
        return "\n".join(
            [self.experiment.said("claim").text(), Said(f"lab.outcome.{self.outcome}").text()]
            + [finding.said.text() for finding in self.verdict.findings]
        )


def about(experiment: Experiment, language: str = "en") -> dict[str, Any]:
    """What an experiment is, before it is run: its texts, guesses and settings."""
    name = experiment.name

    def text(key: str) -> str:
        return experiment.said(key).text(language)

    settings = [
        {
            "name": setting.name,
            "kind": setting.kind,
            "said": text(f"setting.{setting.name}"),
            "default": setting.default,
            "least": setting.least,
            "most": setting.most,
            "choices": list(setting.choices),
            "named": {each: text(f"choice.{setting.name}.{each}") for each in setting.choices},
        }
        for setting in experiment.settings
    ]
    return {
        "experiment": name,
        "language": language,
        "title": text("title"),
        "claim": text("claim"),
        "question": text("question"),
        "about": text("about"),
        "guesses": [{"name": each, "said": text(f"guess.{each}")} for each in experiment.guesses],
        "possible": settings,
        "make_false": {"settings": dict(experiment.false), "about": text("false.about")},
        "needs": [
            {"name": each, "said": Said(f"lab.model.{each}").text(language)}
            for each in experiment.needs
        ],
        "frame": {
            key.removeprefix("lab.frame."): text
            for key, text in words(language).items()
            if key.startswith("lab.frame.")
        },
    }


def perform(
    experiment: Experiment,
    values: Mapping[str, Value],
    *,
    seed: int = 0,
    quick: bool = False,
    is_false: bool = False,
    guess: str | None = None,
    tell: Callable[[float], None] | None = None,
    say: Callable[[Said | None], None] | None = None,
) -> Result:
    """Measure and judge; `tell` is told the share that is done, `say` what has no share."""
    asked = Asked(values, seed, quick, tell or (lambda share: None), say or (lambda said: None))
    asked.tell(0.0)
    start = time.perf_counter()
    measured = experiment.measure(asked)
    # As it will be read from a file again: the verdict shall not depend on more than that.
    data = json.loads(json.dumps(measured.data))
    verdict = experiment.judge(data)
    seconds = time.perf_counter() - start
    return Result(experiment, asked, is_false, measured, verdict, seconds, guess)


def versions() -> dict[str, str]:
    """What measured: the libraries and the machine."""
    found = {"python": platform.python_version(), "machine": platform.machine()}
    for name in _LIBRARIES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
