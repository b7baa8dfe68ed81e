"""Models changed at random: a conversion is refused in words, or computes what theirs computes."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Generator
from typing import Any

import pytest
import torch
from helpers.hugging_face_models import bert, gpt2, llama, made, marian
from helpers.soak import attacks
from huggingface_hub.errors import StrictDataclassError
from torch import Tensor, nn
from transformers import (
    BertForMaskedLM,
    BertForSequenceClassification,
    BertModel,
    GPT2LMHeadModel,
    LlamaForCausalLM,
    MarianMTModel,
)

from regard.nn import from_hugging_face, from_torch

IDS = torch.tensor([[3, 17, 5, 2, 11], [7, 13, 19, 6, 4]])
X = torch.randn(2, 5, 12, generator=torch.Generator().manual_seed(1))


def of_ids(theirs: Any, ours: Any) -> tuple[Tensor, Tensor]:
    return ours(IDS), theirs(IDS)[0]


def of_two(theirs: Any, ours: Any) -> tuple[Tensor, Tensor]:
    return ours(IDS, IDS.flip(1)), theirs(IDS, decoder_input_ids=IDS.flip(1))[0]


def of_vectors(theirs: Any, ours: Any) -> tuple[Tensor, Tensor]:
    return ours(X), theirs(X)


def encoder() -> nn.Module:
    layer = nn.TransformerEncoderLayer(12, 3, 7, dropout=0.0, batch_first=True, norm_first=True)
    return nn.TransformerEncoder(layer, 2, nn.LayerNorm(12), enable_nested_tensor=False).eval()


MODELS: tuple[tuple[Callable[[], Any], Callable[[Any], Any], Callable[..., Any]], ...] = (
    (lambda: made(BertModel(bert())), from_hugging_face, of_ids),
    (lambda: made(BertForMaskedLM(bert())), from_hugging_face, of_ids),
    (lambda: made(BertForSequenceClassification(bert())), from_hugging_face, of_ids),
    (lambda: made(GPT2LMHeadModel(gpt2())), from_hugging_face, of_ids),
    (lambda: made(LlamaForCausalLM(llama())), from_hugging_face, of_ids),
    (lambda: made(MarianMTModel(marian())), from_hugging_face, of_two),
    (encoder, from_torch, of_vectors),
)


def another(choose: random.Random, value: Any) -> Any:
    """A value like this one, and yet another."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int):
        return value + choose.choice([-1, 1, 2])
    if isinstance(value, float):
        return choose.choice([value * 2, value + 0.5, -value, 0.0])
    return choose.choice(["relu", "silu", "eager"])


def attribute(choose: random.Random, model: Any) -> None:
    part = choose.choice(list(model.modules()))
    names = [name for name, value in vars(part).items() if isinstance(value, int | float | str)]
    name = choose.choice(names)
    setattr(part, name, another(choose, getattr(part, name)))


def option(choose: random.Random, model: Any) -> None:
    config = getattr(model, "config", None)
    if config is None:
        return attribute(choose, model)
    names = [name for name, value in vars(config).items() if isinstance(value, int | float | str)]
    name = choose.choice([name for name in names if name[0] != "_"] + ["is_causal"])
    setattr(config, name, another(choose, getattr(config, name, True)))
    return None


def place(choose: random.Random, model: nn.Module) -> tuple[nn.Module, str]:
    path = choose.choice([name for name, _ in model.named_modules() if name])
    owner, _, name = path.rpartition(".")
    return model.get_submodule(owner), name


def part(choose: random.Random, model: nn.Module) -> None:
    owner, name = place(choose, model)
    old = getattr(owner, name)
    others = [each for each in model.modules() if type(each) is type(old)]
    new = choose.choice(
        [
            nn.Identity(),
            nn.Sequential(old),
            choose.choice(others),
            copy.deepcopy(choose.choice(others)),
            nn.ReLU(),
        ]
    )
    setattr(owner, name, new)


def removed(choose: random.Random, model: nn.Module) -> None:
    owner, name = place(choose, model)
    if isinstance(owner, nn.ModuleList):
        del owner[int(name)]
    else:
        setattr(owner, name, None)


def hook(choose: random.Random, model: nn.Module) -> None:
    each = choose.choice(list(model.modules()))
    if choose.random() < 0.5:
        each.register_forward_hook(lambda _, __, y: 2 * y if isinstance(y, Tensor) else y)
    else:
        each.register_forward_pre_hook(lambda _, x: x)


def forward(choose: random.Random, model: nn.Module) -> None:
    each = choose.choice(list(model.modules()))
    old = each.forward
    each.forward = lambda *args, **more: old(*args, **more)


def tie(choose: random.Random, model: nn.Module) -> None:
    owners = [
        each for each in model.modules() if isinstance(each._parameters.get("weight"), Tensor)
    ]
    one: Any = choose.choice(owners)
    other: Any = choose.choice(owners)
    one.weight = choose.choice([other.weight, nn.Parameter(one.weight.detach().clone())])


def buffer(choose: random.Random, model: nn.Module) -> None:
    buffers = list(model.buffers())
    if not buffers:
        return tie(choose, model)
    chosen = choose.choice(buffers)
    chosen.copy_(chosen.flip(-1) if choose.random() < 0.5 else chosen * 2)
    return None


CHANGES = (attribute, option, part, removed, hook, forward, tie, buffer)


# How PyTorch and transformers say that what was changed can be done, or run, no more.
BROKEN = (
    *(AttributeError, TypeError, ValueError, RuntimeError, IndexError, KeyError),
    StrictDataclassError,
)


def changed(choose: random.Random, theirs: Any) -> bool:
    try:
        for change in choose.choices(CHANGES, k=choose.choice([1, 1, 2])):
            change(choose, theirs)
    except BROKEN:
        return False
    return True


def converted(convert: Callable[[Any], Any], theirs: Any) -> Any:
    said = ""
    try:
        return convert(theirs)
    except (ValueError, TypeError) as error:
        said = str(error)
    assert "must" in said
    return None


def outputs(compared: Callable[..., Any], theirs: Any, ours: Any) -> tuple[Tensor, Tensor] | None:
    try:
        compared(theirs, lambda *_: None)
    except BROKEN:
        return None
    return compared(theirs, ours)


@pytest.fixture(autouse=True)
def one_thread() -> Generator[None]:
    """The models here are tiny: threads that wait for each other would take most of the time."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@torch.no_grad()
def test_changed_models_compute_the_same_or_are_refused() -> None:
    for choose in attacks(40):
        make, convert, compared = choose.choice(MODELS)
        theirs = make()
        if not changed(choose, theirs) or (ours := converted(convert, theirs)) is None:
            continue
        both = outputs(compared, theirs, ours)
        if both is not None:
            found, expected = both
            near = 1e-4 * max(1.0, float(expected.abs().max()))
            assert found.shape == expected.shape
            assert torch.allclose(found, expected, rtol=0.0, atol=near, equal_nan=True)
