"""One family: blind and watched, in every way that it can run, and the verdict."""

from __future__ import annotations

import copy
import warnings
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch import Tensor

import regard
from families import compare, state, truth
from families.account import Found, account
from families.build import Built, NoModel, NotBuilt, build, told
from families.inputs import in_type, varied
from families.verdict import Verdict

FLOAT32 = 2e-5  # relative: how far a watched output may lie from a blind one
FLOAT64 = 1e-9  # the same in float64
HALF_STEP = 2.0**-8  # of bfloat16, in which an output is rounded
NEW = 5  # tokens that are generated
DRAWS = 8  # texts that are tried in bfloat16, if it takes so many


def judge(family: str) -> Verdict:
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            built = build(family)
        except NoModel as error:
            return Verdict(family, "no model", str(error))
        except NotBuilt as error:
            return Verdict(family, "not built", str(error))
        found = Found()
        for padding in _paddings(built):
            _judge_ways(built, padding, found)
        _judge_generation(built, found)
    if not found.ways and not found.refused and not found.different:
        return Verdict(family, "not built", f"did not run: {'; '.join(found.notes)}")
    return _verdict(family, built, found)


def _verdict(family: str, built: Built, found: Found) -> Verdict:
    kind, why = "exact", ""
    if found.different:
        kind, why = "different", "; ".join(dict.fromkeys(found.different))
    elif found.missing:
        kind, why = "different", "silently blind: " + "; ".join(dict.fromkeys(found.missing))
    elif found.refused:
        kind, why = "refused", found.refused[0]
    elif not found.records and all("no weights to see" in each for each in found.unseen):
        kind, why = "none", found.unseen[0] if found.unseen else "computes no attention"
    elif found.unseen:
        kind, why = "part", found.unseen[0]
        if not found.records:
            why = f"nothing: {why}"
    return Verdict(
        family,
        kind,
        why[:600],
        type(built.model).__name__,
        built.shrink,
        list(built.inputs.given),
        found.ways,
        {name: float(f"{value:.3g}") for name, value in found.figures.items()},
        list(dict.fromkeys(found.unseen)),
        list(dict.fromkeys(found.notes)),
    )


# ── the ways ──────────────────────────────────────────────────────────────────────────────────


def _paddings(built: Built) -> list[str]:
    return ["none"] if built.inputs.mask is None else ["none", "right", "left"]


