"""`<regard-atlas>`: every weight of a head as a map, in a browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import pytest
from helpers.browser_page import Opened
from helpers.made_runs import SENTENCES, long_text, made_run

from regard.view.html.run import run_page

OpenPage = Callable[..., Opened]

# Heads of as many tokens as one likes, with weights ((query + 2 · key + head) mod 97 + 1) / 1000,
# and `window.diagonal`, if it is set, from a token to itself. What was asked for is noted in
# `window.asked`, how many answers were due at once in `window.most`; answers wait in `window.held`.
FAKE = """(() => {
    const [queries, keys, wait] = values;
    window.asked = []; window.most = 0;
    let now = 0;
    const layer = { name: "made up", cross: false, causal: false, heads: 3, queries, keys,
        position: 0, named: false, real: [null] };
    const info = { model: "fake", sequences: [{ text: null, tokens: null }], layers: [layer, layer],
        heads: [], notes: [], whole: true, top: 0, bits: 32, rollout: false, stages: null };
    const tile = async (sequence, layer, head, level, row, column, reduce) => {
        window.asked.push([sequence, layer, head, level, row, column, reduce].join(" "));
        window.most = Math.max(window.most, ++now);
        await new Promise((done) => window.held ? window.held.push(done) : setTimeout(done, wait));
        now--;
        if (window.fails) throw new Error("the server is <b>gone</b>");
        const size = 2 ** level;
        const height = Math.min(256, Math.ceil(queries / size) - row * 256);
        const width = Math.min(256, Math.ceil(keys / size) - column * 256);
        const values = new Float32Array(height * width);
        for (let r = 0; r < height; r++) for (let c = 0; c < width; c++) {
            const [q, k] = [(row * 256 + r) * size, (column * 256 + c) * size];
            values[r * width + c] = ((q + 2 * k + head) % 97 + 1) / 1000;
            if (q === k && window.diagonal) values[r * width + c] = window.diagonal;
        }
        return { values, height, width };
    };
    element.source = { info, tile, finest: async () => 0 };
    return true;
})()"""


def readout(opened: Opened) -> str:
    """What the page says about the cell that is pointed at, as lines."""
    parts = opened.page.locator("regard-atlas .readout > *").all_inner_texts()
    return "\n".join(part for part in parts if part)


def rest(opened: Opened) -> None:
    """Wait until the map has come to rest: all is loaded, and the address says where it stands."""
    opened.page.wait_for_timeout(320)
    opened.settle()
    opened.page.locator('regard-atlas .map[aria-busy="false"]').wait_for()


def until_held(opened: Opened, count: int) -> None:
    """Wait until so many tiles were asked for, none of which is answered."""
    script = """async (count) => {
        for (let n = 0; n < 1000 && window.held.length < count; n++) {
            await new Promise((done) => setTimeout(done, 10));
        }
        return window.held.length;
    }"""
    assert opened.page.evaluate(script, count) == count


def where(opened: Opened, query: int, key: int) -> tuple[float, float]:
    spot = opened.ask("element.where(...values)", query, key)
    return spot["x"], spot["y"]


def point(opened: Opened, query: int, key: int) -> str:
    opened.page.mouse.move(*where(opened, query, key))
    opened.settle()
    return readout(opened)


def number(text: str) -> float:
    """The last number of a line."""
    return float(re.findall(r"[\d.]+(?:e[+−]\d+)?", text.split("\n")[0])[-1].replace("−", "-"))


def colour(opened: Opened, query: int, key: int) -> list[int]:
    """The colour of a pixel near the corner of a cell, where no figure stands."""
    x, y = where(opened, query, key)
    script = """(() => {
        const map = element.root.querySelector(".map"), box = map.getBoundingClientRect();
        const [x, y] = values;
        const one = document.createElement("canvas").getContext("2d", { willReadFrequently: true });
        one.drawImage(map, x - box.left, y - box.top, 1, 1, 0, 0, 1, 1);
        return [...one.getImageData(0, 0, 1, 1).data];
    })()"""
    shift = 9 if opened.ask("element.where(0, 1).x - element.where(0, 0).x") > 24 else 0
    return opened.ask(script, x - shift, y - shift)


@pytest.mark.parametrize("text", SENTENCES.values(), ids=SENTENCES)
def test_pointing_gives_both_tokens_and_the_weight_that_python_has(
    open_page: OpenPage, text: str
) -> None:
    run = made_run(text)
    opened = open_page(run_page(run), address="#view=atlas&layer=1&head=3")
    tokens = [token.text for token in (run.tokens or [[]])[0]]
    weights = run.weights(1, 3)[0]
    for query, key in ((7, 2), (9, 9), (3, 5)):
        said = point(opened, query, key)
        shown = re.sub("[\u202e]", "·", f"{tokens[query]} → {tokens[key]}: ")
        assert said.startswith(shown)
        assert number(said) == pytest.approx(float(weights[query, key]), abs=1e-4)
        assert f"query {query}, key {key}" in said
    assert opened.page.locator("regard-atlas b, regard-atlas script").count() == 0


@pytest.mark.parametrize(("name", "reduce"), [("mean", "mean"), ("maximum", "max")])
def test_a_block_has_the_mean_or_the_maximum_of_its_weights(
    open_page: OpenPage, name: str, reduce: str
) -> None:
    run = made_run(long_text(1009), layers=1, heads=2, hidden_states=False)
    opened = open_page(run_page(run), address="#view=atlas&head=1")
    assert opened.ask("element.source.info.whole")
    opened.page.get_by_role("button", name=name, exact=True).click()
    rest(opened)
    assert opened.state().get("atlas-reduce", "mean") == reduce
    said = point(opened, 707, 304)
    found = re.match(r"queries (\d+)–(\d+) × keys (\d+)–(\d+): (\w+)", said)
    assert found is not None
    assert found[5] == name
    top, bottom, left, right = (int(found[n]) for n in range(1, 5))
    assert top <= 707 <= bottom
    assert left <= 304 <= right
    block = run.weights(0, 1)[0, top : bottom + 1, left : right + 1]
    expected = float(block.max() if reduce == "max" else block.mean())
    assert number(said) == pytest.approx(expected, rel=0.02, abs=2e-5)


def test_the_wheel_zooms_where_the_pointer_is_and_the_address_can_be_shared(
    open_page: OpenPage,
) -> None:
    page = run_page(made_run(long_text(211), layers=1, heads=2))
    opened = open_page(page, address="#view=atlas&head=1")
    before = point(opened, 150, 50)
    spot = where(opened, 150, 50)
    for _ in range(5):
        opened.page.mouse.wheel(0, -200)
    rest(opened)
    after = where(opened, 150, 50)
    scale = opened.ask("element.where(0, 1).x - element.where(0, 0).x")
    assert scale > 12
    assert abs(after[0] - spot[0]) <= scale
    assert abs(after[1] - spot[1]) <= scale
    assert readout(opened) == before
    at = opened.state()["at"]
    again = open_page(page, address=f"#view=atlas&head=1&at={at}")
    rest(again)
    assert where(again, 150, 50) == pytest.approx(after, abs=1)
    again.page.locator("regard-atlas .overview").wait_for()


def test_dragging_pans_and_a_click_chooses_the_token_that_looks(open_page: OpenPage) -> None:
    opened = open_page(
        run_page(made_run(long_text(211), layers=1)), address="#view=atlas&head=1&at=100,100,20"
    )
    rest(opened)
    x, y = where(opened, 100, 100)
    opened.page.mouse.move(x, y)
    opened.page.mouse.down()
    opened.page.mouse.move(x - 60, y + 40, steps=4)
    opened.page.mouse.up()
    rest(opened)
    assert where(opened, 100, 100) == pytest.approx((x - 60, y + 40), abs=1)
    assert "token" not in opened.state()
    assert opened.state()["at"].startswith("98.")
    opened.page.mouse.click(*where(opened, 103, 97))
    opened.settle()
    assert opened.state()["token"] == "103"
    near = opened.ask("element.where(0, 1).x - element.where(0, 0).x")
    opened.page.mouse.dblclick(*where(opened, 103, 97))
    rest(opened)
    assert opened.ask("element.where(0, 1).x - element.where(0, 0).x") == pytest.approx(2 * near)


def test_two_fingers_zoom(open_page: OpenPage) -> None:
    opened = open_page(run_page(made_run(long_text(211), layers=1)), address="#view=atlas&head=1")
    rest(opened)
    x, y = where(opened, 100, 100)
    session = opened.page.context.new_cdp_session(opened.page)

    def touch(kind: str, *points: tuple[float, float]) -> None:
        places = [{"x": px, "y": py, "id": n} for n, (px, py) in enumerate(points)]
        session.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": places})

    scale = "element.where(0, 1).x - element.where(0, 0).x"
    before = opened.ask(scale)
    touch("touchStart", (x - 20, y), (x + 20, y))
    for n in range(1, 7):
        touch("touchMove", (x - 20 - 10 * n, y), (x + 20 + 10 * n, y))
    touch("touchEnd")
    rest(opened)
    assert opened.ask(scale) == pytest.approx(4 * before, rel=0.15)
    assert where(opened, 100, 100) == pytest.approx((x, y), abs=12)


def test_the_keyboard_alone_moves_reads_and_chooses(open_page: OpenPage) -> None:
    run = made_run(long_text(211), layers=1)
    opened = open_page(run_page(run), address="#view=atlas&head=2")
    press = opened.page.keyboard.press
    opened.page.locator("regard-atlas .map").focus()
    scale = "element.where(0, 1).x - element.where(0, 0).x"
    whole = opened.ask(scale)
    for key in ("+", "+", "+", "+", "ArrowDown", "ArrowLeft"):
        press(key)
    rest(opened)
    assert opened.ask(scale) == pytest.approx(whole * 1.5**4)
    found = re.search(r"query (\d+), key (\d+)", readout(opened))
    assert found is not None
    query, key = int(found[1]), int(found[2])
    assert query > 105 > key
    expected = float(run.weights(0, 2)[0, query, key])
    assert number(readout(opened)) == pytest.approx(expected, abs=1e-4)
    press("Shift+ArrowDown")
    opened.settle()
    assert f"query {query + 1}, key {key}" in readout(opened)
    press("Enter")
    opened.settle()
    assert opened.state()["token"] == str(query + 1)
    press("Home")
    rest(opened)
    assert "query 0, key 0" in readout(opened)
    press("-")
    press("0")
    rest(opened)
    assert opened.ask(scale) == pytest.approx(whole)
    assert "at" not in opened.state()


def test_arrows_read_cell_by_cell_where_all_is_seen(open_page: OpenPage) -> None:
    opened = open_page(run_page(made_run()), address="#view=atlas&head=0")
    opened.page.locator("regard-atlas .map").focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowLeft"):
        opened.page.keyboard.press(key)
    opened.settle()
    assert "query 7, key 5" in readout(opened)


def test_buttons_do_what_keys_do(open_page: OpenPage) -> None:
    opened = open_page(run_page(made_run(long_text(211), layers=1)), address="#view=atlas&head=2")
    for name in ("Zoom in", "Zoom in", "Zoom in", "Move right", "Move down", "Zoom out"):
        opened.page.get_by_role("button", name=name).click()
    rest(opened)
    assert "at" in opened.state()
    opened.page.get_by_role("button", name="Show all").click()
    rest(opened)
    assert "at" not in opened.state()


def test_diagonal_and_first_token_can_be_left_out_of_the_colours(open_page: OpenPage) -> None:
    opened = open_page(run_page(made_run(causal=False)), address="#view=atlas&layer=1&head=3")
    before = [colour(opened, *cell) for cell in ((4, 4), (6, 0), (6, 3))]
    opened.page.get_by_role("button", name="diagonal").click()
    opened.page.get_by_role("button", name="first token").click()
    opened.settle()
    assert opened.state()["atlas-mask"] == "diagonal first"
    assert "left out" in point(opened, 4, 4)
    assert "left out" in point(opened, 6, 0)
    assert "left out" not in point(opened, 6, 3)
    assert opened.page.locator("regard-atlas .hatched").inner_text() == "left out"
    opened.page.mouse.move(5, 5)
    opened.settle()
    after = [colour(opened, *cell) for cell in ((4, 4), (6, 0))]
    assert before[0] != after[0]
    assert before[1] != after[1]


def test_what_is_left_out_does_not_make_the_scale(open_page: OpenPage) -> None:
    opened = open_page(run_page(made_run()), address="#view=atlas&head=0&atlas-scale=linear")
    opened.page.evaluate("window.diagonal = 0.8")
    opened.ask(FAKE, 7, 7, 0)
    rest(opened)
    most = "element.root.querySelector('.legend').lastChild.textContent"
    assert float(opened.ask(most)) == pytest.approx(0.8)
    opened.page.get_by_role("button", name="diagonal").click()
    rest(opened)
    assert float(opened.ask(most)) == pytest.approx(0.02)  # (5 + 12 + 1) / 1000, rounded up


def test_light_and_dark_have_colours_of_their_own(open_page: OpenPage) -> None:
    opened = open_page(run_page(made_run()), address="#view=atlas&head=0")
    rest(opened)
    assert sum(colour(opened, 6, 5)[:3]) < 250
    assert sum(colour(opened, 2, 9)[:3]) > 700
    opened.page.emulate_media(color_scheme="dark")
    rest(opened)
    assert sum(colour(opened, 6, 5)[:3]) > 600
    assert sum(colour(opened, 2, 9)[:3]) < 80


def test_log_and_linear_differ_and_stand_in_the_address(open_page: OpenPage) -> None:
    opened = open_page(run_page(made_run()), address="#view=atlas&layer=2&head=1")
    rest(opened)
    weights = made_run().weights(2, 1)[0]
    query, key = divmod(int((weights - 0.05).abs().argmin()), weights.shape[1])
    log = colour(opened, query, key)
    opened.page.get_by_role("button", name="linear").click()
    opened.settle()
    assert opened.state()["atlas-scale"] == "linear"
    assert sum(colour(opened, query, key)) > sum(log)


def test_without_a_head_the_first_is_shown_and_others_are_offered(open_page: OpenPage) -> None:
    opened = open_page(run_page(made_run()), address="#view=atlas")
    assert "No head is chosen" in opened.page.locator("regard-atlas .choose").inner_text()
    opened.page.get_by_role("button", name="Head 3", exact=True).click()
    opened.settle()
    assert opened.state()["head"] == "3"
    assert opened.page.locator("regard-atlas .choose").is_hidden()


def test_a_file_with_some_levels_shows_what_it_has_and_says_so(open_page: OpenPage) -> None:
    run = made_run(long_text(1031), layers=5, heads=7)
    opened = open_page(run_page(run), address="#view=atlas&layer=1&head=3")
    rest(opened)
    level = opened.ask("element.source.info.level")
    assert level > 0
    note = opened.page.locator("regard-atlas .note")
    assert note.inner_text() == ""
    assert re.match(r"queries \d+–\d+ × keys \d+–\d+: mean", point(opened, 900, 100))
    opened.page.evaluate("location.hash = '#view=atlas&layer=1&head=3&at=700,690,16'")
    rest(opened)
    size = 2**level
    assert f"blocks of {size} × {size} weights" in note.inner_text()
    layer = run.layer(1)
    assert layer.top_keys is not None
    assert layer.top_weights is not None
    seen = 0
    for query in range(690, 706):
        for key, weight in zip(
            layer.top_keys[0, 3, query].tolist(),
            layer.top_weights[0, 3, query].tolist(),
            strict=True,
        ):
            if 680 <= key <= 700 and seen < 3:
                assert number(point(opened, query, key)) == pytest.approx(weight, abs=1e-4)
                seen += 1
    assert seen > 0
    inside = set(layer.top_keys[0, 3, 700].tolist())
    other = next(key for key in range(690, 700) if key not in inside)
    said = point(opened, 700, other)
    assert "not in this file" in said
    assert "mean" in said
    assert number(point(opened, 690, 700)) == 0  # a query may not look ahead


def test_a_file_without_levels_shows_the_small_map(open_page: OpenPage) -> None:
    run = made_run(long_text(1031), layers=5, heads=7, keep=False)
    opened = open_page(run_page(run), address="#view=atlas&layer=1&head=3")
    rest(opened)
    said = point(opened, 900, 100)
    found = re.match(r"queries (\d+)–(\d+) × keys (\d+)–(\d+): mean", said)
    assert found is not None
    top, bottom, left, right = (int(found[n]) for n in range(1, 5))
    kept = made_run(long_text(1031), layers=5, heads=7)
    block = kept.weights(1, 3)[0, top : bottom + 1, left : right + 1]
    assert number(said) == pytest.approx(float(block.mean()), rel=0.02, abs=1e-5)


def test_a_hundred_thousand_tokens_open_pan_and_zoom(open_page: OpenPage) -> None:
    opened = open_page(run_page(made_run()), address="#view=atlas&head=1")
    opened.ask(FAKE, 100_003, 100_003, 5)
    rest(opened)
    asked = opened.ask("window.asked")
    assert len(asked) == len(set(asked)) <= 17
    assert asked[0] == "0 0 1 9 0 0 mean"  # all of it first
    assert opened.ask("window.most") <= 4
    assert "queries" in point(opened, 50_000, 20_000)
    opened.ask("window.asked.length = 0")
    opened.page.evaluate("location.hash = '#view=atlas&head=1&at=50000,70000,30'")
    rest(opened)
    assert "0 0 1 0 195 273 mean" in opened.ask("window.asked")
    said = point(opened, 50_003, 70_001)
    assert said.startswith("50003 → 70001: ")
    assert number(said) == pytest.approx(((50_003 + 140_002 + 1) % 97 + 1) / 1000)
    size = opened.ask("element.root.querySelectorAll('*').length")
    assert size < 120
    assert len(opened.ask("element.frames")) > 3


def test_tiles_are_asked_for_once_and_the_nearest_first(open_page: OpenPage) -> None:
    opened = open_page(run_page(made_run()), address="#view=atlas&head=1")
    opened.page.evaluate("location.hash = '#view=atlas&head=1&at=3000,3000,1'")
    opened.settle()
    opened.ask(FAKE, 8209, 8209, 30)
    rest(opened)
    asked = opened.ask("window.asked")
    assert len(asked) == len(set(asked))
    spots = [[int(n) for n in each.split()[4:6]] for each in asked if each.split()[3] == "0"]
    middle = 3000 / 256 - 0.5
    far = [((row - middle) ** 2 + (column - middle) ** 2) ** 0.5 for row, column in spots]
    assert far == sorted(far)
    for at in ("3200,3100,1", "3000,3000,1"):
        opened.page.evaluate(f"location.hash = '#view=atlas&head=1&at={at}'")
        rest(opened)
    again = opened.ask("window.asked")
    assert len(again) == len(set(again))


def test_what_is_no_longer_seen_is_not_asked_for(open_page: OpenPage) -> None:
    opened = open_page(run_page(made_run()), address="#view=atlas&head=1&at=1000,1000,1")
    opened.page.evaluate("window.held = []")
    opened.ask(FAKE, 100_003, 100_003, 0)
    until_held(opened, 4)
    opened.page.evaluate("location.hash = '#view=atlas&head=1&at=90000,90000,1'")
    opened.settle()
    opened.page.evaluate("window.held.splice(0).forEach((done) => done()); window.held = null")
    rest(opened)
    rows = [int(each.split()[4]) for each in opened.ask("window.asked") if each.split()[3] == "0"]
    assert sum(row < 100 for row in rows) <= 4  # those that were under way
    assert sum(row > 300 for row in rows) >= 4


def test_a_late_answer_of_another_head_is_not_drawn(open_page: OpenPage) -> None:
    opened = open_page(run_page(made_run()), address="#view=atlas&head=1")
    opened.page.evaluate("window.held = []")
    opened.ask(FAKE, 7, 7, 0)
    until_held(opened, 1)
    opened.page.evaluate("location.hash = '#view=atlas&head=2'")
    until_held(opened, 2)
    opened.page.evaluate("window.held.reverse().forEach((done) => done())")
    rest(opened)
    assert number(point(opened, 3, 1)) == pytest.approx((3 + 2 + 2 + 1) / 1000)


def test_a_part_that_does_not_come_is_told_of_and_asked_for_again(open_page: OpenPage) -> None:
    opened = open_page(run_page(made_run()), address="#view=atlas&head=1")
    opened.page.evaluate("window.fails = true")
    opened.ask(FAKE, 7, 7, 0)
    rest(opened)
    alert = opened.page.locator("regard-atlas [role=alert]")
    assert "could not be had: the server is <b>gone</b>" in alert.inner_text()
    assert opened.ask("window.asked.length") == 1
    opened.page.evaluate("window.fails = false")
    opened.page.get_by_role("button", name="Try again").click()
    rest(opened)
    assert alert.inner_text() == ""
    assert number(point(opened, 3, 1)) == pytest.approx((3 + 2 + 1 + 1) / 1000)


@pytest.mark.parametrize(("width", "height"), [(1200, 800), (400, 800)])
def test_the_map_fits_in_the_window(open_page: OpenPage, width: int, height: int) -> None:
    opened = open_page(
        run_page(made_run(long_text(211), layers=1)),
        address="#view=atlas&head=1",
        width=width,
        height=height,
    )
    rest(opened)
    box: Any = opened.page.locator("regard-atlas .map").bounding_box()
    assert box["x"] >= 0
    assert box["x"] + box["width"] <= width
    assert opened.page.evaluate("document.documentElement.scrollWidth") <= width
    if width > 1000:
        assert box["y"] + box["height"] <= height
