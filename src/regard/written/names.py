"""What a matrix is, from what people call it: symbols first, then words.

The kinds are the steps of a trace, and what is given to them: embeddings, positions, the context
of cross-attention, W_Q, W_K, W_V and W_O, the biases b_Q, b_K, b_V and b_O; and the steps of a
layer around attention (`layer_names.py`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from regard.written.layer_names import LAYER_SYMBOLS, layer_formula, layer_title
from regard.written.words import head_in, is_other, kind_in

__all__ = [
    "KINDS",
    "SYMBOLS",
    "Name",
    "clean",
    "is_other_name",
    "name_of",
    "named_kind",
    "plain",
]

SYMBOLS = {
    "embeddings": "E",
    "positions": "P",
    "input": "X",
    "context": "X_enc",
    "W_Q": "W_Q",
    "W_K": "W_K",
    "W_V": "W_V",
    "b_Q": "b_Q",
    "b_K": "b_K",
    "b_V": "b_V",
    "query": "Q",
    "key": "K",
    "value": "V",
    "scores": "scores",
    "scaled": "scaled",
    "weights": "weights",
    "head_output": "head output",
    "concatenated": "concatenated",
    "W_O": "W_O",
    "b_O": "b_O",
    "output": "output",
    **LAYER_SYMBOLS,
}
KINDS = tuple(SYMBOLS)


@dataclass(frozen=True)
class Name:
    """A kind, and what else the name said: which head, which row (and column), transposed."""

    kind: str
    head: int | None = None
    row: str | None = None
    column: str | None = None
    transposed: bool = False


_LETTERS = {
    "X": "input",
    "E": "embeddings",
    "P": "positions",
    "PE": "positions",
    "Q": "query",
    "K": "key",
    "V": "value",
    "S": "scores",
    "A": "weights",
    "α": "weights",
    "Z": "head_output",
    "C": "concatenated",
    "O": "output",
}
_DERIVATIVE = re.compile(r"∂|\\partial\b|\\nabla\b|∇")
_LONGEST = 300  # characters of a title that are looked at
_REMEMBERED = 8192  # texts: the labels of a matrix are looked up again for each of its rows
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉ₖᵥₒ", "0123456789kvo")
_LABEL = r"(?:_?\(?(?P<digits>\d{1,4})\)?|_\(?(?P<label>[^()_^\s]{1,40})\)?)"
_PROJECTION = re.compile(
    r"(?P<letter>[Wb])[_^]?\(?(?P<a>\d{1,4}|[ih](?=[_^]))?\)?[_^,]?\(?"
    r"(?P<of>[QKVO]|query|key|value|output|out)\)?[_^,]?\(?(?P<b>\d{1,4})?\)?",
    re.IGNORECASE,
)
_LETTER = re.compile(
    rf"(?P<letter>PE|[XEPQKVSAZOCα]){_LABEL}?(?:\^\(?(?P<head>\d{{1,4}})\)?)?(?P<t>\^T)?",
    re.IGNORECASE,
)
_WORD = re.compile(
    rf"(?P<word>scores?|scaled|weights?|attn|output|out|query|queries|keys?|values?){_LABEL}",
    re.IGNORECASE,
)
_OPERATED = re.compile(r"[/+*·×−-]\s*\S+\s*$")
_TRANSPOSED = r"(?:\^T|\.T\b)"
_FACTOR = r"(?:_?(?P<{}>(?<=_)[^_^·.*×@()\s/]{{1,40}}|\d{{1,4}}))?"
_PRODUCT = re.compile(
    rf"\(?Q{_FACTOR.format('row')}{_TRANSPOSED}?[·.*×@]*"
    rf"K{_TRANSPOSED}?{_FACTOR.format('column')}{_TRANSPOSED}?\)?(?P<divided>/.*)?",
    re.IGNORECASE,
)
_OF_TWO = re.compile(
    r"(?:score|s|dot|e)[_(]+(?P<row>[^,()]{1,40}),(?P<column>[^,()]{1,40})\)?", re.IGNORECASE
)
_FORMULAS = tuple(
    (re.compile(pattern, re.IGNORECASE), kind)
    for pattern, kind in (
        (r"(?:multi-?head)\(.*", "output"),
        (r"softmax\(.*\)[·*×@]?V", "head_output"),
        (r"softmax\(.*", "weights"),
        (r"[APα][·*×@]?V", "head_output"),
        (r"(?:attention|attn)\(Q,K,V\)", "head_output"),
        (r"X[·*×@]?W[_^]?Q", "query"),
        (r"X[·*×@]?W[_^]?K", "key"),
        (r"X[·*×@]?W[_^]?V", "value"),
        (r"(?:S|scores?)(?:[_^]\(?(?P<head>\d{1,4})\)?)?/.*", "scaled"),
        (r"S['′~]+|(?:tilde|hat)S|S_scaled", "scaled"),
        (r"X_?\(?(?:enc|encoder|memory|source|src)\)?", "context"),
        (r"X_?\(?(?:dec|decoder|target|tgt)\)?", "input"),
        (r".*[·*×@]W[_^]?O|(?:concat|C)\(?.*\)?W[_^]?O", "output"),
        (r"concat\(.*|\[head_?1.*", "concatenated"),
    )
)
# The same within a title, among words.
_FORMULAS_WITHIN = tuple(
    (re.compile(pattern, re.IGNORECASE), kind)
    for pattern, kind in (
        (r"(?:weights?|softmax|attention|\bA|\bP|α)\)?\s*[·*×@]\s*V\b", "head_output"),
        (r"[·*×@]\s*W[_^]?O\b", "output"),
        (rf"\bQ\s*[·.*×@]?\s*K\s*{_TRANSPOSED}\s*\)?\s*/", "scaled"),
        (rf"\bQ\s*[·.*×@]?\s*K\s*{_TRANSPOSED}", "scores"),
    )
)

_COMMANDS = tuple(
    (re.compile(pattern), new)
    for pattern, new in (
        (
            r"\\(?:mathbf|mathrm|mathbb|mathit|text|textbf|boldsymbol|bm|operatorname|mathcal)\b",
            "",
        ),
        (r"\\(?:left|right|displaystyle|big|Big|,|;|!|quad)(?![a-zA-Z])", ""),
        (r"\\(?:cdot|bullet)(?![a-zA-Z])", "·"),
        (r"\\times(?![a-zA-Z])", "×"),
        (r"\\alpha(?![a-zA-Z])", "α"),
        (r"\\[dt]?frac\{((?:[^{}]|\{[^{}]*\})*)\}\{((?:[^{}]|\{[^{}]*\})*)\}", r"\1/\2"),
        (r"\\sqrt\b", "√"),
    )
)
_TRANSPOSITION = re.compile(
    r"\^\s*\{?\s*\\?(?:T|top|intercal|mathsf\{T\})\s*\}?(?![a-zA-Z])|ᵀ|(?<=[QKVA])'(?!\w)"
)
_DOT = re.compile(r"(?<=[QKqk\d}])\.(?=\s*[Kk])")
_MARKS = str.maketrans("", "", "\\$`{}&")
_LETTERED = re.compile(r"[^\W\d_]")
_BLANK = re.compile(r"\s")
_LINE_MARKS = re.compile(r"^\s*(?:(?:[-*+•>]|#+|//|\d+[.)])\s+)+")
_LINE_MARK = re.compile(r"^\s*(?:[-*+•#>]+|//|\d+[.)])\s+")
_EQUAL = re.compile(r"(?<![<>!])=(?!>)|≈|\\approx")
_EQUALS = re.compile(r"=|≈")
_SET_INSIDE = re.compile(r"\([^)]*=")
_TYPED = re.compile(r"[$*`&]|[:→]\s*$|^\\begin\{\w+\*?\}|^\\\\(?!\w)")
_DISPLAY = re.compile(r"^\s*\\\[")
_IN_BRACKETS = re.compile(r"\(([^()]*)\)")
_IN_DOLLARS = re.compile(r"\$([^$]+)\$")
_BREAK = re.compile(r"\\newline|\\\\")
_BEGIN = re.compile(r"\\begin\{\w+\*?\}")
_BRACES = re.compile(r"[&{}]")
_NO_STEP = re.compile(
    r"\W*(?:causal |attention |padding |look-?ahead )?mask\b"
    r"|(?:attention )?(?:weights?|rows?) sums?\W*$",
    re.IGNORECASE,
)
_VARIABLE = re.compile(r"[\s$]*(?:[A-Za-z]\w{2,30}|h)\s*=\s*\S{0,20}\s*")


@lru_cache(maxsize=_REMEMBERED)
def plain(text: str) -> str:
    """Mathematics as plain text: no dollar signs, no commands for fonts, one way to write each.

    >>> plain(r"$$\\mathbf{W}_{Q}$$"), plain(r"$$Q.K^T_1$$"), plain("S / √d_k")
    ('W_Q', 'Q·K^T_1', 'S/√d_k')
    """
    text = _math(text)
    return _BLANK.sub("", text).strip(".:,;=≈&")


def _math(text: str) -> str:
    """The same with its blanks, so that words stay apart."""
    text = text.replace("\\\\", "\\").translate(_SUBSCRIPTS)
    if "\\" in text:
        for command, new in _COMMANDS:
            text = command.sub(new, text)
    text = text.replace("*", "·")
    if any(mark in text for mark in "^ᵀ'"):
        text = _TRANSPOSITION.sub("^T", text)
    if "." in text:
        text = _DOT.sub("·", text)
    return text.translate(_MARKS)


def _symbol(text: str) -> Name | None:
    """The name if the whole of `text` is a symbol or a formula, else None."""
    text = plain(text)
    if len(text) > _LONGEST or not _LETTERED.search(text):
        return None
    if match := _PROJECTION.fullmatch(text):
        head = match["a"] if (match["a"] or "").isdigit() else match["b"]
        letter = match["letter"].upper() if match["letter"] in "Ww" else "b"
        return Name(f"{letter}_{match['of'][0].upper()}", head=int(head) if head else None)
    for formula, kind in _FORMULAS:
        if found := formula.fullmatch(text):
            head = found.groupdict().get("head")
            return Name(kind, head=int(head) if head else None)
    if match := _LETTER.fullmatch(text):
        return _letter(match)
    match = _WORD.fullmatch(text)
    if match and not kind_in(match["label"] or ""):  # scaled_scores is no row of the scaled
        kind = kind_in(match["word"])
        return Name(kind, row=match["digits"] or match["label"]) if kind else None
    if match := _PRODUCT.fullmatch(text):
        kind = "scaled" if match["divided"] else "scores"
        return Name(kind, row=match["row"], column=match["column"])
    if match := _OF_TWO.fullmatch(text):
        return Name("scores", row=match["row"], column=match["column"])
    return None


def _letter(match: re.Match[str]) -> Name | None:
    letter = match["letter"]
    kind = _LETTERS["α" if letter in "αΑ" else letter.upper()]
    if (match["label"] or "").casefold().startswith("concat"):
        return Name("concatenated")
    # A capital without a mark is the matrix; a small letter needs one, or is just a letter.
    if letter.islower() and letter != "α" and not (match["digits"] or match["label"]):
        return Name(kind) if letter in "xqkv" else None
    return Name(
        kind,
        head=int(match["head"]) if match["head"] else None,
        row=match["digits"] or match["label"],
        transposed=bool(match["t"]),
    )


def _symbol_within(text: str) -> Name | None:
    """The one symbol that a title contains: in brackets, in mathematics, or as its own word."""
    written = _math(text)
    for formula, kind in _FORMULAS_WITHIN:
        if formula.search(written):
            return Name(kind)
    pieces = [*re.findall(r"\(([^()]*)\)", text), *re.findall(r"\$([^$]+)\$", text)]
    for piece in list(pieces):
        left, equals, _ = piece.partition("=")
        pieces += [left] if equals else []
    names = [name for piece in pieces if (name := _symbol(piece)) is not None]
    if not names:
        # A lone letter is a symbol only where it cannot be a word: “A” and “I” can.
        words = re.findall(r"(?<![\w^\\])(?:W[_^]?\{?[QKVOqkvo]\}?|[QKVX])(?:\^T)?(?![\w'’])", text)
        names = [name for word in words if (name := _symbol(word)) is not None]
    kinds = {name.kind for name in names}
    return names[0] if len(kinds) == 1 else None


@lru_cache(maxsize=_REMEMBERED)
def name_of(text: str) -> Name | None:
    """What `text`, left of a matrix or above it, calls that matrix; None where it does not say.

    In `Q = X W_Q =` the left counts; what is right of the first `=` only if the left says nothing.

    >>> name_of("Query Projection (W_q)").kind, name_of("E_{The} =").row, name_of("쿼리 행렬").kind
    ('W_Q', 'The', 'query')
    """
    text = text.strip()
    if text in KINDS:
        return Name(text)
    if not _LETTERED.search(text):
        return None
    # What stands before a name on its line: marks of lists, headings, quotations and comments.
    text = _LINE_MARKS.sub("", text)
    left, *rights = _EQUAL.split(text)
    left, rights = left[-_LONGEST:], [right[:_LONGEST] for right in rights[:4]]
    if _DERIVATIVE.search(left):  # ∂L/∂V is no V
        return None
    name = _symbol(left)
    if (layer := _layer(left, rights, name)) is not None:
        return layer
    if name is None and rights and left.split() and not _OPERATED.search(left):
        words = left.split()
        name = _symbol("".join(words[-2:])) or _symbol(words[-1]) or _head_symbol(words[-1])
    if name is None and is_other(left):
        return None
    name = name or _symbol_within(left)
    if name is None and (kind := kind_in(left)):
        name = Name(kind)
    if name is None or (name.kind == "positions" and re.search("softmax", text)):
        found = [right_name for right in rights if (right_name := _symbol(right))]
        name = found[0] if found else name
    head = head_in(left)
    if name is not None and name.head is None and head is not None:
        name = replace(name, head=head)
    if name is not None and name.kind == "output" and head is not None:
        name = replace(name, kind="head_output")
    return name


def _layer(left: str, rights: list[str], name: Name | None) -> Name | None:
    """A step of a layer: by its formula, also after a letter (Z = LayerNorm(X)), or in words."""
    pieces: list[str] = []
    if name is None:
        left = _DISPLAY.sub("", left)
        pieces = [left, *_IN_BRACKETS.findall(left), *_IN_DOLLARS.findall(left)]
    if name is None or name.kind in ("input", "embeddings", "head_output", "output"):
        pieces += rights
    for piece in pieces:
        if found := layer_formula(plain(piece)):
            return Name(found[0], row=found[1] or (name.row if name is not None else None))
    kind = layer_title(left) if name is None else None
    return Name(kind) if kind else None


def clean(text: str) -> str:
    """A name as a person would type it: without marks, and without what follows `=`."""
    text = _LINE_MARK.sub("", text.strip())
    text = _EQUALS.split(text, 1)[0] if not _SET_INSIDE.search(text[:300]) else text
    return _TYPED.sub("", text).strip()[:200]


def is_other_name(lead: str) -> bool:
    """Whether something is set equal to a variable that says nothing: no title may say it then.

    >>> [is_other_name(lead) for lead in ("arr = ", "Q =", "∂L/∂Q =", "W_{xh} &=")]
    [True, False, True, True]
    """
    if name_of(lead) is not None:
        return False
    bare = _BREAK.split(_BEGIN.sub("", lead))[-1] if "\\" in lead else lead
    bare = _BRACES.sub("", bare) if "_{" in bare else bare
    return bool(_DERIVATIVE.search(lead) or _VARIABLE.fullmatch(bare) or _NO_STEP.match(lead))


def _head_symbol(text: str) -> Name | None:
    """`head_1 =` is the output of head 1."""
    match = re.fullmatch(r"head_?\(?(\d{1,4})\)?", plain(text), re.IGNORECASE)
    return Name("head_output", head=int(match[1])) if match else None


def named_kind(text: str) -> Name | None:
    """The kind that a person asked for by `--as …=K`: a symbol, a kind or a step's name.

    >>> named_kind("Wq").kind, named_kind("head output").kind, named_kind("nonsense")
    ('W_Q', 'head_output', None)
    """
    key = text.strip().casefold().replace(" ", "_")
    if key in KINDS:
        return Name(key)
    aliases = {"concat": "concatenated", "score": "scores", "weight": "weights"}
    aliases |= {symbol.casefold().replace(" ", "_"): kind for kind, symbol in LAYER_SYMBOLS.items()}
    if key in aliases:
        return Name(aliases[key])
    if kind := layer_title(text):
        return Name(kind)
    found = layer_formula(plain(text))
    return Name(found[0], row=found[1]) if found else _symbol(text)
