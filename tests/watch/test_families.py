"""A slice of `make families`: of each kind of model one family, blind and watched, in every way."""

from __future__ import annotations

import pytest
from families.judge import judge

FAMILIES = (
    "albert",  # one module that runs many times
    "clip",  # two encoders beside each other
    "deepseek_v3",  # keys and values of one vector, values narrower than keys
    "gemma3_text",  # windows
    "gpt_oss",  # sinks
    "llava",  # an image in a text
    "modernbert",  # windows that look both ways
    "t5gemma",  # an encoder and a decoder, with a softcap
    "vit",  # an image
    "wav2vec2",  # sound
)


@pytest.mark.parametrize("family", FAMILIES)
def test_a_family_is_watched_as_it_runs_blind_and_every_attention_of_it_is_seen(
    family: str,
) -> None:
    verdict = judge(family)
    assert (verdict.kind, verdict.why) == ("exact", "")
