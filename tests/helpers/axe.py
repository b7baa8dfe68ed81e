"""Whether everybody can use a page, as far as axe-core can tell."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest

__all__ = ["violations"]

_SCRIPT = Path(__file__).parents[2] / ".venv/typescript/node_modules/axe-core/axe.min.js"


def violations(page: Any) -> list[tuple[str, list[str]]]:
    """What axe-core finds wrong with the page that is shown: each rule, and the elements."""
    if not _SCRIPT.exists():
        reason = "axe-core is not installed, so nobody looked: make .venv/npm.stamp"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    if not page.evaluate("'axe' in window"):
        page.evaluate(_SCRIPT.read_text(encoding="utf-8"))
    found = page.evaluate("axe.run().then(({ violations }) => violations)")
    return [(each["id"], [node["html"] for node in each["nodes"]]) for each in found]
