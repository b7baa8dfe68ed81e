"""Attention as operators of torch.library: for gradients, torch.compile, tracing and modes."""

from __future__ import annotations

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
from regard.observation import Observation, See

NO_TANGENTS = (
    "{call}: forward-mode derivatives are not implemented. "
    "Backward-mode ones are: tensor.requires_grad_()."
)

_INPUTS = (
    "Tensor q, Tensor k, Tensor v, Tensor? mask, Tensor? bias, Tensor? lengths, Tensor? sinks, "
    "Tensor? seed, bool causal, SymInt? left, SymInt? right, SymInt? position, float? scale, "
    "float? softcap, float dropout, str layout"
)
_N_TENSORS, _N_INPUTS = 8, 16
_WITH_GRADIENT = (0, 1, 2, 4, 6)  # q, k, v, bias and sinks among the inputs

_LSE = See()  # made once, as small calls are measured in microseconds

# An operator returns a fixed number of tensors: what is not asked for is an empty one.
_SEEN = ("lse", "entropy", "top_keys", "top_weights", "map", "received", "distance")
_SEE = (
    "bool see, bool entropy, int top, int map_rows, int map_columns, bool received, bool distance, "
    "Tensor? queries, str backend"
)

torch.library.define(
    "regard::attention", f"({_INPUTS}, {_SEE}) -> ({', '.join(['Tensor'] * (1 + len(_SEEN)))})"
)
torch.library.define(
    "regard::attention_backward",
    f"(Tensor grad, Tensor? out, Tensor? lse, {_INPUTS}, bool[] wanted, str backend) "
    "-> (Tensor, Tensor, Tensor, Tensor, Tensor)",
)


def attend(
    backend: str, problem: Problem, see: See | None, dropout: float, seed: Tensor | None
) -> tuple[Tensor, Observation | None]:
    """The output, which carries gradients, and what was asked for in `see`, which does not."""
    options = problem.options
    inputs = (
        problem.q,
        problem.k,
        problem.v,
        options.mask,
        options.bias,
        options.lengths,
        options.sinks,
        seed,
        options.causal,
        *(options.window or (None, None)),
        options.position,
        options.scale,
        options.softcap,
        dropout,
        problem.layout,
    )
    asked = _LSE if see is None else see
    queries = () if asked.queries is None else (asked.queries,)
    if is_plain((*problem.tensors, *queries)):
        return _PlainAttention.apply(*inputs, see, backend)
    rows, columns = asked.map or (0, 0)
    out, *seen = torch.ops.regard.attention(
        *inputs,
        see is not None,
        asked.entropy,
        asked.top,
        rows,
        columns,
        asked.received,
        asked.distance,
        asked.queries,
        backend,
    )
    if see is None:
        return out, None
    lse, entropy, top_keys, top_weights, map, received, distance = seen
    return out, Observation(
        lse=lse,
        entropy=entropy if see.entropy else None,
        top_keys=top_keys if see.top else None,
        top_weights=top_weights if see.top else None,
        map=None if see.map is None else map,
        received=received if see.received else None,
        distance=distance if see.distance else None,
        n_keys=problem.k.shape[2],
        position=problem.offset,
        sinks=None if options.sinks is None else options.sinks.detach().clone(),
    )


def _problem(inputs: tuple[Any, ...]) -> tuple[Problem, float, Tensor | None]:
    """The problem, dropout and its seed, from an operator's inputs."""
    q, k, v, mask, bias, lengths, sinks, seed, *rest = inputs
    causal, left, right, position, scale, softcap, dropout, layout = rest
    window = None if left is None and right is None else (left, right)
    options = Options(causal, window, mask, bias, lengths, scale, softcap, sinks, position)
    return Problem(q, k, v, options, layout), dropout, seed


def _see(
    see: bool,
    entropy: bool,
    top: int,
    map_rows: int,
    map_columns: int,
    received: bool,
    distance: bool,
    queries: Tensor | None,
) -> See | None:
    shape = (map_rows, map_columns) if map_rows else None
    return See(entropy, top, shape, received, distance, queries) if see else None


def _flat(out: Tensor, seen: Observation | None) -> tuple[Tensor, ...]:
    found = [None if seen is None else getattr(seen, name) for name in _SEEN]
    return out, *(out.new_empty(0) if x is None else x for x in found)


def _attention(*arguments: Any) -> tuple[Tensor, ...]:
    problem, dropout, seed = _problem(arguments[:_N_INPUTS])
    *see, backend = arguments[_N_INPUTS:]
    return _flat(*run(backend, problem, _see(*see), dropout, seed))


