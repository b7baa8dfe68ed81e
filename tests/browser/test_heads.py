"""<regard-heads>: the links of a layer; what is drawn, counted and written is what Python knows."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from helpers.browser_page import Opened
from helpers.made_runs import SENTENCES, long_text, made_run

from regard.run import Run
from regard.view.html.run import run_page

OpenPage = Callable[..., Opened]

# What the canvas is told to draw, as (head's colour, opacity, width), and how often.
WATCH = """() => {
    window.strokes = [];
    const { stroke, clearRect } = CanvasRenderingContext2D.prototype;
    CanvasRenderingContext2D.prototype.clearRect = function (...all) {
        window.strokes = [];
        return clearRect.apply(this, all);
    };
    CanvasRenderingContext2D.prototype.stroke = function (path) {
        window.strokes.push([this.strokeStyle, this.globalAlpha]);
        return stroke.call(this, path);
    };
}"""

# The same run with other facts about its layers.
OTHER = """(facts) => {
    const element = document.querySelector("regard-heads");
    const { source } = element;
    const layers = source.info.layers.map((layer) => ({ ...layer, ...facts }));
    const ask = (name) => [name, (...asked) => source[name](...asked)];
    element.source = {
        info: { ...source.info, layers },
        ...Object.fromEntries(["row", "column", "links", "rollout"].map(ask)),
    };
}"""


def links(run: Run, layer: int, least: float, count: int = 8) -> list[tuple[int, int, int, float]]:
    """(head, query, key, weight) of the strongest keys of each query, strongest first."""
    weights = run.weights(layer)[0]
    top = weights.topk(min(count, weights.shape[2]))
    found = [
        (head, query, int(top.indices[head, query, n]), float(top.values[head, query, n]))
        for head in range(weights.shape[0])
        for query in range(weights.shape[1])
        for n in range(top.values.shape[2])
        if top.values[head, query, n] > 0
    ]
    return sorted((each for each in found if each[3] >= least), key=lambda each: -each[3])


def count_of(opened: Opened) -> tuple[int, int]:
    text = str(opened.page.locator("regard-heads .count").text_content()).replace(",", "")
    words = text.split()
    return int(words[0]), int(words[2])


def listed(opened: Opened) -> list[tuple[int, int, float]]:
    """The list beside the picture: head, row, weight."""
    found = opened.page.locator("regard-heads li button").evaluate_all(
        """(all) => all.map((one) => {
            const head = one.children[1].textContent.split(" ")[1];
            return [head, one.dataset.row, one.lastChild.textContent];
        })"""
    )
    return [(int(head), int(row), float(weight)) for head, row, weight in found]


def word(opened: Opened, row: int, way: str = "from") -> Any:
    return opened.page.locator(f"regard-heads #{way}-{row}")


def same(found: list[tuple[int, int, float]], expected: list[tuple[int, int, float]]) -> None:
    assert [each[:2] for each in found] == [each[:2] for each in expected]
    assert [each[2] for each in found] == pytest.approx([each[2] for each in expected], abs=1.1e-4)


def test_it_counts_the_links_that_it_shows(open_page: OpenPage) -> None:
    run = made_run()
    opened = open_page(run_page(run), address="#view=heads&layer=1&least=0.3")
    known = [each for each in links(run, 1, 0.0) if each[3] >= 0.5 / 65535]
    assert count_of(opened) == (len(links(run, 1, 0.3)), len(known))
    opened.page.evaluate("location.hash = '#view=heads&layer=1&least=0.137'")
    opened.settle()
    assert count_of(opened)[0] == len(links(run, 1, 0.137))


def test_pointing_at_a_word_shows_its_links_alone_with_their_weights(open_page: OpenPage) -> None:
    run = made_run()
    opened = open_page(run_page(run), address="#view=heads&layer=1&least=0.01")
    word(opened, 7).hover()
    opened.settle()
    expected = [(head, key, w) for head, query, key, w in links(run, 1, 0.01) if query == 7]
    same(listed(opened), expected[:8])
    best: dict[int, float] = {}
    for _, key, weight in expected:
        best.setdefault(key, weight)
    for key in range(13):
        written = word(opened, key, "to").locator(".written").text_content()
        assert (written != "") == (key in best)
        if key in best:
            assert float(written.split("+")[0]) == pytest.approx(best[key], abs=1.1e-4)
    word(opened, 4, "to").hover()
    opened.settle()
    expected = [(head, query, w) for head, query, key, w in links(run, 1, 0.01) if key == 4]
    same(listed(opened), expected[:8])


def test_a_head_pointed_at_is_shown_alone_and_a_click_hides_it(open_page: OpenPage) -> None:
    opened = open_page(run_page(made_run()), address="#view=heads&layer=1&least=0.1")
    opened.page.evaluate(WATCH)
    chip = opened.page.get_by_role("button", name="Head 3")
    chip.hover()
    opened.settle()
    assert len({colour for colour, _ in opened.page.evaluate("strokes")}) == 1
    chip.click()
    opened.page.locator("h1").hover()
    opened.settle()
    assert opened.state()["only"] == "0,1,2,4"
    assert chip.get_attribute("aria-pressed") == "false"
    assert len({colour for colour, _ in opened.page.evaluate("strokes")}) == 4
    opened.page.get_by_role("button", name="all", exact=True).click()
    opened.settle()
    assert "only" not in opened.state()
    opened.page.get_by_role("button", name="none", exact=True).click()
    opened.settle()
    assert opened.state()["only"] == "none"
    assert opened.page.evaluate("strokes") == []
    assert "No head is shown" in str(opened.page.locator("regard-heads .nothing").text_content())


def test_the_head_chosen_above_is_shown_alone(open_page: OpenPage) -> None:
    run = made_run()
    opened = open_page(run_page(run), address="#view=heads&layer=1&head=2&least=0.2")
    assert count_of(opened)[0] == sum(each[0] == 2 for each in links(run, 1, 0.2))
    opened.page.get_by_role("button", name="Head 4").click()
    opened.settle()
    assert opened.state()["only"] == "2,4"
    assert "head" not in opened.state()


def test_the_slider_is_the_least_weight_and_is_in_the_address(open_page: OpenPage) -> None:
    run = made_run(causal=False)
    opened = open_page(run_page(run), address="#view=heads&layer=1&least=0.2")
    slider = opened.page.get_by_role("slider")
    assert slider.get_attribute("aria-valuetext") == "0.2"
    slider.focus()
    opened.page.keyboard.press("ArrowRight")
    opened.settle()
    assert opened.state()["least"] == "0.3"
    assert opened.page.locator("regard-heads output").text_content() == "0.3"
    assert count_of(opened)[0] == len(links(run, 1, 0.3))
    opened.page.keyboard.press("End")
    opened.settle()
    assert "No link is as strong as 1" in str(
        opened.page.locator("regard-heads .nothing").text_content()
    )


def test_links_to_the_first_word_can_be_left_out(open_page: OpenPage) -> None:
    run = made_run()
    opened = open_page(run_page(run), address="#view=heads&layer=1&least=0.1")
    opened.page.get_by_role("checkbox").check()
    opened.settle()
    assert opened.state()["first"] == "without"
    left = [each for each in links(run, 1, 0.1) if each[2] != 0]
    assert count_of(opened)[0] == len(left)
    word(opened, 7).hover()
    opened.settle()
    same(listed(opened), [(head, key, w) for head, query, key, w in left if query == 7][:8])
    word(opened, 0, "to").hover()
    opened.settle()
    assert listed(opened) == []


def test_stronger_links_have_stronger_lines(open_page: OpenPage) -> None:
    opened = open_page(run_page(made_run()), address="#view=heads&layer=1&head=2&least=0")
    opened.page.evaluate(WATCH)
    opened.page.evaluate("location.hash = '#view=heads&layer=1&head=2&least=0.001'")
    opened.settle()
    opacities = [opacity for _, opacity in opened.page.evaluate("strokes")]
    assert len(opacities) > 3
    assert opacities == sorted(opacities)


def test_a_click_keeps_a_word_and_the_text_view_knows_it(open_page: OpenPage) -> None:
    opened = open_page(run_page(made_run()), address="#view=heads&layer=1")
    word(opened, 8, "to").click()
    opened.page.locator("h1").hover()
    opened.settle()
    assert opened.state()["token"] == "8"
    assert opened.state()["way"] == "to"
    assert "“it” is looked at by" in str(opened.page.locator("regard-heads .told").text_content())
    word(opened, 8, "to").click()
    opened.settle()
    assert "token" not in opened.state()


def test_keys_alone_lead_to_every_word_and_its_links_are_said(open_page: OpenPage) -> None:
    run = made_run()
    opened = open_page(run_page(run), address="#view=heads&layer=1&least=0.01")
    opened.page.get_by_role("checkbox").focus()
    opened.page.keyboard.press("Tab")
    for key in ("ArrowDown", "ArrowDown", "End", "ArrowUp"):
        opened.page.keyboard.press(key)
    opened.settle()
    active = "element.shadowRoot.querySelector('.stage').getAttribute('aria-activedescendant')"
    assert opened.ask(active) == "from-11"
    spoken = str(opened.page.locator("regard-heads .unseen").text_content())
    head, _, key, weight = next(each for each in links(run, 1, 0.01) if each[1] == 11)
    name = (run.tokens or [[]])[0][key].text
    begin, rest = spoken.split(" looks at ")
    assert begin == "“tired”"
    first = rest.split("; ")[0].split()
    assert (first[0], first[2:]) == (name, ["head", str(head)])
    assert float(first[1].strip(",")) == pytest.approx(weight, abs=1.1e-4)
    opened.page.keyboard.press("ArrowRight")
    opened.page.keyboard.press("Enter")
    opened.settle()
    assert opened.state()["token"] == "11"
    assert opened.state()["way"] == "to"
    opened.page.keyboard.press("Escape")
    opened.settle()
    assert "token" not in opened.state()
    opened.page.get_by_role("button", name="Head 1").focus()
    opened.page.keyboard.press("Enter")
    opened.settle()
    assert opened.state()["only"] == "0,2,3,4"


def test_a_sentence_is_not_taller_than_its_words(open_page: OpenPage) -> None:
    opened = open_page(run_page(made_run()), address="#view=heads")
    box = opened.page.locator("regard-heads .stage").bounding_box()
    assert box is not None
    assert box["height"] == pytest.approx(13 * 24 + 2, abs=1)
    last = word(opened, 12).bounding_box()
    assert last["y"] + last["height"] <= box["y"] + box["height"] + 1


def test_a_long_text_has_as_many_rows_as_are_seen_and_links_over_its_edges(
    open_page: OpenPage,
) -> None:
    run = made_run(long_text(2003), layers=2, heads=3, keep=False)
    opened = open_page(run_page(run), address="#view=heads&layer=0&head=1&least=0")
    layer = run.layer(0)
    assert layer.top_keys is not None
    assert layer.top_weights is not None
    assert count_of(opened)[1] == int((layer.top_keys >= 0).sum())
    assert opened.ask("element.shadowRoot.querySelectorAll('*').length") < 400
    opened.page.evaluate(WATCH)
    stage = opened.page.locator("regard-heads .stage")
    stage.evaluate("(stage) => { stage.scrollTop = 24 * 1000; }")
    opened.settle()
    name = (run.tokens or [[]])[0][1003].text
    assert word(opened, 1003).locator(".name").text_content() == name
    assert opened.page.evaluate("strokes.length") > 0
    assert opened.ask("element.shadowRoot.querySelectorAll('*').length") < 400
    # A word looks at others that are far out of sight; they are named, and one can go there.
    word(opened, 1005).hover()
    opened.settle()
    keys = layer.top_keys[0, 1, 1005].tolist()
    weights = layer.top_weights[0, 1, 1005].tolist()
    same(listed(opened), [(1, key, weight) for key, weight in zip(keys, weights, strict=True)])
    word(opened, 1005).click()
    far = next(n for n, key in enumerate(keys) if abs(key - 1005) > 60)
    opened.page.locator("regard-heads li button").nth(far).click()
    opened.settle()
    word(opened, keys[far], "to").wait_for()


@pytest.mark.parametrize("name", SENTENCES)
def test_words_of_every_language_are_text_and_stay_in_their_place(
    open_page: OpenPage, name: str
) -> None:
    run = made_run(SENTENCES[name] + " " + "long" * 30, layers=1, heads=2)
    opened = open_page(run_page(run), address="#view=heads", height=1700)
    names = [token.text for token in (run.tokens or [[]])[0]]
    shown = opened.page.locator("regard-heads .side.left .name").all_text_contents()
    assert sorted(each for each in shown if each) == sorted(names)
    assert opened.page.locator("regard-heads b, regard-heads script").count() == 0
    row = len(names) - 1
    box = word(opened, row).locator(".name").bounding_box()
    assert box is not None
    assert box["width"] < 210
    assert box["height"] <= 24
    assert word(opened, row).get_attribute("title") == "long" * 30


def test_it_can_be_seen_in_the_light_and_in_the_dark(open_page: OpenPage) -> None:
    opened = open_page(run_page(made_run()), address="#view=heads&layer=1&least=0.1")
    opened.page.evaluate(WATCH)
    colours: list[set[str]] = []
    for scheme in ("light", "dark"):
        opened.page.emulate_media(color_scheme=scheme)
        opened.page.evaluate("document.querySelector('regard-heads').changed()")
        opened.settle()
        colours.append({colour for colour, _ in opened.page.evaluate("strokes")})
    assert len(colours[0]) == len(colours[1]) == 5
    assert not colours[0] & colours[1]


def test_a_layer_that_looks_at_another_text_has_numbers_and_says_so(open_page: OpenPage) -> None:
    opened = open_page(run_page(made_run(causal=False)), address="#view=heads")
    opened.page.evaluate(OTHER, {"cross": True, "named": False})
    opened.page.evaluate("location.hash = '#view=heads&layer=1'")
    opened.settle()
    assert word(opened, 5).locator(".name").text_content() == "5"
    assert "they have numbers" in str(opened.page.locator("regard-heads .told").text_content())


def test_a_narrow_window_holds_it(open_page: OpenPage) -> None:
    opened = open_page(run_page(made_run()), address="#view=heads&token=7", width=400, height=700)
    assert opened.ask("document.documentElement.scrollWidth") <= 400
