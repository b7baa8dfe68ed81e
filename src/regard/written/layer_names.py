"""What people call the steps of a layer around attention: residual, layer norm, feed-forward.

A layer has two residuals and two layer norms; the kinds of the second end in `_2`.
"""

from __future__ import annotations

import re

__all__ = ["LAYER_GIVEN", "LAYER_SYMBOLS", "has_second", "layer_formula", "layer_title"]

_OF_NORM = {
    "residual": "residual",
    "mean": "mean",
    "centered": "x − mean",
    "variance": "variance",
    "deviation": "deviation",
    "normalized": "normalized",
    "gamma": "γ",
    "beta": "β",
    "norm": "layer norm",
}
LAYER_SYMBOLS = {
    **_OF_NORM,
    "W_1": "W_1",
    "b_1": "b_1",
    "hidden": "hidden",
    "activated": "activated",
    "W_2": "W_2",
    "b_2": "b_2",
    "feed_forward": "feed-forward",
    **{f"{kind}_2": f"{symbol} 2" for kind, symbol in _OF_NORM.items()},
    "block": "block output",
}


LAYER_GIVEN = ("W_1", "b_1", "W_2", "b_2", "gamma", "beta", "gamma_2", "beta_2")


def has_second(kind: str) -> bool:
    """Whether a layer has two of a kind."""
    return kind in _OF_NORM


_NORM = r"(?:layer_?-?norm(?:ali[sz]ation)?|LN|norm)"
_FEED = r"(?:FFN|feed[_-]?forward|MLP)"
_ATTENTION = (
    r"(?:(?:self|multi-?head|masked)[-_]?)*(?:attention|attn|MHA|MHSA|SA|multi-?head|sub-?layer)"
)
_BENT = r"(?:(?:ReLU|GELU|SiLU|swish)\(.*\)|max\(0,.*\))"
_ACTIVE = rf"(?:h|a|hidden|activated|{_BENT})"
_NUMBERS = r"\((?![^()]*[a-z])"  # LayerNorm([1, 2]) is an equation
_LABEL = r"(?:_?\(?(?:\d{1,4}|(?<=_)[^()_^+,\s]{1,40})\)?)?"
_MEAN = rf"(?:mu|μ|mean){_LABEL}"
# The first that is the whole of a side decides.
_FORMULAS = tuple(
    (re.compile(pattern, re.IGNORECASE), kind)
    for pattern, kind in (
        (rf"{_NORM}_?2(?:\(.*\))?|{_NORM}\(.*{_FEED}.*\)", "norm_2"),
        (rf"{_NORM}_?1?(?!{_NUMBERS})\(.*\)|LN_?1?|layer_?norm_?1?", "norm"),
        (rf"[^=(]*\+{_FEED}(?:\(.*\))?|{_FEED}(?:\(.*\))?\+[^=(]*", "residual_2"),
        (rf"[^=(]*\+{_ATTENTION}(?:\(.*\)|_?out(?:put)?)?", "residual"),
        (rf"{_ATTENTION}(?:\(.*\))?\+[^=(]*|X{_LABEL}\+[ZOA]{_LABEL}", "residual"),
        (rf"{_FEED}(?:_?out(?:put)?|(?!{_NUMBERS})\(.*\))?", "feed_forward"),
        (rf"{_ACTIVE}[·*×@]?(?-i:W)_?2(?:\+b_?2)?", "feed_forward"),
        (rf"(?-i:W)_?2[·*×@]?{_ACTIVE}(?:\+b_?2)?", "feed_forward"),
        (rf"(?!\w+{_NUMBERS}){_BENT}", "activated"),
        (r"[a-z]\w{0,12}(?:\(.*\))?[·*×@]?(?-i:W)_?1(?:\+b_?1)?", "hidden"),
        (r"(?-i:W)_?1[·*×@]?[a-z]\w{0,12}(?:\+b_?1)?", "hidden"),
        (r"(?-i:W)_?(?:ff_?)?\(?1\)?|(?-i:W)_(?:in|up)", "W_1"),
        (r"(?-i:W)_?(?:ff_?)?\(?2\)?|(?-i:W)_down", "W_2"),
        (r"(?-i:b)_?(?:ff_?)?\(?1\)?", "b_1"),
        (r"(?-i:b)_?(?:ff_?)?\(?2\)?", "b_2"),
        (r"(?:gamma|γ)_?2", "gamma_2"),
        (r"(?:beta|β)_?2", "beta_2"),
        (r"(?:gamma|γ)_?1?", "gamma"),
        (r"(?:beta|β)_?1?", "beta"),
        (rf"(?:sigma|σ){_LABEL}(?:\^2|²){_LABEL}|var(?:iance)?{_LABEL}(?:\(.*\))?", "variance"),
        (rf"(?:sigma|σ|std(?:dev)?){_LABEL}|std\(.*\)", "deviation"),
        (rf"{_MEAN}(?:\(.*\))?", "mean"),
        (rf"[xzr]{_LABEL}[-−–]{_MEAN}", "centered"),
        (rf"(?:hatx|x̂){_LABEL}|x_(?:norm|hat)|\(?[xzr]{_LABEL}[-−–]{_MEAN}\)?/.*", "normalized"),
    )
)
_HINT = re.compile(
    r"norm|ln|ffn|feed|mlp|relu|gelu|silu|swish|max\(|[wb]_?\(?(?:ff|[12])|w_(?:in|up|down)|gamma"
    r"|beta|γ|β|sigma|σ|std|var|mu|μ|mean|hatx|barx|x̂|x_hat|\+",
    re.IGNORECASE,
)
_LETTERED = re.compile(r"[^\W\d_]")
_OF_TOKEN = re.compile(
    r"(?<![a-z])(?:hat|bar)?(?:[xzehr]|x̂|mu|μ|mean|sigma|σ|std|var)"
    r"_?\(?(\d{1,4}|(?<=_)[^()_^+,\s]{1,40}?)\)?(?=[-−–+)·,^²/]|W|$)",
    re.IGNORECASE,
)


