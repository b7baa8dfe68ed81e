"""`<regard-model>`: every head of every layer as a small map, in a browser."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers.browser_page import Opened
from helpers.made_runs import SENTENCES, long_text, made_run

from regard.run import Run
from regard.view.html.run import run_page

OpenPage = Callable[..., Opened]


def measured(text: str = SENTENCES["English"], **options: Any) -> Run:
    """A run whose heads have shares, so that they are of several kinds."""
    run = made_run(text, **options)
    names = ("first", "previous", "self", "induction")
    for index, layer in enumerate(run.layers.values()):
        shape = layer.seen.lse.shape
        for n, name in enumerate(names):
            share = torch.full(shape, 0.05 + 0.01 * n)
            for head in range(shape[1]):
                if (head + index) % 5 == n:
                    share[:, head] = 0.5 + 0.03 * head + 0.01 * index
            layer.shares[name] = share
    return run


def heads(opened: Opened) -> list[str]:
    """The heads in the order in which they stand, as “layer.head”."""
    script = "[...element.root.querySelectorAll('.head')].map((each) => each.dataset.head)"
    return opened.ask(script)


def names(rows: list[dict[str, Any]]) -> list[str]:
    return [f"{row['layer']}.{row['head']}" for row in rows]


def cell(opened: Opened, name: str) -> Any:
    return opened.page.locator(f'regard-model .head[data-head="{name}"]')


def painted(opened: Opened, name: str) -> list[int]:
    """The colours of a head's picture, row by row."""
    script = """(() => {
        const canvas = element.root.querySelector(`.head[data-head="${values[0]}"] canvas`);
        const copy = document.createElement("canvas");
        [copy.width, copy.height] = [canvas.width, canvas.height];
        const context = copy.getContext("2d", { willReadFrequently: true });
        context.drawImage(canvas, 0, 0);
        return [...context.getImageData(0, 0, copy.width, copy.height).data];
    })()"""
    return opened.ask(script, name)


@pytest.mark.parametrize("language", ["Bengali", "hostile"])
def test_every_head_is_there_with_the_numbers_of_python(open_page: OpenPage, language: str) -> None:
    run = measured(SENTENCES[language])
    opened = open_page(run_page(run), address="#view=model")
    rows = run.heads()
    assert heads(opened) == names(rows)
    row = next(row for row in rows if (row["layer"], row["head"]) == (1, 2))
    cell(opened, "1.2").hover()
    opened.settle()
    said = opened.page.locator("regard-model .card").inner_text()
    assert f"Layer 1, head 2: {row['kind']} {row['score']:.4f}" in said
    for name in ("entropy", "spread", "distance", "first", "previous", "self", "induction"):
        assert f"{row[name]:.4f}" in said, name


def test_a_picture_has_a_row_a_token_where_there_are_few(open_page: OpenPage) -> None:
    """Head 0.0 looks at the token before: dark below the diagonal, white above."""
    opened = open_page(run_page(measured()), address="#view=model")
    n = len((made_run().tokens or [[]])[0])
    pixels = torch.tensor(painted(opened, "0.0")).reshape(n, n, 4)[..., :3].sum(-1)
    assert all(int(pixels[q, q - 1]) < 300 for q in range(2, n))
    assert all(int(pixels[q, k]) > 740 for q in range(n) for k in range(q + 1, n))


def test_all_heads_share_one_scale_and_it_can_be_linear(open_page: OpenPage) -> None:
    opened = open_page(run_page(measured()), address="#view=model")
    log = painted(opened, "2.1")
    legend = opened.page.locator("regard-model .legend")
    assert legend.inner_text().split() == ["share", "of", "a", "row", "≤", "0.001", "1"]
    opened.page.get_by_role("button", name="linear").click()
    opened.settle()
    assert opened.state()["model-scale"] == "linear"
    assert legend.inner_text().split() == ["share", "of", "a", "row", "0", "1"]
    assert sum(painted(opened, "2.1")) > sum(log)


def test_heads_are_sorted_by_their_numbers_both_ways(open_page: OpenPage) -> None:
    run = measured()
    opened = open_page(run_page(run), address="#view=model")
    shown = opened.page.locator("regard-model .number b")
    for sort in ("entropy", "first", "distance", "previous", "induction"):
        opened.page.get_by_role("combobox", name="Sort by").select_option(sort)
        opened.settle()
        assert opened.state()["sort"] == sort
        rows = sorted(run.heads(), key=lambda row: row[sort], reverse=sort != "entropy")
        numbers = [float(x) for x in shown.all_inner_texts()]
        assert numbers == pytest.approx([row[sort] for row in rows], abs=0.006)
        opened.page.locator("regard-model button[name=turn]").click()
        opened.settle()
        turned = [float(x) for x in shown.all_inner_texts()]
        assert turned == sorted(numbers, reverse=sort == "entropy")
        assert opened.state()["order"] == ("down" if sort == "entropy" else "up")


