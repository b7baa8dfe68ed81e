"""Movement: where each layer moved a word's vector, in a picture and in numbers."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from helpers.browser_page import Opened
from helpers.made_runs import SENTENCES, long_text, made_run
from numpy.typing import NDArray

from regard.run import Run
from regard.view.html.bundle import bundle
from regard.view.html.run import run_page

OpenPage = Callable[..., Opened]
Array = NDArray[np.float64]

WIDTH = 23


def fine_run(text: str = SENTENCES["English"], *, layers: int = 3, grow: float = 1.0) -> Run:
    """A run whose hidden states are known before and after attention and the feed-forward layer."""
    run = made_run(text, layers=layers)
    generator = torch.Generator().manual_seed(7)
    x = torch.randn(1, len((run.tokens or [[]])[0]), WIDTH, generator=generator)
    run.hidden_states = {"embedding": x}
    for layer in range(layers):
        for part in ("attention", "feed-forward"):
            x = x * grow + torch.randn(x.shape, generator=generator) * 0.7
            run.hidden_states[f"{layer} {part}"] = x
    return run


@cache
def fine_page() -> str:
    return run_page(fine_run())


def hidden_states(run: Run, words: list[int]) -> Array:
    """(words, stages, width)"""
    stacked = torch.stack(list(run.hidden_states.values()), dim=2)[0]
    return stacked[words].double().numpy()


def principal(points: Array) -> tuple[Array, Array]:
    """Coordinates (n, 2) and shares of the variance, by NumPy's SVD, signs by the same rule."""
    centred = points - points.mean(axis=0)
    _, values, axes = np.linalg.svd(centred, full_matrices=False)
    axes = axes[:2]
    axes *= np.sign(axes[range(2), np.abs(axes).argmax(axis=1)])[:, None]
    return centred @ axes.T, (values**2 / (values**2).sum())[:2]


def cosine(a: Array, b: Array) -> float:
    return float(a @ b / np.linalg.norm(a) / np.linalg.norm(b))


def number(text: str) -> float:
    return float(text.replace("−", "-").replace("+", ""))


def table(opened: Opened, rows: str) -> list[list[str]]:
    """The cells of rows, as text."""
    script = "(rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent))"
    return list(opened.page.locator(rows).evaluate_all(script))


def chosen(opened: Opened) -> list[int]:
    pressed = opened.page.locator('regard-shift .chip[aria-pressed="true"]')
    return [int(each) for each in pressed.evaluate_all("(all) => all.map((x) => x.dataset.token)")]


# ── numbers ──────────────────────────────────────────────────────────────────────────────────────


def test_the_directions_are_those_of_numpys_svd(browser: Any) -> None:
    page = browser.new_page()
    script = f"async ([points, width]) => {{ {bundle('pca')}; "
    script += "const { coordinates, shares, axes } = await $pca.principal(points, width);"
    script += " return [coordinates.map((x) => [...x]), shares, axes.map((x) => [...x])]; }"
    for shape in ((2, 7), (13, 5), (17, 53), (53, 17), (131, 61), (61, 131)):
        walk = np.random.default_rng(3).normal(size=shape).cumsum(axis=0).astype(np.float32)
        found, shares, axes = page.evaluate(script, [walk.ravel().tolist(), shape[1]])
        expected, expected_shares = principal(walk.astype(np.float64))
        if shape[0] == 2:  # two points differ in one direction only
            expected[:, 1] = 0
        assert np.abs(np.array(found).T - expected).max() <= 1e-4 * np.abs(expected).max()
        assert shares == pytest.approx(expected_shares, abs=1e-5)
        assert all(max(axis, key=abs) >= 0 for axis in axes)
    same = page.evaluate(script, [[3.0] * 35, 7])
    assert same[0] == [[0.0] * 5] * 2
    assert same[1] == [0, 0]
    page.close()


def test_the_similarities_are_those_of_python_and_sorted_by_their_change(
    open_page: OpenPage,
) -> None:
    run, words = fine_run(), [1, 5, 8, 11]
    opened = open_page(run_page(run), address="#view=shift&words=1,5,8,11&upto=3")
    x = hidden_states(run, words)
    names = ["animal", "the", "it", "tired"]
    expected = {
        f"{names[a]} · {names[b]}": (cosine(x[a, 0], x[b, 0]), cosine(x[a, 3], x[b, 3]))
        for a in range(4)
        for b in range(a + 1, 4)
    }
    rows = table(opened, "regard-shift .pairs tbody tr")
    assert {row[0] for row in rows} == set(expected)
    for name, before, _, after, change in rows:
        was, now = expected[name]
        assert [number(before), number(after)] == pytest.approx([was, now], abs=0.0051)
        assert number(change) == pytest.approx(now - was, abs=0.0051)
    changes = [expected[row[0]][1] - expected[row[0]][0] for row in rows]
    assert changes == sorted(changes, reverse=True)


