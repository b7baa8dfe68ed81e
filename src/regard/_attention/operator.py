"""Attention as operators of torch.library: for gradients, torch.compile, tracing and modes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from regard._arguments import WrongValue
from regard._attention import native
from regard._attention.backward import Gradients, backward, new_gradients
from regard._attention.dispatch import has_native_backward, run
from regard._attention.eager import (
    is_batched,
    is_plain,
    is_transformed,
    lost_its_memory,
    may_have_tangents,
)
from regard._attention.options import Options
from regard._attention.problem import Problem
from regard.observation import FIELDS, Observation, See

_INPUTS = (
    "Tensor q, Tensor k, Tensor v, Tensor? mask, Tensor? bias, Tensor? lengths, Tensor? sinks, "
    "Tensor? seed, Tensor? segments, Tensor? indices, bool causal, SymInt? left, SymInt? right, "
    "SymInt? position, float? scale, float? softcap, float dropout, str layout"
)
_N_TENSORS, _N_INPUTS = 10, 18
_WITH_GRADIENT = (0, 1, 2, 4, 6)  # q, k, v, bias and sinks among the inputs

_LSE = See()  # made once, as small calls are measured in microseconds

_SEE = (
    "bool see, bool entropy, int top, int map_rows, int map_columns, bool received, bool distance, "
    "Tensor? queries, bool max_logit, int contribution, Tensor? norms, Tensor? spans, int n_spans, "
    "str backend"
)


def attend(backend: str, problem: Problem, see: See | None) -> tuple[Tensor, Observation | None]:
    """The output, which carries gradients, and what was asked for in `see`, which does not."""
    o, asked = problem.options, _LSE if see is None else see
    tensors = problem.q, problem.k, problem.v, o.mask, o.bias, o.lengths, o.sinks, problem.seed
    tensors += (o.segments, o.indices)
    left, right = o.window or (None, None)
    numbers = o.causal, left, right, o.position, o.scale, o.softcap, problem.dropout, problem.layout
    if is_plain((*problem.tensors, *asked.tensors)):
        return _PlainAttention.apply(*tensors, *numbers, see, backend)
    rows, columns = asked.map or (0, 0)
    flags = see is not None, asked.entropy, asked.top, rows, columns, asked.received, asked.distance
    more = asked.queries, asked.max_logit, asked.contribution, asked.norms, asked.spans
    out, *seen = torch.ops.regard.attention(
        *tensors, *numbers, *flags, *more, asked.n_spans, backend
    )
    if see is None:
        return out, None
    lse, *rest = seen
    others = (x if x.dim() > 1 else None for x in rest)  # what was not asked for is (0,)
    sinks = None if o.sinks is None else o.sinks.detach().clone()
    n_keys, position = problem.k.shape[2], problem.offset
    return out, Observation(lse, *others, n_keys=n_keys, position=position, sinks=sinks)


def _problem(arguments: tuple[Any, ...]) -> Problem:
    """The problem among an operator's arguments, which begin with `_INPUTS`."""
    q, k, v, mask, bias, lengths, sinks, seed, *sets = arguments[:_N_TENSORS]
    numbers = arguments[_N_TENSORS:_N_INPUTS]
    causal, left, right, position, scale, softcap, dropout, layout = numbers
    window = None if left is None and right is None else (left, right)
    options = Options(causal, window, mask, bias, lengths, scale, softcap, sinks, position, *sets)
    return Problem(q, k, v, options, layout, dropout, seed)


def _see(arguments: tuple[Any, ...]) -> See | None:
    """What is to be seen, among the arguments of the operator."""
    see, entropy, top, rows, columns, *rest = arguments[_N_INPUTS:-1]
    shape = (rows, columns) if rows else None
    return See(entropy, top, shape, *rest) if see else None


def _flat(out: Tensor, seen: Observation | None) -> tuple[Tensor, ...]:
    found = [None if seen is None else getattr(seen, name) for name in FIELDS]
    return out, *(out.new_empty(0) if x is None else x for x in found)


def _attention(*arguments: Any) -> tuple[Tensor, ...]:
    return _flat(*run(arguments[-1], _problem(arguments), _see(arguments)))


def _attention_fake(*arguments: Any) -> tuple[Tensor, ...]:
    problem, see = _problem(arguments), _see(arguments)
    return _flat(problem.new_output(), None if see is None else problem.new_observation(see))


def _attention_backward(
    grad: Tensor, out: Tensor | None, lse: Tensor | None, *arguments: Any
) -> Gradients:
    problem, (wanted, backend) = _problem(arguments), arguments[_N_INPUTS:]
    if out is None or lse is None or not problem.has_keys:
        return backward(problem, grad, wanted, backend)
    bias, sinks = (
        grad.new_empty(0, dtype=(problem.q if x is None else x).dtype)
        for x in (problem.options.bias, problem.options.sinks)
    )
    return *native.backward(problem, grad, out, lse, wanted[:3]), bias, sinks


def flow_back(
    grad: Tensor,
    saved: Sequence[Tensor | None],
    options: Sequence[Any],
    wanted: list[bool],
    backend: str,
) -> Gradients:
    """The gradients, from that of the output; `saved` are output, lse, and the operator's tensors,
    `options` the rest of its inputs."""
    tensors = [grad, *(x for x in saved if x is not None)]
    for x in tensors:
        if lost_its_memory(x):
            raise WrongValue(
                "attention(): what its gradient is made of must have its numbers in memory; got a "
                "tensor whose storage was resized to 0. Keep q, k and v until then."
            )
    # With create_graph=True the operator is asked, as it may be for its own gradient; and for the
    # many gradients in one that is_grads_batched=True brings.
    plain = not torch.is_grad_enabled() and not is_batched(grad) and is_plain(tensors)
    run = _attention_backward if plain else torch.ops.regard.attention_backward
    return run(grad, *saved, *options, wanted, backend)


