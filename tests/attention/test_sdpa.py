"""`regard.scaled_dot_product_attention` is PyTorch's, in all forms of its arguments."""

from __future__ import annotations

import inspect
import itertools
import math
import re
from typing import Any

import numpy as np
import pytest
import torch
from helpers.attention_problems import assert_right, largest, numbers, unit
from torch import Tensor
from torch.nn import functional

import regard

Shapes = tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]
Tensors = tuple[Tensor, Tensor, Tensor]

# q, k, v
FORMS: dict[str, Shapes] = {
    "2-D": ((5, 8), (7, 8), (7, 3)),
    "2-D, one query": ((1, 8), (7, 8), (7, 3)),
    "3-D": ((3, 5, 8), (3, 7, 8), (3, 7, 2)),
    "4-D": ((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 11)),
    "4-D, more queries than keys": ((2, 3, 11, 8), (2, 3, 7, 8), (2, 3, 7, 8)),
    "4-D, square": ((2, 3, 7, 8), (2, 3, 7, 8), (2, 3, 7, 8)),
    "4-D, larger than a block": ((1, 2, 101, 17), (1, 2, 263, 17), (1, 2, 263, 5)),
    "5-D": ((2, 1, 3, 5, 8), (2, 1, 3, 7, 8), (2, 1, 3, 7, 11)),
    "6-D": ((2, 1, 2, 3, 5, 8), (2, 1, 2, 3, 7, 8), (2, 1, 2, 3, 7, 11)),
    "one key for all sequences": ((2, 3, 5, 8), (1, 3, 7, 8), (1, 3, 7, 2)),
    "one query for all sequences": ((1, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 2)),
    "one key head for all": ((2, 3, 5, 8), (2, 1, 7, 8), (2, 1, 7, 2)),
    "one query head for all": ((2, 1, 5, 8), (2, 3, 7, 8), (2, 3, 7, 2)),
    "keys and values broadcast apart": ((2, 3, 5, 8), (2, 1, 7, 8), (1, 3, 7, 2)),
    "fewer axes in the query": ((5, 8), (2, 3, 7, 8), (2, 3, 7, 2)),
    "fewer axes in the key": ((2, 3, 5, 8), (7, 8), (2, 3, 7, 2)),
    "5-D, broadcast": ((2, 1, 3, 5, 8), (1, 2, 3, 7, 8), (1, 2, 3, 7, 4)),
    "no query": ((2, 3, 0, 8), (2, 3, 7, 8), (2, 3, 7, 2)),
    "no key": ((2, 3, 5, 8), (2, 3, 0, 8), (2, 3, 0, 2)),
    "no sequence": ((0, 3, 5, 8), (0, 3, 7, 8), (0, 3, 7, 2)),
}
GROUPED: dict[str, Shapes] = {
    "3-D": ((6, 5, 8), (2, 7, 8), (2, 7, 3)),
    "4-D": ((2, 6, 5, 8), (2, 2, 7, 8), (2, 2, 7, 3)),
    "4-D, one key head": ((2, 6, 5, 8), (2, 1, 7, 8), (2, 1, 7, 3)),
    "4-D, not grouped": ((2, 3, 5, 8), (2, 3, 7, 8), (2, 3, 7, 3)),
    "4-D, k and v grouped apart": ((2, 6, 5, 8), (2, 2, 7, 8), (2, 3, 7, 3)),
    "5-D": ((2, 1, 6, 5, 8), (2, 1, 3, 7, 8), (2, 1, 3, 7, 3)),
}


def inputs(shapes: Shapes, dtype: torch.dtype = torch.float32) -> Tensors:
    random = np.random.default_rng(len(str(shapes)))
    q, k, v = (torch.from_numpy(random.normal(size=shape)).to(dtype) for shape in shapes)
    return q, k, v


