"""The plan of a corpus: which texts are which unit of work, decided before any work is done.

It is a folder of three files, `recipe.json`, `sources.parquet` and `pieces.parquet`, that appears
whole or not at all. A unit is some texts that stand behind each other, from one source or several;
a piece is the part of it that comes from one. Texts are numbered through, in that order.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from regard._checkpoint.errors import plain
from regard._checkpoint.files import own_file, read_object
from regard._extras import need
from regard._files import naming, replacing
from regard.corpus.errors import CorpusError
from regard.corpus.reading import Cut, texts_of
from regard.corpus.recipe import Recipe
from regard.corpus.sources import Source

PLAN = "plan"
_RECIPE, _SOURCES, _PIECES = FILES = ("recipe.json", "sources.parquet", "pieces.parquet")
_LIMIT = 1_000_000


@dataclass(frozen=True)
class Piece:
    """`count` texts of a source, of which the first is the `text`-th of the corpus."""

    unit: int
    text: int
    source: int
    offset: int
    position: int
    count: int
    size: int


@dataclass(frozen=True, eq=False)
class Plan:
    """What is to be done: the recipe, the sources, and the pieces of all units in order."""

    recipe: Recipe
    sources: list[Source]
    pieces: list[Piece]

    @cached_property
    def units(self) -> list[list[Piece]]:
        """The pieces of each unit."""
        found: list[list[Piece]] = []
        for piece in self.pieces:
            if piece.unit == len(found):
                found.append([])
            found[piece.unit].append(piece)
        return found

    @cached_property
    def texts(self) -> int:
        return sum(piece.count for piece in self.pieces)

    def count(self, unit: int) -> int:
        """The texts of a unit."""
        return sum(piece.count for piece in self.units[unit])


def make_plan(
    recipe: Recipe, sources: Iterable[Source], tell: Callable[[int], None] = lambda _: None
) -> Plan:
    """Read all sources through once, and cut them into units. `tell` gets the texts so far."""
    listed: list[Source] = []
    pieces: list[Piece] = []
    unit = text = in_unit = size_of_unit = 0
    for number, source in enumerate(sources):
        source = source.listed()
        listed.append(source)
        last: Piece | None = None
        for raw in texts_of(source, recipe.cut):
            is_full = in_unit == recipe.unit or size_of_unit + raw.size > recipe.unit_bytes
            if in_unit and is_full:
                unit, in_unit, size_of_unit = unit + 1, 0, 0
            if last is None or last.unit != unit:
                if last is not None:
                    pieces.append(last)
                last = Piece(unit, text, number, raw.offset, raw.position, 0, 0)
            last = Piece(
                *(last.unit, last.text, last.source, last.offset, last.position),
                *(last.count + 1, last.size + raw.size),
            )
            in_unit, size_of_unit, text = in_unit + 1, size_of_unit + raw.size, text + 1
            tell(text)
        if last is not None:
            pieces.append(last)
    if not pieces:
        raise ValueError("corpus(): the sources must have at least one text; got none.")
    return Plan(recipe, listed, pieces)


# ── on disk ───────────────────────────────────────────────────────────────────────────────────


def save_plan(plan: Plan, out: Path) -> None:
    """Write it, whole or not at all. OSError names the folder."""
    arrow, parquet = (
        need("corpus()", "pyarrow", "runs"),
        need("corpus()", "pyarrow.parquet", "runs"),
    )
    sources = [{**vars(source), "path": str(source.path)} for source in plan.sources]
    with naming(out / PLAN), replacing(out / PLAN) as new:
        text = json.dumps(plan.recipe.to_dict(), indent=1, ensure_ascii=False) + "\n"
        (new / _RECIPE).write_text(text, encoding="utf-8")
        for name, rows, kinds in (
            (_SOURCES, sources, _source_columns(arrow)),
            (_PIECES, [vars(piece) for piece in plan.pieces], _piece_columns(arrow)),
        ):
            stream = arrow.BufferOutputStream()
            parquet.write_table(arrow.Table.from_pylist(rows, kinds), stream, compression="zstd")
            (new / name).write_bytes(stream.getvalue())


def read_plan(out: Path) -> Plan | None:
    """The plan of a folder; None if it has none. Raises CorpusError if it is broken."""
    folder = out / PLAN
    if not folder.is_dir():
        return None
    arrow, parquet = (
        need("corpus()", "pyarrow", "runs"),
        need("corpus()", "pyarrow.parquet", "runs"),
    )
    try:
        recipe = Recipe.from_dict(read_object(_file(folder, _RECIPE), _LIMIT), folder / _RECIPE)
        rows = (
            parquet.read_table(_file(folder, name)).cast(kinds).to_pylist()
            for name, kinds in (
                (_SOURCES, _source_columns(arrow)),
                (_PIECES, _piece_columns(arrow)),
            )
        )
        sources = [Source(**row | {"path": Path(row["path"])}) for row in next(rows)]
        pieces = [Piece(**row) for row in next(rows)]
    except CorpusError:
        raise
    except (OSError, ValueError, KeyError, TypeError, arrow.ArrowException) as error:
        raise CorpusError(
            f"corpus(): {plain(folder)} must be the plan of a corpus; got "
            f"{plain(' '.join(str(error).split()), 200)}. Start again in another folder."
        ) from None
    return Plan(recipe, sources, pieces)


def _file(folder: Path, name: str) -> Path:
    path = own_file(folder, name, links=False)
    if path is None:
        raise CorpusError(
            f"corpus(): {plain(folder)} must hold {name}; it does not. Start again elsewhere."
        )
    return path


def _source_columns(arrow: Any) -> Any:
    text, whole = arrow.string(), arrow.int64()
    return arrow.schema(
        {"name": text, "path": text, "kind": text, "size": whole, "changed": whole, "sha256": text}
    )


def _piece_columns(arrow: Any) -> Any:
    return arrow.schema(dict.fromkeys(Piece.__dataclass_fields__, arrow.int64()))


def changed_sources(plan: Plan, sources: list[Source]) -> Iterator[str]:
    """What is not as it was listed, each as a sentence without its full stop."""
    before = {source.path: source for source in plan.sources}
    now = {source.path: source for source in sources}
    for path, source in before.items():
        if path not in now:
            yield f"{plain(source.name)} was among the texts, and is not"
        elif now[path].kind != source.kind or not source.is_as_listed():
            yield f"{plain(source.name)} is not what it was"
    for path, source in now.items():
        if path not in before:
            yield f"{plain(source.name)} was not among the texts, and is"
    if not set(before) ^ set(now) and list(before) != list(now):
        yield "the texts were named in another order"


__all__ = ["PLAN", "Cut", "Piece", "Plan", "changed_sources", "make_plan", "read_plan", "save_plan"]
