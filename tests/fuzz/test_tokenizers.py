"""Whatever a tokenizer.json describes, it is refused, or cuts a short text in seconds."""

from __future__ import annotations

import json
import time
from pathlib import Path
from random import Random
from typing import Any

from helpers.soak import attacks
from tokenizers import Tokenizer

from regard._checkpoint.errors import CheckpointError, is_from_rust
from regard.models.tokenizer_limits import Bounded, TooMuch, check_added, check_tokenizer

SECONDS = 10
LONGEST = 2**26  # characters of all tokens: those of a text of a million, each repeated
TEXTS = ("a", "b a", "banana é ﷺ…", "x" * 26, " " * 100, "ab" * 500, "\u0130\ufdfa" * 200, "")
PUT = ("", "a", "aa", "ab", "a a", "é", "a" * 60, "a" * 4096)
PATTERNS = (
    "a",
    "b",
    " ",
    "é",
    "aa",
    "x+",
    "a|b",
    r"\s*",
    "",
    "(?=.)",
    "(x|xx)+y",
    "[^a]",
    ".",
    "^",
)


def step(choose: Random, place: str) -> dict[str, Any]:
    pattern = {choose.choice(["String", "Regex"]): choose.choice(PATTERNS)}
    replace = {"type": "Replace", "pattern": pattern, "content": choose.choice(PUT)}
    letters = {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True}
    if place == "normalizers":
        plain = choose.choice(["NFKD", "NFC", "NFKC", "Lowercase", "StripAccents", "ByteLevel"])
        prepend = {"type": "Prepend", "prepend": choose.choice(PUT)}
        return choose.choice([replace, replace, prepend, {"type": plain}])
    if place == "pretokenizers":
        split = {"type": "Split", "pattern": pattern, "behavior": "Isolated", "invert": False}
        space = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
        return choose.choice([{**letters, "use_regex": True}, split, space, {"type": "Whitespace"}])
    return choose.choice([replace, {"type": "Fuse"}, {"type": "ByteFallback"}, letters])


def steps(choose: Random, place: str) -> dict[str, Any] | None:
    some = [step(choose, place) for _ in range(choose.randint(0, 4))]
    some *= choose.choice([1, 1, 2, 8, 30])
    return choose.choice([None, {"type": "Sequence", place: some}])


def template(choose: Random) -> dict[str, Any]:
    pieces = [{"Sequence": {"id": "A", "type_id": 0}}, {"SpecialToken": {"id": "x", "type_id": 0}}]
    size = choose.choice([1, 3, 500])
    return {
        "type": "TemplateProcessing",
        "single": [choose.choice(pieces) for _ in range(choose.choice([1, 3, 9, 100]))],
        "pair": [*pieces[:1], {"Sequence": {"id": "B", "type_id": 0}}],
        "special_tokens": {"x": {"id": "x", "ids": [0] * size, "tokens": ["x"] * size}},
    }


def described(choose: Random) -> dict[str, Any]:
    numbers = (0, 1, 2, 7, 10**4, 2**22 - 1, 2**22, 2**31, 2**32)
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "special"), False)
    added = [
        {"id": choose.choice(numbers), "content": choose.choice(PUT), "normalized": True, **flags}
        for _ in range(choose.choice([0, 0, 1, 5]))
    ]
    words = {"a": 0, "b": 1, "?": choose.choice(numbers), "aa": choose.choice(numbers)}
    models = [
        {"type": "WordLevel", "vocab": words, "unk_token": "?"},
        {"type": "BPE", "vocab": words, "merges": [["a", "a"]], "unk_token": "?"},
        {"type": "WordPiece", "vocab": words, "unk_token": "?", "continuing_subword_prefix": "##",
         "max_input_chars_per_word": choose.choice([100, 10**4])},
        {"type": "Unigram", "vocab": [["?", 0.0], ["a", -1.0], ["b", -2.0]], "unk_id": 0},
    ]  # fmt: skip
    return {
        "version": "1.0",
        "added_tokens": added,
        "normalizer": steps(choose, "normalizers"),
        "pre_tokenizer": steps(choose, "pretokenizers"),
        "post_processor": choose.choice([None, template(choose)]),
        "decoder": steps(choose, "decoders"),
        "model": choose.choice(models),
    }


def cut(content: dict[str, Any], text: str) -> int:
    """How many characters the tokens of a text have; 0 if it, or the tokenizer, is refused."""
    try:
        check_tokenizer(content, Path("tokenizer.json"))
        check_added(content, Path("tokenizer.json"))
        tokenizer = Tokenizer.from_str(json.dumps(content))
        found = Bounded(tokenizer).encode(text)
        tokenizer.decode(found.ids)
        tokenizer.to_str()
        return sum(map(len, found.tokens))
    except (CheckpointError, TooMuch):
        return 0
    except BaseException as error:
        if not is_from_rust(error) or isinstance(error, AssertionError | TypeError | LookupError):
            raise
        return 0


def test_any_tokenizer_is_refused_or_cuts_a_short_text_at_once() -> None:
    for choose in attacks(60):
        content, text = described(choose), choose.choice(TEXTS)
        start = time.monotonic()
        assert cut(content, text) <= LONGEST
        assert time.monotonic() - start < SECONDS, (content, text)
