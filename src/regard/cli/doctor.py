"""`regard doctor`: what works here, and why not."""

from __future__ import annotations

import platform
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import typer

from regard import _amx
from regard.cli.output import Output

_NAMES = 16  # columns

_MARKS = {"ok": ("✓", "green"), "wrong": ("✗", "bold red"), "note": ("·", "dim")}


@dataclass(frozen=True)
class Finding:
    """One line: what was looked at, what was found, and whether it is in order."""

    name: str
    found: str
    verdict: Literal["ok", "wrong", "note"] = "note"


def doctor() -> None:
    """What works here, and why not. Exit code: 0 if all is well, 1 if not."""
    from regard import __version__

    system = f"{platform.system()} {platform.machine()}"
    findings = [
        Finding("regard", __version__, "ok"),
        Finding("Python", f"{platform.python_version()}, {system}", "ok"),
    ]
    try:
        import torch
    except ImportError as error:
        findings.append(Finding("torch", f"cannot be imported: {error}", "wrong"))
    else:
        from regard._bench.results import count

        threads = count(torch.get_num_threads(), "thread")
        findings.append(Finding("torch", f"{torch.__version__}, {threads}", "ok"))
        findings += _kernel(__version__)
        if _amx.is_broken():
            said = "PyTorch's product ends the process: AMX is there without its sizes. "
            findings.append(Finding("bfloat16", f"{said}{_amx.REMEDY}", "wrong"))
    from rich.text import Text

    out = Output()
    lines: list[Text] = []
    for finding in findings:
        mark, style = _MARKS[finding.verdict]
        first, *rest = textwrap.wrap(finding.found, max(out.width - _NAMES - 2, 20)) or [""]
        name = f"{finding.name:<{_NAMES}}"
        lines.append(Text.assemble((f"{mark} ", style), (name, "bold"), first))
        lines += [Text(" " * (_NAMES + 2) + more) for more in rest]
    wrong = sum(finding.verdict == "wrong" for finding in findings)
    things = "1 thing does" if wrong == 1 else f"{wrong} things do"
    out.print([*lines, Text(), Text(f"{things} not work." if wrong else "All works.", "bold")])
    raise typer.Exit(int(wrong > 0))


def _kernel(version: str) -> Iterator[Finding]:
    """The processor, the backends and whether each computes what it should, and their runtime."""
    from regard import backends
    from regard._bench.machine import processor_name

    try:
        from regard import _native

        instruction_set, built_for = _native.instruction_set(), _native.version()
        kernels = _native.kernels()
    except ImportError:
        instruction_set, built_for, kernels = "unknown", None, []
    yield Finding("processor", f"{processor_name()}, instruction set {instruction_set}")
    for backend in backends():
        name = f"{backend.name} backend"
        if not backend.available:
            yield Finding(name, f"not available: {backend.why_not}", "wrong")
            continue
        kernel = f"{backend.kernel} kernel, for " if backend.kernel else "for "
        yield Finding(name, kernel + backend.used_for, "ok")
        yield _self_check(backend.name)
        if backend.name == "native" and built_for != version:
            yield Finding("", f"built for regard {built_for}: run `make native`", "wrong")
    if kernels:
        yield Finding("kernels", f"{', '.join(kernels)} can run here: the first serves")
    yield openmp()


def _self_check(backend: str) -> Finding:
    """The largest error of a small attention, and of what was seen of it, against the reference."""
    from regard import See, attention
    from regard._bench.check import WrongAnswer, check_answer
    from regard._bench.problems import Problem, random_problem

    q, k, v, _ = random_problem(6, 37, 19)
    problem = Problem(q, k[:, ::2], v[:, ::2], causal=True)  # two heads of queries share keys
    see = See(entropy=True, top=8, map=(4, 4), received=True)
    try:
        answer = attention(*problem[:3], causal=True, see=see, backend=backend)
        error, verdict = check_answer(problem, backend, answer), "ok"
    except WrongAnswer as wrong:
        error, verdict = wrong.error, "wrong"
    return Finding("", f"self-check: largest error {error:.1e}", verdict)


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
