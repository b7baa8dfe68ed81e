"""Attention: one contract, two backends.

- `attend.py`: `attention`, and who does the work; `sdpa.py`: the same with PyTorch's signature
- `tiles.py`: `weights` and `pooled`, any part of the weights, any time later
- `options.py`: the options, and which keys a query may attend to
- `checks.py`: what can be wrong with arguments; `problem.py`: they, if nothing is
- `native.py`: to the C++ kernel; `eager.py`: when it may be called without the operator
- `scores.py`, `forward.py`, `backward.py`: the torch backend
- `operator.py`: as operators of torch.library
- `dispatch.py`: what each backend can do, and which one takes a call
"""

from __future__ import annotations

from regard._attention.attend import attention
from regard._attention.dispatch import Backend, backends
from regard._attention.options import Options
from regard._attention.sdpa import scaled_dot_product_attention
from regard._attention.tiles import pooled, weights

__all__ = [
    "Backend",
    "Options",
    "attention",
    "backends",
    "pooled",
    "scaled_dot_product_attention",
    "weights",
]
