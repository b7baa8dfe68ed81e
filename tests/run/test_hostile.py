"""Folders that were made to do harm: refused with a message, or read as a run that answers."""

from __future__ import annotations

import json
import math
import os
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as parquet
import pytest
import torch
from helpers.run_by_hand import make_run, run_of_everything
from helpers.time_limit import within
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from regard.run import Run, RunError, load

QUERY = "select count(*) as n, sum(weight * (key + 1)) as total from edges"


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("honest") / "run"
    run_of_everything().save(folder)
    return folder


@pytest.fixture
def folder(honest: Path, tmp_path: Path) -> Path:
    """A folder that is in order, to be spoilt."""
    return Path(shutil.copytree(honest, tmp_path / "run"))


def refused(folder: Path, *words: str) -> None:
    with within(10), pytest.raises(RunError, match=r"(?s)load\(\): .+\. .+\.") as caught:
        load(folder)
    for word in words:
        assert word in str(caught.value)
    assert len(str(caught.value)) < 5_000


def edit_document(folder: Path, change: Callable[[Any], object]) -> None:
    document = json.loads((folder / "run.json").read_text())
    change(document)
    (folder / "run.json").write_text(json.dumps(document))


def edit_tensors(folder: Path, change: Callable[[dict[str, Tensor]], object]) -> None:
    """Change the tensors, and the document so that it fits them."""
    file = folder / "tensors.safetensors"
    tensors = {name: x.clone() for name, x in load_file(file).items()}
    change(tensors)
    save_file(tensors, file)

    def describe(document: Any) -> None:
        document["files"][file.name] = file.stat().st_size
        for name, x in tensors.items():
            kind = str(x.dtype).removeprefix("torch.")
            document["tensors"][name] = {"dtype": kind, "shape": [*x.shape]}

    edit_document(folder, describe)


def edit_edges(folder: Path, change: Callable[[pa.Table], pa.Table]) -> None:
    file = folder / "edges.parquet"
    table = parquet.read_table(file)
    told = {**table.schema.metadata}
    changed = change(table)
    told |= changed.schema.metadata or {}
    parquet.write_table(changed.replace_schema_metadata(told), file)
    size = file.stat().st_size
    edit_document(folder, lambda document: document["files"].update({file.name: size}))


# ── another run in the folder ─────────────────────────────────────────────────────────────────


def two_runs() -> tuple[Run, Run]:
    """Two whose files are equally long."""
    return make_run("causal", "plain")[0], make_run("plain", "causal")[0]


def test_a_loaded_run_never_answers_from_another_that_was_saved_there(tmp_path: Path) -> None:
    one, other = two_runs()
    expected = one.sql(QUERY)
    assert other.sql(QUERY) != expected
    one.save(tmp_path / "run")
    loaded = load(tmp_path / "run")
    other.save(tmp_path / "run")
    assert loaded.sql(QUERY) == expected
    assert load(tmp_path / "run").sql(QUERY) == other.sql(QUERY)


def test_a_loaded_run_is_saved_with_its_own_edges(tmp_path: Path) -> None:
    one, other = two_runs()
    one.save(tmp_path / "run")
    loaded = load(tmp_path / "run")
    other.save(tmp_path / "run")
    loaded.save(tmp_path / "again")
    assert load(tmp_path / "again").sql(QUERY) == one.sql(QUERY)


def test_every_save_has_a_number_of_its_own_in_all_files(tmp_path: Path) -> None:
    run, _ = two_runs()
    numbers: set[str] = set()
    for name in ("one", "two", "three"):
        run.save(tmp_path / name)
        run = load(tmp_path / name)
        number = json.loads((tmp_path / name / "run.json").read_text())["id"]
        told = parquet.read_schema(tmp_path / name / "edges.parquet").metadata
        assert told[b"regard.run"] == number.encode()
        with safe_open(tmp_path / name / "tensors.safetensors", framework="pt") as opened:
            assert opened.metadata() == {"regard.run": number}
        numbers.add(number)
    assert len(numbers) == 3


