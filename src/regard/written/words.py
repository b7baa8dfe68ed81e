"""The words that people use for the matrices of attention, in several languages."""

from __future__ import annotations

import re
from functools import lru_cache

__all__ = ["head_in", "is_exponential", "is_other", "is_sum", "is_supposed", "kind_in"]

_QUERY = (
    r"\bquer(?:y|ies)\b|쿼리|질의|কোয়েরি|কুয়েরি|প্রশ্ন|查询|クエリ|\babfrage|\banfrage|\brequête"
    r"|\bconsulta|запрос"
)
_KEY = r"\bkeys?\b|(?<!\w)키(?!\w)|키 |কী(?!\w)|চাবি|键|キー|schlüssel|\bclés?\b|\bclaves?\b|ключ"
_VALUE = (
    r"\bvalues?\b|밸류|벨류|(?<!\w)값|মান(?!\w)|ভ্যালু|值|バリュー|\bwerte?\b|\bwertvektor"
    r"|\bvaleurs?\b|\bvalor(?:es)?\b|значени"
)
_PROJECTED = (
    r"projection|weight matri|parameter|\bweights?\b|\bmatri(?:x|ces) w\b|투영|사영|가중치|ওজন|投影"
)

# The first line that fits decides: “softmax of the scaled scores” is about weights.
_WORDS = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        ("concatenated", r"concat|연결|이어 ?붙|সংযুক্ত|জোড়া|拼接|連結|verkettet"),
        (
            "head_output",
            r"weighted (?:sum|values)|context(?:ual(?:ised|ized)?)?[ -]?(?:vec|embedding|matri)"
            r"|head(?: \d+)? output|output of (?:the )?head|after (?:passing through )?"
            r"(?:self[ -])?attention|가중 ?합|헤드 ?\d* ?출력|어텐션 ?값|문맥 ?벡터|컨텍스트"
            r"|ভারিত যোগফল"
            r"|加权和|上下文向量|コンテキスト|文脈ベクトル|gewichtete summe|kontextvektor",
        ),
        ("scores", r"un-?normali[sz]ed"),
        (
            "weights",
            r"attention[ -](?:weight|prob|distribution|map|matri|pattern)|softmax"
            r"|\battn\b(?! ?(?:score|logit|out))|(?<!un)(?<!un-)normali[sz]ed (?:attention )?score"
            r"|소프트맥스|어텐션 ?(?:가중치|분포)|주의 ?가중치|সফটম্যাক্স|অ্যাটেনশন ওয়েট|মনোযোগের ওজন"
            r"|注意力权重|重み|ağırlık|trọng số"
            r"|aufmerksamkeitsgewicht|poids d.attention|pesos de atenci|вес\w* внимания",
        ),
        (
            "scaled",
            r"\bscal(?:ed|ing)\b|\bdivid(?:ed?|ing)\b.*\bby\b|스케일|স্কেল|缩放|除以|スケール|スケーリング"
            r"|skalier|échelle|escalad|масштаб|ölçek",
        ),
        (
            "scores",
            r"(?<!f1[- ])\bscores?\b|dot[ -]products?|\blogits?\b|similarity matri"
            r"|점수|스코어|내적|স্কোর|ডট গুণ|得分|分数|スコア|内積|skor|\bpunteggi"
            r"|\bpontua|điểm|skalarprodukt|aufmerksamkeitswert|puntuaci|оценк",
        ),
        ("context", r"encoder (?:output|state|hidden|representation)|인코더 ?출력|এনকোডার আউটপুট"),
        ("positions", r"\bposition(?:s|al)?\b(?! of)|위치|포지션|অবস্থান|পজিশন|位置"),
    )
)
_LAST_WORDS = tuple(
    (kind, re.compile(pattern))
    for kind, pattern in (
        (
            "weights",
            r"\bweights?\b|\bprob(?:s|abilit(?:y|ies))?\b|가중치|ওজন|权重|\bgewichte\b|\bpoids\b|\bpes[oi]s?\b",
        ),
        (
            "output",
            r"\boutputs?\b|\bresult\b|출력|결과|আউটপুট|ফলাফল|输出|出力|ausgabe|\bsortie\b|\bsalida\b|выход",
        ),
        (
            "embeddings",
            r"embedding|\binputs?\b|(?:word|token) vectors?|임베딩|입력|এম্বেডিং|এমবেডিং"
            r"|ইনপুট|嵌入|埋め込み|入力|einbettung|plongement|вложени|эмбеддинг",
        ),
    )
)
# Words of that kind that are about something else.
_OTHER = re.compile(
    r"gradient|\bexp\(|\be\^|exponent|learning rate|\bkey (?:idea|takeaway|point|insight)"
    r"|(?<!weighted )\bsum of|(?<!weighted )\bsums?\s*\W*$"
)
_HEAD = re.compile(
    r"\bheads?[ _#-]?(?P<a>\d{1,4})\b|(?<!\d)(?P<b>\d{1,4})(?:st|nd|rd|th) head\b"
    r"|(?:헤드|হেড|头|ヘッド|kopf|tête) ?(?P<c>\d{1,4})(?!\d)|(?<!\d)(?P<d>\d{1,4})번 ?헤드",
    re.IGNORECASE,
)
_SUPPOSED = re.compile(
    r"\b(?:suppose|assum(?:e|ing)(?! d| √| sqrt| no )|imagine|let'?s say|hypothetical)|假设|假設"
    r"|가정|仮に|仮定|angenommen|\bsuppos(?:ons|iamo)|\bsupon(?:gamos|ha)|\bmisal|giả sử|допустим"
    r"|предположим",
    re.IGNORECASE,
)
_HEADS = ("head", "헤드", "হেড", "头", "ヘッド", "kopf", "tête")


