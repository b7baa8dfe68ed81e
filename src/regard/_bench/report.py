"""Results as lines for the terminal: a table for each section, then what they come to."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import geometric_mean

from rich.text import Text

from regard._bench.results import Cell, Results, count
from regard._bench.types import padding_saved
from regard.view.lines import paragraph

_WIDTH = 80
_NONE = "–"


def render_results(results: Results, width: int = _WIDTH) -> list[Text]:
    """What was measured and how, section by section, and in short."""
    pace, width = results.pace, min(width, _WIDTH)
    fewer = f" ({pace.fewer} where one takes over {pace.long:g} s)"
    how = (
        "Every answer is compared with the float64 reference before it is timed. Calls take turns, "
        f"and a time is the best of a round, the median of {count(pace.rounds, 'round')}"
        f"{fewer if pace.rounds > pace.fewer else ''}. A/A is one call raced against itself, "
        "lowest to highest ratio: a difference within it is noise. N tokens, 8 heads that are d "
        "wide, float32 unless said; times in milliseconds."
    )
    if paths := {cell.path for cell in results.cells if cell.path}:
        path = " and ".join(sorted(paths))
        how += f" SDPA is PyTorch's scaled_dot_product_attention, on its {path} path."
    lines = [Text("Regard beside PyTorch", "bold")]
    lines += paragraph(results.describe_machine(), width, indent=0)
    lines += paragraph(how, width, indent=0, style="dim")
    interrupted = [] if results.complete else ["Interrupted: this is what had been measured."]
    for note in (*interrupted, *results.notes):
        lines += paragraph(note, width, indent=0, style="yellow")
    for title, sections, columns, note in _TABLES:
        if cells := [cell for section in sections for cell in results.of(section)]:
            lines += [Text(), *_table(results, title, cells, columns, note)]
    if results.cells:
        lines += [Text(), Text("In short", "bold")]
        lines += [Text(f"{what:<15}  {fact}") for what, fact in _in_short(results)]
    return lines


# ── tables ────────────────────────────────────────────────────────────────────────────────────

# Of each table: its title, the sections whose cells are its rows, its columns, and a note. A column
# is the time of a contestant, `slow / fast` of two of them, or what one reaches of the peak.
_TABLES = (
    (
        "Attention, beside PyTorch's SDPA",
        ("forward",),
        [
            *(("", "kind"), ("SDPA", "sdpa"), ("Regard", "regard")),
            *(("times as fast", "sdpa / regard"), ("A/A", "noise"), ("of peak", "regard / peak")),
        ],
        "of peak: of the most GFLOP/s that multiplying and adding reaches here, {peaks}.",
    ),
    (
        "Observed: with lse, entropy, the eight strongest keys and a map of every head",
        ("observed", "rising"),
        [
            *(("", "kind"), ("observed", "observed"), ("cost", "observed / plain")),
            *(("+ received", "received / plain"), ("A/A", "noise")),
            ("beside SDPA", "sdpa / observed"),
        ],
        "cost: time as a multiple of the plain call's; + received: also with the weight that each "
        "key received; beside SDPA: times as fast, while SDPA sees nothing; rising: scores that "
        "rise along each row, the hardest case for the strongest keys.",
    ),
    (
        "regard.pooled: a picture of all weights, from q, k and lse",
        ("tiles",),
        [
            *(("mean", "mean"), ("of peak", "mean / peak")),
            *(("max", "maximum"), ("of peak", "maximum / peak"), ("A/A", "noise")),
        ],
        "",
    ),
    (
        "Other types: SDPA and Regard in each, and Regard in float32",
        ("types",),
        [
            *(("", "kind"), ("", "dtype"), ("Regard", "regard"), ("fast", "sdpa / regard")),
            *(("seen", "sdpa / observed"), ("float32", "regard / float32")),
            ("A/A", "noise"),
        ],
        "fast, seen: times as fast as SDPA in that type, plain and observed; float32: the time as "
        "a multiple of Regard's in float32.",
    ),
    (
        "Decoding: one query on N keys, in 8 layers one after the other",
        ("decode",),
        [
            *(("", "dtype"), ("key heads", "key heads"), ("Regard", "regard")),
            *(("× float32", "float32 / regard"), ("× SDPA", "sdpa / regard")),
            ("A/A", "noise"),
        ],
        "× float32: times as fast as Regard in float32; × SDPA: as SDPA in that type.",
    ),
    (
        "Training: forward and backward",
        ("training",),
        [
            *(("heads", "heads"), ("", "dtype"), ("SDPA", "sdpa"), ("Regard", "regard")),
            *(("of SDPA", "regard / sdpa"), ("A/A", "noise")),
        ],
        "of SDPA: the time as a multiple of SDPA's.",
    ),
    (
        "Packed: 32 causal sequences, N tokens in all, beside the same padded",
        ("packed",),
        [
            *(("padded", "padded"), ("packed", "packed"), ("times as fast", "padded / packed")),
            *(("padding saved", "saved"), ("A/A", "noise")),
        ],
        "padding saved: how many times as many tokens there are, padded to the longest.",
    ),
)


def _table(
    results: Results, title: str, cells: list[Cell], columns: list[tuple[str, str]], note: str
) -> Iterator[Text]:
    """A title, rows of cells that end where their column does, and a note."""
    yield Text(title, "bold")
    rows = [["threads", "d", "N", *(header for header, _ in columns)]]
    for cell in cells:
        sizes = [str(cell.threads), str(cell.d), f"{cell.n:,}"]
        rows.append(sizes + [_show(results, cell, what) for _, what in columns])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        line = "  ".join(text.rjust(width) for text, width in zip(row, widths, strict=True))
        yield Text(line, "dim" if row is rows[0] else "")
    peaks = (f"{peak / 1e9:.0f} with {count(n, 'thread')}" for n, peak in results.peak.items())
    yield from paragraph(note.format(peaks=" and ".join(peaks)), _WIDTH, indent=0, style="dim")


def _show(results: Results, cell: Cell, what: str) -> str:
    if what == "kind":
        return "rising" if cell.section == "rising" else "causal" if cell.causal else ""
    if what in ("dtype", "heads", "key heads"):
        of = {"dtype": cell.dtype, "heads": cell.heads, "key heads": cell.kv_heads or cell.heads}
        return str(of[what])
    if what == "saved":
        return f"{padding_saved(cell.n):.2f}"
    if what == "noise":
        noise = cell.noise()
        return _NONE if noise is None else f"{noise[0]:.2f}–{noise[1]:.2f}"
    name, _, other = what.partition(" / ")
    if name not in cell.seconds:
        return _NONE
    if other == "peak":
        return f"{results.fraction(cell, name):.2f}"
    if other:
        return f"{cell.ratio(name, other):.2f}"
    time = 1e3 * cell.time(name)
    digits = 3 if time < 1 else 2 if time < 10 else 1 if time < 100 else 0
    return f"{time:,.{digits}f}"


# ── in short ──────────────────────────────────────────────────────────────────────────────────


def _in_short(results: Results) -> Iterator[tuple[str, str]]:
    """Is it right, how fast is it, what does looking cost."""
    yield "right", "every answer that was timed, by the float64 reference"
    for what, section, slow, fast, verdict in (
        ("attention", "forward", "sdpa", "regard", "as fast as SDPA"),
        ("observed", "observed", "sdpa", "observed", "as fast as SDPA, which sees nothing"),
        ("cost of looking", "observed", "observed", "plain", "the time of the plain call"),
    ):
        if ratios := [cell.ratio(slow, fast) for cell in results.of(section)]:
            mean, spread = geometric_mean(ratios), f"{min(ratios):.2f} to {max(ratios):.2f}"
            yield what, f"{mean:.2f} × {verdict} ({spread})"
    for cell in results.of("eager"):
        times = f"{cell.ratio('eager', 'observed'):.1f} × the time of observed at N = {cell.n:,}"
        received = f"{cell.ratio('eager with received', 'received'):.1f} × with received"
        yield "eager PyTorch", f"{times}, {received}"
    for cell in results.of("calls"):
        ours, theirs = 1e6 * cell.time("regard"), 1e6 * cell.time("sdpa")
        noise = _show(results, cell, "noise")
        yield "smallest call", f"{ours:.2f} µs, SDPA {theirs:.2f} µs; A/A {noise}"
    for cell in results.of("memory"):
        weights = f"the N × N weights take {4 * cell.n**2 / 1e6:,.0f} MB"
        yield "memory", f"{cell.memory / 1e6:.0f} MB observed, N = {cell.n:,}; {weights}"
