"""A language model of ours becomes one of transformers that computes the same."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch

from regard.nn import (
    LanguageModel,
    LanguageModelConfig,
    Learned,
    PostNorm,
    Rotary,
    from_hugging_face,
    to_hugging_face,
)

COMMON: dict[str, Any] = {"vocabulary": 23, "width": 10, "heads": 5, "layers": 3, "hidden": 13}
GPT2 = COMMON | {"position": Learned(17)}
LLAMA = COMMON | {"activation": "swiglu", "norm": "rms", "bias": False, "head_width": 6}


@pytest.mark.parametrize(
    "fields",
    [
        GPT2,
        GPT2 | {"tied": False, "dropout": 0.1},
        GPT2 | {"bias": False, "activation": "gelu_tanh"},
        LLAMA,
        LLAMA | {"kv_heads": 1, "position": Rotary(base=500.0), "tied": False},
        LLAMA | {"bias": True, "attention_bias": False},
    ],
    ids=lambda fields: "-".join(str(value) for value in fields.values()),
)
def test_the_logits_are_the_same_and_the_way_back_gives_the_same_weights(
    fields: dict[str, Any], tmp_path: Path
) -> None:
    ours = LanguageModel(LanguageModelConfig(**fields)).eval()
    for weight in ours.parameters():
        torch.nn.init.normal_(weight, std=0.3)
    theirs = to_hugging_face(ours)
    ids = torch.randint(0, 23, (3, 13))
    assert torch.allclose(theirs(ids).logits, ours(ids), atol=2e-5)
    theirs.save_pretrained(tmp_path)
    again = type(theirs).from_pretrained(tmp_path)
    assert torch.equal(again(ids).logits, theirs(ids).logits)
    back = from_hugging_face(again)
    assert torch.allclose(back(ids), ours(ids), atol=2e-5)


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        (GPT2 | {"norm": "rms"}, r"norm must be 'layer'; got 'rms'\. GPT2LMHeadModel has no"),
        (GPT2 | {"kv_heads": 1}, r"kv_heads must be 5; got 1"),
        (GPT2 | {"residual": PostNorm()}, r"residual must be PreNorm\(\); got PostNorm\(\)"),
        (LLAMA | {"norm": "layer", "window": 3}, r"norm must be 'rms'; got 'layer'; window must"),
        (LLAMA | {"position": Rotary(pairing="neighbours")}, r"position must be Rotary\("),
    ],
)
def test_what_has_no_counterpart_is_named(fields: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        to_hugging_face(LanguageModel(LanguageModelConfig(**fields)))
