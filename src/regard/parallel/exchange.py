"""What ranks send one another, and what it takes: tensors, point to point, with a time limit.

Every message has one sender and one receiver, so that a rank that fails has a name. Messages travel
while the caller computes; a thread waits for them, and the caller can be interrupted.
"""

from __future__ import annotations

import atexit
import contextlib
import queue
import secrets
import threading
import time
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.distributed.device_mesh import DeviceMesh

from regard._arguments import WrongType, WrongValue, number, shown
from regard.parallel.faults import PATIENCE, Faults, RankError

_LONGER = 30.0  # seconds
_ENDING = 1.0  # seconds that messages have to come when a process ends
_FIRST_TAG = 2**20  # so that messages are not taken for those of others in the same group

Message = tuple[int, Tensor]  # a peer, and what goes to it or comes from it


@dataclass(frozen=True)
class Event:
    """What a rank did from `start` to `end`, in seconds of its own clock.

    `what` is "travel" (messages were under way), "wait" (nothing was computed meanwhile) or
    "compute"; `bytes` is what this rank sent.
    """

    what: str
    name: str
    start: float
    end: float
    bytes: int = 0


_traces: list[list[Event]] = []


@contextmanager
def trace() -> Generator[list[Event]]:
    """Inside, everything that this rank sends, waits for and computes is listed, with its times.

    A block of keys travels while the one before is computed: see where they overlap.

    >>> with trace() as events:
    ...     pass
    >>> events
    []
    """
    events: list[Event] = []
    _traces.append(events)
    try:
        yield events
    finally:
        _traces.remove(events)


def note(what: str, name: str, start: float, end: float, size: int = 0) -> None:
    for events in _traces:
        events.append(Event(what, name, start, end, size))


@contextmanager
def computing(name: str) -> Generator[None]:
    """What is computed inside is noted as such."""
    start = time.perf_counter()
    yield
    note("compute", name, start, time.perf_counter())


class Travel:
    """Messages under way; it keeps their tensors meanwhile."""

    def __init__(self, ranks: Ranks, name: str) -> None:
        self._ranks, self._name = ranks, name
        self._start = self._end = time.perf_counter()
        self._done = threading.Event()
        self._error: BaseException | None = None
        self.works: list[tuple[int, Any, Tensor]] = []
        self.sent = 0  # bytes

    def follow(self) -> None:
        """Wait until all of them are there; in a thread."""
        longer = timedelta(seconds=self._ranks.seconds + _LONGER)  # than the one who waits does
        try:
            for peer, work, _ in self.works:
                self._ranks.awaited = peer
                work.wait(longer)
        except BaseException as error:  # noqa: BLE001 — told to the one who waits
            self._error = error
        self._end = time.perf_counter()
        self._done.set()

    def wait(self) -> None:
        """Until all are there. RankError, if a rank does not come."""
        faults, limit = self._ranks.faults, self._ranks.seconds
        start = time.perf_counter()
        try:
            while not self._done.wait(min(PATIENCE, limit / 4)):
                if (known := faults.known()) is not None:
                    raise known
                if time.perf_counter() - start > limit:
                    raise faults.late(self._ranks.awaited, limit)
                faults.waits_for(self._ranks.awaited)
            if self._error is not None:
                peer, is_late = self._ranks.awaited, "timed out" in str(self._error).lower()
                found = faults.late(peer, limit) if is_late else faults.gone(peer)
                raise found from self._error
        finally:
            faults.goes_on()
        # Here, and not in the thread: taking them apart gives the interpreter's lock away, and a
        # thread that wants it back when the interpreter has ended takes the process along.
        self.works.clear()
        note("travel", self._name, self._start, self._end, self.sent)
        note("wait", self._name, start, time.perf_counter())


