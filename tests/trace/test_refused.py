"""What cannot be traced is refused in words, before the model runs."""

from __future__ import annotations

import math
import re
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from helpers.traced_models import IDS, MADE, made, settle
from torch import Tensor, nn

from regard import Projections, trace
from regard.nn import (
    EncoderLayer,
    LanguageModel,
    LanguageModelConfig,
    LayerNorm,
    MultiHeadAttention,
    PostNorm,
    PreNorm,
    Residual,
    RMSNorm,
    SelfAttention,
    StackConfig,
)
from regard.nn._hooks import record
from regard.nn.residual import Sublayer


@pytest.mark.parametrize(
    ("name", "given", "options", "message"),
    [
        ("heads", np.ones((5, 7)), {}, r"X must be \(N, 6\), as wide as the model; got \(5, 7\)"),
        ("heads", [1.0, 2.0], {}, "X must be a matrix with rows"),
        ("heads", np.ones((2, 5, 6)), {}, "X must be a matrix with rows"),
        ("heads", np.full((2, 6), np.nan), {}, "X must be finite; row 1, column 1 is NaN"),
        ("heads", " ", {}, "the text has no word in it"),
        ("heads", "a b", {"tokens": ["a", "b"]}, "a text has its own tokens"),
        ("heads", np.ones((2, 6)), {"tokens": ["a"]}, "tokens must be 2 texts, .*; got 1: 'a'"),
        ("heads", np.ones((2, 6)), {"target": [1]}, "a MultiHeadAttention takes no target"),
        ("cross", np.ones((2, 7)), {"context": np.ones((3, 7))}, r"context must be \(N, 11\)"),
        ("post-norm", np.ones((2, 7)), {"context": np.ones((3, 7))}, "takes no context"),
        ("post-norm", np.ones((2, 7)), {"causal": True}, "EncoderLayer has a mask of its own"),
        ("decoder", np.ones((2, 7)), {}, "a Decoder needs a second sequence.*Say context="),
        ("decoder layer", np.ones((2, 7)), {}, "a DecoderLayer needs a second sequence"),
        ("decoder layer alone", np.ones((2, 7)), {"context": np.ones((2, 7))}, "takes no context"),
        ("language model", "a text", {}, "a text needs a tokenizer.*Say tokenizer="),
        ("language model", [[1, 2]], {}, r"token ids \(N,\), .*; got shape \(1, 2\)"),
        ("language model", [1.5], {}, "token ids .*; got shape .* of float64"),
        ("language model", [], {}, "token ids"),
        ("language model", [True], {}, "token ids"),
        ("language model", [17], {}, "ids must be from 0 to 16, .*; got 17"),
        ("language model", [1], {"heads": 3}, "a model has its own heads: leave heads out"),
        ("language model", [1], {"width": 3}, "a model has its own width"),
        ("language model", [1], {"scale": False}, "a model has its own scale"),
        ("language model", [1], {"positions": "sinusoidal"}, "a model has its own positions"),
        ("language model", "a", {"tokenizer": lambda _: []}, "the tokenizer makes none of it"),
        ("transformer", IDS, {}, "a Transformer needs a second sequence; got none. Say target="),
    ],
)
def test_what_does_not_fit_the_model_is_refused(
    name: str, given: Any, options: dict[str, Any], message: str
) -> None:
    model, *_ = made(name)
    with pytest.raises(ValueError, match=message):
        trace(given, model=model, **options)


def test_a_tokenizer_that_gives_no_ids_is_refused() -> None:
    model, *_ = made("language model")
    with pytest.raises(TypeError, match=r"must give token ids, .*; got str"):
        trace("a", model=model, tokenizer=lambda text: text)


@pytest.mark.parametrize("model", [nn.Linear(2, 2), nn.MultiheadAttention(2, 1), "minilm"])
def test_what_is_no_module_of_regard_is_refused_and_watch_named(model: Any) -> None:
    with pytest.raises(TypeError, match=r"must be a module of regard.nn, or Projections; .*watch"):
        trace(np.ones((2, 2)), model=model)


@pytest.mark.parametrize(
    "option", ["context", "target", "tokenizer", "context_tokens", "target_tokens"]
)
def test_options_of_models_are_refused_without_one(option: str) -> None:
    for model in (None, Projections(*[np.eye(2)] * 3)):
        options: dict[str, Any] = {option: "a"}
        with pytest.raises(ValueError, match=f"{option} needs a model of regard.nn; got none"):
            trace("a b", model=model, **options)


