"""`regard generate`: what a trained run writes after a prompt, as it writes it."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from regard.cli.common import notes, option, read_text

EPILOG = """
\b
Examples:
  regard generate mine "ROMEO:" --tokens 200
  regard generate mine "ROMEO:" --temperature 0.8 --top-k 40 --seed 3
  regard generate copy abcde             what an encoder and a decoder make of it
"""


def generate(
    run: Annotated[str, typer.Argument(metavar="RUN", show_default=False)],
    prompt: Annotated[list[str], typer.Argument(metavar="PROMPT", show_default=False)],
    tokens: Annotated[int, option("N", "At most so many.", min=1, max=100_000)] = 200,
    temperature: Annotated[
        float | None, option("T", "Draw tokens; below 1 likelier ones. Else the likeliest.")
    ] = None,
    top_k: Annotated[int | None, option("K", "Draw among the K likeliest.", min=1)] = None,
    top_p: Annotated[float | None, option("P", "Draw among the likeliest of this share.")] = None,
    beams: Annotated[int, option("N", "Search with N beams; draws nothing.", min=1, max=1000)] = 1,
    seed: Annotated[int, option("N", "Of what is drawn.", min=0, max=2**31 - 1)] = 0,
) -> None:
    """What a trained RUN writes after a PROMPT."""
    text = read_text(prompt)
    given = {
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
    }
    options = {name: value for name, value in given.items() if value is not None}
    if options and temperature is None:
        options["temperature"] = 1.0
    if beams > 1:
        options["beams"] = beams
    with notes():
        from regard.train import open_run

        opened = open_run(run)
        if unknown := opened.unknown(text):  # before it writes: that may be stopped
            print(f"regard: note: {unknown}", file=sys.stderr, flush=True)
        for piece in opened.stream(text, max_new_tokens=tokens, seed=seed, **options):
            print(piece, end="", flush=True)
    print()