def _attention_backward_fake(
    grad: Tensor, out: Tensor | None, lse: Tensor | None, *arguments: Any
) -> Gradients:
    return new_gradients(_problem(arguments), arguments[_N_INPUTS], None)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, ...]:
        inputs, (see, *rest) = arguments[:_N_INPUTS], arguments[_N_INPUTS:]
        wanted = [ctx.needs_input_grad[place] for place in _WITH_GRADIENT]
        natively = has_native_backward(rest[-1], _problem(arguments), wanted)
        with torch._C._AutoDispatchBelowAutograd():
            # The native backward pass needs the lse, whether or not it is to be seen.
            out, lse, *others = torch.ops.regard.attention.default(*inputs, see or natively, *rest)
        _keep(ctx, (out, lse) if natively else (None, None), arguments, wanted)
        seen = (lse if see else out.new_empty(0), *others)
        ctx.mark_non_differentiable(*seen)
        return out, *seen

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        gradients: list[Tensor | None] = [None] * ctx.n_arguments
        if grads[0] is not None:
            found = flow_back(grads[0], ctx.saved_tensors, ctx.options, ctx.wanted, ctx.backend)
            for place, gradient, want in zip(_WITH_GRADIENT, found, ctx.wanted, strict=True):
                gradients[place] = gradient if want else None
        return tuple(gradients)


class _PlainAttention(_Attention):
    """The same where nobody is watching: without the operator, which takes its time."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, Observation | None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        see, backend = arguments[_N_INPUTS:]
        problem = _problem(arguments)
        wanted = [ctx.needs_input_grad[place] for place in _WITH_GRADIENT]
        natively = has_native_backward(backend, problem, wanted)
        asked = _LSE if see is None and natively else see
        out, seen = run(backend, problem, asked)
        found = (out, seen.lse) if natively and seen is not None else (None, None)
        _keep(ctx, found, arguments, wanted)
        return out, None if see is None else seen


def _keep(
    ctx: Any,
    found: tuple[Tensor | None, Tensor | None],
    arguments: tuple[Any, ...],
    wanted: list[bool],
) -> None:
    """Keep for the backward pass what it needs; `found` are output and lse, if it needs them."""
    ctx.save_for_backward(*found, *arguments[:_N_TENSORS])
    ctx.options = arguments[_N_TENSORS:_N_INPUTS]
    ctx.wanted = wanted
    ctx.backend = arguments[-1]  # what drops weights has to drop the same ones again
    ctx.n_arguments = len(arguments)
    ctx.set_materialize_grads(False)


class _AttentionBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> Gradients:
        with torch._C._AutoDispatchBelowAutograd():
            return torch.ops.regard.attention_backward.default(*arguments)

    @staticmethod
    def backward(ctx: Any, *_: Any) -> None:
        raise RuntimeError(
            "attention(): the gradient of its gradient (create_graph=True) is not implemented. "
            "torch.nn.functional.scaled_dot_product_attention under "
            "torch.nn.attention.sdpa_kernel(SDPBackend.MATH) has it."
        )


def _register(
    name: str,
    schema: str,
    compute: Callable[..., tuple[Tensor, ...]],
    fake: Callable[..., tuple[Tensor, ...]],
    function: type[torch.autograd.Function],
) -> None:
    """The operator regard::name, whose gradients are those of the function."""
    name = f"regard::{name}"
    torch.library.define(name, schema)
    torch.library.impl(name, "CompositeExplicitAutograd")(compute)
    torch.library.register_fake(name)(fake)
    operator = getattr(torch.ops.regard, name.removeprefix("regard::")).default

    def with_gradient(*arguments: Any) -> tuple[Tensor, ...]:
        if may_have_tangents() and any(
            isinstance(x, Tensor) and torch._VF._unpack_dual(x, level=0)[1] is not None  # pyright: ignore[reportUnnecessaryComparison]
            for x in arguments
        ):
            raise RuntimeError(
                "attention(): forward-mode derivatives are not implemented. "
                "Backward-mode ones are: tensor.requires_grad_()."
            )
        if torch.is_grad_enabled() and torch._C._any_requires_grad(*arguments):
            if is_transformed():
                raise RuntimeError(
                    "attention(): torch.func.grad and its relatives are not implemented. "
                    "tensor.requires_grad_() and torch.autograd.grad are."
                )
            return function.apply(*arguments)
        with torch._C._AutoDispatchBelowAutograd():
            return operator(*arguments)

    torch.library.impl(name, "Autograd")(with_gradient)


# An operator returns a fixed number of tensors: what is not asked for is an empty one.
_OUTPUTS = ", ".join(["Tensor"] * (1 + len(FIELDS)))
_register(
    "attention", f"({_INPUTS}, {_SEE}) -> ({_OUTPUTS})", _attention, _attention_fake, _Attention
)
_register(
    "attention_backward",
    f"(Tensor grad, Tensor? out, Tensor? lse, {_INPUTS}, bool[] wanted, str backend) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor)",
    _attention_backward,
    _attention_backward_fake,
    _AttentionBackward,
)