def test_the_lengths_of_the_moves_are_those_of_python(open_page: OpenPage) -> None:
    run = fine_run()
    opened = open_page(run_page(run), address="#view=shift&words=1,8&token=8")
    x = hidden_states(run, [8])[0]
    moves = np.linalg.norm(np.diff(x, axis=0), axis=1) / np.linalg.norm(x[:-1], axis=1)
    cells = opened.page.locator("regard-shift .moves td").all_text_contents()
    assert [number(each) for each in cells] == pytest.approx(moves, abs=0.0051)
    heading = table(opened, "regard-shift .moves thead tr")
    assert heading == [["layer", "attention", "feed-forward"]]
    readout = opened.page.locator("regard-shift .readout").text_content() or ""
    assert readout == (
        f"“it” after layer 2, feed-forward: this move went {moves[-1]:.2f} of its length; "
        f"similarity to where it began {cosine(x[0], x[-1]):.2f}."
    )


@pytest.mark.parametrize("lengths", ["raw", "directions"])
def test_the_picture_is_drawn_to_the_scale_of_the_directions(
    open_page: OpenPage, lengths: str
) -> None:
    run, words = fine_run(), [2, 5, 7, 11]
    address = f"#view=shift&words=2,5,7,11&lengths={lengths}"
    opened = open_page(run_page(run), address=address)
    x = hidden_states(run, words)
    x = x / np.linalg.norm(x, axis=2, keepdims=True) if lengths == "directions" else x
    points, shares = principal(x.reshape(-1, WIDTH))
    points = points.reshape(len(words), -1, 2)
    # Attention's moves lead from the even places to the odd ones; the last place is not on them.
    paths = [
        opened.page.locator(f'regard-shift .word[data-token="{word}"] path.attention')
        for word in words
    ]
    numbers = [re.findall(r"[\d.]+", path.get_attribute("d")) for path in paths]
    drawn = np.array(numbers, dtype=float).reshape(-1, 2)
    expected = points[:, :6].reshape(-1, 2) * [1, -1]
    scale = np.ptp(drawn[:, 0]) / np.ptp(expected[:, 0])
    drawn, expected = drawn - drawn.mean(axis=0), expected - expected.mean(axis=0)
    assert np.ptp(drawn[:, 0]) > 100
    assert np.abs(drawn - expected * scale).max() < 0.2  # places are written to a tenth of a pixel
    said = opened.page.locator("regard-shift").get_by_text("Across and up").text_content()
    assert f"they show {round(100 * float(shares.sum()))} % of it" in said


def test_vectors_that_grow_are_shown_by_their_directions_unless_asked_for(
    open_page: OpenPage,
) -> None:
    opened = open_page(run_page(fine_run(grow=1.5)), address="#view=shift")
    pressed = opened.page.locator('regard-shift .field [aria-pressed="true"]')
    assert pressed.text_content() == "directions only"
    said = opened.page.locator("regard-shift").get_by_text("Across and up")
    assert "only their directions are shown" in (said.text_content() or "")
    opened.page.get_by_role("button", name="as they are").click()
    opened.settle()
    assert pressed.text_content() == "as they are"
    assert opened.state()["lengths"] == "raw"
    again = open_page(fine_page(), address="#view=shift")
    pressed = again.page.locator('regard-shift .field [aria-pressed="true"]')
    assert pressed.text_content() == "as they are"


# ── choosing words ───────────────────────────────────────────────────────────────────────────────


def test_the_first_words_are_the_chosen_one_and_those_it_attends_to_most(
    open_page: OpenPage,
) -> None:
    run = fine_run()
    opened = open_page(run_page(run), address="#view=shift&token=8")
    weights = run.weights(2).mean(dim=1)[0, 8]
    others = sorted((n for n in range(8)), key=lambda n: -float(weights[n]))[:4]
    assert chosen(opened) == sorted([8, *others])
    assert opened.page.locator("regard-shift .label.focus").text_content() == "it"
    unasked = open_page(run_page(run), address="#view=shift")
    assert chosen(unasked) == [1, 4, 6, 7, 11]  # animal, cross, street, because, tired


