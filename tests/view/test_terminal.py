"""A trace in the terminal: it fits, is aligned and harmless, and says what it leaves out."""

from __future__ import annotations

import io
import re
import unicodedata
from typing import Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from regard import Trace, trace
from regard.view import find_cells, find_step, render, render_cells, render_scaling
from regard.view.figures import figures
from regard.view.labels import fit, most_cells, pad, visible
from regard.view.lines import paragraph
from regard.view.matrix import Matrix, table
from regard.view.report import render_report
from regard.view.steps import step_block
from regard.view.terminal import print_lines
from regard.worked import EXAMPLES, check_text, example

TEXTS = {
    "Korean": "나는 사과 전화기를 사랑한다 정말로",
    "Bengali": "আমি আপেল ফোন ভালোবাসি ক্ষমতা",
    "emoji": "👩‍👩‍👧 👍🏽 🇰🇷 ❤️ ok",
    "long": f"{'Donaudampfschifffahrt' * 9} {'가' * 80} {'ক্ষা' * 70} short",
    "combining": "e\u0301" + "\u0301" * 200 + " cafe\u0301 a\u200db\u200dc",
    "Chinese": "我爱苹果手机",
}
NUMBER = re.compile(r"−?\d+\.\d+(?:e[+−]\d+)?|−∞")


def plain(lines: list[Text]) -> list[str]:
    return [line.plain for line in lines]


def trace_of(tokens: list[str], causal: bool = False) -> Trace:
    """A trace of any tokens, with random numbers."""
    x = np.random.default_rng(0).normal(size=(len(tokens), 4))
    return trace(x, tokens=tokens, causal=causal)


def value_of(text: str) -> float:
    return float(text.replace("−", "-").replace("∞", "inf"))


# ── it fits, and it is aligned ────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("width", [40, 80, 100])
def test_no_line_is_wider_than_the_width(text: str, width: int) -> None:
    for causal in (False, True):
        shown = trace(text, causal=causal, positions="sinusoidal")
        unscaled = trace(text, causal=causal, positions="sinusoidal", scale=False)
        lines = render(shown, width) + render_scaling(shown, unscaled, width)
        lines += render_cells(shown, find_cells("1,2", shown), width)
        assert max(cell_len(line.plain) for line in lines) <= width


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("step", ["input", "query", "scores", "scaled", "weights", "output"])
def test_the_numbers_of_a_column_end_at_the_same_cell(text: str, step: str) -> None:
    shown = trace(text, causal=True)
    header, *rows = plain(step_block(shown, shown.steps[step], 76, head=0).lines)
    rows = rows[: len(shown.tokens)]
    ends = [[cell_len(row[: match.end()]) for match in NUMBER.finditer(row)] for row in rows]
    assert len(ends[0]) >= shown.steps[step].array.shape[-1]
    assert all(row == ends[0][: len(row)] for row in ends)
    assert len({cell_len(line) for line in (header, *rows)}) <= 2


def test_a_column_label_ends_above_its_numbers() -> None:
    block = table(["a", "b"], [Matrix("", ("사과", "x"), np.array([[1.25, 2.5], [3.0, -4.0]]))], 80)
    header, first, _ = plain(block.lines)
    assert cell_len(header[: header.index("과") + 1]) == cell_len(first[: first.index("1.25") + 4])


def test_a_matrix_that_is_too_wide_is_divided_and_loses_no_column() -> None:
    tokens = [f"token{chr(97 + i)}" for i in range(14)]
    lines = plain(render(trace_of(tokens), 80, steps=["weights"], head=0))
    headers = [line for line in lines if line.lstrip().startswith("A")]
    assert len(headers) > 1
    assert [label for line in headers for label in line.split() if "token" in label] == tokens


def test_heads_stand_side_by_side_where_they_fit_and_below_one_another_where_not() -> None:
    shown = trace("one two three")
    wide, narrow = (plain(render(shown, width, steps=["weights"])) for width in (80, 40))
    assert sum("head 1" in line and "head 2" in line for line in wide) == 1
    assert not any("head 1" in line and "head 2" in line for line in narrow)
    assert sum("head 2" in line for line in narrow) == 1


# ── what is shown ─────────────────────────────────────────────────────────────────────────────


def test_the_apple_example_shows_ten_numbered_steps_in_at_most_110_lines() -> None:
    shown = example("apple").trace()
    lines = plain(render(shown, 80))
    assert [line[:2].strip() for line in lines if re.match(r"[ 1]\d  \w", line)] == [
        str(number) for number in range(1, 11)
    ]
    assert len(lines) <= 105  # and the suggestions at the end
    for step in shown.steps.values():
        assert any(step.title in line and step.formula in line for line in lines)
        assert step.meaning.split(";")[0] in " ".join(" ".join(lines).split())


