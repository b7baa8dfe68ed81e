"""The structure of Markdown, plain text and LaTeX: paragraphs, headings, tables, code.

Line by line, as most of what people hand in is no clean Markdown: tables of tabs or blanks, LaTeX
without a document, printed arrays.
"""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import pairwise
from urllib.parse import unquote

from regard.written.abreast import one_by_one
from regard.written.figures import as_number
from regard.written.found import Value
from regard.written.layout import laid_out
from regard.written.piece import Piece, joined

__all__ = ["Passage", "clean", "scan"]

Row = list[Piece]
_LONGEST = 20_000  # characters of one environment
_COLUMNS = re.compile(r"\\+begin\{tabular\*?\}(?:\{(?:[^{}\n]|\{[^{}\n]*\}){0,200}\}){0,2}")


@dataclass
class Passage:
    """A heading, a paragraph (`text`), or a table of cells."""

    piece: Piece
    rows: list[Row] = field(default_factory=list)
    is_heading: bool = False
    whole: Piece | None = None  # with the marks of lists
    is_code: bool = False  # in a notebook: code, or what it puts out
    shown: list[Value] | None = None  # where the values of an output are collected


_COGS = re.compile(
    r"!\[[^\]\n]{0,200}\]\(https?://[^\s()]{0,80}(?:codecogs|latex)[^\s()?]{0,80}\?([^\s]{1,4000}?)\)(?=\s|$)"
)
_LINKS = re.compile(
    r"!\[[^\]\n]{0,300}\]\([^()\n]{0,2000}\)|(?<=\])\((?:https?:|\.{0,2}/|#)[^()\n]{0,2000}\)"
    r"|(?:https?|ftp)://[^\s<>)\]|]{1,2000}|<!--.{0,1000}?-->",
    re.DOTALL,
)
_TAG = re.compile(r"</?[a-zA-Z][\w-]{0,30}(?:\s[^<>]{0,2000})?/?>")
_ENTITY = re.compile(r"&(?:#x?[0-9a-fA-F]{1,6}|[a-zA-Z]{2,10}\d{0,2});")
_EMPHASIS = re.compile(
    r"(?<![\w)\]*}.])(?:\*{1,3}|_{2})(?=[^\s*])|(?<=[^\s*])(?:\*{1,3}|_{2})(?![\w(\[{}*])|(?<!`)`(?!`)"
)
_MARK = re.compile(r"[ \t]*(?:(?:[-*•◦▪‣›»>]|\d{1,3}[.)])[ \t]+)+(?=\S)|[ \t]*//+[ \t]*")
_BULLET = re.compile(r"[ \t]*[-*•][ \t]+(?=[^\W\d_])")  # in a listing, where − may be a sign
_COMMENT = re.compile(r"[ \t]*#+(?=[ \t]*[\[\]\d.\-−])")
_HEADING = re.compile(
    r"[ \t]{0,3}#{1,6}[ \t]+(?=\S)|\\(?:sub)*(?:section|chapter|paragraph)\*?(?=\{)"
)
_FENCE = re.compile(r"[ \t]*(?:```|~~~)")
_DELIMITER = re.compile(
    r"(?P<dollars>\$\$)|\\{1,2}(?P<side>begin|end)\{(?P<env>[a-zA-Z]+\*?)\}"
    r"|(?m:^[ \t]*\\(?P<bracket>[\[\]])[ \t]*$)"
)
_MATHEMATICS = re.compile(
    r"[bBpvV]?(?:small)?matrix\*?|array|align(?:ed)?\*?|equation\*?|gather\*?|cases|split|\$\$|\["
)
_BOX = dict.fromkeys(map(ord, "│┃║├┤┼┌┐└┘┬┴╠╣╬╔╗╚╝╦╩┣┫╋┏┓┗┛┳┻╪╞╡"), "|") | dict.fromkeys(
    map(ord, "─━═"), "-"
)
_BARS = re.compile(f"[|+{re.escape(''.join(map(chr, _BOX)))}]")
_COUNTED = re.compile(r"(?<!\S)\[[01]\](?:[ \t]+\[\d{1,3}\]){2,}(?!\S)")
# A display that starts with a sign of equality goes on with the one before it.
_GOES_ON = re.compile(r"\\\][^\S\n]*\n\s*\\\[(?=\s*(?:=|≈|\\approx))")
# A display of numbers alone, a word that says so, and a display with what they come to.
_COMES_TO = re.compile(
    r"(?<=\\\[)(?P<sum>(?:[\d\s.,+\-−*·×()\[\]]|\\cdot|\\times){3,400})\\\](?P<said>\s*\n\s*"
    r"(?:得到?|结果为?|結果|gives|yields|which gives|we get|this gives|result)[:：]?\s*\n\s*\\\[)"
    r"(?=\s*[\[\d(−-])",
    re.IGNORECASE,
)
_BRACKETED = re.compile(
    r"[ \t]*(?P<label>(?=\S*\w)[^\s\[\](){}=:|,]{1,24})[ \t]+"
    r"\[{1,2}(?P<row>(?:[^\[\]()=|a-zA-Z]|inf){3,400})\]{1,2}[,;]?[ \t]*"
)
_SEPARATOR = re.compile(r"[\s|:+=-]*-[\s|:+=-]*")


