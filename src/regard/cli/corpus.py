"""`regard corpus`: a model over many texts, and what came of it."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.common import BadInput, Html, flag, notes, option, plain_error, status
from regard.cli.output import Output

if TYPE_CHECKING:
    from rich.text import Text

    from regard.corpus import Corpus, Progress

EPILOG = """
\b
Examples:
  regard corpus books --by paragraph --model minilm --out books.corpus
  regard corpus news.jsonl --field body --model smollm2 --first 512 --out news
  regard corpus books.corpus             what came of it
  regard corpus books.corpus --most distance --layer 3 --head 1
  regard corpus books.corpus --html books.html
  regard corpus books.corpus --sql "select source, avg(distance) as far from
    heads join texts using (text) where layer = 3 group by source"

\b
TEXTS are text files, .jsonl, .parquet and .arrow files, folders of them, folders
that datasets has saved, or the name of a text that is fetched: wikitext-2,
shakespeare. A text that cannot be read is in the table with the reason.
Whenever it is stopped, or killed, the same command goes on.

\b
The tables of --sql and their columns:
  texts: text, source, position, characters, tokens, sha256, reason, beginning
  heads: text, layer, head, queries, entropy, spread, distance, first, self,
         previous, induction, edges
  edges: text, layer, head, query, key, query_token, key_token, weight
  sketches: layer, head, statistic, queries, mean, least, q05, q25, median, q75,
         q95, most
