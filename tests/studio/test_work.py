"""Work for requests: so much at a time, and only as long as somebody waits for it."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from regard._wanted import still_wanted
from regard.studio.jobs import Full
from regard.studio.work import Gone, Line


class Reader:
    """A request whose reader leaves when told to."""

    def __init__(self) -> None:
        self.left = asyncio.Event()

    async def receive(self) -> dict[str, str]:
        await self.left.wait()
        return {"type": "http.disconnect"}


def until_nobody_waits(begun: threading.Event) -> None:
    begun.set()
    end = time.monotonic() + 20
    while time.monotonic() < end:
        still_wanted()
        time.sleep(0.01)
    pytest.fail("nobody said that it is over")


def do(line: Line, reader: Any, *work: Any) -> asyncio.Task[Any]:
    return asyncio.ensure_future(line.do(reader, *work))


def test_the_work_of_a_reader_who_leaves_ends() -> None:
    async def main() -> None:
        line, reader, begun = Line(1, 1, threading.Event()), Reader(), threading.Event()
        task = do(line, reader, until_nobody_waits, begun)
        waiting = Reader()
        second = do(line, waiting, pytest.fail, "it was begun")
        while not begun.is_set():
            await asyncio.sleep(0.01)
        waiting.left.set()  # one that has not begun, first
        with pytest.raises(Gone):
            await second
        reader.left.set()
        with pytest.raises(Gone):
            await task
        assert await line.do(Reader(), lambda: 7) == 7  # pyright: ignore[reportArgumentType]

    asyncio.run(main())


def test_what_goes_on_without_a_reader_is_done() -> None:
    assert asyncio.run(Line(1, 1, threading.Event()).do(None, lambda: 7)) == 7


def test_all_work_ends_when_the_studio_closes() -> None:
    async def main() -> None:
        closing, begun = threading.Event(), threading.Event()
        line, go_on = Line(2, 2, closing), threading.Event()
        tasks = [
            do(line, Reader(), until_nobody_waits, begun),
            do(line, Reader(), go_on.wait, 20),  # which asks nobody
            do(line, Reader(), pytest.fail, "it was begun"),
        ]
        while not begun.is_set():
            await asyncio.sleep(0.01)
        closing.set()
        for task in tasks:
            with pytest.raises(Gone):
                await task
        go_on.set()

    asyncio.run(main())


def test_so_much_is_done_at_a_time_and_more_than_may_wait_is_refused() -> None:
    async def main() -> None:
        line, go_on = Line(2, 3, threading.Event()), threading.Event()
        at_once, most, lock = 0, 0, threading.Lock()

        def work(number: int) -> int:
            nonlocal at_once, most
            with lock:
                at_once += 1
                most = max(most, at_once)
            assert go_on.wait(20)
            with lock:
                at_once -= 1
            return number

        tasks = [do(line, Reader(), work, number) for number in range(5)]
        await asyncio.sleep(0.1)
        with pytest.raises(Full):
            await line.do(Reader(), work, 5)  # pyright: ignore[reportArgumentType]
        go_on.set()
        assert await asyncio.gather(*tasks) == [0, 1, 2, 3, 4]
        assert most == 2
        assert await line.do(Reader(), work, 6) == 6  # pyright: ignore[reportArgumentType]

    asyncio.run(main())


def test_what_went_wrong_is_raised_where_it_is_waited_for() -> None:
    def work() -> None:
        raise ValueError("no such place")

    async def main() -> None:
        with pytest.raises(ValueError, match="no such place"):
            await Line(1, 1, threading.Event()).do(Reader(), work)  # pyright: ignore[reportArgumentType]

    asyncio.run(main())
