"""Watching what people do that nobody thought of: it is seen rightly, or refused in words."""

from __future__ import annotations

import gc
import threading
import warnings
from contextlib import nullcontext
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers.watch_checks import assert_layer_is
from helpers.watch_models import build
from torch import Tensor, nn
from torch.utils.checkpoint import checkpoint

import regard

SEE = regard.See(entropy=True, top=3, map=(3, 4), received=True, distance=True)


class Plain(nn.Module):
    """SDPA of what it is given."""

    def forward(self, q: Tensor, k: Tensor | None = None, **options: Any) -> Tensor:
        k = q if k is None else k
        return F.scaled_dot_product_attention(q, k, k, **options)


def tokens(*shape: int) -> Tensor:
    return torch.randint(2, 59, shape, generator=torch.Generator().manual_seed(5))


def equal(model: nn.Module, *args: Any, **kwargs: Any) -> regard.Run:
    torch.manual_seed(0)
    with torch.no_grad():
        expected = model(*args, **kwargs)
        with regard.watch(model, SEE) as run:
            out = model(*args, **kwargs)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-4)
    return run


# ── several watches ───────────────────────────────────────────────────────────────────────────


def test_a_watch_inside_the_watch_of_another_model_disturbs_neither() -> None:
    one, two = nn.MultiheadAttention(12, 3, batch_first=True), Plain()
    x = torch.randn(2, 5, 12)
    with torch.no_grad(), regard.watch(one) as outer, regard.watch(two) as inner:
        one(x, x, x)
        two(x)
    assert list(outer.layers) == ["MultiheadAttention"]
    assert list(inner.layers) == ["Plain"]


@pytest.mark.parametrize("name", ["bert", "llama"])
def test_a_model_of_transformers_is_recorded_once_under_the_watch_of_another(name: str) -> None:
    one, two = build(name), Plain()
    with torch.no_grad(), regard.watch(one) as outer, regard.watch(two) as inner:
        one(tokens(1, 5))
        two(torch.randn(1, 1, 3, 2))
    assert len(outer.layers) == 2
    assert list(inner.layers) == ["Plain"]
    assert not outer.unseen


def test_the_work_of_one_watch_is_nothing_to_another() -> None:
    class Outer(nn.Module):
        def __init__(self, other: nn.Module) -> None:
            super().__init__()
            self.held = [other]  # no part of it

        def forward(self, x: Tensor) -> Any:
            return self.held[0](x, x, x)

    for inner in (
        nn.MultiheadAttention(12, 3, batch_first=True).eval(),
        nn.MultiheadAttention(12, 3, batch_first=True, add_zero_attn=True).eval(),
    ):
        outer, x = Outer(inner), torch.randn(2, 5, 12)
        with (
            torch.no_grad(),
            pytest.warns(UserWarning, match="no attention was computed"),
            regard.watch(outer) as a,
            regard.watch(inner) as b,
        ):
            outer(x)
        assert not a.layers
        assert list(b.layers) == ["MultiheadAttention"]


def test_a_module_is_watched_by_one_at_a_time() -> None:
    model = nn.Sequential(Plain())
    with regard.watch(model) as run:
        for other in (model, model[0]):
            with pytest.raises(RuntimeError, match="one at a time"), regard.watch(other):
                pass
        model(torch.randn(1, 1, 3, 2))
    assert len(run.layers) == 1


def test_watches_may_end_in_any_order() -> None:
    one, two, x = Plain(), Plain(), torch.randn(1, 1, 3, 2)
    a, b = regard.watch(one), regard.watch(two)
    ra, rb = a.__enter__(), b.__enter__()
    one(x)
    two(x)
    a.__exit__(None, None, None)
    two(x + 1)
    b.__exit__(None, None, None)
    assert list(ra.layers) == ["Plain"]
    assert list(rb.layers) == ["Plain", "Plain#2"]
    assert torch._C._len_torch_function_stack() == 0


