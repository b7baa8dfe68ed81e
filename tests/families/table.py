"""The table of families: docs/models.md, written by `make families`."""

from __future__ import annotations

from collections.abc import Iterable
from importlib.metadata import version

from families.verdict import KINDS, Verdict

_TOP = """\
# Families of models, each tried

Written by `make families`; do not edit. A small random model of every family that transformers has
is run blind and watched: in sdpa and eager, float32 and bfloat16, without padding, padded on the
right and on the left, and by `generate`, where it can. Compared are its outputs at real positions
(float32: 2e-5 relative, or no more than twice as far from float64 as blind; bfloat16: twice what
blind bfloat16 differs from float32), the entropies of
every attention with those of the weights that eager computes, and everything that could be left
behind; a second blind run has the bits of the first.
"""


def summary(verdicts: Iterable[Verdict]) -> list[str]:
    """How many there are of each kind."""
    kinds = [verdict.kind for verdict in verdicts]
    families = len(kinds) - kinds.count("no model")
    judged = families - kinds.count("not built")
    good = sum(kinds.count(kind) for kind in ("exact", "part", "none"))
    return [
        *(f"{kinds.count(kind):4} {kind}" for kind in KINDS),
        f"{judged} of {families} families are judged ({judged / max(families, 1):.1%}), of which "
        f"{good / max(judged, 1):.1%} are exact, or every layer of them is accounted for.",
    ]


def page(verdicts: Iterable[Verdict]) -> str:
    ordered = sorted(verdicts, key=lambda verdict: verdict.family)
    kinds = [verdict.kind for verdict in ordered]
    *_, rate = summary(ordered)
    lines = [_TOP]
    lines += [
        f"transformers {version('transformers')}, torch {version('torch').split('+')[0]}. {rate}\n"
    ]
    lines += ["| verdict | families | what it says |", "|---|--:|---|"]
    lines += [f"| {kind} | {kinds.count(kind)} | {says} |" for kind, says in KINDS.items()]
    lines += ["", "| family | tried as | verdict | what was run, or why not |", "|---|---|---|---|"]
    lines += [_row(verdict) for verdict in ordered if verdict.is_judged]
    lines += ["", "## Not built", "", "| family | why |", "|---|---|"]
    lines += [
        f"| {verdict.family} | {_short(verdict.why)} |"
        for verdict in ordered
        if verdict.kind == "not built"
    ]
    parts = ", ".join(verdict.family for verdict in ordered if verdict.kind == "no model")
    return "\n".join([*lines, "", "## Parts of other models", "", parts, ""])


def _row(verdict: Verdict) -> str:
    what = verdict.why if verdict.kind in ("part", "refused", "different") else _ways(verdict)
    return f"| {verdict.family} | {verdict.model} | {verdict.kind} | {_short(what)} |"


def _ways(verdict: Verdict) -> str:
    """In few words: in which attentions, types and paddings it ran."""
    words = dict.fromkeys(word for way in verdict.ways for word in way.split(", "))
    short = {"none padding": "", "right padding": "right", "left padding": "left"}
    return ", ".join(x for word in words if (x := short.get(word, word)))


def _short(text: str) -> str:
    text = text.replace("|", "\\|").replace("\n", " ")
    return text if len(text) <= 160 else text[:159] + "…"
