"""How people write worked examples: notation, headings and habits that `check` understands."""

from __future__ import annotations

import contextlib
import time

import pytest

from regard.worked import Report, Unreadable, check_text, fix_text
from regard.written.names import name_of
from regard.written.words import head_in


def wrong(report: Report) -> dict[str, tuple[str, str]]:
    return {cell.name: (cell.figure.text, cell.right_text) for cell in report.wrong}


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("W_query", "W_Q"),
        ("W^{(K)} =", "W_K"),
        (r"\mathbf{W}^{Q} &=", "W_Q"),
        ("Query weights", "W_Q"),
        ("W_1^V", "W_V"),
        ("Output projection W_O", "W_O"),
        (r"\mathbf{Q} &= \mathbf{X}\mathbf{W}^Q =", "query"),
        ("Queries Q = XW_Q", "query"),
        ("Anfragevektoren", "query"),
        ("The keys K", "key"),
        ("Матрица ключей", "key"),
        ("Q @ K.T", "scores"),
        ("QKᵀ", "scores"),
        ("Unnormalized attention weights", "scores"),
        ("Attention logits", "scores"),
        ("Scaled scores (QK^T / sqrt(d_k)):", "scaled"),
        ("(Q·Kᵀ)/√dₖ", "scaled"),
        (r"\dfrac{\mathbf{Q}\mathbf{K}^\top}{\sqrt{d_k}} =", "scaled"),
        ("scaled_scores =", "scaled"),
        ("Dividing the scores by 1.41", "scaled"),
        ("スケーリング後のスコア", "scaled"),
        (r"P = \mathrm{softmax}(S) =", "weights"),
        ("Normalised attention scores", "weights"),
        (r"\alpha =", "weights"),
        ("attn_weights", "weights"),
        ("어텐션 분포", "weights"),
        ("Output: weights · V (3×2)", "head_output"),
        ("weights @ V", "head_output"),
        ("Weighted sum of values", "head_output"),
        ("context_vec", "head_output"),
        (r"\text{head}_1 =", "head_output"),
        (r"\text{Output} = \text{Attention Weights} \times V =", "output"),
        ("Final output = Concat · W_O =", "output"),
        ("MultiHead(Q,K,V) =", "output"),
        ("Word vectors", "embeddings"),
        ("X_enc =", "context"),
        ("exp(Scaled) =", None),
        ("Gradient of Q", None),
        ("Key idea", None),
        ("Value of the learning rate", None),
        ("Query, key and value vectors", None),
    ],
)
def test_a_heading_names_its_matrix(text: str, kind: str | None) -> None:
    name = name_of(text)
    assert (name.kind if name else None) == kind


def test_one_head_is_named_by_its_number() -> None:
    assert head_in("Head 0") == 0
    assert head_in("2번 헤드") == 2
    assert head_in("heads 1 and head 2") is None
    assert head_in("9" * 5000 + "번 헤드") is None


