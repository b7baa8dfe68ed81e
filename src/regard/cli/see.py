"""`regard see`: where every head of a model looked, in the terminal."""

from __future__ import annotations

import re
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from regard.cli.common import (
    BadInput,
    command_line,
    make_console,
    print_out,
    read_standard_input,
    refuse_two_outputs,
    write_out,
)
from regard.cli.reading import (
    check_config,
    check_place,
    load_model,
    look,
    notes,
    plain_error,
    read_tokens,
    refuse_no_text,
)
from regard.cli.see_checks import ask, check_file, check_folder, check_query
from regard.cli.see_json import document

if TYPE_CHECKING:
    from rich.text import Text

    from regard import Run
    from regard.models import Loaded
    from regard.run import Effect
    from regard.text import Token

_MOST_WORDS = 100  # that are still read by the small encoder, if no model is named
_MOST_BYTES = 2**20
_MOST_MOVED = 256  # tokens whose movement through the layers a page can show

_EPILOG = """
\b
Examples:
  regard see "The animal didn't cross the street because it was too tired."
  regard see "The cat saw that it was late." --token it
  regard see "…" --layer 3 --head 1
  regard see "…" --ablate 3.1 --ablate 5.11
  regard see --file story.txt --model smollm2 --save story
  regard see "…" --sql "select layer, head from heads where first > 0.8"

\b
M is minilm (6 layers × 12 heads, 512 tokens), smollm2 (30 × 9, 8,192), or a
folder that a model was saved to. Layers and heads count from 0: 3.5 is head 5
of layer 3. TOKEN is a word as it is written: "the" is no "The", unless there
is no "the". the#2 is the second of those words, 3 is the third token.

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


def add_to(app: typer.Typer) -> None:
    """Make `see` a command of the app.

    >>> app = typer.Typer()
    >>> add_to(app)
    >>> [command.callback.__name__ for command in app.registered_commands]
    ['see']
    """
    app.command(epilog=_EPILOG)(see)


def see(
    context: typer.Context,
    words: Annotated[list[str] | None, typer.Argument(metavar="TEXT", hidden=True)] = None,
    file: Annotated[
        str | None, typer.Option(metavar="FILE", help="Read the text from a file.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            metavar="M", help=f"minilm (chosen up to {_MOST_WORDS} words), smollm2, a folder."
        ),
    ] = None,
    layer: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Only this layer, from 0.")
    ] = None,
    head: Annotated[
        int | None, typer.Option(min=0, metavar="N", help="Only this head, from 0.")
    ] = None,
    token: Annotated[
        str | None, typer.Option(metavar="TOKEN", help="Where every head looks from it.")
    ] = None,
    ablate: Annotated[
        list[str] | None,
        typer.Option(metavar="L.H", help="What changes without this head; may be repeated."),
    ] = None,
    cut: Annotated[list[str] | None, typer.Option(hidden=True)] = None,  # what 0.1.0 called it
    sql: Annotated[
        str | None, typer.Option(metavar="QUERY", help="Ask one SELECT, and print the table.")
    ] = None,
    save: Annotated[
        str | None, typer.Option(metavar="FOLDER", help="Keep the run, for regard.load.")
    ] = None,
    json: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write what was found as JSON; - prints it.")
    ] = None,
    svg: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write it as a picture; - prints it.")
    ] = None,
    html: Annotated[
        str | None, typer.Option(metavar="FILE", help="Write a page to look at; - prints it.")
    ] = None,
) -> None:
    """Where every head of a model looked, and what stands out.

    TEXT is what the model reads; - reads it from standard input.
    """
    refuse_two_outputs(json=json, svg=svg, html=html)
    text = _read(words, file)
    ablated = [_pair(each) for each in (*(ablate or ()), *(cut or ()))]
    for path in (json, svg, html):
        check_file(path)
    if save is not None:
        check_folder(save)
    if sql is not None:
        check_query(sql)
    name, why = (model, "") if model is not None else _choose(text)
    loaded = load_model(name)
    for place in ((layer, head), *ablated):
        check_config(loaded, *place)
    reading = read_tokens(loaded, text)
    position = None if token is None else _position(reading.tokens, text, token)
    # What is asked of single weights needs q and k, however long the text is.
    exact = None not in (layer, head) or not (save is token is sql is html is None)
    keep = ("q", "k") if exact else None
    if html is not None and len(reading.tokens) <= _MOST_MOVED:
        keep = ("q", "k", "hidden_states")
    run, seconds = look(loaded, text, keep=keep, effect=bool(ablated))
    for place in ((layer, head), *ablated):
        check_place(run, *place)
    table = None if sql is None else ask(run, sql)
    effect = _effect(loaded, text, run, ablated) if ablated else None

    from regard.view import picture
    from regard.view.run import render_summary
    from regard.view.table import render_table

    console = make_console()
    width = console.width
    if table is not None:
        title, summary, lines = [], [], render_table(table, width)
    else:
        # A picture of the same text is the same every time: it does not tell the seconds.
        unknown, sign = reading.unknown, reading.sign
        about = partial(render_summary, run, width, name=name, why=why, unknown=unknown, sign=sign)
        title, summary = about(), about(seconds=seconds)
        lines = _lines(run, position, layer, head, effect, ablated, width)
    if save is not None:
        _save(run, save)
    if json is not None:
        content = document(
            run, name, seconds, table=table, token=position, effect=effect, ablated=ablated
        )
        write_out(json, content)
    if svg is not None:
        command = command_line(context.obj["arguments"])
        write_out(svg, picture([*title, *lines], width, command))
    if html is not None:
        from regard.view.html.run import run_page

        write_out(html, run_page(run, name=name))
    if "-" not in (json, svg, html):
        print_out([*summary, *lines], console)


def _lines(
    run: Run,
    token: int | None,
    layer: int | None,
    head: int | None,
    effect: Effect | None,
    ablated: list[tuple[int, int]],
    width: int,
) -> list[Text]:
    """What is asked for: a token, a head, what stands out of a layer, or of all; an ablation.

    An ablation alone is all that is shown.
    """
    from regard.view.effect import render_effect
    from regard.view.head import render_head
    from regard.view.names import token_names
    from regard.view.run import render_run
    from regard.view.token import render_token

    lines: list[Text] = []
    if token is not None:
        lines += render_token(run, token, width, layer=layer, head=head)
    elif layer is not None and head is not None:
        lines += render_head(run, layer, head, width)
    elif effect is None or (layer, head) != (None, None):
        lines += render_run(run, width, layer=layer, head=head)
    if effect is not None:
        lines += render_effect(effect, ablated, token_names(run), width)
    return lines


def _effect(loaded: Loaded, text: str, run: Run, ablated: list[tuple[int, int]]) -> Effect:
    """What changes without these heads: the model reads the text once more."""
    heads: dict[str | int, list[int]] = {}
    for layer, head in ablated:
        heads.setdefault(layer, []).append(head)
    without, _ = look(loaded, text, keep=(), ablate=heads, effect=True)
    return run.effect(without)


# ── what was given ────────────────────────────────────────────────────────────────────────────


def _read(words: list[str] | None, file: str | None) -> str:
    """The text. Raises BadInput if there is none, or it is no text."""
    if (words is None or not words) == (file is None):
        what = "a text and --file exclude each other" if words else "a text or --file is needed"
        raise BadInput(f'{what}: regard see "The cat sat on the mat" reads that sentence.')
    text = " ".join(words or ())
    if file is not None:
        text = _read_file(file)
    elif text == "-":
        text = read_standard_input()
    refuse_no_text(text, "the text" if file is None else file)
    return text


def _read_file(path: str) -> str:
    try:
        with Path(path).open("rb") as opened:
            content = opened.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise BadInput(f"{path} is longer than {_MOST_BYTES:,} bytes: not read.")
        return content.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        raise BadInput(f"{path} is not UTF-8: byte {error.start + 1} is wrong.") from None
    except (OSError, ValueError) as error:  # ValueError: a zero byte in the name
        reason = getattr(error, "strerror", None) or error
        raise BadInput(f"cannot read {path}: {reason}.") from error


def _choose(text: str) -> tuple[str, str]:
    """A model for a text of that length, and why this one."""
    from regard.text import tokenize

    if len(tokenize(text)) <= _MOST_WORDS:
        limit = "--model smollm2 reads up to 8,192 tokens"
        return "minilm", f"minilm, as the text is short; {limit}."
    limit = "--model minilm reads up to 512 tokens"
    return "smollm2", f"smollm2, as the text is long; {limit}."


def _pair(place: str) -> tuple[int, int]:
    found = re.fullmatch(r"([0-9]{1,9})\.([0-9]{1,9})", place.strip())
    if found is None:
        raise BadInput(f"--ablate needs LAYER.HEAD, such as 3.5; got {place!r}.")
    return int(found[1]), int(found[2])


def _position(tokens: list[Token], text: str, name: str) -> int:
    """The place of the token that is meant, from 0. Raises BadInput if there is no such one."""
    from regard import Run
    from regard.view.names import find_token

    try:
        return find_token(Run(text=text, tokens=[tokens]), name)
    except KeyError as error:
        raise BadInput(plain_error(error)) from error


# ── what comes out ────────────────────────────────────────────────────────────────────────────


def _save(run: Run, folder: str) -> None:
    try:
        with notes():
            run.save(folder)
    except (ValueError, ImportError) as error:
        raise BadInput(plain_error(error)) from error
    except OSError as error:
        raise BadInput(f"cannot write {folder}: {error.strerror or error}.") from error
    print(f"Wrote {folder}", file=sys.stderr)
