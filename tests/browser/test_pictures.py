"""The pictures of the README: made by a browser from pages of real models.

`make pictures` keeps them in docs/pictures; otherwise they are only made, and it is looked whether
they show anything.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from helpers.browser_page import Opened

import regard
from regard.view.html.lab import lab_page
from regard.view.html.run import run_page
from regard.view.html.trace import trace_page
from regard.worked import example

OpenPage = Callable[..., Opened]
ROOT = Path(__file__).parents[2]
TIRED = "The animal didn't cross the street because it was too tired."


@cache
def _tired() -> str:
    return _page(TIRED, ("q", "k", "hidden_states"))


@cache
def _readme() -> str:
    """The first words of the README, as many as MiniLM can read."""
    words = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8").split()
    return _page(" ".join(words[:260]), ("q", "k"))


def _page(text: str, keep: tuple[str, ...]) -> str:
    import torch

    loaded = regard.models.load("minilm")
    with (
        regard.watch(loaded.model, keep=keep, tokenizer=loaded.tokenizer, text=text) as run,
        torch.no_grad(),
    ):
        loaded.model(**loaded.inputs(text))
    run.model = "MiniLM"
    return run_page(run)


def _scaling() -> str:
    """Short where it is only looked whether there is a picture."""
    less: dict[str, Any] = (
        {} if os.environ.get("REGARD_PICTURES") else {"queries": 64, "steps": 10, "models": 3}
    )
    return lab_page(regard.lab.run("scaling", quick=True, **less).document())


def _steps() -> str:
    return trace_page(example("apple").trace())


PICTURES = {
    "page-flow": (_steps, "#token=2", 1280, 710),
    "page-steps": (_steps, "#view=steps&step=scores&cell=1,2", 1120, 480),
    "page-text": (_tired, "#layer=3&head=1&token=10", 1120, 500),
    "page-links": (_tired, "#view=heads&layer=3&least=0.2&token=10", 1120, 790),
    "page-model": (_tired, "#view=model&layer=3&head=1", 1120, 760),
    "page-atlas": (_readme, "#view=atlas&layer=1&head=4", 1120, 800),
    "page-lab": (_scaling, "#guess=grows", 1120, 1130),
    "page-shift": (_tired, "#view=shift&token=10", 1120, 900),
}


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_is_made_and_shows_something(
    name: str, open_page: OpenPage, tmp_path: Path
) -> None:
    make, address, width, height = PICTURES[name]
    opened = open_page(make(), address=address, width=width, height=height)
    opened.page.wait_for_timeout(300)
    keep = os.environ.get("REGARD_PICTURES")
    file = (ROOT / "docs" / "pictures" if keep else tmp_path) / f"{name}.png"
    opened.page.screenshot(path=file)
    assert file.stat().st_size > 25_000, "a picture of nothing has 5,000 bytes"
