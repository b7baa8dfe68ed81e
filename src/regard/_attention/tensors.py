"""Do q, k and v fit together: their types, devices and shapes?"""

from __future__ import annotations

import torch
from torch import Tensor

from regard._arguments import WrongType, WrongValue
from regard._attention.eager import lost_its_memory

__all__ = [
    "FLOATS",
    "check_dense",
    "check_device",
    "check_shapes",
    "check_types",
]

FLOATS = (torch.float32, torch.float64, torch.float16, torch.bfloat16)


def check_types(call: str, tensors: dict[str, Tensor]) -> None:
    """Dense tensors of one floating type on one device."""
    q = tensors["q"]
    for name, tensor in tensors.items():
        check_dense(call, name, tensor)
        if tensor.dtype not in FLOATS:
            raise WrongType(
                f"{call}: {name} must be float16, bfloat16, float32 or float64; "
                f"got {tensor.dtype}. {name}.float() makes it float32."
            )
        if tensor.dtype != q.dtype:
            raise WrongType(
                f"{call}: {name} must have q's type {q.dtype}; got {tensor.dtype}. "
                f"{name}.to(q.dtype) converts it."
            )
        check_device(call, name, tensor, q)


def check_dense(call: str, name: str, tensor: object) -> None:
    if not isinstance(tensor, Tensor):
        found = None if tensor is None else type(tensor).__name__
        raise WrongType(
            f"{call}: {name} must be a torch.Tensor; got {found}. "
            f"torch.as_tensor({name}) makes one of numbers."
        )
    if tensor.is_nested or tensor.layout != torch.strided:
        found = "a nested one" if tensor.is_nested else str(tensor.layout)
        raise WrongType(
            f"{call}: {name} must be a dense (strided) tensor; got {found}. "
            f"{name}.{'to_padded_tensor(0.0)' if tensor.is_nested else 'to_dense()'} makes one."
        )
    if lost_its_memory(tensor):
        raise WrongValue(
            f"{call}: {name} must have its numbers in memory; got {tuple(tensor.shape)} whose "
            "storage was resized to 0. Resize it back, and fill it, first."
        )


def check_device(call: str, name: str, tensor: Tensor, q: Tensor) -> None:
    if tensor.device != q.device:
        raise WrongValue(
            f"{call}: {name} must be on q's device {q.device}; got {tensor.device}. "
            f"{name}.to(q.device) moves it."
        )


def check_shapes(call: str, q: Tensor, k: Tensor, v: Tensor | None) -> None:
    if q.dim() != 4:
        raise WrongValue(
            f"{call}: q must be (B, H, Nq, D), four axes; got {tuple(q.shape)}. "
            "q[None] adds an axis in front."
        )
    batch, heads, _, width = q.shape

    def refuse(name: str, axes: str, expected: tuple[object, ...], found: Tensor, why: str) -> None:
        shown = "(" + ", ".join(str(size) for size in expected) + ")"
        raise WrongValue(
            f"{call}: {name} must be {axes} = {shown}; got {tuple(found.shape)}. {why}"
        )

    axes = "(B, Hkv, Nk, D)"
    if k.dim() != 4:
        refuse("k", axes, (batch, "Hkv", "Nk", width), k, "It needs four axes, as q does.")
    expected = (batch, *k.shape[1:3], width)
    if k.shape[3] != width:
        refuse("k", axes, expected, k, "The last axis must equal q's D.")
    if k.shape[0] != batch:
        refuse("k", axes, expected, k, "The first axis must equal q's B.")
    kv_heads = k.shape[1]
    if heads % kv_heads if kv_heads else heads:
        raise WrongValue(
            f"{call}: q's number of heads H must be a multiple of k's Hkv; got H = {heads} in q "
            f"{tuple(q.shape)}, Hkv = {kv_heads} in k {tuple(k.shape)}. "
            "Consecutive query heads share a key head, in groups of equal size."
        )
    if v is None:
        return
    axes = "(B, Hkv, Nk, Dv)"
    if v.dim() != 4:
        refuse("v", axes, (*k.shape[:3], "Dv"), v, "It needs four axes, as k does.")
    if v.shape[:3] != k.shape[:3]:
        refuse("v", axes, (*k.shape[:3], v.shape[3]), v, "All axes but the last must equal k's.")