def _padded(built: Built, padding: str) -> tuple[dict[str, Any], Tensor | None]:
    """Inputs whose first sequence is padded, and which of their tokens are real."""
    given, name = dict(built.inputs.given), built.inputs.mask
    if padding == "none" or name is None:
        return given, None
    mask: Tensor = given[name].clone()
    count = max(mask.shape[1] // 4, 1)
    mask[0, slice(-count, None) if padding == "right" else slice(0, count)] = 0
    return {**given, name: mask}, mask.bool()


@contextmanager
def _implementation(model: Any, name: str) -> Generator[bool]:
    """The model with this attention; False if it does not have it."""
    before = model.config._attn_implementation
    try:
        model.set_attn_implementation(name)
        took = model.config._attn_implementation == name
    except Exception:  # noqa: BLE001 — as many kinds as there are families
        took = before == name
    try:
        yield took
    finally:
        if took and before != name:
            with suppress(ValueError):  # parts of some models have no sdpa, and are refused now
                model.set_attn_implementation(before)


def _run(model: Any, given: dict[str, Any], **more: Any) -> Any:
    torch.manual_seed(3)
    return model(**given, **more)


def _judge_ways(built: Built, padding: str, found: Found) -> None:
    model = built.model
    given, real = _padded(built, padding)
    if padding != "none":
        try:
            _run(model, given)
        except Exception as error:  # noqa: BLE001 — the model itself takes no padding here
            found.notes.append(f"{padding} padding: {told(error)}")
            return
    half = copy.deepcopy(model).to(torch.bfloat16)
    for name in ("sdpa", "eager"):
        way = f"{name}, {padding} padding"
        with _implementation(model, name) as has_it, _implementation(half, name):
            if has_it and _compare(model, given, real, way, found):
                _compare_half(model, half, given, real, f"{way}, bfloat16", found)


def _truth(model: Any, given: dict[str, Any]) -> truth.Truth:
    with truth.heard(model) as known:
        _run(model, given)
    if model.config._attn_implementation == "eager":
        try:
            known.reported = truth.reported(_run(model, given, output_attentions=True))
        except Exception:  # noqa: BLE001 — it reports none
            known.reported = []
    return known


def _compare(
    model: Any,
    given: dict[str, Any],
    real: Tensor | None,
    way: str,
    found: Found,
) -> bool:
    """Blind, watched, blind in float32. False if they cannot be compared."""
    known = _truth(model, given)
    plain = _run(model, given)
    if compare.has_nan(plain):
        found.notes.append(f"{way}: blind there are NaNs in the output")
        return False
    before = state.state_of(model)
    own = state.changed(before, _after(model, given))
    before = state.state_of(model)
    try:
        with regard.watch(model, regard.See(entropy=True)) as run:
            watched = _run(model, given)
    except Exception as error:  # noqa: BLE001 — a refusal, or a fault
        _raised(error, way, found)
        return False
    after = state.state_of(model)
    again = _run(model, given)
    found.ways.append(way)
    left = state.changed(before, after) - own
    if left:
        found.different.append(f"{way}: left behind {sorted(left)[:3]}")
    if not compare.is_same(again, plain):
        found.different.append(f"{way}: blind again is not bit-equal")
    apart, where = compare.distance(watched, plain, real)
    found.figure("float32", apart)
    if apart > FLOAT32:
        if _is_as_near(model, given, real, plain, watched):
            found.notes.append(f"{way}: {where} off by {apart:.2g}, no farther from float64")
        else:
            found.different.append(f"{way}: {where} off by {apart:.2g}")
    account(model, run, known, real, way, found)
    return True


def _is_as_near(
    model: Any, given: dict[str, Any], real: Tensor | None, plain: Any, watched: Any
) -> bool:
    """Is the model one that makes much of rounding, and watched at most twice as far from float64
    as blind, which is all that is promised of attention?"""
    double = copy.deepcopy(model).to(torch.float64)
    try:
        exact = _run(double, in_type(given, torch.float64))
    except Exception:  # noqa: BLE001 — the model itself cannot, in this type
        return False
    own = compare.distance(plain, exact, real)[0]
    return compare.distance(watched, exact, real)[0] <= 2 * own


def _after(model: Any, given: dict[str, Any]) -> dict[str, Any]:
    _run(model, given)
    return state.state_of(model)


def _raised(error: Exception, way: str, found: Found) -> None:
    text = " ".join(str(error).split())[:300]
    if text.startswith(("watch()", "attention()")):
        found.refused.append(f"{way}: {text}")
    else:
        found.different.append(f"{way}: watched raises {type(error).__name__}: {text}")


def _compare_half(
    model: Any,
    half: Any,
    given: dict[str, Any],
    real: Tensor | None,
    way: str,
    found: Found,
) -> None:
    """Watched in bfloat16 beside blind: neither lies farther from float32 than it must.

    Where a router chooses experts, rounding may choose others, blind or watched: then the errors on
    several texts count together.
    """
    ours, blind, where = 0.0, 0.0, ""
    for draw in range(DRAWS):
        inputs = given if not draw else varied(given, draw)
        try:
            plain, rounded = _run(model, inputs), _run(half, in_type(inputs, torch.bfloat16))
        except Exception as error:  # noqa: BLE001 — the model itself cannot, in this type
            found.notes.append(f"{way}: {told(error)}")
            return
        try:
            with regard.watch(half, regard.See(entropy=True)):
                watched = _run(half, in_type(inputs, torch.bfloat16))
        except Exception as error:  # noqa: BLE001 — a refusal, or a fault
            _raised(error, way, found)
            return
        if not compare.is_same(_run(half, in_type(inputs, torch.bfloat16)), rounded):
            found.different.append(f"{way}: blind again is not bit-equal")
        apart, where = compare.distance(watched, plain, real, compare.mean)
        ours += apart
        blind += max(compare.distance(rounded, plain, real, compare.mean)[0], HALF_STEP)
        if ours <= 2 * blind:
            break
    else:
        found.different.append(f"{way}: {where} off by {ours:.2g}, blind by {blind:.2g}")
    found.ways.append(way)
    found.figure("bfloat16", ours / blind)


# ── generation ────────────────────────────────────────────────────────────────────────────────


def _judge_generation(built: Built, found: Found) -> None:
    model = built.model
    if not hasattr(model, "generate") or not model.can_generate():
        return
    padding = _paddings(built)[-1]
    given, _ = _padded(built, padding)
    given.pop("decoder_input_ids", None)
    settings: dict[str, Any] = {
        "max_new_tokens": NEW,
        "min_new_tokens": NEW,
        "do_sample": False,
        "num_beams": 1,
        "return_dict_in_generate": True,
        "output_logits": True,
    }
    way = f"generate, {padding} padding"

    def generated(model: Any = model, dtype: torch.dtype = torch.float32) -> Any:
        torch.manual_seed(3)
        out = model.generate(**in_type(given, dtype), **settings)
        return {"sequences": out.sequences, "logits": out.logits}

    try:
        plain = generated()
    except Exception as error:  # noqa: BLE001 — the model itself cannot
        found.notes.append(f"{way}: {told(error)}")
        return
    try:
        with regard.watch(model, regard.See(entropy=True)):
            watched = generated()
    except Exception as error:  # noqa: BLE001 — a refusal, or a fault
        _raised(error, way, found)
        return
    found.ways.append(way)
    apart, where = compare.distance(watched, plain, None)
    if apart > FLOAT32 and _is_rounding(model, generated):
        found.notes.append(f"{way}: rounding decides on tokens, blind too")
        return
    found.figure("generate", apart)
    if apart > FLOAT32:
        found.different.append(f"{way}: {where} off by {apart:.2g}")
    if not compare.is_same(generated(), plain):
        found.different.append(f"{way}: blind again is not bit-equal")


def _is_rounding(model: Any, generated: Callable[..., Any]) -> bool:
    """Does rounding decide which tokens are drawn? Then float64 draws the same, blind and watched;
    or, where it cannot run, blind attentions disagree on them, too."""
    double = copy.deepcopy(model).to(torch.float64)
    with suppress(Exception):  # a model without experts
        double.set_experts_implementation("eager")  # the only one that takes float64
    try:
        plain = generated(double, torch.float64)
    except Exception:  # noqa: BLE001 — the model itself cannot, in this type
        return _differs_blind(model, generated)
    with regard.watch(double, regard.See(entropy=True)):
        watched = generated(double, torch.float64)
    return compare.distance(watched, plain, None)[0] <= FLOAT64


def _differs_blind(model: Any, generated: Callable[..., Any]) -> bool:
    """Do no two attentions agree on the tokens?"""
    found: list[Any] = []
    for name in ("sdpa", "eager"):
        # Some cannot generate with one of them, whoever looks.
        with _implementation(model, name) as has_it, suppress(Exception):
            found += [generated()] if has_it else []
    return len(found) == 2 and compare.distance(found[0], found[1], None)[0] > FLOAT32
