"""<regard-steps>: the matrices of every step, and how each of their numbers came about."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from helpers.browser_page import Opened
from helpers.made_runs import SENTENCES, long_text
from helpers.traced_models import traced

from regard import Projections, Trace, trace
from regard._steps import STEPS
from regard.view.figures import figures
from regard.view.html.trace import trace_page
from regard.worked import EXAMPLES, example

OpenPage = Callable[..., Opened]


@pytest.fixture
def open_page(open_page: OpenPage) -> OpenPage:
    """Pages on their steps, not on the whole pass."""

    def opener(html: str, address: str = "", **options: Any) -> Opened:
        return open_page(html, address=f"#view=steps{address.replace('#', '&')}", **options)

    return opener


MAT = "The cat sat on the mat"
TWELVE = "The animal did not cross the street because it was too tired"


def places(step: Any) -> Iterator[tuple[int, int, int]]:
    """Head, row and column of every cell."""
    array = step.array if step.has_heads else step.array[None]
    yield from np.ndindex(array.shape)


def cell(opened: Opened, row: int, column: int, head: int = 0) -> Any:
    figure = opened.page.locator("regard-steps .results figure").nth(head)
    return figure.locator(f'.cell[data-row="{row}"][data-column="{column}"]')


def line(opened: Opened) -> str:
    return str(opened.page.locator("regard-steps .line").text_content())


def lit(opened: Opened) -> list[list[str]]:
    """Of each matrix that the cell was made from, the labels that light up."""
    figures = opened.page.locator("regard-steps .made figure").all()
    marked = ":is(.side, .above):is(.left, .right)"
    return [figure.locator(marked).all_text_contents() for figure in figures]


# ── the numbers ──────────────────────────────────────────────────────────────────────────────────


def worked_traces() -> Iterator[Trace]:
    for name in EXAMPLES:
        yield example(name).trace()
        if name != "given":
            yield example(name).trace(causal=True)
            yield example(name).trace(scale=False)
    yield trace(MAT, positions="sinusoidal")


def model_traces() -> Iterator[Trace]:
    """Attentions of models: turned, biased, grouped, of slices, of another sequence."""
    for name in ("rotary neighbours, some", "rotary halves", "ALiBi", "low-rank value", "cross"):
        yield traced(name).attention()
    yield traced("slices").attention()
    yield traced("scaled otherwise").attention()


def random_traces() -> Iterator[Trace]:
    """Numbers of every size, some 0, some −0, some halfway between two figures."""
    random = np.random.default_rng(0)

    def numbers(*shape: int, size: float, halves: bool) -> Any:
        made = random.normal(size=shape) * size
        made[random.random(shape) < 0.15] = 0.0
        made[random.random(shape) < 0.05] = -0.0
        # Multiples of 1/32 lie halfway between two figures of four decimals.
        return np.round(made * 32) / 32 if halves else made

    for size in (1e-120, 1e-5, 0.03, 1.0, 300.0, 1e5, 1e60):
        for halves, heads, width in ((False, 2, 3), (True, 1, 4)):
            shape = (heads, 5, width)
            w_q, w_k, w_v = (numbers(*shape, size=size, halves=halves) for _ in range(3))
            w_o = numbers(heads * width, 3, size=1.0, halves=halves)
            model = Projections(w_q, w_k, w_v, None if halves else w_o)
            x = numbers(3, 5, size=1.0, halves=halves)
            positions = "none" if halves else "sinusoidal"
            yield trace(x, model=model, causal=not halves, scale=size != 1.0, positions=positions)
    # More terms than are written out.
    yield trace(random.normal(size=(17, 19)), heads=1)


@pytest.mark.parametrize("traces", [worked_traces, random_traces, model_traces])
def test_every_line_is_that_of_python_letter_by_letter(
    open_page: OpenPage, traces: Callable[[], Iterator[Trace]]
) -> None:
    opened = open_page(trace_page(example("cat").trace()))
    made = list(traces())
    cells = [
        [(name, i, j, h) for name, step in each.steps.items() for h, i, j in places(step)]
        for each in made
    ]
    found = opened.ask(
        """{
            const lines = values[0].map((source, n) => {
                element.source = source;
                return values[1][n].map((cell) => element.explain(...cell));
            });
            return lines;
        }""",
        [json.loads(each.to_json()) for each in made],
        cells,
    )
    for each, asked, lines in zip(made, cells, found, strict=True):
        assert lines == [str(each.explain(*place)) for place in asked]


@pytest.mark.parametrize("made", [example("apple").trace(), trace(MAT, causal=True)])
def test_the_cells_of_every_step_are_written_as_python_writes_them(
    open_page: OpenPage, made: Trace
) -> None:
    opened = open_page(trace_page(made))
    for name, step in made.steps.items():
        opened.page.locator(f"regard-steps #tab-{name}").click()
        opened.settle()
        written = {
            (head, int(each["row"]), int(each["column"])): each["text"]
            for head, cells in enumerate(
                opened.ask(
                    """[...element.shadowRoot.querySelectorAll(".results figure")].map((figure) =>
                        [...figure.querySelectorAll(".cell")].map((cell) =>
                            ({ ...cell.dataset, text: cell.textContent })))"""
                )
            )
            for each in cells
        }
        expected = figures(step.array.reshape(-1, step.array.shape[-1]))
        shown = [written[place] for place in places(step)]
        assert shown == [text for row in expected for text in row]


def test_each_step_has_its_number_title_formula_and_meaning(open_page: OpenPage) -> None:
    made = example("poem").trace()
    opened = open_page(trace_page(made))
    page = opened.page
    tabs = page.locator("regard-steps").get_by_role("tab").all_text_contents()
    assert tabs == [f"{n + 1} {kind.title}" for n, kind in enumerate(STEPS.values())]
    for name, step in made.steps.items():
        page.locator(f"regard-steps #tab-{name}").click()
        opened.settle()
        assert page.locator("regard-steps h2 code").text_content() == step.formula.replace("_", "")
        assert page.locator("regard-steps h2 + p").text_content() == step.meaning.replace("_", "")
    later = open_page(trace_page(example("given").trace()))
    tabs = later.page.locator("regard-steps").get_by_role("tab").all_text_contents()
    assert tabs == ["4 Value", "7 Weights", "8 Head output"]


# ── pointing ─────────────────────────────────────────────────────────────────────────────────────


def test_pointing_at_a_cell_writes_its_calculation_and_leaving_takes_it_back(
    open_page: OpenPage,
) -> None:
    made = trace(MAT)
    opened = open_page(trace_page(made), address="#step=scores&cell=0,1")
    assert line(opened) == made.explain("scores", 0, 1)
    for name, head, row, column in (
        ("scores", 0, 2, 5),
        ("scores", 1, 4, 3),
        ("weights", 1, 5, 2),
        ("head_output", 0, 1, 1),
        ("output", 0, 3, 2),
    ):
        opened.page.locator(f"regard-steps #tab-{name}").click()
        opened.settle()
        cell(opened, row, column, head).hover()
        assert line(opened) == made.explain(name, row, column, head)
    # It does not fill the history.
    assert opened.state() == {"view": "steps", "step": "output", "cell": "0,1"}
    opened.page.mouse.move(5, 5)
    assert line(opened) == made.explain("output", 0, 1)


LIT = {
    "input": [],
    "query": [["sat"], ["q2"]],
    "key": [["sat"], ["k2"]],
    "value": [["sat"], ["v2"]],
    "scores": [["sat"], ["cat"]],
    "scaled": [["cat", "sat"]],
    "weights": [["cat", "sat"]],
    "head_output": [["sat"], ["v2"]],
    "concatenated": [["sat", "z2"], []],
    "output": [["sat"], ["o2"]],
}


def test_the_rows_and_columns_that_made_a_cell_light_up(open_page: OpenPage) -> None:
    opened = open_page(trace_page(trace(MAT)), address="#step=input&cell=2,1")
    for name, labels in LIT.items():
        opened.page.locator(f"regard-steps #tab-{name}").click()
        opened.settle()
        assert [sorted(each) for each in lit(opened)] == labels
        lights = opened.page.locator("regard-steps .made .band").count()
        # The row of a weight lights up, and its own score in it.
        assert lights == sum(1 for each in labels if each) + (name == "weights")
        assert opened.page.locator("regard-steps .results .band.result").count() == 1


def test_what_a_cell_is_made_from_follows_the_head_that_is_pointed_at(open_page: OpenPage) -> None:
    made = trace(MAT)
    opened = open_page(trace_page(made), address="#step=scores")
    cell(opened, 3, 1, head=1).hover()
    names = opened.page.locator("regard-steps .made figcaption").all_text_contents()
    assert all("head 2" in name for name in names)
    first = opened.page.locator("regard-steps .made figure").first
    shown = first.locator('.cell[data-row="3"]').all_text_contents()
    assert shown == figures(made.steps["query"].array.reshape(-1, 2))[6 + 3]


def test_a_click_keeps_a_cell_and_a_click_on_what_made_it_leads_there(open_page: OpenPage) -> None:
    made = trace(MAT)
    opened = open_page(trace_page(made), address="#step=scores")
    cell(opened, 4, 2, head=1).click()
    opened.settle()
    assert opened.state() == {"view": "steps", "step": "scores", "cell": "4,2", "head": "1"}
    second = opened.page.locator("regard-steps .made figure").nth(1)
    second.locator('.cell[data-row="2"][data-column="1"]').click()
    opened.settle()
    assert opened.state() == {"view": "steps", "step": "key", "cell": "2,1", "head": "1"}
    assert line(opened) == made.explain("key", 2, 1, 1)


# ── keyboard ─────────────────────────────────────────────────────────────────────────────────────


def test_everything_can_be_reached_with_the_keyboard(open_page: OpenPage) -> None:
    made = trace(MAT)
    opened = open_page(trace_page(made))
    press = opened.page.keyboard.press

    def keys(*names: str) -> None:
        for name in names:
            press(name)
            opened.settle()

    # First the three buttons that save and the tab of the view; the one that goes back is disabled.
    keys("Tab", "Tab", "Tab", "Tab", "Tab")
    assert opened.ask("element.shadowRoot.activeElement.id") == "tab-input"
    keys("ArrowRight", "End", "Home", "ArrowRight", "ArrowRight")
    assert opened.state()["step"] == "key"
    assert opened.ask("element.shadowRoot.activeElement.id") == "tab-key"
    keys("Tab", "Tab")  # the button on, then the first head
    assert opened.ask("element.shadowRoot.activeElement.getAttribute('role')") == "grid"
    keys("ArrowDown", "ArrowDown", "ArrowRight", "ArrowUp")
    assert opened.state()["cell"] == "2,1"
    assert line(opened) == made.explain("key", 2, 1)
    keys("PageDown", "PageDown")
    assert opened.state()["step"] == "scores"
    keys("End", "ArrowRight")
    assert opened.state()["cell"] == "2,5"
    assert line(opened) == made.explain("scores", 2, 5)
    active = "element.shadowRoot.activeElement.getAttribute('aria-activedescendant')"
    pointed = f"element.shadowRoot.getElementById({active}).dataset.column"
    assert opened.ask(pointed) == "5"
    keys("Tab")  # the second head, at the same place
    assert opened.state()["head"] == "1"
    assert line(opened) == made.explain("scores", 2, 5, 1)
    keys("PageUp", "Control+End", "Control+ArrowUp")
    assert opened.state()["step"] == "value"
    assert line(opened) == made.explain("value", 0, 1, 1)


def test_focus_stays_in_the_matrix_when_the_next_step_has_fewer_heads(open_page: OpenPage) -> None:
    opened = open_page(trace_page(trace(MAT)), address="#step=head_output&head=1")
    opened.page.locator("regard-steps .results .grid").nth(1).focus()
    opened.page.keyboard.press("PageDown")
    opened.settle()
    assert opened.state()["step"] == "concatenated"
    assert opened.ask("element.shadowRoot.activeElement.getAttribute('role')") == "grid"


def test_names_and_roles_are_there_for_a_screen_reader(open_page: OpenPage) -> None:
    opened = open_page(trace_page(trace(MAT)), address="#step=weights")
    grid = opened.page.get_by_role("grid", name="A, head 2")
    assert grid.get_attribute("aria-rowcount") == grid.get_attribute("aria-colcount") == "7"
    assert grid.get_by_role("gridcell").count() == 36
    assert grid.get_by_role("rowheader").all_text_contents() == MAT.split()
    assert grid.get_by_role("columnheader").all_text_contents() == MAT.split()
    assert opened.page.get_by_role("status").text_content() == line(opened)
    assert opened.page.get_by_role("tabpanel", name="7 Weights").count() == 1


# ── looks ────────────────────────────────────────────────────────────────────────────────────────

CONTRAST = """{
    const light = (colour) => {
        const [r, g, b] = colour.match(/[\\d.]+/g).map(Number).map((x) => x / 255)
            .map((x) => (x <= 0.04045 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r + 0.7152 * g + 0.0722 * b;
    };
    return [...element.shadowRoot.querySelectorAll(".cell:not(.none)")].map((cell) => {
        const { color, backgroundColor } = getComputedStyle(cell);
        const [a, b] = [light(color), light(backgroundColor)].sort((x, y) => y - x);
        return (a + 0.05) / (b + 0.05);
    });
}"""


def test_light_and_dark_differ_and_both_can_be_read(open_page: OpenPage) -> None:
    html, shades = trace_page(trace(TWELVE)), []
    for dark in (False, True):
        for name in ("scores", "weights"):
            opened = open_page(html, address=f"#step={name}", dark=dark)
            assert min(opened.ask(CONTRAST)) >= 4.5
        shades.append(
            opened.ask("getComputedStyle(element.shadowRoot.querySelector('.cell')).background")
        )
    assert shades[0] != shades[1]


@pytest.mark.parametrize("language", SENTENCES)
def test_tokens_of_every_language_are_labels_and_nothing_else(
    open_page: OpenPage, language: str
) -> None:
    made = trace(SENTENCES[language], causal=True)
    opened = open_page(trace_page(made), address="#step=scaled&cell=0,1", height=1200)
    grid = opened.page.locator("regard-steps .results .grid").first
    shown = grid.get_by_role("rowheader").all_text_contents()
    assert len(shown) >= min(16, len(made.tokens))
    assert shown == list(made.tokens)[: len(shown)]
    assert line(opened) == made.explain("scaled", 0, 1)
    assert opened.page.locator("regard-steps :is(script, b:not(figcaption b))").count() == 0


def test_what_cannot_be_seen_in_a_token_is_shown_by_a_sign(open_page: OpenPage) -> None:
    tokens = ["\u202eturned", "a\nb", "<b>", ""]
    made = trace([[0.5, 1.0], [1.5, 0.25], [1.0, 0.0], [0.0, 2.0]], tokens=tokens, causal=True)
    opened = open_page(trace_page(made), address="#step=scaled&cell=0,1")
    grid = opened.page.locator("regard-steps .results .grid").first
    assert grid.get_by_role("rowheader").all_text_contents() == ["·turned", "a⏎b", "<b>", "∅"]
    assert "“a⏎b” comes after “·turned”" in line(opened)


def test_the_heads_of_twelve_words_stand_side_by_side_and_nothing_is_cut(
    open_page: OpenPage,
) -> None:
    opened = open_page(trace_page(trace(TWELVE, width=8)), address="#step=scores", height=900)
    first, second = opened.page.locator("regard-steps .results .grid").all()
    a, b = first.bounding_box(), second.bounding_box()
    assert a is not None
    assert b is not None
    assert a["y"] == b["y"]
    assert a["x"] + a["width"] < b["x"]
    whole = (
        "(grid) => grid.scrollWidth <= grid.clientWidth && grid.scrollHeight <= grid.clientHeight"
    )
    assert first.evaluate(whole)
    assert second.evaluate(whole)
    assert opened.ask("document.documentElement.scrollHeight") <= 900


@pytest.mark.parametrize("step", ["input", "query", "scores", "weights", "head_output", "output"])
def test_a_few_words_are_large_where_there_is_room_and_nothing_is_cut(
    open_page: OpenPage, step: str
) -> None:
    def looked_at(width: int) -> tuple[float, bool]:
        opened = open_page(
            trace_page(example("apple").trace()), address=f"#view=steps&step={step}", width=width
        )
        cells = opened.page.locator("regard-steps .results .cell")
        size = cells.first.evaluate("(cell) => parseFloat(getComputedStyle(cell).fontSize)")
        whole = opened.page.evaluate(
            "[...document.querySelector('regard-steps').root.querySelectorAll('.grid, .side')]"
            ".every(each => each.scrollWidth <= each.clientWidth)"
        )
        return size, whole

    small, large = looked_at(1280), looked_at(1920)
    assert small == (16, True)
    assert large[0] >= 21
    assert large[1]


def test_letters_above_narrow_columns_are_all_turned_the_same_way(open_page: OpenPage) -> None:
    words = "고양이가 따뜻한 매트 위에 앉아서 잠을 잤다"
    opened = open_page(trace_page(trace(words)), address="#step=weights", width=400)
    upright = opened.page.locator("regard-steps .results .upright .above").first
    style = "(each) => [getComputedStyle(each).writingMode, getComputedStyle(each).textOrientation]"
    assert upright.evaluate(style) == ["vertical-rl", "sideways"]


def test_a_narrow_window_scrolls_matrices_and_not_the_page(open_page: OpenPage) -> None:
    opened = open_page(trace_page(trace(TWELVE)), width=400)
    for name in STEPS:
        opened.page.locator(f"regard-steps #tab-{name}").click()
        opened.settle()
        assert opened.ask("document.documentElement.scrollWidth") <= 400


# ── long texts ───────────────────────────────────────────────────────────────────────────────────


def test_of_a_long_trace_only_what_can_be_seen_is_in_the_document(open_page: OpenPage) -> None:
    made = trace(long_text(151), width=62)
    address = "#step=scores&cell=149,101&head=1"
    opened = open_page(trace_page(made), address=address, height=900)
    count = "element.shadowRoot.querySelectorAll('*').length"
    assert opened.ask(count) < 2500  # of 2 · 151 · 151 + 2 · 151 · 31 cells
    assert line(opened) == made.explain("scores", 149, 101, 1)
    grid = opened.page.locator("regard-steps .results .grid").nth(1)
    inside = """(cell) => {
        const own = cell.getBoundingClientRect();
        const grid = cell.closest(".grid").getBoundingClientRect();
        return own.top >= grid.top && own.bottom <= grid.bottom && own.left >= grid.left
            && own.right <= grid.right;
    }"""
    answer = opened.page.locator("regard-steps .answer").bounding_box()
    chosen = cell(opened, 149, 101, 1).bounding_box()
    assert answer is not None
    assert chosen is not None
    assert chosen["y"] + chosen["height"] < answer["y"]
    assert cell(opened, 149, 101, 1).evaluate(inside)
    rows = [opened.page.locator("regard-steps .made figure").nth(n) for n in (0, 1)]
    assert rows[0].locator(".side.left").evaluate(inside)
    assert rows[1].locator(".side.right").evaluate(inside)
    grid.evaluate("(grid) => { grid.scrollTop = 0; grid.scrollLeft = 0; }")
    opened.settle()
    assert cell(opened, 0, 0, 1).evaluate(inside)
    assert opened.ask(count) < 2500


def test_labels_stay_where_they_are_when_a_matrix_scrolls(open_page: OpenPage) -> None:
    opened = open_page(trace_page(trace(long_text(151), width=62)), address="#step=weights")
    grid = opened.page.locator("regard-steps .results .grid").first
    grid.evaluate("(grid) => { grid.scrollTop = 1100; grid.scrollLeft = 900; }")
    opened.settle()
    box = grid.bounding_box()
    assert box is not None
    row = int(grid.locator(".row").nth(5).get_attribute("aria-rowindex") or 0)
    side = grid.locator(f'[aria-rowindex="{row}"] .side').bounding_box()
    above = grid.locator(".above").nth(5).bounding_box()
    assert side is not None
    assert above is not None
    assert side["x"] == box["x"] + 1
    assert box["y"] <= above["y"]
    assert above["y"] + above["height"] <= box["y"] + box["height"] / 2


# ── the address ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "address",
    ["#step=none&cell=x", "#step=weights&cell=999,999&head=99", "#cell=-1,0&step=toString"],
)
def test_an_address_of_nowhere_leads_somewhere(open_page: OpenPage, address: str) -> None:
    made = example("apple").trace()
    opened = open_page(trace_page(made), address=address)
    known = {
        str(made.explain(name, i, j, h))
        for name in made.steps
        for h, i, j in places(made.steps[name])
    }
    assert line(opened) in known


def test_without_an_address_it_begins_at_the_first_step_with_a_cell_worked_out(
    open_page: OpenPage,
) -> None:
    made = example("scaling").trace()
    opened = open_page(trace_page(made))
    assert (
        opened.page.locator("regard-steps").get_by_role("tab", selected=True).text_content()
        == "2 Query"
    )
    assert line(opened) == made.explain("query", 0, 0)


# ── editing ──────────────────────────────────────────────────────────────────────────────────────

LISTEN = """{
    window.edits = [];
    element.addEventListener("regard-edit", (event) => window.edits.push(event.detail));
    element.setAttribute("editable", "");
    return null;
}"""


def test_an_edit_is_told_and_nothing_is_changed(open_page: OpenPage) -> None:
    opened = open_page(trace_page(trace(MAT)), address="#step=query&head=1")
    opened.ask(LISTEN)
    opened.settle()
    page = opened.page
    matrix = page.locator("regard-steps .made .grid").nth(1)
    before = matrix.locator('.cell[data-row="2"][data-column="1"]')
    text = before.text_content()
    before.dblclick()
    page.keyboard.type("−0,5")
    page.keyboard.press("Enter")
    matrix.focus()
    for key in ("ArrowUp", "ArrowLeft", "Enter"):
        page.keyboard.press(key)
    page.keyboard.type("x")
    page.keyboard.press("Enter")  # no number: it stays open
    assert page.locator("regard-steps input").get_attribute("aria-invalid") == "true"
    page.keyboard.press("Escape")
    page.keyboard.press("7")
    page.keyboard.press("Enter")
    assert opened.ask("window.edits") == [
        {"matrix": "W_Q", "head": 1, "row": 2, "column": 1, "value": -0.5},
        {"matrix": "W_Q", "head": 1, "row": 1, "column": 0, "value": 7},
    ]
    assert before.text_content() == text


def test_the_input_can_be_edited_where_it_is_given(open_page: OpenPage) -> None:
    for made, place in (
        (trace(MAT), ".results"),
        (trace(MAT, positions="sinusoidal"), ".made"),
    ):
        opened = open_page(trace_page(made))
        opened.ask(LISTEN)
        opened.settle()
        grid = opened.page.locator(f"regard-steps {place} .grid").first
        grid.locator('.cell[data-row="3"][data-column="2"]').dblclick()
        opened.page.keyboard.type("11")
        opened.page.keyboard.press("Enter")
        expected = {"matrix": "X", "head": 0, "row": 3, "column": 2, "value": 11}
        assert opened.ask("window.edits") == [expected]


def test_other_numbers_replace_those_shown_where_they_stand(open_page: OpenPage) -> None:
    opened = open_page(trace_page(trace(MAT, seed=0)), address="#step=query&cell=3,1")
    other = trace(MAT, seed=7)
    opened.page.locator("regard-steps .results .grid").first.focus()
    opened.ask("{ element.source = values[0]; return null; }", json.loads(other.to_json()))
    opened.settle()
    assert line(opened) == other.explain("query", 3, 1)
    expected = figures(other.steps["query"].array.reshape(-1, 2))[3][1]
    assert cell(opened, 3, 1).text_content() == expected
    assert opened.ask("element.shadowRoot.activeElement.getAttribute('role')") == "grid"


def test_nothing_can_be_edited_unless_it_is_asked_for(open_page: OpenPage) -> None:
    opened = open_page(trace_page(trace(MAT)))
    cell(opened, 1, 1).dblclick()
    assert opened.page.locator("regard-steps input").count() == 0
