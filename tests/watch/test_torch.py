"""Watching plain PyTorch: SDPA by any name, MultiheadAttention in every mode, its layers."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from helpers.watch_checks import assert_layer_is
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention as imported_by_name

import regard

B, H, N, D = 2, 3, 7, 5
SEE = regard.See(entropy=True, top=3, map=(3, 4), received=True, distance=True)


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    torch.manual_seed(0)
    with torch.no_grad():
        yield


def _tensor(x: Tensor | None) -> Tensor:
    assert x is not None
    return x.double()


class OwnAttention(nn.Module):
    """As people write it: one projection, SDPA, one projection."""

    def __init__(self, causal: bool = True, by_name: bool = False) -> None:
        super().__init__()
        self.qkv = nn.Linear(H * D, 3 * H * D)
        self.causal, self.by_name = causal, by_name

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, v = self.qkv(x).view(*x.shape[:2], 3, H, D).permute(2, 0, 3, 1, 4)
        attend = imported_by_name if self.by_name else F.scaled_dot_product_attention
        out = attend(q, k, v, attn_mask=mask, is_causal=self.causal and mask is None)
        return out.transpose(1, 2).flatten(2)

    def weights(self, x: Tensor, mask: Tensor | None = None) -> Tensor:
        q, k, _ = self.qkv(x).double().view(*x.shape[:2], 3, H, D).permute(2, 0, 3, 1, 4)
        scores = q @ k.mT / D**0.5
        if mask is None and self.causal:
            mask = torch.ones(x.shape[1], x.shape[1]).tril().bool()
        if mask is not None:
            scores = scores.masked_fill(~mask, -torch.inf)
        return scores.softmax(-1)


@pytest.mark.parametrize("by_name", [False, True])
@pytest.mark.parametrize("causal", [False, True])
def test_sdpa_is_seen_by_any_name(by_name: bool, causal: bool) -> None:
    own = OwnAttention(causal, by_name)
    model = nn.Sequential(nn.Linear(H * D, H * D), own)
    x = torch.randn(B, N, H * D)
    expected = model(x)
    with regard.watch(model, SEE) as run:
        out = model(x)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
    assert list(run.layers) == ["1"]
    assert_layer_is(run.layers["1"], own.weights(model[0](x)))


def test_masks_of_the_caller_are_seen() -> None:
    model = OwnAttention(causal=False)
    x = torch.randn(B, N, H * D)
    mask = torch.rand(B, 1, N, N) > 0.4
    mask |= torch.eye(N, dtype=torch.bool)
    with regard.watch(model, SEE) as run:
        out = model(x, mask)
    torch.testing.assert_close(out, model(x, mask), atol=1e-5, rtol=1e-5)
    assert_layer_is(run.layers["OwnAttention"], model.weights(x, mask))


def test_a_token_that_nobody_may_see_is_padding_and_counts_nowhere() -> None:
    model = OwnAttention(causal=False)
    x = torch.randn(B, N, H * D)
    keys = torch.tensor([[True] * N, [False] * 2 + [True] * (N - 2)])
    with regard.watch(model, SEE) as run:
        model(x, keys[:, None, None, :])
    layer = run.layers["OwnAttention"]
    weights = model.weights(x, keys[:, None, None, :])
    assert_layer_is(layer, weights, queries=keys, keys=keys)


def mha(**options: Any) -> nn.MultiheadAttention:
    return nn.MultiheadAttention(H * D, H, **{"batch_first": True, **options}).eval()


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("average", [False, True])
@pytest.mark.parametrize(
    "options",
    [{}, {"bias": False}, {"add_bias_kv": True}, {"add_zero_attn": True}, {"kdim": 11, "vdim": 13}],
    ids=str,
)
def test_multihead_attention_is_seen_in_every_mode(
    need_weights: bool, average: bool, options: dict[str, Any]
) -> None:
    model = mha(**options)
    x = torch.randn(B, N, H * D)
    k = torch.randn(B, N + 4, 11) if "kdim" in options else x
    v = torch.randn(B, N + 4, 13) if "vdim" in options else x
    padding = torch.zeros(B, k.shape[1], dtype=torch.bool)
    padding[1, -2:] = True
    arguments = {"key_padding_mask": padding, "average_attn_weights": average}
    expected, expected_weights = model(x, k, v, need_weights=need_weights, **arguments)
    _, full = model(x, k, v, key_padding_mask=padding, average_attn_weights=False)
    with regard.watch(model, SEE) as run:
        out, weights = model(x, k, v, need_weights=need_weights, **arguments)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
    assert (weights is None) == (not need_weights)
    if need_weights:
        torch.testing.assert_close(weights, expected_weights, atol=1e-5, rtol=1e-4)
    (layer,) = run.layers.values()
    if not options or "bias" in options:
        assert not layer.cross
        assert_layer_is(layer, full, queries=~padding, keys=~padding)
    elif "kdim" in options:
        assert layer.cross
        assert_layer_is(layer, full, keys=~padding)
    else:  # one key more than tokens, behind them
        keys = F.pad(~padding, (0, 1), value=True)
        assert_layer_is(layer, full, queries=~padding, keys=keys, position=0)


def test_keys_that_are_added_move_no_query_also_without_padding() -> None:
    model = mha(add_bias_kv=True, add_zero_attn=True)
    x = torch.randn(B, N, H * D)
    mask = torch.ones(N, N).triu(1).bool()
    expected, full = model(x, x, x, attn_mask=mask, average_attn_weights=False)
    for given in (mask, torch.zeros(N, N).masked_fill(mask, -torch.inf)):
        with regard.watch(model, SEE) as run:
            out, _ = model(x, x, x, attn_mask=given)
        torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
        assert_layer_is(run.layers["MultiheadAttention"], full, position=0)


@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("floating", [False, True])
def test_causal_and_padding_masks_of_multihead_attention_go_together(
    batch_first: bool, floating: bool
) -> None:
    model = mha(batch_first=batch_first)
    x = torch.randn(B, N, H * D)
    given = x if batch_first else x.transpose(0, 1)
    padding = torch.zeros(B, N, dtype=torch.bool)
    padding[0, -3:] = True
    causal = nn.Transformer.generate_square_subsequent_mask(N)
    mask = causal if floating else causal < 0
    if floating:
        padding_mask = torch.zeros(B, N).masked_fill_(padding, -torch.inf)
    else:
        padding_mask = padding
    arguments = {"attn_mask": mask, "key_padding_mask": padding_mask, "is_causal": True}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # mixed masks: PyTorch means to drop them
        expected, full = model(given, given, given, average_attn_weights=False, **arguments)
        with regard.watch(model, SEE) as run:
            out, _ = model(given, given, given, need_weights=False, **arguments)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
    (layer,) = run.layers.values()
    assert_layer_is(layer, full, queries=~padding, keys=~padding)


def test_unbatched_multihead_attention_is_seen() -> None:
    model = mha()
    x = torch.randn(N, H * D)
    expected, full = model(x, x, x, average_attn_weights=False)
    with regard.watch(model, SEE) as run:
        out, weights = model(x, x, x, average_attn_weights=False)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(weights, full, atol=1e-5, rtol=1e-4)
    assert_layer_is(run.layers["MultiheadAttention"], full[None])


# ── PyTorch's own layers ──────────────────────────────────────────────────────────────────────


def encoder(layers: int = 2) -> nn.TransformerEncoder:
    layer = nn.TransformerEncoderLayer(12, 4, 24, batch_first=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nn.TransformerEncoder(layer, layers).eval()


def took_the_fast_path(model: nn.Module, *args: Any, **kwargs: Any) -> bool:
    from torch.utils._python_dispatch import TorchDispatchMode

    names: list[str] = []

    class Look(TorchDispatchMode):
        def __torch_dispatch__(
            self, func: Any, types: Any, args: Any = (), kwargs: Any = None
        ) -> Any:
            names.append(str(func))
            return func(*args, **(kwargs or {}))

    with Look(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model(*args, **kwargs)
    return any("_transformer_encoder_layer_fwd" in name for name in names)


@pytest.mark.parametrize("padded", [False, True])
def test_the_encoders_fast_path_is_seen_too(padded: bool) -> None:
    model = encoder()
    x = torch.randn(B, N, 12)
    padding = torch.zeros(B, N, dtype=torch.bool)
    padding[1, -2:] = padded
    given = {"src_key_padding_mask": padding} if padded else {}
    assert took_the_fast_path(model, x, **given)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # nested tensors are a prototype, says PyTorch
        expected = model(x, **given)
    with regard.watch(model, SEE) as run:
        out = model(x, **given)
    torch.testing.assert_close(out[~padding], expected[~padding], atol=1e-5, rtol=1e-4)
    assert list(run.layers) == ["layers.0.self_attn", "layers.1.self_attn"]
    first = model.get_submodule("layers.0.self_attn")
    full = first(x, x, x, key_padding_mask=padding, average_attn_weights=False)[1]
    assert_layer_is(run.layers["layers.0.self_attn"], full, queries=~padding, keys=~padding)


def test_a_decoder_layer_has_self_and_cross_attention() -> None:
    model = nn.TransformerDecoderLayer(12, 4, 24, batch_first=True).eval()
    x, memory = torch.randn(B, N, 12), torch.randn(B, 11, 12)
    causal = nn.Transformer.generate_square_subsequent_mask(N)
    expected = model(x, memory, tgt_mask=causal, tgt_is_causal=True)
    with regard.watch(model, SEE) as run:
        out = model(x, memory, tgt_mask=causal, tgt_is_causal=True)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-4)
    own, other = run.layers["self_attn"], run.layers["multihead_attn"]
    assert not own.cross
    assert own.options.causal
    assert other.cross
    assert other.shape == (B, 4, N, 11)
    full = model.self_attn(x, x, x, attn_mask=causal, average_attn_weights=False)[1]
    assert_layer_is(own, full)


def packing(norm: nn.Module | None = None, **options: Any) -> nn.TransformerEncoder:
    """An encoder that packs real tokens into a nested tensor, which wants heads in pairs."""
    torch.manual_seed(5)
    layer = nn.TransformerEncoderLayer(12, 4, 17, batch_first=True)
    return nn.TransformerEncoder(layer, 2, norm, **options).eval()


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("norm", [False, True])
@pytest.mark.parametrize("longest", [N, N - 2])
def test_an_encoder_that_leaves_padding_out_gives_the_same_there(norm: bool, longest: int) -> None:
    last = nn.LayerNorm(12) if norm else None
    if last is not None:
        nn.init.uniform_(last.bias)
    model = packing(last)
    x = torch.randn(B, N, 12)
    padding = torch.arange(N) >= torch.tensor([[longest], [3]])
    expected = model(x, src_key_padding_mask=padding)
    is_left_out = expected[padding] == (0.0 if last is None else last.bias)
    assert is_left_out.all()  # it went the fast path
    with regard.watch(model, SEE) as run:
        out = model(x, src_key_padding_mask=padding)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(out.mean(1), expected.mean(1), atol=1e-5, rtol=1e-4)
    assert [layer.keys is not None for layer in run.layers.values()] == [True, True]


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_an_encoder_that_does_not_check_its_padding_takes_the_first_tokens_for_real() -> None:
    model, x = packing(mask_check=False), torch.randn(B, N, 12)
    padding = torch.zeros(B, N, dtype=torch.bool)
    padding[1, 2] = True
    expected = model(x, src_key_padding_mask=padding)
    assert (expected[1, -1] == 0).all()
    with regard.watch(model):
        out = model(x, src_key_padding_mask=padding)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-4)


def test_padding_is_computed_where_pytorch_computes_it() -> None:
    model, x = packing(), torch.randn(B, N, 12)
    padding = torch.arange(N) >= torch.tensor([[N], [3]])
    shut = torch.ones(N, N, dtype=torch.bool).triu(1)
    for training, mask in ((True, None), (False, shut)):
        model.train(training)
        for module in model.modules():
            if isinstance(module, nn.Dropout):
                module.p = 0.0
            if isinstance(module, nn.MultiheadAttention):
                module.dropout = 0.0
        expected = model(x, mask, padding)
        assert not (expected[1, -1] == 0).any()
        with regard.watch(model):
            out = model(x, mask, padding)
        torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("reach", [1, 2])
def test_a_hint_that_the_fast_path_does_not_read_is_not_followed(reach: int) -> None:
    layer, x = packing().layers[0], torch.randn(B, N, 12)
    shut = torch.ones(N, N, dtype=torch.bool).triu(reach)
    for options in ({"src_mask": shut}, {}):
        expected = layer(x, **options, is_causal=True)
        with regard.watch(layer):
            out = layer(x, **options, is_causal=True)
        torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-4)


class Given(nn.Module):
    """A module that hands what it gets to SDPA."""

    def forward(self, q: Tensor, k: Tensor, v: Tensor, **more: Any) -> Tensor:
        return F.scaled_dot_product_attention(q, k, v, **more)


@pytest.mark.parametrize(
    ("q", "k", "v"),
    [
        ((1, 3, 5, 4), (2, 3, 7, 4), (2, 3, 7, 4)),
        ((2, 3, 5, 4), (1, 3, 7, 4), (2, 3, 7, 4)),
        ((2, 3, 5, 4), (2, 1, 7, 4), (1, 3, 7, 4)),
        ((2, 1, 5, 4), (1, 3, 7, 4), (1, 1, 7, 4)),
        ((2, 3, 5, 4), (7, 4), (3, 7, 4)),
        ((5, 4), (3, 7, 4), (1, 7, 4)),
        ((1, 5, 4), (3, 7, 4), (3, 7, 4)),
        ((2, 3, 1, 5, 4), (2, 1, 3, 7, 4), (1, 3, 3, 7, 4)),
    ],
)
@pytest.mark.parametrize("masked", [False, True])
def test_whatever_pytorch_broadcasts_is_seen(
    q: tuple[int, ...], k: tuple[int, ...], v: tuple[int, ...], masked: bool
) -> None:
    model, tensors = Given(), [torch.randn(shape) for shape in (q, k, v)]
    more = {"attn_mask": torch.rand(5, 7) > 0.3} if masked else {}
    expected = model(*tensors, **more)
    with regard.watch(model, SEE) as run:
        out = model(*tensors, **more)
    assert not run.unseen
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-4)
    (layer,) = run.layers.values()
    assert layer.lse.numel() == expected[..., 0].numel()


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
def test_what_only_pytorch_computes_is_named_with_what_it_got() -> None:
    x = torch.nested.nested_tensor([torch.randn(3, n, 4) for n in (5, 7)])
    model = Given()
    with pytest.warns(UserWarning, match="nested"), regard.watch(model) as run:
        model(x, x, x)
    (line,) = run.unseen
    assert line.startswith("Given: attention of q nested torch.float32, k nested")
    assert "scaled_dot_product_attention" not in line


def test_a_router_is_not_called_attention() -> None:
    class Router(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return x.softmax(-1)

    class AttentionDecoderLayer(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = Given()
            self.choice = Router()

        def forward(self, x: Tensor) -> Tensor:
            self.choice(x[0, 0])
            return self.attention(x, x, x)

    model = AttentionDecoderLayer()
    with regard.watch(model) as run:
        model(torch.randn(2, 3, 5, 4))
    assert list(run.layers) == ["attention"]
    assert not run.unseen


# ── in and out ────────────────────────────────────────────────────────────────────────────────


def test_nothing_is_left_behind_also_after_an_exception() -> None:
    model = encoder()
    before = F.scaled_dot_product_attention
    runs: list[regard.Run] = []
    for fail in (False, True):
        expectation = pytest.raises(KeyError, match="mine") if fail else nullcontext()
        with expectation, regard.watch(model) as run:
            runs.append(run)
            model(torch.randn(B, N, 12))
            assert not run.layers
            if fail:
                raise KeyError("mine")
        assert F.scaled_dot_product_attention is before
        assert torch._C._len_torch_function_stack() == 0
        for module in model.modules():
            assert not module._forward_hooks
            assert not module._forward_pre_hooks
        assert len(runs[-1].layers) == 2


def test_an_exception_inside_the_model_leaves_the_stack_in_order() -> None:
    class Failing(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            if x.sum() > 0:
                raise KeyError("inside")
            return F.scaled_dot_product_attention(x, x, x)

    model = nn.Sequential(Failing(), nn.Identity())
    with regard.watch(model, SEE) as run:
        with pytest.raises(KeyError):
            model(torch.ones(1, 1, 3, 2))
        model(-torch.ones(1, 1, 3, 2))
    assert list(run.layers) == ["0"]


def test_gradients_are_those_of_the_unwatched_model() -> None:
    model = encoder()
    model.train()
    for module in model.modules():
        if isinstance(module, nn.Dropout):
            module.p = 0.0
        if isinstance(module, nn.MultiheadAttention):
            module.dropout = 0.0
    x = torch.randn(B, N, 12)
    gradients: list[list[Tensor]] = []
    with torch.enable_grad():
        for watched in (False, True):
            model.zero_grad()
            if watched:
                with regard.watch(model, SEE) as run:
                    model(x).square().sum().backward()
                assert not _tensor(run.layers["layers.0.self_attn"].entropy).requires_grad
            else:
                model(x).square().sum().backward()
            gradients.append([_tensor(p.grad).clone() for p in model.parameters()])
    for a, b in zip(*gradients, strict=True):
        torch.testing.assert_close(a, b, atol=2e-5, rtol=1e-4)


def test_a_second_pass_is_a_second_record() -> None:
    model = OwnAttention()
    with regard.watch(model) as run:
        for _ in range(2):
            model(torch.randn(B, N, H * D))
    assert list(run.layers) == ["OwnAttention", "OwnAttention#2"]


def test_a_longer_text_with_the_same_beginning_is_a_record_of_its_own() -> None:
    model = OwnAttention()
    x = torch.randn(B, N, H * D)
    with regard.watch(model) as run:
        model(x[:, :5])
        model(x)
    assert [layer.shape[2:] for layer in run.layers.values()] == [(5, 5), (N, N)]


def test_the_causal_flag_of_sdpa_is_aligned_to_the_first_key() -> None:
    class Uneven(nn.Module):
        def forward(self, q: Tensor, k: Tensor) -> Tensor:
            return F.scaled_dot_product_attention(q, k, k, is_causal=True)

    model, q, k = Uneven(), torch.randn(B, H, 5, D), torch.randn(B, H, N, D)
    with regard.watch(model, SEE) as run:
        out = model(q, k)
    torch.testing.assert_close(out, model(q, k), atol=1e-5, rtol=1e-5)
    scores = (q @ k.mT).double() / D**0.5
    full = scores.masked_fill(~torch.ones(5, N).tril().bool(), -torch.inf).softmax(-1)
    assert_layer_is(run.layers["Uneven"], full, position=0)


def test_layers_can_be_chosen_by_name_pattern_and_number() -> None:
    model = encoder(3)
    for layers in (["layers.1.self_attn"], ["*.1.*"], [1]):
        with regard.watch(model, layers=layers) as run:
            model(torch.randn(B, N, 12))
        assert list(run.layers) == ["layers.1.self_attn"]


# ── what cannot be seen ───────────────────────────────────────────────────────────────────────


class Flat(nn.Module):
    """One head, without an axis for it."""

    def forward(self, x: Tensor) -> Tensor:
        return (x @ x.mT).softmax(-1) @ x


class PooledAttn(nn.Module):
    """One query for all: (B, N) scores."""

    def forward(self, x: Tensor) -> Tensor:
        return x + (x.sum(-1).softmax(-1)[..., None] * x).sum(1, keepdim=True)


class Router(nn.Module):
    """A softmax that is no attention."""

    def forward(self, x: Tensor) -> Tensor:
        return x * x.softmax(-1)


class ByOperator(nn.Module):
    """Attention by what is below PyTorch's functions."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name

    def forward(self, x: Tensor) -> Tensor:
        heads = x.unflatten(-1, (H, D)).transpose(1, 2)
        if self.name == "flex":
            from torch.nn.attention.flex_attention import flex_attention

            out = flex_attention(heads, heads, heads)
            assert isinstance(out, Tensor)
        elif self.name == "sdpa":
            out = torch.ops.aten.scaled_dot_product_attention(heads, heads, heads)
        else:
            flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
            out = flash(heads, heads, heads)[0]
        return out.transpose(1, 2).flatten(2)


