"""Packed sequences and chosen keys: what the laws, which are tried with them too, do not say."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from helpers.attention_problems import SMALL, on_each_backend_and_dtype, problems
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

import regard

LENGTHS = (7, 1, 13, 29, 5)
N = sum(LENGTHS)
SEE = regard.See(entropy=True, top=3, received=True, distance=True)


def ids() -> Tensor:
    """Segments whose ids are in no order."""
    names = torch.tensor([8, 3, 5, 0, 4])
    return names.repeat_interleave(torch.tensor(LENGTHS))[None]


def cumulative() -> Tensor:
    return torch.tensor((0, *LENGTHS)).cumsum(0)


def tensors(dtype: torch.dtype = torch.float32, batch: int = 1) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(3)
    shapes = ((batch, 6, N, 17), (batch, 2, N, 17), (batch, 2, N, 11))
    q, k, v = (torch.randn(shape, generator=generator).to(dtype) for shape in shapes)
    return q, k, v


@pytest.mark.parametrize("backend", ["native", "torch"])
@pytest.mark.parametrize(
    "options", [{}, {"causal": True}, {"window": (3, 2)}, {"causal": True, "window": (4, None)}]
)
def test_each_sequence_of_a_pack_is_as_it_is_alone(backend: str, options: dict[str, Any]) -> None:
    q, k, v = tensors()
    output, seen = regard.attention(q, k, v, segments=ids(), see=SEE, backend=backend, **options)
    start = 0
    for length in LENGTHS:
        part = slice(start, start + length)
        one, of_one = regard.attention(
            q[:, :, part], k[:, :, part], v[:, :, part], see=SEE, backend=backend, **options
        )
        torch.testing.assert_close(output[:, :, part], one, rtol=1e-5, atol=1e-6)
        for name in ("lse", "entropy", "distance", "received"):
            found, expected = getattr(seen, name)[:, :, part], getattr(of_one, name)
            torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-5)
        assert seen.top_keys is not None
        assert of_one.top_keys is not None
        found = seen.top_keys[:, :, part]
        torch.testing.assert_close(found - start * (found >= 0), of_one.top_keys)
        start += length


@pytest.mark.parametrize("backend", ["native", "torch"])
def test_gradients_of_a_pack_are_those_of_its_sequences(backend: str) -> None:
    packed = [x.requires_grad_() for x in tensors()]
    alone = [x.requires_grad_() for x in tensors()]
    q, k, v = packed
    regard.attention(
        q, k, v, causal=True, segments=ids(), backend=backend
    ).square().sum().backward()
    for part in torch.arange(N).split(LENGTHS):
        q, k, v = (x[:, :, part] for x in alone)
        regard.attention(q, k, v, causal=True, backend=backend).square().sum().backward()
    for found, expected in zip(packed, alone, strict=True):
        torch.testing.assert_close(found.grad, expected.grad, rtol=1e-5, atol=1e-6)


def test_cumulative_lengths_say_the_same_as_ids() -> None:
    q, k, v = tensors()
    expected = regard.attention(q, k, v, causal=True, segments=ids())
    for said in (cumulative(), cumulative().int(), (cumulative(), cumulative())):
        assert torch.equal(regard.attention(q, k, v, causal=True, segments=said), expected)
    with_empty = torch.cat([cumulative()[:3], cumulative()[2:]])  # a sequence of no token is none
    assert torch.equal(regard.attention(q, k, v, causal=True, segments=with_empty), expected)


@pytest.mark.parametrize("backend", ["native", "torch"])
def test_the_last_query_of_a_segment_stands_beside_its_last_key(backend: str) -> None:
    q, k, v = tensors()
    of_queries, of_keys = torch.tensor([0, 2, 3, 8]), torch.tensor([0, 7, 20, N])
    output = regard.attention(
        q[:, :, :8], k, v, causal=True, segments=(of_queries, of_keys), backend=backend
    )
    for (a, b), (c, d) in (((0, 2), (0, 7)), ((2, 3), (7, 20)), ((3, 8), (20, N))):
        one = regard.attention(
            q[:, :, a:b], k[:, :, c:d], v[:, :, c:d], causal=True, backend=backend
        )
        torch.testing.assert_close(output[:, :, a:b], one, rtol=1e-5, atol=1e-6)


def test_padding_between_segments_sees_nothing_and_is_not_seen() -> None:
    q, k, v = tensors()
    given = ids()
    given[:, 7:8] = -1
    q[:, :, 7], k[:, :, 7], v[:, :, 7] = torch.nan, torch.inf, torch.nan
    output, seen = regard.attention(q, k, v, segments=given, see=SEE)
    assert output.isfinite().all()
    assert not output[:, :, 7].any()
    assert (seen.lse[:, :, 7] == -torch.inf).all()
    assert seen.received is not None
    assert not seen.received[:, :, 7].any()


def test_chosen_keys_are_as_a_mask_of_them() -> None:
    q, k, v = tensors()
    generator = torch.Generator().manual_seed(5)
    chosen = torch.randint(-3, N, (1, 6, N, 9), generator=generator)
    mask = torch.zeros(1, 6, N, N + 1, dtype=torch.bool)
    mask = mask.scatter(3, chosen.where(chosen >= 0, N), True)[..., :N]
    expected, of_mask = regard.attention(q, k, v, mask=mask, causal=True, see=SEE)
    output, seen = regard.attention(q, k, v, indices=chosen, causal=True, see=SEE)
    assert torch.equal(output, expected)
    assert seen.top_keys is not None
    assert of_mask.top_keys is not None
    assert torch.equal(seen.top_keys, of_mask.top_keys)
    found = regard.weights(q, k, rows=(5, 31), keys=(2, 47), indices=chosen, causal=True)
    assert torch.equal(
        found, regard.weights(q, k, rows=(5, 31), keys=(2, 47), mask=mask, causal=True)
    )


@on_each_backend_and_dtype
@given(data=st.data())
def test_sets_of_keys_have_the_gradients_of_a_mask_of_them(
    backend: str, dtype: torch.dtype, data: st.DataObject
) -> None:
    """But for the rounding of the sums, which is float32's in halves, where the laws allow more."""
    problem = data.draw(problems(dtype=dtype, sizes=SMALL, magnitudes=(1.0,)))
    tensors = [x.detach().requires_grad_() for x in (problem.q, problem.k, problem.v)]
    sets = ("causal", "window", "position", "mask", "lengths", "segments", "indices")
    others = {name: x for name, x in problem.options.items() if name not in sets}
    allowed = torch.from_numpy(np.array(problem.truth().allowed))
    flowing = problem.normal(*problem.q.shape[:3], problem.v.shape[3])

    def gradients(**options: Any) -> tuple[Tensor, ...]:
        output = regard.attention(*tensors, backend=backend, **options)
        return output, *torch.autograd.grad(output, tensors, flowing)

    found, expected = gradients(**problem.options), gradients(mask=allowed, **others)
    unit = (2 if dtype.itemsize == 2 else 32) * torch.finfo(dtype).eps
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other, rtol=unit, atol=unit)