def test_a_module_that_runs_in_a_thread_of_its_own_is_seen() -> None:
    class Threaded(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inside = Plain()

        def forward(self, x: Tensor) -> Tensor:
            found: list[Tensor] = []
            thread = threading.Thread(target=lambda: found.append(self.inside(x)))
            thread.start()
            thread.join()
            return found[0]

    model = Threaded()
    with regard.watch(model) as run:
        model(torch.randn(1, 2, 5, 4))
    assert list(run.layers) == ["inside"]


def test_two_models_that_share_a_config_may_be_watched_in_two_threads() -> None:
    one = build("llama")
    two = type(one)(one.config).eval()
    entered, done = threading.Event(), threading.Event()

    def in_between() -> None:
        with regard.watch(two):
            entered.set()
            done.wait(20)
            with torch.no_grad():
                two(tokens(1, 5))

    with regard.watch(one):
        thread = threading.Thread(target=in_between)
        thread.start()
        entered.wait(20)
        with torch.no_grad():
            one(tokens(1, 5))
    done.set()
    thread.join(20)
    assert one.config._attn_implementation == "sdpa"
    with torch.no_grad():
        one(tokens(1, 5))


# ── what SDPA may be given ────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("shape", "mask"),
    [
        ((3, 3, 5, 4), (3, 5, 5)),
        ((2, 3, 5, 4), (3, 5, 5)),
        ((2, 3, 5, 4), (5, 5)),
        ((2, 5, 4), (2, 5, 5)),
        ((2, 3, 3, 5, 4), (2, 1, 1, 5, 5)),
        ((2, 3, 3, 5, 4), (3, 3, 5, 5)),
        ((5, 4), (5, 5)),
    ],
)
def test_a_mask_is_read_on_pytorchs_axes(shape: tuple[int, ...], mask: tuple[int, ...]) -> None:
    torch.manual_seed(1)
    allowed = (torch.rand(mask) > 0.3) | torch.eye(5, dtype=torch.bool)
    q = torch.randn(shape)
    run = equal(Plain(), q, attn_mask=allowed)
    full = (q @ q.mT / 2).masked_fill(~allowed, -torch.inf).softmax(-1)
    full = full.flatten(0, -4) if full.dim() > 4 else full
    full = full[:, None] if full.dim() == 3 else full[(None,) * (4 - full.dim())]
    assert_layer_is(run.layers["Plain"], full)


def test_keys_of_one_sequence_for_all_are_seen() -> None:
    run = equal(Plain(), torch.randn(2, 3, 5, 4), torch.randn(1, 3, 5, 4))
    assert run.layers["Plain"].shape == (2, 3, 5, 5)


