"""Results as lines for the terminal: a table for each section, then what they come to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from statistics import geometric_mean

from rich.text import Text

from regard._bench.results import Cell, Results, count
from regard.view.terminal import paragraph

_WIDTH = 80
_NONE = "–"


def render_results(results: Results, width: int = _WIDTH) -> list[Text]:
    """What was measured, section by section, and in short."""
    lines = _introduction(results, min(width, _WIDTH))
    for section in (_forward, _observed, _tiles, _in_short):
        if made := list(section(results)):
            lines += [Text(), *made]
    return lines


def _introduction(results: Results, width: int) -> list[Text]:
    pace = results.pace
    how = (
        "Every answer is compared with the float64 reference before it is timed. Calls take turns, "
        f"and a time is the best of a round, the median of {count(pace.rounds, 'round')}"
    )
    if pace.rounds > pace.fewer:
        how += f" ({pace.fewer} where one takes over {pace.long:g} s)"
    how += (
        ". A/A is one call raced against itself, lowest to highest ratio: a difference within it "
        "is noise. N tokens, 8 heads that are d wide, float32; times in milliseconds."
    )
    if paths := {cell.path for cell in results.cells if cell.path}:
        path = " and ".join(sorted(paths))
        how += f" SDPA is PyTorch's scaled_dot_product_attention, on its {path} path."
    lines = [Text("Regard beside PyTorch", "bold")]
    lines += paragraph(results.describe_machine(), width, indent=0)
    lines += paragraph(how, width, indent=0, style="dim")
    if not results.complete:
        lines.append(Text("Interrupted: this is what had been measured.", "yellow"))
    for note in results.notes:
        lines += paragraph(note, width, indent=0, style="yellow")
    return lines


def _forward(results: Results) -> Iterator[Text]:
    peaks = " and ".join(
        f"{peak / 1e9:.0f} with {count(threads, 'thread')}"
        for threads, peak in results.peak.items()
    )
    yield from _table(
        "Attention, beside PyTorch's SDPA",
        ("threads", "d", "N", "", "SDPA", "Regard", "times as fast", "A/A", "of peak"),
        [
            (
                *_sizes(cell),
                "causal" if cell.causal else "",
                _milliseconds(cell, "sdpa"),
                _milliseconds(cell, "regard"),
                f"{cell.ratio('sdpa', 'regard'):.2f}",
                _noise(cell),
                f"{results.fraction(cell, 'regard'):.2f}",
            )
            for cell in results.of("forward")
        ],
        f"of peak: of the most GFLOP/s that multiplying and adding reaches here, {peaks}.",
    )


def _observed(results: Results) -> Iterator[Text]:
    yield from _table(
        "Observed: with lse, entropy, the eight strongest keys and a map of every head",
        ("threads", "d", "N", "", "observed", "cost", "+ received", "A/A", "beside SDPA"),
        [
            (
                *_sizes(cell),
                "rising" if cell.section == "rising" else "causal" if cell.causal else "",
                _milliseconds(cell, "observed"),
                f"{cell.ratio('observed', 'plain'):.2f}",
                f"{cell.ratio('received', 'plain'):.2f}" if "received" in cell.seconds else _NONE,
                _noise(cell),
                f"{cell.ratio('sdpa', 'observed'):.2f}",
            )
            for cell in (*results.of("observed"), *results.of("rising"))
        ],
        "cost: time as a multiple of the plain call's; + received: also with the weight that each "
        "key received; beside SDPA: times as fast, while SDPA sees nothing; rising: scores that "
        "rise along each row, the hardest case for the strongest keys.",
    )


def _tiles(results: Results) -> Iterator[Text]:
    yield from _table(
        "regard.pooled: a picture of all weights, from q, k and lse",
        ("threads", "d", "N", "mean", "of peak", "max", "of peak", "A/A"),
        [
            (
                *_sizes(cell),
                _milliseconds(cell, "mean"),
                f"{results.fraction(cell, 'mean'):.2f}",
                _milliseconds(cell, "maximum"),
                f"{results.fraction(cell, 'maximum'):.2f}",
                _noise(cell),
            )
            for cell in results.of("tiles")
        ],
    )


def _in_short(results: Results) -> Iterator[Text]:
    """Is it right, how fast is it, what does looking cost."""
    if not results.cells:
        return
    yield Text("In short", "bold")
    yield _fact("right", "every answer that was timed, by the float64 reference")
    for what, section, slow, fast, verdict in (
        ("attention", "forward", "sdpa", "regard", "as fast as SDPA"),
        ("observed", "observed", "sdpa", "observed", "as fast as SDPA, which sees nothing"),
        ("cost of looking", "observed", "observed", "plain", "the time of the plain call"),
    ):
        if ratios := [cell.ratio(slow, fast) for cell in results.of(section)]:
            mean, spread = geometric_mean(ratios), f"{min(ratios):.2f} to {max(ratios):.2f}"
            yield _fact(what, f"{mean:.2f} × {verdict} ({spread})")
    for cell in results.of("eager"):
        times = f"{cell.ratio('eager', 'observed'):.1f} × the time of observed at N = {cell.n:,}"
        received = f"{cell.ratio('eager with received', 'received'):.1f} × with received"
        yield _fact("eager PyTorch", f"{times}, {received}")
    for cell in results.of("calls"):
        ours, theirs = 1e6 * cell.time("regard"), 1e6 * cell.time("sdpa")
        yield _fact("smallest call", f"{ours:.2f} µs, SDPA {theirs:.2f} µs; A/A {_noise(cell)}")
    for cell in results.of("memory"):
        weights = f"the N × N weights take {4 * cell.n**2 / 1e6:,.0f} MB"
        yield _fact("memory", f"{cell.memory / 1e6:.0f} MB observed, N = {cell.n:,}; {weights}")


def _fact(what: str, fact: str) -> Text:
    return Text(f"{what:<15}  {fact}")


def _table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], note: str = ""
) -> Iterator[Text]:
    """A title, rows of cells that end where their column does, and a note; nothing without rows."""
    if not rows:
        return
    yield Text(title, "bold")
    widths = [max(map(len, column)) for column in zip(header, *rows, strict=True)]
    for row in (header, *rows):
        line = "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True))
        yield Text(line, "dim" if row is header else "")
    if note:
        yield from paragraph(note, _WIDTH, indent=0, style="dim")


def _sizes(cell: Cell) -> tuple[str, str, str]:
    return str(cell.threads), str(cell.d), f"{cell.n:,}"


def _noise(cell: Cell) -> str:
    noise = cell.noise()
    return _NONE if noise is None else f"{noise[0]:.2f}–{noise[1]:.2f}"


def _milliseconds(cell: Cell, name: str) -> str:
    time = 1e3 * cell.time(name)
    digits = 3 if time < 1 else 2 if time < 10 else 1 if time < 100 else 0
    return f"{time:,.{digits}f}"