@pytest.mark.parametrize("name", EXAMPLES)
def test_every_number_of_every_step_is_shown_as_it_is(name: str) -> None:
    shown = example(name).trace()
    for step in shown.steps.values():
        lines = plain(render(shown, 100, steps=[step.name], everything=True))
        written = {value_of(text) for line in lines for text in NUMBER.findall(line)}
        for value in step.array.ravel():
            assert min(abs(value - number) for number in written) <= 0.5e-4, step.name


def test_the_given_matrix_stands_beside_the_result() -> None:
    lines = plain(render(example("apple").trace(), 80, steps=["key"]))
    assert any(line.split() == ["apple", "0.6", "1.2", "x3", "0.0", "1.0"] for line in lines)


def test_embeddings_and_positions_are_shown_each() -> None:
    lines = plain(render(example("apple").trace(positions="sinusoidal"), 80, steps=["input"]))
    text = "\n".join(lines)
    for title in ("embeddings", "+ positions", "= X"):
        assert title in text
    assert "0.8415" in text  # sin 1


def test_a_head_that_is_known_by_its_output_only_is_said_to_be() -> None:
    lines = plain(render(example("apple").trace(), 80, steps=["query", "head_output"], head=1))
    assert any("known by its output only" in line for line in lines)
    assert any("1.02" in line for line in lines)


def test_the_worked_cell_is_the_marked_one_and_only_where_there_is_a_calculation() -> None:
    shown = example("apple").trace()
    for name, marked in (("scores", "1.75"), ("input", None)):
        lines = render(shown, 80, steps=[name])
        spans = [
            line.plain[span.start : span.end]
            for line in lines
            for span in line.spans
            if "underline" in str(span.style)
        ]
        assert spans == ([marked] if marked else [])
        assert any("e.g." in line.plain for line in lines) == bool(marked)


def test_what_is_masked_is_shown_as_minus_infinity_and_without_a_shade() -> None:
    lines = render(example("apple").trace(causal=True), 80, steps=["scaled"])
    row = next(line for line in lines if line.plain.lstrip().startswith("love"))
    assert row.plain.count("−∞") == 2
    shaded = [span for span in row.spans if getattr(span.style, "bgcolor", None) is not None]
    assert len(shaded) == 2


def test_shades_are_light_for_zero_and_differ_by_sign_and_size() -> None:
    array = np.array([[0.0, 0.5, 1.0, -0.5, -1.0]])
    line = table(["a"], [Matrix("", tuple("vwxyz"), array)], 80).lines[1]
    colours = [str(span.style).rpartition("on #")[2] for span in line.spans]
    assert len(set(colours)) == 5
    parts = [[int(colour[i : i + 2], 16) for i in (0, 2, 4)] for colour in colours]
    grey = [0.299 * red + 0.587 * green + 0.114 * blue for red, green, blue in parts]
    assert grey[0] > grey[1] > grey[2] > 128
    assert grey[0] > grey[3] > grey[4] > 100


def test_without_scaling_both_sets_of_weights_and_their_entropy_are_compared() -> None:
    scaling = example("scaling")
    text = "\n".join(plain(render_scaling(scaling.trace(), scaling.trace(scale=False), 80)))
    assert "√4" in text
    assert re.search(r"0\.7311 +0\.8808 +0\.5822 +0\.3653", text)


# ── long axes ─────────────────────────────────────────────────────────────────────────────────


def test_long_axes_show_their_ends_and_say_how_much_that_is() -> None:
    shown = trace(" ".join(f"w{i}" for i in range(1, 301)))
    lines = plain(render(shown, 80, steps=["weights"]))
    text = "\n".join(lines)
    said = re.search(r"12 of 300 rows and (\d+) of 300 columns shown; --all", text)
    assert said is not None
    header = next(line for line in lines if line.split()[:2] == ["A", "w1"])
    labels = header.split()[1:]
    assert len(labels) - 1 == int(said[1])
    assert labels[-1] == "w300"
    assert "…" in labels
    assert "w150" not in text


def test_everything_shows_every_row_and_column() -> None:
    shown = trace(" ".join(f"w{i}" for i in range(1, 41)), heads=1)
    lines = plain(render(shown, 80, steps=["weights"], everything=True))
    numbers = [number for line in lines if "≈" not in line for number in NUMBER.findall(line)]
    assert len(numbers) == 40 * 40
    assert "--all" not in "\n".join(lines)