# Right examples; the figure in «» is a computed one, and may not be another.
RIGHT = [
    # Rows by words and by labels under a heading.
    "q_1 = [1, 0]\nq_2 = [0, 1]\nk_1 = [1, 0]\nk_2 = [0, 1]\n"
    "scores_1 = [1, 0]\nscores_2 = [0, «1»]\n",
    "Queries:\nI: [1, 0]\nlove: [0, 1]\n\nKeys:\nI: [1, 0]\nlove: [0, 1]\n\n"
    "Scores:\nI: [1, 0]\nlove: [0, «1»]\n",
    # The same word twice.
    "X\n\nthe\t1\t2\ncat\t3\t4\nthe\t5\t6\n\nW_Q = [1 0; 0 1]\n\n"
    "Q\n\nthe\t1\t2\ncat\t3\t4\nthe\t5\t«6»\n",
    # Products written out.
    "$$Q = X W_Q = \\begin{bmatrix} 1 & 2 \\end{bmatrix} \\begin{bmatrix} 1 \\\\ 1 "
    "\\end{bmatrix} = \\begin{bmatrix} 3 \\end{bmatrix}$$\n\nK = [[2]]\nscores = [[«6»]]\n",
    "A = [[0.6, 0.4]]\nV = [[1, 2], [3, 4]]\nz_1 = 0.6·[1, 2] + 0.4·[3, 4] = [1.8, «2.8»]\n",
    # NumPy, torch and pandas print; comments.
    "X = tensor([[1., 2.],\n        [3., 4.]])\nW_Q = tensor([[1., 0.],\n        [0., 1.]])\n"
    "queries:\ntensor([[1., 2.],\n        [3., «4.»]], grad_fn=<MmBackward0>)\n",
    ">>> Q\n     0    1\n0  1.0  0.0\n1  0.0  1.0\n\n"
    ">>> K\n     0    1\n0  1.0  0.0\n1  0.0  1.0\n\n"
    ">>> Scores\n     0    1\n0  1.0  0.0\n1  0.0  «1.0»\n",
    "# Q =\n# [[1, 2],\n#  [3, 4]]\n# K =\n# [[1, 0],\n#  [0, 1]]\n"
    "# Scores =\n# [[1, 2],\n#  [3, «4»]]\n",
    # Tables of other kinds.
    "Q\n\n┌───┬─────┐\n│ a │ 1.5 │\n└───┴─────┘\n\nK = [[2]]\nscores = [[«3.0»]]\n",
    "Q = [[2, 1]]\n\nKeys\n\n| a | 1 | 0 |\n|---+---+---|\n| b | 0 | 1 |\n\nscores = [[2, «1»]]\n",
    "\\caption{$Q$}\n\\begin{tabular}{cc}\n\\hline\nthe & 1.4 \\\\\ncat & 0.3 \\\\\n\\hline\n"
    "\\end{tabular}\n\nK = [[2]]\nscores = [[2.8], [«0.6»]]\n",
    "Q = [[-1,2 ; 0,3]]\nK = [[1,0 ; 2,0]]\nScores = [[«-0,60»]]\n",
    "Q = [[1, 2], [3, 4]]\nK = [[1, 0], [0, 1]]\n\n"
    "Scores\n\n| Token | 1 | + |\n|---|---|---|\n| 1 | 1 | 2 |\n| + | 3 | «4» |\n",
    # With and without scaling, side by side.
    "Q = [[2, 3, 4, 1]]\nK = [[1, 0, 1, 0], [0, 1, 0, 1]]\n\n"
    "Without scaling: softmax = [[«0.88», 0.12]]\nWith scaling: softmax = [[0.73, 0.27]]\n",
    "Q = [[2, 3, 4, 1]]\nK = [[1, 0, 1, 0], [0, 1, 0, 1]]\n\n"
    "Without scaling: softmax = [[0.88, 0.12]]\nWith scaling: softmax = [[0.73, «0.27»]]\n",
    # Heads counted from zero.
    "X = [[1, 2]]\n\nHead 0\nW_Q = [[1, 0], [0, 1]]\nQ = [[1, 2]]\n\n"
    "Head 1\nW_Q = [[2, 0], [0, 2]]\nQ = [[2, «4»]]\n",
    # Cross-attention and biases.
    "X_dec = [[1, 0]]\nX_enc = [[1, 1], [2, 0]]\nW_Q = [1 0; 0 1]\nW_K = [1 0; 0 1]\n"
    "Q = [[1, 0]]\nK = [[1, 1], [2, 0]]\nscores = [[1, «2»]]\n",
    "X = [[1, 2]]\nW_Q = [1 0; 0 1]\nb_Q = [1, 1]\nQ = [[2, «3»]]\n",
    # Masks.
    "scaled = [[0.71, -1e9], [0, 0.71]]\nweights = [[1.00, 0.00], [0.33, «0.67»]]\n",
    "Q = [[1, 0], [0, 1]]\nK = [[1, 0], [1, 1]]\n\nScores\n\n1\t1\n0\t1\n\n"
    "Masked scores\n\n0.71\t-inf\n0.00\t0.71\n\nWeights\n\n1.00\t0.00\n0.33\t«0.67»\n",
    # Numbers in prose.
    "1/√2 = 0.707 and 3·√2 = 4.243\n\nQ = [[1, 2]]\nK = [[3, 4]]\nscores = [[«11»]]\n",
    "d_model = 512 in the paper; here it is tiny.\n\n"
    "X = [[1, 2]]\nW_Q = [1 0; 0 1]\nQ = [[1, «2»]]\n",
    # Single cells.
    "q_1 = [1, 0]\nq_2 = [0, 1]\nk_1 = [1, 0]\nk_2 = [0, 1]\ne_{12} = q_1·k_2 = «0»\n"
    "α_{11} = 0.67\nα_{12} = 0.33\n",
    "q_1 = [1, 0]\nq_2 = [0, 1]\nk_1 = [1, 0]\nk_2 = [0, 1]\nα_{11} = 0.67\nα_{12} = «0.33»\n",
    # Column vectors.
    "$$q_1 = \\begin{bmatrix} 1 \\\\ 2 \\end{bmatrix}, \\quad k_1 = \\begin{bmatrix} 3 \\\\ 4 "
    "\\end{bmatrix}$$\n\nscores = [[«11»]]\n",
]


