"""A studio in a process of its own, as `regard studio` starts it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Generator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

__all__ = ["Studio", "studio"]


class Studio:
    """Its process, and questions as its own pages ask them."""

    def __init__(self, process: subprocess.Popen[str], address: str, store: Path) -> None:
        self.process = process
        self.store = store
        found = re.fullmatch(r"http://(127\.0\.0\.1:(\d+))(/\?token=\S+)", address)
        assert found is not None
        self.host, self.port = found[1], int(found[2])
        self.begun: list[HTTPConnection] = []
        self.cookie = ""
        with contextlib.closing(self.begin("GET", found[3])) as entering:
            entered = entering.getresponse()
            assert entered.status == 303
            self.cookie = (entered.headers["set-cookie"] or "").partition(";")[0]

    def begin(self, method: str, path: str, body: object = None) -> HTTPConnection:
        """A question whose answer nobody has waited for yet."""
        connection = HTTPConnection(self.host, timeout=60)
        headers = {"origin": f"http://{self.host}", "cookie": self.cookie}
        content = None
        if body is not None:
            headers["content-type"] = "application/json"
            content = json.dumps(body)
        connection.request(method, path, content, headers)
        self.begun.append(connection)
        return connection

    def send(self, method: str, path: str, body: object = None) -> tuple[int, bytes]:
        """The status and the content of an answer."""
        with contextlib.closing(self.begin(method, path, body)) as connection:
            answer = connection.getresponse()
            return answer.status, answer.read()

    def ask(self, path: str, body: object = None) -> Any:
        """An answer as JSON."""
        return json.loads(self.send("GET" if body is None else "POST", path, body)[1])

    def wait_for(self, job: str, *states: str, seconds: float = 30) -> dict[str, Any]:
        """A job, once it is in one of these states."""
        end = time.monotonic() + seconds
        while (found := self.ask(f"/api/jobs/{job}"))["state"] not in states:
            assert time.monotonic() < end, found
            time.sleep(0.05)
        return found

    def end(self, signal: int) -> tuple[int, str]:
        """The exit code, and what was said on the way. What it was busy with takes minutes."""
        self.process.send_signal(signal)
        said, _ = self.process.communicate(timeout=30)
        return self.process.returncode, said

    def children(self) -> list[int]:
        """The processes that it has started, and that live."""
        file = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")
        found = set(map(int, file.read_text().split()))
        for task in Path(f"/proc/{self.process.pid}/task").iterdir():
            with contextlib.suppress(OSError):
                found |= set(map(int, (task / "children").read_text().split()))
        return sorted(found)


@contextlib.contextmanager
def studio(*arguments: str) -> Generator[Studio]:
    """One that listens. It ends by itself, should a test hang."""
    with tempfile.TemporaryDirectory() as store:
        command = [sys.executable, "-m", "regard", "studio", *arguments, "--no-browser"]
        with subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            env={**os.environ, "REGARD_RUNS": store},
        ) as process:
            watchdog = threading.Timer(120, process.kill)
            watchdog.start()
            try:
                assert process.stdout is not None
                said = ""
                while not (found := re.search(r"http://\S+", said)):
                    line = process.stdout.readline()
                    assert line, said
                    said += line
                process.stdout.readline()
                process.stdout.readline()
                server = Studio(process, found[0], Path(store))
                try:
                    yield server
                finally:
                    for connection in server.begun:
                        connection.close()
            finally:
                watchdog.cancel()
                process.kill()
