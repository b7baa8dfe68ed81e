"""Tensors of every make, in every place: as plain ones with the same numbers, or refused."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers.soak import attacks
from torch import Tensor

import regard


class Named(Tensor):
    """A type of its own, whose numbers are where a tensor's are."""


def zero(x: Tensor) -> Tensor:
    return torch._efficientzerotensor(x.shape, dtype=x.dtype)  # pyright: ignore[reportPrivateImportUsage]


def negative(x: Tensor) -> Tensor:
    if x.dtype not in (torch.float32, torch.float64):
        return x
    return torch.complex(torch.zeros_like(x), -x).conj().imag


def with_gaps(x: Tensor) -> Tensor:
    roomy = torch.full([2 * size + 1 for size in x.shape], 7.0).to(x.dtype)
    view = roomy[tuple(slice(1, 2 * size + 1, 2) for size in x.shape)]
    return view.copy_(x)


def turned(x: Tensor) -> Tensor:
    return x.flip(0).contiguous().flip(0) if x.dim() < 2 else x.mT.contiguous().mT


def lost(x: Tensor) -> Tensor:
    x = x.clone()
    x.untyped_storage().resize_(0)
    return x


MAKES: dict[str, Callable[[Tensor], Tensor]] = {
    "plain": lambda x: x,
    "parameter": lambda x: torch.nn.Parameter(x, requires_grad=False),
    "named": lambda x: x.as_subclass(Named),
    "negative": negative,
    "with gaps": with_gaps,
    "turned": turned,
    "zero": zero,
    "lost": lost,
    "nested": lambda x: torch.nested.nested_tensor([x]) if x.dim() else x,
    "sparse": lambda x: x.to_sparse(),
    "meta": lambda x: x.to("meta"),
}
REFUSED = {"lost", "nested", "sparse", "meta"}


def problem(choice: random.Random) -> dict[str, Any]:
    generator = torch.Generator().manual_seed(choice.randrange(2**31))

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator)

    batch, heads, n_queries, n_keys = (choice.choice([1, 2, 3, 5]) for _ in range(4))
    width = choice.choice([1, 7, 8])
    given: dict[str, Any] = {
        "q": normal(batch, heads, n_queries, width),
        "k": normal(batch, heads, n_keys, width),
        "v": normal(batch, heads, n_keys, width),
    }
    more = {
        "mask": normal(n_queries, n_keys) > -1,
        "bias": normal(batch, 1, n_queries, n_keys),
        "sinks": normal(heads),
        "lengths": torch.tensor([choice.randrange(n_keys + 1) for _ in range(batch)]),
    }
    given |= {name: more[name] for name in more if choice.random() < 0.3}
    return given


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_tensors_of_every_make_are_as_plain_ones_or_refused() -> None:
    for number, choice in enumerate(attacks(300)):
        given = problem(choice)
        name, make = choice.choice(sorted(given)), choice.choice(sorted(MAKES))
        dtype = choice.choice([torch.float32, torch.float64])
        given = {n: x.to(dtype) if x.is_floating_point() else x for n, x in given.items()}
        plain: dict[str, Any] = (
            {**given, name: torch.zeros_like(given[name])} if make == "zero" else given
        )
        odd: dict[str, Any] = {**given, name: MAKES[make](given[name])}
        if make in REFUSED:
            with pytest.raises((ValueError, TypeError, RuntimeError)):
                regard.attention(**odd)
            continue
        expected = regard.attention(**plain)
        found = regard.attention(**odd)
        assert torch.equal(found.as_subclass(Tensor), expected), f"attack {number}: {make} {name}"


def test_the_output_lies_in_memory_as_pytorchs_does() -> None:
    for number, choice in enumerate(attacks(300)):
        sizes = [choice.choice([1, 2, 3, 5]) for _ in range(5)]
        batch, heads, n_queries, n_keys, width = sizes

        def laid(shape: list[int], choice: random.Random = choice) -> Tensor:
            order = choice.sample(range(4), 4)
            room = [shape[axis] + choice.choice([0, 0, 0, 2]) for axis in order]
            x = torch.randn(room).permute([order.index(axis) for axis in range(4)])
            return x[tuple(slice(0, size) for size in shape)]

        kv_heads = 1 if choice.random() < 0.2 else heads
        q = laid([batch, heads, n_queries, width])
        k = laid([batch, kv_heads, n_keys, width])
        v = laid([batch, kv_heads, n_keys, choice.choice([width, width, 4])])
        options: dict[str, Any] = {"enable_gqa": choice.random() < 0.3}
        if choice.random() < 0.4:
            mask = torch.randn([1, heads, n_queries, n_keys][choice.randrange(3) :])
            options["attn_mask"] = mask if choice.random() < 0.5 else mask > -1
        elif choice.random() < 0.3:
            options["is_causal"] = True
        if choice.random() < 0.2 and "attn_mask" not in options:
            q, k, v = q[0], k[0], v[0]
        if choice.random() < 0.3:
            q.requires_grad_()
        expected = F.scaled_dot_product_attention(q, k, v, **options)
        found = regard.scaled_dot_product_attention(q, k, v, **options)
        assert found.shape == expected.shape, f"attack {number}"
        for axis, size in enumerate(found.shape):  # the step along a single one leads nowhere
            alike = size == 1 or found.stride(axis) == expected.stride(axis)
            assert alike, f"attack {number}: {found.stride()}, {expected.stride()}"
        assert torch.allclose(found, expected, atol=1e-5), f"attack {number}"
