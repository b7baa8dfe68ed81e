"""Runs on disk: bit for bit, whole or not at all, and damaged ones are refused."""

from __future__ import annotations

import json
import math
import os
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from helpers.run_by_hand import KINDS, make, make_run
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import regard
from regard.run import Run, RunError, load


def assert_equal(one: Any, other: Any, place: str = "run") -> None:
    """Equal in every part, tensors bit for bit."""
    if isinstance(one, Tensor):
        assert isinstance(other, Tensor), place
        assert (one.dtype, one.shape) == (other.dtype, other.shape), place
        a, b = (x.contiguous().reshape(-1).view(torch.uint8) for x in (one, other))
        assert torch.equal(a, b), place
        return
    assert type(one) is type(other), place
    if isinstance(one, dict):
        assert list(one) == list(other), place
        for name in one:
            assert_equal(one[name], other[name], f"{place}[{name!r}]")
    elif isinstance(one, list | tuple):
        assert len(one) == len(other), place
        for n, (a, b) in enumerate(zip(one, other, strict=True)):
            assert_equal(a, b, f"{place}[{n}]")
    elif hasattr(one, "__dataclass_fields__"):
        for each in fields(one):
            assert_equal(getattr(one, each.name), getattr(other, each.name), f"{place}.{each.name}")
    else:
        assert one == other, place


def assert_same_run(one: Run, other: Run) -> None:
    a, b = ({k: v for k, v in vars(run).items() if k != "_edges"} for run in (one, other))
    assert_equal(a, b)


def full_run() -> Run:
    run, _ = make_run(*KINDS)
    layer = run.layers["block.0"]
    assert layer.q is not None
    lse = layer.lse.clone()
    lse[0, 1, 2] = -math.inf
    bits = torch.tensor([0x7FC00001, 0x7F800001], dtype=torch.int32).view(torch.float32)
    share = layer.shares["self"].clone()
    share[0, 0, :2] = bits  # NaNs of different bits
    run.layers["block.0"] = replace(
        layer,
        seen=replace(layer.seen, lse=lse),
        q=layer.q.transpose(1, 2).contiguous().transpose(1, 2),  # not contiguous
        v=layer.q,  # two names of one tensor
        output=layer.q.bfloat16(),
        shares={"zebra": share, **layer.shares},
        options=replace(
            layer.options, scale=1 / 3, bias=torch.randn(1, 1, 1, 11).expand(2, 3, 11, 11)
        ),
    )
    run.hidden_states = {"block.1": torch.randn(2, 11, 5), "block.0": torch.randn(2, 11, 5).half()}
    run.output = torch.randn(2, 11, 13, requires_grad=True).detach()
    run.ablated = {"block.1": [0, 2]}
    run.see = replace(regard.See(map=(3, 4)), queries=torch.ones(2, 11, dtype=torch.bool))
    return run


def test_a_run_comes_back_bit_for_bit(tmp_path: Path) -> None:
    run = full_run()
    run.save(tmp_path / "run")
    assert_same_run(load(tmp_path / "run"), run)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["run"]


@settings(max_examples=20)
@given(
    model=st.text(st.characters(codec=None, categories=None)),
    notes=st.lists(st.text()),
    scale=st.floats(allow_nan=False, allow_infinity=False),
    values=st.lists(st.floats(width=32), min_size=2, max_size=2),
)
def test_any_text_and_any_number_comes_back(
    tmp_path_factory: pytest.TempPathFactory,
    model: str,
    notes: list[str],
    scale: float,
    values: list[float],
) -> None:
    made = make("causal", keep=())
    layer = replace(
        made.layer, name=model, options=replace(made.layer.options, scale=scale, window=(3, None))
    )
    tokens = [[regard.text.Token(model, 0, len(model))], []]
    run = Run({model: layer}, model=model, text=model, notes=notes, tokens=tokens)
    run.hidden_states = {model: torch.tensor(values).reshape(1, 1, 2)}
    folder = tmp_path_factory.mktemp("any") / "run"
    run.save(folder)
    assert_same_run(load(folder), run)


def test_an_empty_run_comes_back(tmp_path: Path) -> None:
    for run in (Run(), Run(tokens=[], text=[], token_ids=torch.zeros(0, 3, dtype=torch.int64))):
        run.save(tmp_path / "run")
        assert_same_run(load(tmp_path / "run"), run)


@pytest.mark.parametrize("keep", [(), ("q",), ("k",), ("k", "v"), ("output",)])
def test_whatever_was_kept_comes_back(tmp_path: Path, keep: tuple[str, ...]) -> None:
    run, _ = make_run("grouped", "cross", keep=keep)
    run.save(tmp_path / "run")
    assert_same_run(load(tmp_path / "run"), run)