def marked(text: str) -> tuple[str, str, str]:
    before, _, rest = text.partition("«")
    figure, _, after = rest.partition("»")
    return before, figure, after


@pytest.mark.parametrize("text", RIGHT)
def test_what_is_right_is_not_called_wrong(text: str) -> None:
    before, figure, after = marked(text)
    report = check_text(before + figure + after)
    assert wrong(report) == {}
    assert report.exit_code == 0
    assert fix_text(report) == report.source.text


@pytest.mark.parametrize("text", RIGHT)
def test_a_wrong_number_is_found_and_put_right(text: str) -> None:
    before, figure, after = marked(text)
    report = check_text(f"{before}7{figure.lstrip('-')}{after}")
    assert report.exit_code == 1
    assert any(cell.figure.start == len(before) and cell.origin == "first" for cell in report.wrong)
    assert check_text(fix_text(report)).exit_code == 0


@pytest.mark.parametrize(
    ("name", "text"),
    [
        (
            "a.toml",
            "[in]\nX=[[1,2]]\n[[head]]\nW_Q=[[1,0],[0,1]]\nQ=[[9,2]]\n[[head]]\n"
            "W_Q=[[2,0],[0,2]]\nQ=[[2,4]]\n",
        ),
        (
            "a.json",
            '{"X":[[1,2]],"heads":[{"W_Q":[[1,0],[0,1]],"Q":[[9,2]]},'
            '{"W_Q":[[2,0],[0,2]],"Q":[[2,4]]}]}',
        ),
    ],
)
def test_heads_in_a_list_are_kept_apart(name: str, text: str) -> None:
    report = check_text(text, name)
    assert [(c.kind, c.head, c.column) for c in report.wrong] == [("query", 1, 0)]


def test_a_second_matrix_of_a_kind_with_other_numbers_is_asked_about() -> None:
    text = "K = [[1, 2], [3, 4]]\nQ = [[1, 0]]\nscores = [[1, 3]]\nV = [[1, 0], [0, 1]]\n"
    report = check_text(text + "\nV = [[5, 6], [7, 8]]\n")
    assert report.exit_code == 0  # the scores are right
    assert "V is printed in line 4 already" in report.questions[0]


ONE_ROW = (
    "q_I = [1, 0]\nq_tea = [0, 1]\nk_I = [1, 0]\nk_tea = [0, 1]\nv_I = [2, 0]\nv_tea = [0, 4]\n\n"
)


def test_a_lone_row_belongs_to_the_query_whose_scores_are_written_out() -> None:
    text = ONE_ROW + "score(tea, I) = 0\nscore(tea, tea) = 1\nsoftmax = [0.33, 0.67]\n"
    assert check_text(text).exit_code == 0
    report = check_text(text.replace("0.67", "0.76"))
    assert wrong(report) == {"weights[tea, tea]": ("0.76", "0.67")}