class Ranks:
    """This process among those of a mesh: who they are, and how they reach one another."""

    def __init__(self, group: Any) -> None:
        self.group = group
        self.rank, self.count = dist.get_rank(group), dist.get_world_size(group)
        self.device = torch.device("cpu" if dist.get_backend(group) == "gloo" else "cuda")
        self._backend = group._get_backend(self.device)
        self._limit = self.seconds = self._backend.options._timeout.total_seconds()
        self.awaited = 0  # the rank whose message is waited for
        self._tag = _FIRST_TAG
        self._queue: queue.SimpleQueue[Travel | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        everyone = dist.get_process_group_ranks(group)
        store = dist.distributed_c10d._get_default_store()
        self.faults = Faults(store, "", self.rank, everyone, self.seconds)
        if self.count > 1:
            # A store may outlive the processes, and hold what those before have said.
            name = torch.tensor([secrets.randbelow(2**62)], device=self.device)
            others = [(peer, name) for peer in range(1, self.count)]
            is_first = self.rank == 0
            self.swap("meet", others if is_first else [], [] if is_first else [(0, name)]).wait()
            self.faults = Faults(store, f"{int(name):x}", self.rank, everyone, self.seconds)

    def within(self, seconds: float | None) -> Ranks:
        """The same, where a rank may be so late; None: as late as the group says."""
        self.seconds = self.faults.seconds = self._limit if seconds is None else seconds
        return self

    def swap(self, name: str, sends: Sequence[Message], receives: Sequence[Message]) -> Travel:
        """Start to send and to receive; what goes to this rank itself is copied at once.

        All are contiguous, and not to be changed before they are there. All ranks must swap in the
        same order.
        """
        if self.faults.found is not None:
            raise self.faults.found
        self._tag += 1
        own = [tensor for peer, tensor in sends if peer == self.rank]
        for (_, into), tensor in zip((m for m in receives if m[0] == self.rank), own, strict=True):
            into.copy_(tensor)
        travel = Travel(self, name)
        try:
            for peer, tensor in receives:
                if peer != self.rank and tensor.numel():
                    work = dist.irecv(tensor, group=self.group, group_src=peer, tag=self._tag)
                    travel.works.append((peer, work, tensor))
            for peer, tensor in sends:
                if peer != self.rank and tensor.numel():
                    travel.sent += tensor.nbytes
                    work = dist.isend(tensor, group=self.group, group_dst=peer, tag=self._tag)
                    travel.works.append((peer, work, tensor))
        except RuntimeError as error:  # the connection was closed before
            raise self.faults.gone(peer) from error  # pyright: ignore[reportPossiblyUnboundVariable]
        if self._thread is None:
            self._thread = threading.Thread(target=self._follow, daemon=True)
            self._thread.start()
            atexit.register(self._end)
        self._queue.put(travel)
        return travel

    def _follow(self) -> None:
        while (travel := self._queue.get()) is not None:
            travel.follow()
            del travel  # its memory is not to be kept until the next one

    def _end(self) -> None:
        """The thread ends before the interpreter does, also if it waits in vain.

        Of gloo no message can be given up; but one that is late breaks all connections, which ends
        whatever waits for them.
        """
        assert self._thread is not None
        self._queue.put(None)
        self._thread.join(_ENDING)
        if self._thread.is_alive() and self.device.type == "cpu":
            peer = (self.rank + 1) % self.count
            with contextlib.suppress(RuntimeError):
                late = self._backend.recv([torch.empty(1)], peer, self._tag + 1)
                late.wait(timedelta(milliseconds=1))
            self._thread.join(_ENDING)

    def tell(self, name: str, told: Sequence[int]) -> list[list[int]]:
        """What each rank tells, as many whole numbers: of all ranks, in order."""
        own = torch.tensor(told, dtype=torch.int64, device=self.device)
        found = [torch.empty_like(own) for _ in range(self.count)]
        everyone = range(self.count)
        self.swap(name, [(peer, own) for peer in everyone], list(enumerate(found))).wait()
        return [each.tolist() for each in found]

    @contextmanager
    def together(self) -> Generator[None]:
        """Inside, an error of this rank alone is told to all others, who wait for it in vain.

        What is refused, all refuse alike.
        """
        try:
            yield
        except (RankError, WrongType, WrongValue):
            raise
        except BaseException as error:
            if self.count > 1:
                self.faults.failed(error)
            raise


_known: dict[int, Ranks] = {}


def ranks_of(call: str, mesh: object, timeout: float | None = None) -> Ranks:
    """The ranks of a mesh. The first call for a mesh must be made by all of them."""
    group: Any = mesh
    if isinstance(mesh, DeviceMesh):
        if mesh.ndim != 1:
            raise WrongValue(
                f"{call}: mesh must have one axis; got {tuple(mesh.mesh.shape)}. "
                "mesh['name'] is the mesh of one of its axes."
            )
        group = mesh.get_group()
    if not isinstance(group, dist.ProcessGroup):
        raise WrongType(
            f"{call}: mesh must be a DeviceMesh or a ProcessGroup of torch.distributed; got "
            f"{shown(mesh)}. torch.distributed.init_device_mesh('cpu', (2,)) makes one, under "
            "torchrun."
        )
    found = _known.get(id(group))
    if found is None or found.group is not group:
        found = _known[id(group)] = Ranks(group)
    return found.within(None if timeout is None else number(call, "timeout", timeout))
