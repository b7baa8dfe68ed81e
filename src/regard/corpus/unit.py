"""`Worker`: a model that reads one unit of texts after the other, each to its shard."""

from __future__ import annotations

import hashlib
import inspect
import os
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from regard._checkpoint.errors import plain
from regard._extras import need
from regard._watch.passes import Passes, watch_passes
from regard.corpus.batches import batches
from regard.corpus.errors import CorpusError
from regard.corpus.measure import Measured, look, measure_layer
from regard.corpus.plan import Plan, read_plan
from regard.corpus.reading import Raw, some_texts
from regard.corpus.shard import write_shard
from regard.corpus.sketch import STATISTICS, Gathered, gathered_table
from regard.models import Loaded, Reading, load
from regard.text import readable

if TYPE_CHECKING:
    import pyarrow as pa

BEGINNING = 160  # characters of a text that its row has
# What a model may raise for a text that it cannot take, or for which there is no memory.
_REFUSALS = (RuntimeError, ValueError, IndexError, TypeError, ArithmeticError, MemoryError)


@dataclass
class Text:
    """A text on its way: where it stands, what it says, and why it is not read, if it is not."""

    id: int
    source: str
    raw: Raw
    text: str = ""
    reading: Reading | None = None
    reason: str | None = None


@dataclass
class _Unit:
    """What the batches of a unit have come to, by layer and by text."""

    layers: dict[str, int] = field(default_factory=dict[str, int])  # how many heads each has
    gathered: list[Gathered] = field(default_factory=list[Gathered])
    seen: list[tuple[list[Text], list[Measured]]] = field(
        default_factory=list[tuple[list[Text], list[Measured]]]
    )
    notes: dict[str, None] = field(default_factory=dict[str, None])


class Worker:
    """Reads units of the corpus in a folder, whose plan is there.

    `at_batch` is told how many texts are done with each batch.
    """

    def __init__(self, out: Path, loaded: Loaded | None = None) -> None:
        plan = read_plan(out)
        if plan is None:
            raise CorpusError(f"corpus(): {plain(out)} must have a plan; it has none.")
        self.out, self.plan = out, plan
        torch.set_num_threads(plan.recipe.threads)
        self.loaded = load(plan.recipe.model, progress=False) if loaded is None else loaded
        taken = inspect.signature(self.loaded.model.forward).parameters
        if "decoder_input_ids" in taken:
            raise ValueError(
                f"corpus(): {plain(plan.recipe.model)} must be a model that reads a text; it "
                "reads one and writes another. regard.ask.see shows where it looks then."
            )
        settings = {"use_cache": False, "logits_to_keep": 1}
        self._settings = {name: value for name, value in settings.items() if name in taken}

    def do(self, unit: int, at_batch: Callable[[int], None] = lambda _: None) -> None:
        """Read a unit, and write its shard."""
        texts = [self._read(text) for text in texts_of_unit(self.plan, unit)]
        found, readable_ones = _Unit(), [text for text in texts if text.reading is not None]
        at_batch(len(texts) - len(readable_ones))
        lengths = [len(text.reading.ids) for text in readable_ones if text.reading is not None]
        passes, see = Passes(), look(self.plan.recipe.min_weight)
        with (
            warnings.catch_warnings(),
            watch_passes(self.loaded.model, see, passes) as run,
            torch.no_grad(),
        ):
            warnings.simplefilter("ignore")  # what could not be seen is in the run as well
            for places in batches(lengths, self.plan.recipe.batch):
                self._see([readable_ones[place] for place in places], found, passes)
                at_batch(len(places))
        if found.seen:
            found.notes |= dict.fromkeys((*run.unseen, *run.notes))
        tokens = sum(len(text.reading.ids) for text in texts if text.reading is not None)
        about: dict[str, Any] = {
            "unit": unit,
            "texts": len(texts),
            "read": sum(text.reason is None for text in texts),
            "tokens": tokens,
            "layers": [[name, heads] for name, heads in found.layers.items()],
            "notes": list(found.notes),
        }
        write_shard(self.out, unit, _tables(texts, found), about)

    def _read(self, text: Text) -> Text:
        """Its tokens, or the reason why there are none."""
        content, reader = text.raw.content, self.loaded.reader()
        if content is None:
            text.reason = text.raw.reason
            return text
        try:
            text.text = content.decode("utf-8")
        except UnicodeDecodeError as error:
            wrong = content[error.start]
            text.reason = f"not UTF-8: byte {error.start + 1} is {wrong:#04x}"
            return text
        if not text.text.strip():
            text.reason = "empty"
            return text
        try:
            reading = reader.read(text.text, "corpus", self.plan.recipe.first)
            count, most = len(reading.ids), reader.positions
            if most is not None and count > most:
                text.reason = f"too long: {count:,} tokens, and the model takes {most:,}"
                return text
            reader.check([reading], "corpus")
            text.reading = reading
        except ValueError as error:
            said = str(error).removeprefix("corpus(): text must ")
            text.reason = f"refused by the tokenizer: it must {plain(said, 200)}"
        return text

    def _see(self, texts: Sequence[Text], found: _Unit, passes: Passes) -> None:
        """Watch the model read a batch. If it cannot, its texts are read one by one, and those that
        it cannot read have their reason."""
        readings = [text.reading for text in texts if text.reading is not None]
        inputs = {**self.loaded.batch(readings, "corpus"), **self._settings}
        try:
            self._watched(inputs)
        except _REFUSALS as error:
            if len(texts) > 1:
                for text in texts:
                    self._see([text], found, passes)
                return
            texts[0].reading = None
            texts[0].reason = f"refused by the model: {plain(' '.join(str(error).split()), 200)}"
            return
        layers = passes.layers
        if not found.layers:
            found.layers = {name: layer.shape[1] for name, layer in layers.items()}
            found.gathered = [Gathered(heads) for heads in found.layers.values()]
        found.notes |= dict.fromkeys(note for layer in layers.values() for note in layer.notes)
        recipe = self.plan.recipe
        every = zip(layers.values(), found.gathered, strict=True)
        with torch._C.DisableTorchFunction():  # the watch need not be asked about what follows
            measured = [measure_layer(*each, recipe.min_weight, recipe.edges) for each in every]
        found.seen.append((list(texts), measured))

    def _watched(self, inputs: dict[str, Any]) -> None:
        """Have the model read a batch, inside a watch."""
        self.loaded.model(**inputs)