def test_what_was_only_expanded_is_written_once(tmp_path: Path) -> None:
    n = 1009
    made = make("plain", keep=(), length=n, see=regard.See())
    mask = torch.ones(2, 1, 1, n, dtype=torch.bool).expand(2, 3, n, n)
    layer = replace(made.layer, options=replace(made.layer.options, mask=mask), shares={})
    run = Run({"a": layer})
    run.save(tmp_path / "run")
    assert (tmp_path / "run" / "tensors.safetensors").stat().st_size < 50_000
    assert_same_run(load(tmp_path / "run"), run)


def test_all_files_are_for_the_same_people(tmp_path: Path) -> None:
    before = os.umask(0o027)
    try:
        Run(model="tiny").save(tmp_path / "run")
    finally:
        os.umask(before)
    modes = {file.name: file.stat().st_mode & 0o777 for file in (tmp_path / "run").iterdir()}
    assert modes == dict.fromkeys(("run.json", "tensors.safetensors", "edges.parquet"), 0o640)


def test_a_loaded_run_works_as_the_first_did(tmp_path: Path) -> None:
    run, _ = make_run("causal", "grouped")
    run.save(tmp_path / "run")
    loaded = load(tmp_path / "run")
    assert loaded.heads() == run.heads()
    assert loaded.edges() == run.edges()
    assert torch.equal(loaded.rollout(5), run.rollout(5))
    assert torch.equal(loaded.weights(0, 1), run.weights(0, 1))


def test_a_run_can_be_saved_over_itself(tmp_path: Path) -> None:
    run = full_run()
    run.save(tmp_path / "run")
    loaded = load(tmp_path / "run")
    loaded.notes.append("seen again")
    loaded.save(tmp_path / "run")
    run.notes.append("seen again")
    assert_same_run(load(tmp_path / "run"), run)
    assert_same_run(loaded, run)  # though its file is gone
    assert sorted(each.name for each in tmp_path.iterdir()) == ["run"]


def test_a_link_to_a_run_is_followed(tmp_path: Path) -> None:
    Run(model="old").save(tmp_path / "run")
    (tmp_path / "link").symlink_to(tmp_path / "run")
    Run(model="new").save(tmp_path / "link")
    assert (tmp_path / "link").is_symlink()
    assert load(tmp_path / "run").model == load(tmp_path / "link").model == "new"


def test_the_files_are_read_by_other_tools(tmp_path: Path) -> None:
    import pyarrow.parquet as parquet
    from safetensors.torch import load_file

    run, made = make_run("causal")
    run.save(tmp_path / "run")
    document = json.loads((tmp_path / "run" / "run.json").read_text())
    assert document["format"] == 1
    assert document["layers"][0]["name"] == "block.0"
    tensors = load_file(tmp_path / "run" / "tensors.safetensors")
    assert torch.equal(tensors["layers.0.seen.lse"], made[0].layer.lse)
    table = parquet.read_table(tmp_path / "run" / "edges.parquet")
    assert run.edges(0.05).unify_dictionaries().combine_chunks().equals(table)


# ── whole or not at all ───────────────────────────────────────────────────────────────────────


class Crash(Exception):
    pass


def crashing(monkeypatch: pytest.MonkeyPatch, after: int, again: bool) -> Callable[[], int]:
    """Make step number `after` of saving fail, and, with `again`, every one that follows."""
    done = 0

    def wrap(true: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any, **options: Any) -> Any:
            nonlocal done
            done += 1
            if done == after or (again and done > after):
                raise Crash
            return true(*arguments, **options)

        return step

    monkeypatch.setattr(os, "fsync", wrap(os.fsync))
    for name in ("rename", "mkdir"):
        monkeypatch.setattr(Path, name, wrap(getattr(Path, name)))
    return lambda: done


def steps_of_saving(tmp_path: Path, old: bool) -> int:
    with pytest.MonkeyPatch.context() as patch:
        if old:
            Run(model="old").save(tmp_path / "counted")
        count = crashing(patch, 10**6, False)
        Run(model="new").save(tmp_path / "counted")
        return count()


@pytest.mark.parametrize("again", [False, True])
@pytest.mark.parametrize("old", [False, True])
def test_a_failure_at_any_step_leaves_the_old_run_or_the_new(
    tmp_path: Path, old: bool, again: bool
) -> None:
    steps = steps_of_saving(tmp_path, old)
    assert steps >= (9 if old else 7)
    for after in range(1, steps + 1):
        folder = tmp_path / f"{after}" / "run"
        folder.parent.mkdir()
        if old:
            Run(model="old").save(folder)
        with pytest.MonkeyPatch.context() as patch:
            crashing(patch, after, again)
            try:
                Run(model="new").save(folder)
                failed = False
            except Crash:
                failed = True
        here = folder.exists() or old
        assert folder.exists() or not old or again  # what can be put back is
        assert here or failed
        assert not here or load(folder).model in (("old", "new") if old and failed else ("new",))
        Run(model="newest").save(folder)  # and nothing is in the way
        assert load(folder).model == "newest"
        assert [*folder.parent.iterdir()] == [folder]


