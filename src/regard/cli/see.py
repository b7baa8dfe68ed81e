"""`regard see`: where every head of a model looked, in the terminal."""

from __future__ import annotations

import json as json_
import math
import re
import sys
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from regard.cli.common import (
    BadInput,
    command_line,
    make_console,
    print_out,
    read_standard_input,
    write_out,
)
from regard.cli.reading import check_place, load_model, look, notes, plain_error, refuse_no_text

if TYPE_CHECKING:
    from rich.text import Text

    from regard import Run
    from regard.models import Loaded
    from regard.run import Effect

__all__ = ["add_to", "see"]

_MOST_WORDS = 100  # that are still read by the small encoder, if no model is named
_MOST_BYTES = 2**20
_FORMAT, _VERSION = "regard.see", 1

_EPILOG = """
\b
Examples:
  regard see "The animal didn't cross the street because it was too tired."
  regard see "The animal didn't cross the street because it was too tired." --token it
  regard see "…" --layer 3 --head 1
  regard see "…" --cut 3.1 --cut 5.11
  regard see --file story.txt --model smollm2 --save story
  regard see "…" --sql "select layer, head, first from heads order by first desc limit 5"

\b
M is minilm (6 layers × 12 heads), smollm2 (30 × 9), or a folder that a model was saved to.
Layers and heads count from 0: 3.5 is head 5 of layer 3. The second "it" of a text is it#2,
its third token 3. The tables of --sql are edges, heads, layers and tokens.
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
        typer.Option(metavar="M", help=f"minilm (up to {_MOST_WORDS} words), smollm2, a folder."),
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
    cut: Annotated[
        list[str] | None,
        typer.Option(metavar="L.H", help="What changes without this head; may be repeated."),
    ] = None,
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
) -> None:
    """Where every head of a model looked, and what stands out.

    TEXT is what the model reads; - reads it from standard input.
    """
    if json == svg == "-":
        raise BadInput("--json - and --svg - cannot both go to standard output.")
    text = _read(words, file)
    cuts = [_pair(each) for each in cut or ()]
    name, why = (model, "") if model is not None else _choose(text)
    loaded = load_model(name)
    # What is asked of single weights needs q and k, however long the text is.
    exact = None not in (layer, head) or not (save is token is sql is None)
    run, seconds = look(loaded, text, keep=("q", "k") if exact else None, effect=bool(cuts))
    for place in ((layer, head), *cuts):
        check_place(run, *place)
    from regard.view import picture
    from regard.view.links import find_token
    from regard.view.run import render_summary
    from regard.view.table import render_table

    try:
        position = None if token is None else find_token(run, token)
        with notes():
            table = None if sql is None else run.sql(sql)
    except (KeyError, ValueError, ImportError) as error:
        raise BadInput(plain_error(error)) from error
    effect = _effect(loaded, text, run, cuts) if cuts else None
    console = make_console()
    width = console.width
    if table is not None:
        title, summary, lines = [], [], render_table(table, width)
    else:
        # A picture of the same text is the same every time: it does not tell the seconds.
        title = render_summary(run, width, name=name, why=why)
        summary = render_summary(run, width, name=name, seconds=seconds, why=why)
        lines = _lines(run, position, layer, head, effect, cuts, width)
    if save is not None:
        _save(run, save)
    if json is not None:
        found = {
            "sql": None if table is None else table.to_pylist(),
            "token": None if position is None else _looks(run, position),
            "effect": None if effect is None else _changes(effect, cuts),
        }
        write_out(json, _document(run, name, seconds, found))
    if svg is not None:
        command = command_line(context.obj["arguments"])
        write_out(svg, picture([*title, *lines], width, command))
    if "-" not in (json, svg):
        print_out([*summary, *lines], console)


def _lines(
    run: Run,
    token: int | None,
    layer: int | None,
    head: int | None,
    effect: Effect | None,
    cuts: list[tuple[int, int]],
    width: int,
) -> list[Text]:
    """What is asked for: one token, one head, what a cut does, or else what stands out."""
    from regard.view.effect import render_effect
    from regard.view.head import render_head
    from regard.view.links import token_labels
    from regard.view.run import render_run
    from regard.view.token import render_token

    lines: list[Text] = []
    if token is not None:
        lines += render_token(run, token, width, layer=layer, head=head)
    elif layer is not None and head is not None:
        lines += render_head(run, layer, head, width)
    elif effect is None:
        lines += render_run(run, width, layer=layer, head=head)
    if effect is not None:
        lines += render_effect(effect, cuts, token_labels(run), width)
    return lines


def _effect(loaded: Loaded, text: str, run: Run, cuts: list[tuple[int, int]]) -> Effect:
    """What changes without these heads: the model reads the text once more."""
    heads: dict[str | int, list[int]] = {}
    for layer, head in cuts:
        heads.setdefault(layer, []).append(head)
    without, _ = look(loaded, text, keep=(), cut=heads, effect=True)
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

    words = len(tokenize(text))
    name = "minilm" if words <= _MOST_WORDS else "smollm2"
    counted = f"{words:,} word{'' if words == 1 else 's'} and marks"
    limit = f"minilm reads up to {_MOST_WORDS}, smollm2 more"
    return name, f"{name} was chosen for {counted} ({limit}); --model names another."


def _pair(cut: str) -> tuple[int, int]:
    found = re.fullmatch(r"([0-9]{1,9})\.([0-9]{1,9})", cut.strip())
    if found is None:
        raise BadInput(f"--cut needs LAYER.HEAD, such as 3.5; got {cut!r}.")
    return int(found[1]), int(found[2])


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


def _looks(run: Run, token: int) -> dict[str, Any]:
    from regard.view.links import looks_of_token, mean_looks

    heads = [
        {"layer": link.layer, "head": link.head, "key": link.key, "weight": link.weight}
        for link in looks_of_token(run, token)
    ]
    return {"position": token, "heads": heads, "mean": mean_looks(run, token).tolist()}


def _changes(effect: Effect, cuts: list[tuple[int, int]]) -> dict[str, Any]:
    changes = dict(effect.layers)
    if effect.output is not None:
        changes["output"] = effect.output
    return {
        "cut": [{"layer": layer, "head": head} for layer, head in cuts],
        "relative": {name: change.relative[0].tolist() for name, change in changes.items()},
        "cosine": {name: change.cosine[0].tolist() for name, change in changes.items()},
    }


def _document(run: Run, name: str, seconds: float, found: dict[str, Any]) -> str:
    from regard.view.links import strongest_links

    tokens = run.tokens[0] if run.tokens else []
    content = {
        "format": _FORMAT,
        "version": _VERSION,
        "model": name,
        "text": run.text,
        "seconds": seconds,
        "tokens": [asdict(token) for token in tokens],
        "layers": list(run.layers),
        "heads": run.heads(),
        "links": [asdict(link) for link in strongest_links(run)],
        "unseen": run.unseen,
        **{key: value for key, value in found.items() if value is not None},
    }
    return json_.dumps(_finite(content), ensure_ascii=False, indent=1, allow_nan=False) + "\n"


def _finite(value: Any) -> Any:
    """The same without NaN and infinities, which JSON has not: null stands for them."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value
