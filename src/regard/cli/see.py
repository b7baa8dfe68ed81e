"""`regard see`: where every head of a model looked, in the terminal."""

from __future__ import annotations

import re
import sys
from collections.abc import Generator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.common import (
    BadInput,
    Html,
    Svg,
    Words,
    notes,
    option,
    plain_error,
    read_text,
)
from regard.cli.model import look
from regard.cli.output import Output, check_room, writing
from regard.cli.see_json import document

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.text import Text

    from regard import Run
    from regard.models import Loaded

_MOST_WORDS = 100  # that are still read by the small encoder, if no model is named
_CHANGED = {"hidden_states", "output"}  # what `run.effect` compares
_MOST_MOVED = 256  # tokens whose movement through the layers a page can show

EPILOG = """
\b
Examples:
  regard see "The animal didn't cross the street because it was too tired."
  regard see "The cat saw that it was late." --token it
  regard see "…" --layer 3 --head 1
  regard see "The capital of France is" --next
  regard see "The capital of France is" --lens
  regard see "When Mary and John went to the store, John gave a drink to"
             --why " Mary" --against " John"
  regard see "…" --ablate 3.1 --ablate 5.11
  regard see --file story.txt --model smollm2 --save story
  regard see --file book.txt --model smollm2 --first 8192
  regard see "…" --sql "select layer, head from heads where first > 0.8"

\b
M is minilm (6 layers × 12 heads, 512 tokens), smollm2 (30 × 9, 8,192), a
folder that a model was saved to, or the id of one on the Hugging Face Hub, as
org/name, in safetensors. Layers and heads count from 0: 3.5 is head 5 of
layer 3. TOKEN is a word as it is written: "the" is no "The", unless there is
no "the". the#2 is the second of those words, 3 is the third token.

\b
The tables of --sql and their columns:
  edges: sequence, layer, head, query, key, query_token, key_token, weight
         (weights of 0.05 or more)
  heads: layer, name, head, entropy, spread, distance, first, self, previous,
         induction, kind, score
  layers: layer, name, sequences, heads, kv_heads, queries, keys, is_causal,
         is_cross, window_left, window_right
  tokens: sequence, position, token, start, stop, id
"""


