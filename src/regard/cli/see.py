"""`regard see`: where every head of a model looked, in the terminal."""

from __future__ import annotations

import inspect
import json as json_
import math
import re
import sys
import time
import warnings
from collections.abc import Generator, Iterable, Mapping
from contextlib import contextmanager
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

if TYPE_CHECKING:
    import pyarrow as pa
    from rich.text import Text
    from torch import nn

    from regard import Run
    from regard.models import Loaded
    from regard.run import Effect

__all__ = ["add_to", "check_place", "load_model", "look", "plain_error", "refuse_no_text", "see"]

_MOST_WORDS = 100  # that are still read by the small encoder, if no model is named
_MOST_BYTES = 2**20
_LONG = 2048  # tokens; of a longer text q and k are kept only where they are needed
_PATIENCE = 2.0  # seconds until it is said how far it has come
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
    from regard.view import run as views

    try:
        position = None if token is None else views.find_token(run, token)
        table = None if sql is None else _ask(run, sql)
    except (KeyError, ValueError, ImportError) as error:
        raise BadInput(plain_error(error)) from error
    effect = _effect(loaded, text, run, cuts) if cuts else None
    console = make_console()
    width = console.width
    if table is not None:
        title, summary, lines = [], [], views.render_table(table, width)
    else:
        # A picture of the same text is the same every time: it does not tell the seconds.
        title = views.render_summary(run, width, name=name, why=why)
        summary = views.render_summary(run, width, name=name, seconds=seconds, why=why)
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
    from regard.view import run as views

    lines: list[Text] = []
    if token is not None:
        lines += views.render_token(run, token, width, layer=layer, head=head)
    elif layer is not None and head is not None:
        lines += views.render_head(run, layer, head, width)
    elif effect is None:
        lines += views.render_run(run, width, layer=layer, head=head)
    if effect is not None:
        lines += views.render_effect(effect, cuts, views.token_labels(run), width)
    return lines


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


def refuse_no_text(text: str, name: str = "the text") -> None:
    """Raise BadInput if the text is empty, or came from bytes that are no UTF-8.

    >>> refuse_no_text("love")
    """
    if any("\ud800" <= character <= "\udfff" for character in text):
        raise BadInput(f"{name} is not UTF-8.")
    if not text.strip():
        raise BadInput(f"{name} is empty: give it a word.")


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


def check_place(run: Run, layer: int | None, head: int | None) -> None:
    """Refuse a layer or a head that the model has not got.

    >>> from regard import Run
    >>> check_place(Run(), None, None)
    """
    layers = list(run.layers.values())
    if layer is not None and layer >= len(layers):
        raise BadInput(f"there is no layer {layer}; there are {len(layers)} here, from 0.")
    here = layers if layer is None else [layers[layer]]
    most = max((each.shape[1] for each in here), default=0)
    if head is not None and head >= most:
        where = "" if layer is None else f" in layer {layer}"
        raise BadInput(f"there is no head {head}{where}; there are {most} here, from 0.")


def plain_error(error: BaseException) -> str:
    """What an error says, without the name of the function that says it.

    >>> plain_error(ValueError("inputs(): text must have a token."))
    'text must have a token.'
    """
    message = str(error.args[0]) if isinstance(error, KeyError) and error.args else str(error)
    return " ".join(re.sub(r"^\w+\(\)(: | )", "", message).split())


# ── running a model ───────────────────────────────────────────────────────────────────────────


def load_model(name: str) -> Loaded:
    """A model and its tokenizer. Raises BadInput where it cannot be had.

    >>> load_model("./no/such/folder")
    Traceback (most recent call last):
    regard.cli.common.BadInput: ./no/such/folder must be a folder, minilm, smollm2, or the id ...
    """
    try:
        from regard.models import load

        with _notes():
            loaded = load(name)
    except (ValueError, ImportError) as error:
        raise BadInput(plain_error(error)) from error
    if loaded.tokenizer is None:
        raise BadInput(f"{name} has no tokenizer.json: it cannot read a text.")
    return loaded