# What is said of a row of numbers at its end: `[0.1, 0.9],  ← mostly itself`.
_REMARK = re.compile(
    r"(?m)(?<=[\d.∞f]\])(\]?,?)(?:[ \t]*(?:←|<-+|//)[^\n\[\]]*"
    r"|[ \t]*#[^\n\[\]=]*[^\W\d_][^\n\[\]=]*|[ \t]{2,}[^\W\d_][^\n\[\]=]*)$"
)
_SIDE_BORDERS = re.compile(r"(?m)^([ \t]*)[│┃║]([^│┃║\n|]*)[│┃║][ \t]*$")


def clean(piece: Piece) -> Piece:
    """Without links, tags and marks of emphasis; what an image link spells out in LaTeX is kept."""
    piece = piece.replaced(_COGS, lambda m: f" $${unquote(m[1])}$$ ")
    piece = piece.replaced(_LINKS, lambda m: re.sub(r"[^\n]", " ", m[0]))
    if "<" in piece.text:
        piece = piece.replaced(_TAG, lambda m: re.sub(r"[^\n]", " ", m[0]))
    if "&" in piece.text:
        piece = piece.replaced(_ENTITY, lambda m: html.unescape(m[0]).replace("\u00a0", " ")[:1])
    piece = piece.replaced(_EMPHASIS, lambda m: " " * len(m[0]))
    piece = piece.replaced(_REMARK, lambda m: m[1] + " " * (len(m[0]) - len(m[1])))
    piece = piece.replaced(_GOES_ON, lambda m: " " * len(m[0]))
    piece = piece.replaced(_COMES_TO, lambda m: m["sum"] + "=".rjust(2 + len(m["said"])))
    piece = one_by_one(laid_out(piece.replaced(_COUNTED, _without_counts)))
    piece = piece.replaced(_SIDE_BORDERS, lambda m: f"{m[1]} {m[2]}".ljust(len(m[0])))
    # A break in displayed mathematics is a blank.
    text = list(piece.text)
    for name, start, end in _environments(piece.text):
        if _MATHEMATICS.fullmatch(name):
            inner = re.sub(r"(?<!\\)\\\n", r"\\\\", piece.text[start:end])  # one backslash got lost
            text[start:end] = inner.replace("\n", " ")
    return Piece("".join(text), piece.at)


def _without_counts(match: re.Match[str]) -> str:
    """`[0]  [1]  [2]` in a line are places, no numbers."""
    counts = [int(count) for count in re.findall(r"\d+", match[0])]
    counted = counts == list(range(counts[0], counts[0] + len(counts)))
    return " " * len(match[0]) if counted else match[0]


def _environments(text: str) -> list[tuple[str, int, int]]:
    """Each environment and display, outermost only, with where it starts and ends."""
    found: list[tuple[str, int, int]] = []
    opened: dict[str, int] = {}
    for match in _DELIMITER.finditer(text):
        name = "$$" if match["dollars"] else "[" if match["bracket"] else match["env"]
        closes = match["side"] == "end" or match["bracket"] == "]" or name == "$$"
        if closes and name in opened:
            start = opened.pop(name)
            while found and found[-1][1] >= start:
                found.pop()
            end = min(match.end(), start + _LONGEST)
            if name == "$$" and re.search(r"\n[ \t]*\n", text[start:end]):
                opened[name] = match.start()  # the one before had no partner
            elif match.end() - start < _LONGEST:
                found.append((name, start, match.end()))
        elif match["side"] != "end" and match["bracket"] != "]":
            opened[name] = match.start()
    return found


