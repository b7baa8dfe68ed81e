"""<regard-lens>: what is expected after each layer, and where a logit comes from, as in Python."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from helpers.asked_models import TEXT, loaded_of, small
from helpers.axe import violations
from helpers.browser_page import Opened

from regard.run import Run
from regard.view.html.page import page as page_of
from regard.view.html.run import run_page
from regard.view.why import part_name

OpenPage = Callable[..., Opened]
AT = "#view=lens"


@pytest.fixture(scope="module")
def llama() -> Run:
    return loaded_of(small("llama")).see(TEXT)


@pytest.fixture(scope="module")
def page(llama: Run) -> str:
    return run_page(llama, lens=True, why=llama.why(-1, "love", "phones", ablate=3))


def rows(opened: Opened, selector: str) -> list[list[str]]:
    return opened.page.locator(f"regard-lens {selector}").evaluate_all(
        "(all) => all.map((one) => [...one.children].map((each) => each.textContent))"
    )


def five(opened: Opened) -> list[list[str]]:
    return [[row[0], row[2]] for row in rows(opened, ".five li")]


def cell(opened: Opened, layer: int, place: int) -> Any:
    row = opened.page.locator("regard-lens .grid tbody tr").nth(layer)
    return row.locator("td").nth(place)


def test_under_each_word_stands_what_python_says_of_each_layer(
    open_page: OpenPage, llama: Run, page: str
) -> None:
    opened = open_page(page, address=AT)
    expected = llama.lens()
    found = rows(opened, ".grid tbody tr")
    assert [row[0] for row in found] == ["0", "1", "2"]
    for of, row in zip(expected, found, strict=True):
        assert row[1:] == [each[0].token.strip() for each in of]
    names = [token.label for token in (llama.tokens or [[]])[0]]
    assert rows(opened, ".grid thead tr")[0][1:] == names
    last = [[each.token.strip(), f"{each.probability:.4f}"] for each in expected[2][4]]
    assert five(opened) == last  # unless a place is chosen, what comes after the text
    cell(opened, 1, 3).hover()
    assert five(opened) == [
        [each.token.strip(), f"{each.probability:.4f}"] for each in expected[1][3]
    ]
    heading = opened.page.locator("regard-lens .five h2").text_content()
    assert heading == f"After “{names[3]}”, read off after layer 1"
    bold = opened.page.locator("regard-lens .grid td.end").count()
    ends = sum(of[n][0].id == expected[2][n][0].id for of in expected for n in range(5))
    assert bold == ends


def test_no_token_is_an_empty_cell(open_page: OpenPage, page: str) -> None:
    opened = open_page(page, address=AT)
    shown = opened.ask(
        """{
            const found = await element.source.lens();
            const spaces = ["\\u00a0", "\\u2003", "\\u3000", "\\u202f", "\\u00ad", " ", "\\n"];
            const changed = found.map((of, n) => of.map((all, k) =>
                n === 0 && k < spaces.length ? [[spaces[k], 0.5], ...all.slice(1)] : all));
            const { info } = element.source;
            const other = document.createElement("regard-lens");
            other.source = { info, lens: async () => changed };
            other.state = element.state;
            document.querySelector("main").append(other);
            const drawn = () => other.root.querySelector("td") !== null;
            while (!drawn()) await new Promise(requestAnimationFrame);
            const [row] = other.root.querySelectorAll(".grid tbody tr");
            return [...row.querySelectorAll("td")].map((each) => each.textContent);
        }"""
    )
    assert shown[:4] == ["·"] * 4


def test_what_is_told_of_is_in_sight(open_page: OpenPage, page: str) -> None:
    # As low and narrow as a long text of many layers makes it.
    opened = open_page(page, address=AT, width=400, height=120)
    box, cell = (
        opened.page.locator(f"regard-lens {each}").bounding_box()
        for each in (".box", "td[aria-selected=true]")
    )
    assert box is not None
    assert cell is not None
    assert opened.page.evaluate(
        """() => {
            const box = document.querySelector("regard-lens").root.querySelector(".box");
            return box.scrollHeight > box.clientHeight;
        }"""
    )
    assert box["y"] <= cell["y"]
    assert cell["y"] + cell["height"] <= box["y"] + box["height"]
    assert cell["x"] + cell["width"] <= box["x"] + box["width"]


def test_keys_alone_go_from_cell_to_cell(open_page: OpenPage, llama: Run, page: str) -> None:
    opened = open_page(page, address=AT)
    expected = llama.lens()
    opened.page.locator('regard-lens .grid td[tabindex="0"]').focus()
    for key, layer, place in (
        ("ArrowUp", 1, 4),
        ("ArrowLeft", 1, 3),
        ("Home", 1, 0),
        ("ArrowLeft", 1, 0),
        ("PageUp", 0, 0),
        ("ArrowRight", 0, 1),
    ):
        opened.page.keyboard.press(key)
        opened.settle()
        assert [each[0] for each in five(opened)] == [
            each.token.strip() for each in expected[layer][place]
        ]
        focused = opened.page.evaluate(
            "() => document.querySelector('regard-lens').root.activeElement.textContent"
        )
        assert focused == expected[layer][place][0].token.strip()
    assert opened.state() == {"view": "lens", "token": "1"}


def test_where_a_logit_comes_from_has_pythons_numbers(
    open_page: OpenPage, llama: Run, page: str
) -> None:
    opened = open_page(page, address=AT)
    why = llama.why(-1, "love", "phones", ablate=3)

    def two(x: float) -> str:
        return f"{x:+.2f}".replace("-", "−")

    assert [row[1:] for row in rows(opened, ".heads tbody tr")] == [
        [two(share) for share in shares] for shares in why.heads
    ]
    parts = why.parts[:12]
    assert [row[:2] for row in rows(opened, ".bars li")] == [
        [part_name(part), two(part.share)] for part in parts
    ]
    assert [row[:3] for row in rows(opened, ".lost tbody tr")] == [
        [f"{each.layer}.{each.head}", two(each.share), two(each.lost)] for each in why.ablated
    ]
    said = opened.page.locator("regard-lens .shares h2").text_content()
    assert said == "Why “love” rather than “phones” after “.”"
    assert f"together {two(why.total)}" in str(
        opened.page.locator("regard-lens .shares .top").first.text_content()
    )


def test_a_page_has_the_view_only_if_it_was_asked_for(open_page: OpenPage, llama: Run) -> None:
    opened = open_page(run_page(llama))
    assert opened.page.locator("#tab-lens").count() == 0
    opened = open_page(run_page(llama, why=llama.why(-1, "love", ablate=0)), address=AT)
    assert opened.page.locator("regard-lens .grid").count() == 0
    assert opened.page.locator("regard-lens .heads").count() == 1


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [400, 1920])
def test_it_fits_and_is_for_everybody(
    open_page: OpenPage, page: str, theme: str, width: int
) -> None:
    opened = open_page(page, address=f"{AT}&theme={theme}", width=width)
    assert opened.ask("document.documentElement.scrollWidth") <= width
    assert violations(opened.page) == []


@pytest.mark.parametrize(
    ("language", "said"), [("ko", "헤드마다의 비중"), ("bn", "প্রতি হেডের অংশ")]
)
def test_it_speaks_other_languages(
    open_page: OpenPage, llama: Run, language: str, said: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regard.view.html.run.page", partial(page_of, language=language))
    why = llama.why(-1, "love", "phones", ablate=3)
    opened = open_page(run_page(llama, lens=True, why=why), address=AT, width=400)
    # Cells and names that stand side by side, with a blank between them.
    every = "[...element.root.querySelectorAll('*')].filter((one) => one.children.length === 0)"
    text = opened.ask(f"{every}.map((one) => one.textContent).join(' ')")
    assert said in text
    own = {"love", "apple", "phones", "i", "id", "CLS", "SEP", "PAD", "UNK"}
    assert set(re.findall(r"[A-Za-z]+", text)) <= own
    assert opened.ask("document.documentElement.scrollWidth") <= 400


@pytest.mark.parametrize(
    ("language", "token", "said"),
    [
        ("en", "bytes EC 9D", "is only a piece of a letter"),
        ("ko", "바이트 EC 9D", "글자의 한 조각"),
        ("bn", "বাইট EC 9D", "অক্ষরের একটি টুকরা"),
    ],
)
def test_a_token_that_is_a_piece_of_a_letter_is_named_by_its_bytes(
    open_page: OpenPage,
    llama: Run,
    language: str,
    token: str,
    said: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("regard.view.html.run.page", partial(page_of, language=language))
    cells = [[[["bytes EC 9D", 0.5], ["love", 0.25]] for _ in range(5)] for _ in range(3)]
    monkeypatch.setattr("regard.view.html.run.lens_info", lambda _: cells)
    opened = open_page(run_page(llama, lens=True), address=AT)
    assert cell(opened, 1, 3).text_content() == token
    assert [each[0] for each in five(opened)] == [token, "love"]
    assert said in str(opened.page.locator("regard-lens p").first.text_content())
    assert f"“{token}”" in str(opened.page.locator("regard-lens .five p").text_content())
