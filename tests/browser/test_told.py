"""Everything that is drawn in lessons and experiments has a text that says what is seen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from helpers.browser_page import Opened

from regard.lab import LANGUAGES, run
from regard.learn import LESSONS, lesson
from regard.learn.course import document
from regard.view.html.lab import lab_page
from regard.view.html.lesson import lesson_page

OpenPage = Callable[..., Opened]

# Every picture of a page, in shadow roots, too, that is not hidden as a whole: its text, which is
# its own or that of the picture around it.
_PICTURES = """() => {
  const found = [];
  const look = (root) => {
    for (const each of root.querySelectorAll("*")) {
      if (each.shadowRoot) look(each.shadowRoot);
      if (!["svg", "canvas", "img"].includes(each.localName)) continue;
      const own = each.getAttribute("aria-label") ?? each.getAttribute("alt");
      found.push(own ?? each.closest("[role=img]")?.getAttribute("aria-label") ?? "");
    }
  };
  look(document);
  return found;
}"""


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_picture_of_the_lessons_says_what_it_shows(
    open_page: OpenPage, language: str
) -> None:
    seen: list[str] = []
    for name in LESSONS:
        page = lesson_page(document(lesson(name, language), {}, language))
        found = open_page(page).page.evaluate(_PICTURES)
        assert all(text.strip() for text in found), (name, found)
        seen += found
    assert len(seen) >= 8
    assert len(set(seen)) >= 8


@pytest.mark.parametrize("name", ["order", "roles"])
def test_every_chart_of_an_experiment_says_from_where_to_where(
    name: str, open_page: OpenPage
) -> None:
    found: dict[str, Any] = run(name, quick=True).document()
    texts = open_page(lab_page(found), address="#guess=-").page.evaluate(_PICTURES)
    expected = [
        text
        for chart in found["charts"]
        for text in (
            [f"{chart['title']}. {pane['told']}" for pane in chart["panes"]]
            if chart["kind"] == "maps"
            else [chart["told"]]
        )
    ]
    assert texts == expected
    assert len(set(texts)) == len(texts) > 0
