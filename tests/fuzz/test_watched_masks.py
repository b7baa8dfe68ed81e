"""Every kind of mask that a caller may hand to a model: watched, it does what it does unwatched."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch
from helpers.soak import attacks
from helpers.watch_models import MODELS, ODD, build
from torch import Tensor

import regard

B, N, M = 2, 7, 5
FAMILIES = (
    "bert", "albert", "gpt2", "llama", "mistral", "gemma2", "gpt_oss", "t5", "marian", "modernbert",
    "umt5", "falcon", "doge", "layoutlm",
)  # fmt: skip
TWO = ("t5", "marian", "umt5")


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # many small calls wait for each other otherwise
    yield
    torch.set_num_threads(threads)


def flat(choose: random.Random) -> Tensor:
    """A mask of (B, N), as a tokenizer makes it: padding on either side, or holes."""
    kind = choose.choice(("none", "right", "left", "holes"))
    mask = torch.ones(B, N)
    if kind == "right":
        mask[0, N - choose.randrange(1, N) :] = 0
    elif kind == "left":
        mask[1, : choose.randrange(1, N)] = 0
    elif kind == "holes":
        mask[choose.randrange(B), choose.randrange(1, N)] = 0
    return mask.to(choose.choice((torch.int64, torch.bool, torch.float32, torch.int32)))


def square(choose: random.Random) -> Tensor:
    """A mask of (B, H, N, N), H being 1 or all heads."""
    heads = choose.choice((1, 1, 6))
    batch = choose.choice((1, B, B))
    open_ = torch.ones(batch, heads, N, N, dtype=torch.bool)
    if choose.random() < 0.7:
        open_ = open_.tril()
    if choose.random() < 0.5:
        open_[:, :, :, choose.randrange(1, N)] = False
    if choose.random() < 0.3:
        open_[0, :, choose.randrange(N)] = False
    shut = choose.choice((-torch.inf, torch.finfo(torch.float32).min, -1e4, -3.0))
    kind = choose.choice(("bool", "int", "uint8", "float", "float64", "0/1", "bias"))
    if kind == "bool":
        return open_
    if kind in ("int", "uint8"):
        return open_.to(torch.int64 if kind == "int" else torch.uint8)
    if kind == "0/1":
        return open_.float()
    if kind == "bias":
        return torch.randn(open_.shape, generator=torch.Generator().manual_seed(3))
    added = torch.zeros(open_.shape).masked_fill(~open_, shut)
    return added.double() if kind == "float64" else added


def outcome(model: Any, inputs: dict[str, Any], watched: bool) -> Tensor | str:
    """What the model gives, or that it refuses."""
    try:
        if not watched:
            out = model(**inputs)
        else:
            with regard.watch(model, regard.See(entropy=True)):
                out = model(**inputs)
    except (RuntimeError, ValueError, TypeError, IndexError, AttributeError) as error:
        return f"refused: {type(error).__name__}: {error}"
    return out.logits if "logits" in out else out.last_hidden_state


@pytest.mark.filterwarnings("ignore:watch\\(\\)")
def test_a_mask_does_what_it_does_unwatched() -> None:
    models: dict[tuple[str, str], Any] = {}
    assert set(FAMILIES) <= set(MODELS | ODD)
    for choose in attacks(40):
        name, way = choose.choice(FAMILIES), choose.choice(("eager", "sdpa"))
        if (name, way) not in models:
            models[name, way] = build(name, way)
        mask = choose.choice((flat, square, square))(choose)
        random_ = torch.Generator().manual_seed(choose.randrange(99))
        inputs: dict[str, Any] = {"input_ids": torch.randint(2, 59, (B, N), generator=random_)}
        if choose.random() < 0.9:
            inputs["attention_mask"] = mask
        if name in TWO:
            inputs["decoder_input_ids"] = torch.randint(2, 59, (B, M), generator=random_)
        if name == "gemma2" and choose.random() < 0.5:
            kinds = ("full_attention", "sliding_attention")
            inputs["attention_mask"] = {kind: square(choose) for kind in kinds}
        with torch.no_grad():
            expected = outcome(models[name, way], inputs, watched=False)
            found = outcome(models[name, way], inputs, watched=True)
        said = f"{name} in {way}, {mask.dtype} {tuple(mask.shape)}"
        if isinstance(expected, str) or isinstance(found, str):
            assert isinstance(expected, str), f"{said}: {found}"
            assert isinstance(found, str), f"{said}: unwatched {expected}"
            continue
        if mask.dim() == 2 and name not in TWO and expected.shape[1] == N:
            real = inputs.get("attention_mask", mask.new_ones(mask.shape)) != 0
            if isinstance(real, Tensor) and real.dim() == 2:
                expected, found = expected[real], found[real]
        is_shut = expected.isnan()  # a row that is shut by −inf: 0 here, NaN in eager
        assert bool(((found - expected)[~is_shut].abs() < 1e-3).all()), said
