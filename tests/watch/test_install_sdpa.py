"""`regard.install(sdpa=True)`: our kernel behind PyTorch's name, also where somebody looks on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.attention.bias import causal_lower_right, causal_upper_left
from torch.overrides import TorchFunctionMode
from torch.utils.flop_counter import FlopCounterMode

import regard
from regard._watch import installing

B, N, M = 2, 11, 7
SEE = regard.See(entropy=True, top=3, map=(3, 4), received=True, distance=True)
OPTIONS: list[dict[str, Any]] = [{}, {"is_causal": True}, {"scale": 0.7}, {"dropout_p": 0.3}]


@pytest.fixture(autouse=True)
def _put_back() -> Iterator[None]:
    before = F.scaled_dot_product_attention
    yield
    regard.uninstall()
    assert F.scaled_dot_product_attention is before


@pytest.fixture
def served(monkeypatch: pytest.MonkeyPatch) -> list[Tensor]:
    """What our kernel gave out behind PyTorch's name."""
    found: list[Tensor] = []

    def kept(*args: Any, **kwargs: Any) -> Tensor:
        found.append(regard.scaled_dot_product_attention(*args, **kwargs))
        return found[-1]

    monkeypatch.setattr(installing, "scaled_dot_product_attention", kept)
    return found


def test_sdpa_is_computed_by_our_kernel() -> None:
    q, k, v = (torch.randn(B, 3, n, 5) for n in (N, M, M))
    mask = torch.rand(N, M) > 0.3
    own = F.scaled_dot_product_attention(q, k, v, mask)
    regard.install(sdpa=True)
    every: list[dict[str, Any]] = [{}, {"attn_mask": mask}, {"is_causal": True}, {"scale": 0.7}]
    for options in every:
        ours = regard.scaled_dot_product_attention(q, k, v, **options)
        assert torch.equal(F.scaled_dot_product_attention(q, k, v, **options), ours)
    torch.testing.assert_close(F.scaled_dot_product_attention(q, k, v, mask), own)
    # What is masked has no effect here, and has in PyTorch's.
    v[0, 0, 0], mask[:, 0] = torch.nan, False
    assert not bool(F.scaled_dot_product_attention(q, k, v, mask).isnan().any())
    attention = nn.MultiheadAttention(15, 3, batch_first=True).eval()
    x = torch.randn(B, N, 15)
    with_ours = attention(x, x, x)[0]
    regard.uninstall()
    torch.testing.assert_close(with_ours, attention(x, x, x)[0], atol=1e-5, rtol=1e-4)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.filterwarnings("ignore:.*torch.jit.script")