torch.library.impl("regard::attention", "CompositeExplicitAutograd")(_attention)


@torch.library.register_fake("regard::attention")
def _attention_fake(*arguments: Any) -> tuple[Tensor, ...]:
    problem, _, _ = _problem(arguments[:_N_INPUTS])
    see = _see(*arguments[_N_INPUTS:-1])
    seen = None if see is None else problem.new_observation(see)
    return _flat(problem.new_output(), seen)


def _attention_backward(
    grad: Tensor, out: Tensor | None, lse: Tensor | None, *arguments: Any
) -> Gradients:
    problem, dropout, seed = _problem(arguments[:_N_INPUTS])
    wanted, backend = arguments[_N_INPUTS:]
    if out is None or lse is None:
        return backward(problem, grad, wanted, dropout, seed, backend)
    bias, sinks = (
        grad.new_empty(0, dtype=(problem.q if x is None else x).dtype)
        for x in (problem.options.bias, problem.options.sinks)
    )
    return *native.backward(problem, grad, out, lse, wanted[:3], dropout, seed), bias, sinks


torch.library.impl("regard::attention_backward", "CompositeExplicitAutograd")(_attention_backward)


@torch.library.register_fake("regard::attention_backward")
def _attention_backward_fake(
    grad: Tensor, out: Tensor | None, lse: Tensor | None, *arguments: Any
) -> Gradients:
    problem, _, _ = _problem(arguments[:_N_INPUTS])
    return new_gradients(problem, arguments[_N_INPUTS], None)


class _Attention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, ...]:
        inputs, (see, *rest) = arguments[:_N_INPUTS], arguments[_N_INPUTS:]
        wanted = [ctx.needs_input_grad[place] for place in _WITH_GRADIENT]
        natively = has_native_backward(rest[-1], _problem(inputs)[0], wanted)
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
            tensors = (grads[0], *ctx.saved_tensors)
            for x in tensors:
                if x is not None and lost_its_memory(x):
                    raise WrongValue(
                        "attention(): what its gradient is made of must have its numbers in "
                        "memory; got a tensor whose storage was resized to 0. Keep q, k and v "
                        "until then."
                    )
            # With create_graph=True the operator is asked, as it may be for its own gradient; and
            # for the many gradients in one that is_grads_batched=True brings.
            plain = not torch.is_grad_enabled() and not is_batched(tensors[0])
            plain = plain and is_plain([x for x in tensors if x is not None])
            run = _attention_backward if plain else torch.ops.regard.attention_backward
            found = run(*tensors, *ctx.options, ctx.wanted, ctx.backend)
            for place, gradient, want in zip(_WITH_GRADIENT, found, ctx.wanted, strict=True):
                gradients[place] = gradient if want else None
        return tuple(gradients)


class _PlainAttention(_Attention):
    """The same where nobody is watching: without the operator, which takes its time."""

    @staticmethod
    def forward(ctx: Any, *arguments: Any) -> tuple[Tensor, Observation | None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        *inputs, see, backend = arguments
        problem, dropout, seed = _problem(tuple(inputs))
        wanted = [ctx.needs_input_grad[place] for place in _WITH_GRADIENT]
        natively = has_native_backward(backend, problem, wanted)
        asked = _LSE if see is None and natively else see
        out, seen = run(backend, problem, asked, dropout, seed)
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


def _tangent_of(x: Tensor) -> Tensor | None:
    return torch._VF._unpack_dual(x, level=0)[1]


def _register_gradient(name: str, function: type[torch.autograd.Function]) -> None:
    operator = getattr(torch.ops.regard, name).default

    def with_gradient(*arguments: Any) -> tuple[Tensor, ...]:
        if torch.is_grad_enabled() and torch._C._any_requires_grad(*arguments):
            if is_transformed():
                raise RuntimeError(
                    "attention(): torch.func.grad and its relatives are not implemented. "
                    "tensor.requires_grad_() and torch.autograd.grad are."
                )
            return function.apply(*arguments)
        if may_have_tangents() and any(
            isinstance(x, Tensor) and _tangent_of(x) is not None for x in arguments
        ):
            raise RuntimeError(NO_TANGENTS.format(call="attention()"))
        with torch._C._AutoDispatchBelowAutograd():
            return operator(*arguments)

    torch.library.impl(f"regard::{name}", "Autograd")(with_gradient)


_register_gradient("attention", _Attention)
_register_gradient("attention_backward", _AttentionBackward)
