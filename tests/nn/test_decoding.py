"""A layer in one native call has the bits of its modules, and is left to them if they are heard."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.attention_problems import threads
from torch import Tensor, nn

import regard
from regard import _native
from regard.nn import ALiBi, LanguageModel, LanguageModelConfig, NoPosition, Rotary, _decoding
from regard.nn._hooks import recording

VOCABULARY = 31
POSITIONS = [Rotary(), Rotary(pairing="neighbours", width=2), NoPosition()]


class Counting:
    """regard._native, whose layers are counted, those that were done."""

    def __init__(self) -> None:
        self.calls = 0

    def layer(self, *arguments: Any) -> bool:
        done = _native.layer(*arguments)
        self.calls += done
        return done


@pytest.fixture(autouse=True)
def native(monkeypatch: pytest.MonkeyPatch) -> Counting:
    counting = Counting()
    monkeypatch.setattr(_decoding, "_native", counting)
    return counting


def llama(**options: Any) -> LanguageModel:
    torch.manual_seed(3)
    chosen: dict[str, Any] = {
        "vocabulary": VOCABULARY,
        "width": 36,
        "heads": 6,
        "kv_heads": 2,
        "layers": 3,
        "hidden": 53,
        "activation": "swiglu",
        "norm": "rms",
        "bias": False,
        "position": Rotary(),
    }
    return LanguageModel(LanguageModelConfig(**(chosen | options))).eval()


def ids(batch: int, tokens: int) -> Tensor:
    return torch.randint(VOCABULARY, (batch, tokens), generator=torch.Generator().manual_seed(5))


@torch.no_grad()
def steps(model: LanguageModel, batch: int, sizes: list[int]) -> Tensor:
    cache, parts = model.new_cache(batch), ids(batch, sum(sizes)).split(sizes, 1)
    return torch.cat([model(part, cache=cache) for part in parts], 1)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("position", POSITIONS, ids=repr)
@pytest.mark.parametrize("bias", [False, True])
def test_it_has_the_bits_of_the_modules(
    native: Counting, monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, position: Any, bias: bool
) -> None:
    model = llama(position=position, bias=bias, attention_bias=bias).to(dtype)
    sizes = [5, 1, 1, 2, 1, 3, *[1] * 29]  # the cache grows meanwhile
    for batch in (1, 3):
        native.calls = 0
        found = steps(model, batch, sizes)
        assert native.calls == 3 * (len(sizes) - 1)  # all but the first, where the cache is empty
        with monkeypatch.context() as without:
            without.setattr(_decoding, "_native", None)
            assert torch.equal(found, steps(model, batch, sizes))


def test_threads_make_no_difference() -> None:
    model = llama()
    found = steps(model, 1, [3] + [1] * 9)
    for count in (2, 3):
        with threads(count):
            assert torch.equal(found, steps(model, 1, [3] + [1] * 9))


def test_who_listens_hears_every_call(native: Counting) -> None:
    model, sizes = llama(), [17, 1, 1]
    expected, done = steps(model, 1, sizes), native.calls
    assert done == 6
    layer: Any = model.decoder.layers[1]
    for module in layer.modules():
        if isinstance(module, nn.ModuleList) or module is layer.attention.positions:
            continue  # which are never called
        heard: list[Tensor] = []
        handle = module.register_forward_hook(lambda *given, heard=heard: heard.append(given[-1]))
        native.calls = 0
        assert torch.equal(steps(model, 1, sizes), expected)
        assert len(heard) == (6 if module is layer.dropout else 3)
        assert native.calls == (6 if module is layer else 4)
        handle.remove()
    native.calls, heard = 0, []
    handle = nn.modules.module.register_module_forward_hook(lambda *given: heard.append(given[-1]))
    assert torch.equal(steps(model, 1, sizes), expected)
    handle.remove()
    assert native.calls == 0
    with recording(model) as recorded:
        assert torch.equal(steps(model, 1, sizes), expected)
    assert native.calls == 0
    assert sum(step.name == "query" for step in recorded) == 9
    with regard.watch(model):
        assert torch.equal(steps(model, 1, sizes), expected)
    assert native.calls == 0


class Doubled(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        return 2 * super().forward(input)


def test_a_module_that_was_changed_is_called(native: Counting) -> None:
    model = llama(layers=1)
    expected = steps(model, 1, [3, 1])
    attention: Any = model.decoder.layers[0].attention
    native.calls = 0
    plain, attention.w_v = attention.w_v, Doubled(36, 12, bias=False)
    attention.w_v.weight = plain.weight
    changed = steps(model, 1, [3, 1])
    assert not torch.equal(changed, expected)
    attention.w_v = plain
    plain.forward = lambda x: 2 * nn.functional.linear(x, plain.weight)
    torch.testing.assert_close(steps(model, 1, [3, 1]), changed)
    del plain.forward
    assert native.calls == 0
    assert torch.equal(steps(model, 1, [3, 1]), expected)
    assert native.calls == 1


@pytest.mark.parametrize(
    "options",
    [{"norm": "layer"}, {"activation": "gelu"}, {"position": ALiBi()}, {"window": 5}],
    ids=str,
)
def test_other_layers_are_their_modules(native: Counting, options: dict[str, Any]) -> None:
    steps(llama(**options), 1, [3, 1, 1])
    assert native.calls == 0


def test_gradients_dropout_padding_and_other_tokens_are_for_the_modules(native: Counting) -> None:
    model = llama()
    cache = model.new_cache(1)
    with torch.no_grad():
        model(ids(1, 3), cache=cache)
    with pytest.raises(ValueError, match="no gradient"):
        model(ids(1, 1), cache=cache)
    padded = model.new_cache(2)
    with torch.no_grad():
        model(ids(2, 3), mask=torch.tensor([[False, True, True]] * 2), cache=padded)
        model(ids(2, 1), cache=padded)
        cache = model.new_cache(1)
        model(ids(1, 3), cache=cache)
        model(ids(1, 17), cache=cache)
        model.double()
        steps(model, 1, [3, 1])
        model.float().train()
        dropping = llama(dropout=0.5).train()
        assert not torch.equal(steps(dropping, 1, [3, 1]), steps(dropping, 1, [3, 1]))
    assert native.calls == 0


def test_a_wrong_cache_is_refused_as_before() -> None:
    model = llama()
    cache = model.new_cache(1)
    with torch.no_grad():
        model(ids(1, 3), cache=cache)
        cache.layers[1].extend(torch.zeros(1, 2, 1, 6), torch.zeros(1, 2, 1, 6))
        with pytest.raises(ValueError, match="must be of"):
            llama(heads=3, kv_heads=1)(ids(1, 1), cache=cache)