def test_a_lone_row_of_nobody_is_asked_about_and_can_be_told() -> None:
    text = ONE_ROW + "softmax = [0.33, 0.67]\n"
    report = check_text(text)
    assert report.exit_code == 2
    assert "whose row" in report.questions[0]
    assert check_text(text, taken_as={"8": "weights_tea"}).exit_code == 0
    assert check_text(text, taken_as={"8": "weights_I"}).exit_code == 1


def test_the_report_and_the_fix_name_the_same_number() -> None:
    text = (
        "weights = [[0.16, 0.16, 0.67]]\nscaled = [[0.71, 0.71, 2.12]]\n"
        "V = [[1, 0], [0, 3], [1, 3]]\nZ = [[0.83, 2.56]]\n"
    )
    report = check_text(text)
    (cell,) = report.wrong
    assert fix_text(report) == text.replace("2.56", cell.right_text)
    assert check_text(fix_text(report)).exit_code == 0


def test_headings_that_say_example_start_anew() -> None:
    one = "X = [[1, 0], [0, 1]]\nW_Q = [[1, 2], [3, 4]]\nQ = [[1, 2], [3, 4]]\n"
    two = "X = [[2, 0], [0, 1]]\nW_Q = [[1, 2], [3, 4]]\nQ = [[2, 4], [3, 5]]\n"
    report = check_text(f"## Example 1\n\n{one}\n## Example 2\n\n{two}")
    assert wrong(report) == {"Q[2, 2]": ("5", "4")}
    only = "Q = [[1, 2]]\nK = [[3, 4]]\nscores = [[11]]\n"
    other = "Q = [[1, 1]]\nK = [[3, 4]]\nscores = [[8]]\n"
    report = check_text(f"Example 1\n\n{only}\nExample 2\n\n{other}")
    assert wrong(report) == {"scores[1, 1]": ("8", "7")}


def test_a_number_that_ends_in_a_point_has_the_digits_of_its_neighbours() -> None:
    text = "X = [[1.  0.4]\n [0.  1. ]]\nW_Q = [[1. 0.]\n [1. 1.]]\nQ = [[1.  0.4]\n [1.  1. ]]\n"
    report = check_text(text)
    assert wrong(report) == {"Q[1, 1]": ("1.", "1.4")}
    assert check_text(fix_text(report)).exit_code == 0


@pytest.mark.parametrize(
    "text",
    [
        "α_{11} = 0.3\nΑ = [1, 2]\n",
        "Q = [0e549, 1]\n",
        "Q_" + "1" * 5000 + " = [1, 2]\n",
        "d_k = -3, sqrt(d_k) = 2\nQ = [[1]]\n",
        "Q = [1 0 1 0]\nK = [0 1 0 1]\nSoftmax([6 4]) = [0.88, 0.12]\n",
        "| a | 8 | 1 | 1 |\n| | | 5 | 0 | 0 |\n",
        "Q[1 0 1 0]K2[0 1 0 1]\nQK2=4[1 0]\n",
        "Q = [[inf, 1]]\nK = [[0, 1]]\nscores = [[1]]\n",
        "$$Q = \\begin{bmatrix} 0.64\n\\end{bmatrix$$\n",
    ],
)
def test_odd_texts_are_read_or_refused_and_never_crash(text: str) -> None:
    message = ""
    try:
        assert check_text(text).exit_code in (0, 1, 2)
    except Unreadable as error:
        message = str(error)
    assert "\n" not in message