def test_a_loaded_run_answers_when_its_folder_is_gone(tmp_path: Path) -> None:
    run, _ = two_runs()
    run.save(tmp_path / "run")
    loaded = load(tmp_path / "run")
    shutil.rmtree(tmp_path / "run")
    assert loaded.sql(QUERY) == run.sql(QUERY)


def test_edges_of_another_run_are_made_anew(tmp_path: Path) -> None:
    one, other = two_runs()
    one.save(tmp_path / "one")
    other.save(tmp_path / "other")
    shutil.copy(tmp_path / "other" / "edges.parquet", tmp_path / "one" / "edges.parquet")
    size = (tmp_path / "one" / "edges.parquet").stat().st_size
    edit_document(tmp_path / "one", lambda x: x["files"].update({"edges.parquet": size}))
    assert load(tmp_path / "one").sql(QUERY) == one.sql(QUERY)


def test_tensors_of_another_run_are_refused(tmp_path: Path) -> None:
    one, other = two_runs()
    one.save(tmp_path / "one")
    other.save(tmp_path / "other")
    name = "tensors.safetensors"
    assert (tmp_path / "one" / name).stat().st_size == (tmp_path / "other" / name).stat().st_size
    shutil.copy(tmp_path / "other" / name, tmp_path / "one" / name)
    refused(tmp_path / "one", name, "of the same run")


def test_a_run_of_before_there_were_ids_loads_with_its_edges(folder: Path) -> None:
    expected = load(folder).sql(QUERY)
    edit_document(folder, lambda document: document.pop("id"))
    edit_tensors(folder, lambda tensors: None)
    file = folder / "edges.parquet"
    table = parquet.read_table(file)
    told = {k: v for k, v in table.schema.metadata.items() if k != b"regard.run"}
    parquet.write_table(table.slice(0, 7).replace_schema_metadata(told), file)  # to be told apart
    size = file.stat().st_size
    edit_document(folder, lambda document: document["files"].update({file.name: size}))
    assert load(folder).sql(QUERY)["n"].to_pylist() == [7]
    file.unlink()
    assert load(folder).sql(QUERY) == expected


# ── files that are none ───────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["run.json", "tensors.safetensors", "edges.parquet"])
def test_a_pipe_a_folder_or_a_link_is_refused_without_waiting(folder: Path, name: str) -> None:
    outside = folder.parent / "outside"
    (folder / name).rename(outside)
    (folder / name).symlink_to(outside)
    refused(folder, name, "a file of the folder itself", "a link")
    (folder / name).unlink()
    os.mkfifo(folder / name)
    refused(folder, name, "a file of the folder itself")
    if name == "run.json":
        with within(10), pytest.raises(RunError, match=r"save\(\): .*a file of the folder itself"):
            Run().save(folder)
    (folder / name).unlink()
    (folder / name).mkdir()
    refused(folder, name, "a file of the folder itself")


def test_a_pipe_that_takes_the_place_of_the_edges_later_is_refused(folder: Path) -> None:
    run = load(folder)
    (folder / "edges.parquet").unlink()
    os.mkfifo(folder / "edges.parquet")
    with within(10), pytest.raises(RunError, match=r"sql\(\): .*edges.parquet must be a file"):
        run.sql(QUERY)


def test_a_document_of_any_length_is_not_read(folder: Path) -> None:
    with (folder / "run.json").open("r+b") as file:
        file.truncate(2**40)  # which takes no room on the disk
    refused(folder, "run.json", "at most 268,435,456 bytes")


def test_edges_that_unpack_to_far_more_than_they_are_are_not_read(folder: Path) -> None:
    """A token of 70 megabytes that is one letter again and again is packed into little."""

    def change(table: pa.Table) -> pa.Table:
        codes = pa.array([0] * len(table), pa.int32())
        long = pa.DictionaryArray.from_arrays(codes, ["a" * 7 * 10**7])
        return table.set_column(table.schema.get_field_index("key_token"), "key_token", long)

    edit_edges(folder, change)
    assert (folder / "edges.parquet").stat().st_size < 10**7
    with pytest.raises(RunError, match=r"sql\(\): .* must unpack to at most [\d,]+ bytes; got"):
        load(folder).sql(QUERY)


