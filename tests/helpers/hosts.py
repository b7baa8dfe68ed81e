"""Two hosts: network namespaces of this machine with a cable between them.

`ip` makes them, where the rights allow; elsewhere a test is skipped.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import pytest

DOCUMENT = Path(__file__).parents[2] / "docs" / "scale.md"
ADDRESSES = ("10.0.0.1", "10.0.0.2")  # as in the document
INTERFACE = "eth0"


def ip(*arguments: str) -> str:
    done = subprocess.run(["ip", *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise OSError(f"ip {' '.join(arguments)}: {done.stderr.strip()}")
    return done.stdout


def inside(host: str) -> list[int]:
    """The processes of a host."""
    return [int(number) for number in ip("netns", "pids", host).split()]


@contextmanager
def two_hosts() -> Generator[tuple[str, str]]:
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


def commands(program: str) -> list[str]:
    """What the document tells to type on each of two hosts, to have a program run there."""
    blocks = re.findall(r"```sh\n(.*?)```", DOCUMENT.read_text(encoding="utf-8"), re.DOTALL)
    found = [block for block in blocks if "--nnodes=2" in block and program in block]
    assert len(found) == 2
    return found


def start(host: str, command: str, place: Path) -> subprocess.Popen[str]:
    """Type a command on a host, in a folder."""
    path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"
    return subprocess.Popen(
        ["ip", "netns", "exec", host, "sh", "-c", command],
        cwd=place,
        env={**os.environ, "PATH": path, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
