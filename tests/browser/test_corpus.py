"""The page of a corpus: the grid, the distribution and the texts are what Python says."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from helpers.axe import violations
from helpers.browser_page import Opened
from helpers.small_corpus import made, model_folder, paragraphs, sentences

from regard.corpus import Corpus, load_corpus
from regard.corpus.document import document_of
from regard.view.html.corpus import corpus_page

OpenPage = Callable[..., Opened]
TEXTS = [*sentences(19), "apple " * 12, "<b>i</b> love </script>"]


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    place = tmp_path_factory.mktemp("page")
    model_folder(place)
    paragraphs(place / "texts.txt", TEXTS)
    return load_corpus(made(place))


def _read(page: Any, script: str) -> Any:
    return page.evaluate(f"(root => {script})(document.querySelector('regard-corpus').shadowRoot)")


def test_the_page_has_the_means_of_all_heads_and_the_texts_that_show_most(
    open_page: OpenPage, corpus: Corpus
) -> None:
    page = open_page(corpus_page(document_of(corpus, 5)), address="#by=distance").page
    page.get_by_role("heading", name="the 5 texts in which it is largest").wait_for()
    assert page.get_by_text("21 texts, of which model has read 20").count() == 1
    assert page.get_by_text("1 too long").count() == 1
    cells = _read(page, "[...root.querySelectorAll('td button')].map(each => each.textContent)")
    means = [corpus.sketch(layer, head, "distance").mean for layer in range(2) for head in range(3)]
    assert [float(cell) for cell in cells] == pytest.approx(means, abs=0.006)
    best = max(range(6), key=lambda n: means[n] or 0)
    assert page.get_by_role("heading", name=f"Layer {best // 3}, head {best % 3}").count() == 1
    page.get_by_role("button", name="Layer 1, head 2: distance").click()
    page.get_by_role("heading", name="Layer 1, head 2").wait_for()
    rows = corpus.most(1, 2, "distance", 5).to_pylist()
    shown = _read(page, "[...root.querySelectorAll('ol li')].map(each => each.innerText)")
    for text, row in zip(shown, rows, strict=True):
        assert row["beginning"] in text
        assert f"{row['query_token']} → {row['key_token']} {row['weight']:.2f}" in text
        assert f"text {row['text']} · {row['source']}:{row['position']}" in text
    assert "layer=1&head=2" in page.url
    page.keyboard.press("ArrowUp")
    page.get_by_role("heading", name="Layer 0, head 2").wait_for()
    page.get_by_role("button", name="first token", exact=True).click()
    page.get_by_role("heading", name="first token: the 5 texts").wait_for()
    heights = _read(
        page, "[...root.querySelectorAll('figure rect')].map(x => x.height.baseVal.value)"
    )
    shares = document_of(corpus, 5)["bars"]["first"][0][2]
    largest = max(heights)
    assert [h / largest for h in heights] == pytest.approx(
        [s / max(shares) for s in shares], abs=1e-3
    )


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_page_is_for_everybody_in_every_language(
    open_page: OpenPage, corpus: Corpus, theme: str, tmp_path: Path
) -> None:
    for language, said in (("en", "Heads by"), ("ko", "헤드의 기준"), ("bn", "পড়া হয়নি")):
        corpus.html(tmp_path / "page.html", n=3, language=language)
        html = (tmp_path / "page.html").read_text(encoding="utf-8")
        page = open_page(html, address=f"#theme={theme}&by=induction").page
        page.get_by_text(said).first.wait_for()
        assert violations(page) == []


def test_a_telephone_shows_all_of_it(open_page: OpenPage, corpus: Corpus) -> None:
    page = open_page(corpus_page(document_of(corpus, 3)), width=380, height=700).page
    page.get_by_role("heading", name="the 3 texts").wait_for()
    assert page.evaluate("document.documentElement.scrollWidth") <= 380
    assert _read(page, "root.querySelector('thead th').textContent") == "layer \\ head"