def assert_is_pytorchs(tensors: Tensors, options: dict[str, Any]) -> None:
    """As right as PyTorch's, against PyTorch's in float64."""

    def in_float64(x: Any) -> Any:
        return x.double() if isinstance(x, Tensor) and x.is_floating_point() else x

    q, k, v = (x.double() for x in tensors)
    exact = functional.scaled_dot_product_attention(
        q, k, v, **{name: in_float64(given) for name, given in options.items()}
    )
    theirs = functional.scaled_dot_product_attention(*tensors, **options)
    ours = regard.scaled_dot_product_attention(*tensors, **options)
    assert ours.dtype == theirs.dtype
    assert ours.device == theirs.device
    size = max(8.0, largest(options.get("attn_mask", 0.0)))
    floor = 4 * unit(ours.dtype) * size * largest(tensors[2])
    assert_right("output", ours, numbers(exact), theirs, floor)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("shapes", FORMS.values(), ids=list(FORMS))
def test_every_number_of_axes_and_every_broadcast(shapes: Shapes, dtype: torch.dtype) -> None:
    tensors = inputs(shapes, dtype)
    # PyTorch's own kernel gives NaN for a negative scale that is causal.
    for options in ({}, {"is_causal": True}, {"scale": 0.3}, {"scale": -1.0}, {"scale": 0.0}):
        assert_is_pytorchs(tensors, options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
@pytest.mark.parametrize("shapes", GROUPED.values(), ids=list(GROUPED))
def test_grouped_heads(shapes: Shapes, dtype: torch.dtype) -> None:
    tensors = inputs(shapes, dtype)
    for causal in (False, True):
        assert_is_pytorchs(tensors, {"enable_gqa": True, "is_causal": causal})


@pytest.mark.parametrize("shapes", [FORMS["3-D"], FORMS["4-D"], FORMS["5-D"]])
@pytest.mark.parametrize("kind", ["bool", "float", "−inf"])
def test_masks_of_every_shape(shapes: Shapes, kind: str) -> None:
    tensors = inputs(shapes)
    random = np.random.default_rng(3)
    square = (*shapes[0][:-1], shapes[1][-2])
    for kept in itertools.product((False, True), repeat=len(square)):
        whole = [size if keep else 1 for size, keep in zip(square, kept, strict=True)]
        for first in (0, len(square) - 2):
            if not all(size == 1 for size in whole[:first]):
                continue
            chosen = torch.from_numpy(random.random(whole[first:]) < 0.7)
            mask = torch.from_numpy(random.normal(size=whole[first:])).float()
            if kind == "bool":
                mask = chosen
            elif kind == "−inf":
                mask = torch.where(chosen, mask, -math.inf)
            assert_is_pytorchs(tensors, {"attn_mask": mask})


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_float32_mask_for_a_shorter_type(dtype: torch.dtype) -> None:
    tensors = inputs(FORMS["4-D"], dtype)
    mask = torch.from_numpy(np.random.default_rng(1).normal(size=(5, 7))).float()
    assert_is_pytorchs(tensors, {"attn_mask": mask})


def test_a_query_without_a_key_gets_zero() -> None:
    q, k, v = inputs(FORMS["4-D"])
    mask = torch.ones(5, 7, dtype=torch.bool)
    mask[2] = False
    for given in (mask, torch.where(mask, 0.0, -math.inf)):
        output = regard.scaled_dot_product_attention(q, k, v, attn_mask=given)
        assert not output[:, :, 2].any()
        assert_is_pytorchs((q, k, v), {"attn_mask": given})


def test_the_signature_is_pytorchs() -> None:
    parameters = inspect.signature(regard.scaled_dot_product_attention).parameters
    assert list(parameters)[:8] == [
        "query",
        "key",
        "value",
        "attn_mask",
        "dropout_p",
        "is_causal",
        "scale",
        "enable_gqa",
    ]
    q, k, v = inputs(FORMS["4-D"])
    mask = torch.ones(5, 7, dtype=torch.bool).tril()
    expected = regard.scaled_dot_product_attention(q, k, v, mask)
    by_name = regard.scaled_dot_product_attention(
        query=q,
        key=k,
        value=v,
        attn_mask=mask,
        dropout_p=0.0,
        is_causal=False,
        scale=None,
        enable_gqa=False,
    )
    assert torch.equal(by_name, expected)
    assert torch.equal(regard.scaled_dot_product_attention(q, k, v, None, 0.0, True), expected)


def test_is_causal_is_aligned_to_the_start() -> None:
    q, k, v = inputs(FORMS["4-D"])
    first = regard.scaled_dot_product_attention(q, k, v, is_causal=True)[:, :, 0]
    torch.testing.assert_close(first, v[:, :, 0])


@pytest.mark.parametrize(
    "shapes", [FORMS["4-D"], FORMS["3-D"], FORMS["keys and values broadcast apart"]]
)
def test_gradients_are_pytorchs(shapes: Shapes) -> None:
    random = np.random.default_rng(1)
    mask = torch.from_numpy(random.normal(size=(5, 7)))
    ways: list[dict[str, Any]] = [{}, {"is_causal": True}, {"attn_mask": mask}]
    for options in ways:
        q, k, v = (x.double().requires_grad_() for x in inputs(shapes))
        ours, theirs = (
            torch.autograd.grad(function(q, k, v, **options).square().sum(), (q, k, v))
            for function in (
                regard.scaled_dot_product_attention,
                functional.scaled_dot_product_attention,
            )
        )
        for one, other in zip(ours, theirs, strict=True):
            torch.testing.assert_close(one, other)


def test_dropout_drops_about_its_share_and_scales_the_rest() -> None:
    torch.manual_seed(3)
    q, k = torch.zeros(2, 3, 101, 4), torch.zeros(2, 3, 67, 4)
    v = torch.eye(67).expand(2, 3, -1, -1)
    output = regard.scaled_dot_product_attention(q, k, v, dropout_p=0.25)
    kept = output != 0
    assert abs(float(kept.float().mean()) - 0.75) < 0.02
    torch.testing.assert_close(output[kept], torch.full_like(output[kept], 1 / 67 / 0.75))


def bad_calls() -> dict[str, tuple[list[Any], dict[str, Any]]]:
    q, k, v = inputs(FORMS["4-D"])
    q6, k2, v2 = inputs(GROUPED["4-D"])
    return {
        "one axis": ([q[0, 0, 0], k[0, 0, 0], v[0, 0, 0]], {}),
        "widths of q and k differ": ([q, k[..., :4], v], {}),
        "batches do not broadcast": ([q.repeat(2, 1, 1, 1)[:3], k, v], {}),
        "heads do not broadcast": ([q6, k2, v2], {}),
        "heads of v do not broadcast": ([q, k, v[:, :2]], {}),
        "heads that do not divide": ([q6[:, :5], k2, v2], {"enable_gqa": True}),
        "grouped without heads": ([q[0, 0], k[0, 0], v[0, 0]], {"enable_gqa": True}),
        "mixed types": ([q, k.double(), v], {}),
        "integers": ([torch.ones(1, 1, 5, 8, dtype=torch.int32)] * 3, {}),
        "complex numbers": ([torch.ones(1, 1, 5, 8, dtype=torch.complex64)] * 3, {}),
        "another device": ([q, k.to("meta"), v], {}),
        "not a tensor": ([[[1.0]], k, v], {}),
        "a mask of integers": ([q, k, v], {"attn_mask": torch.ones(5, 7, dtype=torch.int32)}),
        "a mask of another type": ([q, k, v], {"attn_mask": torch.ones(5, 7).double()}),
        "a mask that does not broadcast": ([q, k, v], {"attn_mask": torch.ones(4, 7) > 0}),
        "a mask of more axes": ([q, k, v], {"attn_mask": torch.ones(2, 1, 1, 5, 7) > 0}),
        "a mask of a larger batch": (
            [q[:1], k[:1], v[:1]],
            {"attn_mask": torch.ones(2, 1, 5, 7) > 0},
        ),
        "a mask that is no tensor": ([q, k, v], {"attn_mask": [True]}),
        "dropout above 1": ([q, k, v], {"dropout_p": 2.0}),
        "a mask in 3-D and is_causal": (
            [q[0], k[0], v[0]],
            {"attn_mask": torch.ones(5, 7) > 0, "is_causal": True},
        ),
    }


@pytest.mark.parametrize("name", list(bad_calls()))
def test_what_pytorch_refuses_is_refused(name: str) -> None:
    tensors, options = bad_calls()[name]
    with pytest.raises((RuntimeError, TypeError, IndexError, NotImplementedError)):
        functional.scaled_dot_product_attention(*tensors, **options)
    with pytest.raises((ValueError, TypeError)) as refused:
        regard.scaled_dot_product_attention(*tensors, **options)
    assert str(refused.value).startswith("scaled_dot_product_attention(): ")


@pytest.mark.parametrize(
    "name",
    [
        "one axis",
        "widths of q and k differ",
        "heads that do not divide",
        "mixed types",
        "not a tensor",
        "a mask of integers",
        "dropout above 1",
        "a mask in 3-D and is_causal",
    ],
)
def test_what_is_refused_is_refused_in_pytorchs_words_too(name: str) -> None:
    tensors, options = bad_calls()[name]
    with pytest.raises((RuntimeError, TypeError)) as theirs:
        functional.scaled_dot_product_attention(*tensors, **options)
    state = torch.get_rng_state()
    with pytest.raises(type(theirs.value), match=re.escape(str(theirs.value).strip())):
        regard.scaled_dot_product_attention(*tensors, **options)
    assert torch.equal(torch.get_rng_state(), state)


def test_a_refusal_that_is_not_pytorchs_has_none_of_its_words() -> None:
    x = torch.randn(1, 2, 5, 7)
    wrong: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((x, x, x), {"dropout_p": 1.0}),
        ((x, x.to_sparse(), x), {}),
        ((x, x, x.to("meta")), {}),
    ]
    for given, options in wrong:
        with pytest.raises(ValueError, match=r"^scaled_dot.*; got") as refused:
            regard.scaled_dot_product_attention(*given, **options)
        assert "PyTorch" not in str(refused.value)


