"""`regard sources`: which document an answer came from, and whether the model needs it."""

from __future__ import annotations

import json as json_format
from pathlib import Path
from typing import Annotated, Any

from regard.cli.common import BadInput, Html, notes, option, plain_error, read_text, status
from regard.cli.output import Output

EPILOG = """
\b
Examples:
  regard sources --file notes.txt --file report.txt --question "Who built it?"
  regard sources --file a.txt --file b.txt --question "…" --answer "Ruth did."
  regard sources --file report.txt --question "…" --html answer.html

\b
One file is cut into its paragraphs. Without --answer the model writes one. M is
a language model, as of regard see. A share is what a sentence looked at; then
the source with the largest one is blocked, so that no token sees it, and so are
pieces of the same length elsewhere: it is called a cause only if that tells.
"""


def sources(
    file: Annotated[
        list[str] | None, option("FILE", "A document; may be repeated, - is standard input.")
    ] = None,
    question: Annotated[str | None, option("TEXT", "What is asked of them.")] = None,
    answer: Annotated[str | None, option("TEXT", "The answer; else the model writes one.")] = None,
    model: Annotated[str, option("M", "smollm2, a folder, or a Hub id.")] = "smollm2",
    tokens: Annotated[
        int, option("N", "Of what the model writes, at most.", min=1, max=100_000)
    ] = 64,
    by: Annotated[str, option("WHAT", "contribution: weight × ‖v‖; or weights.")] = "contribution",
    check: Annotated[int, option("N", "Block so many sources of each sentence.", min=0)] = 1,
    draws: Annotated[int, option("N", "Pieces blocked elsewhere.", min=2, max=1000)] = 8,
    json: Annotated[
        str | None, option("FILE", "Write what was found as JSON; - prints it.")
    ] = None,
    html: Html = None,
) -> None:
    """Which document each sentence of an answer came from."""
    out = Output(json=json, html=html)
    if not file or question is None:
        raise BadInput(
            'a document and a question are needed: regard sources --file a.txt --question "Who?"'
        )
    if by not in ("weights", "contribution"):
        raise BadInput(f"--by must be weights or contribution; got {by!r}.")
    if not question.strip():
        raise BadInput("--question is empty: there is no word in it.")
    if answer is not None and not answer.strip():
        raise BadInput("--answer is empty: there is no word in it.")
    documents = dict(zip(_names(file), (read_text(None, each) for each in file), strict=True))
    with notes(answer="--answer", question="--question"):
        from regard.ask import answer_sources
        from regard.ask._places import check_causal
        from regard.models import open_model
        from regard.models.build import build

        loaded = build(open_model(model))
        check_causal(loaded)
        how: dict[str, Any] = {"tokens": tokens, "by": by, "check": check, "draws": draws}
        try:
            with status() as show:
                tell = None if show is None else lambda n: show(f"blocked, {n} passes")
                found = answer_sources(loaded, documents, question, answer, progress=tell, **how)
        except RuntimeError as error:
            raise BadInput(f"{model} cannot read the text: {plain_error(error)}") from error
    about = {"format": "regard.sources", "version": 1, "question": question}
    out.write(
        "json",
        lambda: (
            json_format.dumps(
                {**about, **found.info()}, ensure_ascii=False, indent=1, allow_nan=False
            )
            + "\n"
        ),
    )
    if html is not None:
        from regard.view.html.sources import sources_page

        out.write("html", lambda: sources_page(found))
    from regard.view.sources import render_sources

    out.print(render_sources(found, out.width))


def _names(files: list[str]) -> list[str]:
    """What documents are called: their files' names, with their folders where these are the same.

    >>> _names(["a/one.txt", "b/one.txt", "two.txt", "two.txt", "-"])
    ['a/one.txt', 'b/one.txt', 'two.txt', 'two.txt, 2', 'standard input']
    """
    short = [Path(each).name for each in files]
    names = [
        "standard input" if each == "-" else each if short.count(name) > 1 else name
        for each, name in zip(files, short, strict=True)
    ]
    again = [names[:n].count(name) for n, name in enumerate(names)]
    return [f"{name}, {n + 1}" if n else name for name, n in zip(names, again, strict=True)]
