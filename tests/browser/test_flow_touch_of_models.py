"""A model's pass is changed by hand in the studio: every number is the one that Python has."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import pytest
import torch
from helpers.model_folders import save, small_llama
from transformers import LlamaForCausalLM

from regard import Flow
from regard.models import Loaded, load

Visit = Callable[..., Any]
TEXT = "i love apple phones"
PATH = "decoder.layers.1.attention"


@pytest.fixture(scope="module")
def llama(tmp_path_factory: pytest.TempPathFactory) -> Loaded:
    torch.manual_seed(3)
    folder = tmp_path_factory.mktemp("llama")
    save(LlamaForCausalLM(small_llama(initializer_range=0.6)), folder)
    return load(folder)


@pytest.fixture(scope="module")
def own_models(llama: Loaded) -> list[Path]:
    return [llama.folder]


def opened(visit: Visit, llama: Loaded, state: str) -> Any:
    """The flow of a text through the model, at a state of its address."""
    page = visit("#page=see")
    asked = """async ([path, body]) => {
        const headers = { "content-type": "application/json" };
        const answer = await fetch(path, body === null ? {} : { method: "POST", headers, body });
        return answer.json();
    }"""
    body = json.dumps({"text": TEXT, "model": str(llama.folder)})
    job = page.evaluate(asked, ["/api/see", body])["job"]
    while (found := page.evaluate(asked, [f"/api/jobs/{job}", None]))["state"] != "done":
        assert found["state"] in ("waiting", "running"), found
        page.wait_for_timeout(100)
    page.evaluate("(hash) => { location.hash = hash; }", f"#page=run&run={found['result']}&{state}")
    page.locator("regard-flow .next .one").first.wait_for(timeout=60_000)
    return page


def said(page: Any, part: str) -> str:
    return str(page.locator(f"regard-flow .{part}").text_content())


def following(page: Any) -> list[str]:
    """The likeliest next tokens and their probabilities, as the page says them."""
    texts = page.locator("regard-flow .next .one").all_text_contents()
    return [re.sub(r" \(.*", "", each) for each in texts]


def predicted(flow: Flow, position: int) -> list[str]:
    found = flow.predictions(position)
    assert found is not None
    return [f"{each.token.strip()} {each.probability:.4f}" for each in found]


def expect(page: Any, flow: Flow, position: int) -> None:
    """Wait until the page shows what follows in a changed pass."""
    for _ in range(100):
        if following(page) == predicted(flow, position):
            return
        page.wait_for_timeout(50)
    assert following(page) == predicted(flow, position)


PLACE = {"head": 1, "row": 4, "column": 2}
CHANGES: list[tuple[str, dict[str, Any]]] = [
    (
        f"score,{PATH}.scores,1,4,2,3.5",
        {"kind": "score", "stage": f"{PATH}.scores", "value": 3.5, **PLACE},
    ),
    (
        f"score,{PATH}.scaled,1,4,2,2",
        {"kind": "score", "stage": f"{PATH}.scaled", "value": 2.0, **PLACE},
    ),
    (f"cut,{PATH},1,4,2", {"kind": "cut", "attention": PATH, **PLACE}),
    (f"head,{PATH},1", {"kind": "head", "attention": PATH, "head": 1}),
    ("scale,off", {"kind": "scale", "on": False}),
    ("causal,off", {"kind": "causal", "on": False}),
    ("word,2,phones", {"kind": "word", "position": 2, "text": "phones"}),
]


def test_a_changed_pass_has_the_numbers_and_the_next_word_of_python(
    visit: Visit, llama: Loaded
) -> None:
    page = opened(visit, llama, f"view=flow&token=4&head=1&step={PATH}.weights&cell=4,2")
    first = llama.see(TEXT).flow()
    was = first.explain(f"{PATH}.weights", 1, 4, 2).split(" ")[0]
    old = {each.token: each.probability for each in first.predictions(4) or []}
    for text, change in CHANGES:
        page.evaluate("(said) => { location.hash += `&changes=${said}`; }", text)
        changed = first.changed([change])
        expect(page, changed, 4)
        line = str(changed.explain(f"{PATH}.weights", 1, 4, 2))
        page.locator("regard-flow .line", has_text=line).wait_for()
        assert said(page, "where").endswith(f"before the changes: {was}")
        shown = page.locator("regard-flow .next .one").all_text_contents()
        for each, written in zip(changed.predictions(4) or [], shown, strict=True):
            assert written.endswith(
                f"(before: {old[each.token]:.4f})" if each.token in old else "five before)"
            )
        page.get_by_role("button", name="Reset").click()
        expect(page, first, 4)
        assert "changes" not in page.url


def test_a_score_of_a_model_is_dragged_and_computed_when_the_hand_lets_go(
    visit: Visit, llama: Loaded
) -> None:
    page = opened(visit, llama, f"view=flow&token=4&head=1&step={PATH}.scores")
    page.wait_for_timeout(1000)  # until the eye is there
    place = page.evaluate(
        """(stage) => {
            const element = document.querySelector("regard-flow");
            const { x, y } = element.root.querySelector("canvas").getBoundingClientRect();
            const own = (each) => each.stage === stage && each.kind === "matrix";
            const box = element.boxes.find(own);
            return [x + box.x + box.width * 2.5 / 6, y + box.y + box.height * 4.5 / 6];
        }""",
        f"{PATH}.scores",
    )
    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url.rpartition("/")[2]))
    page.mouse.move(*place)
    page.mouse.down()
    page.mouse.move(place[0], place[1] - 45, steps=5)
    page.wait_for_timeout(100)
    assert said(page, "held").startswith("phones → love: ")
    assert "changed" not in asked
    page.mouse.up()
    page.get_by_role("button", name="Reset").wait_for()
    assert asked.count("changed") == 1
    changes = parse_qs(urlparse(page.url).fragment)["changes"][0].split(",")
    assert changes[:-1] == ["score", f"{PATH}.scores", "1", "4", "2"]
    change = {"kind": "score", "stage": f"{PATH}.scores", "value": float(changes[-1]), **PLACE}
    changed = llama.see(TEXT).flow().changed([change])
    expect(page, changed, 4)
    assert said(page, "line") == f"{change['value']} is set by hand"
    # Keys are gathered, so that not each of them costs a pass.
    page.locator("regard-flow canvas").focus()
    for _ in range(3):
        page.keyboard.press("-")
    assert asked.count("changed") == 1
    page.wait_for_timeout(800)
    assert asked.count("changed") == 2
    page.keyboard.press("Control+z")
    expect(page, changed, 4)


def test_a_word_of_a_model_is_swapped_and_the_text_is_read_anew(
    visit: Visit, llama: Loaded
) -> None:
    page = opened(visit, llama, "view=flow&token=2")
    first = llama.see(TEXT).flow()
    expect(page, first, 2)
    page.get_by_role("button", name="Swap “love”").click()
    field = page.get_by_role("textbox", name="Another word for “love”, word 3")
    assert field.input_value() == "love"
    field.fill("apple")
    page.keyboard.press("Enter")
    expect(page, llama.see("i apple apple phones").flow(), 2)
    page.get_by_text("Hollow: before the changes.").wait_for()
    page.get_by_role("button", name="Swap “apple”").click()
    page.keyboard.type("apple . love")
    page.keyboard.press("Enter")
    # What follows the third token is what it was: a causal model has read no more until then.
    page.get_by_text("There are 8 tokens now, there were 6").wait_for()
    expect(page, llama.see("i apple . love apple phones").flow(), 2)
    # Whatever it has become, it is still that word.
    page.get_by_role("button", name="love", exact=True).first.click()
    page.get_by_role("button", name="Swap “apple . love”").wait_for()
    page.get_by_role("button", name="“apple . love” for “love”").click()
    page.get_by_role("button", name="Swap “phones”").wait_for()
    assert "changes" not in page.url


def test_what_a_model_cannot_do_is_said_and_the_pass_stays(visit: Visit, llama: Loaded) -> None:
    page = opened(visit, llama, "view=flow&token=0&changes=word,0,love")
    page.get_by_text("This change cannot be made").wait_for()
    assert "which the model adds" in said(page, "told")
    expect(page, llama.see(TEXT).flow(), 0)
    page.get_by_role("button", name="Reset").click()
    page.get_by_text("This change cannot be made").wait_for(state="detached")
    page.locator("regard-flow canvas").focus()
    page.keyboard.press("F2")
    assert said(page, "told") == "“[CLS]” is added by the model itself and cannot be swapped."


def test_a_word_whose_letters_are_several_tokens_is_called_by_its_letters(visit: Visit) -> None:
    page = visit("#page=see")
    found = page.evaluate(
        """async () => {
            const { wordAt } = await import("/web/flow_swap.js");
            const input = ["동 (1/3)", "동 (2/3)", "동 (3/3)", "물 (1/2)", "물 (2/2)", "은", "."];
            const outline = { stages: { input: { row_labels: "input" } }, sequences: { input },
                words: { input: [0, 0, 0, 0, 0, 0, 6] }, changes: ["word"] };
            return [1, 4, 6].map((row) => wordAt(outline, "input", row, []).text);
        }"""
    )
    assert found == ["동물은", "동물은", "."]