def test_keys_with_fewer_axes_than_queries_are_seen() -> None:
    class Uneven(nn.Module):
        def forward(self, q: Tensor, k: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(q, k, k)

    model, q, k = Uneven(), torch.randn(3, 3, 5, 4), torch.randn(3, 5, 4)
    run = equal(model, q, k)
    assert list(run.layers) == ["Uneven"]
    assert not run.unseen


def test_autocast_changes_the_type_as_it_does_unwatched() -> None:
    x = torch.randn(2, 3, 5, 4)
    with torch.autocast("cpu"), regard.watch(model := Plain(), SEE) as run:
        out = model(x)
        expected = F.scaled_dot_product_attention(x, x, x)
    assert out.dtype == expected.dtype == torch.bfloat16
    torch.testing.assert_close(out, expected, atol=2e-2, rtol=2e-2)
    half = x.bfloat16().float()
    assert_layer_is(run.layers["Plain"], (half @ half.mT / 2).softmax(-1))


def test_autocast_takes_queries_and_values_of_two_types() -> None:
    class Rotated(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(x, x, x.bfloat16())

    x = torch.randn(2, 3, 5, 4)
    with torch.autocast("cpu"), torch.no_grad():
        expected = Rotated()(x)
        with regard.watch(model := Rotated(), SEE) as run:
            out = model(x)
    assert out.dtype == expected.dtype
    assert list(run.layers) == ["Rotated"]


def test_a_hint_of_causality_does_not_replace_the_mask() -> None:
    model = nn.MultiheadAttention(12, 3, batch_first=True).eval()
    x = torch.randn(2, 5, 12)
    mask = torch.ones(5, 5).triu(1).bool()
    mask[3, 0] = True
    with torch.no_grad():
        expected, _ = model(x, x, x, attn_mask=mask, is_causal=True)
        with regard.watch(model):
            out, _ = model(x, x, x, attn_mask=mask, is_causal=True)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)


def test_equal_queries_and_keys_are_of_one_sequence() -> None:
    model = nn.MultiheadAttention(12, 3, batch_first=True).eval()
    x = torch.randn(2, 5, 12)
    with torch.no_grad(), regard.watch(model) as run:
        model(x + 1, x + 1, x)
        model(x + 1, x, x)
    assert [layer.cross for layer in run.layers.values()] == [False, True]


def test_a_cache_of_the_models_own_goes_on_in_one_record() -> None:
    model = Plain()
    torch.manual_seed(2)
    k = torch.randn(2, 3, 7, 4)
    see = regard.See(entropy=True)
    with torch.no_grad(), regard.watch(model, see) as run:
        model(k[:, :, :5], is_causal=True)
        model(k[:, :, 5:6], k[:, :, :6])
        model(k[:, :, 6:7], k)
    full = ((k @ k.mT) / 2).masked_fill(~torch.ones(7, 7).tril().bool(), -torch.inf).softmax(-1)
    assert_layer_is(run.layers["Plain"], full, see=see)


# ── transformers ──────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", ["llama", "mistral"])
def test_a_static_cache_generates_the_same(name: str) -> None:
    model, ids = build(name), tokens(2, 7)
    arguments = {
        "max_new_tokens": 4,
        "min_new_tokens": 4,
        "do_sample": False,
        "pad_token_id": 0,
        "cache_implementation": "static",
        "disable_compile": True,
    }
    with torch.no_grad():
        expected = model.generate(ids, **arguments)
        with regard.watch(model, regard.See(entropy=True)) as run:
            found = model.generate(ids, **arguments)
    assert torch.equal(found, expected)
    assert run.layers


def test_a_position_bias_that_changes_from_step_to_step_is_kept_for_each() -> None:
    model, ids = build("t5"), tokens(2, 7)
    with torch.no_grad():
        with regard.watch(model, SEE, keep=("q", "k")) as run:
            found = model.generate(ids, max_new_tokens=5, min_new_tokens=5, do_sample=False)
        full = build("t5", "eager")(
            input_ids=ids, decoder_input_ids=found[:, :-1], output_attentions=True
        ).decoder_attentions
    own = [x for n, x in run.layers.items() if n.startswith("decoder") and not x.cross]
    for layer, weights in zip(own, full, strict=True):
        assert_layer_is(layer, weights, atol=5e-5)
        torch.testing.assert_close(layer.weights(), weights, atol=5e-5, rtol=1e-3)


def test_padding_of_the_decoder_counts_in_no_cross_attention() -> None:
    model, ids = build("t5"), tokens(2, 7)
    real = torch.ones(2, 5, dtype=torch.int64)
    real[0, 3:] = 0
    with torch.no_grad(), regard.watch(model, SEE) as run:
        model(input_ids=ids, decoder_input_ids=ids[:, :5], decoder_attention_mask=real)
    crossed = [layer for layer in run.layers.values() if layer.cross]
    assert crossed
    for layer in crossed:
        assert layer.received is not None
        torch.testing.assert_close(
            layer.received.sum(-1), real.sum(1)[:, None].expand(2, 6).float()
        )


def test_a_decoder_whose_ids_are_not_known_has_no_induction() -> None:
    model, ids = build("t5"), torch.tensor([[5, 6, 7, 8, 5, 6, 7]])
    with torch.no_grad(), regard.watch(model, SEE) as run:
        model(input_ids=ids, labels=ids)
    for name, layer in run.layers.items():
        if not layer.cross:
            assert ("induction" in layer.shares) == name.startswith("encoder")


def test_induction_of_a_decoder_goes_by_its_own_tokens() -> None:
    model = build("t5")
    decoder = torch.tensor([[5, 6, 7, 8, 5, 6, 7]])
    with torch.no_grad(), regard.watch(model, SEE) as run:
        model(input_ids=torch.arange(9, 16)[None], decoder_input_ids=decoder)
    for name, layer in run.layers.items():
        if not layer.cross:
            repeats = not layer.shares["induction"].isnan().all()
            assert repeats == name.startswith("decoder")


def test_beams_change_places_so_their_tokens_are_not_known() -> None:
    model, ids = build("llama"), tokens(1, 5)
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with regard.watch(model, regard.See(entropy=True)) as run:
            model.generate(ids, max_new_tokens=6, num_beams=3, pad_token_id=0, do_sample=False)
    assert len(run.layers) > 2  # the beams have changed places, and so the keys
    assert run.token_ids is None


# ── what is kept ──────────────────────────────────────────────────────────────────────────────


def test_vectors_are_those_of_their_block_also_if_it_works_in_place() -> None:
    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = Plain()

        def forward(self, x: Tensor) -> Tensor:
            x += self.attention(x)
            return x

    model = nn.Sequential(Block(), Block())
    x = torch.randn(2, 5, 4)
    after_one = model[0](x.clone())
    with torch.no_grad(), regard.watch(model, keep=("hidden_states",)) as run:
        model(x.clone())
    torch.testing.assert_close(run.hidden_states["0"], after_one)


def test_keys_that_were_written_over_are_not_passed_off_as_what_was_seen() -> None:
    class Overwrites(nn.Module):
        def forward(self, k: Tensor) -> Tensor:
            out = F.scaled_dot_product_attention(k, k, k)
            k.mul_(2)
            return out

    model = Overwrites()
    with (
        torch.no_grad(),
        pytest.warns(UserWarning, match="has written over them"),
        regard.watch(model, SEE, keep=("q", "k")) as run,
    ):
        model(torch.randn(2, 3, 5, 4))
    layer = run.layers["Overwrites"]
    assert layer.map is not None
    with pytest.raises(ValueError, match="must have been kept"):
        layer.weights()


def test_half_precision_is_multiplied_in_single() -> None:
    model = Plain()
    q = torch.full((1, 1, 4, 4), 300.0, dtype=torch.float16)
    with torch.no_grad(), regard.watch(model, SEE) as run:
        model(q, scale=1e-6)
    torch.testing.assert_close(
        run.layers["Plain"].shares["self"], torch.full((1, 1, 4), 0.25), atol=1e-4, rtol=0
    )


def test_generating_holds_no_more_than_the_text() -> None:
    model, ids = build("llama"), tokens(1, 5)
    with torch.no_grad(), regard.watch(model, regard.See(), keep=("q", "k")) as run:
        model.generate(ids, max_new_tokens=40, min_new_tokens=40, pad_token_id=0, do_sample=False)
        gc.collect()
        held = {
            x.untyped_storage().data_ptr(): x.untyped_storage().nbytes()
            for x in gc.get_objects()
            if type(x) is Tensor and x.dim() == 4 and (*x.shape[:2], x.shape[3]) == (1, 2, 4)
        }
    whole = 2 * 44 * 2 * 4 * 4  # bytes of the keys: layers, tokens, heads, width, float32
    assert whole <= sum(held.values()) <= 6 * whole
    for layer in run.layers.values():
        assert layer.q is not None
        assert layer.k is not None
        for x in (layer.q, layer.k):
            assert x.untyped_storage().nbytes() == x.numel() * 4


# ── blocking ──────────────────────────────────────────────────────────────────────────────────


def test_blocked_links_have_no_share_and_no_weight() -> None:
    model, x = Plain(), torch.randn(2, 3, 5, 4)
    with (
        torch.no_grad(),
        regard.watch(model, SEE, keep=("q", "k"), block=[(0, None, None, 0)]) as run,
    ):
        model(x)
    layer = run.layers["Plain"]
    assert (layer.shares["first"] == 0).all()
    assert (layer.weights()[..., 0] == 0).all()
    mask = torch.ones(5, 5, dtype=torch.bool)
    mask[:, 0] = False
    full = (x @ x.mT / 2).masked_fill(~mask, -torch.inf).softmax(-1)
    assert_layer_is(layer, full)
    with (
        torch.no_grad(),
        pytest.warns(UserWarning, match="links of single queries") as caught,
        regard.watch(model, SEE, keep=("q", "k"), block=[(0, 1, 3, 3)]) as run,
    ):
        model(x)
    assert "map and received of Plain: not made" in str(caught[0].message)
    layer = run.layers["Plain"]
    share = layer.shares["self"]
    assert (share[:, 1, 3] == 0).all()
    assert (share[:, 0] > 0).all()


@pytest.mark.parametrize("name", ["llama", "bert"])
def test_weights_that_are_asked_for_show_what_is_blocked(name: str) -> None:
    model, ids = build(name), tokens(2, 7)
    block: list[Any] = [(0, None, None, 1), (1, 2, 5, 4)]
    with torch.no_grad(), regard.watch(model, regard.See(), block=block):
        weights = model(ids, output_attentions=True).attentions
    assert (weights[0][..., 1] == 0).all()
    assert (weights[1][:, 2, 5, 4] == 0).all()
    assert (weights[1][:, 1, 5, 4] > 0).all()


def test_weights_of_multihead_attention_show_what_is_blocked_with_and_without_a_graph() -> None:
    model = nn.MultiheadAttention(12, 3, batch_first=True)
    x = torch.randn(2, 5, 12)
    mask = torch.zeros(3, 5, 5, dtype=torch.bool)
    mask[1, 3, 2] = mask[:, :, 4] = True
    expected = model(x, x, x, attn_mask=mask.repeat(2, 1, 1), average_attn_weights=False)[1]
    for gradients in (False, True):
        block: list[Any] = [(0, 1, 3, 2), (0, None, None, 4)]
        with (
            torch.set_grad_enabled(gradients),
            regard.watch(model, regard.See(), block=block),
        ):
            weights = model(x, x, x, average_attn_weights=False)[1]
        torch.testing.assert_close(weights, expected, atol=1e-5, rtol=1e-4)
        assert weights.requires_grad == gradients


def test_weights_that_are_asked_for_cost_no_second_pass_of_the_layer() -> None:
    model = nn.MultiheadAttention(12, 3, batch_first=True, dropout=0.5)
    x = torch.randn(2, 5, 12)
    results: list[Tensor] = []
    for need_weights in (False, True):
        torch.manual_seed(3)
        with regard.watch(model, regard.See()):
            model(x, x, x, need_weights=need_weights)
        results.append(torch.rand(1))
    assert torch.equal(*results)


@pytest.mark.parametrize("name", ["llama", "bert", "gemma2", "gpt_oss", "mistral", "t5"])
def test_weights_that_are_asked_for_in_training_carry_their_graph(name: str) -> None:
    found: list[tuple[Tensor, ...]] = []
    for implementation in ("eager", "sdpa"):
        model, ids = build(name, implementation), tokens(2, 7)
        given = {"input_ids": ids} | ({"decoder_input_ids": ids[:, :5]} if name == "t5" else {})
        watched = regard.watch(model, regard.See()) if implementation == "sdpa" else nullcontext()
        with watched:
            out = model(**given, output_attentions=True)
        attentions = out.decoder_attentions if name == "t5" else out.attentions
        loss = sum(x.square().sum() for x in attentions)
        assert isinstance(loss, Tensor)
        loss.backward()
        where = next(n for n, _ in model.named_parameters() if ".k" in n or ".SelfAttention.k" in n)
        grad = model.get_parameter(where).grad
        assert grad is not None
        found.append((*attentions, grad))
    for a, b in zip(*found, strict=True):
        torch.testing.assert_close(a, b, atol=2e-4, rtol=2e-3)


def test_a_link_of_cross_attention_is_blocked_at_its_own_query() -> None:
    model = nn.TransformerDecoderLayer(12, 3, 24, batch_first=True).eval()
    x, memory = torch.randn(2, 5, 12), torch.randn(2, 11, 12)
    block: list[Any] = [("multihead_attn", 1, 3, 7)]
    see = regard.See(top=11)
    with torch.no_grad(), regard.watch(model, see, block=block) as run:
        model(x, memory)
    layer = run.layers["multihead_attn"]
    assert layer.top_keys is not None
    blocked = (layer.top_keys != 7).all(-1)
    expected = torch.zeros(2, 3, 5, dtype=torch.bool)
    expected[:, 1, 3] = True
    assert torch.equal(blocked, expected)


@pytest.mark.parametrize("layers", [None, ["decoder.block.0.*"]])
def test_a_link_of_cross_attention_is_blocked_at_its_step_of_a_generation(layers: Any) -> None:
    model, ids = build("t5"), tokens(1, 11)
    name = "decoder.block.1.layer.1.EncDecAttention"
    arguments = {"max_new_tokens": 5, "min_new_tokens": 5, "do_sample": False}
    seen: list[Tensor] = []
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        block: list[Any] = [(name, 2, 3, 7)]
        with regard.watch(model, regard.See(top=11), block=block, layers=layers) as run:
            found = model.generate(
                ids, **arguments, output_attentions=True, return_dict_in_generate=True
            )
    seen = [step[1][:, 2, 0, 7] for step in found.cross_attentions]
    assert [bool((x == 0).all()) for x in seen] == [False, False, False, True, False]
    if layers is None:
        layer = run.layers[name]
        assert layer.top_keys is not None
        assert (layer.top_keys != 7).all(-1).nonzero().tolist() == [[0, 2, 3]]


# ── training ──────────────────────────────────────────────────────────────────────────────────


def test_what_is_computed_once_more_on_the_way_back_is_seen_once() -> None:
    class Checkpointed(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = nn.TransformerEncoderLayer(12, 4, 24, dropout=0.0, batch_first=True)

        def forward(self, x: Tensor) -> Tensor:
            found = checkpoint(self.layer, x, use_reentrant=False)
            assert isinstance(found, Tensor)
            return found

    model, x = Checkpointed(), torch.randn(2, 5, 12)
    with regard.watch(model) as run:
        model(x).square().sum().backward()
    assert list(run.layers) == ["layer.self_attn"]
    gradients = [p.grad for p in model.parameters()]
    model.zero_grad(set_to_none=True)
    model(x).square().sum().backward()
    for a, b in zip(gradients, (p.grad for p in model.parameters()), strict=True):
        assert a is not None
        torch.testing.assert_close(a, b, atol=2e-5, rtol=1e-4)


def test_a_report_that_fails_leaves_nothing_for_the_next_step() -> None:
    model, x = Plain(), torch.randn(1, 2, 5, 4)
    lines: list[str] = []

    def report(line: dict[str, Any]) -> None:
        lines.append(line["layer"])
        if len(lines) == 1:
            raise KeyError("mine")

    with torch.no_grad(), regard.watch(model, every=1, report=report):
        with pytest.raises(KeyError, match="mine"):
            model(x)
        model(x)
    assert lines == ["Plain", "Plain"]


# ── refused in words ──────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"ablate": [0, 1]}, "ablate must be"),
        ({"ablate": {0: 1}}, "ablate's heads must be whole numbers"),
        ({"ablate": {0: ["a"]}}, "ablate's heads must be whole numbers"),
        ({"ablate": {0: [-1]}}, "ablate's heads must be whole numbers"),
        ({"block": [(0, 0, 1.5, 0)]}, "block's heads and queries must be whole numbers"),
        ({"block": [(0, 0, 0, -1)]}, "block's keys must be whole numbers"),
        ({"block": [(None, 0, 0, 1)]}, "a layer must be a name or a number"),
        ({"layers": [-1]}, "layers must be names"),
        ({"report": 5}, "report must be a function"),
    ],
)
def test_odd_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        regard.watch(Plain(), **arguments)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"layers": ["nope", "Plain"]}, "no attention of 'nope'"),
        ({"layers": [9]}, "no attention of 9 was computed.$"),
        ({"block": [(0, 0, 99, 0)]}, "no query looked along"),
        ({"block": [(0, 0, 0, 99)]}, "no query looked along"),
        ({"keep": ("hidden_states",)}, "hidden_states: none"),
    ],
)
def test_what_was_asked_for_and_is_not_there_is_said(
    arguments: dict[str, Any], message: str
) -> None:
    model = Plain()
    with pytest.warns(UserWarning, match=message), regard.watch(model, **arguments):
        model(torch.randn(1, 2, 5, 4))


