"""Every view and every page of the studio, light and dark: axe-core finds nothing against it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers.axe import violations
from helpers.browser_page import Opened
from helpers.model_folders import save, small_bert, small_llama
from transformers import BertModel, LlamaForCausalLM

from regard.models import load
from regard.view.html.flow import flow_page
from regard.view.html.run import run_page

OpenPage = Callable[..., Opened]
Visit = Callable[..., Any]
TEXT = "i love apple phones ."
WRONG = "Q = [[2, 3]]\nK = [[1, 0], [0, 1]]\nS = [[2, 4]]\n\n[[1, 2]]\n"
THEMES = pytest.mark.parametrize("theme", ["light", "dark"])


@pytest.fixture(scope="module")
def own_models(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    torch.manual_seed(3)
    folder = tmp_path_factory.mktemp("llama")
    save(LlamaForCausalLM(small_llama(initializer_range=0.7)), folder)
    return [folder]


def look(opened: Opened, *places: str, theme: str) -> None:
    """Look at some places of a page, one after the other."""
    found: dict[str, Any] = {}
    for place in places:
        opened.page.evaluate("(hash) => { location.hash = hash; }", f"#theme={theme}&{place}")
        opened.settle()
        if wrong := violations(opened.page):
            found[place] = wrong
    assert found == {}


@THEMES
def test_the_flow_of_a_model_is_for_everybody(
    open_page: OpenPage, tmp_path: Path, theme: str
) -> None:
    torch.manual_seed(3)
    save(BertModel(small_bert(initializer_range=0.4)), tmp_path)
    opened = open_page(flow_page(load(tmp_path).see(TEXT).flow(1)))
    name = "encoder.layers.1.attention"
    look(
        opened,
        "token=2",
        f"step={name}.weights&cell=1,2&head=2",
        f"present=yes&step={name}.scores",
        f"view=steps&step={name}.scores&head=1",
        theme=theme,
    )


@THEMES
def test_the_views_of_a_run_are_for_everybody(
    open_page: OpenPage, tmp_path: Path, theme: str
) -> None:
    torch.manual_seed(3)
    save(LlamaForCausalLM(small_llama(initializer_range=0.7)), tmp_path)
    run = load(tmp_path).see(TEXT, keep=("q", "k", "hidden_states"))
    views = [f"view={each}&layer=1&head=2&token=3" for each in ("text", "heads", "model", "atlas")]
    look(open_page(run_page(run)), *views, "view=shift&token=3", theme=theme)


@THEMES
def test_a_prediction_in_the_studio_is_for_everybody_and_keys_reach_its_reasons(
    visit: Visit, own_models: list[Path], theme: str
) -> None:
    page = visit(f"#page=see&theme={theme}")
    page.get_by_role("combobox", name="Model").select_option(str(own_models[0]))
    page.get_by_role("textbox", name="Text").fill(TEXT)
    page.get_by_role("button", name="Show where it looks").click()
    page.wait_for_selector("regard-text .under", timeout=60_000)
    assert violations(page) == []
    assert page.get_by_role("button", name="Run again without this head").is_visible()
    page.get_by_role("tab", name="Prediction").click()
    page.wait_for_selector("regard-lens .grid")
    assert not page.get_by_role("button", name="Run again without this head").is_visible()
    # What the model expects in the end is offered; keys alone ask why.
    page.get_by_role("tab", name="Prediction").focus()
    token = page.get_by_role("textbox", name="Next token after the chosen word")
    for _ in range(3):
        page.keyboard.press("Tab")
        if token.evaluate("(field) => field.getRootNode().activeElement === field"):
            break
    expected = page.evaluate(
        """() => {
            const { root } = document.querySelector("regard-lens");
            const { cellIndex } = root.querySelector("td[aria-selected=true]");
            return root.querySelector(".grid tbody tr:last-child").cells[cellIndex].textContent;
        }"""
    )
    assert token.input_value().strip() == expected
    token.fill("love")
    page.keyboard.press("Enter")
    page.wait_for_selector("regard-lens .shares")
    assert violations(page) == []


@THEMES
def test_the_pages_of_the_studio_are_for_everybody(visit: Visit, theme: str) -> None:
    page = visit(f"#page=see&theme={theme}")
    page.get_by_role("button", name="Show where it looks").wait_for()
    assert violations(page) == []
    page.get_by_role("link", name="Runs").click()
    page.wait_for_selector("table")
    assert violations(page) == []
    page.get_by_role("link", name="one", exact=True).click()
    page.wait_for_selector("regard-text .token.chosen")
    assert violations(page) == []
    page.get_by_role("link", name="Runs").click()
    for name in ("one", "two"):
        page.get_by_role("checkbox", name=f"Choose {name}").check()
    page.get_by_role("button", name="Compare two").click()
    page.get_by_text("Here the two sides differ").wait_for()
    assert violations(page) == []
    page.get_by_role("link", name="Check").click()
    page.get_by_role("textbox", name="Worked example").fill(WRONG)
    assert violations(page) == []
    page.get_by_role("button", name="Check it").click()
    page.wait_for_selector(".findings")
    assert violations(page) == []
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == (
        "rgb(13, 17, 23)" if theme == "dark" else "rgb(255, 255, 255)"
    )
