"""Mathematics in running text as tokens, the same for LaTeX and for plain letters."""

from __future__ import annotations

import re
from dataclasses import dataclass

__all__ = ["MATRICES", "Token", "tokens_of"]


@dataclass(slots=True)
class Token:
    """One token: `kind`, its text in the one way of writing that the grammar knows, its span.

    Kinds: number, word, relation, weak (an arrow or a colon), other relation, operator, open,
    close, comma, cell, row, newline, begin, end, frac, root, sub, sup, transpose, dots, math, junk.
    `partner` is the matching bracket; `gap` says that a blank stands before it.
    """

    kind: str
    text: str
    start: int
    end: int
    gap: bool = False
    partner: int = -1


MATRICES = re.compile(r"[bBpvV]?(?:small)?matrix\*?|array|tabular\*?|cases")
_LETTERS = r"[^\W\d_⁰¹²³⁴⁵⁶⁷⁸⁹₀-₉]++|[\u0300-\u036f\u0900-\u0dff\u0e00-\u0eff]"
_DIGITS = r"[1-9]\d{0,2}(?:,\d{3})+(?![\d.,])|\d+(?:_\d+)*(?:\.\d*)?|\.\d+"
_TOKEN = re.compile(
    rf"""(?P<newline>\n)
    |(?P<space>[ \t\r\u00a0\u2000-\u200a\u202f\u3000~]+|\\[,;:!>\ ]|\\(?:q?quad|left|right|middle
        |[bB]igg?[lr]?|displaystyle|textstyle|hline|limits|nonumber|notag|toprule|midrule
        |bottomrule|centering)(?![a-zA-Z])|\\(?:label|tag|vspace|hspace|phantom|cline|color)\{{[^}}\n]*\}})
    |\\{{1,2}}(?P<env>begin|end)\{{(?P<name>\w+\*?)\}}(?P<columns>\{{[^{{}}\n]*\}}|\[[^\]\n]*\])?
    |(?P<row>\\\\(?![a-zA-Z]{{3}})(?:\[\d[^\]\n]{{0,9}}\])?|\\cr(?![a-zA-Z])|\\tabularnewline)
    |\\{{1,2}}(?:mathrm|text|operatorname|mathbf|textbf|mathsf)\s*\{{(?P<upright>[a-zA-Z]+)\}}
    |\\{{1,2}}(?P<command>[a-zA-Z]+)
    |(?P<math>\$+|\\[()])
    |(?P<dots>\.\.\.+|…|⋯|⋮|⋱)
    |(?P<number>(?:{_DIGITS})(?:[eE][+\-−]?\d+(?![\w.]))?(?:\s?\\?%(?!\s?\d))?|∞|(?:inf|Infinity)\b)
    |(?P<word>(?:{_LETTERS})(?:{_LETTERS}|(?<=\w)['’](?={_LETTERS}))*+)
    |(?P<relation>={{1,2}}(?!>)|≈|≃|≅|≒|:=|＝|\u2245)
    |(?P<weak>=>|-{{1,9}}>|→|⇒|⟹|⟶|:|：|➜|➡)
    |(?P<other>≠|!=|[<>]=?|≤|≥|∈|~=|∼|≡|∝)
    |(?P<operator>\*\*|[+\-−–*/·•⋅∙×÷@⊙∘])
    |\\?(?P<open>[\[({{（【])|\\?(?P<close>[\])}}）】])
    |(?P<comma>[,;，；、])|(?P<cell>&)
    |(?P<transpose>[ᵀ⊤]|\.T\b|\.t\(\)|\.transpose\([^()\n]*\)|(?<=[KQV])['′])
    |(?P<power>[⁰¹²³⁴⁵⁶⁷⁸⁹]+)|(?P<digit>[₀-₉]+)|(?P<sub>_)|(?P<sup>\^)|(?P<root>√)
    |(?P<junk>.)""",
    re.VERBOSE | re.DOTALL,
)
# `[1,2]` and `1,2,3` are lists of whole numbers; `[0,25]` and `[1,2 , 0]` have decimals in them.
_DECIMALS = (
    r"(?<!\d,)(?<!\d)(?:0,\d\d+|(?<![\[])(?<!\[[-−])\d+,\d+|\d+,\d+(?![\d\]]))(?!,?\d)"
    r"|\d+(?:\.\d+)?|\.\d+"
)
_WITH_COMMAS = re.compile(_TOKEN.pattern.replace(_DIGITS, _DECIMALS), re.VERBOSE | re.DOTALL)
# Where semicolons stand between decimals, no comma does.
_SEMICOLONS = re.compile(r"\d,\d+\s*;\s*[-−]?\d+,\d")
_WITH_SEMICOLONS = re.compile(
    _TOKEN.pattern.replace(_DIGITS, r"\d+,\d+(?![\d,])|\d+|\.\d+"), re.VERBOSE | re.DOTALL
)
_COMMANDS = {
    **dict.fromkeys(("cdot", "bullet", "ast", "star"), ("operator", "·")),
    **dict.fromkeys(("odot", "circ"), ("operator", "⊙")),
    "times": ("operator", "×"),
    "div": ("operator", "/"),
    "pm": ("junk", "±"),
    **dict.fromkeys(("approx", "simeq", "approxeq", "cong", "doteq", "eq"), ("relation", "≈")),
    **dict.fromkeys(
        ("to", "rightarrow", "Rightarrow", "longrightarrow", "implies", "mapsto", "Longrightarrow"),
        ("weak", "→"),
    ),
    **dict.fromkeys(
        (
            "neq",
            "ne",
            "le",
            "leq",
            "ge",
            "geq",
            "lt",
            "gt",
            "in",
            "sim",
            "propto",
            "equiv",
            "ll",
            "gg",
        ),
        ("other", "≠"),
    ),
    **dict.fromkeys(("frac", "dfrac", "tfrac", "cfrac"), ("frac", "frac")),
    "sqrt": ("root", "√"),
    **dict.fromkeys(("top", "intercal", "transpose"), ("word", "T")),
    "infty": ("number", "∞"),
    **dict.fromkeys(("dots", "ldots", "cdots", "vdots", "ddots", "dotsc"), ("dots", "…")),
    **dict.fromkeys(("lbrack", "lbrace", "langle"), ("open", "[")),
    **dict.fromkeys(("rbrack", "rbrace", "rangle"), ("close", "]")),
    "alpha": ("word", "α"),
}
_FONT = re.compile(
    "math(?:bf|rm|bb|it|sf|cal|tt|op)|text(?:bf|rm|it|sf|color)?|boldsymbol|bm|bf|rm|operatorname"
    "|boxed|underline|overline|hat|tilde|vec|bar|underbrace|overbrace|emph|small|scriptstyle|mbox"
    "|fbox|cancel|ensuremath"
)
_SAME = {"（": "(", "）": ")", "【": "[", "】": "]", "−": "-", "–": "-", "＝": "=", "÷": "/"}
_POWERS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹₀₁₂₃₄₅₆₇₈₉", "01234567890123456789")
_PAIRS = {"(": ")", "[": "]", "{": "}"}


