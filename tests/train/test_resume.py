"""However it is stopped, a training that goes on ends as if it had not been."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from helpers.small_run import left, small, trained

from regard.train import checkpoint
from regard.train.loop import Progress
from regard.train.stopping import stopping

MOMENTS = ("model", "state", "synced", "manifest", "moved", "renamed", "saved")
SCRIPT = """
import os, signal, sys
sys.path.insert(0, {tests!r})
from helpers.small_run import small, trained
from regard.train import checkpoint
left = int(sys.argv[2])
def strike(moment):
    global left
    if moment == sys.argv[3]:
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
checkpoint.at_moment = strike
trained(__import__("pathlib").Path(sys.argv[1]))
"""


class _Crash(BaseException):
    """Not an error that anything would catch."""


@pytest.fixture(scope="module")
def undisturbed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed") / "run"
    trained(folder)
    return folder


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_crash_at_any_moment_of_any_save_changes_nothing(
    tmp_path: Path, undisturbed: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    wait, saves, has_been = 1, 0, False

    def strike(at: str) -> None:
        nonlocal saves, has_been
        has_been = has_been or at == "renamed"
        if has_been:  # there is a whole checkpoint at any moment once there has been one
            assert checkpoint.newest(folder / "checkpoints") is not None
        if at == moment:
            saves += 1
            if saves == wait:
                raise _Crash

    monkeypatch.setattr(checkpoint, "at_moment", strike)
    for attempt in range(1, 9):
        wait, saves = attempt, 0
        try:
            trained(folder)
        except _Crash:
            continue
        break
    assert left(folder) == left(undisturbed)


@pytest.mark.parametrize(("moment", "at"), [("model", 2), ("manifest", 3), ("renamed", 1)])
def test_a_process_that_is_killed_goes_on_to_the_same_bits(
    tmp_path: Path, undisturbed: Path, moment: str, at: int
) -> None:
    script = SCRIPT.format(tests=str(Path(__file__).parents[1]))
    command = [sys.executable, "-c", script, str(tmp_path / "run"), str(at), moment]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    trained(tmp_path / "run")
    assert left(tmp_path / "run") == left(undisturbed)


@pytest.mark.parametrize("harm", ["cut", "changed", "missing", "no manifest"])
def test_a_broken_newest_checkpoint_is_told_of_and_passed_over(
    tmp_path: Path, undisturbed: Path, harm: str
) -> None:
    folder = tmp_path / "run"
    trained(folder)
    newest = sorted((folder / "checkpoints").iterdir())[-1]
    weights = newest / "model.safetensors"
    content = weights.read_bytes()
    if harm == "cut":
        weights.write_bytes(content[: len(content) // 2])
    elif harm == "changed":
        weights.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif harm == "missing":
        weights.unlink()
    else:
        (newest / "manifest.json").unlink()
    told: list[str] = []
    trained(folder, note=told.append)
    assert any(newest.name in text and "broken" in text for text in told)
    assert left(folder) == left(undisturbed)


def test_a_signal_finishes_the_step_saves_and_ends(tmp_path: Path, undisturbed: Path) -> None:
    def tell(progress: Progress) -> None:
        if progress.step == 4:
            os.kill(os.getpid(), signal.SIGTERM)

    told: list[str] = []
    found = trained(tmp_path / "run", tell=tell, note=told.append)
    assert (found.ended, found.step) == ("SIGTERM", 5)
    assert [text for text in told if "SIGTERM" in text] == [
        "SIGTERM: this step is finished and saved, then it ends; SIGTERM once more ends it at once"
    ]
    saved = checkpoint.newest(tmp_path / "run" / "checkpoints")
    assert saved is not None
    assert saved.step == 5
    trained(tmp_path / "run")
    assert left(tmp_path / "run") == left(undisturbed)


def test_the_second_signal_ends_at_once(tmp_path: Path) -> None:
    script = (
        f"import sys; sys.path.insert(0, {str(Path(__file__).parents[1])!r})\n"
        "import os, pathlib, signal\n"
        "from helpers.small_run import trained\n"
        "def tell(progress):\n"
        "    if progress.step == 2:\n"
        "        os.kill(os.getpid(), signal.SIGINT); os.kill(os.getpid(), signal.SIGINT)\n"
        "        print('went on')\n"
        f"trained(pathlib.Path({str(tmp_path / 'run')!r}), tell=tell)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    assert done.returncode == 128 + signal.SIGINT
    assert b"went on" not in done.stdout


def test_signals_are_heard_while_a_step_is_within_a_long_call() -> None:
    script = (
        "import hashlib, os, signal, threading\n"
        "from regard.train.stopping import stopping\n"
        "said = threading.Event()\n"
        "def say(text):\n"
        "    print(text, flush=True)\n"
        "    said.set()\n"
        "def press():\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    said.wait()\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "with stopping(say):\n"
        "    threading.Timer(0.2, press).start()\n"
        "    hashlib.pbkdf2_hmac('sha256', b'', b'', 2**31 - 1)  # many minutes\n"
    )
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, check=False, timeout=120)
    assert done.returncode == 128 + signal.SIGINT
    assert done.stdout.startswith(b"SIGINT: this step is finished and saved, then it ends; Ctrl-C")


def test_who_listened_to_signals_before_listens_again() -> None:
    here, there = socket.socketpair()
    with here, there:
        there.setblocking(False)
        here.settimeout(30)
        before = signal.set_wakeup_fd(there.fileno())
        usual = signal.signal(signal.SIGUSR1, lambda number, frame: None)
        try:
            with stopping():
                os.kill(os.getpid(), signal.SIGUSR1)
                assert here.recv(1) == bytes([signal.SIGUSR1])
            os.kill(os.getpid(), signal.SIGUSR1)
            assert here.recv(1) == bytes([signal.SIGUSR1])
        finally:
            signal.signal(signal.SIGUSR1, usual)
            assert signal.set_wakeup_fd(before) == there.fileno()


def test_another_recipe_is_refused_by_the_key_that_differs(tmp_path: Path) -> None:
    trained(tmp_path / "run", small(training={"steps": 2}))
    with pytest.raises(ValueError, match=r"optimizer\.learning_rate must be 0\.01, as in the run"):
        trained(tmp_path / "run", small(training={"steps": 2}, optimizer={"learning_rate": 0.1}))
    trained(tmp_path / "run", small(training={"steps": 2, "keep": 5}))


def test_two_do_not_train_in_one_folder(tmp_path: Path) -> None:
    def tell(progress: Progress) -> None:
        with pytest.raises(ValueError, match="must be free; got a run that another process trains"):
            trained(tmp_path / "run", recipe)

    recipe = small(training={"steps": 1})
    trained(tmp_path / "run", recipe, tell=tell)


def test_a_full_disk_ends_it_with_what_was_saved_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, undisturbed: Path
) -> None:
    saves = 0

    def full(moment: str) -> None:
        nonlocal saves
        saves += moment == "state"
        if moment == "state" and saves == 3:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr(checkpoint, "at_moment", full)
    with pytest.raises(OSError, match="No space left"):
        trained(tmp_path / "run")
    names = sorted(path.name for path in (tmp_path / "run" / "checkpoints").iterdir())
    assert names == ["step-000000000", "step-000000003"]
    trained(tmp_path / "run")
    assert left(tmp_path / "run") == left(undisturbed)


def test_a_broken_newer_checkpoint_is_swept_and_not_the_one_just_written(tmp_path: Path) -> None:
    folder, place = tmp_path / "run", tmp_path / "run" / "checkpoints"
    recipe = small(training={"keep": 9})
    trained(folder, recipe)
    for step in (10, 12, 13):
        (place / f"step-{step:09}" / "state.json").unlink()
    with pytest.raises(_Crash):
        trained(folder, recipe, tell=_crash_at(11), note=lambda text: None)
    saved = checkpoint.newest(place)
    assert saved is not None
    assert saved.step == 10
    assert sorted(path.name for path in place.iterdir())[-1] == "step-000000010"


def _crash_at(step: int) -> Callable[[Progress], None]:
    def tell(progress: Progress) -> None:
        if progress.step == step:
            raise _Crash

    return tell


def test_a_run_whose_checkpoints_are_all_broken_does_not_begin_anew(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    trained(folder)
    for each in (folder / "checkpoints").iterdir():
        (each / "manifest.json").unlink()
    log = (folder / "log.jsonl").read_bytes()
    with pytest.raises(ValueError, match="must hold a whole checkpoint; got broken ones alone"):
        trained(folder, note=lambda text: None)
    assert (folder / "log.jsonl").read_bytes() == log


def test_a_checkpoint_under_another_name_is_none(tmp_path: Path, undisturbed: Path) -> None:
    folder = tmp_path / "run"
    trained(folder)
    newest = sorted((folder / "checkpoints").iterdir())[-1]
    newest.rename(newest.with_name("step-000000099"))
    told: list[str] = []
    trained(folder, note=told.append)
    assert any("be called step-000000013" in text for text in told)
    assert left(folder) == left(undisturbed)


def test_a_run_that_stopped_by_itself_stays_stopped(tmp_path: Path) -> None:
    recipe = small(
        optimizer={"learning_rate": 1e-12},
        training={"steps": 50, "evaluate": 1, "patience": 3},
        model={"dropout": 0.0},
    )
    first = trained(tmp_path / "run", recipe)
    again = trained(tmp_path / "run", recipe)
    assert (first.ended, again.ended) == ("patience", "patience")
    assert first.step == again.step


@pytest.mark.parametrize("harm", ["tokenizer.json", "data/manifest.json"])
def test_what_it_learns_from_may_not_change(tmp_path: Path, harm: str) -> None:
    recipe = small(training={"steps": 3})
    trained(tmp_path / "run", recipe)
    file = tmp_path / "run" / harm
    file.write_bytes(file.read_bytes() + b" ")
    with pytest.raises(ValueError, match="must be the one that the run has learned from"):
        trained(tmp_path / "run", recipe)


def test_a_start_that_came_to_nothing_is_no_run(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    text = tmp_path / "text.txt"
    text.write_text("short")
    recipe = small("language-model", data={"text": str(text)})
    with pytest.raises(ValueError, match="must have more than the 11 tokens"):
        trained(folder, recipe)
    (folder / ".regard-00ff.tmp").write_text("half of a recipe")
    text.write_text("long enough to learn from, and to keep some of it aside. " * 7)
    assert trained(folder, recipe).step == 13
    assert not (folder / ".regard-00ff.tmp").exists()


def test_what_a_kill_left_beside_checkpoints_is_swept(tmp_path: Path) -> None:
    trained(tmp_path / "run", small(training={"steps": 2}))
    place = tmp_path / "run" / "checkpoints"
    for name in ("..step-000000007.regard-0f.tmp", ".step-000000001", ".step-000000001.old"):
        (place / name).mkdir()
    checkpoint.sweep(place, 2, 2, None)
    assert sorted(path.name for path in place.iterdir()) == ["step-000000000", "step-000000002"]


def test_a_log_that_was_cut_is_told_of(tmp_path: Path) -> None:
    with pytest.raises(_Crash):
        trained(tmp_path / "run", tell=_crash_at(7))
    (tmp_path / "run" / "log.jsonl").unlink()
    told: list[str] = []
    assert trained(tmp_path / "run", note=told.append).step == 13
    assert any("is shorter than it was" in text for text in told)
