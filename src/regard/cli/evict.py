"""`regard evict`: what a cache may forget, by the loss of what follows and by needles found."""

from __future__ import annotations

import json as json_module
import sys
import time
from typing import Annotated

import typer

from regard.cli.common import BadInput, Svg, Words, notes, option, read_text, status
from regard.cli.output import Output, check_figure, writing

_PATIENCE = 2.0  # seconds until it is said how far it has come

EPILOG = """
\b
Examples:
  regard evict --file play.txt --keep 0.25
  regard evict --file play.txt --keep 0.1 --keep 0.25 --keep 0.5 --figure evict.svg
  regard evict --file play.txt --first 600 --needles 0      the loss alone

\b
Policies: Full forgets nothing; WindowVote keeps what the last 32 tokens look
at, HeavyHitters what received most weight, SinkAndWindow the first 4 tokens and
the last ones, SlidingWindow the last ones, Random any.
"""


def evict(
    context: typer.Context,
    words: Words = None,
    file: Annotated[str | None, option("FILE", "Read the text from a file.")] = None,
    model: Annotated[str, option("M", "smollm2, a folder, a Hub id.")] = "smollm2",
    keep: Annotated[
        list[float] | None, option("SHARE", "How much of the cache stays; may be repeated. [0.25]")
    ] = None,
    first: Annotated[
        int | None, option("N", "Read only the first N tokens of the text.", min=1)
    ] = None,
    continuation: Annotated[
        int | None, option("N", "The last N tokens follow; a quarter unless given.", min=2)
    ] = None,
    needles: Annotated[int, option("N", "Numbers to hide and to ask for.", min=0, max=1000)] = 5,
    json: Annotated[
        str | None, option("FILE", "Write what was found as JSON; - prints it.")
    ] = None,
    svg: Svg = None,
    figure: Annotated[str | None, option("FILE", "Write both charts: .svg, .pdf or .png.")] = None,
) -> None:
    """What a model's cache may forget: policies at the same memory.

    TEXT is what the model reads; - reads it from standard input.
    """
    out = Output(json=json, svg=svg)
    if figure is not None:
        check_figure(figure)
    if bool(words) == (file is not None):
        what = "a text and --file exclude each other" if words else "a text or --file is needed"
        raise BadInput(f"{what}: regard evict --file play.txt --keep 0.25 reads that file.")
    text = read_text(words, file)
    shares = keep or [0.25]
    for share in shares:
        if not 0.0 < share <= 1.0:
            raise BadInput(f"--keep must be more than 0 and at most 1; got {share:g}.")
    options = {name: f"--{name}" for name in ("keep", "first", "continuation", "needles")}
    with notes(**options), status() as show:
        from regard.evict import compare
        from regard.models import load

        loaded = load(model)
        start = time.monotonic()

        def tell(what: str, done: int, total: int) -> None:
            seconds = time.monotonic() - start
            if show is not None and seconds >= _PATIENCE:
                show(f"{done} of {total}: {what}, {seconds:.0f} s")

        found = compare(
            loaded,
            text,
            shares,
            continuation=continuation,
            needles=needles,
            first=first,
            progress=tell,
        )
    from regard.view.evict import render_evict

    document = found.document()
    lines = render_evict(document, out.width)
    out.print(lines)
    out.write("json", lambda: json_module.dumps(document, indent=2) + "\n")
    out.draw(lines, context)
    if figure is not None:
        with writing(figure), notes():
            found.figure(figure)
        print(f"Wrote {figure}", file=sys.stderr)