def test_a_click_adds_a_word_and_another_takes_it_away(open_page: OpenPage) -> None:
    opened = open_page(fine_page(), address="#view=shift&words=1,6")
    chip = opened.page.locator('regard-shift .chip[data-token="8"]')
    colours = "(all) => all.map((each) => each.getAttribute('fill'))"
    chip.click()
    opened.settle()
    assert opened.state() == {"view": "shift", "words": "1,6,8", "token": "8"}
    labels = opened.page.locator("regard-shift .label").all_text_contents()
    assert labels == ["animal", "street", "it"]
    begins = opened.page.locator("regard-shift .begin")
    before = begins.evaluate_all(colours)
    assert len(set(before)) == 3
    opened.page.locator('regard-shift .chip[data-token="1"]').click()
    opened.settle()
    assert opened.state()["words"] == "6,8"
    assert chosen(opened) == [6, 8]
    assert set(begins.evaluate_all(colours)) < set(before)  # a word keeps its colour


def test_twelve_words_are_the_most(open_page: OpenPage) -> None:
    words = ",".join(str(n) for n in range(12))
    opened = open_page(fine_page(), address=f"#view=shift&words={words}")
    opened.page.locator('regard-shift .chip[data-token="12"]').click(force=True)
    opened.settle()
    assert chosen(opened) == list(range(12))
    opened.page.get_by_text("12 words are the most").wait_for()
    assert opened.page.locator("regard-shift .pairs tbody tr").count() == 66
    opened.page.locator('regard-shift .chip[data-token="5"]').click()
    opened.settle()
    opened.page.get_by_text("11 of at most 12").wait_for()


def test_without_a_word_one_is_asked_for(open_page: OpenPage) -> None:
    opened = open_page(fine_page(), address="#view=shift&words=")
    opened.page.get_by_text("Choose a word above").wait_for()
    assert not opened.page.locator("regard-shift .picture").is_visible()
    opened.page.locator('regard-shift .chip[data-token="3"]').click()
    opened.settle()
    assert opened.page.locator("regard-shift .label").all_text_contents() == ["not"]
    opened.page.get_by_text("Choose a second word").wait_for()


@pytest.mark.parametrize("words", ["99,x,-1,1,1,6", "<b>", "1e9,3.5"])
def test_an_address_of_no_word_leads_somewhere(open_page: OpenPage, words: str) -> None:
    opened = open_page(fine_page(), address=f"#view=shift&words={words}&upto=99&token=7777")
    assert chosen(opened) == ([1, 6] if words.startswith("99") else [])
    assert not opened.page.locator("regard-shift .error").is_visible()


def test_a_long_text_is_searched_by_word_and_by_position(open_page: OpenPage) -> None:
    opened = open_page(run_page(made_run(long_text(2003))), address="#view=shift&words=1500")
    page = opened.page
    nodes = "element.shadowRoot.querySelectorAll('*').length"
    assert opened.ask(nodes) < 200
    search = page.get_by_role("combobox", name="Find a word")
    search.fill("TIRED")
    found = page.locator("regard-shift .found:not([hidden]) li")
    assert found.count() == 9
    assert "#11" in (found.first.text_content() or "")
    assert "more" in (found.last.text_content() or "")
    assert opened.ask(nodes) < 300
    search.press("ArrowDown")
    search.press("Enter")
    opened.settle()
    assert opened.state()["words"] == "1500,24"
    assert search.evaluate("(x) => x.getRootNode().activeElement === x")
    assert not found.count()
    search.fill("#1009")
    found.first.click()
    opened.settle()
    assert opened.state()["words"] == "1500,24,1009"
    search.fill("nothing of the kind")
    assert found.all_text_contents() == ["No such word."]
    search.press("Escape")
    assert search.input_value() == ""
    assert not found.count()
    page.locator('regard-shift .chip[data-token="24"]').click()
    opened.settle()
    assert opened.state()["words"] == "1500,1009"


# ── looking ──────────────────────────────────────────────────────────────────────────────────────