@pytest.mark.parametrize(
    "piece",
    ["1", "a", "$", "(", "[1 ", "1.6; ", "\\frac{", "Q_", "\\begin{bmatrix}", "= ", "1\t", "|"],
)
def test_the_time_for_a_long_line_grows_with_its_length(piece: str) -> None:
    """Four times the length takes four times as long; with its square it would be sixteen times."""

    def seconds(length: int) -> float:
        line = piece * (length // len(piece))
        texts = (line, f"Q {line} = [[1, 2]]", f"Scores {line}\n\n1\t2\n3\t4\n")
        best = float("inf")
        for _ in range(3):
            start = time.process_time()
            for text in texts:
                with contextlib.suppress(Unreadable):
                    check_text(text + "\nQ = [[1, 2]]\nK = [[3, 4]]\nscores = [[11]]\n")
            best = min(best, time.process_time() - start)
        return best

    assert seconds(16_000) < 9 * seconds(4_000) + 0.1


# Right, and once called wrong.
LATER = [
    "### Head 1\nZ = [[1, 2], [3, 4]]\n\n### Head 2\nQ = [[1, 0], [0, 1]]\nK = [[2, 0], [0, 2]]\n"
    "V = [[1, 0], [0, 1]]\nscores = [[2, 0], [0, 2]]\nweights = [[0.80, 0.20], [0.20, 0.80]]\n",
    "Q = [[36.5, 20.0]]\nK = [[-330, 0]]\nscores = [[-12045.0]]\nscaled = [[-8517.1]]\n",
    "scaled = [[0.71, -3.4028e+38], [0, 0.71]]\nweights = [[1.00, 0.00], [0.33, 0.67]]\n",
    "The learned projections W_Q, W_K and W_V are not shown.\n\nX = [[1, 0], [0, 1]]\n\n"
    "Q = [[2, 0], [0, 2]]\nK = [[1, 1], [0, 1]]\n\nThe scores, as I said, are:\n\n"
    "scores = [[2, 0], [2, 2]]\n",
    "Real models are larger (d_model = 512, d_k = 64).\nIn the original paper, d_model = 512, and "
    "d_k = 64.\n\nX = [[1, 2]]\nW_K = [1 0; 0 1]\nK = [[1, 2]]\n",
    "# Head 1\nq_1 = [1, 0]\nq_2 = [0, 1]\nk_1 = [1, 0]\nk_2 = [2, 1]\ns_{12} = 2\n\n"
    "# Head 2\nq_1 = [2, 0]\nq_2 = [0, 1]\nk_1 = [1, 0]\nk_2 = [2, 1]\ns_{12} = 4\n",
    "Q = [[2, 3, 4, 1]]\nK = [[1, 0, 1, 0], [0, 1, 0, 1]]\nA = [[0.7311, 0.2689]]\n"
    "A ≈ [[0.73, 0.27]]\nV = [[100], [0]]\nZ = [[73.00]]\n",
    "Q = [[1.14]]\nK = [[1], [1]]\n\nScores\n\n| | a | b | Sum |\n|---|---|---|---|\n"
    "| x | 1.1 | 1.1 | 2.3 |\n",
    "Q = [[3, 1]]\nK = [[100, 0]]\nscores = [[300]]\nDivided by 1.41:\nscaled = [[212.77]]\n",
    "Q = [[1, 2]]\nK = [[3, 4]]\nscores = [[11]]\nHere d_k = 2.\n",
]


@pytest.mark.parametrize("text", LATER)
def test_what_was_once_called_wrong_is_right(text: str) -> None:
    report = check_text(text)
    assert wrong(report) == {}
    assert report.exit_code == 0
    assert fix_text(report) == text


def test_a_wrong_size_at_the_end_of_a_sentence_keeps_its_full_stop() -> None:
    text = "Q = [[1, 2]]\nK = [[3, 4]]\nscores = [[11]]\nd_k = 3.\n"
    assert fix_text(check_text(text)) == text.replace("3.\n", "2.\n")


def test_given_weights_in_whole_numbers_must_sum_to_one() -> None:
    assert check_text("weights = [[1, 1], [0, 1]]\n").exit_code == 1
    assert check_text("weights = [[1, 0], [0, 1]]\n").exit_code == 0


def test_a_shape_in_n_is_checked_without_an_input_too() -> None:
    text = "Q = [[1], [2], [3]]\nK = [[1], [2], [3]]\nV = [[1, 2], [3, 4], [5, 6]]\n\nV ∈ R^{n×n}\n"
    assert check_text(text).wrong_claims == 1


def test_a_single_score_that_cannot_be_placed_is_said_not_to_be_checked() -> None:
    text = "X = [[1, 2]]\nW_Q = [1 0; 0 1]\nQ = [[1, 2]]\n\nscore(cat, dog) = 3\n"
    (judged,) = check_text(text).exercises
    assert ["line 5 was not checked" in remark for remark in judged.remarks] == [True]
