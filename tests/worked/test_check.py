"""`check` on the printed examples, on what people write around them, and on bad input."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from textwrap import dedent

import pytest

import regard
from regard.worked import EXAMPLES, Report, Unreadable, check, check_text, example, fix_text

PRINTED = Path(__file__).parents[2] / "examples" / "worked"


def kinds(report: Report) -> dict[str, str]:
    """What each matrix was taken to be, by what the text calls it."""
    return {
        matrix.called: matrix.kind
        for judged in report.exercises
        for matrix in judged.exercise.matrices.values()
    }


def wrong(report: Report) -> dict[str, tuple[str, str]]:
    return {cell.name: (cell.figure.text, cell.right_text) for cell in report.wrong}


# ── the examples as printed ───────────────────────────────────────────────────────────────────


def test_apple_has_seven_wrong_keys_and_six_wrong_values_and_they_came_first() -> None:
    report = check(PRINTED / "apple-as-printed.txt")
    first = [cell for cell in report.wrong if cell.origin == "first"]
    assert Counter(cell.kind for cell in first) == {"key": 7, "value": 6, "scores": 2}
    assert all(not cell.from_inputs for cell in first)
    assert {cell.name: (cell.figure.text, cell.right_text) for cell in first} == {
        "K[I, 1]": ("1.2", "1.1"),
        "K[I, 2]": ("0.6", "0.7"),
        "K[love, 2]": ("1.1", "1.2"),
        "K[apple, 1]": ("0.7", "0.6"),
        "K[apple, 2]": ("0.7", "1.2"),
        "K[phones, 1]": ("1.3", "1.2"),
        "K[phones, 2]": ("0.3", "0.5"),
        "V[I, 2]": ("0.6", "0.8"),
        "V[love, 1]": ("0.9", "1.0"),
        "V[love, 2]": ("1.1", "1.2"),
        "V[apple, 2]": ("1.2", "1.7"),
        "V[phones, 1]": ("1.3", "0.4"),
        "V[phones, 2]": ("1.3", "1.7"),
        "scores[love, phones]": ("1.96", "1.75"),
        "scores[phones, phones]": ("1.91", "1.13"),
    }


def test_in_apple_two_scores_do_not_follow_from_the_printed_query_and_key() -> None:
    report = check(PRINTED / "apple-as-printed.txt")
    astray = [c for c in report.wrong if c.kind not in ("key", "value") and not c.from_step]
    assert [(c.name, round(c.from_printed, 2)) for c in astray] == [
        ("scores[love, phones]", 1.63),
        ("scores[phones, phones]", 0.91),
    ]


def test_in_apple_weights_and_outputs_follow_and_only_inherit() -> None:
    report = check(PRINTED / "apple-as-printed.txt")
    (judged,) = report.exercises
    inherited = Counter(c.kind for c in report.wrong if c.origin == "inherited")
    assert inherited == {"scores": 13, "weights": 16, "head_output": 8, "concatenated": 8}
    assert judged.inherit_from("head_output", 1) == ["K", "V", "scores"]
    assert judged.inherit_from("scores", 1) == ["K"]


def test_in_cat_only_the_output_of_the_is_wrong_and_the_cause_is_told() -> None:
    report = check(PRINTED / "cat-as-printed.md")
    assert wrong(report) == {
        "head output[The, 1]": ("1.2669", "0.8446"),
        "head output[The, 2]": ("0.9999", "0.5777"),
        "head output[The, 3]": ("1.2669", "0.8446"),
        "head output[The, 4]": ("0.9999", "0.5777"),
    }
    assert all("“sat” had been added twice" in cell.cause for cell in report.wrong)
    assert "impossible" in report.wrong[0].cause
    assert "impossible" not in report.wrong[1].cause


def test_in_cat_the_unscaled_softmax_is_accepted_with_a_remark() -> None:
    _, scaling = check(PRINTED / "cat-as-printed.md").exercises
    assert scaling.checked == 4
    assert scaling.wrong == []
    assert ["without dividing" in remark for remark in scaling.remarks] == [True]


def test_given_weights_are_right_because_their_rows_sum_to_one() -> None:
    report = check(PRINTED / "given-weights.md")
    assert report.exit_code == 0
    text = report.source.text.replace("0.7", "0.9")
    changed = check_text(text)
    (claim,) = [c for judged in changed.exercises for c in judged.claims if not c.is_right]
    assert (claim.printed, claim.right, changed.exit_code) == ("1.2", "1", 1)


@pytest.mark.parametrize("name", ["apple-as-printed.txt", "cat-as-printed.md"])
def test_after_fix_nothing_is_wrong_and_the_words_are_untouched(name: str) -> None:
    report = check(PRINTED / name)
    fixed = fix_text(report)
    assert check_text(fixed, name).exit_code == 0
    before, after = report.source.text.splitlines(), fixed.splitlines()
    changed = [i for i, (a, b) in enumerate(zip(before, after, strict=True), 1) if a != b]
    assert changed == sorted({cell.line for cell in report.wrong})
    assert fix_text(check_text(fixed, name)) == fixed


@pytest.mark.parametrize("name", EXAMPLES)
def test_a_trace_saved_as_json_is_right(name: str) -> None:
    assert check_text(example(name).trace().to_json(), "trace.json").exit_code == 0


def test_a_trace_with_two_heads_positions_and_a_mask_is_right_and_a_changed_cell_is_found() -> None:
    text = regard.trace("the cat sat the", causal=True, positions="sinusoidal").to_json()
    assert check_text(text, "trace.json").exit_code == 0
    content = json.loads(text)
    content["steps"]["weights"]["array"][1][2][0] += 0.01
    report = check_text(json.dumps(content), "trace.json")
    assert [(c.kind, c.head, c.row, c.column) for c in report.wrong] == [("weights", 2, 2, 0)]


# ── what people write ─────────────────────────────────────────────────────────────────────────

KOREAN = """
## 1. 입력 임베딩