def scan(piece: Piece) -> list[Passage]:
    """The passages of a text, in order."""
    passages: list[Passage] = []
    at = 0
    for name, start, end in _environments(piece.text):
        if name not in ("tabular", "tabular*"):
            continue
        passages += _scan_lines(piece.cut(at, start))
        inner = _COLUMNS.match(piece.text, start)
        body = piece.cut(inner.end() if inner else start, piece.text.rindex("\\end", start, end))
        passages.append(Passage(piece.cut(start, end), _tabular_rows(body)))
        at = end
    return passages + _scan_lines(piece.cut(at, len(piece.text)))


def _scan_lines(piece: Piece) -> list[Passage]:
    lines = list(piece.lines())
    tables = dict(_tables(lines))
    passages: list[Passage] = []
    paragraph: list[Piece] = []
    whole: list[Piece] = []

    def close() -> None:
        if paragraph:
            passages.append(Passage(joined(paragraph), whole=joined(whole)))
            paragraph.clear()
            whole.clear()

    i = 0
    fenced = False
    while i < len(lines):
        line = lines[i]
        if i in tables:
            rows, end = tables[i]
            close()
            passages.append(Passage(joined(lines[i:end]), rows))
            i = end
            continue
        if _FENCE.match(line.text):
            fenced = not fenced
            close()
        elif not line.text.strip() and not fenced:
            if not _is_within_tensor(lines, i):
                close()
        elif not fenced and (mark := _HEADING.match(line.text)) and not _COMMENT.match(line.text):
            close()
            passages.append(Passage(line.cut(mark.end(), len(line.text)), is_heading=True))
        else:
            mark = _COMMENT.match(line.text) or (_BULLET if fenced else _MARK).match(line.text)
            paragraph.append(line.cut(mark.end(), len(line.text)) if mark else line)
            whole.append(line)
        i += 1
    close()
    return passages


def _is_within_tensor(lines: list[Piece], i: int) -> bool:
    """Whether a blank line stands between two matrices of a tensor, as PyTorch prints it."""
    inner = lines[i - 1 : i + 2]
    return (
        i > 0
        and len(inner) == 3
        and inner[0].text.rstrip().endswith("]],")
        and bool(re.match(r"[# \t]*\[\[", inner[2].text))
    )


# ── tables ────────────────────────────────────────────────────────────────────────────────────


def _tables(lines: list[Piece]) -> list[tuple[int, tuple[list[Row], int]]]:
    """Where tables start, with their rows and where they end."""
    found: list[tuple[int, tuple[list[Row], int]]] = []
    splits = (_pipe_cells, _tab_cells, _comma_cells, _bracket_cells, _space_cells)
    # Where lines can be split in a way, but are no table, the line from which on there may be one.
    hopeless = dict.fromkeys(splits, 0)
    bare = [line.stripped("\r\n") for line in lines]
    i = 0
    while i < len(lines):
        if "$$" in lines[i].text or "\\begin" in lines[i].text:
            i += 1
            continue
        for split in splits:
            if i < hopeless[split]:
                continue
            rows: list[Row] = []
            j = i
            while j < len(lines) and (cells := split(bare[j])) is not None:
                rows.append(cells)
                j += 1
            if not rows:
                continue
            if split in (_pipe_cells, _tab_cells):
                is_table = len(rows) > (split is _pipe_cells) and max(map(len, rows)) > 1
                is_table = is_table and any(_has_numbers(row) for row in rows)
            else:
                is_table = len(rows) > 1
            if is_table:
                if split not in (_pipe_cells, _tab_cells):
                    rows = _with_heading(lines, i, rows, split)
                found.append((i, (rows, j)))
                i = j - 1
                break
            hopeless[split] = j
        i += 1
    return found


def _is_number(text: str) -> bool:
    return as_number(text.strip("*$` \t"), decimal_comma=True) is not None


def _has_numbers(row: Row) -> bool:
    return any(re.search(r"\d", cell.text) for cell in row[-40:])