def is_supposed(text: str) -> bool:
    """Whether a text says that its numbers are made up: “suppose the result is”."""
    return bool(_SUPPOSED.search(text))


def is_other(text: str) -> bool:
    """Whether a title speaks of something else by one of these words: a gradient of Q, exp(S)."""
    return bool(_OTHER.search(text.casefold()))


@lru_cache(maxsize=8192)
def kind_in(text: str) -> str | None:
    """The kind of matrix that the words of a title name, or None.

    >>> kind_in("Scaled attention scores"), kind_in("어텐션 점수"), kind_in("Query weights")
    ('scaled', 'scores', 'W_Q')
    """
    text = text.casefold().replace("_", " ")
    if is_other(text):
        return None
    for kind, pattern in _WORDS:
        if pattern.search(text):
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
        if pattern.search(text):
            return kind
    return None


def head_in(text: str) -> int | None:
    """The number of the one head that a text speaks of, or None.

    >>> head_in("Step 3: Learned Projections (Head 1)"), head_in("2 heads")
    (1, None)
    """
    text = text[:1000]
    if not any(word in text.casefold() for word in _HEADS):  # most lines speak of none
        return None
    found = {
        int(number)
        for match in _HEAD.finditer(text)
        for number in match.groups()
        if number is not None
    }
    return found.pop() if len(found) == 1 else None


def is_exponential(text: str) -> bool:
    """Whether a column's heading says that it holds exponentials: `exp`, `e^score`, `exp(s)`.

    >>> is_exponential("$e^{s_i}$"), is_exponential("exp(score)"), is_exponential("expected")
    (True, True, False)
    """
    pattern = r"(?:\\?exp(?:onentials?|onentiated)?|e\s?\^\s?(?:\(.*\)|\{.*\}|\w+))(?:\s*\(.*\))?"
    bare = re.sub(r"\\[\[\]()]", "", text)  # \( … \), as pages write mathematics
    return bool(re.fullmatch(pattern, bare.strip(" $=≈:`*").casefold()))


def is_sum(text: str) -> bool:
    """Whether a column's heading says that it holds the sums of the rows."""
    pattern = r"(?:row )?(?:sum|total|σ|∑|합|합계|যোগফল|মোট|summe|somme|suma|合计|和|合計)s?"
    return bool(re.fullmatch(pattern, text.strip().casefold()))
