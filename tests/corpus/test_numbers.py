"""The numbers of a corpus are those of `regard.watch`, and sketches tell what was counted."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
import torch
from helpers.small_corpus import left, made, model_folder, paragraphs, sentences
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard.corpus import Corpus, load_corpus
from regard.corpus.batches import batches
from regard.corpus.sketch import ERROR, LEAST, STATISTICS, Gathered, gathered_table, merged
from regard.models import load

TEXTS = sentences(23)
SEE = regard.See(entropy=True, distance=True, top=13)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a corpus of 23 texts in it: five units, the last of them not full."""
    place = tmp_path_factory.mktemp("numbers")
    model_folder(place)
    paragraphs(place / "texts.txt", TEXTS)
    made(place)
    return place


@pytest.fixture(scope="module")
def corpus(place: Path) -> Corpus:
    return load_corpus(place / "corpus")


@pytest.fixture(scope="module")
def runs(place: Path) -> list[regard.Run]:
    """The plain loop: each text alone."""
    loaded = load(place / "model")
    found: list[regard.Run] = []
    for text in TEXTS:
        with regard.watch(loaded.model, SEE, keep=("q", "k")) as run, torch.no_grad():
            loaded.model(**loaded.inputs(text))
        run.tokens = [loaded.reader().read(text).tokens]
        found.append(run)
    return found


def test_every_statistic_of_every_text_and_head_is_that_of_a_plain_loop_with_watch(
    corpus: Corpus, runs: list[regard.Run]
) -> None:
    rows = corpus.heads.to_table().to_pylist()
    expected = [{"text": text, **row} for text, run in enumerate(runs) for row in run.heads()]
    assert [(r["text"], r["layer"], r["head"]) for r in rows] == [
        (r["text"], r["layer"], r["head"]) for r in expected
    ]
    for row, wanted in zip(rows, expected, strict=True):
        assert row["queries"] == len(runs[row["text"]].tokens[0])
        for name in STATISTICS:
            if wanted[name] is None:
                assert row[name] is None
            else:
                assert row[name] == pytest.approx(wanted[name], rel=2e-5, abs=2e-6), name


def test_links_are_the_strongest_edges_of_each_text_and_head(
    corpus: Corpus, runs: list[regard.Run]
) -> None:
    found = corpus.edges.to_table().to_pylist()
    counts = {
        (r["text"], r["layer"], r["head"]): r["edges"] for r in corpus.heads.to_table().to_pylist()
    }
    names = ("layer", "head", "query", "key", "query_token", "key_token", "weight")
    expected: list[dict[str, object]] = []
    for text, run in enumerate(runs):
        groups: dict[tuple[int, int], list[dict[str, object]]] = {}
        for row in run.edges(min_weight=0.25).to_pylist():
            groups.setdefault((row["layer"], row["head"]), []).append(row)
        for (layer, head), rows in groups.items():
            assert counts[text, layer, head] == len(rows)
            rows.sort(key=lambda row: (-row["weight"], row["query"], row["key"]))  # pyright: ignore
            expected += [{"text": text, **{n: row[n] for n in names}} for row in rows[:4]]
    assert len(found) == len(expected) > 100
    for row, wanted in zip(found, expected, strict=True):
        assert row["weight"] == pytest.approx(wanted["weight"], abs=2e-6)
        # Weights that differ by rounding alone may change places.
        ties = [
            {**e, "weight": 0}
            for e in expected
            if abs(float(str(e["weight"])) - row["weight"]) < 2e-6
        ]
        assert {**row, "weight": 0} in ties


def test_sketches_have_the_exact_counts_and_sums_of_all_queries(
    corpus: Corpus, runs: list[regard.Run]
) -> None:
    for layer in range(2):
        for head in range(3):
            numbers = torch.cat([run.layer(layer).entropy[0, head] for run in runs])  # pyright: ignore
            sketch = corpus.sketch(layer, head, "entropy")
            assert sketch.count == len(numbers) == corpus.about["tokens"]
            assert sketch.total == pytest.approx(numbers.double().sum().item(), rel=1e-6)
            assert sketch.least == pytest.approx(numbers.min().item(), rel=1e-5)
            assert sum(sketch.bins.values()) == sketch.count


def test_a_head_over_all_texts_is_called_what_its_means_over_all_queries_make_it(
    corpus: Corpus, runs: list[regard.Run]
) -> None:
    for row in corpus.summary():
        layers = [run.layer(row["layer"]) for run in runs]
        shares = [layer.shares["first"][0, row["head"]] for layer in layers]
        assert row["first"] == pytest.approx(torch.cat(shares).mean().item(), rel=1e-5)
        told = {name: row[name] for name in ("first", "self", "previous", "induction")}
        strongest = max(told, key=lambda name: told[name])
        assert row["score"] == pytest.approx(told[strongest]) or row["kind"] == "broad"
    assert {row["kind"] for row in corpus.summary()} <= {
        *("mixed", "broad", "first token", "itself", "previous token", "induction")
    }