def test_more_weights_than_can_be_kept_are_refused_before_the_model_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = LanguageModelConfig(vocabulary=3, width=16, heads=8, layers=5)
    model = LanguageModel(config)

    def run(*_: Any, **__: Any) -> None:
        raise AssertionError("the model ran")

    monkeypatch.setattr(LanguageModel, "forward", run)
    with pytest.raises(
        ValueError, match=r"with 40 heads .* at most 447 tokens, .*; got 448. .*watch"
    ):
        trace([1] * 448, model=model)
    with pytest.raises(AssertionError, match="the model ran"):
        trace([1] * 447, model=model)


def test_a_model_whose_numbers_are_not_finite_is_refused_and_the_step_named() -> None:
    layer = MultiHeadAttention(6, heads=3)
    with torch.no_grad():
        layer.w_k.weight[1, 2] = torch.inf
    with pytest.raises(ValueError, match="step key has a NaN or an ∞"):
        trace(np.ones((5, 6)), model=layer)


@dataclass(frozen=True)
class _HalfGoesRound(Residual):
    """h = x / 2 + Sublayer(Norm(x))."""

    def join(
        self, layer: nn.Module, x: Tensor, sublayers: Sequence[Sublayer], norms: Iterable[nn.Module]
    ) -> Tensor:
        for sublayer, norm in zip(sublayers, norms, strict=True):
            x = 0.5 * x + sublayer.apply(norm(x))
            record(layer, f"{sublayer.name}.residual", x)
        return x


class _Halved(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return 0.5 * x


def test_a_residual_that_is_no_sum_of_two_steps_is_refused() -> None:
    x = np.random.default_rng(5).normal(size=(5, 6))
    words = r"trace\(\): attention\.residual must be what came into attention, .* differs by \d"
    layer = settle(EncoderLayer(StackConfig(width=6, heads=3, residual=_HalfGoesRound())))
    with pytest.raises(ValueError, match=words):
        trace(x, model=layer)
    layer = settle(EncoderLayer(StackConfig(width=6, heads=3)))
    assert trace(x, model=layer).steps["attention.residual"].formula == "R = input + attention"
    layer.dropout = _Halved()
    with pytest.raises(ValueError, match=words):
        trace(x, model=layer)


@pytest.mark.parametrize("residual", [PreNorm(), PostNorm()], ids=repr)
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_a_residual_that_is_a_rounded_sum_is_none_to_refuse(
    residual: Residual, dtype: torch.dtype
) -> None:
    layer = settle(EncoderLayer(StackConfig(width=6, heads=3, residual=residual))).to(dtype)
    found = trace(np.random.default_rng(5).normal(size=(5, 6)), model=layer)
    assert found.steps["attention.residual"].formula == "R = input + attention"


@pytest.mark.parametrize("scale", [0.0, -0.5, math.inf, math.nan, 5e-324])
def test_a_scale_that_scores_cannot_be_divided_by_is_refused_before_the_model_runs(
    scale: float,
) -> None:
    layer, passes = EncoderLayer(StackConfig(width=6, heads=3)), []
    layer.register_forward_pre_hook(lambda *_: passes.append(1))
    layer.attention.scale = scale
    with pytest.raises(
        ValueError,
        match=rf"trace\(\): the scale of attention must be a number above 0, .*; got {scale!r}\.",
    ):
        trace(np.ones((5, 6)), model=layer)
    assert not passes


def test_the_model_is_in_its_mode_again_after_an_error() -> None:
    layer = SelfAttention(6)
    with torch.no_grad():
        layer.w_k.weight.fill_(torch.nan)
    with pytest.raises(ValueError, match="finite"):
        trace(np.ones((5, 6)), model=layer)
    assert layer.training


def test_a_trace_without_a_model_does_not_import_torch() -> None:
    code = (
        "import sys; from regard import trace; t = trace('I love phones');"
        "t.explain('weights', 0, 0); t.to_json(); assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


class Wrapped(nn.Module):
    """What somebody puts round a part."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, *args: Any, **options: Any) -> Any:
        return self.inner(*args, **options)


@pytest.mark.parametrize("name", list(MADE))
def test_a_part_that_was_replaced_is_refused_by_name_or_traced(name: str) -> None:
    model, given, options = MADE[name]()
    settle(model)
    for path, old in list(model.named_modules())[1:]:
        owner, _, leaf = path.rpartition(".")
        parent = model.get_submodule(owner)
        if isinstance(old, nn.Dropout):  # which does nothing here
            continue
        for new in (nn.Identity(), Wrapped(old)):
            setattr(parent, leaf, new)
            if isinstance(old, LayerNorm | RMSNorm) and isinstance(new, nn.Identity):
                assert trace(given, model=model, **options).steps
                continue
            with pytest.raises(TypeError, match=rf"trace\(\): {re.escape(path)} must be a .*; got"):
                trace(given, model=model, **options)
        setattr(parent, leaf, old)
