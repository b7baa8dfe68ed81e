"""<regard-text> with predictions: under each word what the model expects, as Python says it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.browser_page import Opened
from helpers.hugging_face_models import made, marian
from helpers.made_runs import long_text, made_run
from helpers.model_folders import save, save_bert, save_masked, small_llama
from transformers import LlamaForCausalLM, MarianMTModel

from regard.models import load
from regard.run import Run
from regard.view.html.run import run_page

OpenPage = Callable[..., Opened]
TEXT = "i love apple phones ."


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Run:
    folder = tmp_path_factory.mktemp("llama")
    torch.manual_seed(3)
    save(LlamaForCausalLM(small_llama(initializer_range=0.7)), folder)
    return load(folder).see(TEXT)


def under(opened: Opened) -> list[list[str]]:
    """What stands under each word: the token, and its probability."""
    return opened.page.locator("regard-text .under").evaluate_all(
        "(all) => all.map((one) => [...one.childNodes].map((each) => each.textContent))"
    )


def listed(opened: Opened) -> list[list[str]]:
    found = opened.page.locator("regard-text .next li").evaluate_all(
        "(all) => all.map((one) => [one.firstChild.textContent, one.lastChild.textContent])"
    )
    return [list(each) for each in found]


def place(opened: Opened, number: int) -> Any:
    return opened.page.locator(f'regard-text .text [data-place="{number}"]')


def switch(opened: Opened, name: str) -> Any:
    return opened.page.locator(f'regard-text [data-name="next"][data-value="{name}"]')


def test_under_each_word_stands_what_python_says(open_page: OpenPage, llama: Run) -> None:
    opened = open_page(run_page(llama))
    expected = llama.predictions(top=5)
    names = [token.label for token in (llama.tokens or [[]])[0]]
    for n, (found, one) in enumerate(zip(under(opened), expected, strict=True)):
        right = n + 1 < len(names) and names[n + 1] == one[0].token.strip()
        assert found == [one[0].token.strip(), f"{one[0].probability:.2f}{' ✓' if right else ''}"]
    for n in (1, 4):
        place(opened, n).hover()
        assert listed(opened) == [
            [each.token.strip(), f"{each.probability:.4f}"] for each in expected[n]
        ]
        said = opened.page.locator("regard-text .next h2").text_content()
        assert said == f"After “{names[n]}” the model expects"


def test_keys_alone_read_the_likeliest_and_switch_them_off(open_page: OpenPage, llama: Run) -> None:
    opened = open_page(run_page(llama))
    expected = llama.predictions(top=5)
    opened.page.locator("regard-text .text [tabindex]").focus()
    opened.page.keyboard.press("Home")
    for n in range(3):
        assert [each[0] for each in listed(opened)] == [each.token.strip() for each in expected[n]]
        said = place(opened, n).get_attribute("aria-description")
        assert expected[n][0].token.strip() in said
        opened.page.keyboard.press("ArrowRight")
    switch(opened, "off").focus()
    opened.page.keyboard.press("Enter")
    opened.settle()
    assert opened.state()["next"] == "off"
    assert under(opened) == []
    assert not opened.page.locator("regard-text .next").is_visible()
    switch(opened, "on").click()
    opened.settle()
    assert "next" not in opened.state()
    assert len(under(opened)) == len(expected)


def test_a_tap_lists_the_likeliest(open_page: OpenPage, llama: Run) -> None:
    opened = open_page(run_page(llama), address="#layer=1", width=400)
    place(opened, 2).click()
    opened.page.mouse.move(5, 5)
    opened.settle()
    assert [each[0] for each in listed(opened)] == [
        each.token.strip() for each in llama.predictions(5, 2)[0]
    ]
    assert opened.ask("document.documentElement.scrollWidth") <= 400


def test_a_masked_model_says_what_may_stand_in_each_place(
    open_page: OpenPage, tmp_path: Path
) -> None:
    save_masked(tmp_path)
    run = load(tmp_path).see(TEXT)
    opened = open_page(run_page(run))
    assert [each[0] for each in under(opened)] == [
        one[0].token.strip() for one in run.predictions(1)
    ]
    said = str(opened.page.locator("regard-text .next h2").text_content())
    assert said.startswith("In place of “")


def test_a_model_of_vectors_has_no_switch(open_page: OpenPage, tmp_path: Path) -> None:
    save_bert(tmp_path)
    opened = open_page(run_page(load(tmp_path).see(TEXT)))
    assert not switch(opened, "on").is_visible()
    assert under(opened) == []


def test_a_long_text_has_them_when_they_are_asked_for(open_page: OpenPage) -> None:
    run = made_run(long_text(211), layers=1, heads=2)
    opened = open_page(run_page(run))
    opened.page.evaluate(
        """() => {
            const element = document.querySelector("regard-text");
            const { source } = element;
            const { tokens } = source.info.sequences[0];
            source.predictions = async () => tokens.map(() => [["a", 0.5]]);
            element.changed();
        }"""
    )
    opened.settle()
    assert under(opened) == []
    switch(opened, "on").click()
    opened.settle()
    assert under(opened) == [["a", "0.50"]] * 211


def test_it_is_said_that_predictions_are_worked_out(open_page: OpenPage) -> None:
    opened = open_page(run_page(made_run(layers=1, heads=2)))
    opened.page.evaluate(
        """() => {
            const element = document.querySelector("regard-text");
            element.source.predictions = () => new Promise((done) => { window.done = done; });
            element.changed();
        }"""
    )
    opened.settle()
    waiting = opened.page.get_by_text("The model reads the text once more …")
    assert waiting.is_visible()
    opened.page.evaluate(
        "window.done(document.querySelector('regard-text').source.info.sequences[0].tokens"
        ".map(() => [['bytes EC 9D', 0.5]]))"
    )
    opened.page.get_by_text("is only a piece of a letter").wait_for()
    assert not waiting.is_visible()


def test_what_a_model_writes_has_names_and_what_comes_next_under_them(
    open_page: OpenPage, tmp_path: Path
) -> None:
    sizes = {"vocab_size": 11, "max_position_embeddings": 13}
    save(made(MarianMTModel(marian(**sizes))), tmp_path)
    run = load(tmp_path).see(TEXT)
    read = [token.label for token in (run.tokens or [[]])[0]]
    written = [token.label for token in (run.layer(2).tokens or [[]])[0]]
    expected = [one[0].token.strip() for one in run.predictions(1)]
    opened = open_page(run_page(run), address="#layer=3&head=1&token=0")
    shown = opened.page.locator("regard-text .text .token").all_text_contents()
    assert shown == [*written, *read]
    assert [each[0] for each in under(opened)] == expected
    weights = run.weights(3, 1)[0, 0]
    opened.page.locator(f'regard-text [data-place="{len(written) + 2}"]').hover()
    said = str(opened.page.locator("regard-text .readout").text_content())
    assert said == f"{written[0]} → {read[2]} {float(weights[2]):.4f}"
    assert "have numbers" not in str(opened.page.locator("regard-text .notes").text_content())
    opened = open_page(run_page(run), address="#layer=2&view=heads")
    labels = opened.ask("element.root.textContent")
    assert all(each in labels for each in written)
    opened = open_page(run_page(run), address="#layer=0")
    assert under(opened) == []