@pytest.mark.filterwarnings("ignore:flex_attention called without")
@pytest.mark.parametrize("name", ["sdpa", "flash", "flex"])
def test_attention_by_an_operator_is_seen_or_named(name: str) -> None:
    model, x = nn.Sequential(ByOperator(name), OwnAttention()), torch.randn(B, N, H * D)
    expected = model(x)
    is_seen = name in ("sdpa", "flex")
    told = nullcontext() if is_seen else pytest.warns(UserWarning, match="0: computes attention")
    with told, regard.watch(model) as run:
        out = model(x)
    torch.testing.assert_close(out, expected, atol=1e-5, rtol=1e-4)
    assert list(run.layers) == (["0", "1"] if is_seen else ["1"])
    assert len(run.unseen) == (not is_seen)


def test_a_softmax_that_is_not_attention_of_queries_is_named_or_let_pass() -> None:
    model = nn.Sequential(Flat(), PooledAttn(), Router(), Flat(), OwnAttention())
    with pytest.warns(UserWarning, match="1: computes attention"), regard.watch(model) as run:
        model(torch.randn(B, N, H * D))
    assert list(run.layers) == ["0", "3", "4"]
    assert [line.partition(":")[0] for line in run.unseen] == ["1"]


class WindowAttention(nn.Module):
    """Each token for itself, in a window of its own: five axes, one key."""

    def forward(self, x: Tensor) -> Tensor:
        windows = x[:, None, :, None]
        return ((windows @ windows.mT).softmax(-1) @ windows)[:, 0, :, 0]


