"""<regard-head>: the steps of a real head in a page and in the studio, with the model's numbers."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers.browser_page import Opened
from helpers.model_folders import save, small_llama
from helpers.traced_models import made
from transformers import LlamaForCausalLM

import regard
from regard import Flow
from regard._steps import STEPS
from regard.models import load
from regard.view.html.bundle import bundle
from regard.view.html.flow import flow_page
from regard.view.html.run import run_page

OpenPage = Callable[..., Opened]
Visit = Callable[..., Any]

# A name, and a layer that a page holds; every way in which a head is made stands in one of them.
MODELS = [
    ("language model", 1),
    ("language model with ALiBi", 0),
    ("transformer", 0),
    ("transformer", 2),
    ("window", 0),
    ("low-rank value of slices", 0),
    ("rotary neighbours, some", 0),
    ("relative bias", 0),
    ("slices", 0),
]


def _flow(name: str, layer: int) -> Flow:
    model, given, options = made(name)
    given = given.float() if hasattr(given, "float") else given
    options = {key: x.float() if hasattr(x, "float") else x for key, x in options.items()}
    return regard.flow(given, model=model.float(), layer=layer, **options)


@pytest.fixture(scope="module")
def page(browser: Any) -> Iterator[Any]:
    opened = browser.new_page()
    yield opened
    opened.close()


def _numbers(nested: Any) -> Any:
    words = {None: -np.inf, "-inf": -np.inf}
    flat = np.array(nested, dtype=object)
    return np.vectorize(lambda x: words.get(x, x), otypes=[float])(flat)


@pytest.mark.parametrize(("name", "layer"), MODELS)
def test_the_steps_that_a_page_puts_together_are_those_of_python(
    page: Any, tmp_path: Path, name: str, layer: int
) -> None:
    flow = _flow(name, layer)
    html = flow_page(flow)
    parts = "\n".join(re.findall(r'<script type="application/.*?</script>', html, re.DOTALL))
    script = bundle("flow_embedded").replace("</script", "<\\/script")
    script += "\nwindow.source = new $flow_embedded.EmbeddedFlow($embedded.manifest());"
    path = tmp_path / "page.html"
    script = f'<script type="module">{script}</script>'
    path.write_text(f'<!doctype html><meta charset="utf-8">{parts}{script}', encoding="utf-8")
    page.goto(path.as_uri())
    page.wait_for_function("window.source !== undefined")
    stages = flow.outline["stages"]
    band = next(each for each in flow.outline["bands"] if each["id"] == flow.outline["chosen"])
    weights = [stages[each] for each in band["stages"] if stages[each]["part"] == "weights"]
    assert weights
    for attention, heads in ((each["attention"], each["heads"]) for each in weights):
        for head in {0, heads - 1}:
            expected = json.loads(flow.steps_of(attention, head).to_json())
            found = page.evaluate("([a, h]) => source.steps(a, h)", [attention, head])
            assert found["note"] == expected["note"]
            assert list(found["matrices"]) == list(expected["matrices"])
            assert list(found["steps"]) == list(expected["steps"])
            for each, matrix in expected["matrices"].items():
                np.testing.assert_allclose(found["matrices"][each], matrix, rtol=2e-6, atol=1e-7)
            for each, step in expected["steps"].items():
                own = found["steps"][each]
                assert {**own, "array": 0} == {**step, "array": 0}
                array = _numbers(step["array"])
                np.testing.assert_allclose(_numbers(own["array"]), array, rtol=2e-6, atol=1e-6)
    held = {each["attention"] for each in weights}
    for other in {each["attention"] for each in stages.values()} - held:
        assert page.evaluate("(a) => source.steps(a, 0)", other) is None


def said(opened: Opened) -> str:
    return str(opened.page.locator("regard-head .line").text_content())


def test_a_page_of_a_model_has_all_ten_steps_of_the_layer_it_holds(open_page: OpenPage) -> None:
    flow = _flow("transformer", 2)
    opened = open_page(flow_page(flow), address="#view=steps")
    tabs = opened.page.locator("regard-head [role=tab]")
    assert tabs.count() == len(STEPS)
    layers = opened.page.get_by_role("combobox", name="Layer")
    assert layers.locator("option:not([disabled])").all_text_contents() == [
        "Decoder layer 0",
        "Decoder layer 0, at the other text",
    ]
    opened.page.get_by_text("This page has every number of decoder layer 0").wait_for()
    for title, attention in (
        ("Decoder layer 0", "decoder.layers.0.attention"),
        ("Decoder layer 0, at the other text", "decoder.layers.0.cross"),
    ):
        layers.select_option(label=title)
        opened.page.get_by_role("combobox", name="Head").select_option("4")
        opened.page.get_by_role("combobox", name="Token").select_option("2")
        opened.settle()
        trace = flow.steps_of(attention, 4)
        for step in STEPS:
            opened.page.locator(f"regard-head #tab-{step}").click()
            opened.settle()
            row = min(2, trace.steps[step].array.shape[-2] - 1)
            column = 0
            if trace.steps[step].axes[-1].name != "dimension":
                column = int(trace.steps["weights"].array[0, row].argmax())
            assert said(opened) == trace.explain(step, row, column), step
        assert opened.state()["step"] == f"{attention}.output"
    # The whole pass knows the same step, and the other way round.
    opened.page.get_by_role("tab", name="Flow").click()
    opened.settle()
    opened.page.evaluate("location.hash = '#view=steps&step=decoder.layers.0.cross.weights&head=1'")
    opened.settle()
    heading = str(opened.page.locator("regard-head h2").text_content())
    assert "Attention weights" in heading or "Weights" in heading


def test_cells_are_reached_by_keys_and_kept_in_the_address(open_page: OpenPage) -> None:
    flow = _flow("language model", 1)
    name = "decoder.layers.1.attention"
    opened = open_page(flow_page(flow), address=f"#view=steps&step={name}.query&head=3&cell=1,1")
    trace = flow.steps_of(name, 3)
    assert said(opened) == trace.explain("query", 1, 1)
    opened.page.locator("regard-head .results .grid").focus()
    opened.page.keyboard.press("ArrowDown")
    opened.settle()
    assert opened.state() == {"view": "steps", "step": f"{name}.query", "head": "3", "cell": "2,1"}
    assert said(opened) == trace.explain("query", 2, 1)
    opened.page.keyboard.press("PageDown")
    opened.settle()
    assert opened.state()["step"] == f"{name}.key"


def test_a_page_of_a_run_has_the_steps_of_one_layer_if_asked(
    open_page: OpenPage, tmp_path: Path
) -> None:
    torch.manual_seed(3)
    save(LlamaForCausalLM(small_llama(initializer_range=0.4)), tmp_path)
    run = load(tmp_path).see("i love apple phones")
    opened = open_page(run_page(run, layer=1), address="#view=steps&layer=1&head=2&token=3")
    trace = run.flow(1).steps_of(1, 2)
    opened.page.locator("regard-head #tab-weights").click()
    opened.settle()
    column = int(trace.steps["weights"].array[0, 3].argmax())
    assert said(opened) == trace.explain("weights", 3, column)
    opened.page.get_by_role("tab", name="Text").click()
    opened.page.get_by_role("combobox", name="Layer").select_option("0")
    opened.page.get_by_role("tab", name="Steps", exact=True).click()
    opened.settle()
    layer = opened.page.get_by_role("combobox", name="Layer")
    assert layer.locator("option:checked").text_content() == "Layer 1"
    plain = open_page(run_page(run))
    assert plain.page.title() == f"{tmp_path.name}: i love apple phones"
    assert plain.page.get_by_role("tab", name="Steps").count() == 0
    plain.page.get_by_text("About this file").click()
    plain.page.get_by_text("the steps of a head are not in this file").wait_for()


@pytest.mark.usefixtures("_model_is_here")
def test_the_studio_shows_any_head_of_a_run(visit: Visit) -> None:
    text = "The cat sat because it was tired."
    page = visit("#page=see")
    page.get_by_role("textbox", name="Text").fill(text)
    page.get_by_role("button", name="Show where it looks").click()
    page.get_by_role("tab", name="Steps").click(timeout=60_000)
    page.get_by_role("combobox", name="Layer").select_option(label="Layer 4")
    page.get_by_role("combobox", name="Head").select_option("7")
    page.get_by_role("combobox", name="Token").select_option("5")
    trace = regard.models.load("minilm").see(text).flow().steps_of(4, 7)
    line = page.locator("regard-head .line")
    for step in ("query", "scores", "weights", "head_output", "concatenated", "output"):
        page.locator(f"regard-head #tab-{step}").click()
        column = 0
        if trace.steps[step].axes[-1].name != "dimension":
            column = int(trace.steps["weights"].array[0, 5].argmax())
        line.get_by_text(trace.explain(step, 5, column), exact=True).or_(
            line.filter(has_text=trace.explain(step, 5, column).split(" ")[0])
        ).first.wait_for(timeout=10_000)
        assert line.text_content() == trace.explain(step, 5, column)


@pytest.fixture(scope="module")
def _model_is_here() -> None:
    from regard.models.fetch import fetch

    fetch("minilm")
