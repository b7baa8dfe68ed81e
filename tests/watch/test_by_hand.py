"""Attention that is written out is recognised, and seen from its own numbers."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers.hand_written import CAUSAL, FAMILIES, PADDED, WAYS, HandWritten, family
from helpers.watch_checks import assert_layer_is
from torch import Tensor, nn

import regard

B, N, H, D = 2, 11, 3, 5
SEE = regard.See(entropy=True, top=3, map=(3, 4), received=True, distance=True)
REAL = torch.ones(B, N, dtype=torch.bool)
REAL[0, N - 3 :] = False


@pytest.fixture(autouse=True)
def _seeded() -> Any:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    yield
    torch.set_num_threads(threads)


def made(way: str, dropout: float = 0.0) -> HandWritten:
    return HandWritten(way, dropout).double().eval()


def tokens() -> Tensor:
    return torch.randn(B, N, H * D, dtype=torch.float64)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("padded", [False, True])
def test_what_is_seen_is_what_the_model_computes(way: str, padded: bool) -> None:
    if padded and way not in PADDED:
        return
    model, x, real = made(way), tokens(), REAL if padded else None
    with regard.watch(model, SEE, keep=("q", "k", "v", "output")) as run, torch.no_grad():
        out = model(x, real)
    assert torch.equal(out, model(x, real))
    assert not run.unseen
    (layer,) = run.layers.values()
    assert layer.name == "HandWritten"
    weights = model.weights
    assert weights is not None
    assert_layer_is(layer, weights, queries=real, keys=real, atol=1e-12)
    assert layer.options.causal == (way in CAUSAL)
    torch.testing.assert_close(run.weights(0), weights, atol=1e-12, rtol=0)
    assert layer.v is not None
    assert layer.output is not None
    assert layer.q is not None
    assert layer.k is not None
    torch.testing.assert_close(weights @ layer.v, layer.output, atol=1e-12, rtol=0)
    q, k, v = model.qkv(x).view(B, N, 3, H, D).permute(2, 0, 3, 1, 4)
    torch.testing.assert_close(layer.v, v.detach())
    assert torch.allclose(layer.k, k) or torch.allclose(layer.k, k / D**0.5)
    assert torch.allclose(layer.q, q) or torch.allclose(layer.q, q / D**0.5)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script")
@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("padding", ["none", "right", "left"])
def test_families_with_attention_of_their_own_are_seen_as_eager_reports(
    name: str, padding: str
) -> None:
    model = family(name, torch.float32 if name == "bloom" else torch.float64)
    real = torch.ones(B, N, dtype=torch.bool)
    if padding != "none":
        real[0, slice(N - 3, None) if padding == "right" else slice(3)] = False
    given = {"input_ids": torch.randint(3, 59, (B, N)), "attention_mask": real.long()}
    with torch.no_grad():
        expected = model(**given)[0]
        full = model(**given, output_attentions=True).attentions
        with regard.watch(model, SEE, keep=("q", "k")) as run:
            out = model(**given)[0]
    assert torch.equal(out, expected)
    assert not run.unseen
    assert len(run.layers) == len(full) == 2
    for layer, weights in zip(run.layers.values(), full, strict=True):
        told = None if padding == "none" else real
        atol = 2e-6 if name == "bloom" else 1e-12
        assert_layer_is(layer, weights, queries=told, keys=told, atol=atol)
        torch.testing.assert_close(layer.weights(), weights, atol=atol, rtol=0)


@pytest.mark.parametrize("name", ["gptj", "gpt_neo"])
def test_a_prompt_and_what_is_generated_from_it_are_one_record(name: str) -> None:
    model, ids = family(name), torch.randint(3, 59, (B, 5))
    options = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": False, "pad_token_id": 0}
    with regard.watch(model, SEE, keep=("q", "k")) as run:
        found = model.generate(ids, **options)
    with torch.no_grad():
        full = model(found[:, :-1], output_attentions=True).attentions
    assert len(run.layers) == 2
    for layer, weights in zip(run.layers.values(), full, strict=True):
        assert_layer_is(layer, weights, atol=2e-6)  # both families multiply in float32
        torch.testing.assert_close(layer.weights(), weights, atol=2e-6, rtol=0)


def test_every_question_of_a_run_is_answered_as_for_attention_that_is_known(
    tmp_path: Path,
) -> None:
    layers, x = [made("nano"), made("nano")], tokens()

    class Known(nn.Module):
        def __init__(self, by_hand: HandWritten) -> None:
            super().__init__()
            self.by_hand = by_hand

        def forward(self, x: Tensor) -> Tensor:
            q, k, v = self.by_hand.qkv(x).view(B, N, 3, H, D).permute(2, 0, 3, 1, 4)
            out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
            return self.by_hand.out(out.transpose(1, 2).flatten(2))

    runs: list[regard.Run] = []
    for each in (nn.Sequential(*layers), nn.Sequential(*map(Known, layers))):
        with regard.watch(each, SEE, keep=("q", "k")) as run, torch.no_grad():
            each(x)
        runs.append(run)
    runs[0].save(tmp_path / "run")
    runs.append(regard.load(tmp_path / "run"))
    expected = runs[1]
    for run in (runs[0], runs[2]):
        assert [row["kind"] for row in run.heads()] == [row["kind"] for row in expected.heads()]
        torch.testing.assert_close(run.rollout(N - 1), expected.rollout(N - 1))
        tiles: list[dict[str, Any]] = [{"rows": (2, 7), "keys": (1, 5)}, {"head": 1, "sequence": 1}]
        for tile in tiles:
            torch.testing.assert_close(run.weights(1, **tile), expected.weights(1, **tile))
        torch.testing.assert_close(
            run.pooled(0, shape=(3, 4), reduce="max"),
            expected.pooled(0, shape=(3, 4), reduce="max"),
        )
        columns = ["layer", "head", "query", "key"]
        edges = [each.edges(min_weight=0.15).to_arrow().select(columns) for each in (run, expected)]
        assert edges[0].equals(edges[1])
    runs[0].html(tmp_path / "run.html")
    with pytest.raises(ValueError, match="computes its scores in its own way"):
        runs[0].trace(0, 0)


def test_scores_are_kept_only_if_q_and_k_are_asked_for() -> None:
    model, x = made("nano"), tokens()
    with regard.watch(model, SEE, keep=("v",)) as run, torch.no_grad():
        model(x)
    (layer,) = run.layers.values()
    assert layer.scores is layer.q is layer.k is None
    assert layer.options.bias is layer.options.mask is None
    assert layer.allowed[0, 0].tolist() == list(range(1, N + 1))
    assert [note for note in run.notes if "model's own" in note]
    with pytest.raises(ValueError, match="must have been kept"):
        run.weights(0)


def test_nothing_of_a_pass_is_held_that_was_not_asked_for() -> None:
    model = made("nano")
    with regard.watch(model, regard.See(entropy=True)) as run, torch.no_grad():
        model(tokens())
        gc.collect()
        assert model.weights is not None
        left = weakref.ref(model.weights)
        model.weights = None
        gc.collect()
        assert left() is None
    assert len(run.layers) == 1


@pytest.mark.filterwarnings("ignore:watch")
def test_what_is_not_attention_is_let_go_of_when_the_model_does() -> None:
    class Kept(Difference):
        """Which lets its scores be known of."""

        scores: list[Any]

        def forward(self, x: Tensor) -> Tensor:
            scores = x @ x.mT
            self.scores = [weakref.ref(scores)]
            return super().forward(x) + 0.0 * scores.softmax(-1).sum()

    model = Kept()
    with regard.watch(model), torch.no_grad():
        model(tokens())
        gc.collect()
        assert model.scores[0]() is None


def test_gradients_are_those_of_the_model_bit_for_bit() -> None:
    model, x = made("annotated"), tokens()
    gradients: list[Tensor] = []
    for watched in (False, True):
        model.zero_grad()
        if watched:
            with regard.watch(model):
                model(x, REAL).square().sum().backward()
        else:
            model(x, REAL).square().sum().backward()
        assert model.qkv.weight.grad is not None
        gradients.append(model.qkv.weight.grad.clone())
    assert torch.equal(*gradients)


def test_what_is_transformed_is_computed_as_unwatched() -> None:
    model, x = made("annotated"), tokens()
    expected = torch.func.vmap(model)(x[:, None])
    with pytest.warns(UserWarning, match="own way"), regard.watch(model) as run:
        out = torch.func.vmap(model)(x[:, None])
    assert torch.equal(out, expected)
    assert not run.layers


@pytest.mark.parametrize("way", ["nano", "zeroed"])
def test_figures_are_those_before_dropout(way: str) -> None:
    model, x = made(way, dropout=0.4).train(), tokens()
    real = REAL if way in PADDED else None
    torch.manual_seed(3)
    expected = model(x, real)
    torch.manual_seed(3)
    with regard.watch(model, SEE) as run:
        out = model(x, real)
    assert torch.equal(out, expected)
    (layer,) = run.layers.values()
    assert model.weights is not None
    assert_layer_is(layer, model.weights, queries=real, keys=real, atol=1e-12)


# ── interventions ─────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("way", WAYS)
def test_ablated_heads_and_blocked_links_are_out_of_what_is_computed(way: str) -> None:
    model, x = made(way), tokens()
    model.ablated, model.blocked = (1,), ((0, 7, 2), (2, 4, 4))
    expected, weights = model(x), model.weights
    model.ablated, model.blocked = (), ()
    links = [(0, 0, 7, 2), (0, 2, 4, 4)]
    with regard.watch(model, SEE, ablate={0: [1]}, block=links, keep=("q", "k")) as run:
        out = model(x)
    torch.testing.assert_close(out, expected, atol=1e-12, rtol=0)
    assert weights is not None
    torch.testing.assert_close(run.weights(0), weights, atol=1e-12, rtol=0)
    assert not torch.allclose(out, model(x))


def test_a_key_that_is_blocked_for_every_query_is_in_no_map() -> None:
    model, x = made("annotated"), tokens()
    with regard.watch(model, SEE, block=[("HandWritten", None, None, 4)]) as run:
        model(x)
    (layer,) = run.layers.values()
    assert layer.received is not None
    assert bool((layer.received[..., 4] == 0).all())


def test_weights_that_are_used_twice_are_ablated_twice() -> None:
    class Twice(nn.Module):
        """Relative positions among the values, as Shaw et al. have them."""

        def forward(self, x: Tensor) -> Tensor:
            weights = (x @ x.mT).softmax(-1)
            return weights @ x + weights @ x.flip(-1)

    model, x = Twice(), torch.randn(B, H, N, D, dtype=torch.float64)
    with regard.watch(model, ablate={0: [1]}) as run:
        out = model(x)
    expected = model(x)
    expected[:, 1] = 0.0
    torch.testing.assert_close(out, expected)
    assert len(run.layers) == 1


def test_links_are_not_blocked_where_weights_are_dropped() -> None:
    model = made("nano", dropout=0.4).train()
    message = "drops weights. model.eval"
    with pytest.raises(RuntimeError, match=message), regard.watch(model, block=[(0, 0, 3, 2)]):
        model(tokens())


# ── what is not attention ─────────────────────────────────────────────────────────────────────


class Experts(nn.Module):
    """A router: which expert, by a product with a parameter."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.randn(H * D, 7))
        self.experts = nn.Parameter(torch.randn(7, H * D))

    def forward(self, x: Tensor) -> Tensor:
        return (x @ self.gate).softmax(-1) @ self.experts


