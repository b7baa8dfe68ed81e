"""`load_corpus`: what a model did with many texts, opened; its tables stay on disk until asked."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from regard._arguments import shown, whole
from regard._checkpoint.errors import CheckpointError, plain
from regard._duckdb import answer, check_query
from regard._extras import need
from regard.corpus.errors import CorpusError
from regard.corpus.manifest import read_manifest, sketches_of, totals, wrong_files
from regard.corpus.plan import Plan, read_plan
from regard.corpus.shard import UNITS, name_of, read_about
from regard.corpus.sketch import STATISTICS, Sketch
from regard.corpus.unit import columns
from regard.run import Head
from regard.run.heads import named
from regard.run.table import Table

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as dataset

_QUANTILES = {"q05": 0.05, "q25": 0.25, "median": 0.5, "q75": 0.75, "q95": 0.95}


def load_corpus(path: str | os.PathLike[str], *, unfinished: bool = False) -> Corpus:
    """The corpus that `regard corpus … --out` has written to a folder.

    With `unfinished`, also one that is not done yet, as far as it is.

    >>> load_corpus("no/such/folder")
    Traceback (most recent call last):
    regard.corpus.errors.CorpusError: load_corpus(): no/such/folder must be the folder of a corpus;
    got none. regard corpus TEXTS --model M --out FOLDER writes one.
    """
    folder = Path(path)
    plan = read_plan(folder) if folder.is_dir() else None
    if plan is None:
        raise CorpusError(
            f"load_corpus(): {plain(folder)} must be the folder of a corpus; got none. "
            "regard corpus TEXTS --model M --out FOLDER writes one."
        )
    try:
        manifest = read_manifest(folder)
    except CheckpointError as error:
        raise CorpusError(str(error).replace("load():", "load_corpus():", 1)) from None
    found = (read_about(folder / UNITS / name_of(unit)) for unit in range(len(plan.units)))
    units = {unit: about for unit, about in enumerate(found) if about is not None}
    if len(units) < len(plan.units) and (manifest is not None or not unfinished):
        done = f"{len(units):,} of {len(plan.units):,} units"
        if manifest is None:
            raise CorpusError(
                f"load_corpus(): {plain(folder)} must be finished; got {done}. The command that "
                "began it goes on; with unfinished=True what is there can be looked at."
            )
        lost = min({*range(len(plan.units))} - {*units})
        raise CorpusError(
            f"load_corpus(): {plain(folder)} must be whole; got {done}, without {name_of(lost)}. "
            "Copy it again, or give the command that wrote it: what is lost is made anew."
        )
    return Corpus(folder, plan, units, manifest)


class Corpus:
    """Many texts, and where each head of a model looked in each of them.

    - `about`: what it is: the number of texts, of those that were read, of tokens; the layers, the
      recipe, and what could not be seen
    - `texts`, `heads`, `edges`: the tables, as datasets of pyarrow, which read what is asked for:
      `corpus.heads.to_table(filter=pyarrow.dataset.field("layer") == 3)`
    - `sql`, `most`, `sketch`, `summary` ask, `check` compares every byte with the manifest, and
      `html` writes a page
    """

    def __init__(
        self,
        folder: Path,
        plan: Plan,
        units: Mapping[int, Mapping[str, Any]],
        manifest: dict[str, Any] | None,
    ) -> None:
        self.folder, self.recipe, self._plan = folder, plan.recipe, plan
        self._units, self._manifest = dict(units), manifest
        self.about = totals([dict(each) for each in units.values()], plan)
        self.about["units"] = len(plan.units)

    def __repr__(self) -> str:
        heads = sum(each["heads"] for each in self.about["layers"])
        layers = len(self.about["layers"])
        state = (
            "" if self.is_finished else f", {len(self._units):,} of {self.about['units']:,} units"
        )
        read = f"{self.about['read']:,} of {self.about['texts']:,} texts read"
        size = f"{self.about['tokens']:,} tokens, {layers} layers, {heads} heads"
        return f"Corpus({plain(self.recipe.model)!r}: {read}, {size}{state})"

    @property
    def is_finished(self) -> bool:
        return self._manifest is not None

    @property
    def units_done(self) -> int:
        return len(self._units)

    # ── tables ────────────────────────────────────────────────────────────────────────────────

    @property
    def texts(self) -> dataset.Dataset:
        """text, source, position, characters, tokens, sha256, reason, beginning: one row a text."""
        return self._dataset("texts")

    @property
    def heads(self) -> dataset.Dataset:
        """text, layer, head, queries, a mean for each statistic, edges: one row a text and head."""
        return self._dataset("heads")

    @property
    def edges(self) -> dataset.Dataset:
        """text, layer, head, query, key, query_token, key_token, weight: the strongest links."""
        return self._dataset("edges")

    def _dataset(self, name: str) -> dataset.Dataset:
        arrow = need("load_corpus()", "pyarrow", "runs")
        library = need("load_corpus()", "pyarrow.dataset", "runs")
        files = [str(self._file(unit, name)) for unit in self._units]
        return library.dataset(files, schema=columns(arrow)[name], format="parquet")

    def _file(self, unit: int, name: str) -> Path:
        return self.folder / UNITS / name_of(unit) / f"{name}.parquet"

    # ── questions ─────────────────────────────────────────────────────────────────────────────

    def sql(
        self, query: str, *, seconds: float | None = None, memory: int | None = None
    ) -> pa.Table:
        """The answer to one SELECT on `texts`, `heads`, `edges` and `sketches`, by DuckDB, which
        has nothing else in reach. `seconds` and `memory` (bytes) are what it may take; a half of
        the memory that is here unless it is said.
        """
        duckdb, arrow = need("sql()", "duckdb", "runs"), need("sql()", "pyarrow", "runs")
        check_query(duckdb, query)
        tables: dict[str, Any] = {name: {None: self._dataset(name)} for name in columns(arrow)}
        tables["sketches"] = {None: self.sketches.to_arrow()}
        half = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // 2
        room = half if memory is None else memory
        return Table(answer(duckdb, arrow, tables, query, seconds=seconds, memory=room))

    def most(
        self, layer: int, head: int, statistic: str, n: int = 20, *, lowest: bool = False
    ) -> pa.Table:
        """The `n` texts in which a statistic of a head is largest, or smallest: text, value,
        tokens, source, position, beginning, and the strongest link of that head in it: query_token,
        key_token, weight, query, key. Of texts with the same value the first ones.
        """
        self._check(layer, head, statistic)
        whole("most()", "n", n, 1, remedy="It is how many texts are wanted.")
        from pyarrow.dataset import field

        here = (field("layer") == layer) & (field("head") == head)
        found = self.heads.to_table(["text", statistic], here & field(statistic).is_valid())
        ids, values = found["text"].to_numpy(), found[statistic].to_numpy()
        order = np.lexsort((ids, values if lowest else -values))[:n]
        return self.described(ids[order], values[order], layer, head)

    def described(self, ids: Any, values: Any, layer: int, head: int) -> pa.Table:
        """Texts by their ids, each with a value, what it says, and the strongest link of a head."""
        import pyarrow as pa
        from pyarrow.dataset import field

        links = self.strongest(ids, layer, head)
        wanted = self.texts.to_table(filter=field("text").isin(ids.tolist())).to_pylist()
        texts = {row["text"]: row for row in wanted}
        rows = [
            {
                "text": text,
                "value": value,
                **{key: texts[text][key] for key in ("tokens", "source", "position", "beginning")},
                **links.get(text, {}),
            }
            for text, value in zip(ids.tolist(), values.tolist(), strict=True)
        ]
        whole_number, words = pa.int32(), pa.string()
        kinds = {
            **{"text": pa.int64(), "value": pa.float32(), "tokens": whole_number, "source": words},
            **{"position": pa.int64(), "beginning": words, "query_token": words},
            **{"key_token": words, "weight": pa.float32(), "query": whole_number},
            "key": whole_number,
        }
        return Table(pa.Table.from_pylist(rows, pa.schema(kinds)))

    def strongest(self, ids: Any, layer: int, head: int) -> dict[int, dict[str, Any]]:
        """The strongest link of a head in each of some texts, where it has one."""
        from pyarrow.dataset import field

        here = (field("layer") == layer) & (field("head") == head)
        rows = self.edges.to_table(filter=here & field("text").isin(ids.tolist())).to_pylist()
        rows.sort(key=lambda row: (row["text"], -row["weight"], row["query"], row["key"]))
        found: dict[int, dict[str, Any]] = {}
        for row in rows:
            names = ("query_token", "key_token", "weight", "query", "key")
            found.setdefault(row["text"], {name: row[name] for name in names})
        return found

    def _check(self, layer: int, head: int, statistic: str) -> None:
        layers = [each["heads"] for each in self.about["layers"]]
        whole("most()", "layer", layer, 0, len(layers) - 1, f"There are {len(layers)} layers.")
        most = layers[layer] - 1
        whole("most()", "head", head, 0, most, f"Layer {layer} has {most + 1} heads.")
        if statistic not in STATISTICS:
            raise ValueError(
                f"most(): statistic must be one of {', '.join(STATISTICS)}; got {shown(statistic)}."
            )

    # ── heads over all texts ──────────────────────────────────────────────────────────────────

    @cached_property
    def _sketches(self) -> dict[tuple[int, int, str], Sketch]:
        return sketches_of(self.folder, None if self.is_finished else self._units)

    def sketch(self, layer: int, head: int, statistic: str) -> Sketch:
        """How a statistic of a head is distributed over the queries of all texts: `count`, `mean`,
        `least`, `most`, and `quantile(share)`, which is off by 1/128 of itself at most.
        """
        self._check(layer, head, statistic)
        return self._sketches.get((layer, head, statistic), Sketch())

    @cached_property
    def sketches(self) -> Table:
        """All sketches: layer, head, statistic, queries, mean, least, quantiles, most."""
        import pyarrow as pa

        rows = [
            {
                **{"layer": layer, "head": head, "statistic": name, "queries": sketch.count},
                **{"mean": sketch.mean, "least": sketch.least if sketch.count else None},
                **{key: sketch.quantile(share) for key, share in _QUANTILES.items()},
                "most": sketch.most if sketch.count else None,
            }
            for (layer, head, name), sketch in self._sketches.items()
        ]
        whole_number, number = pa.int32(), pa.float64()
        kinds = {
            **{"layer": whole_number, "head": whole_number, "statistic": pa.string()},
            "queries": pa.int64(),
            **dict.fromkeys(("mean", "least", *_QUANTILES, "most"), number),
        }
        return Table(pa.Table.from_pylist(rows, pa.schema(kinds)))

    def summary(self) -> list[dict[str, Any]]:
        """One row a head: `layer`, `name`, and the numbers of `regard.Head`, its means being over
        the queries of all texts; as `run.heads()` has them of one run.
        """
        rows: list[dict[str, Any]] = []
        for layer, each in enumerate(self.about["layers"]):
            means: list[dict[str, float]] = []
            counts: list[dict[str, int]] = []
            for head in range(each["heads"]):
                found = {name: self._sketches[layer, head, name] for name in STATISTICS}
                known = {name: x for name, x in found.items() if x.count}
                means.append({name: x.total / x.count for name, x in known.items()})
                counts.append({name: x.count for name, x in known.items()})
            for head in named(means, counts):
                rows.append({"layer": layer, "name": each["name"], **_numbers(head)})
        return rows

    def reasons(self) -> dict[str, int]:
        """How many texts were not read, by why: what stands before the colon of their reason."""
        from pyarrow.dataset import field

        found: dict[str, int] = {}
        for reason in self.texts.to_table(["reason"], field("reason").is_valid())["reason"]:
            kind = str(reason.as_py()).partition(":")[0]
            found[kind] = found.get(kind, 0) + 1
        return dict(sorted(found.items(), key=lambda each: (-each[1], each[0])))

    def check(self) -> None:
        """Compare every byte with the manifest. Raises CorpusError, which names what differs."""
        if self._manifest is None:
            raise CorpusError(
                f"check(): {plain(self.folder)} must be finished, as the manifest has the hashes; "
                "it is not."
            )
        if wrong := wrong_files(self.folder, self._manifest):
            more = f" and {len(wrong) - 5} more" if len(wrong) > 5 else ""
            raise CorpusError(
                f"check(): {plain(self.folder)} must be as its manifest says; "
                f"{plain(', '.join(wrong[:5]), 400)}{more} are not. Copy it again."
            )

    # ── pages ─────────────────────────────────────────────────────────────────────────────────

    def html(self, path: str | os.PathLike[str], *, n: int = 20, language: str = "en") -> None:
        """Write a page: all heads by a statistic, and the `n` texts that show it most."""
        from regard._files import write_text
        from regard.corpus.document import document_of
        from regard.view.html.corpus import corpus_page

        write_text(Path(path), corpus_page(document_of(self, n), language))


def _numbers(head: Head) -> dict[str, Any]:
    return {key.rstrip("_"): value for key, value in vars(head).items()}
