"""A page as a whole: opened from a file, offline, with its state in the address."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from helpers.browser_page import Opened
from helpers.made_runs import SENTENCES, long_text, made_run

from regard.run.info import run_info
from regard.view.html.run import run_page
from regard.view.html.trace import trace_page
from regard.worked import example

OpenPage = Callable[..., Opened]


@pytest.mark.parametrize("text", SENTENCES.values(), ids=SENTENCES)
def test_a_page_opens_in_every_language_and_asks_for_nothing(
    open_page: OpenPage, text: str
) -> None:
    opened = open_page(run_page(made_run(text)))
    tokens = opened.ask("element.source.info.sequences[0].tokens.map((each) => each.text)")
    assert tokens == [token.text for token in (made_run(text).tokens or [[]])[0]]


def test_the_weights_of_a_small_run_are_those_of_python(open_page: OpenPage) -> None:
    run = made_run()
    opened = open_page(run_page(run))
    for layer, head, query in ((0, 0, 7), (2, 4, 11)):
        found = opened.ask(f"element.source.row(0, {layer}, {head}, {query})")
        expected = run.weights(layer, head)[0, query].tolist()
        assert found["weights"] == pytest.approx(expected, abs=1e-5)
        assert found["rest"] == 0


def test_a_long_run_has_its_strongest_links_and_says_how_much_is_not_there(
    open_page: OpenPage,
) -> None:
    run = made_run(long_text(1031), layers=5, heads=7)
    opened = open_page(run_page(run))
    assert opened.ask("element.source.info.whole") is False
    found = opened.ask("element.source.row(0, 1, 3, 1009)")
    layer = run.layer(1)
    assert layer.top_keys is not None
    assert layer.top_weights is not None
    keys, weights = layer.top_keys[0, 3, 1009].tolist(), layer.top_weights[0, 3, 1009].tolist()
    assert [found["weights"][key] for key in keys] == pytest.approx(weights, abs=1e-5)
    assert found["rest"] == pytest.approx(1 - sum(weights), abs=1e-4)


def test_a_page_opens_on_what_stands_out_unless_its_address_says_where(
    open_page: OpenPage,
) -> None:
    run = made_run(causal=False)
    opening = run_info(run)["opening"]
    assert opening is not None
    opened = open_page(run_page(run))
    assert opened.ask("element.state") == {"sequence": 0, **opening}
    assert opened.page.locator("regard-text .token.chosen").count() == 1
    opened = open_page(run_page(run), address="#layer=1")
    assert opened.state() == {"layer": "1"}


@pytest.mark.parametrize("view", ["text", "heads", "model", "atlas", "shift"])
def test_light_or_dark_is_in_the_address_of_every_view(open_page: OpenPage, view: str) -> None:
    opened = open_page(run_page(made_run()), address=f"#view={view}&theme=dark")
    paper = "getComputedStyle(document.body).backgroundColor"
    assert opened.page.evaluate(paper) == "rgb(13, 17, 23)"
    opened.page.evaluate("location.hash = location.hash.replace('dark', 'light')")
    opened.settle()
    assert opened.page.evaluate(paper) == "rgb(255, 255, 255)"


def test_the_steps_of_a_trace_are_dark_if_their_address_says_so(open_page: OpenPage) -> None:
    page = trace_page(example("apple").trace())
    for theme, paper in (("dark", "rgb(13, 17, 23)"), ("light", "rgb(255, 255, 255)")):
        opened = open_page(page, address=f"#view=steps&theme={theme}", dark=theme == "light")
        assert opened.page.evaluate("getComputedStyle(document.body).backgroundColor") == paper


def test_the_address_holds_the_state_and_the_back_button_works(open_page: OpenPage) -> None:
    opened = open_page(run_page(made_run()), address="#layer=2&head=3&token=5")
    assert opened.ask("element.state.layer") == 2
    opened.page.get_by_role("combobox", name="Layer").select_option("1")
    opened.settle()
    assert opened.state() == {"layer": "1", "head": "3", "token": "5"}
    opened.page.go_back()
    opened.settle()
    assert opened.ask("element.state.layer") == 2
    assert opened.page.get_by_role("combobox", name="Layer").input_value() == "2"


@pytest.mark.parametrize("address", ["#layer=99&head=99&token=9999", "#layer=x&head=-1&view=<b>"])
def test_an_address_of_nowhere_leads_somewhere(open_page: OpenPage, address: str) -> None:
    opened = open_page(run_page(made_run()), address=address)
    assert 0 <= opened.ask("element.state.layer") < 3
