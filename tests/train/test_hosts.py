"""Two hosts train as one process does, started as docs/scale.md says.

The hosts are network namespaces of this machine with a cable between them: `ip` makes them, where
the rights allow.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Generator
from pathlib import Path
from typing import Any

import pytest
from helpers.small_run import left, small, trained
from torch._C._distributed_c10d import TCPStore

from regard.train import Recipe, api
from regard.train.log import read_log
from regard.train.ranks import Ranks, met

DOCUMENT = Path(__file__).parents[2] / "docs" / "scale.md"
ADDRESSES = ("10.0.0.1", "10.0.0.2")  # as in the document
INTERFACE = "eth0"
PATIENCE = 300


def ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def inside(host: str) -> list[int]:
    """The processes of a host."""
    return [int(number) for number in ip("netns", "pids", host).split()]


@pytest.fixture
def hosts() -> Generator[tuple[str, str]]:
    """Two hosts with a cable between them, and nothing else; by their names."""
    if shutil.which("ip") is None:
        pytest.skip("two hosts need ip, of iproute2: apt-get install iproute2")
    names = tuple(f"regard-{os.getpid()}-{letter}" for letter in "ab")
    try:
        for name in names:
            ip("netns", "add", name)
        ends = (["netns", names[0], "name", INTERFACE], ["name", INTERFACE, "netns", names[1]])
        ip("link", "add", *ends[0], "type", "veth", "peer", *ends[1])
        for name, address in zip(names, ADDRESSES, strict=True):
            ip("-n", name, "address", "add", f"{address}/24", "dev", INTERFACE)
            for device in ("lo", INTERFACE):
                ip("-n", name, "link", "set", device, "up")
        subprocess.run(["ip", "netns", "exec", names[0], "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        take_away(names)
        pytest.skip(f"two hosts cannot be made here: {error}")
    yield names[0], names[1]
    take_away(names)


def take_away(names: tuple[str, ...]) -> None:
    for name in names:
        if Path("/run/netns", name).exists():
            for number in inside(name):
                os.kill(number, signal.SIGKILL)
            ip("netns", "delete", name)


def commands() -> list[str]:
    """What the document tells to type on each of two hosts."""
    blocks = re.findall(r"```sh\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    found = [block for block in blocks if "--nnodes=2" in block]
    assert len(found) == 2
    return found


def start(host: str, command: str, place: Path, out: str) -> subprocess.Popen[str]:
    """Type a command on a host, in a folder."""
    command = command.replace("/shared/mine", out)
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.Popen(
        ["ip", "netns", "exec", host, "sh", "-c", command],
        cwd=place,
        env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def recipe(strategy: str) -> Recipe:
    training = {"steps": 40, "batch": 12, "accumulate": 3, "save": 5, "evaluate": 40}
    return small(model={"dropout": 0.0}, training={**training, "strategy": strategy})


def losses(folder: Path) -> list[float]:
    return [line["loss"] for line in read_log(folder / "log.jsonl") if "loss" in line]


def strike(host: str, run: Path) -> bool:
    """Kill what trains on a host as soon as there is something to go on from."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
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
        start(host, command, tmp_path, str(run))
        for host, command in zip(hosts, commands(), strict=True)
    ]
    trained(tmp_path / "alone", recipe("none"))
    assert strike(hosts[1], run)
    said = [process.communicate(timeout=PATIENCE) for process in started]
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
