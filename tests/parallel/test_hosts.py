"""Two hosts share one sequence, started as docs/scale.md tells a user to."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest
import torch
from helpers.hosts import DOCUMENT, commands, start, two_hosts

import regard
from regard.parallel import Layout


@pytest.fixture
def hosts() -> Generator[tuple[str, str]]:
    with two_hosts() as names:
        yield names


def program() -> str:
    """The program of the document."""
    blocks = re.findall(r"```python\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    return next(block for block in blocks if block.startswith("# mine.py"))


def expected() -> list[str]:
    """What it says on each rank, by one process."""
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 8, 4099, 64) for _ in range(3))
    _, seen = regard.attention(q, k, v, causal=True, see=regard.See(entropy=True))
    assert seen.entropy is not None
    said: list[str] = []
    for rank in range(2):
        rows = [n for run in Layout("zigzag", 2).runs(4099, rank) for n in range(*run)]
        nats = float(seen.entropy[:, :, rows].mean())
        said.append(f"rank {rank}: {len(rows)} queries, {nats:.3f} nats")
    return said


def assert_said(text: str) -> None:
    for line in expected():
        assert text.count(line) == 1, text
    assert "there are key heads for every rank" in text


def test_two_hosts_find_what_one_process_does(tmp_path: Path, hosts: tuple[str, str]) -> None:
    (tmp_path / "mine.py").write_text(program(), encoding="utf-8")
    started = [
        start(host, command, tmp_path)
        for host, command in zip(hosts, commands("mine.py"), strict=True)
    ]
    said = [process.communicate(timeout=240) for process in started]
    assert [process.returncode for process in started] == [0, 0], said
    assert_said("".join(out for out, _ in said))


def test_one_host_finds_what_one_process_does(tmp_path: Path) -> None:
    (tmp_path / "mine.py").write_text(program(), encoding="utf-8")
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone"]
    done = subprocess.run(
        [*command, "--nproc-per-node=2", "mine.py"],
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"},
        capture_output=True,
        text=True,
        check=False,
        timeout=240,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert_said(done.stdout)