def tokens_of(text: str, *, decimal_comma: bool = False) -> list[Token]:
    """The tokens of a text, brackets and environments matched; a blank only widens the next gap.

    >>> [token.text for token in tokens_of(r"$S_1 \\approx 0.7 \\cdot (1 + 2)$")]
    ['S', '_', '1', '≈', '0.7', '·', '(', '1', '+', '2', ')']
    """
    tokens: list[Token] = []
    gap = False
    pattern = _TOKEN
    if decimal_comma:
        pattern = _WITH_SEMICOLONS if _SEMICOLONS.search(text) else _WITH_COMMAS
    for match in pattern.finditer(text):
        kind = match.lastgroup or "junk"
        written = match[0]
        if kind in ("space", "math"):
            gap = True
            continue
        start, end = match.span()
        if kind == "number":
            if written[0] in "iI":
                written = "∞"
            after_frac = bool(tokens) and tokens[-1].kind == "frac" and not gap
            if after_frac and written.isdecimal() and len(written) == 2:  # \\frac12 is a half
                tokens.append(Token("number", written[0], start, start + 1))
                tokens.append(Token("number", written[1], start + 1, end))
                continue
        elif kind == "word":
            if written in "xX" and _between_numbers(text, match):
                kind, written = "operator", "×"
        elif kind in ("name", "columns"):  # the last part of \\begin and \\end
            kind, written = match["env"], match["name"]
            if not MATRICES.fullmatch(written):  # align, equation, itemize: no bracket
                kind = "newline"
        elif kind == "upright":
            kind, written = "word", match["upright"]
        elif kind == "command":
            name = match["command"]
            if _FONT.fullmatch(name):
                gap = True
                continue
            kind, written = _COMMANDS.get(name, ("word", name))
        elif kind in ("open", "close"):
            written = written.lstrip("\\")
        elif kind in ("power", "digit"):
            written = written.translate(_POWERS)
        tokens.append(Token(kind, _SAME.get(written, written), start, end, gap))
        gap = False
    tokens = _without_comments(tokens) if "#" in text else tokens
    _match_brackets(tokens)
    end = -1  # of the bracket or matrix that is open
    for i, token in enumerate(tokens):
        kind = token.kind
        if kind == "number":
            if token.text[-1] == "." and i > end:  # the sentence's
                token.text, token.end = token.text[:-1], token.end - 1
        elif kind == "word":
            if token.text in ("σ", "sigma") and _opens_row(tokens, i + 1):
                token.text = "squashed"  # σ([1, 2]): a softmax, or a sigmoid of each
        elif kind in ("begin", "open"):
            end = max(end, token.partner)
        elif kind == "row" and i > end:  # of `align`
            token.kind = "newline"
    return tokens


