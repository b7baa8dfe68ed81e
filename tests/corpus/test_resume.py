"""However it is stopped, a corpus that is gone on with has the same rows: none twice, none lost."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Generator
from pathlib import Path

import pytest
from helpers.small_corpus import SMALL, left, made, model_folder, paragraphs, sentences
from helpers.small_disk import SmallDisk, small_disk

from regard.cli import main
from regard.corpus import CorpusError, Progress, load_corpus, processes, shard
from regard.corpus.plan import Plan

MOMENTS = ("texts", "heads", "edges", "sketches", "about", "synced", "renamed")
# Dies at the n-th time that a moment comes, in the process that writes.
SCRIPT = """
import os, signal, sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from helpers.small_corpus import made
from regard.corpus import shard
left = int(sys.argv[2])
def strike(moment):
    global left
    if moment == sys.argv[3]:
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
if __name__ == "__main__":
    shard.at_moment = strike
    made(Path(sys.argv[1]), sys.argv[4])
"""
TEXTS = sentences(17, seed=5)


class _Crash(BaseException):
    """Not an error that anything would catch."""


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a corpus of 17 texts in four units that nothing has disturbed."""
    place = tmp_path_factory.mktemp("resume")
    model_folder(place)
    paragraphs(place / "texts.txt", TEXTS)
    made(place, "undisturbed")
    return place


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_crash_at_any_moment_of_any_shard_changes_nothing(
    place: Path, moment: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    out, crashes = f"crashed-at-{moment}", 0

    def strike(at: str) -> None:
        for path in (place / out / "units").glob("unit-*"):
            assert shard.read_about(path) is not None  # whole, or not there
        if at == moment:
            raise _Crash

    for _ in range(5):
        monkeypatch.setattr(shard, "at_moment", strike if crashes < 2 else lambda _: None)
        try:
            made(place, out)
        except _Crash:
            crashes += 1
            continue
        break
    assert crashes == 2
    assert left(place / out) == left(place / "undisturbed")
    assert not list((place / out / "units").glob(".*"))


def test_a_process_that_is_killed_leaves_what_is_whole_and_goes_on_to_the_same_bytes(
    place: Path, tmp_path: Path
) -> None:
    script, folder = tmp_path / "script.py", place / "shot"
    script.write_text(SCRIPT.format(tests=str(Path(__file__).parents[1])))
    for moment, at in (("about", 2), ("renamed", 1)):
        command = [sys.executable, str(script), str(place), str(at), moment, "shot"]
        assert subprocess.run(command, check=False).returncode == -signal.SIGKILL
    assert len(list((folder / "units").glob("unit-*"))) == 2
    with pytest.raises(CorpusError, match="must be finished; got 2 of 4 units"):
        load_corpus(folder)
    part = load_corpus(folder, unfinished=True)
    assert (part.about["texts"], part.is_finished) == (10, False)
    assert part.sketch(0, 0, "entropy").count == part.about["tokens"]
    made(place, "shot")
    assert left(folder) == left(place / "undisturbed")


def test_a_worker_that_is_killed_is_replaced_and_its_unit_done_once(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each process is killed at its first unit, but for the last ones."""
    killed: list[int] = []
    hear = processes._hear

    def strike(hand: processes._Hand, *rest: object) -> bool:
        found = hear(hand, *rest)  # pyright: ignore[reportArgumentType]
        if hand.unit is not None and len(killed) < 1:
            assert hand.process.pid is not None
            os.kill(hand.process.pid, signal.SIGKILL)
            killed.append(hand.unit)
        return found

    monkeypatch.setattr(processes, "_hear", strike)
    done: list[int] = []
    made(place, "killed", workers=2, tell=lambda progress: done.append(progress.done))
    assert killed == [0]
    assert done[-1] == len(TEXTS)
    assert left(place / "killed") == left(place / "undisturbed")


def test_a_unit_in_which_every_process_dies_is_named(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Dead:
        """A process that has died of a signal."""

        exitcode = -signal.SIGKILL

        def join(self, seconds: float | None = None) -> None: ...

    class Closed:
        def close(self) -> None: ...

    from collections import deque

    left_over, deaths = deque([3]), dict[int, int]()
    for _ in range(2):
        hand = processes._Hand(Dead(), Closed(), left_over.popleft(), 2)  # pyright: ignore
        processes._bury(hand, left_over, deaths, lambda _: None)
        assert list(left_over) == [3]
    hand = processes._Hand(Dead(), Closed(), left_over.popleft(), 2)  # pyright: ignore
    with pytest.raises(CorpusError, match=r"unit 3 must be .*; 3 ended in it, the last by SIGKILL"):
        processes._bury(hand, left_over, deaths, lambda _: None)


def test_no_process_outlives_the_first_one_and_ctrl_c_says_how_to_go_on(
    place: Path, tmp_path: Path
) -> None:
    for name in ("model", "texts.txt"):
        (tmp_path / name).symlink_to(place / name)
    arguments = ["corpus", "texts.txt", "--by", "paragraph", "--model", "model", "--out", "corpus"]
    paragraphs(tmp_path / "many.txt", TEXTS * 700)
    arguments[1] = "many.txt"
    command = [sys.executable, "-m", "regard", *arguments, "--workers", "2"]
    units = tmp_path / "corpus" / "units"
    said = ""
    for number in (signal.SIGKILL, signal.SIGINT):
        before = len(list(units.glob("unit-*")))
        with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, text=True) as process:
            while len(list(units.glob("unit-*"))) <= before:
                assert process.poll() is None
                time.sleep(0.05)
            children = _children(process.pid)
            process.send_signal(number)
            process.wait(60)
            for child in children:
                while Path(f"/proc/{child}").exists():  # or the test does not end
                    time.sleep(0.05)
            said = process.stderr.read() if process.stderr is not None else ""
        assert children
        assert process.returncode == (130 if number == signal.SIGINT else -signal.SIGKILL)
    assert "The same command goes on" in said
    assert "Traceback" not in said
    assert not list(units.glob(".*"))


def test_sigterm_is_as_ctrl_c(place: Path) -> None:
    def stop(progress: Progress) -> None:
        if progress.done > 7:
            os.kill(os.getpid(), signal.SIGTERM)

    before = signal.getsignal(signal.SIGTERM)
    with pytest.raises(KeyboardInterrupt, match="SIGTERM"):
        made(place, "stopped", tell=stop)
    assert signal.getsignal(signal.SIGTERM) is before
    assert not list((place / "stopped" / "units").glob(".*"))
    made(place, "stopped")
    assert left(place / "stopped") == left(place / "undisturbed")


def _children(process: int) -> list[int]:
    found = Path(f"/proc/{process}/task/{process}/children").read_text().split()
    return [int(each) for each in found]


# ── another recipe, other texts ───────────────────────────────────────────────────────────────


def test_what_differs_from_how_it_was_begun_is_named_and_refused(place: Path) -> None:
    before = left(place / "undisturbed")
    with pytest.raises(
        CorpusError, match=r"edges was 4, and is 3; min_weight was 0.25, and is 0.5"
    ):
        made(place, "undisturbed", min_weight=0.5, edges=3)
    with pytest.raises(CorpusError, match="by was paragraph, and is line"):
        made(place, "undisturbed", by="line")
    more = paragraphs(place / "more.txt", ["i love"])
    with pytest.raises(CorpusError, match=r"more.txt was not among the texts, and is"):
        made(place, "undisturbed", texts=[place / "texts.txt", more])
    about = (place / "texts.txt").stat()
    content = (place / "texts.txt").read_bytes()
    os.utime(place / "texts.txt")  # another time, and the same bytes
    made(place, "undisturbed")
    (place / "texts.txt").write_bytes(content.replace(b"apple", b"pears"))
    with pytest.raises(CorpusError, match=r"texts.txt is not what it was"):
        made(place, "undisturbed")
    (place / "texts.txt").write_bytes(content)
    os.utime(place / "texts.txt", ns=(about.st_atime_ns, about.st_mtime_ns))
    config = place / "model" / "config.json"
    words = config.read_text()
    config.write_text(words + "\n")
    with pytest.raises(CorpusError, match="weights was"):
        made(place, "undisturbed")
    config.write_text(words)
    made(place, "undisturbed")
    assert left(place / "undisturbed") == before


def test_a_source_that_changes_while_it_is_read_ends_the_job(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = paragraphs(place / "changing.txt", TEXTS)
    count = Plan.count

    def change(plan: Plan, unit: int) -> int:
        paragraphs(text, TEXTS[::-1])
        return count(plan, unit)

    monkeypatch.setattr(Plan, "count", change)
    with pytest.raises(CorpusError, match=r"changing.txt must stay what it was"):
        made(place, "changing", texts=[text])


def test_a_folder_of_something_else_and_one_that_is_being_written_are_refused(place: Path) -> None:
    (place / "full").mkdir()
    (place / "full" / "thesis.tex").write_text("years of work")
    with pytest.raises(CorpusError, match=r"must hold a corpus and nothing else.*thesis.tex"):
        made(place, "full")
    from regard.corpus.api import _own

    with (
        _own(place / "undisturbed"),
        pytest.raises(CorpusError, match="another process writes it"),
    ):
        made(place, "undisturbed")


# ── a full disk ───────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def disk(tmp_path: Path) -> Generator[SmallDisk]:
    with small_disk(tmp_path / "disk", 256) as made:
        yield made


def test_what_does_not_fit_is_named_and_what_was_written_before_is_whole(
    place: Path, disk: SmallDisk, capsys: pytest.CaptureFixture[str]
) -> None:
    out = disk.place / "corpus"
    sizes = {str(name): str(SMALL[name]) for name in ("unit", "batch")}
    command = ["corpus", str(place / "texts.txt"), "--by", "paragraph", "--workers", "1"]
    command += ["--model", str(place / "model"), "--out", str(out)]
    command += [part for name, size in sizes.items() for part in (f"--{name}", size)]
    named: list[str] = []
    for room in range(0, 90, 3):
        disk.fill(room)
        code = main(command)
        _, said = capsys.readouterr()
        disk.free()
        for path in (out / "units").glob("unit-*"):
            assert shard.read_about(path) is not None
        if code == 0:
            break
        last = said.splitlines()[-1]
        assert (code, last.startswith(f"regard: cannot write {out}")) == (2, True), said
        assert "No space left on device" in last
        named.append(last.removeprefix(f"regard: cannot write {out}").partition(":")[0])
    assert named[0] in ("", "/.lock", "/plan")
    assert {"/plan", "/units/unit-000000"} <= set(named)
    assert left(out) == left(place / "undisturbed")
