"""`flex_attention`, called by a module itself: seen with whatever its functions say."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.attention.flex_attention import AuxRequest, create_block_mask, flex_attention

import regard

pytestmark = pytest.mark.filterwarnings("ignore:flex_attention called without")

B, H, HKV, N, D = 2, 6, 3, 37, 5
DOCUMENTS = torch.arange(N) // 11
LENGTHS = torch.tensor([N, 23])
SLOPES = torch.linspace(0.1, 0.7, H)


class Flex(nn.Module):
    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options

    def forward(self, q: Tensor, k: Tensor, v: Tensor) -> Any:
        attend: Any = flex_attention
        return attend(q, k, v, enable_gqa=True, **self.options)


def causal(b: Tensor, h: Tensor, i: Tensor, j: Tensor) -> Tensor:
    return i >= j


def vectors(dtype: torch.dtype = torch.float32) -> tuple[Tensor, Tensor, Tensor]:
    draw = torch.Generator().manual_seed(3)
    q = torch.randn(B, N, H, D, generator=draw).transpose(1, 2)
    k, v = (torch.randn(B, HKV, N, D, generator=draw) for _ in range(2))
    return q.to(dtype), k.to(dtype), v.to(dtype)


def weights(
    score: Callable[..., Tensor] | None = None, mask: Callable[..., Tensor] | None = None
) -> Tensor:
    q, k, _ = vectors(torch.float64)
    scores = q @ k.repeat_interleave(2, 1).mT / math.sqrt(D)
    axes = (torch.arange(n) for n in scores.shape)
    places = torch.meshgrid(*axes, indexing="ij")
    if score is not None:
        scores = score(scores, *places)
    if mask is not None:
        scores = scores.masked_fill(~mask(*places), -torch.inf)
    return scores.softmax(-1)


CASES: dict[str, dict[str, Callable[..., Tensor]]] = {
    "nothing": {},
    "causal": {"mask": causal},
    "documents": {"mask": lambda b, h, i, j: (i >= j) & (DOCUMENTS[i] == DOCUMENTS[j])},
    "padding": {"mask": lambda b, h, i, j: j < LENGTHS[b]},
    "a mask of each head": {"mask": lambda b, h, i, j: (i - j).abs() <= h + 1},
    "slopes": {"score": lambda s, b, h, i, j: s + SLOPES[h] * (j - i)},
    "a cap": {"score": lambda s, b, h, i, j: torch.tanh(s / 2) * 2, "mask": causal},
    "a scale of each sequence": {"score": lambda s, b, h, i, j: s * (b + 1)},
    "minus infinity": {"score": lambda s, b, h, i, j: torch.where(i >= j, s, -torch.inf)},
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("case", CASES)
def test_it_is_seen_and_computes_as_it_does_unwatched(case: str, dtype: torch.dtype) -> None:
    given, options = CASES[case], dict[str, Any]()
    if "mask" in given:
        options["block_mask"] = create_block_mask(given["mask"], B, H, N, N, device="cpu")
    if "score" in given:
        options["score_mod"] = given["score"]
    model = Flex(**options)
    with torch.no_grad():
        expected = model(*vectors(dtype))
        with regard.watch(model, regard.See(entropy=True), check=True) as run:
            out = model(*vectors(dtype))
    assert out.stride() == expected.stride()
    assert not run.unseen
    layer = run.layers["Flex"]
    assert layer.entropy is not None
    w = weights(**given)
    entropy = -torch.special.xlogy(w, w).sum(-1)
    atol = 1e-5 if dtype == torch.float32 else 0.05
    torch.testing.assert_close(layer.entropy.double(), entropy, atol=atol, rtol=0)
    assert layer.options.causal == (case in ("causal", "a cap", "minus infinity"))


def test_what_is_alike_for_all_is_held_once() -> None:
    documents, slopes = CASES["documents"]["mask"], CASES["slopes"]["score"]
    block_mask = create_block_mask(documents, B, H, N, N, device="cpu")
    model = Flex(block_mask=block_mask, score_mod=slopes)
    with torch.no_grad(), regard.watch(model) as run:
        model(*vectors())
    options = run.layers["Flex"].options
    assert options.mask is not None
    assert options.mask.shape == (1, 1, N, N)
    assert options.bias is not None
    assert options.bias.shape == (1, H, N, N)


def test_the_logarithm_of_the_sum_is_given_to_who_asks() -> None:
    block_mask = create_block_mask(causal, B, H, N, N, device="cpu")
    model = Flex(block_mask=block_mask, return_aux=AuxRequest(lse=True))
    with torch.no_grad():
        expected = model(*vectors())
        with regard.watch(model) as run:
            found = model(*vectors())
    assert list(run.layers) == ["Flex"]
    torch.testing.assert_close(found[0], expected[0], atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(found[1].lse, expected[1].lse, atol=1e-5, rtol=1e-5)


def test_rows_are_asked_about_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    from regard._watch import flex

    monkeypatch.setattr(flex, "_CELLS", B * H * N * 5)
    test_it_is_seen_and_computes_as_it_does_unwatched("a cap", torch.float32)
    test_it_is_seen_and_computes_as_it_does_unwatched("documents", torch.float32)