def _cells(line: Piece, pattern: str) -> Row:
    return [line.cut(*m.span()) for m in re.finditer(pattern, line.text)]


def _split(line: Piece, mark: str) -> Row:
    bounds = [-1, *(m.start() for m in re.finditer(re.escape(mark), line.text)), len(line.text)]
    return [line.cut(a + 1, b) for a, b in pairwise(bounds)]


def _pipe_cells(line: Piece) -> Row | None:
    if not _BARS.search(line.text):
        return None
    text = line.text.translate(_BOX)
    if re.fullmatch(r"\s*\+[-=+]+\+\s*", text):
        text = text.replace("+", "|").replace("=", "-")
    text = text.replace("\\|", "  ")
    if "|" not in text or (text.count("$") > 1 and not re.sub(r"\$[^$]*\$", "", text).count("|")):
        return None
    if _SEPARATOR.fullmatch(text):
        return [Piece("---", range(line.start, line.start + 3))]
    text = re.sub(r"\$[^$|]*\|[^$]*\$", lambda m: m[0].replace("|", " "), text)
    inner = Piece(text, line.at).stripped()
    inner = inner.cut(inner.text.startswith("|"), len(inner.text) - inner.text.endswith("|"))
    return _split(inner, "|")


def _tab_cells(line: Piece) -> Row | None:
    if "\t" not in line.text or "\t" not in line.text.strip(" \r\n") or not line.text.strip():
        return None
    cells = _split(line, "\t")
    return cells if any(cell.text.strip() for cell in cells[1:]) else None


def _comma_cells(line: Piece) -> Row | None:
    if not re.search(r"[,;]", line.text) or re.search(r"[\[\](){}=]", line.text):
        return None
    mark = ";" if ";" in line.text else ","
    return _split(line, mark) if all(map(_is_number, line.text.split(mark)[1:])) else None


def _space_cells(line: Piece) -> Row | None:
    remark = re.search(r"\s(?:←|<-+|#)[^\d.]*", line.text)
    line = line.cut(0, remark.start()) if remark else line
    words = line.text.split()
    if len(words) < 2 or not all(map(_is_number, words[1:])):
        return None
    if not _is_number(words[0]) and (len(words) < 3 or re.search(r"[:=.)]$|^[-*+]$", words[0])):
        return None
    return _cells(line, r"\S+")


def _bracket_cells(line: Piece) -> Row | None:
    """`cat   [[ 0.71, 0.00, 0.71],`: a label and a row of a matrix."""
    match = _BRACKETED.fullmatch(line.text)
    if match is None:
        return None
    numbers = _cells(line.cut(*match.span("row")), r"[^\s,;]+")
    are_numbers = all(_is_number(number.text) for number in numbers)
    return [line.cut(*match.span("label")), *numbers] if are_numbers else None


def _with_heading(
    lines: list[Piece], i: int, rows: list[Row], split: Callable[[Piece], Row | None]
) -> list[Row]:
    """A table in plain columns with its heading: words directly above, or pandas' 0 1 2."""
    empty = Piece("", ())
    counts = [cell.text for cell in rows[0]]
    counted = counts == [str(n) for n in range(len(counts))]
    if counted and len(rows) > 1 and len(rows[1]) == len(counts) + 1:
        return [[empty, *rows[0]], *rows[1:]]
    above = lines[i - 1].stripped() if i else empty
    words = _split(above, ",") if split is _comma_cells else _cells(above, r"\S+")
    labelled = not _is_number(rows[0][0].text) and len(words) < len(rows[0])
    numbered = any(_is_number(word.text) for word in words)
    if not above.text or numbered or len(words) != len(rows[0]) - labelled:
        return rows
    return [[empty, *words] if labelled else words, *rows]


def _tabular_rows(body: Piece) -> list[Row]:
    rules = re.compile(r"\\(?:hline|toprule|midrule|bottomrule|cline\{[^}]*\})|\n")
    body = body.replaced(rules, lambda rule: " " * len(rule[0]))
    rows: list[Row] = []
    at = 0
    for end in re.finditer(r"\\\\(?:\[[^\]]*\])?|$", body.text):
        line = body.cut(at, end.start())
        if line.text.strip():
            rows.append(_cells(line, r"[^&]+"))
        at = end.end()
    return [row for row in rows if row]