def test_attention_to_one_key_is_named_by_its_class() -> None:
    model = nn.Sequential(WindowAttention(), OwnAttention())
    with pytest.warns(UserWarning, match="0: computes attention"), regard.watch(model) as run:
        model(torch.randn(B, N, H * D))
    assert len(run.unseen) == 1
    assert list(run.layers) == ["1"]


def test_one_query_by_hand_is_named_by_its_class_alone() -> None:
    model = nn.Sequential(PooledAttn(), OwnAttention())
    with pytest.warns(UserWarning, match="0: computes attention"), regard.watch(model) as run:
        model(torch.randn(B, N, H * D))
    assert len(run.unseen) == 1


def test_an_empty_run_is_never_silent() -> None:
    model = nn.Linear(3, 3)
    with pytest.warns(UserWarning, match="no attention was computed"), regard.watch(model):
        model(torch.randn(2, 3))


# ── cutting ───────────────────────────────────────────────────────────────────────────────────


def test_a_cut_head_gives_nothing_and_nothing_else_changes() -> None:
    model = OwnAttention()
    x = torch.randn(B, N, H * D)
    with regard.watch(model, SEE, ablate={0: [1]}) as run:
        out = model(x)
    expected = model(x).view(B, N, H, D)
    expected[:, :, 1] = 0
    torch.testing.assert_close(out, expected.flatten(2), atol=1e-5, rtol=1e-5)
    assert_layer_is(run.layers["OwnAttention"], model.weights(x))


