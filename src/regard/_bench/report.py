"""Results as lines for the terminal, at most 80 cells wide."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby

from rich.text import Text

from regard._bench.results import Cell, Results
from regard._bench.targets import Target, targets
from regard.view.terminal import paragraph

__all__ = ["amount", "describe_machine", "render_results"]

_WIDTH = 80
_NONE = "–"


def render_results(results: Results, width: int = _WIDTH) -> list[Text]:
    """What was measured, section by section, and how far it gets.

    >>> print(render_results(Results())[-1])
    memory above the inputs, N = 65,536, observed           –   ≤ 300 MB  not run
    """
    lines = _introduction(results, min(width, _WIDTH))
    for section in (_forward, _observed, _eager, _tiles, _calls, _memory):
        if made := list(section(results)):
            lines += [Text(), *made]
    return [*lines, Text(), *_targets(results)]


def describe_machine(results: Results) -> str:
    """The machine and the versions, in a line.

    >>> describe_machine(Results(machine={"processor": "Z80", "cores": 1}, date="1976-07-01"))
    'Z80, 1 core · 1976-07-01'
    """
    machine, versions = results.machine, results.versions
    parts = [str(machine.get("processor", ""))]
    if cores := machine.get("cores"):
        parts[0] += f", {cores} core{'s' * (cores != 1)}"
    if "kernel" in machine:
        parts.append(f"{machine['kernel']} kernel")
    parts += [f"{name} {version}" for name, version in versions.items()]
    return " · ".join(part for part in [*parts, results.date] if part)


def amount(value: float, unit: str = "") -> str:
    """A number with as many digits as it deserves.

    >>> amount(1.234, "×"), amount(0.8567), amount(61.53, "MB"), amount(11.23, "×")
    ('1.23 ×', '0.86', '62 MB', '11.2 ×')
    """
    digits = 2 if abs(value) < 10 else 1 if abs(value) < 30 else 0
    return f"{value:.{digits}f} {unit}".rstrip()


def _introduction(results: Results, width: int) -> list[Text]:
    peaks = ", ".join(
        f"{peak / 1e9:.0f} GF with {threads} thread{'s' * (threads != 1)}"
        for threads, peak in results.peak.items()
    )
    rounds = results.settings.get("rounds", 5)
    fewer, long = results.settings.get("fewer", 3), results.settings.get("long", 2.0)
    how = f"Best of many calls that take turns, median of {_count(rounds, 'round')}"
    if rounds > fewer:
        how += f" ({fewer} where one takes over {long:g} s)"
    how += (
        ". A/A is the same call raced against itself in the same rounds, lowest to highest ratio. "
        "Work is counted at half where causal."
    )
    paths = {cell.path for cell in results.cells if cell.path}
    if paths:
        how += (
            " PyTorch took its flash path everywhere."
            if paths == {"flash"}
            else f" PyTorch did not always take its flash path, but: {', '.join(sorted(paths))}."
        )
    lines = [Text("Regard beside PyTorch", "bold")]
    lines += paragraph(describe_machine(results), width, indent=0)
    if peaks:
        heads = results.settings.get("heads", 8)
        lines += paragraph(f"FMA peak {peaks}. float32, B = 1, H = {heads}.", width, indent=0)
    lines += paragraph(how, width, indent=0, style="dim")
    if not results.complete:
        lines.append(Text("Interrupted: this is what had been measured.", "yellow"))
    for note in results.notes:
        lines += paragraph(note, width, indent=0, style="yellow")
    return lines


def _forward(results: Results) -> Iterator[Text]:
    cells = results.of("forward")
    if not cells:
        return
    yield Text("Forward: times as fast as PyTorch's SDPA", "bold")
    yield Text(f"{'not causal':>37}{'causal':>30}", "dim")
    columns = ("GF", "of peak", "ratio", "A/A")
    yield _row(("threads", "d", "N", *columns, *columns), _FORWARD, "dim")
    for (threads, d), some in groupby(
        sorted(cells, key=lambda cell: (cell.threads, cell.d, cell.n)),
        key=lambda cell: (cell.threads, cell.d),
    ):
        for n, pair in groupby(some, key=lambda cell: cell.n):
            row = [str(threads), str(d), f"{n:,}", *[_NONE] * 8]
            for cell in pair:
                first = 7 if cell.causal else 3
                row[first : first + 4] = [
                    _speed(cell),
                    f"{results.fraction(cell, 'regard'):.2f}",
                    f"{cell.ratio('sdpa', 'regard'):.2f}",
                    _noise(cell),
                ]
            yield _row(row, _FORWARD)


def _observed(results: Results) -> Iterator[Text]:
    cells = [*results.of("observed"), *results.of("rising")]
    if not cells:
        return
    yield Text("Observed: lse, entropy, eight strongest keys, map", "bold")
    yield Text("time as a multiple of the plain forward's; speed as a multiple of SDPA's", "dim")
    header = ("threads", "d", "N", "", "observed", "+ received", "A/A", "beside SDPA")
    yield _row(header, _OBSERVED, "dim")
    for cell in cells:
        kind = "rising" if cell.section == "rising" else "causal" if cell.causal else ""
        received = _NONE
        if "received" in cell.seconds:
            received = f"{cell.ratio('received', 'plain'):.2f}"
        row = (
            str(cell.threads),
            str(cell.d),
            f"{cell.n:,}",
            kind,
            f"{cell.ratio('observed', 'plain'):.2f}",
            received,
            _noise(cell),
            f"{cell.ratio('sdpa', 'observed'):.2f}",
        )
        yield _row(row, _OBSERVED)


def _eager(results: Results) -> Iterator[Text]:
    for cell in results.of("eager"):
        yield Text(f"Observed beside eager PyTorch, {cell.title()}", "bold")
        header = ("", "eager", "observed", "times as fast", "A/A")
        yield _row(header, _EAGER, "dim")
        for what, slow, fast, noise in (
            ("the same statistics", "eager", "observed", _noise(cell)),
            ("with received", "eager with received", "received", ""),
        ):
            row = (what, _milliseconds(cell, slow), _milliseconds(cell, fast))
            yield _row((*row, f"{cell.ratio(slow, fast):.1f}", noise), _EAGER)


def _tiles(results: Results) -> Iterator[Text]:
    cells = results.of("tiles")
    if not cells:
        return
    yield Text("Pooled pictures of all queries by all keys: time, and Q Kᵀ of peak", "bold")
    yield _row(("threads", "d", "N", "mean", "of peak", "max", "of peak", "A/A"), _TILES, "dim")
    for cell in cells:
        row = [str(cell.threads), str(cell.d), f"{cell.n:,}"]
        for name in ("mean", "maximum"):
            row += [_milliseconds(cell, name), f"{results.fraction(cell, name):.2f}"]
        yield _row([*row, _noise(cell)], _TILES)


def _calls(results: Results) -> Iterator[Text]:
    for cell in results.of("calls"):
        ours, theirs = 1e6 * cell.time("regard"), 1e6 * cell.time("sdpa")
        more = 1e6 * cell.difference("regard", "sdpa")
        yield Text("The smallest call: B = H = N = 1, no gradient", "bold")
        yield Text(
            f"Regard {ours:.2f} µs, SDPA {theirs:.2f} µs: {more:+.2f} µs; A/A {_noise(cell)}"
        )


def _memory(results: Results) -> Iterator[Text]:
    for kept in results.memory:
        yield Text(f"Memory: N = {kept.n:,}, one head, d = {kept.d}, observed", "bold")
        yield Text(
            f"{kept.peak / 1e6:.0f} MB above its inputs ({kept.inputs / 1e6:.0f} MB), "
            f"{kept.seconds:.1f} s with {_count(kept.threads, 'thread')}"
        )


def _targets(results: Results) -> Iterator[Text]:
    yield Text("How far it gets", "bold")
    for target in targets(results):
        yield _target(target)
        if target.where and target.met is False:
            yield Text(f"  {target.where}", "dim")


def _target(target: Target) -> Text:
    sign = "≤" if target.at_most else "≥"
    line = Text(f"{target.what:<48}")
    line.append(f"{_NONE if target.reached is None else amount(target.reached, target.unit):>9}")
    bound = f"{target.bound:.2f}".rstrip("0").rstrip(".")
    line.append(f"   {f'{sign} {bound} {target.unit}':<10}", "dim")
    if target.reached is None:
        return line.append("not run", "dim")
    if target.met is None:
        return line.append(f"{target.cells} of {target.of}", "dim")
    return line.append("yes", "bold") if target.met else line.append("no", "bold red")


_FORWARD = (7, 5, 7, 6, 8, 6, 11, 5, 8, 6, 11)
_OBSERVED = (7, 5, 7, 8, 11, 12, 12, 13)
_EAGER = (-20, 12, 12, 16, 12)
_TILES = (7, 5, 7, 11, 9, 11, 9, 12)


def _row(texts: Iterable[str], widths: Sequence[int], style: str = "") -> Text:
    """One line of a table; a negative width is that of a column that starts at its left."""
    line = "".join(
        text.rjust(width) if width > 0 else text.ljust(-width)
        for text, width in zip(texts, widths, strict=True)
    )
    return Text(line.rstrip(), style)


def _noise(cell: Cell) -> str:
    noise = cell.noise()
    return _NONE if noise is None else f"{noise[0]:.2f}–{noise[1]:.2f}"


def _speed(cell: Cell) -> str:
    speed = cell.gflops("regard")
    return f"{speed:.0f}" if speed >= 10 else f"{speed:.1f}"


def _milliseconds(cell: Cell, name: str) -> str:
    time = 1e3 * cell.time(name)
    return f"{time:,.0f} ms" if time >= 100 else f"{time:.3g} ms"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' * (number != 1)}"
