"""`watch(check=True)`: every call is run unwatched, too, and what differs is an error."""

from __future__ import annotations

import random
import threading
from dataclasses import dataclass
from typing import Any, NamedTuple

import pytest
import torch
import torch.nn.functional as F
from helpers.watch_models import build
from torch import Tensor, nn
from torch.overrides import _get_current_function_mode_stack
from torch.utils.checkpoint import checkpoint

import regard


def is_watched() -> bool:
    return bool(_get_current_function_mode_stack())


def attend(x: Tensor, dropout: float = 0.0) -> Tensor:
    """Attention of x (B, N, 6) with itself in 3 heads."""
    q = x.unflatten(2, (3, -1)).transpose(1, 2)
    out = F.scaled_dot_product_attention(q, q, q, dropout_p=dropout)
    return out.transpose(1, 2).flatten(2)


class Model(nn.Module):
    """A model that computes this function of itself and its arguments."""

    def __init__(self, function: Any) -> None:
        super().__init__()
        self.function = function

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.function(self, *args, **kwargs)


def other_when_watched(off: float = 1.0) -> Model:
    """A model that gives something else at one place if somebody watches it."""

    def forward(self: nn.Module, x: Tensor) -> Tensor:
        out = attend(x)
        if is_watched():
            out[1, 2, 3] += off
        return out

    return Model(forward)


def vectors(dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(2, 5, 6, generator=torch.Generator().manual_seed(3)).to(dtype)


def tokens(*shape: int) -> Tensor:
    return torch.randint(2, 59, shape, generator=torch.Generator().manual_seed(5))


def checked(model: nn.Module, *args: Any, **kwargs: Any) -> tuple[Any, regard.Run]:
    with regard.watch(model, check=True) as run:
        out = model(*args, **kwargs)
    return out, run


# ── what differs ──────────────────────────────────────────────────────────────────────────────


def test_a_difference_is_an_error_that_says_where_and_what_was_seen_is_kept() -> None:
    model = other_when_watched()
    with pytest.raises(RuntimeError) as error, regard.watch(model, check=True) as run:
        model(vectors())
    assert "differs by 1 at [1, 2, 3]" in str(error.value)
    assert "within 2.0e-05 of its size in float32" in str(error.value)
    assert list(run.layers) == ["Model"]
    assert any("differs by 1" in note for note in run.notes)


def test_what_does_not_differ_is_said_to_be_compared() -> None:
    out, run = checked(other_when_watched(0.0), vectors())
    torch.testing.assert_close(out, attend(vectors()), atol=1e-6, rtol=1e-5)
    assert any(note.startswith("check: 1 call was run unwatched") for note in run.notes)
    assert run.layers["Model"].entropy is not None


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float64])
def test_other_types_are_compared_by_what_they_can_hold(dtype: torch.dtype) -> None:
    checked(other_when_watched(0.0), vectors(dtype))
    with pytest.raises(RuntimeError, match="differs by"):
        checked(other_when_watched(0.5 if dtype != torch.float64 else 1e-9), vectors(dtype))


def test_a_model_that_makes_much_of_rounding_is_judged_by_a_wider_type() -> None:
    model = Model(lambda self, x: (attend(x) * 3e4).sin())
    x = torch.randn(2, 53, 6)
    with torch.no_grad():
        blind = model(x)
        with regard.watch(model):
            watched = model(x)
    assert float((blind - watched).abs().max() / blind.abs().max()) > 2e-5
    checked(model, x)


@dataclass
class Output:
    first: Tensor
    more: dict[str, Any]


class Pair(NamedTuple):
    first: Tensor
    more: dict[str, Any]


@pytest.mark.parametrize(
    "kind", [Output, Pair, lambda x, more: (x, more), lambda x, more: [x, more]]
)
def test_tensors_are_found_in_whatever_a_model_returns(kind: Any) -> None:
    def forward(self: nn.Module, x: Tensor, off: float) -> Any:
        out = attend(x)
        return kind(out, {"nothing": None, "deep": [None, out + (off if is_watched() else 0.0)]})

    checked(Model(forward), vectors(), 0.0)
    with pytest.raises(RuntimeError, match=r"more\.deep\.1 must|1\.deep\.1 must"):
        checked(Model(forward), vectors(), 0.01)


def test_that_nothing_could_be_compared_is_said() -> None:
    def forward(self: nn.Module, x: Tensor) -> None:
        attend(x)

    out, run = checked(Model(forward), vectors())
    assert out is None
    assert any("nothing was compared" in note for note in run.notes)