@pytest.mark.parametrize("query", [4, None])
@pytest.mark.parametrize("head", [1, None])
def test_a_blocked_link_is_masked_and_nothing_else_changes(
    query: int | None, head: int | None
) -> None:
    model = OwnAttention()
    x = torch.randn(B, N, H * D)
    see = regard.See(entropy=True, top=3, distance=True)
    with regard.watch(model, see, block=[("OwnAttention", head, query, 2)]) as run:
        out = model(x)
    mask = torch.ones(H, N, N).tril().bool()
    heads = slice(None) if head is None else head
    rows = slice(None) if query is None else query
    mask[heads, rows, 2] = False
    torch.testing.assert_close(out, model(x, mask[None]), atol=1e-5, rtol=1e-5)
    layer = run.layers["OwnAttention"]
    full = model.weights(x, mask[None])
    torch.testing.assert_close(
        _tensor(layer.entropy), -torch.special.xlogy(full, full).sum(-1), atol=1e-4, rtol=0
    )


def test_a_cut_that_names_no_layer_is_said() -> None:
    model = OwnAttention()
    layers: list[str | int] = [9, "qkv"]
    for layer in layers:
        with (
            pytest.warns(UserWarning, match=f"no layer {layer!r}"),
            regard.watch(model, ablate={layer: [0]}),
        ):
            model(torch.randn(B, N, H * D))
    with pytest.raises(ValueError, match="from 0 to 2"), regard.watch(model, ablate={0: [3]}):
        model(torch.randn(B, N, H * D))


