"""A loaded run whose files change under it: an error in words, never a crash or wrong numbers."""

from __future__ import annotations

import copy
import os
import pickle
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.run_by_hand import make_run
from safetensors.torch import save_file
from torch import Tensor

import regard
from regard._checkpoint.safetensors_file import Opened, open_tensors
from regard.run import Layer, Options, Run, RunError, load
from regard.run.on_disk import OnDisk

NAME = "tensors.safetensors"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    run, _ = make_run("causal", "mask", "bias", "left padding")
    run.hidden_states = {"block.0": torch.randn(2, 11, 5)}
    run.save(tmp_path / "run")
    return tmp_path / "run"


def cut_short(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def empty(file: Path) -> None:
    os.truncate(file, 0)


def write_over(file: Path) -> None:
    about = file.stat()
    with file.open("r+b") as opened:
        opened.seek(-7, os.SEEK_END)
        opened.write(b"written")
    os.utime(file, ns=(about.st_atime_ns, about.st_mtime_ns + 1_000))


DOORS: dict[str, Callable[[Run], Any]] = {
    "weights": lambda run: run.weights(0),
    "a tile": lambda run: run.layer(1).pooled(0, slice(0, 5), slice(3, 7), (2, 2)),
    "rollout": lambda run: run.rollout(3, 0),
    "edges": lambda run: run.edges(0.3),
    "heads": lambda run: run.heads(),
    "a sum": lambda run: [float(layer.lse.sum()) for layer in run.layers.values()],
    "numbers": lambda run: run.hidden_states["block.0"].numpy(),
    "a list": lambda run: run.hidden_states["block.0"].tolist(),
    "a copy": copy.deepcopy,
    "its words": lambda run: repr([layer.q for layer in run.layers.values()]),
}


@pytest.mark.parametrize("spoil", [cut_short, empty, write_over])
@pytest.mark.parametrize("door", DOORS)
def test_a_file_that_changes_under_a_run_is_told_in_words(
    folder: Path, door: str, spoil: Callable[[Path], None]
) -> None:
    run = load(folder)
    spoil(folder / NAME)
    with pytest.raises(RunError, match=rf"load\(\): .*{NAME} must stay as it is while it is open"):
        DOORS[door](run)


def test_a_file_that_is_cut_short_ends_no_process(folder: Path) -> None:
    program = (
        "import os, regard\n"
        f"run = regard.load({str(folder)!r})\n"
        f"os.truncate({str(folder / NAME)!r}, 8)\n"
        "for layer in run.layers.values():\n"
        "    try:\n"
        "        print(float(layer.q.sum()))\n"
        "    except regard.run.RunError:\n"
        "        print('refused')\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout) == (0, "refused\n" * 4), done.stderr


def test_a_run_that_was_replaced_or_deleted_stays_what_it_was(folder: Path) -> None:
    run, before = load(folder), load(folder).weights(1)
    make_run("plain")[0].save(folder)
    assert torch.equal(run.weights(1), before)
    shutil.rmtree(folder)
    assert torch.equal(run.weights(1), before)


def test_what_was_loaded_is_a_tensor_as_any(folder: Path) -> None:
    x, same = load(folder).layer(0).q, load(folder).layer(0).q
    assert isinstance(x, OnDisk)
    assert x is not None
    assert same is not None
    plain = x + 0
    assert type(plain) is Tensor
    assert (x.shape, x.dtype, x.device, x.stride()) == (
        plain.shape, plain.dtype, plain.device, plain.stride(),
    )  # fmt: skip
    assert repr(x) == repr(plain)
    for copied in (copy.deepcopy(x), pickle.loads(pickle.dumps(x)), x.clone(), x.cpu(), x[:]):
        assert torch.equal(copied, plain)
    assert np.array_equal(np.asarray(x), plain.numpy())
    assert torch.equal(torch.stack([x, plain])[0], torch.cat([plain]))
    assert torch.equal(x[:, [0, 2]], plain[:, [0, 2]])
    assert torch.equal(x[plain > 0], plain[plain > 0])
    assert [float(row.sum()) for row in x[0]] == [float(row.sum()) for row in plain[0]]
    out, _ = regard.attention(x, x, x, see=regard.See())
    assert torch.equal(out, regard.attention(plain, plain, plain))


def test_what_is_changed_in_place_stays_changed(folder: Path) -> None:
    x = load(folder).layer(0).q
    assert x is not None
    plain = x.clone()
    address = x.data_ptr()
    assert x.mul_(3) is x
    x[0, 0] = 7
    x += 1
    plain.mul_(3)[0, 0] = 7
    plain += 1
    assert torch.equal(x, plain)
    assert torch.equal(x[0], plain[0])
    assert x.data_ptr() == address
    again = load(folder).layer(0).q
    assert again is not None
    assert not torch.equal(again, plain)


def long_run(length: int) -> Run:
    generator = torch.Generator().manual_seed(3)
    q = torch.randn(1, 3, length, 16, generator=generator)
    _, seen = regard.attention(q, q, q, causal=True, see=regard.See())
    return Run({"a": Layer("a", seen, Options(causal=True), q=q, k=q[:, :1])}, model="long")


def test_a_tile_reads_what_it_shows_and_no_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = long_run(5003)
    run.layers["a"] = Layer(
        "a", run.layer(0).seen, run.layer(0).options, q=run.layer(0).q, k=run.layer(0).q
    )
    Run(run.layers, model="long").save(tmp_path / "run")
    loaded = load(tmp_path / "run")
    sizes: list[int] = []
    read = Opened.read

    def counted(self: Opened, start: int, into: memoryview) -> None:
        sizes.append(len(into))
        read(self, start, into)

    monkeypatch.setattr(Opened, "read", counted)
    rows, keys = slice(4000, 4256), slice(700, 956)
    tile = loaded.layer(0).pooled(2, rows, keys)
    assert torch.equal(tile, run.layer(0).pooled(2, rows, keys))
    one_head = 5003 * 16 * 4
    assert sum(sizes) < one_head / 5


def test_what_was_expanded_is_not_written_out_in_memory(tmp_path: Path) -> None:
    """A million times a million cells of one number, of which twenty are looked at."""
    save_file({"mask": torch.ones(1, 1, 1, 1, dtype=torch.bool)}, tmp_path / NAME)
    opened = open_tensors(tmp_path / NAME)
    mask = OnDisk.of(opened, opened.entries["mask"]).expand(1, 7, 10**6, 10**6)
    assert mask.stride()[1:] == (0, 0, 0)
    assert mask[0, 3, 5:7, 999_990:].all()
    assert mask.detach()[:, :1, :1, :1].cpu().tolist() == [[[[True]]]]
    opened.close()
