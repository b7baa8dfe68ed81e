"""Families of transformers at random: watched, each gives what it gives unwatched, or refuses."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers.soak import attacks, times
from helpers.watch_families import families, small
from torch import Tensor

import regard

B, N, M = 2, 11, 7


@pytest.fixture(autouse=True)
def _one_thread() -> Any:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # many small calls wait for each other otherwise
    with torch.no_grad():
        yield
    torch.set_num_threads(threads)


def given(model: Any, padding: str) -> dict[str, Tensor]:
    random = torch.Generator().manual_seed(3)
    mask = torch.ones(B, N, dtype=torch.int64)
    if padding == "right":
        mask[0, N - 3 :] = 0
    elif padding == "left":
        mask[0, :3] = 0
    inputs = {"input_ids": torch.randint(3, 59, (B, N), generator=random), "attention_mask": mask}
    if model.config.is_encoder_decoder:
        inputs["decoder_input_ids"] = torch.randint(3, 59, (B, M), generator=random)
    return inputs


def main(model: Any, inputs: dict[str, Tensor]) -> Tensor:
    out = model(**inputs)
    return next(out[name] for name in ("logits", "last_hidden_state") if name in out)


def made(family: str) -> Any:
    """The model, or None if it cannot be made small, or wants more than ids to run."""
    try:
        model = small(family)
        if model is not None:
            main(model, given(model, "none"))
    except Exception:  # noqa: BLE001 — whatever a strange configuration or input may raise
        return None
    return model


@pytest.mark.filterwarnings("ignore")
def test_a_family_gives_what_it_gives_unwatched() -> None:
    known = families()
    # In the slice a few at random; in a soak all, one after the other.
    ran = 0
    for number, choose in enumerate(attacks(8)):
        family = choose.choice(known) if times(1) == 1 else known[number % len(known)]
        model = made(family)
        if model is None:
            continue
        for way in ("eager", "sdpa"):
            try:
                model.set_attn_implementation(way)
            except ValueError:  # it has no such attention
                continue
            for padding in ("none", "right", "left"):
                inputs = given(model, padding)
                expected = main(model, inputs)
                with regard.watch(model):
                    found = main(model, inputs)
                assert found.shape == expected.shape
                if expected.shape[1] == N and not model.config.is_encoder_decoder:
                    real = inputs["attention_mask"].bool()
                    expected, found = expected[real], found[real]
                is_known = ~expected.isnan()
                difference = (found - expected)[is_known].abs()
                largest = 1e-4 * expected[is_known].abs().amax() if bool(is_known.any()) else 0.0
                assert bool((difference <= largest).all()), f"{family}, {way}, {padding}"
                ran += 1
    assert ran