def test_attention_is_drawn_solid_and_the_feed_forward_layer_dashed(open_page: OpenPage) -> None:
    opened = open_page(fine_page(), address="#view=shift&words=1,6")
    style = "(path) => getComputedStyle(path).strokeDasharray"
    solid = opened.page.locator("regard-shift .word path.attention").first
    dashed = opened.page.locator("regard-shift .word path.feed-forward").first
    assert solid.evaluate(style) == "none"
    assert dashed.evaluate(style) != "none"
    keys = opened.page.locator("regard-shift .keys").text_content()
    assert "attention’s move" in keys
    assert "the feed-forward layer’s move" in keys
    assert "before any attention" in (
        opened.page.locator("regard-shift p").first.text_content() or ""
    )


def test_where_only_blocks_are_known_a_move_is_a_whole_layers(open_page: OpenPage) -> None:
    opened = open_page(run_page(made_run()), address="#view=shift&words=1,6")
    assert opened.page.locator("regard-shift .word path.layer").count() == 2
    keys = opened.page.locator("regard-shift .keys").text_content()
    assert "attention and feed-forward together" in keys
    assert "begins (layer 0)" in keys
    assert table(opened, "regard-shift .moves thead tr") == [["layer", "the layer’s move"]]


@pytest.mark.parametrize("width", [400, 1200])
@pytest.mark.parametrize("text", SENTENCES.values(), ids=SENTENCES)
def test_tokens_of_any_script_are_whole_and_stand_apart_in_the_picture(
    open_page: OpenPage, text: str, width: int
) -> None:
    run = fine_run(text)
    tokens = [token.text for token in (run.tokens or [[]])[0]]
    words = list(range(min(12, len(tokens))))
    address = "#view=shift&words=" + ",".join(map(str, words))
    opened = open_page(run_page(run), address=address, width=width)
    assert opened.page.locator("regard-shift .chip").all_text_contents() == tokens
    labels = opened.page.locator("regard-shift .label").all_text_contents()
    assert [re.sub(r" #\d+$", "", label) for label in labels] == tokens[:12]
    for upto in (0, 6):
        opened.page.get_by_role("slider").fill(str(upto))
        opened.settle()
        boxes = opened.page.locator("regard-shift .label text").evaluate_all(
            "(all) => all.map((x) => x.getBBox())"
            ".map((box) => [box.x, box.y, box.x + box.width, box.y + box.height])"
        )
        frame = opened.page.locator("regard-shift .picture svg").get_attribute("viewBox").split()
        assert len(boxes) == len(words)
        for n, (left, top, right, bottom) in enumerate(boxes):
            assert left >= 0
            assert top >= 0
            assert right <= float(frame[2])
            assert bottom <= float(frame[3])
            for other in boxes[:n]:
                apart = right <= other[0] or other[2] <= left
                # Their boxes are taller than their letters.
                assert apart or bottom <= other[1] + 2 or other[3] <= top + 2
    wide = "document.documentElement.scrollWidth <= innerWidth"
    assert opened.page.evaluate(wide)


def test_light_and_dark_have_colours_of_their_own(open_page: OpenPage) -> None:
    found = []
    for dark in (False, True):
        opened = open_page(fine_page(), address="#view=shift&words=1,6", dark=dark)
        begin = opened.page.locator("regard-shift .begin").first.get_attribute("fill")
        text = opened.page.locator("regard-shift .label text").first
        found.append((begin, text.evaluate("(x) => getComputedStyle(x).fill")))
    assert found[0][0] != found[1][0]
    assert found[0][1] != found[1][1]


def test_pointing_at_a_place_says_what_it_is_and_a_click_picks_the_word(
    open_page: OpenPage,
) -> None:
    run = fine_run()
    opened = open_page(run_page(run), address="#view=shift&words=1,6,8")
    begin = opened.page.locator('regard-shift .word[data-token="8"] .begin')
    box = begin.bounding_box()
    opened.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    readout = opened.page.locator("regard-shift .readout")
    assert readout.text_content() == "“it” where it begins: embedding."
    opened.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    opened.settle()
    assert opened.state()["token"] == "8"
    assert opened.page.locator("regard-shift .label.focus").text_content() == "it"
    opened.page.get_by_role("combobox", name="Word").select_option("street")
    opened.settle()
    assert opened.state()["token"] == "6"
    assert opened.state()["words"] == "1,6,8"


# ── step by step ─────────────────────────────────────────────────────────────────────────────────


