"""Effect: what direct arithmetic gives, and what cannot be compared is refused."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from helpers.made_runs import made_run
from helpers.run_by_hand import make_run
from torch import Tensor

import regard
import regard.run.effect
from regard.run import Layer, Options, Run
from regard.run.moved import moved
from regard.text import Token

IDS = torch.tensor([[3, 1, 4], [1, 5, 9]])


def pair(width: int = 7, vocabulary: int = 13, causal: bool = True) -> tuple[Run, Run]:
    """Two runs of two sequences of three tokens; the last token of the second is padding."""
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(2, 1, 3, 2, generator=generator)
    _, seen = regard.attention(q, q, q, causal=causal, see=regard.See())
    real = torch.tensor([[True, True, True], [True, True, False]])
    layer = Layer("a", seen, Options(causal=causal), queries=real, keys=real)

    def draw(size: int) -> Tensor:
        return torch.randn(2, 3, size, generator=generator)

    def run() -> Run:
        return Run(
            {"a": layer},
            model="made up",
            tokens=[[Token(f"t{i}", i, i + 1) for i in range(3)] for _ in range(2)],
            token_ids=IDS,
            hidden_states={"block.0": draw(width), "block.1": draw(width)},
            output=draw(vocabulary),
        )

    return run(), run()


def test_vectors_are_compared_token_by_token() -> None:
    one, other = pair()
    found = one.effect(other)
    assert list(found.layers) == ["block.0", "block.1"]
    for name, change in found.layers.items():
        a, b = one.hidden_states[name].double().numpy(), other.hidden_states[name].double().numpy()
        size = np.sqrt((a * a).sum(-1))
        np.testing.assert_allclose(change.relative, np.sqrt(((a - b) ** 2).sum(-1)) / size)
        cosine = (a * b).sum(-1) / (size * np.sqrt((b * b).sum(-1)))
        np.testing.assert_allclose(change.cosine, cosine)
        assert change.divergence is None


def test_logits_are_compared_as_chances_of_the_next_word() -> None:
    one, other = pair()
    assert one.output is not None
    assert other.output is not None
    found = one.effect(other).output
    assert found is not None
    p = regard.reference.softmax(one.output.double().numpy())
    q = regard.reference.softmax(other.output.double().numpy())
    assert found.divergence is not None
    np.testing.assert_allclose(found.divergence, (p * np.log(p / q)).sum(-1), rtol=1e-9)
    assert found.flipped is not None
    assert found.flipped.tolist() == (p.argmax(-1) != q.argmax(-1)).tolist()


def test_a_word_that_has_no_chance_adds_nothing() -> None:
    a, b = torch.tensor([[0.0, 0.0, -math.inf]]), torch.tensor([[0.0, 1.0, -math.inf]])
    found = regard.run.effect.compare(a, b, True).divergence
    expected = regard.run.effect.compare(a[:, :2], b[:, :2], True).divergence
    assert found is not None
    assert expected is not None
    assert found.tolist() == expected.tolist()


def test_nothing_changed_is_zero_everywhere() -> None:
    one, _ = pair()
    found = one.effect(one)
    assert found.output is not None
    assert found.output.divergence is not None
    assert found.output.flipped is not None
    assert found.output.relative.tolist() == [[0.0] * 3] * 2
    assert found.output.divergence.abs().max() == 0
    assert not found.output.flipped.any()
    torch.testing.assert_close(
        found.layers["block.0"].cosine, torch.ones(2, 3, dtype=torch.float64)
    )


def test_zero_vectors_have_no_direction() -> None:
    zero, one = torch.zeros(1, 1, 2), torch.ones(1, 1, 2)
    change = regard.run.effect.compare(zero, one, False)
    assert change.relative.item() == math.inf
    assert math.isnan(change.cosine.item())
    assert regard.run.effect.compare(zero, zero, False).relative.item() == 0.0


def test_whether_an_output_is_logits_follows_the_rule() -> None:
    def judged(one: Run, other: Run, logits: bool | None = None) -> bool:
        output = one.effect(other, logits=logits).output
        assert output is not None
        return output.divergence is not None

    assert judged(*pair())
    assert not judged(*pair(vocabulary=7))  # as wide as the hidden_states: no vocabulary
    assert not judged(*pair(causal=False))
    assert judged(*pair(causal=False), logits=True)
    assert not judged(*pair(), logits=False)
    one, other = pair()
    one.hidden_states, other.hidden_states = {}, {}
    assert not judged(one, other)


def test_the_summary_leaves_padding_out() -> None:
    one, other = pair()
    assert one.output is not None
    other.output = one.output.clone()
    other.output[0, 1] += torch.arange(13)
    other.output[1, 2] += 1e6 * torch.arange(13)  # padding
    other.hidden_states = {"block.0": one.hidden_states["block.0"]}
    lines = str(one.effect(other)).splitlines()
    assert lines[0].split() == ["mean", "change", "largest", "change", "mean", "cosine"]
    assert lines[1].split()[:4] == ["block.0", "0.00%", "0.00%", "1.0000"]
    assert lines[2].endswith("at 1 't1' of sequence 0")
    assert "at 1 't1' of sequence 0" in lines[3]
    assert "changed at 1 of 5 tokens" in lines[3]


def test_an_output_a_sequence_is_compared_sequence_by_sequence() -> None:
    one, other = (Run(output=torch.tensor([[3.0, 4.0], [0.0, x]])) for x in (2.0, 3.0))
    found = one.effect(other)
    assert found.output is not None
    assert found.output.relative.tolist() == [0.0, 0.5]
    assert "50.00%" in str(found)


def test_large_outputs_are_compared_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = pair()
    assert one.output is not None
    assert other.output is not None
    expected = regard.run.effect.compare(one.output, other.output, True)
    monkeypatch.setattr(regard.run.effect, "_CELLS", 30)
    found = regard.run.effect.compare(one.output, other.output, True)
    for name in ("relative", "cosine", "divergence", "flipped"):
        assert torch.equal(getattr(found, name), getattr(expected, name))


def test_what_cannot_be_compared_is_refused_in_words() -> None:
    one, other = pair()
    other.token_ids = IDS + 1
    with pytest.raises(ValueError, match=r"effect\(\): both runs must have read the same tokens"):
        one.effect(other)
    one, other = pair()
    one.token_ids = None
    assert other.tokens is not None
    other.tokens[0][0] = Token("other", 0, 5)
    with pytest.raises(ValueError, match="same tokens"):
        one.effect(other)
    with pytest.raises(ValueError, match="same tokens"):
        Run(text="a", output=torch.ones(1, 2)).effect(Run(text="b", output=torch.ones(1, 2)))
    one, other = pair()
    other.hidden_states["block.1"] = torch.zeros(2, 3, 5)
    with pytest.raises(ValueError, match=r"block.1 must be of the same shape.*\(2, 3, 7\)"):
        one.effect(other)
    bare, _ = make_run("causal")
    with pytest.raises(ValueError, match=r'none in common.*keep=\("hidden_states", "output"\)'):
        bare.effect(bare)
    with pytest.raises(TypeError, match=r"effect\(\): other must be a Run; got 3"):
        bare.effect(3)  # pyright: ignore[reportArgumentType]
    one, other = pair()
    with pytest.raises(TypeError, match="logits must be True, False or None"):
        one.effect(other, logits=1)  # pyright: ignore[reportArgumentType]
    one.output = None
    with pytest.raises(ValueError, match="logits=True needs the output"):
        one.effect(other, logits=True)


def test_a_block_of_padding_alone_has_nothing_to_compare() -> None:
    change = regard.run.effect.Change(torch.rand(1, 7), torch.rand(1, 7))
    effect = regard.run.effect.Effect({"block": change}, real=torch.zeros(1, 7, dtype=torch.bool))
    assert str(effect).splitlines()[1:] == ["block  nothing to compare"]


def test_what_moved_of_a_heads_weight_is_half_of_the_differences_of_a_row() -> None:
    one, other = made_run(layers=2), made_run(layers=2, seed=1)
    found = moved(one, other)
    for layer, shares in enumerate(found):
        apart = (one.weights(layer) - other.weights(layer))[0].abs().sum(-1) / 2
        assert shares is not None
        np.testing.assert_allclose(shares, apart.mean(-1), atol=1e-6)
    assert moved(one, one) == [[0.0] * 5] * 2
    assert moved(one, made_run(layers=1, keep=False)) == [None, None]
    with pytest.raises(ValueError, match="different ones"):
        moved(one, made_run("another text", layers=2))
