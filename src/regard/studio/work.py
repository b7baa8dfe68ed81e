"""Work for a request: so much at a time, and only as long as somebody waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

import anyio
import anyio.to_thread
from starlette.requests import Request

from regard._wanted import asking
from regard.studio.jobs import Full

T = TypeVar("T")


class Gone(Exception):
    """Nobody waits for the answer any more."""


class Line:
    """A few workers and those who wait for them, apart from the threads that serve pages.

    More than `waiting` requests in line are refused (Full). The work of a reader who has left ends
    where it asks `still_wanted`.
    """

    def __init__(self, at_once: int, waiting: int, closing: threading.Event) -> None:
        self._at_once, self._waiting = at_once, waiting
        self._closing = closing
        self._held = 0
        self._limiter: anyio.CapacityLimiter | None = None  # belongs to the loop of the server

    async def do(self, request: Request | None, work: Callable[..., T], *given: Any) -> T:
        """The result of work(*given), in another thread. Raises Full, and Gone.

        Without a request, it goes on though nobody waits for it.
        """
        if self._held >= self._at_once + self._waiting:
            raise Full("So much is being asked already. Wait for some of it, and ask again.")
        if self._limiter is None:
            self._limiter = anyio.CapacityLimiter(self._at_once)
        stop, found = threading.Event(), Future[T]()

        def check() -> None:
            if stop.is_set() or self._closing.is_set():
                raise Gone

        def attempt() -> None:
            found.set_running_or_notify_cancel()
            try:
                with asking(check):
                    check()
                    found.set_result(work(*given))
            except Exception as error:  # noqa: BLE001, as it is raised where it is waited for
                found.set_exception(error)

        async def leave(request: Request) -> None:
            while (await request.receive())["type"] != "http.disconnect":
                pass
            stop.set()
            if not found.running():  # else it keeps its place until it has heard of it
                group.cancel_scope.cancel()

        async def close() -> None:
            while not self._closing.is_set():
                await anyio.sleep(0.1)
            group.cancel_scope.cancel()

        self._held += 1
        try:
            async with anyio.create_task_group() as group:
                if request is not None:
                    group.start_soon(leave, request)
                group.start_soon(close)
                await anyio.to_thread.run_sync(
                    attempt, limiter=self._limiter, abandon_on_cancel=True
                )
                group.cancel_scope.cancel()
        finally:
            self._held -= 1
        if not found.done():
            raise Gone
        return found.result()
