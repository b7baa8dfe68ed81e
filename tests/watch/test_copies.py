"""Copies of a model that are made while it is watched: they are copies of the model alone."""

from __future__ import annotations

import copy
import io
import pickle
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers.watch_models import build
from torch import Tensor, nn

import regard

B, N = 2, 7


@pytest.fixture(autouse=True)
def _without_gradients() -> Any:
    with torch.no_grad():
        yield


def saved(model: nn.Module) -> nn.Module:
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    return torch.load(file, weights_only=False)


def pickled(model: nn.Module) -> nn.Module:
    return pickle.loads(pickle.dumps(model))


def encoder() -> nn.Module:
    torch.manual_seed(5)
    layer = nn.TransformerEncoderLayer(12, 3, 17, batch_first=True)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()


def main(output: Any) -> Tensor:
    return output if isinstance(output, Tensor) else output[0]


@pytest.mark.parametrize("make", [encoder, lambda: build("llama"), lambda: build("bert", "eager")])
@pytest.mark.parametrize("copied", [copy.deepcopy, saved, pickled])
@pytest.mark.parametrize("keep", [(), ("hidden_states",)])
def test_a_copy_made_inside_the_with_works_there_and_afterwards(
    make: Callable[[], nn.Module], copied: Callable[[nn.Module], nn.Module], keep: tuple[str, ...]
) -> None:
    model = make()
    x = torch.randn(B, N, 12) if isinstance(model, nn.TransformerEncoder) else torch.arange(N)[None]
    expected = main(model(x))
    with regard.watch(model, keep=keep) as run:
        other = copied(model)
        inside = main(other(x))
        model(x)
        late = copied(model)
    assert len(run.layers) == 2
    assert not any("#" in name for name in run.layers)
    for found in (inside, main(other(x)), main(late(x))):
        torch.testing.assert_close(found, expected, atol=2e-4, rtol=1e-4)
    for one, its_copy in zip(model.modules(), other.modules(), strict=True):
        assert not its_copy._forward_hooks
        assert not its_copy._forward_pre_hooks
        assert sorted(one.__dict__) == sorted(its_copy.__dict__)
    with regard.watch(other) as again:
        other(x)
    assert list(again.layers) == list(run.layers)
