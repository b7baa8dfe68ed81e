"""<regard-steps> with an attention of a model: biases, turned queries, another sequence, ALiBi."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from helpers.browser_page import Opened
from helpers.traced_models import traced

from regard import Trace
from regard.view.html.trace import trace_page
from regard.worked import example

OpenPage = Callable[..., Opened]


@pytest.fixture
def open_page(open_page: OpenPage) -> OpenPage:
    """Pages on their steps, not on the whole pass."""

    def opener(html: str, address: str = "", **options: Any) -> Opened:
        return open_page(html, address=f"#view=steps{address.replace('#', '&')}", **options)

    return opener


NAMES = [
    *("one head, causal", "scaled otherwise", "heads", "heads without bias", "grouped", "cross"),
    *("slices", "low-rank value", "rotary halves", "rotary neighbours, some", "ALiBi"),
    *("relative bias", "window"),
]


def test_every_line_is_that_of_python_letter_by_letter(open_page: OpenPage) -> None:
    opened = open_page(trace_page(example("cat").trace()))
    made = [traced(name).attention() for name in NAMES]
    cells = [
        [
            (name, int(i), int(j), int(h))
            for name, step in each.steps.items()
            for h, i, j in np.ndindex((step.array if step.has_heads else step.array[None]).shape)
        ][::3]
        for each in made
    ]
    found = opened.ask(
        """values[0].map((source, n) => {
            element.source = source;
            return values[1][n].map((cell) => element.explain(...cell));
        })""",
        [json.loads(each.to_json()) for each in made],
        cells,
    )
    for each, asked, lines in zip(made, cells, found, strict=True):
        assert lines == [str(each.explain(*place)) for place in asked]


def shown(opened: Opened, step: str) -> list[str]:
    """The captions of the matrices that a step is shown to be made from."""
    opened.page.locator(f"regard-steps #tab-{step}").click()
    opened.settle()
    figures = opened.page.locator("regard-steps .made figure").all()
    return [" ".join(str(each.locator("figcaption").text_content()).split()) for each in figures]


@pytest.mark.parametrize(
    ("name", "step", "symbols"),
    [
        ("heads", "query", ["X", "W_Q", "b_Q"]),
        ("heads", "output", ["C", "W_O", "b_O"]),
        ("heads without bias", "value", ["X", "W_V"]),
        ("cross", "query", ["X", "W_Q", "b_Q"]),
        ("cross", "key", ["Y", "W_K", "b_K"]),
        ("low-rank value", "value", ["X V_down", "V_up", "b_V"]),
        ("rotary halves", "query", ["Q before it is turned"]),
        ("ALiBi", "scaled", ["S", "B"]),
    ],
)
def test_what_a_step_is_made_from_stands_beside_it(
    open_page: OpenPage, name: str, step: str, symbols: list[str]
) -> None:
    made: Trace = traced(name).attention()
    captions: Any = shown(open_page(trace_page(made)), step)
    assert len(captions) == len(symbols)
    for caption, symbol in zip(captions, symbols, strict=True):
        assert symbol.replace("_", "") in caption