def test_what_our_kernel_does_not_serve_is_computed_by_pytorch() -> None:
    x = torch.randn(B, 3, N, 5)
    nested = torch.nested.nested_tensor([torch.randn(3, n, 5) for n in (5, 7)])
    mask = torch.rand(N, N) > 0.3

    def each() -> list[Tensor]:
        sdpa = F.scaled_dot_product_attention
        return [
            sdpa(nested, nested, nested).to_padded_tensor(0.0),
            torch.func.vmap(sdpa)(x, x, x),
            torch.func.grad(lambda q: sdpa(q, x, x, attn_mask=mask.float()).sum())(x),
            sdpa(x.to("meta"), x.to("meta"), x.to("meta")).new_zeros(1, device="cpu"),
        ]

    expected = each()
    regard.install(sdpa=True)
    for found, own in zip(each(), expected, strict=True):
        assert torch.equal(found, own)
    with pytest.raises(RuntimeError):
        F.scaled_dot_product_attention(x, x, x[..., :3, :], mask)
    compiled: Any = torch.compile(
        lambda q: F.scaled_dot_product_attention(q, q, q), backend="eager"
    )
    torch.testing.assert_close(compiled(x), F.scaled_dot_product_attention(x, x, x))

    def attend(q: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(q, q, q)

    torch.testing.assert_close(torch.jit.script(attend)(x), attend(x))


@pytest.mark.parametrize("side", [causal_upper_left, causal_lower_right])
def test_a_causal_bias_means_what_it_means_to_pytorch(side: Any) -> None:
    q, k, v = (torch.randn(B, 3, n, 5) for n in (7, 11, 11))
    bias = side(7, 11)
    expected = F.scaled_dot_product_attention(q, k, v, bias)
    regard.install(sdpa=True)
    ours = regard.scaled_dot_product_attention(q, k, v, bias)
    assert torch.equal(F.scaled_dot_product_attention(q, k, v, bias), ours)
    compiled: Any = torch.compile(
        lambda q: F.scaled_dot_product_attention(q, k, v, attn_mask=bias), backend="eager"
    )
    for found in (ours, compiled(q)):
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    with pytest.raises(ValueError, match="should not be used with causal"):
        F.scaled_dot_product_attention(q, k, v, bias, is_causal=True)


def test_a_type_with_a_function_of_its_own_is_handed_the_call() -> None:
    class Own(Tensor):
        @classmethod
        def __torch_function__(
            cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            if func is F.scaled_dot_product_attention:
                return "mine"
            return super().__torch_function__(func, types, args, kwargs or {})

    x = torch.randn(B, 3, N, 5).as_subclass(Own)
    assert F.scaled_dot_product_attention(x, x, x) == "mine"
    regard.install(sdpa=True)
    assert F.scaled_dot_product_attention(x, x, x) == "mine"


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_watch_sees_sdpa_that_is_ours(options: dict[str, Any]) -> None:
    class Model(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(x, x, x, **options)

    regard.install(sdpa=True)
    model, x = Model(), torch.randn(B, 3, N, 5)
    torch.manual_seed(3)
    with regard.watch(model, SEE) as run:
        out = model(x)
    torch.manual_seed(3)
    torch.testing.assert_close(out, model(x), atol=1e-5, rtol=1e-4)
    assert len(run.layers) == 1


# ── dropout, and who looks on ─────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("options", [{}, {"is_causal": True}, {"attn_mask": torch.ones(N, 1) > 0}])
def test_dropout_drops_what_pytorch_drops_for_the_same_seed(
    options: dict[str, Any], served: list[Tensor]
) -> None:
    def trained() -> list[Tensor]:
        tensors = [torch.linspace(-2, 3, B * 3 * N * 5).view(B, 3, N, 5) for _ in range(3)]
        leaves = [x.roll(n).requires_grad_() for n, x in enumerate(tensors)]
        torch.manual_seed(7)
        out = F.scaled_dot_product_attention(*leaves, dropout_p=0.4, **options)
        return [out, *torch.autograd.grad(out.square().sum(), leaves), torch.rand(3)]

    expected = trained()
    regard.install(sdpa=True)
    for found, own in zip(trained(), expected, strict=True):
        torch.testing.assert_close(found, own, atol=1e-5, rtol=1e-4)
    assert len(served) == 1


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::torch.jit.TracerWarning")
def test_who_looks_at_operators_finds_those_of_pytorch(served: list[Tensor]) -> None:
    x = torch.randn(B, 3, N, 5)

    def each() -> list[Tensor]:
        def attend(q: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(q, x, x, dropout_p=0.3)

        traced: Any = torch.jit.trace(attend, x, check_trace=False)
        torch.manual_seed(7)
        with FlopCounterMode(display=False) as counter:
            out = F.scaled_dot_product_attention(x, x, x)
            dropped = attend(x)
        flops = torch.tensor(counter.get_total_flops())
        assert flops > 0
        return [out, dropped, traced(x), flops]

    expected = each()
    regard.install(sdpa=True)
    for found, own in zip(each(), expected, strict=True):
        assert torch.equal(found, own)
    assert not served


@pytest.mark.parametrize("options", OPTIONS, ids=str)
def test_a_function_mode_is_handed_the_call_and_our_kernel_computes_it(
    options: dict[str, Any], served: list[Tensor]
) -> None:
    handed: list[Any] = []

    class Listener(TorchFunctionMode):
        def __torch_function__(
            self, func: Any, types: Any, args: Any = (), kwargs: dict[str, Any] | None = None
        ) -> Any:
            handed.append(func)
            return func(*args, **(kwargs or {}))

    regard.install(sdpa=True)
    x = torch.randn(B, 3, N, 5)
    with torch.device("cpu"), Listener():
        out = F.scaled_dot_product_attention(x, x, x, **options)
    assert F.scaled_dot_product_attention in handed
    assert len(served) == 1
    assert torch.equal(out, served[0])


@pytest.mark.parametrize("is_installed", [False, True])
def test_where_function_modes_are_disabled_none_is_handed_the_call(is_installed: bool) -> None:
    x = torch.randn(B, 3, N, 5)
    expected = regard.attention(x, x, x)
    if is_installed:
        regard.install(sdpa=True)
    ways = F.scaled_dot_product_attention, regard.scaled_dot_product_attention, regard.attention
    with torch.device("cpu"), torch._C.DisableTorchFunction():
        found = [attend(x, x, x) for attend in ways]
    for out in found:
        torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-4)
