"""Attention in PyTorch's machinery: chunks and gradients, compilers, modes, transforms, views."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses import FakeTensorMode
from torch.autograd import forward_ad

import regard
from regard import Observation, See, _native
from regard._attention import Options, problem
from regard._attention.native import NOTHING
from regard._attention.short import short_attention

BACKENDS = ("native", "torch")  # both: that one is missing shall not go unseen
on_each_backend = pytest.mark.parametrize("backend", BACKENDS)
SEE = regard.See(entropy=True, top=3, map=(2, 3), received=True, distance=True)


def inputs(dtype: torch.dtype = torch.float32, requires_grad: bool = False) -> list[Tensor]:
    random = torch.Generator().manual_seed(0)
    return [
        torch.randn(shape, generator=random, dtype=dtype).requires_grad_(requires_grad)
        for shape in ((2, 6, 5, 3), (2, 3, 7, 3), (2, 3, 7, 2))
    ]


def options(dtype: torch.dtype = torch.float32) -> dict[str, Any]:
    random = torch.Generator().manual_seed(1)
    mask = torch.rand(2, 1, 5, 7, generator=random) > 0.3
    mask[0, 0, 3] = False  # a query without a key
    return {
        "causal": True,
        "window": (4, 3),
        "position": 1,
        "mask": mask,
        "bias": torch.randn(6, 1, 7, generator=random, dtype=dtype),
        "lengths": torch.tensor([7, 4]),
        "scale": 0.7,
        "softcap": 1.5,
        "sinks": torch.randn(6, generator=random, dtype=dtype),
    }


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    """So few scores at a time that even these inputs take several chunks."""
    monkeypatch.setattr(problem, "_CHUNK", 150)


@pytest.mark.usefixtures("small_chunks")
def test_all_options_in_several_chunks_pass_gradcheck() -> None:
    q, k, v = inputs(torch.float64, requires_grad=True)
    given = options(torch.float64)
    bias, sinks = (given.pop(name).requires_grad_() for name in ("bias", "sinks"))

    def attend(q: Tensor, k: Tensor, v: Tensor, bias: Tensor, sinks: Tensor) -> Tensor:
        return regard.attention(q, k, v, bias=bias, sinks=sinks, **given)

    assert torch.autograd.gradcheck(attend, (q, k, v, bias, sinks), fast_mode=True)


@pytest.mark.usefixtures("small_chunks")
def test_dropout_in_several_chunks_passes_gradcheck() -> None:
    def attend(*tensors: Tensor) -> Tensor:
        torch.manual_seed(3)
        return regard.attention(*tensors, dropout=0.4)

    tensors = inputs(torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(attend, tensors, fast_mode=True)


def test_chunks_change_nothing_but_rounding(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = inputs(torch.float64)
    given = options(torch.float64)
    output, seen = regard.attention(q, k, v, see=SEE, **given)
    monkeypatch.setattr(problem, "_CHUNK", 1)
    by_row, seen_by_row = regard.attention(q, k, v, see=SEE, **given)
    torch.testing.assert_close(by_row, output)
    for name in ("lse", "entropy", "top_keys", "top_weights", "map", "received", "distance"):
        torch.testing.assert_close(getattr(seen_by_row, name), getattr(seen, name))


@on_each_backend
def test_no_path_gives_other_bits(backend: str) -> None:
    tensors = inputs()
    plain = regard.attention(*tensors, backend=backend)
    seen, _ = regard.attention(*tensors, backend=backend, see=SEE)
    trained = regard.attention(*(x.requires_grad_() for x in inputs()), backend=backend)
    with torch.inference_mode():
        inferred = regard.attention(*tensors, backend=backend)
    with torch.device("cpu"):  # a mode, under which the operator is called
        by_operator = regard.attention(*tensors, backend=backend)
    parameters = (torch.nn.Parameter(x, requires_grad=False) for x in tensors)
    of_parameters = regard.attention(*parameters, backend=backend)
    for other in (seen, trained, inferred, by_operator, of_parameters):
        assert torch.equal(other, plain)
    assert trained.requires_grad
    assert not plain.requires_grad


def test_the_short_way_is_taken_only_where_nothing_is_missed() -> None:
    q, k, v = inputs()
    assert short_attention(q, k, v, True, None) is not None
    with torch.no_grad():
        assert short_attention(q.clone().requires_grad_(), k, v, False, 0.5) is not None
    assert short_attention(q.clone().requires_grad_(), k, v, False, None) is not None
    assert short_attention(q.clone().requires_grad_(), k, v[..., :0], False, None) is None
    assert short_attention(q.clone().requires_grad_(), k, v.double(), False, None) is None
    assert short_attention(q.double(), k.double(), v.double(), False, None) is not None
    assert short_attention(q, k, v[:, :, :6], False, None) is None
    assert short_attention(q, k, v, False, float("nan")) is None
    counted = See(queries=torch.ones(q.shape[0], q.shape[2], dtype=torch.bool))
    assert short_attention(q, k, v, False, None, counted) is None
    with torch.device("cpu"):
        assert short_attention(q, k, v, False, None) is None


@pytest.mark.parametrize("wanted", ["q", "k", "v", "qk", "qkv"])
@pytest.mark.parametrize("flowing", ["contiguous", "expanded", "last axis outside"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
def test_gradients_of_the_short_way_are_those_of_the_long_one(
    wanted: str, flowing: str, dtype: torch.dtype
) -> None:
    def gradients(**options: Any) -> tuple[Tensor, ...]:
        tensors = dict(zip("qkv", (x.to(dtype) for x in inputs()), strict=True))
        for name in wanted:
            tensors[name].requires_grad_()
        found = regard.attention(**tensors, causal=True, backend="native", **options)
        out, _ = found if isinstance(found, tuple) else (found, None)
        grad = torch.linspace(-1, 1, out.numel()).reshape(out.shape).to(dtype)
        if flowing == "expanded":
            grad = torch.ones((), dtype=dtype).expand(out.shape)
        elif flowing == "last axis outside":
            grad = grad.transpose(2, 3).contiguous().transpose(2, 3)
        return torch.autograd.grad(out, [tensors[name] for name in wanted], grad)

    q, k, _ = inputs()
    long = gradients(lengths=[k.shape[2]] * q.shape[0])
    for short in (gradients(), gradients(see=See(entropy=True))):
        assert all(torch.equal(a, b) for a, b in zip(short, long, strict=True))


def test_gradients_of_the_short_way_are_refused_and_batched_as_those_of_the_long_one() -> None:
    q, k, v = (x.requires_grad_() for x in inputs())
    out = regard.attention(q, k, v)
    with pytest.raises(RuntimeError, match="gradient of its gradient"):
        torch.autograd.grad(
            torch.autograd.grad(out.sum(), q, create_graph=True)[0].sum(), q, allow_unused=True
        )
    out = regard.attention(q, k, v)
    grads = torch.stack([torch.ones_like(out), torch.full_like(out, 2.0)])
    once = torch.autograd.grad(out, v, grads[0], retain_graph=True)[0]
    (batched,) = torch.autograd.grad(out, v, grads, is_grads_batched=True, retain_graph=True)
    assert torch.equal(batched[0], once)
    lost = inputs()[1].requires_grad_()
    out = regard.attention(q, lost, v)
    with torch.no_grad():
        lost.untyped_storage().resize_(0)
    with pytest.raises(ValueError, match="resized to 0"):
        out.sum().backward()


@pytest.mark.parametrize("causal", [False, True])
def test_the_short_way_sees_what_the_long_one_sees(causal: bool) -> None:
    q, k, v = inputs()
    for see in (
        See(),
        See(entropy=True, distance=True),
        See(top=3, map=(3, 2)),
        See(True, 5, (2, 3), received=True, distance=True),
    ):
        done = short_attention(q, k, v, causal, None, see)
        assert done is not None
        out, short = done
        n_keys = k.shape[2]
        long_out, long = regard.attention(  # a length for every sequence takes the long way
            q, k, v, causal=causal, lengths=[n_keys] * q.shape[0], see=see, backend="native"
        )
        assert torch.equal(out, long_out)
        assert short is not None
        for field in dataclasses.fields(Observation):
            a, b = getattr(short, field.name), getattr(long, field.name)
            assert torch.equal(a, b) if isinstance(a, torch.Tensor) else a == b, field.name


@on_each_backend
def test_views_are_read_as_what_they_show(backend: str) -> None:
    pair = torch.view_as_complex(torch.randn(2, 3, 5, 4, 2))
    negative = pair.conj().imag  # its memory holds the negated numbers
    assert negative.is_neg()
    alike = torch.randn(5, 4).as_strided((2, 3, 5, 4), (0, 0, 1, 0))  # no axis is contiguous
    back_to_front = torch.randn(4, 5, 3, 2).permute(3, 2, 1, 0)
    expected = regard.attention(
        negative.clone(), alike.contiguous(), back_to_front.contiguous(), backend=backend
    )
    found = regard.attention(negative, alike, back_to_front, backend=backend)
    torch.testing.assert_close(found, expected)
    bias = negative[..., :1]
    torch.testing.assert_close(
        regard.attention(alike, alike, alike, bias=bias, backend=backend),
        regard.attention(alike, alike, alike, bias=bias.clone(), backend=backend),
    )


def test_a_compiled_function_checks_its_arguments_and_keeps_shapes_dynamic() -> None:
    def attend(q: Tensor, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor | None]:
        output, seen = regard.attention(
            q, k, v, causal=True, window=(3, None), lengths=[7, 4], see=regard.See(entropy=True)
        )
        return output + 1, seen.entropy

    compiled = torch.compile(attend, fullgraph=True, dynamic=True, backend="aot_eager")
    for n in (5, 6, 4):
        q, k, v = inputs()
        q = torch.randn(2, 6, n, 3)
        for found, expected in zip(compiled(q, k, v), attend(q, k, v), strict=True):
            torch.testing.assert_close(found, expected)


def test_fake_tensors_give_the_shapes_and_strides_of_real_ones() -> None:
    output, seen = regard.attention(*inputs(), see=SEE)
    with FakeTensorMode() as mode:
        fake, fake_seen = regard.attention(*(mode.from_tensor(x) for x in inputs()), see=SEE)
    assert (fake.shape, fake.stride()) == (output.shape, output.stride())
    assert fake_seen.map is not None
    assert seen.map is not None
    assert fake_seen.map.shape == seen.map.shape


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning")
def test_a_traced_function_follows_its_input() -> None:
    q, k, v = inputs()
    traced: Any = torch.jit.trace(lambda q: regard.attention(q, k, v), q)
    torch.testing.assert_close(traced(2 * q), regard.attention(2 * q, k, v))


@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_vmap_works_with_gradients() -> None:
    _, k, v = inputs()
    q = torch.randn(4, 2, 6, 5, 3, requires_grad=True)
    output = torch.func.vmap(lambda q: regard.attention(q, k, v))(q)
    (gradient,) = torch.autograd.grad(output.square().sum(), q)
    one = q.detach()[1].requires_grad_()
    (expected,) = torch.autograd.grad(regard.attention(one, k, v).square().sum(), one)
    torch.testing.assert_close(gradient[1], expected)


@pytest.mark.filterwarnings("ignore:.torch.jit:DeprecationWarning")
def test_derivatives_that_there_are_not_are_refused_in_words() -> None:
    q, k, v = inputs()
    with pytest.raises(RuntimeError, match=r"^attention\(\): torch\.func\.grad"):
        torch.func.grad(lambda q: regard.attention(q, k, v).sum())(q)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(q, torch.ones_like(q))
        with pytest.raises(RuntimeError, match=r"^attention\(\): forward-mode derivatives"):
            regard.attention(dual, k, v)
        assert regard.attention(q, k, v).shape == (2, 6, 5, 2)


def test_gradients_leave_the_number_of_threads_alone() -> None:
    threads = torch.get_num_threads()
    q, k, v = inputs(requires_grad=True)
    regard.attention(q, k, v).sum().backward()
    assert torch.get_num_threads() == threads


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_a_nested_tensor_is_refused_in_words() -> None:
    q, k, v = inputs()
    nested = torch.nested.nested_tensor([q[0], q[1]])
    with pytest.raises(TypeError, match=r"^attention\(\): q must be a dense .* nested"):
        regard.attention(nested, k, v)


def test_the_native_part_computes_nothing_of_what_does_not_fit() -> None:
    q, k, v = torch.randn(2, 3, 5, 7), torch.randn(2, 3, 11, 7), torch.randn(2, 3, 11, 13)
    out, plain = torch.full((2, 3, 5, 13), 9.0), Options()

    def serves(q: Tensor = q, k: Tensor = k, v: Tensor = v, options: Options = plain) -> bool:
        return _native.attention((q, k, v, options, 1.0, 6, 0.0, 0), out, None, NOTHING, 1)

    assert not serves(q=q[0])
    assert not serves(k=k[:, :2])
    assert not serves(k=k[:, :, :10])
    assert not serves(v=v.double())
    assert not serves(v=v.mT.contiguous().mT)
    assert not serves(q=q.to_sparse())
    assert not serves(options=Options(mask=torch.ones(2, 3, 5, 10, dtype=torch.bool)))
    assert not serves(options=Options(bias=torch.zeros(5, 11)))
    assert not serves(options=Options(lengths=torch.tensor([3])))
    assert not serves(options=Options(sinks=torch.zeros(2)))
    assert (out == 9.0).all()
    assert serves()
    torch.testing.assert_close(out, regard.attention(q, k, v, scale=1.0))