@pytest.mark.parametrize("name", ["nope", "layers.*", "0.nope"])
def test_a_name_that_is_no_module_is_refused_before_anything_runs(name: str) -> None:
    model = nn.Sequential(Plain(), Plain())
    both: list[dict[str, Any]] = [{"ablate": {name: [0]}}, {"block": [(name, 0, 0, 0)]}]
    for arguments in both:
        with pytest.raises(ValueError, match=f"must be the name of a module.*got '{name}'"):
            regard.watch(model, **arguments)


def test_heads_are_cut_and_links_blocked_by_pattern() -> None:
    model, x = nn.Sequential(Plain(), Plain()), torch.randn(2, 3, 5, 4)
    with torch.no_grad(), regard.watch(model, ablate={"*": [1]}, keep=("output",)) as run:
        model(x)
    for layer in run.layers.values():
        assert layer.output is not None
        assert not layer.output[:, 1].any()
        assert layer.output[:, 0].all()


def test_one_name_of_a_layer_is_not_its_letters() -> None:
    model = nn.Sequential(Plain(), Plain())
    with regard.watch(model, layers="1") as run:
        model(torch.randn(1, 2, 5, 4))
    assert list(run.layers) == ["1"]


# ── compiled ──────────────────────────────────────────────────────────────────────────────────


