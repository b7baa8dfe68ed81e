"""Memory that one step frees is there for the next one, and goes back to the system in the end."""

from __future__ import annotations

import os
import platform
import subprocess
import sys

import pytest

SCRIPT = """
import ctypes, resource, sys, torch
from regard.train.memory import kept_memory
def faults():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    several = [torch.ones(1_000_003) for _ in range(7)]  # 4 MB each, as activations are made
    while several:
        several.pop()  # the last first, as a backward pass frees them
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before
def held():
    pages = int(open("/proc/self/statm").read().split()[1])
    return pages * resource.getpagesize()
ctypes.CDLL(None).mallopt(-1, 2**17)  # from now on glibc gives back whatever it can
outside = min(faults() for _ in range(11))
with kept_memory():
    inside = min(faults() for _ in range(31))  # the heap takes a few to find its shape
    full = held()
print(outside, inside, full - held())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="it is glibc that is told")
@pytest.mark.parametrize("told", [False, True], ids=["", "by the environment"])
def test_what_a_step_frees_is_kept_for_the_next_one_and_given_back_in_the_end(told: bool) -> None:
    kept = {name: x for name, x in os.environ.items() if not name.startswith(("MALLOC_", "GLIBC_"))}
    if told:
        kept["MALLOC_TRIM_THRESHOLD_"] = str(2**20)
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT], env=kept, capture_output=True, text=True, check=True
    )
    outside, inside, given_back = map(int, done.stdout.split())
    pages = 7 * 4_000_012 // 4096
    assert outside > pages / 2  # else there is nothing to keep
    if told:
        assert inside > pages / 2
    else:
        assert inside < pages / 50
        assert given_back > 7 * 4_000_012 / 2
