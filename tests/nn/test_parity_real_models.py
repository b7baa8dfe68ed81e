"""MiniLM and SmolLM2 in `regard.nn` compute what they compute through transformers."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from helpers.parity_checks import assert_near
from torch import Tensor

from regard.models import Loaded, load
from regard.nn import EncoderModel, LanguageModel, from_hugging_face

STORY = "The old lighthouse keeper climbed the stairs every evening, and every evening he counted."


@pytest.fixture(scope="module")
def minilm() -> Loaded:
    return load("minilm")


@pytest.fixture(scope="module")
def smollm2() -> Loaded:
    return load("smollm2")


@pytest.mark.parametrize(
    ("dtype", "tolerance"), [(torch.float32, 1e-5), (torch.float64, 1e-12)], ids=str
)
def test_minilms_embeddings_are_those_through_transformers(
    minilm: Loaded, dtype: torch.dtype, tolerance: float
) -> None:
    theirs: Any = copy.deepcopy(minilm.model)
    theirs.to(dtype)
    ours = from_hugging_face(theirs)
    assert isinstance(ours, EncoderModel)
    inputs = minilm.inputs(["A cat sat on the mat.", STORY, "hm"])
    real = inputs["attention_mask"].bool()
    with torch.no_grad():
        hidden = theirs(**inputs).last_hidden_state
        found = ours(inputs["input_ids"], mask=real, segments=inputs["token_type_ids"])
        means = ours.mean(inputs["input_ids"], lengths=real.sum(1))
    assert_near(found[real], hidden[real], tolerance, "hidden states")
    kept = real[..., None]
    assert_near(means, (hidden * kept).sum(1) / kept.sum(1), tolerance, "embeddings")


def logits(model: torch.nn.Module, inputs: dict[str, Tensor]) -> Tensor:
    with torch.no_grad():
        found = model(**inputs, use_cache=False).logits
    return found[inputs["attention_mask"].bool()]


def test_smollm2s_logits_are_those_through_transformers(smollm2: Loaded) -> None:
    ours = from_hugging_face(smollm2.model)
    assert isinstance(ours, LanguageModel)
    assert ours.head.weight is ours.embedding.tokens.weight
    inputs = smollm2.inputs([STORY * 3, "One, two, three, four,"])
    real = inputs["attention_mask"].bool()
    with torch.no_grad():
        found = ours(inputs["input_ids"], mask=real)[real]
    assert_near(found, logits(smollm2.model, inputs), 1e-5, "logits")


def test_smollm2s_logits_in_float64_differ_by_what_transformers_computes_in_float32(
    smollm2: Loaded,
) -> None:
    theirs = copy.deepcopy(smollm2.model).double()
    inputs = smollm2.inputs([STORY, "One, two, three, four,"])
    expected = logits(theirs, inputs)
    ours = from_hugging_face(theirs)
    del theirs
    real = inputs["attention_mask"].bool()
    with torch.no_grad():
        found = ours(inputs["input_ids"], mask=real)[real]
    assert_near(found, expected, 1e-6, "logits")
