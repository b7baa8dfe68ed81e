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
    page.get_by_role("link", name="Check").click()
    page.get_by_role("textbox", name="Worked example").fill(WRONG)
    assert violations(page) == []
    page.get_by_role("button", name="Check it").click()
    page.wait_for_selector(".findings")
    assert violations(page) == []
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == (
        "rgb(13, 17, 23)" if theme == "dark" else "rgb(255, 255, 255)"
    )