def test_an_output_of_another_shape_or_name_is_a_difference() -> None:
    model = Model(lambda self, x: attend(x)[: 1 if is_watched() else 2])
    with pytest.raises(RuntimeError, match=r"is \(1, 5, 6\) watched, and \(2, 5, 6\) unwatched"):
        checked(model, vectors())
    model = Model(lambda self, x: {"a": attend(x)} | ({"b": x} if is_watched() else {}))
    with pytest.raises(RuntimeError, match=r"b must be .* is there watched only"):
        checked(model, vectors())


def test_a_loss_is_compared() -> None:
    model = Model(lambda self, x, off: attend(x).square().mean() + (off if is_watched() else 0.0))
    checked(model, vectors(), 0.0)
    with pytest.raises(RuntimeError, match=r"the output must .* differs by 0\.5 at \[\]"):
        checked(model, vectors(), 0.5)


def test_a_number_that_is_not_finite_is_a_difference() -> None:
    with pytest.raises(RuntimeError, match=r"at \[1, 2, 3\]: nan watched"):
        checked(other_when_watched(torch.nan), vectors())


@pytest.mark.parametrize(("row", "differs"), [(1, False), (4, True)])
def test_only_real_tokens_are_compared(row: int, differs: bool) -> None:
    llama = build("llama")

    def forward(self: Any, ids: Tensor, mask: Tensor) -> Tensor:
        out = self.llama(ids, attention_mask=mask).last_hidden_state
        if is_watched():
            out[0, row] += 1.0
        return out

    model = Model(forward)
    model.llama = llama.model
    mask = torch.ones(2, 7, dtype=torch.long)
    mask[0, :3] = 0
    if differs:
        with pytest.raises(RuntimeError, match=r"at \[0, 4, "):
            checked(model, tokens(2, 7), mask)
    else:
        checked(model, tokens(2, 7), mask)


# ── what a call may change ────────────────────────────────────────────────────────────────────


def test_nothing_is_in_place_while_a_call_runs_blind() -> None:
    from transformers import AttentionInterface, AttentionMaskInterface

    found: list[Any] = []

    def state() -> Any:
        masks = dict(AttentionMaskInterface._global_mapping)
        return nn.Module.__call__, AttentionInterface.get_interface, masks, is_watched()

    model = build("llama")
    model.model.register_forward_hook(lambda *_: found.append(state()))
    before = state()
    checked(model, tokens(2, 5))
    blind, watched = found
    assert blind == before == state()
    assert all(a != b for a, b in zip(watched, before, strict=True))


def test_generation_is_checked_step_by_step_with_its_cache() -> None:
    model = build("llama").eval()
    settings = {"max_new_tokens": 4, "min_new_tokens": 4, "do_sample": True}
    torch.manual_seed(7)
    expected = model.generate(tokens(2, 5), **settings)
    torch.manual_seed(7)
    with regard.watch(model, check=True) as run:
        found = model.generate(tokens(2, 5), **settings)
    assert torch.equal(found, expected)
    assert any(note.startswith("check: 4 calls were run unwatched") for note in run.notes)
    assert {layer.lse.shape[2] for layer in run.layers.values()} == {8}


