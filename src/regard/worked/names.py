"""What a matrix is, from what people call it: symbols first, then words, in several languages.

The kinds are the steps of a trace, and what is given to them: embeddings, positions, W_Q, W_K, W_V
and W_O.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

__all__ = ["KINDS", "SYMBOLS", "Name", "head_in", "is_sum", "name_of", "named_kind", "plain"]

SYMBOLS = {
    "embeddings": "E",
    "positions": "P",
    "input": "X",
    "W_Q": "W_Q",
    "W_K": "W_K",
    "W_V": "W_V",
    "query": "Q",
    "key": "K",
    "value": "V",
    "scores": "scores",
    "scaled": "scaled",
    "weights": "weights",
    "head_output": "head output",
    "concatenated": "concatenated",
    "W_O": "W_O",
    "output": "output",
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


# ── symbols ───────────────────────────────────────────────────────────────────────────────────

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
_SUBSCRIPTS = str.maketrans("₀₁₂₃₄₅₆₇₈₉", "0123456789")
_LABEL = r"(?:_?\{?\(?(?P<digits>\d+)\)?\}?|_\{?\(?(?P<label>[^{}()_^\s]+)\)?\}?)"
_PROJECTION = re.compile(r"W[_^]?\(?(\d+)?\)?[_^,]?([QKVO])[_^,]?\(?(\d+)?\)?", re.IGNORECASE)
_LETTER = re.compile(
    rf"(?P<letter>PE|[XEPQKVSAZOCα]){_LABEL}?(?:\^\(?(?P<head>\d+)\)?)?(?P<t>\^T)?", re.IGNORECASE
)
_PRODUCT = re.compile(
    r"Q(?:_?(?P<row>[^_^·.*×()\s]+))?[·.*×]*K(?:\^T)?(?:_?(?P<column>[^_^·.*×()\s/]+))?(?:\^T)?"
    r"(?P<divided>\)?/.*)?",
    re.IGNORECASE,
)
_OF_TWO = re.compile(
    r"(?:score|s|dot|e)[_(]+(?P<row>[^,()]+),(?P<column>[^,()]+)\)?", re.IGNORECASE
)
_FORMULAS = (
    (re.compile(r"softmax\(.*\)[·*×]?V", re.IGNORECASE), "head_output"),
    (re.compile(r"softmax\(.*", re.IGNORECASE), "weights"),
    (re.compile(r"A[·*×]?V"), "head_output"),
    (re.compile(r"(?:attention|attn)\(Q,K,V\)", re.IGNORECASE), "head_output"),
    (re.compile(r"X[·*×]?W[_^]?Q", re.IGNORECASE), "query"),
    (re.compile(r"X[·*×]?W[_^]?K", re.IGNORECASE), "key"),
    (re.compile(r"X[·*×]?W[_^]?V", re.IGNORECASE), "value"),
    (re.compile(r"(?:S|scores?)/(?:√|sqrt).*", re.IGNORECASE), "scaled"),
    (re.compile(r"(?:concat|C)\(?.*\)?[·*×]?W[_^]?O", re.IGNORECASE), "output"),
    (re.compile(r"concat\(.*", re.IGNORECASE), "concatenated"),
)


def plain(text: str) -> str:
    """Mathematics as plain text: no dollar signs, no commands for fonts, one way to write each.

    >>> plain(r"$$\\mathbf{W}_{Q}$$"), plain(r"$$Q.K^T_1$$"), plain("S / √d_k")
    ('W_Q', 'Q·K^T_1', 'S/√d_k')
    """
    text = text.replace("\\\\", "\\").translate(_SUBSCRIPTS)
    text = re.sub(
        r"\\(?:mathbf|mathrm|mathbb|mathit|text|textbf|boldsymbol|bm|operatorname)\b", "", text
    )
    text = re.sub(r"\\(?:left|right|displaystyle|big|Big|,|;|!|quad)(?![a-zA-Z])", "", text)
    text = re.sub(r"\\(?:cdot|bullet)(?![a-zA-Z])|\*", "·", text)
    text = re.sub(r"\\times(?![a-zA-Z])", "×", text)
    text = re.sub(r"\\alpha(?![a-zA-Z])", "α", text)
    text = re.sub(r"\\d?frac\{([^{}]*)\}\{((?:[^{}]|\{[^{}]*\})*)\}", r"\1/\2", text)
    text = re.sub(r"\\sqrt\b", "√", text)
    text = re.sub(
        r"\^\s*\{?\s*\\?(?:T|top|intercal|mathsf\{T\})\s*\}?(?![a-zA-Z])|ᵀ|(?<=[QKVA])'(?!\w)",
        "^T",
        text,
    )
    text = re.sub(r"(?<=[QKqk\d}])\.(?=\s*[Kk])", "·", text)
    text = text.replace("\\", "").replace("$", "").replace("`", "").replace("**", "")
    text = re.sub(r"[{}\s]", "", text)
    return text.strip(".:,;=≈")


def _symbol(text: str) -> Name | None:
    """The name if the whole of `text` is a symbol or a formula, else None."""
    text = plain(text)
    if not text:
        return None
    if match := _PROJECTION.fullmatch(text):
        head = match[1] or match[3]
        return Name(f"W_{match[2].upper()}", head=int(head) if head else None)
    if match := _LETTER.fullmatch(text):
        # A capital without a mark is the matrix; a small letter needs one, or is just a letter.
        if match["letter"].islower() and not (match["digits"] or match["label"]):
            return Name(_LETTERS[match["letter"].upper()]) if match["letter"] in "xqkv" else None
        return Name(
            _LETTERS[match["letter"].upper()],
            head=int(match["head"]) if match["head"] else None,
            row=match["digits"] or match["label"],
            transposed=bool(match["t"]),
        )
    if match := _PRODUCT.fullmatch(text):
        kind = "scaled" if match["divided"] else "scores"
        return Name(kind, row=match["row"], column=match["column"])
    if match := _OF_TWO.fullmatch(text):
        return Name("scores", row=match["row"], column=match["column"])
    for formula, kind in _FORMULAS:
        if formula.fullmatch(text):
            return Name(kind)
    return None


def _symbol_within(text: str) -> Name | None:
    """The one symbol that a title contains: in brackets, in mathematics, or as its own word."""
    pieces = [*re.findall(r"\(([^()]*)\)", text), *re.findall(r"\$+([^$]+)\$+", text)]
    for piece in list(pieces):
        left, equals, _ = piece.partition("=")
        pieces += [left] if equals else []
    names = [name for piece in pieces if (name := _symbol(piece)) is not None]
    if not names:
        # A lone letter is a symbol only where it cannot be a word: “A” and “I” can.
        words = re.findall(r"(?<![\w^\\])(?:W[_^]?\{?[QKVOqkvo]\}?|[QKVX])(?:\^T)?(?![\w'’])", text)
        names = [name for word in words if (name := _symbol(word)) is not None]
        product = re.search(r"Q\s*[·.*×]?\s*K\s*(?:\^\{?\\?T|ᵀ)", text)
        if product:
            return Name("scores")
    kinds = {name.kind for name in names}
    return names[0] if len(kinds) == 1 else None


# ── words ─────────────────────────────────────────────────────────────────────────────────────

_QUERY = r"\bquer(?:y|ies)\b|쿼리|질의|কোয়েরি|কুয়েরি|প্রশ্ন|查询|クエリ|\babfrage|\brequête|\bconsulta"
_KEY = r"\bkeys?\b|(?<!\w)키(?!\w)|키 |কী(?!\w)|চাবি|键|キー|schlüssel|\bclés?\b|\bclaves?\b"
_VALUE = (
    r"\bvalues?\b|밸류|(?<!\w)값|মান(?!\w)|ভ্যালু|值|バリュー|\bwerte?\b|\bvaleurs?\b|\bvalor(?:es)?\b"
)
_PROJECTED = (
    r"projection|weight matri|parameter|\bweights?\b|\bmatri(?:x|ces) w\b|투영|사영|가중치|ওজন|投影"
)

# The first line that fits decides: “softmax of the scaled scores” is about weights.
_WORDS: tuple[tuple[str, str], ...] = (
    ("concatenated", r"concat|연결|이어 ?붙|সংযুক্ত|জোড়া|拼接|連結|verkettet"),
    (
        "head_output",
        r"weighted sum|context(?:ual(?:ised|ized)?)? (?:vector|embedding)|head(?: \d+)? output"
        r"|output of (?:the )?head|가중 ?합|헤드 ?\d* ?출력|ভারিত যোগফল|加权和|gewichtete summe"
        r"|after (?:passing through )?(?:self[ -])?attention",
    ),
    (
        "weights",
        r"attention[ -]weight|attention prob|attention distribution|softmax|소프트맥스"
        r"|어텐션 ?가중치|주의 ?가중치|সফটম্যাক্স|অ্যাটেনশন ওয়েট|মনোযোগের ওজন|注意力权重|重み"
        r"|aufmerksamkeitsgewicht|poids d.attention|pesos de atenci",
    ),
    ("scaled", r"\bscal(?:ed|ing)\b|스케일|স্কেল|缩放|スケール|skalier"),
    (
        "scores",
        r"\bscores?\b|dot[ -]products?|점수|스코어|내적|স্কোর|ডট গুণ|得分|分数|スコア|skalarprodukt",
    ),
    ("positions", r"position|위치|포지션|অবস্থান|পজিশন|位置"),
)
_LAST_WORDS: tuple[tuple[str, str], ...] = (
    ("weights", r"\bweights?\b|가중치|ওজন|权重|\bgewichte\b|\bpoids\b|\bpesos\b"),
    (
        "output",
        r"\boutputs?\b|\bresult\b|출력|결과|আউটপুট|ফলাফল|输出|出力|ausgabe|\bsortie\b|\bsalida\b",
    ),
    (
        "embeddings",
        r"embedding|\binputs?\b|임베딩|입력|এম্বেডিং|এমবেডিং|ইনপুট|嵌入|埋め込み|einbettung|plongement",
    ),
)


def _words(text: str) -> str | None:
    """The kind that a title's words name, or None."""
    text = text.casefold().replace("_", " ")
    for kind, pattern in _WORDS:
        if re.search(pattern, text):
            return kind
    letters = [
        letter
        for letter, pattern in (("Q", _QUERY), ("K", _KEY), ("V", _VALUE))
        if re.search(pattern, text)
    ]
    if len(letters) == 1:
        if re.search(_PROJECTED, text):
            return f"W_{letters[0]}"
        return {"Q": "query", "K": "key", "V": "value"}[letters[0]]
    if letters:
        return None
    for kind, pattern in _LAST_WORDS:
        if re.search(pattern, text):
            return kind
    return None