def _opens_row(tokens: list[Token], i: int) -> bool:
    """Whether `([` stands there."""
    inner = [token for token in tokens[i + 1 : i + 3] if token.kind != "cell"]
    opens = i < len(tokens) and tokens[i].text == "(" and tokens[i].partner > 0
    return opens and bool(inner) and inner[0].text == "["


def _without_comments(tokens: list[Token]) -> list[Token]:
    """Without what stands after `#` at the end of a line, if it holds no number."""
    kept: list[Token] = []
    line: list[Token] = []
    for token in [*tokens, Token("newline", "", 0, 0)]:
        line.append(token)
        if token.kind != "newline":
            continue
        marks = [k for k, other in enumerate(line) if other.text == "#" and k and other.gap]
        remark = line[marks[0] + 1 : -1] if marks else []
        numbers = [other for other in remark if other.kind == "number"]
        # `K = x @ W  # [3, 4]` tells a shape.
        is_shape = bool(numbers) and all(
            other.text.isdigit() if other.kind == "number" else other.text in "[],()@="
            for other in remark
        )
        if marks and (not numbers or is_shape):
            del line[marks[0] : -1]
        kept += line
        line = []
    return kept[:-1]


def _between_numbers(text: str, match: re.Match[str]) -> bool:
    left = text[max(0, match.start() - 3) : match.start()]
    before, right = left.rstrip(), text[match.end() : match.end() + 3]
    after = right.lstrip()
    if "\n" in left and after == right:
        return False  # x1 = … in the next line
    sign = after[:1] in "-−" and not after[1:2].isspace()  # 5 x - 1 has an x in it
    starts = after[:1] in "0123456789([" or sign
    return before[-1:] in "0123456789)]" and starts and bool(before and after)


def _match_brackets(tokens: list[Token]) -> None:
    """Each bracket with its partner; what has none is junk. A stack for each kind: `[1, 2)` too."""
    opened: list[int] = []
    brackets: list[Token] = []
    relation = -1  # the last one
    for i, token in enumerate(tokens):
        kind = token.kind
        if kind in ("number", "word"):
            continue
        if kind == "relation":
            relation = i
        elif kind in ("open", "begin"):
            opened.append(i)
            brackets.append(token)
        elif kind in ("close", "end"):
            brackets.append(token)
            for depth, j in enumerate(reversed(opened[-3:]), 1):
                first = tokens[j]
                wanted = _PAIRS.get(first.text, first.text)
                if (first.kind == "begin") == (token.kind == "end") and wanted == token.text:
                    first.partner, token.partner = i, j
                    del opened[-depth:]
                    escaped = token.end - token.start == first.end - first.start == 2
                    if escaped and token.text == "]" and relation > j:  # a display
                        first.kind = token.kind = "newline"
                    break
    for token in brackets:
        if token.partner < 0:
            token.kind = "junk"
