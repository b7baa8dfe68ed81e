"""`regard explain`: every step of attention on a sentence, in the terminal."""

from __future__ import annotations

import math
import re
import shlex
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.cli.common import (
    BadInput,
    command_line,
    make_console,
    print_out,
    read_standard_input,
    write_out,
)

if TYPE_CHECKING:
    from rich.text import Text

    from regard import Trace

__all__ = ["add_to", "explain"]

_MOST_NUMBERS, _MOST_PRINTED, _WIDEST_MODEL = 8_000_000, 1_000_000, 1024

_EPILOG = """
\b
Examples:
  regard explain
  regard explain "The cat sat on the mat" --causal
  regard explain --step weights
  regard explain --cell love,phones
  regard explain --no-scale --svg steps.svg
  echo "any text" | regard explain -

\b
STEP is a name, the beginning of one, a symbol (Q K V S A Z) or a number (1 to 10).
ROW,COLUMN are two labels with a comma, a colon or a blank between them: the second
"the" of a text is the#2, its third token 3, and ",,love" is row "," column "love".
"""


def add_to(app: typer.Typer) -> None:
    """Make `explain` a command of the app.

    >>> app = typer.Typer()
    >>> add_to(app)
    >>> [command.callback.__name__ for command in app.registered_commands]
    ['explain']
    """
    app.command(epilog=_EPILOG)(explain)


def explain(
    context: typer.Context,
    words: Annotated[list[str] | None, typer.Argument(metavar="TEXT", hidden=True)] = None,
    example: Annotated[
        str | None, typer.Option(metavar="NAME", help="apple (default), cat, poem, scaling, given.")
    ] = None,
    step: Annotated[str | None, typer.Option(metavar="STEP", help="Only this step.")] = None,
    head: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Only this head, from 1.")
    ] = None,
    cell: Annotated[
        str | None, typer.Option(metavar="ROW,COLUMN", help="How one number came about.")
    ] = None,
    no_scale: Annotated[
        bool, typer.Option("--no-scale", help="Without √d_k, and what that does.")
    ] = False,
    causal: Annotated[bool, typer.Option("--causal", help="No token sees a later one.")] = False,
    positions: Annotated[
        Literal["none", "sinusoidal"],
        typer.Option(show_default=False, help="Added to the embeddings (none)."),
    ] = "none",
    everything: Annotated[bool, typer.Option("--all", help="Every row, column and head.")] = False,
    heads: Annotated[
        int | None, typer.Option(min=1, metavar="N", help="Heads for your own text (2).")
    ] = None,
    width: Annotated[
        int | None,
        typer.Option(min=1, max=_WIDEST_MODEL, metavar="N", help="d_model for your own text (4)."),
    ] = None,
    seed: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Random numbers for your own text (0).")
    ] = None,
    json: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write every number as JSON; - prints it.")
    ] = None,
    svg: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write it as a picture; - prints it.")
    ] = None,
) -> None:
    """Every step of attention on a sentence, with its numbers.

    TEXT is a sentence of your own; - reads it from standard input.
    """
    if json == svg == "-":
        raise BadInput("--json - and --svg - cannot both go to standard output.")
    text = " ".join(words) if words else None
    if text == "-":
        text = read_standard_input()
    settings: dict[str, Any] = {"positions": positions, "causal": causal}
    sizes = {"heads": heads, "width": width, "seed": seed}
    sizes = {name: value for name, value in sizes.items() if value is not None}
    console = make_console()
    try:
        trace = _trace(text, example, {**settings, "scale": not no_scale}, sizes)
        scaled = _trace(text, example, settings, sizes) if no_scale else None
        lines = _lines(trace, scaled, console.width, step, cell, head, everything)
    except (KeyError, ValueError) as error:  # a label, or a number, that does not fit the trace
        raise BadInput(re.sub(r"^\w+\(\): ", "", str(error.args[0]))) from error
    if json is not None:
        write_out(json, trace.to_json() + "\n")
    if svg is not None:
        from regard.view import picture

        write_out(svg, picture(lines, console.width, command_line(context.obj["arguments"])))
    if "-" not in (json, svg):
        if step is cell is head is None:
            lines += _suggestions(trace, text, example, console.width)
        print_out(lines, console)