def test_the_keyboard_alone_is_enough(open_page: OpenPage) -> None:
    opened = open_page(fine_page(), address="#view=shift&words=1,6")
    page = opened.page
    page.locator("#tab-shift").focus()
    page.keyboard.press("Tab")  # the first word: one stop for all of them
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("Enter")
    opened.settle()
    assert opened.state()["words"] == "1,6,2"
    focused = "document.querySelector('regard-shift').shadowRoot.activeElement"
    assert page.evaluate(f"{focused}.dataset.token") == "2"
    page.keyboard.press("Tab")
    assert page.evaluate(f"{focused}.textContent") == "Play"
    page.keyboard.press("Tab")
    page.keyboard.press("ArrowLeft")
    opened.settle()
    assert opened.state()["upto"] == "5"
    page.keyboard.press("Home")
    opened.settle()
    assert opened.state()["upto"] == "0"
    for _ in range(3):
        page.keyboard.press("Tab")
    assert page.evaluate(f"{focused}.className") == "picture"
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    opened.settle()
    assert opened.state()["upto"] == "1"
    assert opened.state()["token"] == "1"
    page.keyboard.press("End")
    opened.settle()
    assert "upto" not in opened.state()
    assert "layer 2, feed-forward" in page.locator("regard-shift .readout").text_content()


def test_the_journey_is_drawn_up_to_the_chosen_move(open_page: OpenPage) -> None:
    opened = open_page(fine_page(), address="#view=shift&words=1,6&upto=2")
    script = "(paths) => paths.map((x) => x.getAttribute('d').split('M').length - 1)"
    lines = opened.page.locator("regard-shift .word path")
    assert lines.evaluate_all(script) == [1, 1, 1, 1]
    slider = opened.page.get_by_role("slider")
    assert slider.get_attribute("aria-valuetext") == "layer 0, feed-forward"
    begin = opened.page.locator("regard-shift .begin").first.get_attribute("cx")
    slider.fill("5")
    opened.settle()
    assert lines.evaluate_all(script) == [3, 2, 3, 2]
    assert opened.page.locator("regard-shift .begin").first.get_attribute("cx") == begin


def test_play_walks_to_the_end_and_can_be_stopped(open_page: OpenPage) -> None:
    opened = open_page(run_page(fine_run(layers=2)), address="#view=shift&words=1,6")
    opened.page.get_by_role("button", name="Play").click()
    opened.page.get_by_role("button", name="Pause").click()
    opened.settle()
    assert int(opened.state()["upto"]) < 4
    opened.page.clock.install()
    opened.page.get_by_role("button", name="Play").click()
    opened.page.clock.run_for(5000)
    opened.page.get_by_role("button", name="Play").wait_for()
    assert "upto" not in opened.state()


def test_who_wants_less_motion_is_not_offered_any(open_page: OpenPage) -> None:
    opened = open_page(fine_page(), address="#view=shift", reduced_motion=True)
    assert not opened.page.locator("regard-shift").get_by_text("Play", exact=True).is_visible()
    opened.page.get_by_role("slider").wait_for()


# ── what does not come ───────────────────────────────────────────────────────────────────────────


def test_an_answer_that_comes_late_is_not_drawn(open_page: OpenPage) -> None:
    opened = open_page(fine_page(), address="#view=shift&words=1,6")
    opened.ask(
        """{
            const real = element.source.hiddenStates.bind(element.source);
            element.source.hiddenStates = async (sequence, tokens) => {
                const late = tokens.length === 3 ? 400 : 0;
                await new Promise((done) => setTimeout(done, late));
                return real(sequence, tokens);
            };
            return null;
        }"""
    )
    opened.page.locator('regard-shift .chip[data-token="8"]').click()
    opened.page.locator('regard-shift .chip[data-token="11"]').click()
    opened.page.wait_for_timeout(600)
    opened.settle()
    labels = opened.page.locator("regard-shift .label").all_text_contents()
    assert labels == ["animal", "street", "it", "tired"]


def test_a_word_without_a_vector_is_named(open_page: OpenPage) -> None:
    run = fine_run()
    run.hidden_states["1 attention"][0, 6, 3] = float("nan")
    opened = open_page(run_page(run), address="#view=shift&words=1,6,8")
    assert opened.page.locator("regard-shift .label").all_text_contents() == ["animal", "it"]
    opened.page.get_by_text("No hidden states were kept of “street” (#6).").wait_for()
