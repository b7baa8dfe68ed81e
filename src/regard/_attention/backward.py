"""The backward pass, on any device and in any floating type: chunks of queries, as in `chunks.py`.

With w the weights of a row, dP = dO · Vᵀ and δ = Σⱼ wⱼ dPⱼ, the gradient of the scores is
dS = w · (dP − δ); from it dQ = scale · dS · K, dK = scale · dSᵀ · Q, and dV = wᵀ · dO.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from regard._attention import native
from regard._attention.autocast import without_autocast
from regard._attention.dropout import Dropper, dropper
from regard._attention.problem import Problem, Tile
from regard._attention.results import new_gradient
from regard._attention.scores import Scores, all_finite, grouped, score, soften

__all__ = ["Gradients", "new_gradients", "pull_back"]

# Of q, k, v, bias and sinks; empty where none is wanted.
Gradients = tuple[Tensor, Tensor, Tensor, Tensor, Tensor]


def new_gradients(problem: Problem, wanted: Sequence[bool], dtype: torch.dtype | None) -> Gradients:
    """Zeros for the gradients that are wanted: of type `dtype`, or that of what they belong to."""
    q, k, v, bias, sinks = (
        new_gradient(
            problem.q if x is None else x,
            dtype or (problem.q if x is None else x).dtype,
            x is not None and want,
        ).zero_()
        for x, want in zip(
            (problem.q, problem.k, problem.v, problem.bias, problem.sinks), wanted, strict=True
        )
    )
    return q, k, v, bias, sinks


def pull_back(
    problem: Problem,
    grad: Tensor,
    wanted: Sequence[bool],
    dropout: float = 0.0,
    seed: Tensor | None = None,
    backend: str = "torch",
) -> Gradients:
    """The gradients of q, k, v, bias and sinks from that of the output, (B, H, Nq, Dv).

    `backend` is the one that made the output: each drops weights in its own way.
    """
    with without_autocast(problem.q.device):
        return _pull_back(problem, grad, wanted, dropout, seed, backend)


def _pull_back(
    problem: Problem,
    grad: Tensor,
    wanted: Sequence[bool],
    dropout: float,
    seed: Tensor | None,
    backend: str,
) -> Gradients:
    gradients = new_gradients(problem, wanted, problem.dtype)
    by_sequence = seed is None or backend == "native"
    if problem.has_keys and by_sequence and grad.device.type == "cpu":
        # The bits of a batched product depend on the batch, and on where its matrices begin in
        # memory. One sequence after the other, each gets its own bits, whatever else there is.
        for b in range(problem.q.shape[0]):
            dq, dk, dv, dbias, dsinks = gradients
            one = slice(b, b + 1)
            dbias = dbias[one] if len(dbias) > 1 else dbias
            parts = (dq[one], dk[one], dv[one], dbias, dsinks)
            drops = dropper(backend, dropout, seed, problem.q.device, first=b)
            _walk(problem.sequence(b), grad[one].clone(), parts, wanted, drops)
    elif problem.has_keys:
        drops = dropper(backend, dropout, seed, problem.q.device)
        _walk(problem, grad, gradients, wanted, drops)
    kinds = new_gradients(problem, [False] * 5, None)
    q, k, v, bias, sinks = (x.to(kind.dtype) for x, kind in zip(gradients, kinds, strict=True))
    return q, k, v, bias, sinks


def _walk(
    problem: Problem,
    grad: Tensor,
    gradients: Gradients,
    wanted: Sequence[bool],
    drops: Dropper | None,
) -> None:
    """Add to the gradients, chunk by chunk."""
    pass_ = _Pass(problem.promoted(), grad.to(problem.dtype), gradients, wanted)
    for tile in problem.tiles():
        pass_.take(tile, drops)


class _Pass:
    """One walk over the chunks, which adds to the gradients.

    What stands on the right of a product is made finite first: a weight of 0 times a NaN would
    reach keys that a query may not attend to. Where it may, the NaN comes by the weights or dS.
    """

    def __init__(
        self, problem: Problem, grad: Tensor, gradients: Gradients, wanted: Sequence[bool]
    ) -> None:
        self.problem, self.grad, self.wanted = problem, grad, wanted
        self.dq, self.dk, self.dv, self.dbias, self.dsinks = gradients
        self.k, self.finite_grad = _finite(problem.k), _finite(grad)
        self.spoilt = None if self.finite_grad is grad else (~torch.isfinite(grad)).to(grad.dtype)

    def take(self, tile: Tile, drops: Dropper | None) -> None:
        problem, kv_heads = self.problem, self.problem.k.shape[1]
        rows, keys = slice(tile.row, tile.row_end), slice(tile.key, tile.key_end)
        scores = score(problem, tile, multiply=_multiply, keep_capped=True)
        weights = soften(scores, problem.sinks)
        values, sink = weights.values, weights.sink
        kept = None if drops is None else drops.next(values, tile)
        if self.wanted[2]:
            self._add_dv(rows, keys, scores, values if kept is None else values * kept)
        grad = grouped(self.grad[:, :, rows], kv_heads)
        d_weights = _multiply(grad, problem.v[:, :, keys].transpose(2, 3)).view_as(values)
        if not all_finite(d_weights):
            scores.bar(d_weights)
        if kept is not None:
            d_weights.mul_(kept)
        delta = (values * d_weights).sum(-1, keepdim=True)
        if self.wanted[4] and sink is not None:
            self.dsinks -= (sink * delta[..., 0]).sum((0, 2))
        d_scores = d_weights.sub_(delta).mul_(values)
        if not all_finite(d_scores):
            scores.bar(d_scores)
        if self.wanted[3] and self.dbias.shape[3] > 1:
            self._add_dbias(rows, keys, d_scores)
        elif self.wanted[3]:
            # What is added to all keys alike takes weight from the sink alone: Σⱼ dSⱼ = δ · its
            # weight, which is exactly 0 where there is none.
            self._add_dbias(rows, keys, delta * (0.0 if sink is None else sink[..., None]))
        if (
            scores.capped is not None and problem.softcap is not None
        ):  # the derivative of c · tanh(s / c) is 1 − tanh²
            slope = 1.0 - (scores.capped / problem.softcap).square_()
            d_scores.mul_(slope)
            if not all_finite(slope):
                scores.bar(d_scores)
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
            allowed = grouped(scores.bar(torch.ones_like(weights)), kv_heads).transpose(2, 3)
            reached = allowed @ grouped(self.spoilt[:, :, rows], kv_heads) > 0
            self.dv[:, :, keys].masked_fill_(reached, torch.nan)

    def _add_dbias(self, rows: slice, keys: slice, d_scores: Tensor) -> None:
        """The sum of dS, or of its row sums, over the axes where the bias is the same for all."""
        dbias = self.dbias
        alike = [axis for axis in range(4) if dbias.shape[axis] == 1]
        dbias = dbias[:, :, rows] if dbias.shape[2] > 1 else dbias
        dbias = dbias[..., keys] if dbias.shape[3] > 1 else dbias
        dbias += d_scores.sum(alike, keepdim=True) if alike else d_scores


def _multiply(a: Tensor, b: Tensor) -> Tensor:
    """a · b. PyTorch's own product has other bits on another number of threads, or in a batch."""
    return a @ b if native.missing or a.device.type != "cpu" else native.multiply(a, b)


def _finite(x: Tensor) -> Tensor:
    return x if all_finite(x) else x.masked_fill(~torch.isfinite(x), 0.0)
