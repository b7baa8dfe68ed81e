"""Tensors that stay in their file until they are looked at, and then only the part that is.

They are read, and never mapped: a file that another program cuts short would end the process.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Self, cast, overload

import torch
from torch import Tensor

from regard._checkpoint.safetensors_file import TORCH_DTYPES, Entry, Opened
from regard.run.errors import refusing

# Of a safetensors file, those that a run may have.
DTYPES = {
    name: getattr(torch, TORCH_DTYPES[name])
    for name in ("BOOL", "U8", "I8", "I16", "I32", "I64", "F16", "BF16", "F32", "F64")
}
_RECENT = 2**26  # bytes of what was looked at last that stay in memory
_GAP = 2**16  # bytes that are not wanted between two that are, which are read all the same
# What is answered without a look at the numbers, and what only looks at a part of them.
TOLD = {
    *(getattr(Tensor, name).__get__ for name in ("shape", "dtype", "device", "layout", "ndim")),
    *(getattr(Tensor, name).__get__ for name in ("grad", "grad_fn", "is_leaf", "requires_grad")),
    *(getattr(Tensor, name).__get__ for name in ("is_meta", "is_nested", "is_sparse", "is_cuda")),
    *(getattr(Tensor, name).__get__ for name in ("is_quantized", "itemsize", "_version", "is_cpu")),
    *(Tensor.dim, Tensor.size, Tensor.stride, Tensor.numel, Tensor.nelement, Tensor.element_size),
    *(Tensor.is_floating_point, Tensor.is_complex, Tensor.is_inference, Tensor.__len__),
    *(Tensor.is_contiguous, Tensor.get_device, Tensor.ndimension),
}
_VIEWS = {
    *(Tensor.__getitem__, Tensor.expand, Tensor.detach, Tensor.unsqueeze, Tensor.select),
    *(Tensor.narrow, Tensor.permute, Tensor.transpose),
}


class OnDisk(Tensor):
    """A tensor of a file, or a part of one. What is computed from it is an ordinary tensor.

    Each look reads it anew. What is changed in place, or asked for its address, is kept in memory
    from then on.
    """

    _opened: Opened
    _start: int  # of the tensor that it is part of
    _place: Tensor  # without numbers: which of them it has, by shape, strides and offset
    _own: Tensor | None

    def __new__(cls, opened: Opened, start: int, place: Tensor) -> Self:
        strides = torch.empty(once(place).shape, device="meta").expand(place.shape).stride()
        make: Any = Tensor._make_wrapper_subclass
        made = make(cls, place.shape, strides=strides, dtype=place.dtype, device="cpu")
        made._opened, made._start, made._place, made._own = opened, start, place, None
        return made

    @classmethod
    def of(cls, opened: Opened, entry: Entry) -> Self:
        """A whole tensor of a file."""
        place = torch.empty(entry.shape, dtype=DTYPES[entry.dtype], device="meta")
        return cls(opened, entry.start, place)

    def read(self) -> Tensor:
        """The numbers, in memory. What was only expanded is read once.

        Raises RunError if the file was cut short, or written to, since it was opened.
        """
        if self._own is not None:
            return self._own
        with refusing("load()", "Load the run again, or restore the folder."):
            return self._read(once(self._place)).expand(self._place.shape)

    def _read(self, place: Tensor) -> Tensor:
        if not place.numel():
            return torch.empty(place.shape, dtype=place.dtype)
        order = sorted(range(place.dim()), key=lambda axis: -place.stride(axis))
        outer = next((axis for axis in order if place.shape[axis] > 1), None)
        sizes, strides = place.shape, place.stride()
        extent = 1 + sum((n - 1) * step for n, step in zip(sizes, strides, strict=True))
        unwanted = (extent - place.numel()) * place.element_size()
        if outer is not None and min(unwanted, strides[outer] * place.element_size()) > _GAP:
            whole = torch.empty(place.shape, dtype=place.dtype)
            for n, part in enumerate(place.split(1, outer)):
                whole.narrow(outer, n, 1).copy_(self._read(part))
            return whole
        found = torch.empty(extent, dtype=place.dtype)
        at = self._start + int(place.storage_offset()) * place.element_size()
        self._opened.read(at, found.view(torch.uint8).numpy().data)
        if place.is_contiguous():
            return found.view(place.shape)
        return torch.empty(place.shape, dtype=place.dtype).copy_(found.as_strided(sizes, strides))

    @classmethod
    def __torch_function__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        x = args[0] if args else None
        if func in TOLD and isinstance(x, OnDisk):
            with torch._C.DisableTorchFunctionSubclass():
                return func(*args, **kwargs)
        if func in _VIEWS and isinstance(x, OnDisk) and x._own is None and _is_part(func, args):
            return cls(x._opened, x._start, func(x._place, *args[1:], **kwargs))
        if isinstance(x, OnDisk) and _keeps(func):
            x._own = x.read()
        with torch._C.DisableTorchFunctionSubclass():
            found = func(*_read_all(args), **_read_all(kwargs))
        return x if isinstance(x, OnDisk) and found is x._own else found

    @classmethod
    def __torch_dispatch__(
        cls,
        func: Callable[..., Any],
        types: Sequence[type],
        args: tuple[Any, ...] = (),
        kwargs: Mapping[str, Any] | None = None,
    ) -> Any:
        """What comes here went round `__torch_function__`: PyTorch's own code does."""
        return func(*_read_all(args), **_read_all(kwargs or {}))