def see(
    context: typer.Context,
    words: Words = None,
    file: Annotated[str | None, option("FILE", "Read the text from a file.")] = None,
    model: Annotated[
        str | None,
        option("M", f"minilm (chosen up to {_MOST_WORDS} words), smollm2, a folder, a Hub id."),
    ] = None,
    first: Annotated[
        int | None, option("N", "Read only the first N tokens of the text.", min=1)
    ] = None,
    layer: Annotated[int | None, option("N", "Only this layer, from 0.", min=0)] = None,
    head: Annotated[int | None, option("N", "Only this head, from 0.", min=0)] = None,
    token: Annotated[str | None, option("TOKEN", "Where every head looks from it.")] = None,
    next_token: Annotated[
        bool,
        typer.Option("--next", help="What the model predicts after the text, or after --token."),
    ] = False,
    lens: Annotated[
        bool, typer.Option("--lens", help="What it would predict if it ended after each layer.")
    ] = False,
    why: Annotated[
        str | None, option("TOKEN", 'Which heads a next token, such as " Mary", comes from.')
    ] = None,
    against: Annotated[
        str | None, option("TOKEN", "Why it comes rather than this one; with --why.")
    ] = None,
    ablate: Annotated[
        list[str] | None, option("L.H", "What changes without this head; may be repeated.")
    ] = None,
    cut: Annotated[list[str] | None, typer.Option(hidden=True)] = None,  # what 0.1.0 called it
    sql: Annotated[str | None, option("QUERY", "Ask one SELECT, and print the table.")] = None,
    save: Annotated[str | None, option("FOLDER", "Keep the run, for regard.load.")] = None,
    json: Annotated[
        str | None, option("FILE", "Write what was found as JSON; - prints it.")
    ] = None,
    svg: Svg = None,
    html: Html = None,
) -> None:
    """Where every head of a model looked, and what stands out.

    TEXT is what the model reads; - reads it from standard input.
    """
    out = Output(json=json, svg=svg, html=html)
    if bool(words) == (file is not None):
        what = "a text and --file exclude each other" if words else "a text or --file is needed"
        raise BadInput(f'{what}: regard see "The cat sat on the mat" reads that sentence.')
    text = read_text(words, file)
    if against is not None and why is None:
        raise BadInput('--against needs --why: --why " Mary" --against " John".')
    ablated = [_pair(each) for each in (*(ablate or ()), *(cut or ()))]
    if save is not None:
        from regard.run.disk import check_target

        with writing(save), notes():
            target = check_target(save)
            check_room(next(above for above in target.parents if above.exists()))
    if sql is not None:
        from regard.run._sql import check_names

        with _sql_errors():
            check_names(sql)
    predicts = next_token or lens or why is not None
    name, chosen = (model, "") if model is not None else _choose(text, predicts=predicts)
    with notes(first="--first"):
        from regard.models import open_model
        from regard.models.build import build

        opened = open_model(name)
        reading = opened.read(text, first)
        position = None
        if token is not None:
            from regard.view.names import find_token

            position = find_token(reading.tokens, token, reading.text)
        loaded = build(opened)
        _check(loaded, lens, why, against)
        from regard.ask._lens import LENS
        from regard.ask._see import LONG

        # What is asked of single weights needs q and k, however long the text is.
        exact = None not in (layer, head) or not (save is token is sql is html is None)
        keep = {"q", "k"} if exact or len(reading.tokens) <= LONG else set[str]()
        if html is not None and len(reading.tokens) <= _MOST_MOVED:
            keep |= {"hidden_states"}
        if ablated:
            keep |= _CHANGED
        keep |= {"output"} if next_token else set()
        places = [(layer, head), *ablated]
        run, seconds = look(loaded, reading, places, keep=keep, logits=None if ablated else 1)
        table = None if sql is None else _ask(run, sql)
        coming = None
        if next_token:
            coming = run.predictions(position=-1 if position is None else position)[0]
        at = -1 if position is None else position
        place = position  # of a long text one alone, as all of them would take long
        if lens and place is None and len(reading.tokens) > LENS:
            place = len(reading.tokens) - 1
        layers = run.lens(position=place) if lens else None
        try:
            reason = None if why is None else run.why(at, why, against)
        except ArithmeticError as error:  # its parts do not add up
            raise BadInput(plain_error(error)) from error
        effect = None
        if ablated:  # the model reads the text once more
            heads: dict[str | int, list[int]] = {}
            for which, one in ablated:
                heads.setdefault(which, []).append(one)
            without, _ = look(loaded, reading, keep=_CHANGED, ablate=heads, logits=None)
            effect = run.effect(without)

    title: list[Text] = []
    if table is not None:
        from regard.view.table import render_table

        summary, lines = [], render_table(table, out.width)
    else:
        from regard.view.effect import render_effect
        from regard.view.looks import render_head, render_token
        from regard.view.names import label_at, token_names
        from regard.view.run import render_run, render_summary

        # A picture of the same text is the same every time: it does not tell the seconds.
        unknown, sign = reading.unknown, reading.sign
        about = partial(
            render_summary, run, out.width, name=name, why=chosen, unknown=unknown, sign=sign
        )
        title, summary, lines = about(), about(seconds=seconds), []
        if coming is not None:
            from regard.view.next import render_next

            lines += render_next(coming, _after(loaded, run, position), out.width)
        if layers is not None:
            lines += _lens_lines(loaded, run, layers, place, layer, out.width)
        if reason is not None:
            from regard.view.why import render_why

            lines += render_why(reason, label_at(token_names(run), reason.position), out.width)
        if not predicts:
            if position is not None:
                lines += render_token(run, position, out.width, layer=layer, head=head)
            elif layer is not None and head is not None:
                lines += render_head(run, layer, head, out.width)
            elif effect is None or (layer, head) != (None, None):
                lines += render_run(run, out.width, layer=layer, head=head)
        if effect is not None:  # alone, it is all that is shown
            lines += render_effect(effect, ablated, token_names(run), out.width)
    if save is not None:
        with writing(save), notes():
            run.save(save)
        print(f"Wrote {save}", file=sys.stderr)
    asked = {"token": position, "coming": coming, "lens": layers, "why": reason}
    found = partial(document, **asked, effect=effect, ablated=ablated)
    out.write("json", lambda: found(run, name, seconds, table=table))
    out.draw([*title, *lines], context)
    if html is not None:
        from regard.view.html.run import run_page

        out.write("html", lambda: run_page(run, name=name, layer=layer, lens=lens, why=reason))
    out.print([*summary, *lines])