DYING = """
import os, sys
from pathlib import Path
from regard.run import Run
folder, after = Path(sys.argv[1]), int(sys.argv[2])
done, true = 0, Path.rename
def rename(self, target):
    global done
    done += 1
    if done == after:
        os._exit(9)
    return true(self, target)
Path.rename = rename
Run(model="new").save(folder)
"""


@pytest.mark.parametrize("after", [1, 2, 3])
def test_a_process_that_dies_leaves_the_old_run_or_the_new(tmp_path: Path, after: int) -> None:
    folder = tmp_path / "run"
    Run(model="old").save(folder)
    died = subprocess.run([sys.executable, "-c", DYING, str(folder), str(after)], check=False)
    assert died.returncode == 9
    assert load(folder).model == ("new" if after == 3 else "old")
    Run(model="newest").save(folder)
    assert load(folder).model == "newest"
    assert [*tmp_path.iterdir()] == [folder]  # what a dead process left behind is cleared


# ── what is refused ───────────────────────────────────────────────────────────────────────────


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    run, _ = make_run("causal", "left padding")
    run.save(tmp_path / "run")
    return tmp_path / "run"


def test_only_runs_are_overwritten(tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    mine.mkdir()
    Run().save(mine)  # an empty folder may be filled
    (mine / "notes.txt").write_text("mine")
    with pytest.raises(RunError, match=r"save\(\): .*mine must hold a run and nothing else.*notes"):
        Run().save(mine)
    assert (mine / "notes.txt").read_text() == "mine"
    (tmp_path / "file").write_text("mine")
    with pytest.raises(RunError, match="must be a folder, or not be there; got a file"):
        Run().save(tmp_path / "file")
    other = tmp_path / "other"
    other.mkdir()
    (other / "run.json").write_text('{"name": "another program"}')
    with pytest.raises(RunError, match="must say the format of the run"):
        Run().save(other)
    (other / "run.json").rename(other / "edges.parquet")
    with pytest.raises(RunError, match=r"it has no run.json"):
        Run().save(other)
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "mine", "other"]


def test_what_is_no_run_is_not_loaded(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"load\(\): .*none must be a folder .*there is none"):
        load(tmp_path / "none")
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="it is a file"):
        load(tmp_path / "file")
    with pytest.raises(RunError, match=r"it has no run.json"):
        load(tmp_path)


@pytest.mark.parametrize("name", ["run.json", "tensors.safetensors", "edges.parquet"])
@pytest.mark.parametrize("keep", [0, 1, 7, 100, -1])
def test_files_that_were_cut_short_are_refused(folder: Path, name: str, keep: int) -> None:
    content = (folder / name).read_bytes()
    (folder / name).write_bytes(content[:keep])
    with pytest.raises(RunError, match=rf"load\(\): .*{name} must be .*[Ss]ave the run again"):
        load(folder)


def test_missing_tensors_are_refused_and_missing_edges_made_anew(folder: Path) -> None:
    expected = load(folder).sql("select * from edges order by all")
    (folder / "edges.parquet").unlink()
    assert load(folder).sql("select * from edges order by all") == expected
    (folder / "tensors.safetensors").unlink()
    with pytest.raises(RunError, match=r"tensors.safetensors must be .* bytes long; got no file"):
        load(folder)


def test_edges_whose_bytes_changed_are_refused(folder: Path) -> None:
    file = folder / "edges.parquet"
    content = bytearray(file.read_bytes())
    for place in range(200, 260):
        content[place] ^= 0xFF
    file.write_bytes(content)
    with pytest.raises(RunError, match=r"sql\(\): .*edges.parquet must be .*Delete it"):
        load(folder).sql("select sum(weight), max(key) from edges")
    import pyarrow as pa
    import pyarrow.parquet as parquet

    parquet.write_table(pa.table({"a": [1]}), file)
    document = json.loads((folder / "run.json").read_text())
    document["files"]["edges.parquet"] = file.stat().st_size
    (folder / "run.json").write_text(json.dumps(document))
    with pytest.raises(RunError, match=r"edges.parquet must hold sequence.*got a"):
        load(folder).sql("select * from edges")