def test_what_was_compiled_runs_uncompiled_while_it_is_watched() -> None:
    class Counting(Plain):
        calls = 0

        def forward(self, q: Tensor, k: Tensor | None = None, **options: Any) -> Tensor:
            Counting.calls += not torch.compiler.is_compiling()
            return super().forward(q, k, **options)

    x = torch.randn(1, 2, 5, 4)
    with torch.no_grad():
        model = Counting()
        model.compile(backend="eager")
        for _ in range(2):
            expected = model(x)
            with regard.watch(model, SEE) as run:
                out = model(x)
            assert list(run.layers) == ["Counting"]
            torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)

        plain = Counting()
        function = torch.compile(lambda x: plain(x) + 1, backend="eager")
        for _ in range(2):
            expected = function(x)
            with regard.watch(plain, SEE) as run:
                out = function(x)
            assert list(run.layers) == ["Counting"]
            torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)

        inside = nn.Sequential(Plain(), torch.compile(Plain(), backend="eager"))  # pyright: ignore
        expected = inside(x)
        with regard.watch(inside, SEE) as run:
            out = inside(x)
        assert len(run.layers) == 2
        torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
        before = Counting.calls
        model(x)
        assert Counting.calls == before  # compiled again


def test_the_stance_of_the_compiler_is_put_back_by_the_last_watch() -> None:
    import torch._dynamo.eval_frame as frame

    torch.compile(Plain(), backend="eager")
    one, two = regard.watch(Plain()), regard.watch(Plain())
    before = frame._stance.stance
    one.__enter__()
    two.__enter__()
    for each, after in ((one, "force_eager"), (two, before)):
        with pytest.warns(UserWarning, match="no attention"):
            each.__exit__(None, None, None)
        assert frame._stance.stance == after