def layer_formula(text: str) -> tuple[str, str | None] | None:
    """The kind, and whose row it is, if a plain text is the symbol or formula of a layer's step.

    >>> layer_formula("LayerNorm(x_cat+Attention(x_cat))"), layer_formula("xW_1+b_1")
    (('norm', 'cat'), ('hidden', None))
    """
    if len(text) > 200 or not _LETTERED.search(text) or not _HINT.search(text):
        return None
    for pattern, kind in _FORMULAS:
        if pattern.fullmatch(text):
            rows = set(_OF_TOKEN.findall(text))
            return kind, rows.pop() if len(rows) == 1 else None
    return None


_SECOND = re.compile(r"\b(?:second|2nd)\b|(?<![\d.])2\b(?!\.\d)|after (?:the )?(?:ffn|feed)")
_WORDS = tuple(
    (re.compile(pattern), kind)
    for pattern, kind in (
        (
            r"(?:layer ?norm\w*|\bln\b) input|input (?:to|of|for) (?:the )?layer ?norm"
            r"|\bresidual\b|skip[ -]connection|잔차|残差",
            "residual",
        ),
        (
            r"layer[ -]?norm|\badd ?(?:&|and|\+) ?norm|레이어 ?정규화|층 ?정규화|层归一化|層正規化",
            "norm",
        ),
        (r"(?:^|\{)\W*(?:the |row |token )*means?\W*(?:$|\(|of\b|per\b)|평균|均值|平均", "mean"),
        (r"standard deviation|\bstd\b|표준 ?편차|标准差|標準偏差", "deviation"),
        (r"\bvariances?\b|분산|方差|分散", "variance"),
        (r"\bnormali[sz]ed (?:value|vector|output|input|row|x\b|embedding|residual)", "normalized"),
        (r"(?:^|\{)\W*(?:gamma\b|γ)", "gamma"),
        (r"(?:^|\{)\W*(?:beta\b|β)", "beta"),
        (r"pre-?activation|before (?:the )?(?:relu|gelu|activation)|first linear", "hidden"),
        (r"after (?:the )?(?:relu|gelu|activation)|\brelu\b|\bgelu\b|\bactivated\b", "activated"),
        (
            r"(?:transformer|encoder|decoder) (?:block|layer) output\b|^\W*(?:final )?block output"
            r"|output of (?:the |this |one )?(?:whole |transformer |encoder |decoder )*block\b",
            "block",
        ),
        (
            r"\bffn\b|feed[ -]?forward|\bmlp (?:out|layer)|second linear|피드 ?포워드|前馈"
            "|フィードフォワード",
            "feed_forward",
        ),
        (r"\bhidden (?:layer|values?|vector|units?)\b|^\W*hidden\W*$|은닉|隐藏层|隠れ層", "hidden"),
    )
)
# Words of attention and of sizes, beside which those above mean something else.
_OTHER = re.compile(
    r"softmax|attention (?:weight|score)|\bweights? matri|\bsize\b|dimension|\bparams?\b|parameters"
    r"|\bquer|\bkeys?\b|\bscores?\b|\bwithout\b|\bno\b|\bskip the\b"
)
_WORD = re.compile("|".join(pattern.pattern for pattern, _ in _WORDS))
_LONGEST = 70


def layer_title(text: str) -> str | None:
    """The kind that a short title names in words, or None.

    >>> layer_title("Step 4: Add & Norm"), layer_title("Second layer norm"), layer_title("Scores")
    ('norm', 'norm_2', None)
    """
    text = text.strip().casefold().replace("_", " ")
    if len(text) > _LONGEST or not _WORD.search(text) or _OTHER.search(text):
        return None
    for pattern, kind in _WORDS:
        if pattern.search(text):
            bare = re.sub(r"^\W*(?:step )?\d+\b", "", text)
            return f"{kind}_2" if kind in _OF_NORM and _SECOND.search(bare) else kind
    return None