def test_buffers_counters_and_inputs_end_as_after_one_call() -> None:
    class Changing(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norm = nn.BatchNorm1d(6)
            self.register_buffer("count", torch.zeros(()))
            self.calls = 0
            self.seen: list[int] = []
            self.draw = torch.Generator().manual_seed(3)
            self.last: Tensor | None = None

        def forward(self, x: Tensor, cache: dict[str, Any]) -> Tensor:
            self.count += 1
            self.calls += 1
            self.seen.append(len(x))
            out = attend(self.norm(x.mT).mT) * self.count * len(cache["old"])
            out = out + torch.rand(1, generator=self.draw) + random.random()
            cache["old"].append(out)
            cache["place"][:, 1] += 1
            cache["memory"] += 1
            self.last = out
            return out + cache["memory"] + cache["place"].sum()

    def ran(watched: bool) -> tuple[Any, ...]:
        torch.manual_seed(11)
        random.seed(11)
        memory = torch.zeros(3, 4)
        cache: dict[str, Any] = {"old": [0], "memory": memory[0, 0], "place": memory[:, :2]}
        model = Changing().train()
        outs = []
        for _ in range(3):
            out = checked(model, vectors(), cache)[0] if watched else model(vectors(), cache)
            outs.append(out.detach())
            assert model.last is cache["old"][-1]
        norm = model.norm
        state = norm.running_mean, norm.running_var, norm.num_batches_tracked, model.count
        return (*outs, *state, memory, model.calls, model.seen, len(cache["old"]), torch.rand(2))

    for found, expected in zip(ran(True), ran(False), strict=True):
        if isinstance(expected, Tensor):
            torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
        else:
            assert found == expected


@pytest.mark.parametrize("dropout", [0.0, 0.25])
def test_dropout_draws_the_same(dropout: float) -> None:
    def forward(self: nn.Module, x: Tensor) -> Tensor:
        return F.dropout(attend(F.dropout(x, 0.5), dropout), 0.5)

    model = Model(forward)
    torch.manual_seed(5)
    expected = model(vectors())
    torch.manual_seed(5)
    torch.testing.assert_close(checked(model, vectors())[0], expected)


def test_dropout_of_our_own_is_refused() -> None:
    def forward(self: nn.Module, x: Tensor) -> Tensor:
        q = x.unflatten(2, (3, -1)).transpose(1, 2)
        out = regard.attention(q, q, q, dropout=0.25)
        return out.transpose(1, 2).flatten(2)

    with pytest.raises(RuntimeError, match=r"without dropout; Model drops 0\.25"):
        checked(Model(forward), vectors())


def test_gradients_flow_from_the_watched_run_alone() -> None:
    class Trained(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.project, self.attend = nn.Linear(6, 6), other_when_watched(0.0)

        def forward(self, x: Tensor) -> Tensor:
            x += 1
            self.project(x).square().sum().backward(retain_graph=True)  # some do
            y = checkpoint(lambda x: self.attend(self.project(x)), x, use_reentrant=False)
            assert isinstance(y, Tensor)
            return y

    def gradients(watched: bool) -> list[Tensor]:
        torch.manual_seed(5)
        model, x = Trained(), vectors().requires_grad_()
        into = x * 2  # is no leaf
        with regard.watch(model, check=watched):
            model(into).sum().backward()
        assert x.grad is not None
        return [x.grad, *(p.grad for p in model.parameters() if p.grad is not None)]

    for found, expected in zip(gradients(True), gradients(False), strict=True):
        torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)


def test_an_error_of_the_model_comes_out_as_it_is_and_changes_nothing() -> None:
    class Wrong(ValueError):
        pass

    def forward(self: Any, x: Tensor) -> Tensor:
        self.calls += 1
        x += 1
        raise Wrong("no")

    model, x = Model(forward), vectors()
    model.calls = 0  # pyright: ignore[reportArgumentType]
    with pytest.raises(Wrong, match=r"^no$"), regard.watch(model, check=True):
        model(x)
    assert torch.equal(x, vectors())
    assert not is_watched()
    assert model.calls == 0


def test_a_hook_that_takes_itself_away_runs_in_both() -> None:
    model, ran = other_when_watched(0.0), list[bool]()

    def once(*_: Any) -> None:
        ran.append(is_watched())
        handle.remove()

    handle = model.register_forward_hook(once)
    checked(model, vectors())
    model(vectors())
    assert ran == [False, True]


def test_inference_mode_and_autocast_are_checked() -> None:
    model = build("bert").eval()
    with torch.inference_mode():
        checked(model, tokens(2, 5))
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        checked(model, tokens(2, 5))
    checked(build("bert").to(torch.bfloat16).eval(), tokens(2, 5))


def test_what_writes_into_parameters_is_refused() -> None:
    def forward(self: Any, x: Tensor) -> Tensor:
        with torch.no_grad():
            self.weight += 1
        return attend(x) * self.weight

    model = Model(forward)
    model.weight = nn.Parameter(torch.ones(()))
    with pytest.raises(RuntimeError, match="does not write into its parameters; weight of Model"):
        checked(model, vectors())


def test_a_call_of_another_thread_is_watched_and_said_not_to_be_compared() -> None:
    class Threads(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = other_when_watched(0.0)

        def forward(self, x: Tensor) -> Tensor:
            found: list[Tensor] = []
            thread = threading.Thread(target=lambda: found.append(self.inner(x)))
            thread.start()
            thread.join()
            return found[0]

    _, run = checked(Threads(), vectors())
    assert list(run.layers) == ["inner"]
    assert any("of other threads" in note for note in run.notes)


def test_what_is_to_change_the_model_cannot_be_checked() -> None:
    with pytest.raises(ValueError, match="check must be False with ablate or block"):
        regard.watch(other_when_watched(), check=True, ablate={0: [1]})
    with pytest.raises(TypeError, match="check must be True or False; got 'yes'"):
        regard.watch(other_when_watched(), check="yes")  # pyright: ignore[reportArgumentType]
