"""One small model of a package: blind and watched, and the verdict."""

from __future__ import annotations

import copy
import warnings
from typing import Any

import torch
from torch import Tensor

import regard
from families import compare
from families.account import ENTROPY
from families.packages.heard import Heard
from families.packages.models import Trial
from families.verdict import Verdict

FLOAT32 = 2e-5  # relative: how far a watched output may lie from a blind one


def judge(trial: Trial) -> Verdict:
    model = trial.model.eval()
    with torch.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            plain = _run(model, trial)
        except Exception as error:  # noqa: BLE001 — as many kinds as there are packages
            why = f"does not run here: {type(error).__name__}: {' '.join(str(error).split())}"
            return Verdict(trial.name, "not built", why[:160])
        heard = _heard(model, trial)
        try:
            with regard.watch(model, regard.See(entropy=True)) as run:
                watched = _run(model, trial)
        except Exception as error:  # noqa: BLE001 — a refusal, or a fault
            text = " ".join(str(error).split())[:300]
            is_ours = text.startswith(("watch()", "attention()"))
            return Verdict(trial.name, "refused" if is_ours else "different", text)
        again = _run(model, trial)
        apart, where = compare.distance(watched, plain, trial.real)
        problems = [f"{where} off by {apart:.2g}"] if apart > FLOAT32 else []
        if not compare.is_same(again, plain):
            problems.append("blind again is not bit-equal")
        problems += _account(run, heard, trial.real)
        half = _half(trial)
        problems += half or []
    kind, why = "exact", "1 record" if len(run.layers) == 1 else f"{len(run.layers)} records"
    if problems:
        kind, why = "different", "; ".join(problems)
    elif run.unseen:
        kind, why = "part", run.unseen[0] if run.layers else f"nothing: {run.unseen[0]}"
    elif not run.layers:
        kind, why = "none", "computes no attention"
    if half is None:
        why += " (in float32 alone: it does not run in bfloat16)"
    return Verdict(trial.name, kind, why, type(model).__name__, unseen=run.unseen)


def _run(model: Any, trial: Trial) -> Any:
    torch.manual_seed(3)
    args, kwargs = copy.deepcopy((trial.args, trial.kwargs))
    return model(*args, **kwargs)


def _heard(model: Any, trial: Trial) -> Heard:
    """With nothing compiled, so that there is something to hear."""
    with torch.compiler.set_stance("force_eager"), Heard() as heard:
        _run(model, trial)
    return heard


def _account(run: regard.Run, heard: Heard, real: Tensor | None) -> list[str]:
    """Is every attention a record with its entropies, or said to be unseen, and every record one of
    these?"""
    attentions, softmaxes, problems = list(heard.attentions), list(heard.softmaxes), list[str]()
    for name, layer in run.layers.items():
        assert layer.entropy is not None
        found = layer.entropy.double()
        for known in (attentions, softmaxes):
            match = next((n for n, each in enumerate(known) if _is_of(found, each, real)), None)
            if match is not None:
                del known[match]
                break
        else:
            problems.append(f"{name}: nothing was computed with such entropies")
    if len(attentions) > len(run.unseen):
        problems.append(f"silently blind: {len(attentions)} attentions are no record")
    return problems


def _is_of(found: Tensor, expected: Tensor, real: Tensor | None) -> bool:
    if found.numel() != expected.numel():
        return False
    apart = (found - expected.reshape(found.shape)).abs()
    if real is not None and (apart.shape[0], apart.shape[2]) == tuple(real.shape):
        apart = torch.where(real[:, None], apart, 0.0)
    return bool((apart <= ENTROPY).all())


def _half(trial: Trial) -> list[str] | None:
    """What `check` says in bfloat16; None where the model itself does not run in that."""
    model = copy.deepcopy(trial.model).to(torch.bfloat16)
    half = Trial(trial.name, model, _rounded(trial.args), _rounded(trial.kwargs))
    try:
        _run(model, half)
    except Exception:  # noqa: BLE001 — as many kinds as there are packages
        return None
    try:
        with regard.watch(model, check=True):
            _run(model, half)
    except Exception as error:  # noqa: BLE001 — a fault
        return [f"bfloat16: {' '.join(str(error).split())[:200]}"]
    return []


def _rounded(x: Any) -> Any:
    if isinstance(x, Tensor):
        return x.to(torch.bfloat16) if x.is_floating_point() else x
    if isinstance(x, dict):
        return {name: _rounded(value) for name, value in x.items()}
    return tuple(map(_rounded, x)) if isinstance(x, tuple) else x
