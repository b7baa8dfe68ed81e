"""The page of an answer's sources: a click on a sentence lights up what it came from."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from helpers.axe import violations
from helpers.browser_page import Opened

from regard.ask import Blocked, Sentence, Source, Sources
from regard.ask._sources import Head
from regard.view.html.sources import sources_page

OpenPage = Callable[..., Opened]
TEXT = "A cat 🐈 <b>purrs</b>.\n\nA dog barks. Who? The cat purrs. The dog barks."


@pytest.fixture
def found() -> Sources:
    first, second = TEXT.index("The cat"), TEXT.index("The dog")
    dog = TEXT.index("A dog")
    sources = [Source("cat.txt", 0, dog - 2, 11), Source("dog.txt", dog, dog + 12, 7)]
    cause = Blocked(0, 3.25, 7, 8, 3.0, 0.5, 1.5, 3.5)
    none = Blocked(1, 0.75, 7, 8, 0.75, 0.5, -0.5, 1.0)
    heads = (Head(3, 1, 0.625),)
    rows = [
        Sentence("The cat purrs.", first, first + 14, 5, -2.5, [0.8, 0.2], 0.4, heads, (cause,)),
        Sentence("The dog barks.", second, second + 14, 5, -4.5, [0.3, 0.7], 0.4, heads, (none,)),
    ]
    return Sources("small", TEXT, (first, len(TEXT)), sources, rows)


def _lit(page: Any) -> list[tuple[str, str]]:
    """The sources as they are shown: their texts and colours."""
    return page.evaluate(
        "[...document.querySelector('regard-sources').shadowRoot.querySelectorAll('mark')]"
        ".map(each => [each.textContent, each.style.backgroundColor])"
    )


def test_a_click_on_a_sentence_lights_up_what_it_came_from(
    open_page: OpenPage, found: Sources
) -> None:
    page = open_page(sources_page(found)).page
    page.get_by_text("“cat.txt” is a cause.").wait_for()
    texts = [TEXT[each.start : each.end] for each in found.sources]
    before = _lit(page)
    assert [text for text, _ in before] == texts
    assert page.get_by_text("Without “cat.txt” the sentence loses 3.25 nats").count() == 1
    assert page.get_by_text("8 × 7 tokens of it cost 3.00 on average").count() == 1
    page.get_by_role("button", name="The dog barks.").click()
    page.get_by_text("and not shown to be a cause").wait_for()
    after = _lit(page)
    assert [text for text, _ in after] == texts
    assert before[0][1] != after[0][1]
    assert before[1][1] != after[1][1]
    assert page.get_by_text("8 × 7 tokens elsewhere cost 0.50 on average").count() == 1
    assert page.get_by_text("70 %").count() == 1
    assert page.get_by_text("3.1 (0.63)").count() + page.get_by_text("3.1 (0.62)").count() == 1
    assert "sentence=2" in page.url
    page.keyboard.press("Shift+Tab")
    page.keyboard.press("Enter")
    page.get_by_text("“cat.txt” is a cause.").wait_for()
    assert _lit(page) == before


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_is_for_everybody_in_every_language(
    open_page: OpenPage, found: Sources, theme: str
) -> None:
    for language, said in (("en", "is a cause"), ("ko", "원인입니다"), ("bn", "একটি কারণ")):
        page = open_page(sources_page(found, language), address=f"#theme={theme}", width=400).page
        page.get_by_text(said).first.wait_for()
        assert violations(page) == []
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
