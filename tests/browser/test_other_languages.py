"""Korean and Bengali pages say nothing in English but names, symbols and tokens."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from helpers.browser_page import Opened
from helpers.foreign_words import LISTEN, authored, foreign, pieces, said
from helpers.made_runs import ENGLISH, SENTENCES, made_run

from regard.lab import experiment, run
from regard.lab.said import words
from regard.learn import LESSONS, lesson
from regard.learn.course import document
from regard.models.fetch import fetch
from regard.view.html.lab import lab_page
from regard.view.html.lesson import lesson_page
from regard.written.names import SYMBOLS

OpenPage = Callable[..., Opened]
Visit = Callable[..., Any]

# Names, units and symbols; and the tokens of the examples.
_ALLOWED = """
    Regard MiniLM SmolLM SmolLM2 LSTM RNN ALiBi LayerNorm RMSNorm PyTorch English
    SQL SVG PNG PDF kB MB softmax sin cos sinusoidal
    I love apple phones The cat sat Write poem word
"""
ALLOWED = _ALLOWED.split()
_VERSIONS = "python regard numpy torch transformers cpu"
_RUNS = "one two three made up"  # runs of the studio, and what their model is called
_WRONG = """X = [[1, 0], [0, 1], [1, 1]]
W_Q = [[1, 2], [0, 1]]
W_K = [[1, 0], [1, 1]]
q_the = [1, 2]
q_cat = [0, 1]
q_sat = [1, 3]
K = [[1, 0], [1, 1], [2, 5]]
By hand: 3·1 + 2·(−1) + 4·2 = 10.
Another one
[[1, 2], [3, 4]]
"""
# What is explained, and at which steps.
_TEN = "input query key value scores scaled weights head_output concatenated output"
_PASSES = {
    "example=apple": _TEN,
    "example=given": "weights",
    "text=I love apple phones&numbers=random&positions=sinusoidal": "input output",
}


def _strings(value: Any) -> Iterable[str]:
    """Every text of a document."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict | list):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _strings(each)


def _lab(language: str) -> list[str]:
    """What the lab says in a language."""
    return pieces(
        part for text in words(language).values() for part in re.split(r"\{[^}]*\}", text)
    )


LANGUAGES = pytest.mark.parametrize("language", ["ko", "bn"])


@pytest.fixture(scope="module")
def own_runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """A run of another text."""
    folder = tmp_path_factory.mktemp("runs") / "three"
    made_run(SENTENCES["Korean"]).save(folder)
    return [folder]


def _listening(visit: Visit, language: str) -> Any:
    """A page of the studio for a reader of this language, whose canvases are listened to."""
    page = visit("#page=learn", locale=f"{language}-XX")
    page.add_init_script(LISTEN)
    page.reload()
    page.locator("h1").wait_for()
    return page


def _all_said(page: Any, places: Iterable[str], pause: int = 100) -> set[str]:
    """What is said at each of these places, once it stands still."""
    texts: set[str] = set()
    for place in places:
        page.evaluate("place => { location.hash = place; }", place)
        page.wait_for_timeout(pause)
        texts |= said(page)
    return texts


@LANGUAGES
def test_a_lesson_says_nothing_in_english(open_page: OpenPage, language: str) -> None:
    found: dict[str, str] = {}
    for name in LESSONS:
        read = lesson(name, language)
        page = open_page(lesson_page(document(read, {}, language)), script=LISTEN).page
        # What the lesson itself says is its author's; experiments are called by their names.
        own = pieces(_strings(list(read.blocks)))
        texts = {text for text in said(page) if text not in own}
        allowed = [*ALLOWED, *read.uses("lab", "experiment")]
        found |= foreign(texts, authored(language), allowed)
    assert found == {}


@LANGUAGES
def test_an_experiment_says_nothing_in_english(open_page: OpenPage, language: str) -> None:
    found = run("order", quick=True, shuffles=3).document(language)
    page = open_page(lab_page(found), address="#guess=-", script=LISTEN).page
    allowed = [*ALLOWED, *found["settings"]["sentence"].split(), *_VERSIONS.split()]
    assert foreign(said(page), [*authored(language), *_lab(language)], allowed) == {}


@LANGUAGES
def test_the_pages_of_the_studio_say_nothing_in_english(visit: Visit, language: str) -> None:
    page = _listening(visit, language)
    places = ["lab", "lab&experiment=order", "see", "runs", "check"]
    texts = _all_said(page, [f"page={place}" for place in places], 500)
    own = [*authored(language), *_lab(language)]
    order = next(each for each in experiment("order").settings if each.name == "sentence")
    tokens = f"{ENGLISH.strip('.')} {order.default}".split()
    assert foreign(texts, own, [*ALLOWED, *_RUNS.split(), *tokens]) == {}


@LANGUAGES
def test_a_pass_and_its_steps_say_nothing_in_english(visit: Visit, language: str) -> None:
    page = _listening(visit, language)
    own = authored(language)
    for example, steps in _PASSES.items():
        begin = f"page=explain&{example}"
        _all_said(page, [begin], 600)
        places = [
            f"{begin}&view={view}&step={step}&cell=0,0"
            for step in steps.split()
            for view in ("flow", "steps")
        ]
        assert foreign(_all_said(page, places), own, ALLOWED) == {}