@overload
def in_memory(x: Tensor) -> Tensor: ...
@overload
def in_memory(x: Tensor | None) -> Tensor | None: ...
def in_memory(x: Tensor | None) -> Tensor | None:
    """The same as an ordinary tensor."""
    return x.read() if isinstance(x, OnDisk) else x


def with_part(x: Tensor, span: object) -> Tensor:
    """An ordinary tensor of the same shape, of which only `span` of axis 2 is to be looked at.

    Of one that is in a file the rest is neither read nor in memory.
    """
    if not isinstance(x, OnDisk):
        return x
    if x._own is not None:
        return x._own
    ends = (span.start, span.stop) if isinstance(span, slice | range) else span
    try:
        start, stop, _ = slice(*cast("Any", ends)).indices(x.shape[2])
    except (TypeError, ValueError):  # which is refused where it is looked at
        start, stop = 0, x.shape[2]
    stop, place = max(start, stop), x._place
    where = (place.storage_offset(), tuple(place.shape), place.stride(), place.dtype)
    key = (x._opened.number, x._opened.state, x._start, *where, start, stop)
    with _lock:
        if key in _recent:
            _recent.move_to_end(key)
            return _recent[key][0]
    if stop - start >= x.shape[2]:
        found = x.read()
    else:
        found = torch.empty(x.shape, dtype=x.dtype)
        found[:, :, start:stop] = x[:, :, start:stop]
    size = x.numel() // max(x.shape[2], 1) * (stop - start) * x.element_size()
    with _lock:
        _recent[key] = found, size
        while sum(each for _, each in _recent.values()) > _RECENT:
            _recent.popitem(last=False)
    return found


# The parts that were looked at last, which nobody may change: a picture is made in strips, which
# share their keys.
_recent: OrderedDict[tuple[Any, ...], tuple[Tensor, int]] = OrderedDict()
_lock = threading.RLock()


def once(x: Tensor) -> Tensor:
    """The same without what is only expanded, as a mask over heads may be."""
    index = tuple(slice(0, 1) if not step else slice(None) for step in x.stride())
    return x[index] if x.numel() else x


def _is_part(func: object, args: tuple[Any, ...]) -> bool:
    """Whether an index names a part, and does not gather."""
    if func is not Tensor.__getitem__:
        return True
    index = args[1] if isinstance(args[1], tuple) else (args[1],)
    return all(
        each is None or each is Ellipsis or isinstance(each, slice) or type(each) is int
        for each in index
    )


def _keeps(func: Callable[..., Any]) -> bool:
    """Whether it changes a tensor, or gives its address away."""
    name = getattr(func, "__name__", "")
    if name in ("data_ptr", "untyped_storage", "__setitem__", "__set__"):
        return True
    in_place = name.endswith("_") and not name.endswith("__")
    return in_place or (
        name.startswith("__i") and name not in ("__index__", "__invert__", "__int__")
    )


def _read_all(value: Any) -> Any:
    if isinstance(value, OnDisk):
        return value.read()
    if isinstance(value, tuple | list):
        return type(value)(map(_read_all, value))
    if isinstance(value, dict):
        return {key: _read_all(each) for key, each in value.items()}
    return value