def _trace(
    text: str | None, example: str | None, settings: dict[str, Any], sizes: dict[str, Any]
) -> Trace:
    """The trace of the text, or of the example. Raises ValueError or KeyError if there is none."""
    if text is None:
        from regard.worked import example as worked_example

        if sizes:
            names = " and ".join(f"--{name}" for name in sizes)
            verb = "needs" if len(sizes) == 1 else "need"
            raise ValueError(f"{names} {verb} a text of your own: an example has its numbers.")
        trace = worked_example(example or "apple").trace(**settings)
        if "scores" not in trace.steps and (settings["causal"] or not settings.get("scale", True)):
            raise ValueError(f"the example {example!r} starts from given weights: no scores.")
        return trace
    if example is not None:
        raise ValueError("a text and --example exclude each other.")
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise ValueError("the text is not UTF-8.")
    from regard import trace
    from regard.text import tokenize

    n_tokens, n_heads = len(tokenize(text)), sizes.get("heads", 2)
    if n_heads * n_tokens**2 > _MOST_NUMBERS:
        raise ValueError(
            f"the text has {n_tokens:,} tokens: with {n_heads} heads, explain takes at most "
            f"{math.isqrt(_MOST_NUMBERS // n_heads):,}, as it keeps heads · tokens² numbers a step."
        )
    return trace(text, **settings, **sizes)


def _lines(
    trace: Trace,
    scaled: Trace | None,
    width: int,
    step: str | None,
    cell: str | None,
    head: int | None,
    everything: bool,
) -> list[Text]:
    """What is asked for, in lines. Raises KeyError or ValueError if the trace has not got it."""
    from rich.text import Text

    from regard import view

    heads = view.all_heads(trace)
    if head is not None and head > len(heads):
        raise KeyError(f"there is no head {head}; there are {len(heads)} here, from 1.")
    index = None if head is None else head - 1
    name = None if step is None else view.find_step(step, trace)
    if cell is not None:
        return view.render_cells(trace, view.find_cells(cell, trace, name), width, index)
    steps = list(trace.steps) if name is None else [name]
    numbers = sum(trace.steps[name].array.size for name in steps)
    if everything and numbers > _MOST_PRINTED:
        raise ValueError(
            f"--all would print {numbers:,} numbers, and takes at most {_MOST_PRINTED:,}: "
            "--step shows one step, --json FILE writes all."
        )
    lines = view.render(trace, width, steps=steps, head=index, everything=everything)
    if scaled is not None and "weights" in steps:
        comparison = view.render_scaling(scaled, trace, width, head=index, everything=everything)
        lines += [Text(), *comparison]
    return lines


def _suggestions(trace: Trace, text: str | None, example: str | None, width: int) -> list[Text]:
    from rich.cells import cell_len
    from rich.text import Text

    from regard.view.labels import pad
    from regard.view.steps import chosen_cell

    this = ["regard", "explain"]
    this += [text] if text is not None else [] if example is None else ["--example", example]
    weights = trace.steps["weights"]
    labels = [
        axis.labels[place]
        for axis, place in zip(weights.axes[-2:], chosen_cell(trace, weights), strict=True)
    ]
    unique = all(label.isalnum() and trace.tokens.count(label) <= 1 for label in labels)
    first = shlex.join([*this, "--cell", ",".join(labels)])
    if not unique or not first.isprintable() or cell_len(first) > width - 2:
        first = "regard explain --cell love,phones"
    commands = {
        first: "one number, worked out",
        'regard explain "The cat sat on the mat" --causal': "no looking ahead",
        "regard check FILE": "finds wrong cells",
    }
    column = max(cell_len(command) for command in commands) + 2
    lines = [Text(), Text.assemble(("Try next:", "bold"))]
    for command, what in commands.items():
        line = Text(f"  {pad(command, column)}").append(what, "dim")
        lines.append(line if line.cell_len <= width else Text(f"  {command}"))
    return lines
