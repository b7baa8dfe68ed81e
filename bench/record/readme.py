"""Draws docs/bench.json: the tables of the README, and its figure. `make bench-record` measures it.

It holds what `regard bench --json` wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

from figure import figure

from regard._bench.results import Cell, Results, from_json

__all__ = ["BEGIN", "END", "insert_between_markers", "markdown"]

BEGIN, END = "<!-- bench: written by `make bench-record` -->", "<!-- /bench -->"
_NONE = "–"


def main() -> None:
    """Write the README and the figure anew."""
    root = Path(__file__).parents[2]
    results = from_json((root / "docs/bench.json").read_text(encoding="utf-8"))
    readme = root / "README.md"
    text = insert_between_markers(readme.read_text(encoding="utf-8"), markdown(results))
    readme.write_text(text, encoding="utf-8")
    (root / "docs/pictures/bench.svg").write_text(figure(results), encoding="utf-8")


def insert_between_markers(text: str, table: str) -> str:
    """Put the table between the two markers. Raises ValueError if they are not there, once each."""
    if text.count(BEGIN) != 1 or text.count(END) != 1 or text.index(BEGIN) > text.index(END):
        raise ValueError(f"it needs the lines {BEGIN} and {END}, in this order, once each.")
    before, _, rest = text.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n\n{table}\n\n{END}{after}"


def markdown(results: Results) -> str:
    """The tables of the README: forward, observed, and single numbers."""
    forward = results.of("forward")
    observed = [cell for cell in results.of("observed") if not cell.causal]
    parts = [
        f"{results.describe_machine()}. float32, B = 1, H = 8.",
        _by_length("times as fast as SDPA", forward, {"": ("sdpa", "regard")}),
        _by_length(
            "observed",
            observed,
            {
                ": time as a multiple of plain": ("observed", "plain"),
                ": the same with `received`": ("received", "plain"),
                ": times as fast as SDPA": ("sdpa", "observed"),
            },
        ),
        _table([("", "measured"), *_single(results)]),
    ]
    return "\n\n".join(part for part in parts if part)


def _by_length(title: str, cells: list[Cell], ratios: dict[str, tuple[str, str]]) -> str:
    """A column for each length, a row for each ratio of each width; the threads side by side."""
    lengths = sorted({cell.n for cell in cells})
    threads = sorted({cell.threads for cell in cells})
    numbers = f"{' · '.join(map(str, threads))} thread{'s' * (threads != [1])}"
    rows = [[f"{title}, {numbers}", *(f"N = {n:,}" for n in lengths)]]
    for causal, d in sorted({(cell.causal, cell.d) for cell in cells}):
        for what, (slow, fast) in ratios.items():
            found = {
                (cell.n, cell.threads): f"{cell.ratio(slow, fast):.2f}"
                for cell in cells
                if (cell.causal, cell.d) == (causal, d) and slow in cell.seconds
            }
            row = [f"d = {d}{', causal' * causal}{what}"]
            for n in lengths:
                places = [found.get((n, number), _NONE) for number in threads]
                row.append(_NONE if set(places) == {_NONE} else " · ".join(places))
            rows.append(row)
    return _table(rows)


def _single(results: Results) -> Iterator[tuple[str, str]]:
    plain = [
        cell
        for cell in sorted(results.of("forward"), key=lambda cell: cell.d)
        if (cell.n, cell.causal, cell.threads) == (2048, False, 1)
    ]
    if plain:
        widths = ", ".join(str(cell.d) for cell in plain)
        fractions = ", ".join(f"{results.fraction(cell, 'regard'):.2f}" for cell in plain)
        yield f"forward, N = 2,048, 1 thread, as a fraction of FMA peak: d = {widths}", fractions
    for cell in results.of("eager"):
        what = f"observed, times as fast as eager PyTorch, {cell.title()}"
        yield what, f"{cell.ratio('eager', 'observed'):.2f}"
        received = cell.ratio("eager with received", "received")
        yield "the same with `received`", f"{received:.2f}"
    if tiles := results.of("tiles"):
        fractions = [results.fraction(cell, name) for cell in tiles for name in ("mean", "maximum")]
        what = "`pooled`: its Q Kᵀ as a fraction of FMA peak, lowest and highest"
        yield what, f"{min(fractions):.2f}, {max(fractions):.2f}"
    for cell in results.of("calls"):
        more = 1e6 * cell.difference("regard", "sdpa")
        yield "smallest call, above SDPA's", f"{more:.1f} µs"
    for cell in results.of("memory"):
        what = f"observed, N = {cell.n:,}, one head, d = {cell.d}: memory above the inputs"
        yield what, f"{cell.memory / 1e6:.0f} MB"


def _table(rows: Sequence[Sequence[str]]) -> str:
    """Markdown of the rows, the first of which is the head; nothing if there is no other."""
    head, *body = (f"| {' | '.join(row)} |" for row in rows)
    rule = f"| --- |{' ---: |' * (len(rows[0]) - 1)}"
    return "\n".join([head, rule, *body]) if body else ""


if __name__ == "__main__":
    main()