# ── documents and tensors that lie ────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("path", "value", "word"),
    [
        (["layers", 0, "n_keys"], 2**40, "n_keys"),
        (["layers", 6, "n_keys"], 2**40, "1,099,511,627,776 keys"),
        (["layers", 6, "n_keys"], 2**24, "16,777,216 keys"),
        (["layers", 6, "n_keys"], 7, "strongest of the 7"),
        (["layers", 6, "tokens"], 0, "0 is no list"),
        (["layers", 0, "n_keys"], -3, "n_keys"),
        (["layers", 0, "n_keys"], True, "True"),
        (["layers", 0, "kv_heads"], -1, "kv_heads"),
        (["layers", 0, "position"], "p", "position"),
        (["layers", 0, "position"], 2**63, "position"),
        (["layers", 0, "options", "position"], "p", "position"),
        (["layers", 0, "options", "position"], 1.5, "position"),
        (["layers", 0, "options", "scale"], "x", "scale"),
        (["layers", 0, "options", "scale"], math.nan, "scale"),
        (["layers", 0, "options", "scale"], 10**400, "scale"),
        (["layers", 0, "options", "softcap"], 0, "softcap"),
        (["layers", 0, "options", "causal"], "yes", "causal"),
        (["layers", 0, "options", "window"], ["a", "b"], "window"),
        (["layers", 0, "options", "window"], [3], "window"),
        (["layers", 0, "options", "window"], [3, 1, 1], "window"),
        (["layers", 0, "options", "window"], [-1, None], "window"),
        (["layers", 0, "options", "window"], [2**63, None], "window"),
        (["layers", 1, "key"], "block.0", "'block.0' stands there 2 times"),
        (["layers", 0, "notes"], "abc", "'abc' is no list"),
        (["layers"], {}, "no list"),
        (["hidden_states", 1], "block.0", "'block.0' stands there 2 times"),
        (["tokens"], 0, "0 is no list"),
        (["tokens"], {}, "no list"),
        (["tokens", 0, 0, 1], 2**63, "no place"),
        (["notes"], "abc", "'abc' is no list"),
        (["id"], 3, "id"),
        (["tensors", "token_ids", "shape"], [2.0, 11.0], "token_ids"),
        (["tensors", "token_ids", "shape"], [1e400, 11], "token_ids"),
        (["tensors", "layers.0.q"], "x" * 10**6, "layers.0.q"),
    ],
)  # fmt: skip
def test_a_value_that_no_run_has_is_refused(
    folder: Path, path: list[Any], value: object, word: str
) -> None:
    def change(document: Any) -> None:
        for step in path[:-1]:
            document = document[step]
        document[path[-1]] = value

    edit_document(folder, change)
    refused(folder, "run.json", word)


def expanded(folder: Path, n_keys: int, lse: float) -> None:
    """A folder with one key in it, which stands for `n_keys` of 7 heads by being expanded."""
    folder.mkdir()
    tensors = {
        "layers.0.seen.lse": torch.full((1, 7, 1), lse),
        "layers.0.q": torch.zeros(1, 7, 1, 1),
        "layers.0.k": torch.zeros(1, 1, 1, 1),
    }
    save_file(tensors, folder / "tensors.safetensors")
    shapes: dict[str, Any] = {
        name: {"dtype": "float32", "shape": [*x.shape]} for name, x in tensors.items()
    }
    shapes["layers.0.k"] |= {"shape": [1, 1, n_keys, 1], "stored": [1, 1, 1, 1]}
    layer = {
        "key": "a", "name": "a", "cross": False, "kv_heads": 1, "n_keys": n_keys, "position": None,
        "options": {}, "shares": [], "notes": [],
    }  # fmt: skip
    size = (folder / "tensors.safetensors").stat().st_size
    document = {
        "format": 1, "model": "m", "text": None, "tokens": None, "see": None, "notes": [],
        "unseen": [], "hidden_states": [], "between": [], "layers": [layer], "tensors": shapes,
        "files": {"tensors.safetensors": size, "edges.parquet": 0},
    }  # fmt: skip
    (folder / "run.json").write_text(json.dumps(document))


