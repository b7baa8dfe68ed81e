"""Tensors that are not what they seem: no numbers in memory, negatives, types of their own."""

from __future__ import annotations

from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import regard

LENGTHS = {
    torch.uint64: [2**63, 2**64 - 1, 3],
    torch.int64: [2**62, -(2**62), 3],
    torch.uint8: [255, 0, 3],
}


def inputs(batch: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    q = torch.randn(batch, 3, 5, 7)
    return q, torch.randn(batch, 3, 11, 7), torch.randn(batch, 3, 11, 7)


def zeros(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """Zeros that were never written down."""
    return torch._efficientzerotensor(shape, dtype=dtype)  # pyright: ignore[reportPrivateImportUsage]


def negative(x: Tensor) -> Tensor:
    """x, as the negative of what is in memory."""
    found = torch.complex(torch.zeros_like(x), -x).conj().imag
    assert found.is_neg()
    assert torch.equal(found, x)
    return found


ODD: dict[str, tuple[tuple[int, ...], torch.dtype]] = {
    "mask": ((5, 11), torch.bool),
    "bias": ((5, 11), torch.float32),
    "sinks": ((3,), torch.float32),
    "lengths": ((1,), torch.int64),
}


@pytest.mark.parametrize("backend", ["native", "torch"])
@pytest.mark.parametrize("name", ODD)
def test_zeros_that_were_never_written_down_count_as_zeros(name: str, backend: str) -> None:
    q, k, v = inputs()
    shape, dtype = ODD[name]
    plain: dict[str, Any] = {name: torch.zeros(shape, dtype=dtype)}
    odd: dict[str, Any] = {name: zeros(*shape, dtype=dtype)}
    see = regard.See(entropy=True)
    expected, looked = regard.attention(q, k, v, see=see, backend=backend, **plain)
    found, seen = regard.attention(q, k, v, see=see, backend=backend, **odd)
    assert torch.equal(found, expected)
    assert torch.equal(seen.lse, looked.lse)
    weights = regard.weights(q, k, backend=backend, **odd)
    assert torch.equal(weights, regard.weights(q, k, backend=backend, **plain))


@pytest.mark.parametrize("which", [0, 1, 2])
def test_q_k_and_v_may_be_zeros_that_were_never_written_down(which: int) -> None:
    given, odd = list(inputs()), list(inputs())
    odd[:] = given
    given[which], odd[which] = torch.zeros_like(given[which]), zeros(*given[which].shape)
    assert torch.equal(regard.attention(*odd), regard.attention(*given))


def test_queries_that_are_seen_may_be_zeros_that_were_never_written_down() -> None:
    q, k, v = inputs()
    see = regard.See(map=(2, 3), received=True, queries=zeros(1, 5, dtype=torch.bool))
    seen = regard.attention(q, k, v, see=see)[1]
    assert seen.received is not None
    assert seen.map is not None
    assert not seen.received.any()
    assert not seen.map.any()


@pytest.mark.parametrize("backend", ["native", "torch"])
def test_an_lse_that_is_a_negative_view_is_what_it_shows(backend: str) -> None:
    q, k, v = inputs()
    lse = regard.attention(q, k, v, see=regard.See())[1].lse
    for odd in (negative(lse), lse.double(), negative(lse)[:, :, :5]):
        found = regard.weights(q, k, lse=odd, backend=backend)
        assert torch.equal(found, regard.weights(q, k, lse=lse, backend=backend))
        picture = regard.pooled(q, k, lse=odd, shape=(2, 3), backend=backend)
        expected = regard.pooled(q, k, lse=lse, shape=(2, 3), backend=backend)
        assert torch.equal(picture, expected)


@pytest.mark.parametrize("name", ["bias", "sinks"])
def test_negative_views_are_what_they_show(name: str) -> None:
    q, k, v = inputs()
    x = torch.randn(ODD[name][0])
    plain: dict[str, Any] = {name: x}
    odd: dict[str, Any] = {name: negative(x)}
    assert torch.equal(regard.attention(q, k, v, **odd), regard.attention(q, k, v, **plain))


@pytest.mark.parametrize("backend", ["native", "torch"])
@pytest.mark.parametrize("dtype", LENGTHS)
def test_lengths_of_any_whole_type_are_what_they_say(dtype: torch.dtype, backend: str) -> None:
    q, k, v = inputs(3)
    given = LENGTHS[dtype]
    found = regard.attention(q, k, v, lengths=torch.tensor(given, dtype=dtype), backend=backend)
    clamped = [min(max(length, 0), 11) for length in given]
    assert torch.equal(found, regard.attention(q, k, v, lengths=clamped, backend=backend))


@pytest.mark.parametrize("name", ["q", "k", "v", *ODD, "lse", "queries"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_a_storage_that_was_resized_to_0_is_refused(name: str, dtype: torch.dtype) -> None:
    q, k, v = (x.to(dtype) for x in inputs())
    given: dict[str, Any] = {"q": q, "k": k, "v": v}
    shape, kind = ODD.get(name, ((1, 5), torch.bool))
    lost = torch.ones((1, 3, 5) if name == "lse" else shape, dtype=kind)
    lost = given.get(name, lost.float() if name == "lse" else lost)
    lost.untyped_storage().resize_(0)

    def ask() -> None:
        if name == "lse":
            regard.weights(q, k, lse=lost)
        elif name == "queries":
            regard.attention(q, k, v, see=regard.See(queries=lost, received=True))
        else:
            regard.attention(**{**given, name: lost})

    with pytest.raises(ValueError, match=rf"{name} must have its numbers in memory.*resized to 0"):
        ask()


@pytest.mark.parametrize("which", ["grad", "saved"])
def test_a_backward_pass_whose_memory_is_gone_is_refused(which: str) -> None:
    q, k, v = (x.requires_grad_() for x in inputs())
    out = regard.attention(q, k, v)
    grad = torch.ones_like(out)
    (grad if which == "grad" else k).untyped_storage().resize_(0)
    with pytest.raises(RuntimeError, match=r"must have its numbers in memory.*resized to 0"):
        out.backward(grad)


class Named(Tensor):
    """A type of its own, whose numbers are where a tensor's are."""


def test_a_subclass_with_numbers_of_its_own_comes_back_as_in_pytorch() -> None:
    q, k, v = inputs()
    expected = F.scaled_dot_product_attention(q.as_subclass(Named), k, v)
    for attend in (regard.attention, regard.scaled_dot_product_attention):
        found = attend(q.as_subclass(Named), k, v)
        assert type(found) is type(expected) is Named
        assert torch.allclose(found.as_subclass(Tensor), expected.as_subclass(Tensor), atol=1e-5)
        assert torch.equal(found.as_subclass(Tensor), attend(q, k, v).contiguous())


class Elsewhere(Tensor):
    """What it means is not in its memory: it says itself what functions make of it."""

    @classmethod
    def __torch_function__(
        cls, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
    ) -> Any:
        if func in (regard.attention, regard.scaled_dot_product_attention):
            raise NotImplementedError("Elsewhere knows nothing of attention")
        return super().__torch_function__(func, types, args, kwargs)


@pytest.mark.parametrize("name", ["q", "k", "v", "mask", "bias", "sinks"])
def test_a_subclass_is_asked_what_attention_makes_of_it(name: str) -> None:
    q, k, v = inputs()
    given: dict[str, Any] = {"q": q, "k": k, "v": v}
    shape, kind = ODD.get(name, ((1,), torch.float32))
    odd = given.get(name, torch.zeros(shape, dtype=kind)).as_subclass(Elsewhere)
    with pytest.raises(NotImplementedError, match="Elsewhere knows nothing of attention"):
        regard.attention(**{**given, name: odd})


@pytest.mark.filterwarnings("ignore:The PyTorch API of MaskedTensors", "ignore:attention is not")
def test_masked_tensors_are_refused_by_name() -> None:
    from torch.masked import masked_tensor

    q, k, v = inputs()
    odd = masked_tensor(q, q > 0)
    for attend in (regard.attention, regard.scaled_dot_product_attention):
        with pytest.raises(TypeError, match="MaskedTensor"):
            attend(odd, k, v)


def test_parameters_without_a_shape_are_refused() -> None:
    _, k, v = inputs()
    with pytest.raises((TypeError, ValueError), match=r"[Uu]ninitialized"):
        regard.attention(torch.nn.UninitializedParameter(), k, v)


def test_a_view_into_a_storage_that_was_resized_to_0_is_refused() -> None:
    both = torch.randn(2, 1, 3, 5, 7)
    q, k = both[1], torch.randn(1, 3, 5, 7)  # its address is an offset, and so not 0
    both.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match="must have its numbers in memory"):
        regard.attention(q, k, k)


def test_a_part_of_zeros_that_were_never_written_down_counts_as_zeros() -> None:
    q, k = torch.randn(1, 2, 5, 3), torch.randn(1, 2, 7, 3)
    found = regard.weights(q, k, rows=(1, 4), bias=zeros(5, 7))
    assert torch.equal(found, regard.weights(q, k, rows=(1, 4), bias=torch.zeros(5, 7)))


@pytest.mark.parametrize("function", [regard.weights, regard.pooled])
@pytest.mark.parametrize("k", [None, [1.0], torch.ones(1, 2, 3, 5).to_sparse()])
def test_tiles_of_what_is_no_dense_tensor_are_refused_by_name(function: Any, k: Any) -> None:
    with pytest.raises(TypeError, match=r"\(\): k must be a "):
        function(torch.ones(1, 2, 3, 5), k)


@pytest.mark.parametrize(("d", "d_v"), [(5, 0), (0, 5), (0, 0)])
def test_gradients_of_width_0_are_zeros(d: int, d_v: int) -> None:
    q, k = (torch.randn(1, 2, 3, d, requires_grad=True) for _ in range(2))
    v = torch.randn(1, 2, 3, d_v, requires_grad=True)
    regard.attention(q, k, v).sum().backward()
    for x in (q, k):
        assert x.grad is not None
        assert not x.grad.any()
    assert v.grad is not None
    assert v.grad.shape == v.shape