def test_many_heads_are_cut_to_four_and_that_is_said() -> None:
    text = "\n".join(plain(render(trace("a b", heads=8, width=16), 80, steps=["weights"])))
    assert "4 of 8 heads shown; --all" in text
    assert "head 4" in text
    assert "head 5" not in text


# ── figures ───────────────────────────────────────────────────────────────────────────────────


@given(st.lists(st.floats(-1e5, 1e5), min_size=1, max_size=8))
def test_figures_are_right_to_half_of_the_last_decimal(values: list[float]) -> None:
    texts = figures(np.array([values]))[0]
    assert len({"e" in text for text in texts}) == 1
    for value, text in zip(values, texts, strict=True):
        shown = value_of(text)
        if "e" in text:
            assert abs(shown - value) <= 0.00501 * abs(value)
        else:
            decimals = len(text.partition(".")[2])
            assert 1 <= decimals <= 4
            assert abs(shown - value) <= 0.5000001 * 10.0**-decimals
            assert decimals == 4 or abs(shown - value) <= 1e-11 * max(1.0, abs(value))


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        ([1.0, 2.0], ["1.0", "2.0"]),
        ([1.2 * 1.1 + 0.6 * 0.7, 1.8], ["1.74", "1.80"]),
        ([1.0, 1e-9], ["1.0000", "0.0000"]),
        ([-1e-9, 0.5], ["0.0000", "0.5000"]),
        ([-0.0, -1.5], ["0.0", "−1.5"]),
        ([np.inf, -np.inf, np.nan, 1.0], ["∞", "−∞", "NaN", "1.0"]),
        ([3e-7, 0.0], ["3.00e−07", "0.00e+00"]),
        ([1234567.0, 1.0], ["1.23e+06", "1.00e+00"]),
    ],
)
def test_figures_have_common_decimals(row: list[float], expected: list[str]) -> None:
    assert figures(np.array([row])) == [expected]


# ── labels ────────────────────────────────────────────────────────────────────────────────────

HOSTILE = [
    "\x1b[31mred\x1b[0m",
    "\x9b31m",
    "\x1b]0;title\x07",
    "a\u202eb\u2066c",
    "\u200b\ufeff",
    "line\nbreak\ttab\r",
    "\x00\x7f\x08",
    "\ud800\uffff",
    "[red]x[/red]",
    ":smile:",
    "\u2028\u2029",
]


@pytest.mark.parametrize("token", HOSTILE)
def test_a_hostile_token_is_shown_and_obeyed_by_nobody(token: str) -> None:
    output = io.StringIO()
    console = Console(file=output, width=80, force_terminal=True, color_system=None)
    print_lines(render(trace_of([token, "b"]), console.width), console)
    text = output.getvalue()
    assert visible(token)[:4] in text
    forbidden = {"Cc", "Cf", "Cs", "Zl", "Zp"}
    found = {c for c in text if unicodedata.category(c) in forbidden and c != "\n"}
    assert not found
    assert all(cell_len(line) <= 80 for line in text.split("\n"))


def test_rich_markup_in_tokens_stays_literal() -> None:
    text = "\n".join(plain(render(trace_of(["[red]x", ":smile:"]), 80, steps=["query"])))
    assert "[red]x" in text
    assert ":smile:" in text


@given(st.text(max_size=40), st.integers(2, 20))
def test_a_label_fits_and_is_cut_between_characters(text: str, width: int) -> None:
    label = fit(text, width)
    assert most_cells(label) <= width
    if label != visible(text)[: len(label)]:
        assert label.endswith("…")
    for right in (False, True):
        assert cell_len(pad(label, width, right=right)) == width


@pytest.mark.parametrize(
    ("text", "width", "expected"),
    [
        ("cafe\u0301s", 4, "caf…"),
        ("cafe\u0301", 4, "cafe\u0301"),
        ("👩‍👩‍👧👩‍👩‍👧", 8, "👩‍👩‍👧…"),
        ("🇰🇷🇰🇷", 3, "🇰🇷…"),
        ("🇰🇷🇰🇷", 2, "…"),
        ("ক্ষমতা", 3, "ক্ষ…"),
        ("ক্ষমতা", 2, "…"),
        ("전화기", 4, "전…"),
    ],
)
def test_characters_of_several_code_points_are_kept_whole(
    text: str, width: int, expected: str
) -> None:
    assert fit(text, width) == expected


def test_a_pile_of_marks_on_one_letter_is_cut() -> None:
    assert len(fit("a" + "\u0301" * 500, 10)) < 20


