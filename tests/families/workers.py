"""Families in processes of their own, each with so much time and memory and no more."""

from __future__ import annotations

import multiprocessing
import os
import resource
import signal
import time
import traceback
from collections.abc import Generator
from dataclasses import dataclass
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkProcess

from families.judge import judge
from families.verdict import Verdict

SECONDS = 150
MEMORY = 6 * 2**30  # above what a process has when it starts

_TOO_LARGE = "took more memory than is allowed"

# Forked, as importing torch and transformers takes longer than to judge a family.
_context = multiprocessing.get_context("fork")


@dataclass
class _Worker:
    family: str
    process: ForkProcess
    answer: Connection
    started: float

    @property
    def ends(self) -> float:
        return self.started + SECONDS

    def result(self) -> Verdict:
        """Its verdict, or what happened instead. The process is gone afterwards."""
        try:
            verdict = self.answer.recv() if self.answer.poll() else None
        except EOFError:
            verdict = None
        if verdict is None and time.monotonic() >= self.ends:
            verdict = Verdict(self.family, "not built", f"took more than {SECONDS} seconds")
        self.end()
        if verdict is None:
            code = self.process.exitcode
            verdict = Verdict(self.family, "different", f"its process ended with code {code}")
        verdict.seconds = round(time.monotonic() - self.started, 1)
        return verdict

    def end(self) -> None:
        if self.process.is_alive():
            self.process.join(1)
        if self.process.is_alive():
            self.process.kill()
        self.process.join()
        self.answer.close()


def verdicts(families: list[str], jobs: int) -> Generator[Verdict]:
    """A verdict on each family, as they come. All processes are ended with the generator."""
    waiting, working = list(reversed(families)), list[_Worker]()
    if len(waiting) > 1:
        judge("llama")  # so that what every family imports is imported once, before the forks
    try:
        while waiting or working:
            while waiting and len(working) < jobs:
                working.append(_start(waiting.pop()))
            rest = min(each.ends for each in working) - time.monotonic()
            ready = wait([each.answer for each in working], max(rest, 0))
            now = time.monotonic()
            for each in [x for x in working if x.answer in ready or now >= x.ends]:
                working.remove(each)
                yield each.result()
    finally:
        for each in working:
            each.process.kill()
            each.end()


def _start(family: str) -> _Worker:
    ours, theirs = _context.Pipe(duplex=False)
    process = _context.Process(target=_work, args=(family, theirs), daemon=True)
    process.start()
    theirs.close()
    return _Worker(family, process, ours, time.monotonic())


def _work(family: str, answer: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends this
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    limit = _virtual() + MEMORY
    resource.setrlimit(resource.RLIMIT_AS, (max(limit, used), max(limit, used)))
    try:
        answer.send(judge(family))
    except MemoryError:
        answer.send(Verdict(family, "not built", _TOO_LARGE))
    except RuntimeError as error:
        if "DefaultCPUAllocator" in str(error):  # PyTorch's way to say the same
            answer.send(Verdict(family, "not built", _TOO_LARGE))
        else:
            answer.send(Verdict(family, "different", traceback.format_exc()[-600:]))
    except Exception:  # noqa: BLE001 — a fault of the sweep itself, which is not to be hidden
        answer.send(Verdict(family, "different", traceback.format_exc()[-600:]))


def _virtual() -> int:
    """The bytes of addresses that this process has."""
    with open("/proc/self/statm") as file:  # noqa: PTH123 — no path of a user
        return int(file.read().split()[0]) * resource.getpagesize()
