"""Four gloo ranks that are started once and given jobs; of them one to four take part in each."""

from __future__ import annotations

import os
import socket
import traceback
from collections.abc import Callable, Sequence
from datetime import timedelta
from multiprocessing import get_context
from multiprocessing.connection import Connection, wait
from typing import Any

MOST = 4


class Failed(Exception):
    """A job that failed on a rank: what it raised there."""

    def __init__(self, rank: int, kind: str, message: str, more: str) -> None:
        super().__init__(rank, kind, message, more)
        self.rank, self.kind, self.message, self.more = rank, kind, message, more

    def __str__(self) -> str:
        return f"rank {self.rank}: {self.kind}: {self.message}\n{self.more}"


class Ranks:
    """Processes of one process group, on the loopback interface."""

    def __init__(self, count: int = MOST, seconds: float = 60.0) -> None:
        context = get_context("spawn")
        self._patience = 4 * seconds
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.pipes: list[Connection] = []
        self.processes: list[Any] = []
        for rank in range(count):
            ours, theirs = context.Pipe()
            process = context.Process(
                target=_serve, args=(theirs, rank, count, port, seconds), daemon=True
            )
            process.start()
            theirs.close()
            self.pipes.append(ours)
            self.processes.append(process)

    def run(self, count: int, job: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
        """What a job gives on each of the first ranks, which are handed their mesh first."""
        found = self.outcomes(count, job, *args, **kwargs)
        for each in found:
            if isinstance(each, Failed):
                raise each
        return found

    def outcomes(self, count: int, job: Callable[..., Any], *args: Any, **kwargs: Any) -> list[Any]:
        """The same; where it fails, what it raised; None of a rank that is gone."""
        for pipe in self.pipes[:count]:
            pipe.send((count, job, args, kwargs))
        return self.answers(range(count))

    def answers(self, ranks: Sequence[int], seconds: float | None = None) -> list[Any]:
        found: dict[int, Any] = {}
        while missing := [rank for rank in ranks if rank not in found]:
            ready = wait([self.pipes[rank] for rank in missing], seconds or self._patience)
            if not ready:
                raise TimeoutError(f"no answer of ranks {missing}")
            for rank in missing:
                if self.pipes[rank] in ready:
                    try:
                        found[rank] = self.pipes[rank].recv()
                    except (EOFError, ConnectionResetError):
                        found[rank] = None
        return [found[rank] for rank in ranks]

    def close(self) -> None:
        for process in self.processes:
            process.kill()
        for process in self.processes:
            process.join()


def _serve(pipe: Connection, rank: int, count: int, port: int, seconds: float) -> None:
    os.environ["GLOO_SOCKET_IFNAME"] = "lo"
    import torch
    import torch.distributed as dist

    torch.set_num_threads(1)
    timeout = timedelta(seconds=seconds)
    store = dist.TCPStore(  # pyright: ignore[reportPrivateImportUsage]
        "127.0.0.1", port, count, rank == 0, timeout=timedelta(seconds=60)
    )
    dist.init_process_group(
        "gloo", store=store, rank=rank, world_size=count, timeout=timedelta(seconds=60)
    )
    groups = {n: dist.new_group(list(range(n)), timeout=timeout) for n in range(1, count + 1)}
    while True:
        try:
            n, job, args, kwargs = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send(job(groups[n], *args, **kwargs))
        except Exception as error:  # noqa: BLE001 — it is told to the test
            pipe.send(Failed(rank, type(error).__name__, str(error), traceback.format_exc()))
