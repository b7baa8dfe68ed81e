"""A browser for tests: Debian's Chromium, which may not ask for anything from anywhere."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from helpers.browser_page import Opened

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