@given(st.text(max_size=200), st.integers(12, 60))
def test_paragraphs_keep_every_word_and_fit(text: str, width: int) -> None:
    lines = plain(paragraph(text, width))
    assert all(most_cells(line) <= width for line in lines)
    assert "".join(lines).replace(" ", "") == "".join(visible(text).split())


# ── the console ───────────────────────────────────────────────────────────────────────────────


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sets_the_cursor_after_text_of_doubtful_width_only() -> None:
    for word, times in (("আমি", 1), ("love", 0)):
        output = Terminal()
        line = Text.assemble(word, ("  1.0 ", "bold"))
        console = Console(file=output, width=80, force_terminal=True, color_system="truecolor")
        print_lines([line], console)
        assert re.findall(r"\x1b\[\d+G", output.getvalue()) == ["\x1b[3G"] * times


def test_without_colour_there_is_no_code_and_no_blank_at_the_end_of_a_line() -> None:
    output = io.StringIO()
    print_lines(render(example("apple").trace(), 80), Console(file=output, width=80))
    assert "\x1b" not in output.getvalue()
    assert not any(line != line.rstrip() for line in output.getvalue().splitlines())


@pytest.mark.parametrize("colours", ["standard", "256", "truecolor"])
def test_sixteen_colours_are_not_enough_for_shades(
    colours: Literal["standard", "256", "truecolor"],
) -> None:
    output = io.StringIO()
    console = Console(file=output, width=80, force_terminal=True, color_system=colours)
    print_lines(render(example("apple").trace(), console.width), console)
    assert bool(re.search(r"[\[;](?:4|10)\d[;m]", output.getvalue())) == (colours != "standard")
    assert "\x1b[1m" in output.getvalue()


def test_long_lines_are_neither_wrapped_nor_cut_by_the_console() -> None:
    output = io.StringIO()
    print_lines([Text("x" * 200)], Console(file=output, width=80))
    assert output.getvalue() == "x" * 200 + "\n"


# ── choosing by name ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "step"),
    [
        ("weights", "weights"),
        ("WEIGHTS", "weights"),
        ("w", "weights"),
        ("7", "weights"),
        ("A", "weights"),
        ("s", "scores"),
        ("S′", "scaled"),
        ("S'", "scaled"),
        ("scaled scores", "scaled"),
        ("head_output", "head_output"),
        ("10", "output"),
        ("1", "input"),
    ],
)
def test_a_step_is_found_by_name_symbol_beginning_or_number(name: str, step: str) -> None:
    assert find_step(name, example("apple").trace()) == step


@pytest.mark.parametrize("name", ["", "0", "11", "sc", "nothing", "-1"])
def test_an_unknown_or_ambiguous_step_lists_the_steps(name: str) -> None:
    with pytest.raises(KeyError, match=r"1 input \(X\).*10 output \(O\)"):
        find_step(name, example("apple").trace())


def test_a_step_that_this_trace_has_not_got_is_not_found() -> None:
    with pytest.raises(KeyError, match=r"4 value \(V\), 7 weights"):
        find_step("scores", example("given").trace())


@pytest.mark.parametrize("cell", ["love,phones", "love phones", "love:phones", "LOVE , phones"])
def test_a_cell_is_two_labels_with_a_separator(cell: str) -> None:
    assert find_cells(cell, example("apple").trace(), "scores") == [("scores", 1, 3)]


def test_a_separator_can_be_a_token() -> None:
    shown = trace("well , love : it")
    assert find_cells(",,love", shown, "scores") == [("scores", 1, 2)]
    assert find_cells(",,,", shown, "scores") == [("scores", 1, 1)]
    assert find_cells("::,", shown, "scores") == [("scores", 3, 1)]
    assert find_cells(": it", shown, "scores") == [("scores", 3, 4)]


def test_labels_with_blanks_make_a_cell() -> None:
    shown = example("given").trace()
    assert find_cells("word 1,word 3", shown, "weights") == [("weights", 0, 2)]
    assert find_cells("word 1 word 3", shown, "weights") == [("weights", 0, 2)]


def test_a_cell_that_is_none_says_why() -> None:
    shown = trace("the cat the")
    for cell, why in (
        ("cat", "a row and a column"),
        ("cat,dog", "no key token 'dog'"),
        ("the,cat", "the#1, the#2"),
        ("", "a row and a column"),
    ):
        with pytest.raises(KeyError, match=why):
            find_cells(cell, shown)


def test_a_report_keeps_the_width_also_where_it_has_no_room_for_the_files_name() -> None:
    report = check_text("Q = [[2, 3, 4, 1]]\nK = [[1, 0, 1, 0]]\nscores = [[6]]")
    for width in (20, 30, 40, 60):
        assert most_cells(render_report(report, width)[0].plain) <= width