def test_the_types_of_a_model_are_served_alike() -> None:
    for dtype in (torch.bfloat16, torch.float16, torch.float64):
        q, k, v = tensors(dtype)
        output = regard.attention(q, k, v, causal=True, segments=cumulative())
        exact = regard.attention(q.double(), k.double(), v.double(), causal=True, segments=ids())
        assert output.dtype == dtype
        torch.testing.assert_close(output.double(), exact, rtol=2e-2, atol=2e-2)


def test_compiled_and_exported_it_is_the_same() -> None:
    q, k, v = tensors()

    def attend(q: Tensor, k: Tensor, v: Tensor, given: Tensor) -> Tensor:
        return regard.attention(q, k, v, causal=True, segments=given)

    for said in (ids(), cumulative()):
        compiled = torch.compile(attend, fullgraph=True, backend="eager")
        assert torch.equal(compiled(q, k, v, said), attend(q, k, v, said))

    class Module(torch.nn.Module):
        def forward(self, q: Tensor, k: Tensor, v: Tensor, given: Tensor) -> Tensor:
            return attend(q, k, v, given)

    n = torch.export.Dim("n", min=2, max=512)
    shapes = ({2: n}, {2: n}, {2: n}, {1: n})
    exported = torch.export.export(Module(), (q, k, v, ids()), dynamic_shapes=shapes).module()
    shorter = [*(x[:, :, :23] for x in (q, k, v)), ids()[:, :23]]
    assert torch.equal(exported(*shorter), attend(*shorter))


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (torch.zeros(2, N, dtype=torch.int64), r"segments must be ids \(B, N\) = \(1, 55\)"),
        (torch.zeros(1, N), "segments must be whole numbers; got torch.float32"),
        (torch.tensor([0, 5, 3, N]), "must ascend from 0 to N = 55"),
        (torch.tensor([0, 5]), "must ascend from 0 to N = 55"),
        (torch.tensor([1, N]), "must ascend from 0 to N = 55"),
        (torch.tensor([[0] * 20 + [1] * 20 + [0] * 15]), "comes back after others"),
        ((cumulative(),), "those of the queries, those of the keys"),
        ((cumulative(), None), r"segments\[1\] must be a torch.Tensor"),
        (torch.zeros(1, N, 2, dtype=torch.int64), r"segments must be \(B, Nq, 3\)"),
        ("0,5", "segments must be a torch.Tensor"),
    ],
)
def test_what_are_no_segments_is_refused(given: Any, message: str) -> None:
    q, k, v = tensors()
    with pytest.raises((TypeError, ValueError), match=message):
        regard.attention(q, k, v, segments=given)


