"""`regard.attention`: the one door, and the one place where it is decided who does the work."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import overload

import torch
from torch import Tensor
from torch.overrides import handle_torch_function

from regard._attention import operator
from regard._attention.checks import check, check_dropout, check_see
from regard._attention.dispatch import choose, run
from regard._attention.drawn import draw
from regard._attention.eager import (
    has_function_mode,
    is_plain,
    may_go_direct,
    with_function_of_their_own,
)
from regard._attention.options import Options, Window
from regard._attention.problem import Problem
from regard._attention.short import short_attention
from regard.observation import Observation, See


@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    window: Window | None = None,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    lengths: Tensor | Sequence[int] | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    dropout: float = 0.0,
    see: None = None,
    backend: str | None = None,
    position: int | None = None,
    segments: Tensor | tuple[Tensor, Tensor] | None = None,
    indices: Tensor | None = None,
) -> Tensor: ...
@overload
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    window: Window | None = None,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    lengths: Tensor | Sequence[int] | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    dropout: float = 0.0,
    see: See,
    backend: str | None = None,
    position: int | None = None,
    segments: Tensor | tuple[Tensor, Tensor] | None = None,
    indices: Tensor | None = None,
) -> tuple[Tensor, Observation]: ...
def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    *,
    causal: bool = False,
    window: Window | None = None,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    lengths: Tensor | Sequence[int] | None = None,
    scale: float | None = None,
    softcap: float | None = None,
    sinks: Tensor | None = None,
    dropout: float = 0.0,
    see: See | None = None,
    backend: str | None = None,
    position: int | None = None,
    segments: Tensor | tuple[Tensor, Tensor] | None = None,
    indices: Tensor | None = None,
) -> Tensor | tuple[Tensor, Observation]:
    """weights · V with weights = softmax(scale · Q Kᵀ + bias), over the keys a query may attend to.

    `q` (B, H, Nq, D), `k` (B, Hkv, Nk, D) and `v` (B, Hkv, Nk, Dv) give (B, H, Nq, Dv), which lies
    in memory as (B, Nq, H, Dv). H is a multiple of Hkv: query heads share key heads in consecutive
    groups. Any strides will do. With `see`, (output, Observation) of what attention looked at.

    Which keys, all of them together:

    - `mask`: bool, **True = may attend**, broadcasts to (B, H, Nq, Nk) and is never expanded
    - `lengths` (B,): how many keys of each sequence are real, from the left; less than 0 is 0, and
      more than Nk is Nk
    - `causal`: query i stands at p = i + Nk − Nq, the last query beside the last key, and key j at
      j; only j ≤ p. `position` puts query i at i + position instead; 0 aligns the first ones.
    - `window=(left, right)`: only p − left ≤ j ≤ p + right; None is unbounded
    - `segments`: sequences packed one behind the other, which do not see each other: ids (B, N), of
      which one less than 0 is padding, or cumulative lengths (S + 1,) from 0 to N. If queries and
      keys have different ones, a pair. All positions are counted within a segment.
    - `indices` (B, Nq, K) or (B, H, Nq, K): the keys that are chosen for each query; less than 0 is
      none. Like a mask of them, which is never made.

    How much of each:

    - `scale`: 1/√D unless given
    - `softcap` c: a score s becomes c · tanh(s / c), before bias and masks
    - `bias`: added to the scores, broadcasts as `mask` does; −inf is a mask. PyTorch's CausalBias,
      here or as `mask`, is `causal=True`, with `position=0` where it starts in the upper left.
    - `sinks` (H,): one more logit a head, which takes weight and gives no value
    - `dropout`: each weight is dropped with this chance, the others grow; always on if not 0.
      torch.manual_seed repeats it, on the same backend.

    Scores and softmax are computed in float32 at least, in float64 for float64; torch.autocast
    changes neither that nor the type of the output, which is q's. A query without a key gets output
    0 and gradient 0. A NaN or an infinity that a query may attend to makes its output not finite;
    one that it may not attend to has no effect, on outputs or gradients.

    Gradients flow to q, k, v, bias and sinks, once; what was seen carries none. Memory beside
    inputs and results is O(N · D) and some tiles: no path holds Nq × Nk.

    `backend` is "native" (float32, bfloat16, float16 and float64 on the CPU), "torch" (everything)
    or None, the first that can.

    >>> q = k = torch.eye(3)[None, None]
    >>> v = torch.tensor([[1.0], [2.0], [4.0]])[None, None]
    >>> attention(q, k, v, scale=100.0, causal=True)[0, 0].tolist()
    [[1.0], [2.0], [4.0]]
    >>> out, seen = attention(q, k, v, see=See(entropy=True), mask=torch.eye(3).bool())
    >>> seen.entropy[0, 0].tolist()
    [0.0, 0.0, 0.0]
    """
    if (
        mask is None
        and bias is None
        and window is None
        and lengths is None
        and softcap is None
        and sinks is None
        and position is None
        and segments is None
        and indices is None
        and type(dropout) is float  # what else may be 0, or have no ==, goes the long way
        and dropout == 0.0
        and (backend is None or backend == "native")
    ):
        done = short_attention(q, k, v, causal, scale, see)
        if done is not None:
            return done[0] if see is None else done  # pyright: ignore[reportReturnType]
    numbers = scale, softcap, sinks, position
    options = Options(causal, window, mask, bias, lengths, *numbers, segments, indices)  # pyright: ignore[reportArgumentType] -- lengths and segments are checked
    pair = segments if isinstance(segments, tuple) else (segments,)
    others = with_function_of_their_own(q, k, v, mask, bias, lengths, sinks, *pair, indices)
    if others or has_function_mode():
        arguments = options.arguments()
        arguments |= {"dropout": dropout, "see": see, "backend": backend}
        return handle_torch_function(attention, others, q, k, v, **arguments)
    return attend("attention()", q, k, v, options, dropout, see, backend)


def attend(
    call: str,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    options: Options,
    dropout: float,
    see: See | None = None,
    backend: str | None = None,
    layout: str = "joined",
    as_pytorch: bool = False,
) -> Tensor | tuple[Tensor, Observation]:
    """What `call` computes: check everything, choose who does the work, and have it done.

    `as_pytorch`: dropout is what PyTorch would draw for all weights, in their order.
    """
    options = check(call, {"q": q, "k": k, "v": v}, options)
    dropout = check_dropout(call, dropout)
    if see is not None:
        check_see(call, see, q, k)
    backend = choose(call, backend, q, k)
    # Drawn from PyTorch's generator, so that torch.manual_seed makes dropout repeatable.
    problem = Problem(q, k, v, options, layout, dropout)
    if dropout:
        drawn = as_pytorch and q.device.type == "cpu" and is_plain(problem.tensors)
        seed = (
            draw(problem.scores_shape, dropout) if drawn else torch.randint(2**62, (), device="cpu")
        )
        problem = replace(problem, seed=seed)
    is_direct = may_go_direct((*problem.tensors, *(() if see is None else see.tensors)))
    out, seen = (run if is_direct else operator.attend)(backend, problem, see)
    return out if seen is None else (out, seen)
