"""Attention that a module writes out by itself: a product, a softmax, and a product with values.

Each operation of PyTorch comes by here. A product of two tensors is marked, and so is what is made
of it, until a softmax takes it; then what is made of the weights, until they are multiplied with
values. Only then it is known that this was attention, and it is seen from its own scores.
"""

from __future__ import annotations

import math
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from regard._attention.eager import PLAIN, is_transformed
from regard._watch.marks import Marks, Softmax, Weights, carried
from regard._watch.modules import Attend, Modules, Running
from regard._watch.own_axes import batch_and_heads, fitted
from regard._watch.own_call import Own, OwnCall
from regard._watch.own_masks import read_own
from regard._watch.products import PRODUCTS, Product, read_product, read_values
from regard._watch.retention import memory_of
from regard._watch.unseen import Open, Unseen


class ByHand:
    """Follows the operations of a watched model, and hands attention to `attend`."""

    def __init__(self, modules: Modules, attend: Attend, unseen: Unseen) -> None:
        self._modules = modules
        self._attend = attend
        self._unseen = unseen
        self._marks = Marks()
        self._open = Open()  # softmaxes that may not be attention
        model = modules.model
        tensors = (x for x in (*model.parameters(), *model.buffers()) if not x.is_meta)
        self._owned = memory_of(tensors)

    @property
    def spoilt(self) -> dict[str, Running]:
        """The modules in which a softmax ended otherwise: they do more than attention."""
        return {running.name: running for running in self._open.left}

    def forget(self) -> None:
        """A pass is over."""
        self._marks.of.clear()

    # ── operations ────────────────────────────────────────────────────────────────────────────

    def follow(self, function: Any, args: tuple[Any, ...], given: dict[str, Any]) -> Any:
        """What an operation gives, and a mark on it, if it is to have one."""
        if function in PRODUCTS:
            return self._product(function, args, given)
        marks = self._marks.of
        if not marks.data:
            return function(*args, **given)
        found = self._marks.found(args)
        out = function(*args, **given)
        if found and type(out) is Tensor and out.is_floating_point():
            mark = carried(function, args, given, found, out)
            if mark is not None:
                marks[out] = mark
            else:
                marks.pop(out, None)
        return out

    def softmax(self, function: Any, args: tuple[Any, ...], given: dict[str, Any]) -> Tensor:
        """A softmax: of what was made of a product, it gives weights."""
        x, *more = args
        is_named, running = self._unseen.add_softmax(x), self._modules.stack.running[-1]
        product = self._marks.of.get(x)
        weights = function(*args, **given)
        axis = given.get("dim", more[0] if more else None)
        is_over_keys = axis in (-1, x.dim() - 1) and function is not F.log_softmax
        if isinstance(product, Product) and is_over_keys and type(weights) is Tensor:
            scores = x.to(given.get("dtype") or x.dtype)
            is_copy = scores is not x or x.is_inference()
            softmax = Softmax(
                running,
                is_named,
                lambda y: function(y, *more, **given),
                scores,
                None if is_copy else x._version,
                product,
            )
            self._open.add(running, 1)
            self._marks.of[weights] = Weights(softmax)
        elif is_over_keys and is_named:
            self._open.add(running, 1)
        return weights

    def _product(self, function: Any, args: tuple[Any, ...], given: dict[str, Any]) -> Tensor:
        product = None if is_transformed() else read_product(function, args, given)
        if product is None or not all(map(_is_dense, product.factors)):
            return function(*args, **given)
        marks = self._marks
        found = marks.found(product.factors) if marks.of.data else ()
        weights = [(place, mark) for place, _, mark in found if isinstance(mark, Weights)]
        if len(weights) == 1:
            return self._weighted(product, *weights[0])
        for _, mark in weights:
            mark.softmax.scores = None  # which is not attention
        out = product.compute()
        is_models = any(x.untyped_storage().data_ptr() in self._owned for x in product.factors)
        if not weights and not is_models and out.is_floating_point() and out.dim() >= 2:
            marks.of[out] = product
        return out

    # ── attention ─────────────────────────────────────────────────────────────────────────────

    def _weighted(self, product: Product, place: int, mark: Weights) -> Tensor:
        """Weights times something: attention, if that can be its values."""
        softmax, running = mark.softmax, self._modules.stack.running[-1]
        if softmax.call is not None:  # something was taken out of them, so it is not here, either
            return _multiplied(product, place, mark, softmax.call.changed())
        call = _call(running, self._modules.stack.given[-1], product, place, mark)
        if call is None:
            softmax.scores = None
            return product.compute()
        out, done = self._attend(running, call)
        self._open.add(softmax.running, -1)
        if softmax.is_named:
            self._unseen.resolve(softmax.running)
        softmax.scores = softmax.product = None
        if isinstance(done, OwnCall) and (done.is_changed or done.ablated):
            softmax.call = done
        return out