# ── what was given ────────────────────────────────────────────────────────────────────────────


def _choose(text: str, predicts: bool = False) -> tuple[str, str]:
    """A model for a text of that length, and why this one."""
    from regard.text import tokenize

    if predicts:
        return "smollm2", "smollm2, as it predicts the next token; minilm does not."
    if len(tokenize(text)) <= _MOST_WORDS:
        return "minilm", "minilm, as the text is short; --model smollm2 reads up to 8,192 tokens."
    return "smollm2", "smollm2, as the text is long; --model minilm reads up to 512 tokens."


def _after(loaded: Loaded, run: Run, position: int | None) -> str:
    """Where the tokens stand that are predicted."""
    from regard.view.names import label_at, token_names

    if getattr(run.again, "keywords", {}).get("target") is not None:
        return "What it writes next"
    where = "After" if loaded.decoder else "In the place of"
    names = token_names(run)
    at = len(run.tokens[0]) - 1 if position is None and run.tokens else position
    return f"{where} “{label_at(names, at or 0)}”"


def _check(loaded: Loaded, lens: bool, why: str | None, against: str | None) -> None:
    """Refuse, before it reads the text, a model that these cannot be asked of, and what is no
    token of it.
    """
    if lens:
        from regard.ask._anatomy import check_head

        check_head("lens()", loaded)
    if why is not None:
        from regard.ask._why import ids_of

        ids_of(loaded, why, against)


def _lens_lines(
    loaded: Loaded,
    run: Run,
    found: list[Any],
    position: int | None,
    layer: int | None,
    width: int,
) -> list[Text]:
    """All positions after some layers; one position, or one layer, if that is asked for."""
    from regard.view.lens import render_lens, render_lens_at, render_lens_of
    from regard.view.names import token_names

    if position is not None:
        return render_lens_at(found, 0, _after(loaded, run, position), width)
    if layer is not None:
        return render_lens_of(found[layer], layer, token_names(run), width)
    return render_lens(found, token_names(run), width)


def _pair(place: str) -> tuple[int, int]:
    found = re.fullmatch(r"([0-9]{1,9})\.([0-9]{1,9})", place.strip())
    if found is None:
        raise BadInput(f"--ablate needs LAYER.HEAD, such as 3.5; got {place!r}.")
    return int(found[1]), int(found[2])


# ── SQL ───────────────────────────────────────────────────────────────────────────────────────


def _ask(run: Run, query: str) -> pa.Table:
    """The answer of a run to a query, with values as JSON has them."""
    from regard.run._sql import ask

    with notes(), _sql_errors():
        return ask({None: run}, query, None, stacklevel=2, as_plain=True)


@contextmanager
def _sql_errors() -> Generator[None]:
    """Refuse a query in the terms of --sql."""
    try:
        yield
    except (ImportError, MemoryError) as error:
        raise BadInput(plain_error(error).replace("memory=…", "LIMIT")) from error
    except ValueError as error:
        if error.__context__ is None:
            raise BadInput(plain_error(error).replace("query must", "--sql must", 1)) from error
        said = " ".join(str(error.__context__).partition("\n\nLINE ")[0].split())
        stop = "" if said.endswith((".", "!", "?")) else "."
        raise BadInput(
            f"--sql must be a query that DuckDB can answer; {said}{stop} The tables are edges, "
            "heads, layers and tokens; regard see --help has their columns."
        ) from error
