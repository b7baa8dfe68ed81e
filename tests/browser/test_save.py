"""Saving a view from the page: what is shown, as SVG and as PNG."""

from __future__ import annotations

import struct
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree

import pytest
from helpers.browser_page import Opened
from helpers.made_runs import SENTENCES, made_run

from regard.view.html.run import run_page
from regard.view.html.trace import trace_page
from regard.worked import example

OpenPage = Callable[..., Opened]


def _saved(opened: Opened, kind: str) -> tuple[str, bytes]:
    with opened.page.expect_download() as download:
        opened.page.get_by_role("button", name=f"Save this view as {kind}").click()
    return download.value.suggested_filename, Path(download.value.path()).read_bytes()


@pytest.mark.parametrize("view", ["text", "heads", "model", "atlas", "shift"])
def test_a_view_is_saved_with_its_words(open_page: OpenPage, view: str) -> None:
    address = f"#view={view}&layer=1&head=2&token=5"
    opened = open_page(run_page(made_run(SENTENCES["hostile"])), address=address)
    name, svg = _saved(opened, "SVG")
    assert name == f"{view}-1-2.svg"
    text = "".join(ElementTree.fromstring(svg).itertext())
    if view in ("text", "heads", "shift"):
        assert "alert" in text
    assert b"<script" not in svg
    name, png = _saved(opened, "PNG")
    assert name == f"{view}-1-2.png"
    assert png.startswith(b"\x89PNG")
    width, height = struct.unpack(">II", png[16:24])
    assert width > 3000
    assert height > 300


def test_the_steps_are_saved(open_page: OpenPage) -> None:
    opened = open_page(
        trace_page(example("apple").trace()), address="#view=steps&step=scores&cell=1,2"
    )
    name, svg = _saved(opened, "SVG")
    assert name == "steps-scores.svg"
    assert "1.92" in "".join(ElementTree.fromstring(svg).itertext())


@pytest.mark.parametrize("dark", [False, True])
def test_a_saved_picture_has_the_colours_of_the_page(open_page: OpenPage, dark: bool) -> None:
    opened = open_page(run_page(made_run()), address="#layer=0&head=0&token=5", dark=dark)
    _, svg = _saved(opened, "SVG")
    assert (b"--page: #0d1117" in svg.replace(b"rgb(13, 17, 23)", b"--page: #0d1117")) is dark
