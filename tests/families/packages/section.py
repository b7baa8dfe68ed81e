"""The section of docs/models.md that `make packages` writes."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.metadata import version

from families.verdict import Verdict

TITLE = "## Packages by name"
_TOP = f"""\
{TITLE}

Written by `make packages`; do not edit. Small random models of each are run blind and watched as
they are, in float32, and in bfloat16 with `check=True`. The entropies are compared with those of
the weights: SDPA's by its definition in float64, those that `nn.MultiheadAttention` returns, those
of the package's own softmax.
"""


def section(found: Mapping[str, list[Verdict]]) -> str:
    lines = [_TOP, "| package | model | verdict | what was seen, or why not |", "|---|---|---|---|"]
    for package, verdicts in found.items():
        name = f"{package} {version(package.split(' ')[0]).split('+')[0]}"
        for verdict in verdicts:
            kind = "not run" if verdict.kind == "not built" else verdict.kind
            why = verdict.why.replace("|", "\\|")
            lines.append(f"| {name} | {verdict.family} | {kind} | {why} |")
    return "\n".join(lines) + "\n"


def kept(text: str) -> str:
    """The section that a page has, if it has one."""
    _, title, rest = text.partition(TITLE)
    return (title + rest.partition("\n## ")[0]).rstrip() + "\n" if title else ""


def replaced(text: str, new: str) -> str:
    """The page with this section in place of the one that it has, or at its end."""
    old = kept(text)
    if old:
        return text.replace(old.rstrip(), new.rstrip())
    return f"{text.rstrip()}\n\n{new}".lstrip()