def look(
    loaded: Loaded,
    text: str,
    *,
    keep: Iterable[str] | None = None,
    cut: Mapping[str | int, Iterable[int]] | None = None,
    effect: bool = False,
) -> tuple[Run, float]:
    """The run of a text through a model, and how many seconds it took.

    `keep` is what `regard.watch` keeps; None keeps q and k of texts that are not long. `effect`
    keeps what `run.effect` needs. Raises BadInput if the model cannot take the text.
    """
    import torch

    from regard import See, watch

    try:
        inputs: dict[str, Any] = loaded.inputs(text)
    except ValueError as error:
        raise BadInput(plain_error(error)) from error
    length = inputs["input_ids"].shape[1]
    kept = set(("q", "k") if length <= _LONG else ()) if keep is None else set(keep)
    side = 64 if kept >= {"q", "k"} else 24  # without q and k, a map must fit as it is
    kept |= {"vectors", "output"} if effect else set()
    taken = inspect.signature(loaded.model.forward).parameters
    if "use_cache" in taken:
        inputs["use_cache"] = False
    if "logits_to_keep" in taken and not effect:
        inputs["logits_to_keep"] = 1  # all of them, of a long text, are gigabytes
    watching = watch(
        loaded.model,
        See(entropy=True, top=8, map=(side, side), distance=True),
        keep=sorted(kept),
        tokenizer=loaded.tokenizer,
        text=text,
        cut=cut,
    )
    try:
        with _notes(), watching as run, torch.no_grad(), _progress(loaded.model):
            start = time.perf_counter()
            loaded.model(**inputs)
            seconds = time.perf_counter() - start
    except (ValueError, RuntimeError) as error:
        raise BadInput(f"{loaded.name} cannot read the text: {plain_error(error)}") from error
    return run, seconds


@contextmanager
def _notes() -> Generator[None]:
    """Tell what Regard warns of in one line each on standard error, when it is done."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        found = re.match(r"(?:watch|load|edges|sql)\(\): ", str(warning.message))
        if found is not None:
            from regard.view.labels import fit

            note = " ".join(str(warning.message)[found.end() :].split())
            print(fit(f"regard: note: {note}", 500), file=sys.stderr)


@contextmanager
def _progress(model: nn.Module) -> Generator[None]:
    """Say on standard error which block has been reached, if it is a terminal and takes long."""
    from torch import nn

    stacks = [module for module in model.modules() if isinstance(module, nn.ModuleList)]
    blocks = list(max(stacks, key=len, default=[]))
    if sys.stderr is None or not sys.stderr.isatty() or not blocks:
        yield
        return
    start = time.monotonic()
    shown = False

    def tell(number: int) -> None:
        nonlocal shown
        seconds = time.monotonic() - start
        if seconds >= _PATIENCE:
            shown = True
            line = f"\r\x1b[Klayer {number} of {len(blocks)}, {seconds:.0f} s"
            print(line, end="", file=sys.stderr, flush=True)

    hooks = [
        block.register_forward_hook(lambda *_, number=number: tell(number))
        for number, block in enumerate(blocks, 1)
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()
        if shown:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)


def _ask(run: Run, query: str) -> pa.Table:
    with _notes():
        return run.sql(query)


def _effect(loaded: Loaded, text: str, run: Run, cuts: list[tuple[int, int]]) -> Effect:
    """What changes without these heads: the model reads the text once more."""
    heads: dict[str | int, list[int]] = {}
    for layer, head in cuts:
        heads.setdefault(layer, []).append(head)
    without, _ = look(loaded, text, keep=(), cut=heads, effect=True)
    return run.effect(without)


# ── what comes out ────────────────────────────────────────────────────────────────────────────


def _save(run: Run, folder: str) -> None:
    try:
        with _notes():
            run.save(folder)
    except (ValueError, ImportError) as error:
        raise BadInput(plain_error(error)) from error
    except OSError as error:
        raise BadInput(f"cannot write {folder}: {error.strerror or error}.") from error
    print(f"Wrote {folder}", file=sys.stderr)


def _looks(run: Run, token: int) -> dict[str, Any]:
    from regard.view.run import looks_of_token, mean_looks

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
    from regard.view.run import strongest_links

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