class Contrast(nn.Module):
    """Similarities of all to all, as a probability."""

    def forward(self, x: Tensor) -> Tensor:
        one = x[:, 0]
        return x * (one @ one.T).softmax(-1).diagonal()[:, None, None]


class Classes(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Linear(H * D, 7)

    def forward(self, x: Tensor) -> Tensor:
        return x * self.head(x).softmax(-1).amax(-1, keepdim=True)


class Pool(nn.Module):
    """One learned query."""

    def __init__(self) -> None:
        super().__init__()
        self.query = nn.Parameter(torch.randn(1, H * D))

    def forward(self, x: Tensor) -> Tensor:
        return x + (self.query @ x.mT).softmax(-1) @ x


@pytest.mark.parametrize("kind", [Experts, Contrast, Classes, Pool])
def test_a_softmax_that_is_no_attention_is_not_taken_for_it(kind: type[nn.Module]) -> None:
    model = nn.Sequential(kind(), nn.TransformerEncoderLayer(H * D, H, 7, batch_first=True))
    x = torch.randn(B, N, H * D)
    with regard.watch(model.eval()) as run, torch.no_grad():
        out = model(x)
    assert list(run.layers) == ["1.self_attn"]
    torch.testing.assert_close(out, model(x), atol=1e-5, rtol=1e-4)


class Difference(nn.Module):
    """The difference of two softmaxes: not the weights of one."""

    def forward(self, x: Tensor) -> Tensor:
        one, two = (x @ x.mT).softmax(-1), (x @ x.flip(1).mT).softmax(-1)
        return (one - 0.3 * two) @ x


class Normed(nn.Module):
    """Weights that are sharpened after their softmax."""

    def forward(self, x: Tensor) -> Tensor:
        weights = (x @ x.mT).softmax(-1).square()
        return (weights / weights.sum(-1, keepdim=True)) @ x


class Landmarks(nn.Module):
    """As in Nyströmformer: three softmaxes, of which one is inverted."""

    def forward(self, x: Tensor) -> Tensor:
        few = x[:, ::3]
        to_few, among, to_all = (
            (a @ b.mT).softmax(-1) for a, b in ((x, few), (few, few), (few, x))
        )
        inverse = among.mT / (among @ among.mT).diagonal(dim1=-2, dim2=-1).sum(-1)[:, None, None]
        return to_few @ inverse @ (to_all @ x)


class Blocks(nn.Module):
    """As in BigBird: the first queries look at all keys, and the others at keys near them."""

    def forward(self, x: Tensor) -> Tensor:
        heads = x[:, None]
        first = (heads[:, :, :3] @ heads.mT).softmax(-1) @ heads
        near = [heads[:, :, 3:] @ heads.roll(n, 2)[:, :, 3:].mT for n in (0, 1)]
        both = torch.stack(near, 2).softmax(-1)
        rest = both.mean(2) @ heads[:, :, 3:]
        return torch.cat([first, rest], 2)[:, 0]


class Inverse(nn.Module):
    """Weights that are multiplied with something else before they are with values."""

    def forward(self, x: Tensor) -> Tensor:
        weights = (x @ x.mT).softmax(-1)
        again = weights @ weights.mT
        return weights @ (again @ x)


@pytest.mark.parametrize("kind", [Difference, Normed, Landmarks, Blocks, Inverse])
def test_more_than_attention_is_named_and_not_shown_as_attention(kind: type[nn.Module]) -> None:
    model, x = nn.Sequential(kind(), made("nano")), tokens()
    words = "0: computes attention in its own way"
    with pytest.warns(UserWarning, match=words), regard.watch(model, SEE, keep=("q", "k")) as run:
        out = model(x)
    assert torch.equal(out, model(x))
    assert list(run.layers) == ["1"]
    assert len(run.unseen) == 1


def test_heads_in_front_of_sequences_are_not_taken_for_sequences() -> None:
    class HeadsFirst(nn.Module):
        heads = H

        def __init__(self) -> None:
            super().__init__()
            self.num_heads = H

        def forward(self, x: Tensor) -> Tensor:
            heads = x.unflatten(-1, (H, D)).permute(2, 0, 1, 3)
            return ((heads @ heads.mT).softmax(-1) @ heads).permute(1, 2, 0, 3).flatten(2)

    model, x = HeadsFirst(), tokens()
    with pytest.warns(UserWarning, match="computes attention"), regard.watch(model) as run:
        model(x)
    assert not run.layers


def test_heads_that_change_places_on_the_way_are_not_mixed_up() -> None:
    class Turns(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            heads = x.unflatten(-1, (H, D)).transpose(1, 2)
            weights = (heads @ heads.mT).softmax(-1).transpose(0, 1)
            return (weights @ heads.transpose(0, 1)).permute(1, 2, 0, 3).flatten(2)

    model, x = Turns(), tokens()
    with pytest.warns(UserWarning, match="computes attention"), regard.watch(model) as run:
        model(x)
    assert not run.layers


@pytest.mark.parametrize("way", ["groups", "pieces"])
def test_three_axes_are_groups_of_heads_or_pieces_of_a_text(way: str) -> None:
    """Two key heads for six; or a text of twelve tokens in four pieces, which are not tokens."""

    class Three(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            q = x.view(B, 2, 3, -1, D)
            k = q[:, :, :1] if way == "groups" else q
            self.weights = (q @ k.mT).softmax(-1)
            return (self.weights @ k).view_as(x)

    model, x = Three(), torch.randn(B, 6, 7, D, dtype=torch.float64)
    if way == "pieces":
        with pytest.warns(UserWarning, match="computes attention"), regard.watch(model) as run:
            model(x)
        assert not run.layers
        return
    with regard.watch(model, SEE, keep=("q", "k")) as run:
        model(x)
    layer = run.layer(0)
    assert layer.k is not None
    assert layer.k.shape == (B, 2, 7, D)
    assert_layer_is(layer, model.weights.flatten(1, 2), atol=1e-12)


def test_sequences_and_heads_in_one_axis_are_told_apart_by_the_module_and_its_input() -> None:
    class Flat(nn.Module):
        def __init__(self, heads: int) -> None:
            super().__init__()
            self.num_heads = heads

        def forward(self, x: Tensor) -> Tensor:
            y = x.repeat_interleave(self.num_heads, 0)
            return (torch.bmm(y, y.mT).softmax(-1) @ y)[:: self.num_heads]

    for heads in (1, H):
        model = Flat(heads)
        with regard.watch(model) as run:
            model(tokens())
        assert run.layer(0).shape == (B, heads, N, N)
