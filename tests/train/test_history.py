"""The history of a run: the numbers of its log and its pictures, while it trains and after."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import shutil
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from helpers.small_run import TEXT, small, trained
from safetensors.numpy import load_file

from regard._checkpoint.errors import CheckpointError
from regard.cli import main
from regard.train import History, history
from regard.train._history import MOST_LOSSES, MOST_PICTURES, chosen
from regard.train.recipe import recipe_of
from regard.view.html.page import Part, room_for_parts
from regard.view.html.training import training_page


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that was trained to its end."""
    folder = tmp_path_factory.mktemp("history") / "run"
    trained(folder)
    return folder


@pytest.fixture
def own(run: Path, tmp_path: Path) -> Path:
    """The same, for a test that changes it."""
    return Path(shutil.copytree(run, tmp_path / "own"))


def logged(folder: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]


@contextmanager
def held(folder: Path) -> Generator[None]:
    """As somebody who trains there holds it."""
    handle = os.open(folder, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_EX)
    yield
    os.close(handle)


def test_a_history_has_the_numbers_of_the_log_and_of_the_pictures(run: Path) -> None:
    found, lines = history(run), logged(run)
    steps = [line for line in lines if "loss" in line]
    assert (found.step, found.steps, found.status) == (13, 13, "ended")
    assert found.losses.steps == [line["step"] for line in steps]
    assert found.losses.values == [line["loss"] for line in steps]
    assert found.learning_rates.values == [line["learning_rate"] for line in steps]
    scored = [line for line in lines if "validation" in line]
    assert {name: curve.values for name, curve in found.validation.items()} == {
        name: [line["validation"][name] for line in scored] for name in ("loss", "exact")
    }
    looks = [line["entropy"] for line in lines if "entropy" in line]
    for name, heads in found.entropies.items():
        assert [curve.values for curve in heads] == [
            [look[name][head] for look in looks] for head in range(2)
        ]
    assert found.pictured.steps == [0, 2, 13]
    for number, step in enumerate(found.pictured.steps):
        picture = load_file(run / "pictures" / f"step-{step:09}.safetensors")
        for name, weights in picture.items():
            assert np.array_equal(found.pictured.weights[name][number], weights)


@pytest.mark.parametrize("task", ["translate", "language-model"])
def test_each_axis_of_a_picture_has_the_tokens_that_the_model_read_there(
    task: str, tmp_path: Path
) -> None:
    (tmp_path / "text.txt").write_text(TEXT)
    rows = [f"one {n}\tdos uno {n}\n" for n in range(53)]
    (tmp_path / "pairs.tsv").write_text("".join(rows))
    pairs = {"pairs": str(tmp_path / "pairs.tsv"), "vocabulary": 270, "validation": 5}
    text = {"text": str(tmp_path / "text.txt"), "length": 70}
    content = dict(small(training={"steps": 1}).content)
    content |= {"task": task, "data": pairs if task == "translate" else text}
    trained(tmp_path / "run", recipe_of(content))
    found = history(tmp_path / "run").pictured
    layers = {layer.name: layer for layer in found.layers}
    for name, layer in layers.items():
        assert (len(layer.queries), len(layer.keys)) == found.weights[name].shape[2:]
    if task == "language-model":  # of a longer example, what fits into a picture
        (only,) = layers.values()
        assert only.queries == only.keys
        assert len(only.keys) == 64
        assert "".join(only.keys) in TEXT
        return
    assert list(layers) == [
        "encoder.layers.0.attention",
        "decoder.layers.0.attention",
        "decoder.layers.0.cross",
    ]
    source, target = found.example["source"], found.example["target"]
    assert "".join(source).startswith("one ")
    assert "".join(target).startswith("<start>dos uno ")
    assert (layers["encoder.layers.0.attention"].queries, source) == (source, source)
    assert layers["encoder.layers.0.attention"].keys == source
    assert layers["decoder.layers.0.attention"].queries == target
    assert layers["decoder.layers.0.attention"].keys == target
    assert layers["decoder.layers.0.cross"].queries == target
    assert layers["decoder.layers.0.cross"].keys == source