# ── while training ────────────────────────────────────────────────────────────────────────────


def test_every_nth_step_is_reported() -> None:
    model = encoder()
    lines: list[dict[str, Any]] = []
    with regard.watch(model, every=3, report=lines.append) as run:
        for _ in range(7):
            model(torch.randn(B, N, 12))
    assert [line["step"] for line in lines] == [0, 0, 3, 3, 6, 6]
    assert all(len(line["entropy"]) == 4 for line in lines)
    assert not run.layers


def _run_often(model: nn.Module, times: int) -> None:
    for _ in range(times):
        model(torch.randn(B, N, H * D).mul(100))


def test_a_collapsed_head_is_warned_of_once(tmp_path: Any) -> None:
    model = OwnAttention(causal=False)
    model.qkv.weight.mul_(100)
    with (
        pytest.warns(UserWarning, match="has collapsed at step 0") as caught,
        regard.watch(model, every=1, report=tmp_path / "heads.jsonl"),
    ):
        _run_often(model, 3)
    messages = [str(each.message) for each in caught]
    assert len(messages) == len(set(messages)) <= H
    assert len((tmp_path / "heads.jsonl").read_text().splitlines()) == 3


def test_a_head_that_looks_at_few_keys_has_not_collapsed(
    recwarn: pytest.WarningsRecorder,
) -> None:
    class Two(nn.Module):
        """Each query looks at two keys alike, of which it has 64: a sixth of the entropy."""

        def forward(self, x: Tensor) -> Tensor:
            k = torch.eye(64)[None, None] * 100
            q = k + k.roll(1, 2)
            return F.scaled_dot_product_attention(q, k, k)

    model = Two()
    with regard.watch(model, every=1):
        model(torch.zeros(1))
    assert not [each for each in recwarn if "collapsed" in str(each.message)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"see": 3}, "see must be a regard.See"),
        ({"keep": ("q", "z")}, "keep must be some of"),
        ({"every": 0}, "every must be at least 1"),
        ({"block": [(1, 2)]}, "block must be links"),
    ],
)
def test_wrong_arguments_are_refused(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        regard.watch(nn.Linear(2, 2), **arguments)
    with pytest.raises(TypeError, match=r"must be a torch\.nn\.Module"):
        regard.watch("model")  # type: ignore[arg-type]
