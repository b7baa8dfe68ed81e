"""`regard heads`: what each head of a model does, needles in a long text among it."""

from __future__ import annotations

import json as json_text
import time
from typing import Annotated

from regard.cli.common import BadInput, Words, flag, notes, option, read_text, status
from regard.cli.output import Output

EPILOG = """
\b
Examples:
  regard heads --file book.txt --model smollm2 --first 1024
  regard heads --file book.txt --model smollm2 --first 8192 --ablate
  regard heads --file book.txt --json heads.json

\b
A needle is a fact, "The secret number of Oslo is 4821.", that is put into the
text. All are asked for behind it, in another order. A score is a share of a
query's weight; beside it stands what random spans of the same pass get.
"""
_BEST = 10  # that are ablated
_PATIENCE = 2.0  # seconds until it is said how far it has come


def heads(
    words: Words = None,
    file: Annotated[str | None, option("FILE", "Read the text from a file.")] = None,
    model: Annotated[
        str, option("M", "smollm2, a folder, or a Hub id: one that predicts the next token.")
    ] = "smollm2",
    first: Annotated[
        int | None, option("N", "N tokens in all, needles and questions included.", min=1)
    ] = None,
    needles: Annotated[int, option("N", "How many needles are hidden, at even depths.")] = 10,
    ablate: Annotated[
        bool,
        flag("--ablate", f"Recall without the {_BEST} best retrieval heads, and random ones."),
    ] = False,
    seed: Annotated[int, option("N", "Which needles, and which random heads.")] = 0,
    json: Annotated[
        str | None, option("FILE", "Write what was found as JSON; - prints it.")
    ] = None,
) -> None:
    """What each head does: retrieval, induction, duplicate, previous and first token.

    TEXT is what the model reads; - reads it from standard input.
    """
    out = Output(json=json)
    if bool(words) == (file is not None):
        what = "a text and --file exclude each other" if words else "a text or --file is needed"
        raise BadInput(f"{what}: regard heads --file book.txt reads that file.")
    text = read_text(words, file)
    with notes(first="--first", needles="--needles", model="--model"), status() as show:
        from regard.ask import heads as find
        from regard.models import load

        start = time.monotonic()

        def tell(done: int, total: int) -> None:
            seconds = time.monotonic() - start
            if show is not None and seconds >= _PATIENCE:
                show(f"layer {done} of {total}, {seconds:.0f} s")

        found = find(
            load(model),
            text,
            first=first,
            needles=needles,
            ablate=_BEST if ablate else 0,
            seed=seed,
            progress=tell,
        )
    from regard.view.heads import render_heads

    out.print(render_heads(found, out.width))
    out.write("json", lambda: json_text.dumps(found.info(), ensure_ascii=False) + "\n")