def texts_of_unit(plan: Plan, unit: int) -> Iterator[Text]:
    """The texts of a unit as they stand in their sources. Raises CorpusError if one has changed."""
    for piece in plan.units[unit]:
        source = plan.sources[piece.source]
        if not source.is_as_listed():
            raise CorpusError(
                f"corpus(): {plain(source.name)} must stay what it was when the corpus was begun; "
                "it has changed. Put it back, or start again in another folder."
            )
        found = some_texts(source, plan.recipe.cut, piece.offset, piece.position, piece.count)
        for number, raw in enumerate(found):
            yield Text(piece.text + number, source.name, raw)


# ── tables ────────────────────────────────────────────────────────────────────────────────────


def columns(arrow: Any) -> dict[str, Any]:
    """The columns of the tables of a shard; `regard.corpus.sketch` has those of the sketches."""
    whole, long, text = arrow.int32(), arrow.int64(), arrow.string()
    return {
        "texts": arrow.schema(
            {
                **{"text": long, "source": text, "position": long, "characters": long},
                **{"tokens": whole, "sha256": text, "reason": text, "beginning": text},
            }
        ),
        "heads": arrow.schema(
            {
                **{"text": long, "layer": whole, "head": whole, "queries": whole},
                **dict.fromkeys(STATISTICS, arrow.float32()),
                "edges": whole,
            }
        ),
        "edges": arrow.schema(
            {
                **{"text": long, "layer": whole, "head": whole, "query": whole, "key": whole},
                **{"query_token": text, "key_token": text, "weight": arrow.float32()},
            }
        ),
    }


