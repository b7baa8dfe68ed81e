"""The answer to a query in the terminal: a table that fits the width."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from rich.text import Text

from regard.text import counted
from regard.view.labels import fit, most_cells, pad, visible
from regard.view.lines import paragraph

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_ROWS = 1000


def render_table(table: pa.Table, width: int = 80) -> list[Text]:
    """The answer to a query: a line a row, columns cut to the width.

    >>> from regard.run import Run
    >>> print(*render_table(Run().sql("select 1 as one, 'a' as letter")), sep="\\n")
    one  letter
      1  a
    1 row
    """
    columns = [column.to_pylist() for column in table.slice(0, _MOST_ROWS).columns]
    lines = table_lines(table.column_names, columns, width)
    rows_told = counted(table.num_rows, "row")
    if table.num_rows > _MOST_ROWS:
        rows_told = f"{_MOST_ROWS:,} of {rows_told} shown; --json FILE writes all"
    return [*lines, *paragraph(rows_told, width, indent=0, style="dim")]


def table_lines(
    headings: Iterable[str], columns: Sequence[Sequence[Any]], width: int
) -> list[Text]:
    """A line of headings, and a line a row; numbers stand on the right of their columns.

    >>> print(*table_lines(["word", "weight"], [["it", "cat"], [0.25, None]], 80), sep="\\n")
    word  weight
    it      0.25
    cat        –
    """
    right = [all(isinstance(x, int | float | None) for x in column) for column in columns]
    names = [visible(name) for name in headings]
    cells = [[name, *map(_cell, column)] for name, column in zip(names, columns, strict=True)]
    widths = [max(map(most_cells, column)) for column in cells]
    # Texts give way first, then the names of columns of numbers, and only then numbers.
    numbers = [max(map(most_cells, column[1:]), default=0) for column in cells]
    floors = [4 if not is_right else most for is_right, most in zip(right, numbers, strict=True)]
    for least in (floors, [4] * len(floors)):
        while sum(widths) + 2 * (len(widths) - 1) > width:
            spare = [has - min(has, needs) for has, needs in zip(widths, least, strict=True)]
            if not any(spare):
                break
            widths[spare.index(max(spare))] -= 1

    def line(row: Iterable[str]) -> str:
        texts = (pad(fit(c, w), w, right=r) for c, w, r in zip(row, widths, right, strict=True))
        return fit("  ".join(texts).rstrip(), max(width, 1))

    lines = [Text(line(row)) for row in zip(*cells, strict=True)]
    lines[0].stylize("bold")
    return lines


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.4g}"
    return "–" if value is None else visible(str(value))