def name_of(text: str) -> Name | None:
    """What `text`, left of a matrix or above it, calls that matrix; None where it does not say.

    >>> name_of("Query Projection (W_q)").kind, name_of("E_{The} =").row, name_of("쿼리 행렬").kind
    ('W_Q', 'The', 'query')
    """
    text = text.strip()
    if text in KINDS:
        return Name(text)
    left, equals, _ = re.sub(r"≈|\\approx", "=", text).partition("=")
    # What stands before the symbol on its line: list marks, words that end in a colon.
    left = re.sub(r"^\s*(?:[-*+•]|\d+[.)])\s+", "", left)
    name = _symbol(left)
    if name is None and equals:
        name = _symbol(left.split()[-1]) if left.split() else None
    name = name or _symbol_within(text)
    if name is None and (kind := _words(text)):
        name = Name(kind)
    head = head_in(text)
    if name is not None and name.head is None and head is not None:
        name = replace(name, head=head)
    if name is not None and name.kind == "output" and head is not None:
        name = replace(name, kind="head_output")
    return name


def named_kind(text: str) -> Name | None:
    """The kind that a person asked for by `--as …=K`: a symbol, a kind or a step's name.

    >>> named_kind("Wq").kind, named_kind("head output").kind, named_kind("nonsense")
    ('W_Q', 'head_output', None)
    """
    key = text.strip().casefold().replace(" ", "_")
    if key in KINDS:
        return Name(key)
    aliases = {"concat": "concatenated", "score": "scores", "weight": "weights"}
    if key in aliases:
        return Name(aliases[key])
    return _symbol(text)


_HEAD = re.compile(
    r"\bheads?[ _#-]?(\d+)\b|\b(\d+)(?:st|nd|rd|th) head\b|헤드 ?(\d+)|(\d+)번 ?헤드|হেড ?(\d+)"
    r"|\bkopf (\d+)\b|\btête (\d+)\b|头 ?(\d+)|ヘッド ?(\d+)",
    re.IGNORECASE,
)


def head_in(text: str) -> int | None:
    """The number of the one head that a text speaks of, or None.

    >>> head_in("Step 3: Learned Projections (Head 1)"), head_in("2 heads")
    (1, None)
    """
    numbers = {int(next(group for group in match if group)) for match in _HEAD.findall(text)}
    return numbers.pop() if len(numbers) == 1 else None


def is_sum(text: str) -> bool:
    """Whether a column's heading says that it holds the sums of the rows."""
    return bool(
        re.fullmatch(
            r"(?:row )?(?:sum|total|Σ|합|합계|যোগফল|মোট|summe|somme|suma|合计|和)s?",
            text.strip().casefold(),
        )
    )
