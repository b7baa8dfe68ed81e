"""A rank that is gone or hangs: who it is, told to all others through the group's store."""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

_T = TypeVar("_T")

PATIENCE = 1.0  # seconds that a rank waits before it asks the store what the others know
_ANSWER = 1.0  # seconds that the store has to answer
_PAUSE = 5.0  # seconds in which a store that did not answer is not asked again
_IS_KEPT_BY_TORCHRUN = os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True"


class RankError(RuntimeError):
    """A rank is gone, hangs or has failed: nothing of this call may be used, nor the group again.

    `rank` is its number among all processes, None if it could not be told.
    """

    def __init__(self, message: str, rank: int | None) -> None:
        super().__init__(message)
        self.rank = rank

    def __reduce__(self) -> Any:
        return type(self), (str(self), self.rank)


class Faults:
    """What is known of the ranks of one group. Whoever finds a fault first says which it is, and
    all others repeat that: a rank that ends because another did is not to blame."""

    def __init__(
        self, store: Any, name: str, rank: int, global_ranks: list[int], seconds: float
    ) -> None:
        self._store, self._name, self.seconds = store, f"regard/parallel/{name}", seconds
        self._rank, self._global_ranks = rank, global_ranks
        self._waits, self._silent_until = False, 0.0
        self.found: RankError | None = None

    # ── what a rank tells ─────────────────────────────────────────────────────────────────────

    def waits_for(self, peer: int) -> None:
        """This rank has been waiting for another for a while."""
        self._waits = True
        self._tell(f"waits/{self._rank}", str(peer))

    def goes_on(self) -> None:
        """It waits no more."""
        if self._waits:
            self._waits = False
            self._tell(f"waits/{self._rank}", "")

    def failed(self, error: BaseException) -> None:
        """This rank cannot go on, by its own fault."""
        if self.found is None:
            said = f"{type(error).__name__}: {error}".splitlines()[0][:300]
            self.found = self._agreed(self._rank, f"failed there: {said}")

    # ── what it finds out ─────────────────────────────────────────────────────────────────────

    def known(self) -> RankError | None:
        """What others have found."""
        key = f"{self._name}/fault"
        if time.monotonic() < self._silent_until:
            return None
        try:
            if not self._ask(lambda: self._store.check([key])):
                return None
            return self._error(self._ask(lambda: self._store.get(key)).decode())
        except _Silent:
            return None  # it may be slow: when the time is up, it is asked once more

    def gone(self, peer: int) -> RankError:
        """The connection to a rank is closed: it has ended, or another fault has ended it."""
        return self._agreed(peer, "has ended, or its host cannot be reached any more")

    def late(self, peer: int, seconds: float) -> RankError:
        """The time for a rank is up: it hangs, or waits for another that does."""
        seen = [peer]
        try:
            while True:
                key = f"{self._name}/waits/{seen[-1]}"
                said = b""
                if self._ask(lambda key=key: self._store.check([key])):
                    said = self._ask(lambda key=key: self._store.get(key))
                if not said or int(said) in (*seen, self._rank):
                    break
                seen.append(int(said))
        except _Silent:
            return self._without_store()
        return self._agreed(seen[-1], f"has not come within {seconds:g} s")

    def _agreed(self, rank: int, what: str) -> RankError:
        """What all are to say: this, if nobody has said anything before."""
        key, said = f"{self._name}/fault", f"{rank} {what}"
        try:
            return self._error(self._ask(lambda: self._store.compare_set(key, "", said)).decode())
        except _Silent:
            return self._error(said) if rank == self._rank else self._without_store()

    def _without_store(self) -> RankError:
        if _IS_KEPT_BY_TORCHRUN:
            return RankError(
                "parallel: the store where the ranks meet must answer; it does not. torchrun keeps "
                "it on the first host: start all again.",
                None,
            )
        return self._error("0 does not answer, and keeps the store where the ranks meet", 0)

    def _error(self, said: str, global_rank: int | None = None) -> RankError:
        number, _, what = said.partition(" ")
        rank = self._global_ranks[int(number)] if global_rank is None else global_rank
        self.found = RankError(
            f"parallel: rank {rank} {what}. Nothing of this call is whole; start all ranks again.",
            rank,
        )
        self._tell(f"knows/{self._rank}", "")
        if self._global_ranks[self._rank] == 0 and global_rank is None and not _IS_KEPT_BY_TORCHRUN:
            self._stay(int(number))
        return self.found

    def _stay(self, culprit: int) -> None:
        """This rank keeps the store: it does not go before all others have read what is there."""
        others = set(range(len(self._global_ranks))) - {culprit, self._rank}
        keys = [f"{self._name}/knows/{rank}" for rank in others]
        end = time.monotonic() + self.seconds
        with contextlib.suppress(_Silent):
            while time.monotonic() < end and not self._ask(lambda: self._store.check(keys)):
                time.sleep(0.05)

    def _tell(self, key: str, value: str) -> None:
        if time.monotonic() < self._silent_until:
            return
        with contextlib.suppress(_Silent):
            self._ask(lambda: self._store.set(f"{self._name}/{key}", value))

    def _ask(self, question: Callable[[], _T]) -> _T:
        """What the store answers; it may be on a host that hangs, too."""
        answers: list[_T] = []

        def ask() -> None:
            with contextlib.suppress(RuntimeError, OSError):
                answers.append(question())

        thread = threading.Thread(target=ask, daemon=True)
        thread.start()
        thread.join(_ANSWER)
        if not answers:
            self._silent_until = time.monotonic() + _PAUSE
            raise _Silent
        return answers[0]


class _Silent(Exception):
    """The store does not answer."""
