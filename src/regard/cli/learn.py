"""`regard learn`: the course, in the browser or as pages."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from regard.cli.common import BadInput, flag, notes, option, status, waiting
from regard.cli.output import Output, check_room, writing

EPILOG = """
\b
Examples:
  regard learn                     which lessons there are
  regard learn --html course       the course as pages that need no network
  regard studio                    the course, live
"""


def learn(
    html: Annotated[str | None, option("FOLDER", "Write the course as offline pages.")] = None,
    measured: Annotated[
        bool, flag("--measure/--no-measure", "Measure the experiments, for the pages (minutes).")
    ] = True,
    language: Annotated[str, option("en", "Of the lessons: en, ko or bn.")] = "en",
    seed: Annotated[int, option("N", "Of all random numbers.", min=0, max=2**31 - 1)] = 0,
) -> None:
    """Attention in eight short lessons, with live pictures and questions."""
    from regard.lab import LANGUAGES
    from regard.learn import lessons
    from regard.learn.course import document, experiments

    out = Output()
    if language not in LANGUAGES:
        raise BadInput(f"--language must be one of {', '.join(LANGUAGES)}; got {language!r}.")
    course = lessons(language)
    if html is None:
        from rich.text import Text

        titles = [Text(f"{n}  {each.title}") for n, each in enumerate(course, 1)]
        last = "regard studio opens the course; regard learn --html FOLDER writes it."
        out.print([*titles, Text(), Text(last, "dim")])
        return
    folder = Path(html)
    with writing(html):
        folder.mkdir(parents=True, exist_ok=True)
        check_room(folder)
    found = {}
    if measured:
        found = _measure(experiments(course), seed, language)
    from regard._files import write_text
    from regard.view.html.lesson import lesson_page

    for each in course:
        path = folder / f"{each.name}.html"
        with writing(str(path)):
            write_text(path, lesson_page(document(each, found, language)))
    first = folder / f"{course[0].name}.html"
    print(f"Wrote {len(course)} lessons; the first is {first}", file=sys.stderr)


def _measure(names: list[str], seed: int, language: str) -> dict[str, object]:
    """Every experiment, quickly, whole and made false; one that cannot be measured here is left
    out, and said.
    """
    from regard.lab import Said, run

    found: dict[str, object] = {}
    with status() as show, waiting(show) as wait:
        for n, name in enumerate(names, 1):

            def tell(share: float, n: int = n, name: str = name) -> None:
                if show is not None:
                    show(f"[{n}/{len(names)}] {name}: {share:.0%}")

            def say(said: Said | None, at: str = f"[{n}/{len(names)}] {name}") -> None:
                wait(said and (lambda seconds: f"{at}: {said.text(language)} {seconds:.0f} s"))

            if show is None:
                print(f"measuring {name} …", file=sys.stderr, flush=True)
            try:
                with notes():
                    result = run(name, quick=True, seed=seed, tell=tell, say=say)
                    broken = run(name, quick=True, seed=seed, false=True, tell=tell, say=say)
                    verdict = broken.document(language)["verdict"]
                    found[name] = {**result.document(language), "broken": {"verdict": verdict}}
            except BadInput as error:
                print(f"regard: note: {name} is left out: {error}", file=sys.stderr)
    return found
