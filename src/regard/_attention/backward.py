"""The backward pass, on any device and in any floating type: chunks of queries, as in `forward.py`.

With w the weights of a row, dP = dO · Vᵀ and δ = Σⱼ wⱼ dPⱼ, the gradient of the scores is
dS = w · (dP − δ); from it dQ = scale · dS · K, dK = scale · dSᵀ · Q, and dV = wᵀ · dO.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard._attention import native
from regard._attention.eager import without_autocast
from regard._attention.options import part
from regard._attention.problem import Problem, Tile, new_gradient
from regard._attention.scores import (
    Dropper,
    Scores,
    all_finite,
    dropper,
    grouped,
    score,
    soften,
    weigh,
)

# Of q, k, v, bias and sinks; empty where none is wanted.
Gradients = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


def new_gradients(problem: Problem, wanted: Sequence[bool], dtype: torch.dtype | None) -> Gradients:
    """Zeros for the gradients that are wanted: of type `dtype`, or that of what they belong to."""
    options = problem.options
    given = (problem.q, problem.k, problem.v, options.bias, options.sinks)

    def zeros(x: Tensor | None, want: bool) -> Tensor:
        like = problem.q if x is None else x
        return new_gradient(like, dtype or like.dtype, x is not None and want).zero_()

    q, k, v, bias, sinks = (zeros(x, want) for x, want in zip(given, wanted, strict=True))
    return q, k, v, bias, sinks


def backward(
    problem: Problem,
    grad: Tensor,
    wanted: Sequence[bool],
    backend: str = "torch",
    whole: tuple[Tensor, Tensor] | None = None,
) -> Gradients:
    """The gradients of q, k, v, bias and sinks from that of the output, (B, H, Nq, Dv).

    `backend` is the one that made the output: each drops weights in its own way. Where the keys are
    a part of all, `whole` are output and lse of the whole rows; a sink then gets nothing.
    """
    by_sequence = grad.device.type == "cpu" and (problem.seed is None or backend == "native")
    with without_autocast(problem.q.device):
        gradients = new_gradients(problem, wanted, problem.dtype)
        if problem.has_keys and by_sequence:
            # The bits of a batched product depend on the batch, and on where its matrices begin in
            # memory. One sequence after the other, each gets its own bits, whatever else there is.
            for b in range(problem.q.shape[0]):
                one = slice(b, b + 1)
                dq, dk, dv, dbias, dsinks = gradients
                dbias = dbias[one] if len(dbias) > 1 else dbias
                parts = (dq[one], dk[one], dv[one], dbias, dsinks)
                drops = dropper(backend, problem, first=b)
                known = None if whole is None else (whole[0][one], whole[1][one])
                _Pass(problem.sequence(b), grad[one].clone(), parts, wanted, known).run(drops)
        elif problem.has_keys:
            drops = dropper(backend, problem)
            _Pass(problem, grad, gradients, wanted, whole).run(drops)
        kinds = new_gradients(problem, [False] * 5, None)
        q, k, v, bias, sinks = (x.to(kind.dtype) for x, kind in zip(gradients, kinds, strict=True))
    return q, k, v, bias, sinks


class _Pass:
    """One walk over the chunks, which adds to the gradients.

    What stands on the right of a product is made finite first: a weight of 0 times a NaN would get
    to keys that a query may not attend to. Where it may, the NaN comes by the weights or dS.
    """

    def __init__(
        self,
        problem: Problem,
        grad: Tensor,
        gradients: Gradients,
        wanted: Sequence[bool],
        whole: tuple[Tensor, Tensor] | None,
    ) -> None:
        self.problem, self.wanted = problem.promoted(), wanted
        self.grad = grad.to(problem.dtype)
        self.lse = self.delta = None
        if whole is not None:
            self.delta = (self.grad * whole[0]).sum(-1, keepdim=True)
            self.lse = whole[1]
        self.dq, self.dk, self.dv, self.dbias, self.dsinks = gradients
        self.k, self.finite_grad = _finite(self.problem.k), _finite(self.grad)
        self.spoilt = None
        if self.finite_grad is not self.grad:
            self.spoilt = (~torch.isfinite(self.grad)).to(self.grad.dtype)

    def run(self, drops: Dropper | None) -> None:
        for tile in self.problem.tiles():
            self._take(tile, drops)

    def _take(self, tile: Tile, drops: Dropper | None) -> None:
        problem, kv_heads = self.problem, self.problem.k.shape[1]
        rows, keys, softcap = tile.rows, tile.keys, problem.options.softcap
        scores = score(problem, tile, multiply=_multiply, keep_capped=True)
        sink = None
        if self.lse is not None:
            values = weigh(scores, self.lse[:, :, rows])
        else:
            weights = soften(scores, problem.options.sinks)
            values, sink = weights.values, weights.sink
        kept = None if drops is None else drops(values, tile)
        if self.wanted[2]:
            self._add_dv(rows, keys, scores, values if kept is None else values * kept)
        grad = grouped(self.grad[:, :, rows], kv_heads)
        d_weights = _multiply(grad, problem.v[:, :, keys].transpose(2, 3)).view_as(values)
        if not all_finite(d_weights):
            scores.forbid(d_weights)
        if kept is not None:
            d_weights.mul_(kept)
        if self.delta is not None:
            delta = self.delta[:, :, rows]
        else:
            delta = (values * d_weights).sum(-1, keepdim=True)
        if self.wanted[4] and sink is not None:
            self.dsinks -= (sink * delta[..., 0]).sum((0, 2))
        d_scores = d_weights.sub_(delta).mul_(values)
        if not all_finite(d_scores):
            scores.forbid(d_scores)
        if self.wanted[3] and (self.lse is not None or self.dbias.shape[3] > 1):
            self._add_dbias(rows, keys, d_scores)
        elif self.wanted[3]:
            # What is added to all keys alike takes weight from the sink alone: Σⱼ dSⱼ = δ · its
            # weight, which is exactly 0 where there is none.
            self._add_dbias(rows, keys, delta * (0.0 if sink is None else sink[..., None]))
        if scores.capped is not None and softcap is not None:
            slope = 1.0 - (scores.capped / softcap).square_()  # of c · tanh(s / c): 1 − tanh²
            d_scores.mul_(slope)
            if not all_finite(slope):
                scores.forbid(d_scores)
        d_scores = grouped(d_scores, kv_heads)
        if self.wanted[0]:
            dq = _multiply(d_scores, self.k[:, :, keys]).mul_(problem.factor)
            self.dq[:, :, rows] = dq.view_as(self.dq[:, :, rows])
        if self.wanted[1]:
            self.dk[:, :, keys] += _multiply(d_scores.transpose(2, 3), _finite(scores.queries))

    def _add_dv(self, rows: slice, keys: slice, scores: Scores, weights: Tensor) -> None:
        kv_heads = self.problem.k.shape[1]
        grad = grouped(self.finite_grad[:, :, rows], kv_heads)
        self.dv[:, :, keys] += _multiply(grouped(weights, kv_heads).transpose(2, 3), grad)
        if self.spoilt is not None:
            allowed = grouped(scores.forbid(torch.ones_like(weights)), kv_heads).transpose(2, 3)
            spoilt = allowed @ grouped(self.spoilt[:, :, rows], kv_heads) > 0
            self.dv[:, :, keys].masked_fill_(spoilt, torch.nan)

    def _add_dbias(self, rows: slice, keys: slice, d_scores: Tensor) -> None:
        """The sum of dS, or of its row sums, over the axes where the bias is the same for all."""
        alike = [axis for axis in range(4) if self.dbias.shape[axis] == 1]
        dbias = part(self.dbias, rows, keys)
        dbias += d_scores.sum(alike, keepdim=True) if alike else d_scores


def _multiply(a: Tensor, b: Tensor) -> Tensor:
    """a · b. PyTorch's own product has other bits on another number of threads, or in a batch."""
    return a @ b if native.missing or a.device.type != "cpu" else native.multiply(a, b)


def _finite(x: Tensor) -> Tensor:
    return x if all_finite(x) else x.masked_fill(~torch.isfinite(x), 0.0)
