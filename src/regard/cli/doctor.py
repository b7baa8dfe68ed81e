"""`regard doctor`: what works here, and why not."""

from __future__ import annotations

import platform
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import typer

from regard.cli.common import make_console, print_out

if TYPE_CHECKING:
    from rich.text import Text

_LIMIT = 1e-5  # of float32, for inputs of unit variance
_NAMES = 16  # columns

# What the kernel is written for, and not yet built for.
_PLANNED = {"avx512": "AVX-512", "neon": "NEON"}

Verdict = Literal["ok", "wrong", "note"]


@dataclass(frozen=True)
class Finding:
    """One line: what was looked at, what was found, and whether it is in order."""

    name: str
    found: str
    verdict: Verdict = "note"


def add_to(app: typer.Typer) -> None:
    """Make `doctor` a command of the app.

    >>> app = typer.Typer()
    >>> add_to(app)
    >>> [command.callback.__name__ for command in app.registered_commands]
    ['doctor']
    """
    app.command()(doctor)


def doctor() -> None:
    """What works here, and why not. Exit code: 0 if all is well, 1 if not."""
    findings = _versions()
    try:
        import torch
    except ImportError as error:
        findings.append(Finding("torch", f"cannot be imported: {error}", "wrong"))
    else:
        threads = torch.get_num_threads()
        plural = "thread" if threads == 1 else "threads"
        findings.append(Finding("torch", f"{torch.__version__}, {threads} {plural}", "ok"))
        findings += [*_processor(), *_backends(), openmp(), *_planned()]
    console = make_console()
    print_out(_lines(findings, console.width), console)
    raise typer.Exit(int(any(finding.verdict == "wrong" for finding in findings)))


# ── what there is ─────────────────────────────────────────────────────────────────────────────


def _versions() -> list[Finding]:
    from regard import __version__

    system = f"{platform.system()} {platform.machine()}"
    return [
        Finding("regard", __version__, "ok"),
        Finding("Python", f"{platform.python_version()}, {system}", "ok"),
    ]


def _processor() -> list[Finding]:
    name = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                name = line.partition(":")[2].strip()
                break
    return [Finding("processor", f"{name}, instruction set {_instruction_set()}")]


def _instruction_set() -> str:
    try:
        from regard import _native

        return _native.instruction_set()
    except ImportError:
        return "unknown"


def _planned() -> list[Finding]:
    """Instruction sets for which there is no build of the kernel yet."""
    here = _instruction_set()
    return [
        Finding(
            name,
            "no build of the kernel yet; "
            + (
                "this processor has it, and the next best build is used"
                if key == here
                else "this processor has none, so it could not be tested here"
            ),
        )
        for key, name in _PLANNED.items()
    ]


# ── what works ────────────────────────────────────────────────────────────────────────────────


def _backends() -> list[Finding]:
    from regard import __version__, backends

    findings: list[Finding] = []
    for backend in backends():
        if not backend.available:
            findings.append(
                Finding(f"{backend.name} backend", f"not available: {backend.why_not}", "wrong")
            )
            continue
        kernel = f"{backend.kernel} kernel, for " if backend.kernel else "for "
        findings.append(Finding(f"{backend.name} backend", kernel + backend.used_for, "ok"))
        error = _self_check(backend.name)
        findings.append(
            Finding(
                "",
                f"self-check: largest error {error:.1e}, at most {_LIMIT:.0e} is right",
                "ok" if error <= _LIMIT else "wrong",
            )
        )
        if backend.name == "native":
            from regard import _native

            if _native.version() != __version__:
                found = f"built for regard {_native.version()}: run `make native`"
                findings.append(Finding("", found, "wrong"))
    return findings


def _self_check(backend: str) -> float:
    """The largest error of a small attention, and of what was seen of it, against the reference."""
    import numpy as np
    import torch

    from regard import See, attention, reference

    random = np.random.default_rng(0)
    q, k, v = (
        random.standard_normal(shape).astype(np.float32)
        for shape in ((2, 6, 37, 19), (2, 3, 41, 19), (2, 3, 41, 23))
    )
    out, seen = attention(
        *(torch.from_numpy(x) for x in (q, k, v)),
        causal=True,
        see=See(entropy=True, received=True),
        backend=backend,
    )
    truth = reference.attention(q, k, v, causal=True)
    assert seen.entropy is not None
    assert seen.received is not None
    pairs = (
        (out, truth.output),
        (seen.lse, truth.lse),
        (seen.entropy, reference.entropy(truth.weights)),
        (seen.received, reference.received(truth.weights)),
    )
    errors = [float(np.abs(found.numpy() - right).max()) for found, right in pairs]
    return max(errors) if np.isfinite(errors).all() else float("inf")


def openmp(maps: Path = Path("/proc/self/maps")) -> Finding:
    """One OpenMP runtime for torch and the kernel: two would fight for the processors.

    >>> openmp(Path("no such file")).verdict
    'note'
    """
    if not maps.exists():
        return Finding("OpenMP", "which runtimes are loaded cannot be told on this system")
    paths = {line.split()[-1] for line in maps.read_text(encoding="utf-8").splitlines()}
    names = ("libgomp", "libomp", "libiomp")
    found = sorted(Path(path).name for path in paths if Path(path).name.startswith(names))
    if len(found) > 1:
        return Finding("OpenMP", f"{len(found)} runtimes are loaded: {', '.join(found)}", "wrong")
    shared = f"one runtime, shared with torch: {found[0]}" if found else "no runtime is loaded"
    return Finding("OpenMP", shared, "ok")


# ── as lines ──────────────────────────────────────────────────────────────────────────────────


def _lines(findings: list[Finding], width: int) -> list[Text]:
    from rich.text import Text

    marks = {"ok": ("✓", "green"), "wrong": ("✗", "bold red"), "note": ("·", "dim")}
    lines: list[Text] = []
    for finding in findings:
        mark, style = marks[finding.verdict]
        first, *rest = textwrap.wrap(finding.found, max(width - _NAMES - 2, 20)) or [""]
        lines.append(
            Text.assemble((f"{mark} ", style), (f"{finding.name:<{_NAMES}}", "bold"), first)
        )
        lines += [Text(" " * (_NAMES + 2) + more) for more in rest]
    wrong = sum(finding.verdict == "wrong" for finding in findings)
    things = "1 thing does" if wrong == 1 else f"{wrong} things do"
    lines += [Text(), Text(f"{things} not work." if wrong else "All works.", "bold")]
    return lines