def test_one_key_that_was_expanded_is_no_trace_of_millions(tmp_path: Path) -> None:
    expanded(tmp_path / "run", 2**24, 0.0)
    refused(tmp_path / "run", "16,777,216 keys", "no trace")


def test_weights_that_add_up_to_far_more_than_1_make_no_table(tmp_path: Path) -> None:
    """By an lse of 0, where it is 14.6, each of the keys has a weight of 1."""
    n_keys = 2**21 + 3
    expanded(tmp_path / "run", n_keys, 0.0)
    run = load(tmp_path / "run")
    for door in (lambda: run.sql(QUERY), lambda: run.save(tmp_path / "again"), run.edges):
        with within(10), pytest.raises(RunError, match=r"edges\(\): .*'a' must add up to 1; "):
            door()
    assert not (tmp_path / "again").exists()
    expanded(tmp_path / "honest", n_keys, math.log(n_keys))
    with within(10):
        assert load(tmp_path / "honest").sql(QUERY)["n"].to_pylist() == [0]


BAD_TENSORS: dict[str, Tensor] = {
    "seen.lse": torch.zeros(2, 3, 11, dtype=torch.int64),
    "seen.entropy": torch.zeros(2, 3, 11, dtype=torch.int64),
    "seen.distance": torch.zeros(2, 3, 7),
    "seen.top_keys": torch.full((2, 3, 11, 3), 77),
    "seen.top_weights": torch.zeros(2, 3, 11, 3).half(),
    "seen.map": torch.zeros(7),
    "seen.received": torch.zeros(2, 3, 13),
    "seen.sinks": torch.zeros(7),
    "options.mask": torch.zeros(3, 3, dtype=torch.bool),
    "options.bias": torch.zeros(2, 3, 11, 11, dtype=torch.int64),
    "options.lengths": torch.zeros(2),
    "options.sinks": torch.zeros(5),
    "queries": torch.zeros(2, 11),
    "keys": torch.zeros(2, 7, dtype=torch.bool),
    "q": torch.zeros(2, 3, 11, 7),
    "k": torch.zeros(2, 2, 11, 5),
    "v": torch.zeros(2, 3, 7, 7),
    "output": torch.zeros(2, 3, 11, 5),
    "shares.self": torch.zeros(2, 3, 11, dtype=torch.bool),
}


@pytest.mark.parametrize("name", BAD_TENSORS)
def test_a_tensor_that_does_not_fit_its_layer_is_refused(folder: Path, name: str) -> None:
    edit_tensors(folder, lambda tensors: tensors.update({f"layers.0.{name}": BAD_TENSORS[name]}))
    refused(folder, "run.json", "block.0")


def test_weights_of_the_strongest_keys_without_the_keys_are_refused(tmp_path: Path) -> None:
    run, _ = make_run("causal")
    name, layer = next(iter(run.layers.items()))
    assert layer.top_weights is not None
    run.layers[name] = replace(layer, seen=replace(layer.seen, top_keys=None))
    with pytest.raises(ValueError, match=r"top_weights of .* without its top_keys"):
        run.save(tmp_path / "run")


@pytest.mark.parametrize(("key", "good"), [(-2, False), (-1, True), (10, True), (11, False)])
def test_the_strongest_keys_must_be_keys(folder: Path, key: int, good: bool) -> None:
    edit_tensors(folder, lambda x: x["layers.0.seen.top_keys"].fill_(key))
    if good:
        (folder / "edges.parquet").unlink()
        load(folder).edges()
    else:
        refused(folder, "strongest of the 11")


def test_tokens_must_have_whole_numbers(folder: Path) -> None:
    edit_tensors(folder, lambda tensors: tensors.update({"token_ids": torch.zeros(2, 11)}))
    refused(folder, "token_ids")


