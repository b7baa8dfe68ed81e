"""On Ray it is the same corpus, whatever dies; without Ray it says how to get it."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Generator
from pathlib import Path

import pytest
from helpers.small_corpus import left, made, model_folder, paragraphs, sentences

import regard.corpus.on_ray as on_ray
from regard.corpus import CorpusError, Progress
from regard.corpus.plan import Plan

TEXTS = sentences(29, seed=11)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("ray")
    model_folder(place)
    paragraphs(place / "texts.txt", TEXTS)
    made(place, "here")
    return place


def test_without_ray_the_extra_is_named(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(
        ImportError, match=r'ray must be installed; it is not. pip install "regard\[ray\]"'
    ):
        made(place, "none", ray="local")


@pytest.fixture(scope="module")
def cluster() -> Generator[None]:
    """A cluster of this machine alone, for all tests of the file; starting one takes seconds."""
    ray = pytest.importorskip("ray", reason="ray is not installed, so no cluster was tried")
    ray.init(
        address="local",
        num_cpus=2,
        include_dashboard=False,
        log_to_driver=False,
        runtime_env={"env_vars": {"OMP_NUM_THREADS": "1"}},
    )
    yield
    ray.shutdown()


@pytest.mark.filterwarnings("ignore")
def test_shards_of_a_cluster_are_those_of_one_process(place: Path, cluster: None) -> None:
    done: list[Progress] = []
    made(place, "there", ray="local", workers=2, tell=done.append)
    assert (done[-1].done, done[-1].texts) == (29, 29)
    assert left(place / "there") == left(place / "here")


@pytest.mark.filterwarnings("ignore")
def test_an_actor_that_is_killed_changes_nothing(place: Path, cluster: None) -> None:
    killed: list[int] = []

    def strike() -> None:
        while not killed:
            for each in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    told = each.read_bytes()
                except OSError:
                    continue
                if told.startswith(b"ray::MapWorker") and b"Actor" in told:
                    killed.append(int(each.parent.name))
                    os.kill(killed[0], signal.SIGKILL)
                    return
            time.sleep(0.01)

    thread = threading.Thread(target=strike, daemon=True)
    thread.start()
    made(place, "killed", ray="local", workers=1)
    assert killed
    assert left(place / "killed") == left(place / "here")


@pytest.mark.filterwarnings("ignore")
def test_an_error_of_an_actor_is_told_as_it_is(
    place: Path, cluster: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Full:
        def do(self, unit: int) -> None:
            raise OSError(28, "No space left on device", "units/unit-000000")

    class Actor(on_ray._Actor):
        def __init__(self, out: str) -> None:
            super().__init__(out)
            self._worker = Full()

    monkeypatch.setattr(on_ray, "_Actor", Actor)
    with pytest.raises(OSError, match=r"No space left on device: 'units/unit-000000'"):
        made(place, "full", ray="local", workers=1)
    monkeypatch.undo()
    changing = paragraphs(place / "changing.txt", TEXTS)

    def change(plan: Plan, unit: int) -> int:
        paragraphs(changing, TEXTS[::-1])
        return 0

    monkeypatch.setattr(Plan, "count", change)
    with pytest.raises(CorpusError, match=r"changing\.txt must stay what it was"):
        made(place, "changing", texts=[changing], ray="local", workers=1)
