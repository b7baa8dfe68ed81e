"""What lines say of the steps around them: no scaling, a mask, the identity; a new example."""

from __future__ import annotations

import contextlib
import re

__all__ = [
    "activation_in",
    "epsilon_in",
    "identities",
    "is_example",
    "is_section",
    "says_causal",
    "says_unscaled",
]

_IDENTITY = re.compile(
    r"\bidentity (?:matri(?:x|ces)|weights?)\b|(?:=|\b(?:is|are|be|as)) ?(?:the |an )?identity\b"
    r"|단위 ?행렬|항등 ?행렬|একক ম্যাট্রিক্স|অভেদ ম্যাট্রিক্স|单位矩阵|単位行列|einheitsmatrix"
    r"|matrice identité|matriz identidad",
    re.IGNORECASE,
)
_AS_I = re.compile(r"(?:\b[Aa]s|=)\s*\$*I\$*(?=\s*(?:here\b|[.,;:)]|$))")
_PROJECTIONS = re.compile(r"W[_^]?\{?([QKVqkv])\}?(?![A-Za-z])")
_UNSCALED = re.compile(
    r"(?:n't|n’t|not|without) divid|without (?:any )?scal"
    r"|unscaled|not scaled|no scaling|(?:skip|omit|ignor)\w* (?:the )?scal"
    r"|스케일링 ?없이|스케일 ?없이|স্কেলিং ছাড়া|不缩放|未缩放|ohne skalierung"
    r"|sans (?:mise à l')?échelle",
    re.IGNORECASE,
)
_SCALING = ("scal", "divid", "스케일", "স্কেল", "缩放", "skal", "chelle")  # what all those have
_CAUSAL = re.compile(
    r"causal(?!\"?\s*[:=]\s*false)|look[- ]ahead mask|masked (?:self[- ])?attention"
    r"|마스크|인과|মাস্ক|掩码|マスク",
    re.IGNORECASE,
)
_SECTION = re.compile(
    r"^\s{0,3}(?:#{1,6}\s|\d{1,3}[.)]\s+\S|(?:step|part|example|단계|예제|ধাপ|উদাহরণ)\s*\d)",
    re.IGNORECASE,
)
_EXAMPLE = re.compile(
    r"^[\s#*_>]{0,8}(?:worked )?(?:example|case|variant|예제|উদাহরণ|beispiel|exemple|ejemplo|例)"
    r"[ #]{0,3}\d{1,3}\b.{0,80}$",
    re.IGNORECASE,
)


def is_section(line: str) -> bool:
    """Whether a line starts a section: a heading, or a count."""
    return bool(_SECTION.match(line))


def is_example(line: str) -> bool:
    """Whether a line is a heading “Example 2”."""
    return bool(_EXAMPLE.match(line))


def identities(text: str) -> list[str]:
    """The projections that the text says are the identity, in its line or the list above it.

    >>> identities("weights W_Q, W_K, W_V\\n* We are initializing weights as I here")
    ['W_Q', 'W_K', 'W_V']
    """
    spoken_of: dict[str, int] = {}  # in which line the matrices were last spoken of
    result: list[str] = []
    for number, line in enumerate(filter(str.strip, text.splitlines())):
        here = [f"W_{letter.upper()}" for letter in _PROJECTIONS.findall(line)]
        if here and not re.search(r"\d", re.sub(r"^\s*\d+[.)]", "", line)):
            spoken_of |= dict.fromkeys(here, number)
        if _IDENTITY.search(line) or _AS_I.search(line):
            near = max(spoken_of.values(), default=-9) >= number - 4
            result += here or [name for name, at in spoken_of.items() if near and at >= number - 8]
    return list(dict.fromkeys(result))


def says_unscaled(text: str) -> bool:
    folded = text.casefold()
    return any(stem in folded for stem in _SCALING) and bool(_UNSCALED.search(text))


def says_causal(text: str) -> bool:
    return bool(_CAUSAL.search(text))


def epsilon_in(text: str) -> float:
    """The largest ε that a text names, up to 0.1; 0 if it names none."""
    largest = 0.0
    for power in re.findall(r"(?:ε|epsilon|\beps)\W{0,6}(\d\S{0,8})", text):
        with contextlib.suppress(ValueError):
            largest = min(max(largest, float(power.rstrip(".,;)$"))), 0.1)
    return largest


def activation_in(text: str) -> str | None:
    """The activation function that a text names, if ReLU is not among them."""
    spoken = {name.casefold() for name in re.findall(r"(?i)\b(relu|gelu|silu|swish)\b", text)}
    if not spoken or "relu" in spoken:
        return None
    return "GELU" if "gelu" in spoken else "SiLU"