def test_kinds_are_counted_explained_and_filter(open_page: OpenPage) -> None:
    run = measured()
    opened = open_page(run_page(run), address="#view=model&sort=kind")
    of_kind = [row for row in run.heads() if row["kind"] == "previous token"]
    button = opened.page.locator('regard-model .kinds button[data-kind="previous token"]')
    assert button.locator("span").inner_text() == str(len(of_kind))
    assert "just before" in button.inner_text()
    button.click()
    opened.settle()
    assert opened.state()["kind"] == "previous token"
    assert sorted(heads(opened)) == sorted(names(of_kind))
    opened.page.evaluate("location.hash = '#view=model&kind=previous+token'")
    opened.settle()
    others = opened.ask("element.root.querySelectorAll('.head.other').length")
    assert others == len(run.heads()) - len(of_kind)
    button.click()
    opened.settle()
    assert "kind" not in opened.state()


def test_layers_without_a_head_of_the_kind_are_left_out(open_page: OpenPage) -> None:
    run = measured(heads=3)
    opened = open_page(run_page(run), address="#view=model&kind=first+token")
    layers = {row["layer"] for row in run.heads() if row["kind"] == "first token"}
    assert 0 < len(layers) < len(run.layers)
    assert {int(name.split(".")[0]) for name in heads(opened)} == layers


def test_a_click_opens_the_head_and_back_it_is_marked(open_page: OpenPage) -> None:
    opened = open_page(run_page(measured()), address="#view=model")
    cell(opened, "2.3").click()
    opened.settle()
    assert opened.state() == {"view": "atlas", "layer": "2", "head": "3"}
    opened.page.evaluate("location.hash = '#view=model&layer=2&head=3'")
    opened.settle()
    assert opened.ask(
        "[...element.root.querySelectorAll('[aria-current]')].map((each) => each.dataset.head)"
    ) == ["2.3"]


def test_the_keyboard_alone_walks_and_opens(open_page: OpenPage) -> None:
    opened = open_page(run_page(measured()), address="#view=model")
    assert opened.ask("element.root.querySelectorAll('.head[tabindex=\"0\"]').length") == 1
    cell(opened, "0.0").focus()
    focused = "element.root.activeElement.dataset.head"
    for key, name in (
        ("ArrowRight", "0.1"),
        ("ArrowDown", "1.1"),
        ("End", "1.4"),
        ("ArrowDown", "2.4"),
        ("ArrowDown", "2.4"),
        ("ArrowLeft", "2.3"),
        ("ArrowUp", "1.3"),
        ("Home", "1.0"),
    ):
        opened.page.keyboard.press(key)
        assert opened.ask(focused) == name, key
    assert "Layer 1, head 0" in opened.page.locator("regard-model .card").inner_text()
    opened.page.keyboard.press("Enter")
    opened.settle()
    assert opened.state() == {"view": "atlas", "layer": "1"} | {"head": "0"}


def test_light_and_dark_have_colours_of_their_own(open_page: OpenPage) -> None:
    opened = open_page(run_page(measured()), address="#view=model")
    light = sum(painted(opened, "0.0"))
    opened.page.emulate_media(color_scheme="dark")
    opened.page.wait_for_timeout(100)
    opened.settle()
    assert light > 2 * sum(painted(opened, "0.0"))


def test_hundreds_of_heads_are_painted_as_they_come_into_sight(open_page: OpenPage) -> None:
    run = measured(long_text(61), layers=30, heads=9, hidden_states=False)
    opened = open_page(run_page(run), address="#view=model", height=500)
    script = """(async () => {
        const all = [...element.root.querySelectorAll('.head canvas')];
        const painted = () => all.filter((each) => each.width !== 300).length;
        for (let before = -1; before !== painted(); ) {
            before = painted();
            await new Promise((done) => setTimeout(done, 500));
        }
        return painted();
    })()"""
    before = opened.ask(script)
    assert 27 <= before < 270
    cell(opened, "29.8").scroll_into_view_if_needed()
    until = """async (canvas) => {
        for (let n = 0; n < 1000 && canvas.width !== 61; n++) {
            await new Promise((done) => setTimeout(done, 10));
        }
    }"""
    cell(opened, "29.8").locator("canvas").evaluate(until)
    assert opened.ask(script) > before
    assert any(painted(opened, "29.8"))
    assert opened.ask("element.root.querySelectorAll('*').length") < 270 * 5 + 150


def test_heads_are_not_made_again_when_the_state_changes(open_page: OpenPage) -> None:
    opened = open_page(run_page(measured()), address="#view=model")
    opened.ask("(window.kept = element.root.querySelector('[data-head=\"1.1\"]'), true)")
    opened.page.evaluate("location.hash = '#view=model&sort=first&layer=1'")
    opened.settle()
    assert opened.ask("window.kept === element.root.querySelector('[data-head=\"1.1\"]')")


def test_heads_without_a_picture_are_told_of(open_page: OpenPage) -> None:
    opened = open_page(run_page(made_run(keep=False, size=None)), address="#view=model")
    assert len(heads(opened)) == 15
    assert "no picture" in opened.page.locator("regard-model [role=note]").inner_text()


def test_it_fits_in_a_narrow_window(open_page: OpenPage) -> None:
    opened = open_page(run_page(measured(heads=12)), address="#view=model", width=400)
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= 400