def test_transforms_and_compiled_models_are_refused() -> None:
    model = Plain()
    with pytest.raises(RuntimeError, match=r"torch\.func"), regard.watch(model):
        torch.func.vmap(model)(torch.randn(2, 1, 3, 5, 4))
    with pytest.raises(TypeError, match="not compiled"):
        regard.watch(torch.compile(model, backend="eager"))  # pyright: ignore[reportArgumentType]


# ── what is left by others ────────────────────────────────────────────────────────────────────


def test_an_interrupt_inside_a_module_leaves_no_name_behind() -> None:
    class Interrupted(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            raise KeyboardInterrupt

    class Catching(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inside = Interrupted()
            self.after = Plain()

        def forward(self, x: Tensor) -> Tensor:
            try:
                return self.inside(x)
            except KeyboardInterrupt:
                return F.scaled_dot_product_attention(x, x, x)

    x = torch.randn(1, 2, 5, 4)
    outer = nn.Sequential(nn.Sequential(Interrupted()), Plain())
    with torch.no_grad(), regard.watch(outer) as run:
        with pytest.raises(KeyboardInterrupt):
            outer(x)
        F.scaled_dot_product_attention(x, x, x)  # nobody's
        outer[1](x)
    assert list(run.layers) == ["1"]
    model = Catching()
    with torch.no_grad(), regard.watch(model) as run:
        model(x)
        F.scaled_dot_product_attention(x, x, x)
    assert list(run.layers) == ["Catching"]


def test_torchscript_is_named_if_it_may_attend() -> None:
    class Scripted(nn.Module):
        def forward(self, q: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(q, q, q)

    class Doubling(nn.Module):
        def forward(self, q: Tensor) -> Tensor:
            return q * 2

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        model = nn.Sequential(Plain(), torch.jit.script(Scripted()), torch.jit.script(Doubling()))
    with pytest.warns(UserWarning, match="1: is TorchScript"), regard.watch(model) as run:
        model(torch.randn(1, 2, 5, 4))
    assert list(run.layers) == ["0"]
    assert len(run.unseen) == 1


def test_rows_that_are_not_finite_are_counted() -> None:
    model, x = Plain(), torch.randn(1, 2, 7, 4)
    x[0, 1, 3] = torch.nan
    with (
        torch.no_grad(),
        pytest.warns(UserWarning, match="Plain: 7 rows of weights are not finite"),
        regard.watch(model) as run,
    ):
        model(x)
    assert len(run.notes) == 1


class OneAxisMask(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return F.scaled_dot_product_attention(x, x, x, torch.ones(x.shape[-2], dtype=torch.bool))


def test_a_mask_of_one_axis_is_refused_as_pytorch_refuses_it() -> None:
    model, x = OneAxisMask(), torch.randn(1, 2, 5, 3)
    with pytest.raises(Exception) as own:  # noqa: PT011, as it is PyTorch's
        model(x)
    with warnings.catch_warnings(), regard.watch(model):
        warnings.simplefilter("ignore")
        with pytest.raises(type(own.value)):
            model(x)
