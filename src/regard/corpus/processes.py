"""Units shared out among processes here: one that dies is replaced, and its unit done anew."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from multiprocessing import connection, get_context, parent_process
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from regard.corpus.errors import CorpusError

_TIMES = 3  # that a unit may be given to a process which then dies
_NONE = -1  # the unit of a process that has none yet
_PATIENCE = 5.0  # seconds that a process has to end


@dataclass
class _Hand:
    """A process, the end of its pipe that is here, and the unit that it is at."""

    process: BaseProcess
    pipe: Connection
    unit: int | None = None
    told: int = 0  # texts of the unit that it has said are done


def in_processes(
    out: Path, units: Iterable[int], workers: int, threads: int, tell: Callable[[int], None]
) -> None:
    """Do the units with so many processes of `threads` each. `tell` gets the texts that are done;
    a number below 0 takes back what a process had done when it died.

    Raises what a process raised: an OSError, a ValueError, or a RuntimeError with what it said.
    """
    left = deque(units)
    deaths: dict[int, int] = {}
    hands: list[_Hand] = []
    try:
        with _environment(threads):
            hands += [_start(out) for _ in range(min(workers, len(left)))]
            while hands:
                waited: list[Any] = [
                    x for hand in hands for x in (hand.pipe, hand.process.sentinel)
                ]
                ready = connection.wait(waited)
                for hand in [each for each in hands if each.pipe in ready]:
                    _hear(hand, left, tell)
                for hand in [each for each in hands if each.process.sentinel in ready]:
                    while hand.pipe.poll():  # what it said before it ended
                        if not _hear(hand, left, tell):
                            break
                    hands.remove(hand)
                    _bury(hand, left, deaths, tell)
                    if left:
                        hands.append(_start(out))
    finally:
        for hand in hands:
            hand.process.terminate()
        for hand in hands:
            hand.process.join(_PATIENCE)
            if hand.process.is_alive():
                hand.process.kill()
                hand.process.join()
            hand.pipe.close()


def _hear(hand: _Hand, left: deque[int], tell: Callable[[int], None]) -> bool:
    """Take in one message; False if there is no more to come."""
    try:
        kind, said = hand.pipe.recv()
    except (EOFError, OSError):
        return False
    if kind == "texts":
        hand.told += said
        tell(said)
    elif kind == "failed":
        raise said
    else:  # it is ready for a unit: the first one, or the next
        hand.unit, hand.told = (left.popleft() if left else None), 0
        with contextlib.suppress(OSError):  # it has died: its sentinel says so
            hand.pipe.send(hand.unit)
    return True


def _bury(
    hand: _Hand, left: deque[int], deaths: dict[int, int], tell: Callable[[int], None]
) -> None:
    """See to the unit of a process that has ended."""
    hand.process.join()
    hand.pipe.close()
    code, unit = hand.process.exitcode or 0, hand.unit
    if unit is None:
        if not code:
            return
        deaths[_NONE] = deaths.get(_NONE, 0) + 1
        if deaths[_NONE] == _TIMES:
            raise RuntimeError(
                f"corpus(): processes must live to read a unit; {_TIMES} ended before, the last by "
                f"{_said(code)}. Is there enough memory for so many models? Take fewer workers."
            )
        return
    tell(-hand.told)
    deaths[unit] = deaths.get(unit, 0) + 1
    if deaths[unit] == _TIMES:
        raise CorpusError(
            f"corpus(): unit {unit} must be one that a process survives; {_TIMES} ended in it, the "
            f"last by {_said(code)}. Is there enough memory? With a smaller batch, or with fewer "
            "workers, it may do. What is done is kept."
        )
    left.appendleft(unit)


def _said(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    with contextlib.suppress(ValueError):
        return signal.Signals(-code).name
    return f"signal {-code}"


def _start(out: Path) -> _Hand:
    here, there = get_context("spawn").Pipe()
    process = get_context("spawn").Process(target=_serve, args=(out, there), daemon=True)
    process.start()
    there.close()
    return _Hand(process, here)


@contextlib.contextmanager
def _environment(threads: int) -> Generator[None]:
    """What processes that are started inside find: so many threads."""
    before = os.environ.get("OMP_NUM_THREADS")
    os.environ["OMP_NUM_THREADS"] = str(threads)
    try:
        yield
    finally:
        if before is None:
            del os.environ["OMP_NUM_THREADS"]
        else:
            os.environ["OMP_NUM_THREADS"] = before


# ── in the process ────────────────────────────────────────────────────────────────────────────


def _serve(out: Path, pipe: Connection) -> None:
    """Do units until there is none. Ctrl-C is for the process that started this one; if that is
    gone, there is nobody to work for.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent.sentinel,), daemon=True).start()
    try:
        from regard.corpus.unit import Worker

        worker = Worker(out)
        while True:
            pipe.send(("ready", None))
            unit = pipe.recv()
            if unit is None:
                return
            worker.do(unit, lambda count: pipe.send(("texts", count)))
    except (EOFError, BrokenPipeError):
        os._exit(1)
    except BaseException as error:  # noqa: BLE001, as it is raised where it is waited for
        pipe.send(("failed", _portable(error)))


def _end_with(sentinel: int) -> None:
    connection.wait([sentinel])
    os._exit(1)


def _portable(error: BaseException) -> Exception:
    """An error that can be sent: its kind if that says what to do, and what it says."""
    if isinstance(error, OSError) and error.errno is not None:
        return OSError(error.errno, error.strerror, error.filename)
    if isinstance(error, ImportError):
        return ImportError(str(error))
    if isinstance(error, ValueError):
        return CorpusError(str(error))
    sys.stderr.write(traceback.format_exc())
    return RuntimeError(f"corpus(): {type(error).__name__}: {error}")