| 토큰 | x1 | x2 |
|---|---|---|
| 나는 | 1.0 | 0.0 |
| 너를 | 0.0 | 1.0 |
| 사랑해 | 1.0 | 1.0 |

$$W_Q = \\begin{bmatrix} 1 & 0 \\\\ 0 & 1 \\end{bmatrix}, \\quad
W_K = \\begin{bmatrix} 0 & 1 \\\\ 1 & 0 \\end{bmatrix}$$

## 3. 쿼리와 키

| 토큰 | 쿼리 | 키 |
|---|---|---|
| 나는 | [1, 0] | [0, 1] |
| 너를 | [0, 1] | [1, 0] |
| 사랑해 | [1, 1] | [1, 1] |

## 4. 어텐션 점수

| | 나는 | 너를 | 사랑해 |
|---|---|---|---|
| 나는 | 0 | 1 | 1 |
| 너를 | 1 | 0 | 1 |
| 사랑해 | 1 | 1 | 2 |

## 5. 소프트맥스

| | 나는 | 너를 | 사랑해 | 합 |
|---|---|---|---|---|
| 나는 | 0.20 | 0.40 | 0.40 | 1.00 |
| 너를 | 0.40 | 0.20 | 0.40 | 1.00 |
| 사랑해 | 0.25 | 0.25 | 0.50 | 1.00 |
"""


def test_headings_in_korean_are_understood() -> None:
    report = check_text(KOREAN)
    assert report.exit_code == 0
    assert kinds(report) == {
        "X": "input",
        "W_Q": "W_Q",
        "W_K": "W_K",
        "쿼리": "query",
        "키": "key",
        "어텐션 점수": "scores",
        "소프트맥스": "weights",
    }
    assert wrong(
        check_text(KOREAN.replace("| 사랑해 | 1 | 1 | 2 |", "| 사랑해 | 1 | 1 | 3 |"))
    ) == {"scores[사랑해, 사랑해]": ("3", "2")}


def test_headings_in_bengali_are_understood() -> None:
    text = (
        "এম্বেডিং\n\nআমি\t1.0\t0.5\nভাত\t0.2\t1.1\n\n"
        "কোয়েরি ম্যাট্রিক্স W_Q = [1 0; 0 1]\nকী ম্যাট্রিক্স W_K = [1 0; 0 1]\n\n"
        "অ্যাটেনশন স্কোর\n\nআমি\t1.25\t0.75\nভাত\t0.75\t1.26\n"
    )
    assert wrong(check_text(text)) == {"scores[ভাত, ভাত]": ("1.26", "1.25")}


def test_attention_scores_that_sum_to_one_are_weights() -> None:
    text = (
        "Q = [[2, 3, 4, 1]]\nK = [[1, 0, 1, 0], [0, 1, 0, 1]]\n\nAttention scores\n\n0.73\t0.27\n"
    )
    report = check_text(text)
    assert kinds(report)["Attention scores"] == "weights"
    assert report.exit_code == 0


def test_the_order_of_labelled_rows_does_not_matter() -> None:
    text = (
        "k_b = [0, 1]\nk_a = [1, 0]\n\nq_a = [1, 2]\nq_b = [3, 4]\n\n"
        "Scores\n\n\ta\tb\na\t1\t2\nb\t3\t4\n"
    )
    text = "X\n\na\t1\t2\nb\t3\t4\n\n" + text
    assert check_text(text).exit_code == 0
    swapped = text.replace("a\t1\t2\nb\t3\t4\n\nk_b", "b\t3\t4\na\t1\t2\n\nk_b")
    assert swapped != text
    assert check_text(swapped).exit_code == 0


def test_a_transposed_key_is_read_as_a_key() -> None:
    text = "Q = [[1, 2]]\nK^T = [[1, 5, 9], [3, 7, 11]]\nscores = [[7, 19, 31]]\n"
    assert check_text(text).exit_code == 0
    assert wrong(check_text(text.replace("19", "18"))) == {"scores[1, 2]": ("18", "19")}


def test_two_heads_are_kept_apart_and_put_side_by_side() -> None:
    text = (
        "X = [[1, 0], [0, 1]]\n\n### Head 1\nW_V = [[1, 0], [0, 1]]\nV = [[1, 0], [0, 1]]\n"
        "weights = [[0.5, 0.5], [1, 0]]\nZ = [[0.5, 0.5], [1, 0]]\n\n### Head 2\n"
        "W_V = [[2, 0], [0, 2]]\nV = [[2, 0], [0, 2]]\nweights = [[1, 0], [0, 1]]\n"
        "Z = [[2, 0], [0, 2]]\n\nConcatenated = [[0.5, 0.5, 2, 0], [1, 0, 0, 3]]\n"
    )
    assert wrong(check_text(text)) == {"concatenated[2, 4]": ("3", "2")}


def test_each_head_may_see_only_its_slice_of_the_input() -> None:
    text = (
        "X = [[1, 2, 3, 4], [5, 6, 7, 8]]\n\n"
        "Head 1\n\nW_Q = [[1, 0], [0, 1]]\nQ = [[1, 2], [5, 6]]\n\n"
        "Head 2\n\nW_Q = [[1, 0], [0, 1]]\nQ = [[3, 4], [7, 9]]\n"
    )
    assert wrong(check_text(text)) == {"Q[2, 2]": ("9", "8")}


def test_embeddings_and_positions_add_up_to_the_input() -> None:
    text = (
        "Embeddings\n\n1\t2\n3\t4\n\nPositional encoding\n\n0\t1\n0.84\t0.54\n\n"
        "X = [[1, 3], [3.84, 4.55]]\n"
    )
    assert wrong(check_text(text)) == {"X[2, 2]": ("4.55", "4.54")}


def test_the_heads_are_mixed_by_the_output_matrix() -> None:
    text = "Concatenated = [[1, 2], [3, 4]]\nW_O = [[1, 1], [0, 2]]\nOutput = [[1, 5], [3, 10]]\n"
    assert wrong(check_text(text)) == {"output[2, 2]": ("10", "11")}


def test_masked_scores_are_left_out_of_the_softmax() -> None:
    text = (
        "Q = [[1, 0], [0, 1]]\nK = [[1, 0], [1, 1]]\n\nscaled and masked:\n0.71 -inf\n0.00 0.71\n\n"
        "weights:\n1.00 0.00\n0.33 0.67\n"
    )
    assert check_text(text).exit_code == 0
    assert "weights[1, 2]" in wrong(check_text(text.replace("1.00 0.00", "0.67 0.33")))


def test_a_causal_softmax_is_accepted_where_the_figures_fit_only_that() -> None:
    text = "Q = [[1, 0], [0, 1]]\nK = [[1, 0], [1, 1]]\nweights = [[1.00, 0.00], [0.33, 0.67]]\n"
    report = check_text(text)
    assert report.exit_code == 0
    assert "causal" in report.exercises[0].remarks[0]


def test_a_wrong_root_is_told_and_a_rounded_one_accepted() -> None:
    text = "K = [[100, 0]]\nQ = [[3, 1]]\nscores = [[300]]\n√d_k = {}\nscaled = [[{}]]\n"
    assert check_text(text.format("1.41", "212.77")).exit_code == 0  # 300 / 1.41
    assert check_text(text.format("1.41", "212.13")).exit_code == 0  # 300 / √2
    assert check_text(text.format("1.41", "212.80")).exit_code == 1
    assert check_text(text.format("1.42", "212.13")).wrong_claims == 1


@pytest.mark.parametrize(
    ("claim", "is_right"),
    [
        ("V ∈ R^{n×n}", False),
        (r"$V \in \mathbb{R}^{n \times d_v}$", True),
        ("V ∈ R^{2×3}", True),
        ("V ∈ R^{3×2}", False),
        ("d_k = 2", True),
        ("d_k = 3", False),
        (r"$$d_{\text{model}} = 2$$", True),
        (r"$$d_{\text{model}} = 4$$", False),
    ],
)
def test_claims_of_shape_and_size_are_checked(claim: str, is_right: bool) -> None:
    text = (
        "X = [[1, 0], [0, 1]]\nW_V = [[1, 0, 0], [0, 1, 0]]\nV = [[1, 0, 0], [0, 1, 0]]\n"
        f"W_K = [[1, 0], [0, 1]]\nK = [[1, 0], [0, 1]]\n\n{claim}\n"
    )
    report = check_text(text)
    (judged,) = report.exercises
    assert [c.is_right for c in judged.claims] == [is_right]
    assert report.exit_code == (0 if is_right else 1)


def test_an_output_outside_the_values_is_impossible_even_without_weights() -> None:
    report = check_text("V = [[1, 0], [0, 1]]\nOutput = [[0.5, 0.5], [1.2, 0.1]]\n")
    assert wrong(report).keys() == {"head output[2, 1]"}
    assert "impossible" in report.wrong[0].cause


def test_what_is_printed_twice_must_be_the_same() -> None:
    text = "X\n\na\t1\t2\nb\t3\t4\n\nthe embedding of a is [1, 3]\n"
    report = check_text(text + "\nW_Q = [1 0; 0 1]\nQ = [[1, 2], [3, 4]]\n")
    assert wrong(report) == {"X[a, 2]": ("3", "2")}


def test_decimal_commas_percents_and_true_minus_signs_are_numbers() -> None:
    text = "scaled\n\n−1,00\t1,00\n\nweights\n\n11.9 %\t88.1%\n"
    assert check_text(text).exit_code == 0
    report = check_text(text.replace("88.1%", "88.2%"))
    assert wrong(report) == {"weights[1, 2]": ("88.2%", "88.1%")}
    assert fix_text(report) == text


def test_two_examples_in_one_text_are_told_apart() -> None:
    one = "X = [[1, 0], [0, 1]]\nW_Q = [[1, 2], [3, 4]]\nQ = [[1, 2], [3, 4]]\n"
    two = "X = [[2, 5]]\nW_Q = [[1, 0], [0, 1]]\nQ = [[2, 6]]\n"
    report = check_text(f"Example 1\n\n{one}\nExample 2\n\n{two}")
    assert len(report.exercises) == 2
    assert wrong(report) == {"Q[1, 2]": ("6", "5")}


# ── where it cannot tell ──────────────────────────────────────────────────────────────────────


def test_a_matrix_without_a_name_is_asked_about() -> None:
    text = "Q = [[1, 2]]\nK = [[3, 4]]\n\nLook at this\n\n11\t0\n"
    report = check_text(text)
    assert report.exit_code == 2
    assert "line 6" in report.questions[0]
    assert "--as 6=K" in report.questions[0]


@pytest.mark.parametrize("name", ["6", "line 6", "Look at this", "look at THIS"])
def test_as_says_what_a_matrix_is_by_its_line_or_by_its_name(name: str) -> None:
    text = "Q = [[1, 2]]\nK = [[3, 4]]\n\nLook at this\n\n12\n"
    text = text.replace("12\n", "12\t0\n").replace("K = [[3, 4]]", "K = [[3, 4], [0, 0]]")
    report = check_text(text, taken_as={name: "scores"})
    assert wrong(report) == {"scores[1, 1]": ("12", "11")}
    assert check_text(text, taken_as={name: "ignore"}).questions != report.questions


def test_as_overrides_what_the_name_says() -> None:
    text = "K = [[1, 2]]\nQ = [[3, 4]]\nV = [[11]]\n"
    assert check_text(text, taken_as={"V": "scores"}).exit_code == 0


@pytest.mark.parametrize("taken_as", [{"K": "nonsense"}, {"nothing": "K"}, {"99": "K"}])
def test_as_refuses_unknown_names_and_kinds(taken_as: dict[str, str]) -> None:
    with pytest.raises(Unreadable, match="--as"):
        check_text("K = [[1, 2]]\nQ = [[3, 4]]\nscores = [[11]]\n", taken_as=taken_as)


def test_without_d_k_the_divisor_is_asked_for() -> None:
    text = "scores = [[6, 4]]\nweights = [[{}]]\n"
    assert check_text(text.format("0.73, 0.27")).exit_code == 2
    assert check_text("d_k = 4\n" + text.format("0.73, 0.27")).exit_code == 0
    assert check_text(text.format("0.88, 0.12")).exit_code == 0


def test_numbers_in_prose_are_not_taken_for_matrices() -> None:
    text = "As shown in [1, 2], and in 2017.\n\nQ = [[1, 2]]\nK = [[3, 4]]\nscores = [[11]]\n"
    report = check_text(text)
    assert report.exit_code == 0
    assert "line 1" in report.exercises[0].remarks[0]


# ── bad input ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "text",
    [
        "Q = [[1, 2], [3]]\n",
        "Raw\n\n1\t2\n3\t4\t5\n6\t7\n",
        "| | Q |\n|---|---|\n| I | [1, 2] |\n| a | [1] |\n",
        "Q = \\begin{pmatrix} 1 & 2 \\\\ 3 \\end{pmatrix}\n",
        "| | Q |\n|---|---|\n| I | [1, 2] |\n| a | [1, x] |\n",
        "Raw\n\nI\t0.5\t0.5\na\tabc\t0.5\n",
        "Q = \\begin{bmatrix} 1 & a \\end{bmatrix}\n",
        "Q = [[nan, 2]]\n",
        "Q = [[1e400, 2]]\n",
        "Q = [[1, 2], [a, b]]\n",
        "Raw\n\n| | | |\n|---|---|---|\n| a | 1.O | l |\n| b | 3 | 4 |\n",
        "S = [[6, inf]]\n",
    ],
)
def test_what_cannot_be_read_is_passed_over_and_never_stops_the_rest(text: str) -> None:
    report = check_text(f"{text}\n# Next\n\nQ = [[1, 2]]\nK = [[3, 4]]\nscores = [[12]]\n", "a.md")
    assert wrong(report) == {"scores[1, 1]": ("12", "11")}
    assert report.passed_over
    alone = check_text(text, "a.md")
    assert (alone.exit_code, len(alone.passed_over)) == (2, 1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (
            "X = [[1, 2]]\nW_Q = [[1, 2, 3]]\nQ = [[1, 2, 3]]\n",
            "X (1×2, line 1) and W_Q (1×3, line 2) cannot be multiplied",
        ),
        (
            "Q = [[1, 2]]\nK = [[1, 2, 3]]\nscores = [[1]]\n",
            "Q (1×2, line 1) and K (1×3, line 2) cannot be multiplied",
        ),
        ("Q = [[1, 2]]\nK = [[1, 2]]\nscores = [[1, 5]]\n", "should be 1×1"),
    ],
)
def test_matrices_that_do_not_fit_in_shape_are_set_apart(text: str, message: str) -> None:
    report = check_text(text)
    assert report.exit_code == 2
    assert any(message in remark for j in report.exercises for remark in j.remarks)


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", '{"Q": [[1, 2], [3]]}', "row 2 of Q has 1 number"),
        ("a.toml", "Q = [[1, 2], [3]]", "row 2 of Q has 1 number"),
        ("a.json", '{"Q": [[1, 2], [3, "x"]]}', "line 1, column 20: Q, row 2: “x” is not a number"),
        ("a.json", '{"Q": [[1, 2], "oops"]}', "row 2 is no row"),
        ("a.md", "[1, 2] " * 40_000, "characters"),
        ("a.json", '{"Q": [[1, 2],', "not JSON"),
        ("a.toml", "Q = [[1, 2],", "not TOML"),
        ("a.json", "[" * 100_000, "nested too deeply"),
    ],
)
def test_bad_input_is_refused_in_one_clear_line(name: str, text: str, message: str) -> None:
    with pytest.raises(Unreadable) as caught:
        check_text(text, name)
    assert message in str(caught.value)
    assert "\n" not in str(caught.value)
    assert str(caught.value).startswith(name)


@pytest.mark.parametrize("text", ["nothing here\n", "", "In 2017 there were 8 of them.\n"])
def test_where_there_is_nothing_to_check_it_says_so_and_ends_with_two(text: str) -> None:
    report = check_text(text)
    assert report.exit_code == 2
    assert report.questions == ["There is nothing to check: no number that follows."]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"Q = [[1, 2]]\n\xff\n", "not UTF-8: byte 0xff in line 2"),
        (b"Q = [[1, 2]]\0", "binary"),
        (b"1 " * 2**22, "larger than 4 MB"),
        (b"1 " * 2**18, "characters"),
    ],
)
def test_files_that_are_no_text_are_refused(tmp_path: Path, content: bytes, message: str) -> None:
    path = tmp_path / "file"
    path.write_bytes(content)
    with pytest.raises(Unreadable, match=message):
        check(path)


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="no file"):
        check(tmp_path / "nothing.md")
    with pytest.raises(Unreadable, match="folder"):
        check(tmp_path)


def test_a_byte_order_mark_and_windows_line_ends_are_kept(tmp_path: Path) -> None:
    path = tmp_path / "windows.md"
    path.write_bytes(b"\xef\xbb\xbfQ = [[1, 2]]\r\nK = [[3, 4]]\r\nscores = [[12]]\r\n")
    report = check(path)
    assert wrong(report) == {"scores[1, 1]": ("12", "11")}
    assert fix_text(report) == "\ufeffQ = [[1, 2]]\r\nK = [[3, 4]]\r\nscores = [[11]]\r\n"


def test_coarse_scores_do_not_make_one_slip_in_the_weights_a_softmax_without_scaling() -> None:
    text = """
    Q = [[1, 0], [0, 1]]
    K = [[1, 2], [3, 4]]
    scores = [[1, 3], [2, 4]]
    weights = [[0.196, 0.804], [0.196, 0.904]]
    """
    report = check_text(dedent(text))
    assert [(cell.figure.text, cell.right_text) for cell in report.wrong] == [("0.904", "0.804")]