def _tables(texts: list[Text], found: _Unit) -> dict[str, pa.Table]:
    """The tables of a unit, in the order of texts, layers, heads, and falling weights."""
    arrow = need("corpus()", "pyarrow", "runs")
    kinds = columns(arrow)
    return {
        "texts": arrow.Table.from_pylist([_row(text) for text in texts], schema=kinds["texts"]),
        "heads": _sorted(arrow, kinds["heads"], list(_head_columns(found)), ("text", "layer")),
        "edges": _edges(arrow, kinds["edges"], found),
        "sketches": gathered_table(arrow, found.gathered),
    }


def _row(text: Text) -> dict[str, Any]:
    content, reading = text.raw.content, text.reading
    words = readable(" ".join(text.text[: 4 * BEGINNING].split()))
    return {
        "text": text.id,
        "source": readable(os.fsdecode(text.source)),
        "position": text.raw.position,
        "characters": len(text.text),
        "tokens": None if reading is None else len(reading.ids),
        "sha256": None if content is None else hashlib.sha256(content).hexdigest(),
        "reason": text.reason,
        "beginning": words if len(words) <= BEGINNING else f"{words[: BEGINNING - 1]}…",
    }


def _head_columns(found: _Unit) -> Iterator[list[Any]]:
    """Of each layer of each batch the columns of the table of heads."""
    for texts, measured in found.seen:
        ids = np.array([text.id for text in texts])
        for index, layer in enumerate(measured):
            batch, heads = layer.queries.shape
            means = layer.means.reshape(batch * heads, -1)
            yield [
                np.repeat(ids, heads),
                np.full(batch * heads, index),
                np.tile(np.arange(heads), batch),
                layer.queries.reshape(-1),
                *(means[:, n] for n in range(len(STATISTICS))),
                layer.edges.reshape(-1),
            ]


def _edges(arrow: Any, kinds: Any, found: _Unit) -> pa.Table:
    """The table of edges: tokens are numbers until all rows are in order."""
    words: dict[str, int] = {}
    parts = list(_edge_columns(found, words))
    numbers = [
        arrow.int32() if name.endswith("_token") else kinds.field(name).type for name in kinds.names
    ]
    table = _sorted(
        arrow, arrow.schema(zip(kinds.names, numbers, strict=True)), parts, ("text", "layer")
    )
    names = arrow.array([*map(readable, words), None], arrow.string())  # what is no token has none

    def named(name: str) -> Any:
        codes = table[name].to_numpy()
        return names.take(arrow.array(np.where(codes < 0, len(words), codes)))

    columns = (named(name) if name.endswith("_token") else table[name] for name in kinds.names)
    return arrow.Table.from_arrays(list(columns), schema=kinds)


def _edge_columns(found: _Unit, words: dict[str, int]) -> Iterator[list[Any]]:
    """The same of the table of edges, of which tokens are numbers of `words`, −1 for none."""
    for texts, measured in found.seen:
        ids = np.array([text.id for text in texts])
        codes = [
            np.array([words.setdefault(token.text, len(words)) for token in text.reading.tokens])
            for text in texts
            if text.reading is not None
        ]
        longest = max(map(len, codes))
        filled = [np.pad(x, (0, longest + 1 - len(x)), constant_values=-1) for x in codes]
        table = np.stack(filled)  # what is no token of the text stands behind it, and has no name
        for index, layer in enumerate(measured):
            links = layer.links
            yield [
                ids[links.sequence],
                np.full(len(links.head), index),
                *(links.head, links.query, links.key),
                *(
                    table[links.sequence, np.minimum(place, longest)]
                    for place in (links.query, links.key)
                ),
                links.weight,
            ]


def _sorted(arrow: Any, kinds: Any, parts: list[list[Any]], by: tuple[str, ...]) -> pa.Table:
    """One table of parts that are in order themselves, put into that of some of its columns."""
    if not parts:
        return kinds.empty_table()
    whole = [np.concatenate(column) for column in zip(*parts, strict=True)]
    order = np.lexsort([whole[kinds.names.index(name)] for name in reversed(by)])
    arrays = [
        arrow.array(column[order], kind, from_pandas=True)
        for column, kind in zip(whole, kinds.types, strict=True)
    ]
    return arrow.Table.from_arrays(arrays, schema=kinds)
