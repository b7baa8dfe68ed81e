"""Results as Markdown, and its place in a file: between two comments."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from regard._bench.report import amount, describe_machine
from regard._bench.results import Cell, Results

__all__ = ["BEGIN", "END", "insert_between_markers", "markdown"]

BEGIN, END = "<!-- bench: written by `make bench-record` -->", "<!-- /bench -->"
_NONE = "–"


def markdown(results: Results) -> str:
    """The tables of the README: forward, observed, and single numbers.

    >>> print(markdown(Results(machine={"processor": "Z80"}, date="1976-07-01")))
    Z80 · 1976-07-01. float32, B = 1, H = 8.
    """
    heads = results.settings.get("heads", 8)
    parts = [f"{describe_machine(results)}. float32, B = 1, H = {heads}."]
    parts += [
        "\n".join(lines)
        for lines in (list(_forward(results)), list(_observed(results)), list(_single(results)))
        if lines
    ]
    return "\n\n".join(parts)


def insert_between_markers(text: str, table: str) -> str:
    """Put the table between the two markers. Raises ValueError if they are not there, once each.

    >>> old = f"# Title\\n\\n{BEGIN}\\nold\\n{END}\\n\\nmore\\n"
    >>> insert_between_markers(old, "new").splitlines()[4]
    'new'
    """
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"it needs the lines {BEGIN} and {END}, in this order, once each.")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"


def _forward(results: Results) -> Iterator[str]:
    cells = results.of("forward")
    if not cells:
        return
    lengths = sorted({cell.n for cell in cells})
    threads = sorted({cell.threads for cell in cells})
    yield _line([f"times as fast as SDPA{_threads(threads)}", *(f"N = {n:,}" for n in lengths)])
    yield _line(["---", *["---:"] * len(lengths)])
    for causal, d in sorted({(cell.causal, cell.d) for cell in cells}):
        row = [f"d = {d}{', causal' if causal else ''}"]
        for n in lengths:
            found = {
                cell.threads: f"{cell.ratio('sdpa', 'regard'):.2f}"
                for cell in cells
                if (cell.n, cell.d, cell.causal) == (n, d, causal)
            }
            row.append(" · ".join(found.get(number, _NONE) for number in threads))
        yield _line(row)


def _observed(results: Results) -> Iterator[str]:
    cells = [cell for cell in results.of("observed") if not cell.causal]
    if not cells:
        return
    lengths = sorted({cell.n for cell in cells})
    threads = sorted({cell.threads for cell in cells})
    yield _line([f"observed{_threads(threads)}", *(f"N = {n:,}" for n in lengths)])
    yield _line(["---", *["---:"] * len(lengths)])
    for d in sorted({cell.d for cell in cells}):
        for what, slow, fast in (
            ("time as a multiple of plain", "observed", "plain"),
            ("the same with `received`", "received", "plain"),
            ("times as fast as SDPA", "sdpa", "observed"),
        ):
            row = [f"d = {d}: {what}"]
            for n in lengths:
                some = [cell for cell in cells if (cell.n, cell.d) == (n, d)]
                row.append(_ratios(some, threads, slow, fast))
            yield _line(row)


def _ratios(cells: list[Cell], threads: Iterable[int], slow: str, fast: str) -> str:
    found = {
        cell.threads: f"{cell.ratio(slow, fast):.2f}"
        for cell in cells
        if slow in cell.seconds and fast in cell.seconds
    }
    return " · ".join(found.get(number, _NONE) for number in threads) if found else _NONE


def _single(results: Results) -> Iterator[str]:
    rows: list[tuple[str, str]] = []
    plain = [
        cell
        for cell in sorted(results.of("forward"), key=lambda cell: cell.d)
        if (cell.n, cell.causal, cell.threads) == (2048, False, 1)
    ]
    if plain:
        widths = ", ".join(str(cell.d) for cell in plain)
        what = f"forward, N = 2,048, 1 thread, as a fraction of FMA peak: d = {widths}"
        rows.append((what, ", ".join(amount(results.fraction(cell, "regard")) for cell in plain)))
    for cell in results.of("eager"):
        what = f"observed, times as fast as eager PyTorch, {cell.title()}"
        rows.append((what, amount(cell.ratio("eager", "observed"))))
        received = amount(cell.ratio("eager with received", "received"))
        rows.append(("the same with `received`", received))
    if tiles := results.of("tiles"):
        fractions = [results.fraction(cell, name) for cell in tiles for name in ("mean", "maximum")]
        what = "`pooled`: its Q Kᵀ as a fraction of FMA peak, lowest and highest"
        rows.append((what, f"{min(fractions):.2f}, {max(fractions):.2f}"))
    for cell in results.of("calls"):
        more = 1e6 * cell.difference("regard", "sdpa")
        rows.append(("smallest call, above SDPA's", f"{more:.1f} µs"))
    for kept in results.memory:
        what = f"observed, N = {kept.n:,}, one head, d = {kept.d}: memory above the inputs"
        rows.append((what, amount(kept.peak / 1e6, "MB")))
    if rows:
        yield from (_line(["", "measured"]), _line(["---", "---:"]))
        yield from (_line(row) for row in rows)


def _threads(threads: list[int]) -> str:
    words = " · ".join(map(str, threads))
    return f", {words} thread{'s' * (threads != [1])}"


def _line(cells: Iterable[str]) -> str:
    return f"| {' | '.join(cells)} |"