def test_a_pass_of_a_model_says_nothing_in_english(visit: Visit) -> None:
    fetch("minilm")
    page = _listening(visit, "ko")
    begin = "page=explain&text=I love apple phones&numbers=minilm"
    page.evaluate("place => { location.hash = place; }", begin)
    page.get_by_role("button", name="[SEP]").first.wait_for()
    step = "encoder.layers.1."
    parts = ("attention.query", "attention.weights", "attention.residual", "feed_forward.activated")
    places = [f"{begin}&step={step}{part}&cell=1,1" for part in parts]
    places += [f"{begin}&view=steps&step={step}attention.{part}" for part in ("input", "scores")]
    places += [f"{begin}&step=embedding.{part}&cell=1,0" for part in ("ids", "tokens", "output")]
    texts = _all_said(page, places, 500)
    assert foreign(texts, authored("ko"), [*ALLOWED, "CLS", "SEP"]) == {}
    assert {"나눈 점수", "층 1"} <= texts


def test_a_run_says_nothing_in_english(visit: Visit) -> None:
    page = _listening(visit, "bn")
    page.evaluate("location.hash = 'page=runs'")
    page.locator("main td a").first.click()
    page.locator("regard-text .token, regard-text span").first.wait_for()
    begin = page.evaluate("location.hash.slice(1)")
    views = ("text", "links", "heads", "atlas", "movement", "flow", "steps")
    places = [f"{begin}&layer=1&head=2&token=3&view={view}" for view in views]
    texts = _all_said(page, places, 500)
    allowed = [*ALLOWED, *_RUNS.split(), *ENGLISH.strip(".").split()]
    assert foreign(texts, authored("bn"), allowed) == {}


def test_what_check_finds_is_said_to_be_english_where_it_is(visit: Visit) -> None:
    page = _listening(visit, "ko")
    page.evaluate("location.hash = 'page=check'")
    page.locator("textarea").fill(_WRONG)
    page.locator("button.main").click()
    page.wait_for_selector(".beside")
    allowed = [*ALLOWED, *re.findall(r"[A-Za-z]+", f"{_WRONG} {SYMBOLS}")]
    assert foreign(said(page), authored("ko"), allowed) == {}


def test_of_how_many_numbers_some_are_wrong_is_grammatical(visit: Visit) -> None:
    page = _listening(visit, "bn")
    page.evaluate("location.hash = 'page=check'")
    page.locator("textarea").fill(
        "X = [[1, 0], [0, 1]]\nW_Q = [[1, 2], [0, 1]]\nQ = [[1, 2], [0, 4]]"
    )
    page.locator("button.main").click()
    page.get_by_text("4টি যাচাই করা সংখ্যার মধ্যে 1টি ভুল।").wait_for()


def test_an_error_of_python_is_said_to_be_english(visit: Visit) -> None:
    page = _listening(visit, "bn")
    page.evaluate("location.hash = 'page=see'")
    page.locator("textarea").fill(" ")
    page.locator("button.main").click()
    page.locator("[role=alert] [lang=en]").wait_for()


def test_where_a_word_begins_is_said_in_the_language_of_the_page(visit: Visit) -> None:
    page = _listening(visit, "ko")
    stages = page.evaluate(
        "async () => (await import('/web/shift_numbers.js')).stagesOf(['embedding', '0 attention'])"
    )
    assert [each["title"] for each in stages] == ["임베딩", "층 0, 어텐션"]


def test_dates_have_the_digits_of_all_other_numbers(visit: Visit) -> None:
    page = _listening(visit, "bn")
    page.evaluate("location.hash = 'page=runs'")
    page.locator("table.runs tbody tr").first.wait_for()
    text = page.locator("table.runs").inner_text()
    assert re.search(r"\d{1,2}/\d{1,2}/20\d\d", text)
    assert re.search("[০-৯]", text) is None


def test_a_file_is_opened_by_a_button_in_the_language_of_the_page(visit: Visit) -> None:
    page = _listening(visit, "bn")
    page.evaluate("location.hash = 'page=see'")
    # A browser labels its own button in the language of the browser.
    page.get_by_role("button", name="একটি লেখার ফাইল খুলুন").wait_for()
    assert not page.locator("input[type=file]").is_visible()
    with page.expect_file_chooser() as opened:
        page.get_by_role("button", name="একটি লেখার ফাইল খুলুন").click()
    opened.value.set_files({"name": "a.txt", "mimeType": "text/plain", "buffer": b"one cat"})
    page.get_by_text("2টি শব্দ").wait_for()
    assert page.locator("textarea").input_value() == "one cat"


def test_a_bengali_sentence_ends_as_bengali_does(visit: Visit) -> None:
    page = _listening(visit, "bn")
    page.evaluate("location.hash = 'page=runs'")
    page.locator("main td a").first.click()
    page.locator("regard-text").wait_for()
    page.evaluate("location.hash += '&view=model&head=0'")
    told = page.locator("regard-model .card .words p").last
    told.wait_for()
    assert told.inner_text().endswith("।")


@LANGUAGES
def test_runs_of_other_texts_are_not_compared_word_by_word(
    visit: Visit, own_runs: list[Path], language: str
) -> None:
    page = _listening(visit, language)
    page.evaluate("location.hash = 'page=runs'")
    for name in ("one", own_runs[0].name):
        row = page.locator("table.runs tbody tr").filter(has=page.get_by_text(name, exact=True))
        row.get_by_role("checkbox").check()
    page.locator("main button").first.click()
    page.locator("h2").nth(2).wait_for()
    page.wait_for_timeout(300)
    assert page.locator("[lang=en]").count() == 1  # of the menu of languages
    assert page.locator("main > h2").count() == 1
    tokens = " ".join([ENGLISH.strip("."), own_runs[0].name]).split()
    assert foreign(said(page), authored(language), [*ALLOWED, *_RUNS.split(), *tokens]) == {}
