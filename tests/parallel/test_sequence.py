"""Models that read one text on many ranks: logits, runs and gradients of one process."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers import parallel_jobs as jobs
from helpers.ranks import Ranks

pytest.importorskip("transformers")

KINDS = ("llama", "gemma", "bert", "own", "own encoder")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count", [2, 3])
def test_logits_and_every_statistic_are_those_of_one_process(
    ranks: Ranks, kind: str, count: int
) -> None:
    expected = jobs.read(None, kind, 41)
    for found in ranks.run(count, jobs.read, kind, 41):
        assert found.keys() == expected.keys()
        for name, x in expected.items():
            if name.endswith(("top_keys", "kind")):
                assert _same_share(x, found[name]) > 0.99, name
            elif isinstance(x, torch.Tensor):
                torch.testing.assert_close(
                    found[name],
                    x,
                    atol=2e-5,
                    rtol=1e-4,
                    equal_nan=True,
                    msg=lambda m, n=name: f"{n}: {m}",
                )
            else:
                assert found[name] == x, name


def _same_share(one: Any, other: Any) -> float:
    if isinstance(one, torch.Tensor):
        return float((one == other).double().mean())
    return sum(a == b for a, b in zip(one, other, strict=True)) / len(one)


def test_padding_is_left_out_as_in_one_process(ranks: Ranks) -> None:
    expected = jobs.read(None, "llama", 23, padded=True)
    for found in ranks.run(3, jobs.read, "llama", 23, padded=True):
        for name in ("logits", "0.map", "0.entropy", "1.received"):
            real = slice(None)
            x, y = expected[name], found[name]
            if name == "logits":
                x, y = x[1, :17], y[1, :17]
            torch.testing.assert_close(y[real], x[real], atol=2e-5, rtol=1e-4)


def test_gradients_of_weights_sum_to_those_of_one_process(ranks: Ranks) -> None:
    expected = jobs.learn(None, 29)
    parts = ranks.run(3, jobs.learn, 29)
    for name, x in expected.items():
        torch.testing.assert_close(sum(part[name] for part in parts), x, atol=3e-5, rtol=1e-3)


@pytest.mark.parametrize(
    ("kind", "message"),
    [
        ("mamba", "must mix tokens by attention alone"),
        ("t5", "must mix tokens by attention alone|by position and window alone"),
        ("gptj", "all attention of the model must be seen|scores of its own"),
        ("alibi", "by position and window alone; got bias"),
    ],
)
def test_models_that_cannot_be_shared_are_refused(ranks: Ranks, kind: str, message: str) -> None:
    import re

    for found in ranks.outcomes(2, jobs.read, kind, 13):
        assert re.search(message, found.message), found
