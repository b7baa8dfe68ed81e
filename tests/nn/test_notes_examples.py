"""The study notes' examples A, B and C through the modules, with their weights set by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from regard import See
from regard.nn import MultiHeadAttention, SelfAttention
from regard.nn._hooks import recording


def printed(found: Tensor, figures: list[list[float]], digits: int) -> None:
    """Assert that the numbers, printed with so many digits, are these figures."""
    wanted = np.array(figures)
    assert tuple(found.shape) == wanted.shape
    error = np.abs(found.detach().double().numpy() - wanted).max()
    assert error <= 0.5 * 10.0**-digits + 1e-9, found


def told(layer: MultiHeadAttention, x: Tensor) -> dict[str, Tensor]:
    """Every step of the layer by name, of one sequence; and the weights, as `see` has them."""
    n = len(x)
    with recording(layer) as heard:
        _, seen = layer(x[None], see=See(top=n))
    steps = {step.name: step.tensor[0] for step in heard}
    assert seen.top_keys is not None
    assert seen.top_weights is not None
    weights = torch.zeros(layer.heads, n, n, dtype=seen.top_weights.dtype)
    weights.scatter_(-1, seen.top_keys[0].long(), seen.top_weights[0])
    return steps | {"weights": weights}


def set_to(layer: MultiHeadAttention, **matrices: Any) -> None:
    """W of Q = X W, as the notes write it; PyTorch keeps its transpose."""
    with torch.no_grad():
        for name, matrix in matrices.items():
            weight = layer.get_parameter(f"{name}.weight")
            weight.copy_(torch.as_tensor(matrix, dtype=weight.dtype).T)


# ── A: I love apple phones ────────────────────────────────────────────────────────────────────

A_X = [[1.0, 0.5, 0.2, 0.1], [0.9, 1.1, 0.1, 0.0], [0.1, 0.2, 1.0, 0.5], [0.0, 0.1, 0.4, 1.2]]
A_W = {
    "w_q": [[1, 0], [0, 1], [1, 0], [0, 1]],
    "w_k": [[1, 0], [0, 1], [0, 1], [1, 0]],
    "w_v": [[1, 0], [0, 1], [1, 1], [0, 1]],
}
A_Q = [[1.2, 0.6], [1.0, 1.1], [1.1, 0.7], [0.4, 1.3]]
A_K = [[1.1, 0.7], [0.9, 1.2], [0.6, 1.2], [1.2, 0.5]]
A_V = [[1.2, 0.8], [1.0, 1.2], [1.1, 1.7], [0.4, 1.7]]
A_SCORES = [
    [1.74, 1.80, 1.44, 1.74],
    [1.87, 2.22, 1.92, 1.75],
    [1.70, 1.83, 1.50, 1.67],
    [1.35, 1.92, 1.80, 1.13],
]
A_WEIGHTS = [
    [0.2596, 0.2708, 0.2100, 0.2596],
    [0.2361, 0.3024, 0.2446, 0.2169],
    [0.2536, 0.2780, 0.2201, 0.2483],
    [0.2116, 0.3166, 0.2908, 0.1811],
]
A_OUTPUT = [[0.9172, 1.3309], [0.9415, 1.3363], [0.9238, 1.3328], [0.9627, 1.3513]]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_i_love_apple_phones(dtype: torch.dtype) -> None:
    layer = SelfAttention(4, head_width=2).to(dtype)
    set_to(layer, **A_W)
    step = told(layer, torch.tensor(A_X, dtype=dtype))
    printed(step["query"][0], A_Q, 6)
    printed(step["key"][0], A_K, 6)
    printed(step["value"][0], A_V, 6)
    printed(step["query"][0] @ step["key"][0].T, A_SCORES, 6)
    printed(step["weights"][0], A_WEIGHTS, 4)
    printed(step["head_output"][0], A_OUTPUT, 4)
    printed(step["concatenated"], A_OUTPUT, 4)
    torch.testing.assert_close(step["weights"][0] @ step["value"][0], step["head_output"][0])


def test_head_1_of_two_is_the_same_whatever_head_2_does() -> None:
    layer = MultiHeadAttention(4, 2, bias=False, output=False).double()
    torch.manual_seed(3)
    second = torch.randn(3, 4, 2)
    both = {
        name: torch.cat([torch.tensor(matrix), second[n]], 1)
        for n, (name, matrix) in enumerate(A_W.items())
    }
    set_to(layer, **both)
    step = told(layer, torch.tensor(A_X, dtype=torch.float64))
    printed(step["weights"][0], A_WEIGHTS, 4)
    printed(step["concatenated"][:, :2], A_OUTPUT, 4)
    assert step["concatenated"].shape == (4, 4)


def test_concatenated_heads_go_through_the_output_matrix() -> None:
    """With W_O = [1 1 0 0; …] the two heads of the notes' concatenation are added up by hand."""
    layer = MultiHeadAttention(4, 2, bias=False).double()
    zero = {name: torch.cat([torch.tensor(w), torch.zeros(4, 2)], 1) for name, w in A_W.items()}
    set_to(layer, **zero, w_o=[[1, 0, 1, 0], [0, 1, 0, -1], [5, 5, 5, 5], [7, 7, 7, 7]])
    step = told(layer, torch.tensor(A_X, dtype=torch.float64))
    printed(step["output"], [[a, b, a, -b] for a, b in A_OUTPUT], 4)  # head 2 gives zeros


# ── B: The cat sat ────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_cat_sat(dtype: torch.dtype) -> None:
    layer = SelfAttention(4).to(dtype)
    set_to(layer, w_q=np.eye(4), w_k=np.eye(4), w_v=np.eye(4))
    step = told(layer, torch.tensor([[1, 0, 1, 0], [0, 1, 0, 1], [1, 1, 1, 1]], dtype=dtype))
    weights = [[0.4223, 0.1554, 0.4223], [0.1554, 0.4223, 0.4223], [0.2119, 0.2119, 0.5761]]
    printed(step["weights"][0], weights, 4)
    output = [
        [0.8446, 0.5777, 0.8446, 0.5777],
        [0.5777, 0.8446, 0.5777, 0.8446],
        [0.7881, 0.7881, 0.7881, 0.7881],
    ]
    printed(step["concatenated"], output, 4)
    assert step["concatenated"].max() <= 1  # inside the hull of the values


# ── C: Write a poem ───────────────────────────────────────────────────────────────────────────


def test_write_a_poem() -> None:
    torch.manual_seed(42)
    matrices = [torch.nn.Linear(2, 2, bias=False).weight.detach().T for _ in range(3)]
    layer = SelfAttention(2)
    set_to(layer, **dict(zip(("w_q", "w_k", "w_v"), matrices, strict=True)))
    step = told(layer, torch.tensor([[1.16, 0.23], [0.57, 1.36], [4.41, -2.16]]))
    printed(step["query"][0, :1], [[0.7621, -0.0428]], 4)
    printed(step["key"][0, :1], [[-0.1469, -0.3038]], 4)
    printed((step["query"][0, :1] @ step["key"][0, :1].T), [[-0.0990]], 4)
    printed(step["weights"][0, :1], [[0.3573, 0.4011, 0.2416]], 4)
    output = [[1.0100, 1.0641], [0.2040, 0.7057], [3.4989, 2.2427]]
    printed(step["concatenated"], output, 4)
    torch.testing.assert_close(step["weights"][0].sum(-1), torch.ones(3))
    assert (step["concatenated"].sum(-1) - 1).abs().min() > 0.05  # the output's rows do not