def _is_dense(x: Tensor) -> bool:
    return type(x) in PLAIN and not x.is_meta and x.layout == torch.strided and not x.is_nested


def _multiplied(product: Product, place: int, mark: Weights, weights: Tensor | None) -> Tensor:
    """The product, with other weights (B, H, Nq, Nk) in their place."""
    if weights is None:
        return product.compute()
    factor = product.factors[place]
    weights = weights.mT if mark.is_transposed else weights
    return product.with_factor(place, weights.reshape(factor.shape).to(factor.dtype))


def _call(
    running: Running,
    given: tuple[tuple[Any, ...], dict[str, Any]],
    product: Product,
    place: int,
    mark: Weights,
) -> OwnCall | None:
    """What is computed as a call; None if it is not attention, or cannot be told to be."""
    softmax, values = mark.softmax, read_values(product, place, mark.is_transposed)
    scores, of_scores = softmax.scores, softmax.product
    if values is None or scores is None or of_scores is None or softmax.is_written_over:
        return None
    if getattr(running.module, "compressor", None) is not None:
        return None  # there are keys among the others that are no tokens
    factor = product.factors[place]
    weights = factor.mT if mark.is_transposed else factor
    n_queries, n_keys = weights.shape[-2:]
    like, as_given = max((scores, weights), key=Tensor.dim), scores.shape
    inputs = (*given[0], *given[1].values())
    sizes = batch_and_heads(tuple(like.shape[:-2]), values.v, n_queries, running.module, inputs)
    if sizes is None or as_given[-2:] != (n_queries, n_keys) or not weights.numel():
        return None
    batch, heads = sizes
    shape = (batch, heads, n_queries, n_keys)
    v = fitted(values.v, batch, heads)
    if v is None or not math.prod(shape) == scores.numel() == weights.numel():
        return None
    scores = scores.reshape(shape)
    if mark.is_other:
        whole = weights if mark.before is None else mark.before
        scores = _as_weighed(scores, whole.reshape(shape))
        if scores is None:
            return None

    def weigh(scores: Tensor) -> Tensor:
        if mark.is_dropped:
            raise RuntimeError(
                f"watch(): block must be of links in layers without dropout; {running.name} "
                "computes attention by itself, and drops weights. model.eval() turns that off."
            )
        assert softmax.compute is not None
        found = softmax.compute(scores.reshape(as_given))
        for step in mark.steps:
            found = step(found)
        return (found.mT if mark.is_transposed else found).reshape(shape)

    own = Own(
        scores,
        weigh,
        lambda: weights.reshape(shape),
        lambda changed: _multiplied(product, place, mark, changed),
        lambda out: values.by_head(out).reshape(batch, heads, n_queries, -1),
        False,
    )
    return read_own(of_scores, v, own)


def _as_weighed(scores: Tensor, weights: Tensor) -> Tensor | None:
    """Scores whose softmax the weights are, −inf where there is none; None if there are no such."""
    with torch.no_grad():
        scores = scores.detach().masked_fill(weights == 0, -math.inf)
        expected = scores.softmax(-1).nan_to_num(0.0).to(weights.dtype)
        off = (weights - expected).abs().amax()
    return scores if float(off) <= 8 * torch.finfo(weights.dtype).eps else None
