"""`regard lab`: one claim of the textbooks, as an experiment."""

from __future__ import annotations

import json as json_module
import sys
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.common import BadInput, Html, Svg, flag, notes, option, read_input, status, waiting
from regard.cli.output import Output, check_figure, writing

if TYPE_CHECKING:
    from rich.text import Text

    from regard.lab import Experiment, Result, Said

EPILOG = """
\b
Examples:
  regard lab                       which experiments there are
  regard lab scaling --quick       some seconds; without --quick it is surer
  regard lab scaling --false       break the premise, and see the verdict turn
  regard lab order --set sentence="Dogs chase cats"
  regard lab order --set sentence="You see me" --set shuffled="me see You"
  regard lab cost --guess square --html cost.html
  regard lab cost --json cost.json
  regard lab --from cost.json      show it again; measure nothing

\b
Everything is measured on this machine, now. The same --seed draws the same
numbers. A verdict is "holds here", "does not hold here" or "cannot be told".
"""


def lab(
    context: typer.Context,
    name: Annotated[str | None, typer.Argument(metavar="NAME", show_default=False)] = None,
    quick: Annotated[bool, flag("--quick", "Less sure, in below 15 seconds.")] = False,
    false: Annotated[bool, flag("--false", "Break what the claim rests on.")] = False,
    changed: Annotated[
        list[str] | None, option("NAME=VALUE", "Change a setting; may be repeated.", "--set")
    ] = None,
    guess: Annotated[
        str | None, option("GUESS", "What you expect; - asks for none.", show_default=False)
    ] = None,
    seed: Annotated[int, option("N", "Of all random numbers.", min=0, max=2**31 - 1)] = 0,
    language: Annotated[str, option("en", "Of the texts: en, ko or bn.")] = "en",
    json: Annotated[str | None, option("FILE", "Write every number as JSON; - prints it.")] = None,
    svg: Svg = None,
    html: Html = None,
    figure: Annotated[
        str | None, option("FILE", "Write the charts, as .svg, .pdf or .png.")
    ] = None,
    source: Annotated[
        str | None, option("FILE", "Show this JSON again; measure nothing.", "--from")
    ] = None,
) -> None:
    """A claim about attention as an experiment: measured here, now, with a verdict.

    NAME is one of the experiments; without it they are listed.
    """
    out = Output(json=json, svg=svg, html=html)
    if figure is not None:
        check_figure(figure)
    if source is not None:
        if name or quick or false or changed or guess or json:
            raise BadInput("--from shows what was measured: it goes with no option that measures.")
        document = _read(source)
    elif name is None:
        if quick or false or changed or guess or json or svg or html or figure:
            raise BadInput("an experiment is needed: regard lab lists them.")
        out.print(_listed(out.width, _known(language)))
        return
    else:
        options = {"seed": seed, "quick": quick, "false": false}
        document = _measure(name, changed or [], guess, _known(language), **options)
    from regard.view.lab import render_lab

    lines = render_lab(document, out.width)
    if source is None and not false:
        from rich.text import Text

        told = f"{document['frame']['make_false']}: regard lab {name} --false"
        lines.append(Text(told, "dim"))
    out.write("json", lambda: json_module.dumps(document, ensure_ascii=False, indent=1) + "\n")
    out.draw(lines, context, " ".join(_seen(document)))
    if html is not None:
        from regard.view.html.lab import lab_page

        out.write("html", lambda: lab_page(document))
    if figure is not None:
        from regard.view.figure import lab_figure

        with writing(figure), notes():
            lab_figure(document, figure, 7.0, 300, False)
        print(f"Wrote {figure}", file=sys.stderr)
    out.print(lines)


def _known(language: str) -> str:
    from regard.lab import LANGUAGES

    if language not in LANGUAGES:
        raise BadInput(f"--language must be one of {', '.join(LANGUAGES)}; got {language!r}.")
    return language


def _listed(width: int, language: str) -> list[Text]:
    """Every experiment: its name, and the claim that it puts to the test."""
    from rich.text import Text

    from regard.lab import NAMES, experiment
    from regard.view.lines import paragraph

    lines: list[Text] = []
    room = max(map(len, NAMES)) + 2
    for name in NAMES:
        found = experiment(name)
        claim = found.said("claim").text(language)
        told = paragraph(f"{claim} {_needs(found, language)}".strip(), width, room)
        told[0] = Text(name.ljust(room), "bold").append(told[0].plain[room:])
        lines += told
    return [*lines, Text(), Text("regard lab NAME runs one of them.", "dim")]


def _needs(experiment: Experiment, language: str) -> str:
    """The models that an experiment reads with, as a sentence; none without any."""
    from regard.lab import Said

    models = ", ".join(Said(f"lab.model.{name}").text(language) for name in experiment.needs)
    return Said("lab.frame.needs", {"models": models}).text(language) if models else ""


def _measure(
    name: str, changed: list[str], guess: str | None, language: str, **options: Any
) -> dict[str, Any]:
    from regard.lab import experiment, run

    with notes():
        found = experiment(name)
        settings = dict(map(_setting, changed))
        found.values(settings)  # refused before anything is asked or measured
        if guess is None and sys.stdin is not None and sys.stdin.isatty() and sys.stderr.isatty():
            guess = _ask(found, language)
        if guess == "-":
            guess = None
        with status() as show, waiting(show) as wait:

            def tell(share: float) -> None:
                if show is not None:
                    bar = "█" * round(share * 30)
                    show(f"{name}: {bar:<30} {share:.0%}")

            def say(said: Said | None) -> None:
                wait(said and (lambda seconds: f"{name}: {said.text(language)} {seconds:.0f} s"))

            given: dict[str, Any] = {**options, **settings}
            result: Result = run(name, guess=guess, tell=tell, say=say, **given)
    return result.document(language)


def _seen(document: dict[str, Any]) -> list[str]:
    """What a picture of it shows, in sentences: the verdict, and every chart."""
    verdict = document["verdict"]
    said = [f"{document['title']} {document['frame']['verdict']}: {verdict['said']}."]
    said += [finding["said"] for finding in verdict["findings"]]
    return said + [chart.get("told", chart["title"]) for chart in document["charts"]]


def _setting(given: str) -> tuple[str, str]:
    name, equals, value = given.partition("=")
    if not equals:
        raise BadInput(f"--set needs NAME=VALUE, such as seed=5; got {given!r}.")
    return name.strip(), value.strip()


def _ask(experiment: Experiment, language: str) -> str | None:
    """What the reader expects; None for Enter."""
    from regard.lab import Said

    names = list(experiment.guesses)
    print(experiment.said("question").text(language), file=sys.stderr)
    for number, name in enumerate(names, 1):
        print(f"  {number}  {experiment.said(f'guess.{name}').text(language)}", file=sys.stderr)
    expect = Said("lab.frame.ask").text(language)
    print(f"{expect} ", end="", file=sys.stderr, flush=True)
    given = sys.stdin.readline().strip()
    return names[int(given) - 1] if given.isdecimal() and 0 < int(given) <= len(names) else None


def _read(path: str) -> dict[str, Any]:
    try:
        document = json_module.loads(read_input(path))
    except ValueError as error:
        raise BadInput(f"{path} is no JSON: {error}.") from None
    if not isinstance(document, dict) or document.get("format") != "regard.lab":
        raise BadInput(f"{path} was not written by regard lab --json.")
    if document.get("version") != 1:
        raise BadInput(f"{path} is of another version of regard lab.")
    return document
