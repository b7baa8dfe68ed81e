"""What `generate` and `stream` refuse, in words and before any work."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from helpers.varied_models import language_model, transformer

from regard.nn import EncoderModel, EncoderModelConfig, Learned, generate, stream


@pytest.mark.parametrize(
    ("options", "error", "message"),
    [
        ({"prompts": []}, ValueError, "prompts must hold at least one sequence"),
        (
            {"prompts": [[1], []]},
            ValueError,
            r"prompts\[1\] must have at least one token; got none",
        ),
        (
            {"prompts": torch.zeros(2, 0).long()},
            ValueError,
            r"prompts\[0\] must have at least one token; got none",
        ),
        ({"prompts": torch.zeros(2, 3, 5).long()}, ValueError, r"\(N,\) or \(B, N\); got \(2, 3"),
        ({"prompts": torch.zeros(3)}, TypeError, "of whole numbers, .* torch.float32"),
        ({"prompts": "word"}, TypeError, "a list of token ids, .* got str"),
        ({"prompts": ["word"]}, TypeError, "prompts must be lists of token ids"),
        ({"prompts": [1, 2.5]}, TypeError, "a token of prompts must be a whole number; got 2.5"),
        ({"prompts": [True]}, TypeError, "a token of prompts must be a whole number; got True"),
        ({"prompts": [[1], 2]}, TypeError, "all of them or none; got int"),
        ({"prompts": [1, 13]}, ValueError, "a token of prompts must be from 0 to 12; got 13"),
        (
            {"prompts": [[1], [-1, 2]]},
            ValueError,
            r"a token of prompts\[1\] must be from 0 to 12; got -1",
        ),
        ({"max_new_tokens": 0}, ValueError, "max_new_tokens must be at least 1; got 0"),
        ({"max_new_tokens": 2.0}, TypeError, "max_new_tokens must be a whole number; got 2.0"),
        ({"stop": 13}, ValueError, "a token of stop must be from 0 to 12; got 13"),
        ({"stop": [1, -1]}, ValueError, "got -1. The model can never say"),
        ({"stop": "."}, TypeError, "stop must be a whole number"),
        ({"stop": torch.tensor(13)}, ValueError, "a token of stop must be from 0 to 12; got 13"),
        ({"stop": torch.tensor(2.0)}, TypeError, "stop must be of whole numbers, .* torch.float32"),
        ({"stop": torch.tensor([True])}, TypeError, "stop must be of whole numbers, .* torch.bool"),
        ({"stop": torch.zeros(2, 3).long()}, ValueError, r"\(\) or \(N,\); got \(2, 3\)"),
        ({"stop": np.array(2.0)}, TypeError, "stop must be a whole number"),
        ({"beams": 0}, ValueError, "beams must be at least 1; got 0"),
        ({"temperature": -0.5}, ValueError, "temperature must be at least 0; got -0.5"),
        ({"temperature": math.nan}, ValueError, "temperature must be a finite number; got nan"),
        ({"temperature": "hot"}, TypeError, "temperature must be a number; got 'hot'"),
        ({"top_k": 0}, ValueError, "top_k must be at least 1; got 0"),
        ({"top_p": 0.0}, ValueError, "top_p must be more than 0 and at most 1; got 0.0"),
        ({"top_p": 1.5}, ValueError, "top_p must be more than 0 and at most 1; got 1.5"),
        ({"top_k": 5}, ValueError, "top_k must be left out while temperature is 0; got 5"),
        ({"top_p": 0.5, "seed": 1}, ValueError, "top_p must be left out .*: give a temperature"),
        ({"seed": -1}, ValueError, "seed must be from 0"),
        ({"window": 0}, ValueError, "window must be at least 1; got 0"),
        ({"beams": 2, "temperature": 1.0}, ValueError, "beams must be 1 to draw tokens"),
        ({"beams": 2, "top_k": 5}, ValueError, "beams must be 1 to draw tokens"),
        ({"start": 1}, ValueError, "start must be left out"),
    ],
    ids=str,
)
@pytest.mark.parametrize("door", [generate, stream])
def test_what_is_not_in_order_is_refused_before_any_work(
    door: Any, options: dict[str, Any], error: type[Exception], message: str
) -> None:
    model, passes = language_model(), []
    model.register_forward_pre_hook(lambda *_: passes.append(1))
    options = {"prompts": [1, 2], "max_new_tokens": 3} | options
    with pytest.raises(error, match=rf"^{door.__name__}\(\): .*{message}"):
        door(model, options.pop("prompts"), **options)
    assert not passes


def test_a_penalty_that_is_no_number_is_refused() -> None:
    with pytest.raises(ValueError, match=r"length_penalty must be from -10 to 10; got inf"):
        generate(language_model(), [1], max_new_tokens=3, length_penalty=math.inf)


@pytest.mark.parametrize("penalty", [400.0, -400.0])
def test_a_penalty_that_would_overflow_is_refused(penalty: float) -> None:
    with pytest.raises(ValueError, match=r"length_penalty must be from -10 to 10; got -?400"):
        generate(language_model(), [1], max_new_tokens=3, beams=2, length_penalty=penalty)


def test_streaming_beams_is_refused() -> None:
    with pytest.raises(ValueError, match=r"stream\(\): beams must be 1; got 2\. Which beam"):
        stream(language_model(), [1], max_new_tokens=3, beams=2)


def test_more_tokens_than_a_learned_table_has_are_refused_and_no_fewer() -> None:
    model = language_model(Learned(11))
    assert len(generate(model, [[1] * 5, [2]], max_new_tokens=7).tokens[0]) == 7
    with pytest.raises(ValueError, match=r"at most 11 tokens.* max_new_tokens=8, .* are 12\."):
        generate(model, [[1] * 5, [2]], max_new_tokens=8)
    pair = transformer(Learned(11))
    assert len(generate(pair, [1] * 11, start=1, max_new_tokens=11).tokens[0]) == 11
    with pytest.raises(ValueError, match=r"at most 11 tokens.* the source has 12\."):
        generate(pair, [1] * 12, start=1, max_new_tokens=3)
    with pytest.raises(ValueError, match=r"at most 11 tokens.* max_new_tokens=12"):
        generate(pair, [1] * 5, start=1, max_new_tokens=12)


def test_a_transformer_needs_tokens_to_start_with() -> None:
    model = transformer()
    with pytest.raises(ValueError, match=r"start must be the token that the target begins with"):
        generate(model, [1], max_new_tokens=3)
    with pytest.raises(ValueError, match=r"a token of start must be from 0 to 10; got 12"):
        generate(model, [12], start=12, max_new_tokens=3)
    with pytest.raises(ValueError, match=r"for each of the 3 sequences; got those of 2"):
        generate(model, [[1], [2], [3]], start=[[1], [2]], max_new_tokens=3)


def test_a_model_without_a_next_token_is_refused() -> None:
    model: Any = EncoderModel(EncoderModelConfig(vocabulary=11, width=6, heads=3))
    with pytest.raises(TypeError, match=r"a LanguageModel or a Transformer; got EncoderModel"):
        generate(model, [1], max_new_tokens=3)


@pytest.mark.parametrize("bad", [math.nan, math.inf])
@pytest.mark.parametrize("beams", [1, 2])
def test_logits_that_are_no_numbers_are_said(bad: float, beams: int) -> None:
    model = language_model(head_bias=True)
    with torch.no_grad():
        model.head.bias[5] = bad
    with pytest.raises(
        ValueError, match=r"logits must be numbers; got NaN or infinity for token 2"
    ):
        generate(model, [1, 2], max_new_tokens=3, beams=beams)


def test_a_stream_takes_its_own_options_and_no_others() -> None:
    model = language_model()
    with pytest.raises(TypeError, match="unexpected argument 'length_penalty'"):
        stream(model, [1], max_new_tokens=3, length_penalty=2.0)  # pyright: ignore[reportCallIssue]
    with pytest.raises(TypeError, match="needs the argument 'max_new_tokens'"):
        stream(model, [1])  # pyright: ignore[reportCallIssue]
