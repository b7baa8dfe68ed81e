"""The picture of a trace: one SVG file that needs nothing but itself."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest
from rich.text import Text

from regard import trace
from regard.view import picture, render
from regard.worked import example

SVG = "{http://www.w3.org/2000/svg}"


def picture_of(text: str) -> str:
    return picture(render(trace(text), 80), 80, f"regard explain {text}")


@pytest.mark.parametrize(
    "text", ["나는 사과를 사랑한다", "আমি আপেল", "a < b & c > d \"e\" 'f'", "👍🏽 ok"]
)
def test_it_is_well_formed_and_contains_the_tokens(text: str) -> None:
    root = ElementTree.fromstring(picture_of(text))
    written = [element.text for element in root.iter(f"{SVG}text")]
    assert root.find(f"{SVG}title") is not None
    for token in trace(text).tokens:
        assert token in written


def test_nothing_is_fetched_from_anywhere() -> None:
    svg = picture_of("I love apple phones")
    assert re.findall(r"https?:[^\"' ]*", svg) == ["http://www.w3.org/2000/svg"]
    for word in ("url(", "@import", "@font-face", "href", "<script", "<image", "<foreignObject"):
        assert word not in svg


def test_hostile_text_is_harmless_in_it() -> None:
    svg = picture([Text("</text><script>")], 80, "regard explain '\x1b[31m</title>\ufffe'")
    root = ElementTree.fromstring(svg)
    assert {element.tag.removeprefix(SVG) for element in root.iter()} <= {
        "svg",
        "title",
        "style",
        "rect",
        "text",
    }


def test_text_stands_in_its_cell_and_shades_behind_it() -> None:
    svg = picture(render(example("apple").trace(), 80, steps=["weights"]), 80, "regard explain")
    root = ElementTree.fromstring(svg)
    rows = [e for e in root.iter(f"{SVG}text") if e.text in ("0.2596", "0.2361", "0.2536")]
    first = [e for e in rows if e.get("x") == min(rows, key=x_of).get("x")]
    assert [e.text for e in first] == ["0.2596", "0.2361", "0.2536"]
    assert all(e.get("textLength") == "50.4" for e in first)  # six cells of 8.4
    shades = [e for e in root.iter(f"{SVG}rect") if (e.get("fill") or "").startswith("#")]
    assert sum(float(e.get("width") or 0) for e in shades) == pytest.approx(16 * 8 * 8.4, abs=1)
    assert len(shades) > 8
    assert x_of(first[0]) == pytest.approx(min(map(x_of, shades)) + 8.4, abs=0.1)


def x_of(element: ElementTree.Element) -> float:
    return float(element.get("x") or 0)


def test_all_text_lies_inside_the_page() -> None:
    root = ElementTree.fromstring(picture_of("나는 " + "가" * 100 + " আমি " + "x" * 200))
    width = float(root.get("width") or 0)
    for element in root.iter(f"{SVG}text"):
        assert x_of(element) + float(element.get("textLength") or 0) <= width


def test_light_and_dark_follow_the_reader() -> None:
    svg = picture_of("a b")
    light, _, dark = svg.partition("prefers-color-scheme: dark")
    assert "text { fill: #1f2328; }" in light  # also for what knows no queries of the system
    assert "text { fill: #e6edf3; }" in dark


def test_bold_titles_and_dim_remarks_keep_their_style() -> None:
    svg = picture([Text("title", "bold"), Text("remark", "dim")], 80, "regard")
    assert re.search(r'class="bold"[^>]*>title<', svg)
    assert re.search(r'class="dim"[^>]*>remark<', svg)