def test_what_pytorch_lets_pass_without_a_meaning_is_refused() -> None:
    q, k, v = inputs(FORMS["4-D"])
    words = r"^scaled_dot_product_attention\(\): .*got"
    with pytest.raises(ValueError, match=words):  # fewer values than keys
        regard.scaled_dot_product_attention(q, k, v[:, :, :6])
    with pytest.raises(ValueError, match=words):
        regard.scaled_dot_product_attention(q, k, v, dropout_p=-0.5)
    with pytest.raises(ValueError, match=words):  # 4-D: PyTorch's documentation says it throws
        regard.scaled_dot_product_attention(q, k, v, torch.ones(5, 7) > 0, is_causal=True)


def test_a_negative_scale_that_is_causal_is_right() -> None:
    q, k, v = inputs(FORMS["4-D, square"])
    mask = torch.ones(7, 7, dtype=torch.bool).tril()
    found = regard.scaled_dot_product_attention(q, k, v, scale=-1.0, is_causal=True)
    expected = functional.scaled_dot_product_attention(q, k, v, mask, scale=-1.0)
    torch.testing.assert_close(found, expected)


def test_what_is_refused_raises_what_callers_of_pytorch_expect_too() -> None:
    x = torch.randn(1, 2, 5, 7)
    wrong: list[tuple[tuple[Any, ...], dict[str, Any]]] = [
        ((x, x[..., :3], x), {}),
        ((x, x.double(), x.double()), {}),
        ((x, torch.randn(1, 3, 5, 7), torch.randn(1, 3, 5, 7)), {}),
        ((x, x, x), {"attn_mask": torch.zeros(3, 5)}),
        ((x, x, x), {"attn_mask": torch.zeros(5, 5, dtype=torch.int64)}),
        ((x[0, 0, 0], x, x), {}),
        ((x.long(), x.long(), x.long()), {}),
        ((x, torch.randn(3, 2, 5, 7), torch.randn(5, 2, 5, 7)), {}),
    ]
    for args, options in wrong:
        with pytest.raises(RuntimeError):
            functional.scaled_dot_product_attention(*args, **options)
        with pytest.raises(RuntimeError) as caught:
            regard.scaled_dot_product_attention(*args, **options)
        assert isinstance(caught.value, ValueError | TypeError)
