"""Two hosts train as one process does, started as docs/scale.md says.

The hosts are network namespaces of this machine with a cable between them: `ip` makes them, where
the rights allow.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from helpers.hosts import commands, inside, start, two_hosts
from helpers.small_run import left, small, trained
from torch._C._distributed_c10d import TCPStore

from regard.train import Recipe, api
from regard.train.log import read_log
from regard.train.ranks import Ranks, met

PATIENCE = 300


@pytest.fixture
def hosts() -> Generator[tuple[str, str]]:
    with two_hosts() as names:
        yield names


def recipe(strategy: str) -> Recipe:
    training = {"steps": 40, "batch": 12, "accumulate": 3, "save": 5, "evaluate": 40}
    return small(model={"dropout": 0.0}, training={**training, "strategy": strategy})


def losses(folder: Path) -> list[float]:
    return [line["loss"] for line in read_log(folder / "log.jsonl") if "loss" in line]


def strike(host: str, run: Path, started: list[subprocess.Popen[str]]) -> bool:
    """Kill what trains on a host as soon as there is something to go on from."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end and all(process.poll() is None for process in started):
        if any((run / "checkpoints").glob("step-00000000[5-9]")):
            for number in inside(host):
                if b"torchrun" not in Path(f"/proc/{number}/cmdline").read_bytes():
                    os.kill(number, signal.SIGKILL)
                    return True
        time.sleep(0.01)
    return False


def test_two_hosts_learn_what_one_process_does_also_if_a_worker_is_killed(
    tmp_path: Path, hosts: tuple[str, str]
) -> None:
    (tmp_path / "mine.toml").write_text(recipe("none").toml(), encoding="utf-8")
    run = tmp_path / "shared" / "mine"
    started = [
        start(host, command.replace("/shared/mine", str(run)), tmp_path)
        for host, command in zip(hosts, commands("regard train"), strict=True)
    ]
    struck = strike(hosts[1], run, started)
    said = [process.communicate(timeout=PATIENCE) for process in started]
    assert struck, said
    trained(tmp_path / "alone", recipe("none"))
    assert [process.returncode for process in started] == [0, 0], said
    assert sum(out.count("Done after 40 steps.") for out, _ in said) == 1
    assert losses(run) == pytest.approx(losses(tmp_path / "alone"), rel=1e-5)
    assert left(run)["step"] == "step-000000040"
    assert not list((run / "checkpoints").glob(".*"))


def test_a_folder_that_another_host_does_not_see_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Second(Ranks):
        """A process whose first one made a run, elsewhere."""

        rank = 1

        def __init__(self) -> None:
            self.strategy, self.count = "ddp", 2

        def told(self, make: Callable[[], Any]) -> Any:
            return small().content

    monkeypatch.setattr(api, "joined", lambda strategy: contextlib.nullcontext(Second()))
    with pytest.raises(ValueError, match="must be a folder that all processes see; got no run"):
        trained(tmp_path / "run")


def test_processes_meet_whatever_those_before_them_left() -> None:
    host = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    names: dict[int, set[str]] = {0: set(), 1: set(), 2: set()}

    def meet(rank: int) -> None:
        store = TCPStore("127.0.0.1", host.port, is_master=False)
        names[rank].add(met(store, rank, 3))

    for attempt in range(1, 4):  # in one store, as those have that torchrun starts again
        threads = [threading.Thread(target=meet, args=(rank,)) for rank in (1, 0, 2)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(PATIENCE)
        assert names[0] == names[1] == names[2]
        assert len(names[0]) == attempt