def test_a_long_run_is_shown_by_the_means_of_equal_portions(own: Path) -> None:
    count = 2 * MOST_LOSSES + 3
    values = np.random.default_rng(3).normal(size=count)
    lines = [{"step": n + 1, "loss": float(x), "learning_rate": 0.5} for n, x in enumerate(values)]
    (own / "log.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    found = history(own).losses
    assert found.each == 3
    assert len(found.values) == 668
    assert found.steps[:2] == [2.0, 5.0]
    assert found.steps[-1] == (2002 + 2003) / 2
    whole = np.array(found.values[:-1], dtype=np.float64)
    assert np.allclose(whole, values[:2001].reshape(-1, 3).mean(1), rtol=0, atol=1e-12)
    assert found.values[-1] == pytest.approx(values[-2:].mean())


def test_a_run_is_read_while_it_is_being_written(own: Path) -> None:
    log, pictures = own / "log.jsonl", own / "pictures"
    whole = log.read_bytes()
    log.write_bytes(whole[:-9])  # half of the last line, which is an evaluation
    (pictures / ".step-000000013").write_bytes(b"half")
    (pictures / "step-000000013.safetensors").unlink()
    found = history(own)
    assert found.pictured.steps == [0, 2]
    assert found.losses.steps[-1] == 13
    assert len(found.validation["loss"].values) == 2
    assert (found.unread, found.pictured.left_out) == (0, 0)
    log.write_bytes(b'{"step": 1, "loss": 2.5}\nnonsense\n[]\n{"step": 2, "loss": NaN}\n')
    (pictures / "step-000000007.safetensors").write_bytes(b"broken")
    found = history(own)
    assert (found.losses.values, found.unread) == ([2.5, None], 2)
    assert (found.pictured.steps, found.pictured.left_out) == ([0, 2], 1)
    log.write_bytes(b"")
    shutil.rmtree(pictures)
    shutil.rmtree(own / "data")
    for left in (log, own / "tokenizer.json", None):
        found = history(own)
        assert (found.step, found.losses.values, found.entropies) == (0, [], {})
        assert found.pictured.layers == []
        found.html(own / "page.html")
        if left is not None:
            left.unlink()


def test_pictures_whose_tokens_are_not_known_are_shown_with_numbers(own: Path) -> None:
    (own / "tokenizer.json").unlink()
    found = history(own).pictured
    assert found.steps == [0, 2, 13]
    assert [layer.queries for layer in found.layers] == [[], [], []]


def test_of_many_pictures_the_first_the_last_and_some_between_are_shown(own: Path) -> None:
    first = own / "pictures" / "step-000000000.safetensors"
    for step in range(100, 200):
        shutil.copy(first, own / "pictures" / f"step-{step:09}.safetensors")
    found = history(own).pictured
    assert len(found.steps) == MOST_PICTURES
    assert (found.steps[0], found.steps[-1]) == (0, 199)
    assert found.left_out == 103 - MOST_PICTURES


def test_a_folder_that_is_no_run_is_refused(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match=r"must be a run, which has recipe\.toml"):
        history(tmp_path)
    with pytest.raises(CheckpointError, match="nothing there"):
        history(tmp_path / "nothing")


def test_a_training_goes_on_has_stopped_or_has_ended(own: Path) -> None:
    assert history(own).status == "ended"
    with held(own):
        assert history(own).status == "trains"
    log = own / "log.jsonl"
    lines = log.read_text().splitlines(keepends=True)
    log.write_text("".join(line for line in lines if json.loads(line)["step"] < 12))
    assert history(own).status == "stopped"


def test_a_training_whose_patience_is_over_has_ended(tmp_path: Path) -> None:
    training = {"steps": 50, "patience": 1, "evaluate": 1}
    recipe = small(optimizer={"learning_rate": 1e-12}, training=training)
    outcome = trained(tmp_path / "run", recipe)
    assert outcome.ended == "patience"
    found = history(tmp_path / "run")
    assert (found.status, found.step) == ("ended", outcome.step)
    assert outcome.step < 50


def test_who_looks_whether_somebody_trains_keeps_nobody_from_training(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    handle = os.open(own, os.O_RDONLY)
    fcntl.flock(handle, fcntl.LOCK_SH)  # as the studio does, for a moment
    waited: list[float] = []

    def sleep(seconds: float) -> None:
        waited.append(seconds)
        os.close(handle)

    monkeypatch.setattr("regard.train.api.time.sleep", sleep)
    assert trained(own).step == 13
    assert len(waited) == 1


def test_the_heads_that_changed_most_are_chosen_two_of_a_layer_at_most() -> None:
    changes = {(layer, head): 0.1 * layer + 0.01 * head for layer in range(4) for head in range(3)}
    # The best of every layer, and the second ones of the layers where they changed most.
    assert chosen(changes) == [(0, 2), (1, 2), (2, 1), (2, 2), (3, 1), (3, 2)]
    assert chosen({(0, head): float(head) for head in range(5)}) == [(0, 3), (0, 4)]
    assert len(chosen({(layer, 0): 1.0 for layer in range(20)})) == 6
    assert chosen({}) == []


def test_heads_that_have_no_room_are_left_out_and_the_chosen_ones_come_first(run: Path) -> None:
    found: History = history(run)
    document, weights = found.document(), found.pictured.weights
    assert json.loads(_data(training_page(document, weights)))["training"]["held"] == [
        [layer, head] for layer in range(3) for head in range(2)
    ]
    document["chosen"] = [[2, 1], [1, 0]]
    names = list(weights)
    parts = [Part.of(weights[names[n]][:, head].view(np.uint16)) for n, head in document["chosen"]]
    room = sum(len(part.packed) for part in parts)
    made = training_page(document, weights, limit=room - room_for_parts(0, document))
    held = json.loads(_data(made))["training"]["held"]
    assert held == [[1, 0], [2, 1]]


def _data(page: str) -> str:
    return page.partition('id="regard-data">')[2].partition("</script>")[0]


def test_training_writes_its_page_and_says_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "small.toml").write_text(small(training={"steps": 1}).toml())
    out = tmp_path / "run"
    assert main(["train", str(tmp_path / "small.toml"), "--out", str(out)]) == 0
    assert f"Wrote {out / 'page.html'}\n" in capsys.readouterr().err
    data = json.loads(_data((out / "page.html").read_text()))
    assert data["training"]["status"] == "ended"
    assert data["training"]["losses"]["values"] == history(out).losses.values


def test_the_curves_of_a_training_are_a_figure(run: Path, tmp_path: Path) -> None:
    history(run).figure(tmp_path / "run.svg")
    drawn = (tmp_path / "run.svg").read_text()
    for word in ("Training of", "13 of 13 steps", "loss: mean", "exact: a share"):
        assert word in drawn
    with pytest.raises(ValueError, match=r"figure\(\): path must end in \.svg"):
        history(run).figure(tmp_path / "run.gif")


def test_a_training_that_diverges_writes_its_page_too_which_says_where(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    recipe = small(optimizer={"learning_rate": 1e38}, schedule={"warmup": 0})
    (tmp_path / "small.toml").write_text(recipe.toml())
    out = tmp_path / "run"
    command = ["train", str(tmp_path / "small.toml"), "--out", str(out)]
    assert main(command) == 2
    told = capsys.readouterr().err
    assert f"Wrote {out / 'page.html'}\n" in told
    shown = json.loads(_data((out / "page.html").read_text()))["training"]
    assert (shown["status"], shown["step"], shown["losses"]["steps"]) == ("diverged", 2, [1.0])
    assert shown["diverged"] == history(out).diverged
    assert f"at step 2: {shown['diverged']}." in " ".join(told.split())
    assert main(["train", "--out", str(out), "--resume"]) == 2  # to the same end
    assert history(out).status == "diverged"
    log = out / "log.jsonl"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[:-1]))
    assert (history(out).status, history(out).diverged) == ("stopped", "")


def test_a_page_that_cannot_be_written_is_told_and_fails_nothing(
    own: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(path: Path, text: str) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("regard._files.write_text", full)
    notes: list[str] = []
    assert trained(own, note=notes.append).ended == "done"
    assert [note for note in notes if "page.html" in note] == [
        "page.html could not be written: [Errno 28] No space left on device"
    ]
