"""A browser for tests (Chromium, which may ask nothing of anybody), and a studio for it."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.browser_page import Opened
from helpers.made_runs import made_run

playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")

_ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    """Chromium. Where it is not installed the tests say so; in CI that is a failure."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        reason = "Chromium is not installed, so no page was looked at: apt-get install chromium"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    with playwright.sync_playwright() as driver:
        started = driver.chromium.launch(executable_path=found, args=_ARGUMENTS)
        yield started
        started.close()


@pytest.fixture
def open_page(browser: Any, tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    """Open the text of a page from a file. What it logs or requests in vain fails the test."""
    opened: list[Opened] = []

    def opener(html: str, **options: Any) -> Opened:
        opened.append(Opened(browser, html, tmp_path / f"page-{len(opened)}.html", **options))
        return opened[-1]

    yield opener
    for each in opened:
        each.close()


@pytest.fixture(scope="module")
def own_models() -> list[Path]:
    """Folders of models that the studio may read with; a module of tests may have its own."""
    return []


@pytest.fixture(scope="module")
def own_runs() -> list[Path]:
    """More folders of runs that the studio is started with; a module of tests may have its own."""
    return []


@pytest.fixture(scope="module")
def address(
    tmp_path_factory: pytest.TempPathFactory, own_models: list[Path], own_runs: list[Path]
) -> Iterator[str]:
    """Where a studio listens, with its token: `regard studio` itself, on a folder with two runs."""
    folder = tmp_path_factory.mktemp("studio")
    made_run().save(folder / "runs" / "one")
    made_run(seed=1).save(folder / "runs" / "two")
    runs = [str(folder / "runs"), *map(str, own_runs)]
    command = [sys.executable, "-m", "regard", "studio", *runs, "--no-browser"]
    command += [part for model in own_models for part in ("--model", str(model))]
    environment = {"REGARD_RUNS": str(folder / "store"), "PATH": "/usr/bin:/bin"}
    with subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **environment},
    ) as server:
        # It ends by itself, should the tests hang.
        watchdog = threading.Timer(300, server.kill)
        watchdog.start()
        try:
            assert server.stdout is not None
            lines: list[str] = []
            for line in server.stdout:
                lines.append(line)
                if found := re.search(r"http://\S+", line):
                    break
            else:
                raise AssertionError("".join(lines))
            yield found[0]
        finally:
            watchdog.cancel()
            server.terminate()
            server.wait(10)


@pytest.fixture
def visit(browser: Any, address: str) -> Iterator[Callable[..., Any]]:
    """Go to a page of the studio. What it logs, or requests elsewhere, fails the test."""
    opened: list[Any] = []
    problems: list[str] = []
    host = re.sub(r"/\?.*", "/", address)

    def heard(text: str) -> None:
        if "Failed to load resource" not in text:  # as the browser says of what was refused
            problems.append(text)

    def go(place: str = "", **options: Any) -> Any:
        context = browser.new_context(viewport={"width": 1200, "height": 800}, **options)
        page = context.new_page()
        page.on("pageerror", lambda error: problems.append(f"error: {error}"))
        page.on("console", lambda message: heard(message.text) if message.type == "error" else None)
        page.on(
            "request",
            lambda r: (
                None
                if r.url.startswith((host, host.replace("http", "ws"), "data:", "blob:"))
                else problems.append(f"request: {r.url}")
            ),
        )
        page.goto(address)
        page.goto(host + place)
        opened.append(context)
        return page

    yield go
    for context in opened:
        context.close()
    assert problems == []