def test_no_flipped_bit_goes_into_an_answer(folder: Path) -> None:
    file, query = folder / "edges.parquet", "select * from edges order by all"
    expected, content = load(folder).sql(query), file.read_bytes()
    refused = 0
    for place in range(4, len(content), 41):
        file.write_bytes(bytes([*content[:place], content[place] ^ 4, *content[place + 1 :]]))
        try:
            assert load(folder).sql(query) == expected, place
        except RunError:
            refused += 1
    assert refused > 50


def test_another_format_is_refused(folder: Path) -> None:
    document = json.loads((folder / "run.json").read_text())
    for form, said in (
        (2, "must be of format 1; it is of 2"),
        ("1", "must say"),
        (None, "must say"),
    ):
        (folder / "run.json").write_text(json.dumps({**document, "format": form}))
        with pytest.raises(RunError, match=rf"load\(\): .*run.json {said}"):
            load(folder)
    for text in ("[]", "{", "[" * 100_000, '"\\ud800', "\x00"):
        (folder / "run.json").write_text(text)
        with pytest.raises(RunError, match=r"load\(\): .*run.json must"):
            load(folder)


def edit(path: list[Any], value: Any) -> Callable[[Any], None]:
    def change(document: Any) -> None:
        for step in path[:-1]:
            document = document[step]
        if value is KeyError:
            del document[path[-1]]
        else:
            document[path[-1]] = value

    return change


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (["tensors", "layers.0.q", "dtype"], "float64"),
        (["tensors", "layers.0.q", "shape"], [2, 3, 5, 11]),
        (["tensors", "layers.0.q", "shape"], "long"),
        (["tensors", "layers.0.q"], None),
        (["tensors", "layers.0.q"], KeyError),
        (["tensors", "layers.9.q"], {"dtype": "float32", "shape": [1]}),
        (["tensors"], KeyError),
        (["layers", 0, "n_keys"], "many"),
        (["layers", 0, "n_keys"], 7),
        (["layers", 0, "name"], 3),
        (["layers", 0, "options"], {"unknown": 1}),
        (["layers", 0, "shares"], ["first"]),
        (["layers", 0, "shares"], ["first", "self", "previous", "more"]),
        (["layers", 1], KeyError),
        (["layers"], KeyError),
        (["tokens", 0, 0], ["a"]),
        (["tokens"], 3),
        (["see"], {}),
        (["see", "top"], -1),
        (["text"], 3),
        (["notes"], [3]),
        (["files"], KeyError),
    ],
)
def test_a_document_that_does_not_fit_is_refused(
    folder: Path, path: list[Any], value: object
) -> None:
    document = json.loads((folder / "run.json").read_text())
    edit(path, value)(document)
    (folder / "run.json").write_text(json.dumps(document))
    with pytest.raises(RunError, match=r"load\(\): .*run.json .*[Ss]ave the run again"):
        load(folder)


def test_all_tensors_that_do_not_fit_are_listed(folder: Path) -> None:
    document = json.loads((folder / "run.json").read_text())
    document["tensors"]["layers.0.k"]["shape"] = [1]
    document["tensors"]["layers.1.seen.lse"]["dtype"] = "float16"
    (folder / "run.json").write_text(json.dumps(document))
    with pytest.raises(RunError, match=r"(?s)layers.0.k must be.*got float32 \[2, 3, 11, 5\]") as e:
        load(folder)
    assert "layers.1.seen.lse must be float16" in str(e.value)


def test_a_header_that_lies_is_refused(folder: Path) -> None:
    file = folder / "tensors.safetensors"
    content = bytearray(file.read_bytes())
    content[:8] = struct.pack("<Q", 2**62)
    file.write_bytes(content)
    with pytest.raises(RunError, match=r"tensors.safetensors must be a whole safetensors file"):
        load(folder)


def test_a_run_whose_hidden_states_bear_their_old_name_is_read(tmp_path: Path) -> None:
    run = full_run()
    folder = tmp_path / "run"
    run.save(folder)
    document = json.loads((folder / "run.json").read_text())
    document["vectors"] = document.pop("hidden_states")
    tensors = safetensors.torch.load_file(folder / "tensors.safetensors")
    for n in range(2):
        tensors[f"vectors.{n}"] = tensors.pop(f"hidden_states.{n}")
        document["tensors"][f"vectors.{n}"] = document["tensors"].pop(f"hidden_states.{n}")
    safetensors.torch.save_file(tensors, folder / "tensors.safetensors")
    size = (folder / "tensors.safetensors").stat().st_size
    document["files"]["tensors.safetensors"] = size
    (folder / "run.json").write_text(json.dumps(document))
    assert_same_run(load(folder), run)