def test_the_texts_that_show_a_behaviour_most(corpus: Corpus) -> None:
    rows = corpus.heads.to_table().to_pylist()
    here = [row for row in rows if (row["layer"], row["head"]) == (1, 2)]
    here.sort(key=lambda row: (-row["distance"], row["text"]))
    found = corpus.most(1, 2, "distance", n=7)
    assert found["text"].to_pylist() == [row["text"] for row in here[:7]]
    assert found["value"].to_pylist() == [row["distance"] for row in here[:7]]
    assert found["beginning"].to_pylist() == [TEXTS[row["text"]] for row in here[:7]]
    links = corpus.edges.to_table().to_pylist()
    for row in found.to_pylist():
        own = [e for e in links if (e["text"], e["layer"], e["head"]) == (row["text"], 1, 2)]
        strongest = max((e["weight"] for e in own), default=None)
        assert row["weight"] == strongest
    lowest = corpus.most(1, 2, "distance", n=3, lowest=True)["text"].to_pylist()
    assert lowest == [r["text"] for r in sorted(here, key=lambda r: (r["distance"], r["text"]))[:3]]
    with pytest.raises(ValueError, match=r"layer must be from 0 to 1; got 2. There are 2 layers"):
        corpus.most(2, 0, "entropy")
    with pytest.raises(ValueError, match="statistic must be one of entropy, spread"):
        corpus.most(0, 0, "texts")


def test_sql_answers_on_every_table_and_reaches_nothing_else(corpus: Corpus, place: Path) -> None:
    asked = "select count(*) as n, count(distinct text) as texts from heads"
    assert corpus.sql(asked).to_pylist() == [{"n": 23 * 6, "texts": 23}]
    asked = (
        "select t.beginning from edges e join texts t using (text) order by e.weight desc limit 1"
    )
    assert corpus.sql(asked)["beginning"][0].as_py() in TEXTS
    asked = "select median from sketches where statistic = 'first' and layer = 1 and head = 0"
    expected = corpus.sketch(1, 0, "first").quantile(0.5)
    assert corpus.sql(asked).to_pylist() == [{"median": expected}]
    for query in ("drop table texts", "select 1; select 2", "copy texts to 'x'"):
        with pytest.raises(ValueError, match="must be one SELECT"):
            corpus.sql(query)
    with pytest.raises(ValueError, match=r"disabled|access"):
        corpus.sql(f"select * from read_csv('{place / 'texts.txt'}')")


def test_rows_do_not_depend_on_workers_or_on_what_is_already_done(place: Path) -> None:
    whole = left(place / "corpus")
    made(place, "two", workers=2)
    assert left(place / "two") == whole
    made(place, "two", workers=2)  # nothing is left to do
    assert left(place / "two") == whole


def test_a_manifest_has_the_hash_of_every_file_and_a_changed_byte_is_found(place: Path) -> None:
    made(place, "spoilt")
    folder = place / "spoilt"
    load_corpus(folder).check()
    manifest = json.loads((folder / "manifest.json").read_text())
    assert set(manifest["files"]) == {
        str(path.relative_to(folder))
        for path in folder.rglob("*")
        if path.is_file() and path.name not in ("manifest.json", ".lock", "unit.json")
    }
    assert (manifest["texts"], manifest["read"], manifest["units"]) == (23, 23, 5)
    file = folder / "units" / "unit-000003" / "heads.parquet"
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    with pytest.raises(regard.corpus.CorpusError, match=r"unit-000003/heads\.parquet are not"):
        load_corpus(folder).check()
    file.write_bytes(content[:-1])
    with pytest.raises(regard.corpus.CorpusError, match="4 of 5 units, without unit-000003"):
        load_corpus(folder)
    made(place, "spoilt")
    assert left(folder) == left(place / "corpus")


# ── sketches and batches ──────────────────────────────────────────────────────────────────────


@given(
    st.lists(st.floats(0, 2**20, width=32), min_size=1, max_size=60),
    st.floats(0, 1),
    st.integers(1, 5),
)
def test_quantiles_of_parts_that_were_added_up_are_within_the_stated_error(
    numbers: list[float], share: float, parts: int
) -> None:
    tables: list[pa.Table] = []
    for part in np.array_split(np.array(numbers, dtype=np.float32), parts):
        gathered = Gathered(1)
        if len(part):
            gathered.add(["distance"], torch.from_numpy(part)[None, None, None])
        tables.append(gathered_table(pa, [gathered]))
    sketch = merged(tables)[0, 0, "distance"]
    assert sketch.count == len(numbers)
    assert sketch.total == pytest.approx(math.fsum(numbers), rel=1e-15)
    assert (sketch.least, sketch.most) == (min(numbers), max(numbers))
    exact = sorted(numbers)[min(max(math.ceil(share * len(numbers)), 1), len(numbers)) - 1]
    found = sketch.quantile(share)
    assert found is not None
    assert abs(found - exact) <= ERROR * exact + LEAST
    backwards = merged(tables[::-1])[0, 0, "distance"]
    assert (backwards.total, backwards.bins) == (sketch.total, sketch.bins)


@given(st.lists(st.integers(1, 97), max_size=101), st.integers(1, 211))
def test_batches_have_every_text_once_and_little_padding(lengths: list[int], tokens: int) -> None:
    found = list(batches(lengths, tokens))
    assert sorted(place for batch in found for place in batch) == list(range(len(lengths)))
    for batch in found:
        longest = max(lengths[place] for place in batch)
        area, real = longest * len(batch), sum(lengths[place] for place in batch)
        assert area <= tokens or len(batch) == 1
        assert (area - real) * 8 <= max(area, 64)