"""
_PATIENCE = 2.0  # seconds before anything is said of how far it is
_EACH = 0.2  # between two lines


def corpus(
    texts: Annotated[list[str] | None, typer.Argument(metavar="TEXTS", show_default=False)] = None,
    model: Annotated[
        str | None, option("M", "minilm, smollm2, a folder, or a Hub id, that reads them.")
    ] = None,
    out: Annotated[str | None, option("FOLDER", "Where the corpus is kept.")] = None,
    by: Annotated[
        str | None, option("WHAT", "What of a text file is a text: file, paragraph or line.")
    ] = None,
    field: Annotated[
        str | None, option("NAME", "The field of JSON lines, Parquet and Arrow; or text.")
    ] = None,
    first: Annotated[
        int | None, option("N", "Read only the first N tokens of each text.", min=1)
    ] = None,
    min_weight: Annotated[
        float | None, option("W", "Links count from that weight on; 0.25.", "--min-weight")
    ] = None,
    edges: Annotated[
        int | None, option("N", "Keep so many links of each text and head; 4.", min=0)
    ] = None,
    workers: Annotated[int | None, option("N", "Processes that read; one a core.", min=1)] = None,
    threads: Annotated[int | None, option("N", "Threads of each process; 1.", min=1)] = None,
    batch: Annotated[int | None, option("N", "Tokens of a batch, at most.", min=1)] = None,
    unit: Annotated[int | None, option("N", "Texts of a unit of work, at most.", min=1)] = None,
    ray: Annotated[
        str | None, option("ADDRESS", "Work on a Ray cluster; local starts one here.")
    ] = None,
    sql: Annotated[str | None, option("QUERY", "Ask one SELECT, and print the table.")] = None,
    most: Annotated[
        str | None, option("STATISTIC", "The texts in which a head does it most.")
    ] = None,
    layer: Annotated[int | None, option("N", "Of which layer, from 0.", min=0)] = None,
    head: Annotated[int | None, option("N", "Of which head, from 0.", min=0)] = None,
    number: Annotated[int, option("N", "How many texts.", "--number", "-n", min=1)] = 20,
    lowest: Annotated[bool, flag("--lowest", "The texts in which it does it least.")] = False,
    html: Html = None,
    check: Annotated[bool, flag("--check", "Compare every byte with the manifest.")] = False,
) -> None:
    """Have a model read many texts, and keep where every head looked in each.

    Without --out, TEXTS is the folder of a corpus, which is shown.
    """
    told = Output(html=html)
    if not texts:
        raise BadInput("texts are needed, or the folder of a corpus: regard corpus --help.")
    if most is not None and (layer is None or head is None):
        raise BadInput("--most needs --layer and --head: which head is meant.")
    given = {"by": by, "field": field, "first": first, "min_weight": min_weight, "edges": edges}
    given |= {"workers": workers, "threads": threads, "batch": batch, "unit": unit, "ray": ray}
    options = {name: value for name, value in given.items() if value is not None}
    if out is not None:
        if model is None:
            raise BadInput("--model M is needed: which model reads the texts.")
        _make(texts, model, out, options)
    elif options or model is not None:
        raise BadInput("--out FOLDER is needed: the corpus is kept there.")
    elif len(texts) > 1:
        raise BadInput("--out FOLDER is needed to read texts; one corpus at a time is shown.")
    with notes():
        from regard.corpus import load_corpus

        found = load_corpus(texts[0] if out is None else out, unfinished=True)
        if check:
            found.check()
        lines = _lines(found, told.width, sql, most, layer, head, number, lowest)
        if check:
            print("Every byte is as the manifest says.", file=sys.stderr)
    if html is not None:
        from regard.corpus.document import document_of
        from regard.view.html.corpus import corpus_page

        told.write("html", lambda: corpus_page(document_of(found, number)))
    told.print(lines)


def _make(texts: list[str], model: str, out: str, options: dict[str, Any]) -> None:
    from regard.corpus import make
    from regard.corpus.shard import UNITS

    with status() as line:
        teller = _Teller(line)
        try:
            with notes(first="--first", by="--by", field="--field", min_weight="--min-weight"):
                make(
                    texts,
                    model,
                    out,
                    tell=teller.tell,
                    note=teller.note,
                    show=teller.show,
                    **options,
                )
        except KeyboardInterrupt:
            teller.clear()
            done = len(list((Path(out) / UNITS).glob("unit-*")))
            units = f"{done:,} unit{'s' * (done != 1)}"
            print(
                f"regard: stopped; {units} of work are done and kept. The same command goes on.",
                file=sys.stderr,
            )
            raise
        except BrokenPipeError:  # nobody reads what is told
            raise
        except OSError as error:
            wrong = f"cannot write {error.filename or out}: {error.strerror or error}."
            if list((Path(out) / UNITS).glob("unit-*")):
                wrong += " What was written before is whole: the same command goes on."
            raise BadInput(wrong) from error
        except RuntimeError as error:
            raise BadInput(plain_error(error)) from error


class _Teller:
    """Shows how far it is, on anything that takes longer than two seconds, in a terminal."""

    def __init__(self, line: Callable[[str], None] | None) -> None:
        self._line = line
        self._start = self._next = time.monotonic() + _PATIENCE
        self._began: float | None = None

    def clear(self) -> None:
        if self._line is not None:
            self._line("")

    def note(self, text: str) -> None:
        self.clear()
        print(f"regard: note: {text}", file=sys.stderr, flush=True)

    def show(self, text: str) -> None:
        now = time.monotonic()
        if self._line is not None and now >= self._next:
            self._next = now + _EACH
            self._line(text)

    def tell(self, progress: Progress) -> None:
        now = time.monotonic()
        self._began = now if self._began is None else self._began
        self.show(told_progress(progress, now - self._began))


def told_progress(progress: Progress, seconds: float) -> str:
    """How far it is, texts a second, and the time left.

    >>> from regard.corpus import Progress
    >>> told_progress(Progress(done=1500, texts=20000, before=500), 100.0)
    '1,500/20,000 texts  10.0 texts/s  31 min left'
    """
    new = progress.done - progress.before
    so_far = f"{progress.done:,}/{progress.texts:,} texts"
    if new <= 0 or seconds <= 0:
        return so_far
    rate = new / seconds
    return (
        f"{so_far}  {rate:,.1f} texts/s  {_duration((progress.texts - progress.done) / rate)} left"
    )


def _duration(seconds: float) -> str:
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def _lines(
    found: Corpus,
    width: int,
    sql: str | None,
    most: str | None,
    layer: int | None,
    head: int | None,
    number: int,
    lowest: bool,
) -> list[Text]:
    if sql is not None:
        from regard.view.table import render_table

        try:
            return render_table(found.sql(sql), width)
        except (MemoryError, ValueError) as error:
            said = plain_error(error.__context__ or error).partition(" LINE 1:")[0]
            raise BadInput(
                f"--sql must be one SELECT that DuckDB can answer; {said} The tables are texts, "
                "heads, edges and sketches; regard corpus --help has their columns."
            ) from error
    if most is not None and layer is not None and head is not None:
        from regard.view.corpus import render_most

        rows = found.most(layer, head, most, number, lowest=lowest).to_pylist()
        return render_most(rows, most, layer, head, width, lowest)
    from regard.corpus.document import told
    from regard.view.corpus import render_corpus

    return render_corpus(told(found), width)