def test_fewer_queries_than_keys_need_segments_of_both() -> None:
    q, k, v = tensors()
    with pytest.raises(ValueError, match="those of the queries, those of the keys"):
        regard.attention(q[:, :, :5], k, v, segments=ids())


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (torch.zeros(1, N, 3), "indices must be whole numbers"),
        (torch.full((1, N, 3), N), "indices must be less than Nk = 55; got 55"),
        (torch.zeros(1, 7, 3, dtype=torch.int64), r"must be \(B, Nq, K\) or \(B, H, Nq, K\)"),
        (torch.zeros(N, 3, dtype=torch.int64), r"must be \(B, Nq, K\) or \(B, H, Nq, K\)"),
    ],
)
def test_what_are_no_indices_is_refused(given: Tensor, message: str) -> None:
    q, k, v = tensors()
    with pytest.raises((TypeError, ValueError), match=message):
        regard.attention(q, k, v, indices=given)


@pytest.mark.parametrize(
    "lengths",
    [
        (131, 1, 17, 263, 5),  # panels of keys that begin with each segment
        (1, 2, 3) * 41,  # too short for that
    ],
)
@pytest.mark.parametrize("order", ["ascending", "shuffled"])
def test_long_packs_are_what_the_reference_says(lengths: tuple[int, ...], order: str) -> None:
    n = sum(lengths)
    generator = torch.Generator().manual_seed(7)
    q, k, v = (torch.randn(1, 2, n, width, generator=generator) for width in (19, 19, 5))
    k[0, 0, 2, 3] = float("nan")  # all but its own segment are spared
    of_keys = torch.arange(len(lengths)).repeat_interleave(torch.tensor(lengths))[None]
    of_queries = of_keys
    if order == "shuffled":  # whole segments, so that queries of one stay together
        shuffled = torch.randperm(len(lengths), generator=generator)
        of_queries = torch.cat([of_keys[of_keys == segment] for segment in shuffled])[None]
    see = regard.See(entropy=True, top=3, map=(11, 13), received=True, distance=True)
    given: dict[str, Any] = {"segments": (of_queries, of_keys), "causal": True, "see": see}
    output, seen = regard.attention(q, k, v, **given)
    true, of_truth = regard.attention(q.double(), k.double(), v.double(), backend="torch", **given)
    torch.testing.assert_close(output.double(), true, rtol=1e-5, atol=1e-5, equal_nan=True)
    for name in ("lse", "entropy", "distance", "map", "received", "top_weights"):
        found, expected = getattr(seen, name).double(), getattr(of_truth, name)
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-4, equal_nan=True)
    in_order = of_queries[0].argsort(stable=True)
    assert torch.equal(
        regard.attention(
            q[:, :, in_order], k, v, segments=(of_queries[:, in_order], of_keys), causal=True
        ).nan_to_num(),
        output[:, :, in_order].nan_to_num(),
    )
