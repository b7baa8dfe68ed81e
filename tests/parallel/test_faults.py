"""A rank that dies or hangs: every other rank is told which, within the time that was given."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Generator

import pytest
from helpers.parallel_jobs import again_and_again
from helpers.ranks import Failed, Ranks

SECONDS = 6.0  # that a rank may be late


@pytest.fixture
def fresh() -> Generator[Ranks]:
    """Ranks of one's own, which may be killed."""
    found = Ranks(4, SECONDS)
    found.run(4, again_and_again, 1, "ring")  # all have met
    yield found
    for process in found.processes:
        if process.is_alive():
            os.kill(process.pid, signal.SIGCONT)
    found.close()


@pytest.mark.parametrize("by", ["ring", "heads"])
@pytest.mark.parametrize("victim", [0, 2])
def test_a_rank_that_is_killed_is_named_on_all_others(fresh: Ranks, by: str, victim: int) -> None:
    for pipe in fresh.pipes:
        pipe.send((4, again_and_again, (None, by), {}))
    time.sleep(0.5)
    start = time.monotonic()
    fresh.processes[victim].kill()
    others = [rank for rank in range(4) if rank != victim]
    for rank, found in zip(others, fresh.answers(others), strict=True):
        assert isinstance(found, Failed), rank
        assert found.kind == "RankError"
        assert f"rank {victim} " in found.message, (rank, found.message)
        assert "Nothing of this call is whole" in found.message
    assert time.monotonic() - start < 3 * SECONDS


@pytest.mark.parametrize("victim", [0, 2])
def test_a_rank_that_hangs_is_named_on_all_others(fresh: Ranks, victim: int) -> None:
    for pipe in fresh.pipes:
        pipe.send((4, again_and_again, (None, "ring"), {}))
    time.sleep(0.5)
    start = time.monotonic()
    os.kill(fresh.processes[victim].pid, signal.SIGSTOP)
    others = [rank for rank in range(4) if rank != victim]
    for rank, found in zip(others, fresh.answers(others), strict=True):
        assert isinstance(found, Failed), rank
        assert found.kind == "RankError"
        assert f"rank {victim} " in found.message, (rank, found.message)
    assert time.monotonic() - start < 4 * SECONDS


def test_a_rank_that_fails_by_itself_is_named_with_its_error(fresh: Ranks) -> None:
    found = fresh.outcomes(4, again_and_again, 3, "ring", failing=1)
    assert found[1].kind == "MemoryError"
    for rank in (0, 2, 3):
        assert found[rank].kind == "RankError"
        assert "rank 1 failed there: MemoryError: no room" in found[rank].message
    # What is broken stays so, at once, also on the rank that failed.
    for each in fresh.outcomes(4, again_and_again, 1, "ring"):
        assert each.kind == "RankError"
        assert "rank 1 failed there" in each.message


LATE = """
import atexit, os, sys, time
import torch, torch.distributed as dist
import regard
from regard.parallel import exchange

atexit.register(lambda: print("still waits:", exchange.ranks_of("", mesh)._thread.is_alive()))
dist.init_process_group("gloo")
mesh = dist.init_device_mesh("cpu", (2,))
x = torch.randn(1, 2, 67, 16)
regard.parallel.attention(x, x, x, mesh=mesh)
if dist.get_rank() == 1:
    time.sleep(600)
try:
    regard.parallel.attention(x, x, x, mesh=mesh, timeout=1)
except regard.parallel.RankError as error:
    print(error)
    sys.exit(7)
"""


def test_a_rank_that_gives_up_ends_in_good_order_while_another_hangs() -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = str(free.getsockname()[1])
    there = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, "WORLD_SIZE": "2"}
    there |= {"GLOO_SOCKET_IFNAME": "lo", "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen(
            [sys.executable, "-c", LATE],
            env={**os.environ, **there, "RANK": rank},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for rank in "01"
    ]
    try:
        out, err = started[0].communicate(timeout=120)
    finally:
        for process in started:
            process.kill()
            process.communicate()
    assert started[0].returncode == 7, err
    assert "rank 1 has not come within 1 s" in out
    assert "still waits: False" in out  # or it would take the process along, now and then
