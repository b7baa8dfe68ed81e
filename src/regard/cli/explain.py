"""`regard explain`: every step of attention on a sentence, in the terminal."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from regard.cli.common import (
    BadInput,
    Html,
    Svg,
    Words,
    flag,
    notes,
    option,
    plain_error,
    read_text,
)
from regard.cli.model import look
from regard.cli.output import Output, quoted

if TYPE_CHECKING:
    from rich.text import Text

    from regard import Run, Trace

_MOST_NUMBERS, _MOST_PRINTED, _WIDEST_MODEL = 8_000_000, 1_000_000, 1024
_SAME = 1e-4  # how far the weights of a model and of its counterpart may be apart

EPILOG = """
\b
Examples:
  regard explain
  regard explain "The cat sat on the mat" --causal
  regard explain --step weights
  regard explain --cell love,phones
  regard explain --no-scale --svg steps.svg
  regard explain "The cat sat on the mat" --html steps.html
  regard explain "The cat sat on the mat" --model minilm --layer 3 --head 5
  echo "any text" | regard explain -

\b
STEP is a name, the beginning of one, a symbol (Q K V S A Z) or a number (1 to 10).
ROW,COLUMN are two labels with a comma, a colon or a blank between them: the second
"the" of a text is the#2, its third token 3, and ",,love" is row "," column "love".
M is minilm, smollm2, a folder that a model was saved to, or an id on the Hub.
"""


def explain(
    context: typer.Context,
    words: Words = None,
    example: Annotated[
        str | None, option("NAME", "apple (default), cat, poem, scaling, given.")
    ] = None,
    step: Annotated[str | None, option("STEP", "Only this step.")] = None,
    head: Annotated[
        int | None, option("N", "Only this head, from 1; of a model, from 0.", min=0)
    ] = None,
    model: Annotated[str | None, option("M", "The numbers of one head of a real model.")] = None,
    layer: Annotated[
        int | None, option("N", "Which layer of the model, from 0 (0).", min=0)
    ] = None,
    cell: Annotated[str | None, option("ROW,COLUMN", "How one number came about.")] = None,
    no_scale: Annotated[bool, flag("--no-scale", "Without √dₖ, and what that does.")] = False,
    causal: Annotated[bool, flag("--causal", "No token sees a later one.")] = False,
    positions: Annotated[
        Literal["none", "sinusoidal"],
        option(None, "Added to the embeddings (none).", show_default=False),
    ] = "none",
    everything: Annotated[bool, flag("--all", "Every row, column and head.")] = False,
    heads: Annotated[int | None, option("N", "Heads for your own text (2).", min=1)] = None,
    width: Annotated[
        int | None, option("N", "d_model for your own text (4).", min=1, max=_WIDEST_MODEL)
    ] = None,
    seed: Annotated[int | None, option("N", "Random numbers for your own text (0).", min=0)] = None,
    json: Annotated[str | None, option("FILE", "Write every number as JSON; - prints it.")] = None,
    svg: Svg = None,
    html: Html = None,
) -> None:
    """Every step of attention on a sentence, with its numbers.

    TEXT is a sentence of your own; - reads it from standard input.
    """
    out = Output(json=json, svg=svg, html=html)
    text = read_text(words) if words else None
    settings: dict[str, Any] = {"positions": positions, "causal": causal}
    sizes = {"heads": heads, "width": width, "seed": seed}
    sizes = {name: value for name, value in sizes.items() if value is not None}
    from rich.text import Text

    from regard import view

    with notes(first="regard see --first"):
        if model is not None:
            if text is None or example is not None:
                raise BadInput("--model needs a text of your own, and goes with no --example.")
            others = {"causal": causal, "no-scale": no_scale, "positions": positions != "none"}
            if given := [*sizes, *(name for name, is_given in others.items() if is_given)]:
                raise BadInput(
                    f"--model has numbers and a mask of its own: {_options(given)} cannot change "
                    "them."
                )
            trace, scaled = _trace_of_model(text, model, layer or 0, head or 0), None
            head = None  # it is the only head of the trace
        elif layer is not None:
            raise BadInput("--layer needs a --model: without one there is one layer.")
        elif head == 0:
            raise BadInput("--head counts from 1 here, and from 0 with --model; got 0.")
        else:
            trace = _trace(text, example, {**settings, "scale": not no_scale}, sizes)
            scaled = _trace(text, example, settings, sizes) if no_scale else None
        n_heads = len(view.all_heads(trace))
        if head is not None and head > n_heads:
            raise BadInput(f"there is no head {head}; there are {n_heads} here, from 1.")
        index = None if head is None else head - 1
        name = None if step is None else view.find_step(step, trace)
        steps = list(trace.steps) if name is None else [name]
        if cell is not None:
            found = view.find_cells(cell, trace, name)
            lines = view.render_cells(trace, found, out.width, index)
        else:
            numbers = sum(trace.steps[name].array.size for name in steps)
            if everything and numbers > _MOST_PRINTED:
                raise BadInput(
                    f"--all would print {numbers:,} numbers, and takes at most {_MOST_PRINTED:,}: "
                    "--step shows one step, --json FILE writes all."
                )
            shown: dict[str, Any] = {"head": index, "everything": everything}
            lines = view.render(trace, out.width, steps=steps, **shown)
            if scaled is not None and "weights" in steps:
                lines += [Text(), *view.render_scaling(scaled, trace, out.width, **shown)]
    out.write("json", lambda: trace.to_json() + "\n")
    out.draw(lines, context)
    if html is not None:
        from regard.view.html.trace import trace_page

        out.write("html", lambda: trace_page(trace))
    if step is cell is head is model is None:
        lines += _suggestions(trace, text, example, out.width)
    out.print(lines)


def _trace(
    text: str | None, example: str | None, settings: dict[str, Any], sizes: dict[str, Any]
) -> Trace:
    """The trace of the text, or of the example."""
    if text is None:
        from regard.worked import example as worked_example

        if sizes:
            verb = "needs" if len(sizes) == 1 else "need"
            raise BadInput(
                f"{_options(sizes)} {verb} a text of your own: an example has its numbers."
            )
        trace = worked_example(example or "apple").trace(**settings)
        if "scores" not in trace.steps and (settings["causal"] or not settings.get("scale", True)):
            raise BadInput(f"the example {example!r} starts from given weights: no scores.")
        return trace
    if example is not None:
        raise BadInput("a text and --example exclude each other.")
    from regard import trace
    from regard.text import tokenize

    _refuse_long(len(tokenize(text)), sizes.get("heads", 2))
    return trace(text, **settings, **sizes)


def _refuse_long(n_tokens: int, n_heads: int) -> None:
    if n_heads * n_tokens**2 > _MOST_NUMBERS:
        heads = f"{n_heads} head{'s' * (n_heads != 1)}"
        raise BadInput(
            f"the text has {n_tokens:,} tokens: with {heads}, explain takes at most "
            f"{math.isqrt(_MOST_NUMBERS // n_heads):,}, as it keeps heads · tokens² numbers a step."
        )


def _options(names: Iterable[str]) -> str:
    return " and ".join(f"--{name}" for name in names)


def _trace_of_model(text: str, model: str, layer: int, head: int) -> Trace:
    """The trace of one head of a model: its ten steps, checked against the model's output; those
    from Q, K and V on, if the rest of it cannot be shown.
    """
    from regard.models import open_model
    from regard.models.build import build

    opened = open_model(model)
    reading = opened.read(text)
    _refuse_long(len(reading.tokens), 1)
    kept = ("q", "k", "v", "output", "hidden_states")
    run, _ = look(build(opened), reading, [(layer, head)], keep=kept)
    try:
        trace = run.trace(layer, head)
    except ArithmeticError as error:
        print(f"regard: {plain_error(error)}", file=sys.stderr)
        raise typer.Exit(1) from error
    return _with_matrices(trace, run, layer, head)


def _with_matrices(trace: Trace, run: Run, layer: int, head: int) -> Trace:
    """A head's steps with what comes in, its matrices and what goes out, where the flow of the run
    has an attention with these weights; or else as it is.
    """
    from dataclasses import replace

    import numpy as np

    from regard._flow.heads import attentions_of

    try:
        flow = run.flow(layer)
        if len(attentions_of(flow)) != len(run.layers):
            return trace
        whole = flow.steps_of(layer, head)
    except ValueError:
        return trace
    weights, truth = (each.steps["weights"].array for each in (whole, trace))
    if "output" not in whole.steps or not np.allclose(weights, truth, rtol=0, atol=_SAME):
        return trace
    own = "Q, K and V are the model's own numbers; the weights follow from them."
    every = "X, the matrices of this head, W_O and every step are the model's own numbers."
    note = trace.note.partition(" Steps 1, 9 and 10")[0].replace(own, every)
    steps, joined, width = {**whole.steps}, whole.steps["concatenated"], trace.steps["head_output"]
    first, last = (n * width.array.shape[-1] for n in (head, head + 1))
    meaning = f"{joined.meaning} Those of head {head} are c{first + 1} to c{last}."
    steps["concatenated"] = replace(joined, meaning=meaning)
    return replace(whole, steps=steps, title=trace.title, note=note)


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
    first = " ".join(map(quoted, [*this, "--cell", ",".join(labels)]))
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