@pytest.mark.parametrize(
    ("name", "held", "said"),
    [
        ("token_ids", torch.zeros(1, 1, dtype=torch.int64), [1, 2**36]),
        ("layers.0.seen.lse", torch.zeros(1, 1, 1), [1, 2**20, 1]),
        ("layers.0.keys", torch.ones(1, 1, dtype=torch.bool), [2**20, 2**20]),
        ("layers.2.options.mask", torch.ones(1, 1, 1, 1, dtype=torch.bool), [2, 1, 11, 2**36]),
        ("output", torch.zeros(0, 1, 1), [0, 2**40, 1]),
    ],
)
def test_a_little_that_is_said_to_be_much_is_refused(
    folder: Path, name: str, held: Tensor, said: list[int]
) -> None:
    edit_tensors(folder, lambda tensors: tensors.update({name: held}))
    entry = {"shape": said, "stored": [*held.shape]}
    edit_document(folder, lambda document: document["tensors"][name].update(entry))
    refused(folder, "run.json")


def test_what_is_expanded_beyond_the_limit_is_written_in_full(tmp_path: Path) -> None:
    run, _ = make_run("plain", keep=())
    run.output = torch.ones(1, 1).expand(2**13, 2**11 + 1)
    run.save(tmp_path / "run")
    assert torch.equal(load(tmp_path / "run").output, run.output)  # pyright: ignore[reportArgumentType]


def test_a_layer_that_could_not_be_read_again_is_not_saved(tmp_path: Path) -> None:
    run, _ = make_run("plain")
    layer = run.layers["block.0"]
    run.layers["block.0"] = replace(layer, options=replace(layer.options, scale=math.nan))
    with pytest.raises(RunError, match=r"save\(\): layers\['block.0'\] must .*scale .*nan\. Make"):
        run.save(tmp_path / "run")
    assert [*tmp_path.iterdir()] == []


def text_as_weight(table: pa.Table) -> pa.Table:
    place = table.column_names.index("weight")
    return table.set_column(place, "weight", pa.array(["0.5"] * table.num_rows))


@pytest.mark.parametrize(
    "change",
    [
        text_as_weight,
        lambda table: table.set_column(1, "layer", table["layer"].cast(pa.int64())),
        lambda table: table.replace_schema_metadata({"regard.min_weight": "[" * 10**5}),
        lambda table: table.replace_schema_metadata({"regard.truncated": '[{"rows": "x"}]'}),
        lambda table: table.replace_schema_metadata({"regard.truncated": "3"}),
        lambda table: table.replace_schema_metadata({"regard.not_finite": "null"}),
        lambda table: pa.concat_tables([table] * 97),
    ],
)
def test_edges_of_other_types_or_in_any_number_are_refused(
    folder: Path, change: Callable[[pa.Table], pa.Table]
) -> None:
    edit_edges(folder, change)
    with pytest.raises(RunError, match=r"sql\(\): .*edges.parquet must .*Delete it, and load"):
        load(folder).sql(QUERY)


# ── what a crash left ─────────────────────────────────────────────────────────────────────────


def test_a_run_that_comes_back_says_so(folder: Path) -> None:
    old = folder.with_name(".run.regard-old")
    shutil.copytree(folder, old)
    assert load(folder).notes == ["a note"]
    shutil.rmtree(folder)
    notes = load(folder).notes
    assert len(notes) == 2
    assert ".run.regard-old" in notes[1]


def test_the_next_save_clears_what_a_crash_left_of_that_run_alone(folder: Path) -> None:
    place = folder.parent
    mine = [".run.regard-old", ".run.regard-deadbeef.tmp", ".run.regard-0123456789abcdef.trash"]
    others = [".other.regard-old", ".run.regard-x.regard-0123.tmp", ".run.regard-0123", "run.tmp"]
    for name in (*mine, *others):
        shutil.copytree(folder, place / name)
    Run(model="new").save(folder)
    assert {each.name for each in place.iterdir()} == {"run", *others}
    assert load(folder).model == "new"


def test_what_another_process_is_writing_is_left_alone(folder: Path) -> None:
    import fcntl

    writing = folder.with_name(".run.regard-0123456789abcdef.tmp")
    writing.mkdir()
    handle = os.open(writing, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    Run(model="new").save(folder)
    assert writing.exists()
    os.close(handle)
    Run(model="newer").save(folder)
    assert not writing.exists()
