"""Tokenizers that were made to fill a machine are refused; honest ones of any kind are not."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from helpers.model_folders import edit_json, refused
from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from regard.models import load
from regard.models import tokenizer_limits as limits

TWICE = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
PATTERN = {"type": "Replace", "pattern": {"Regex": "a|b"}, "content": "aba"}
BYTES = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}


def sequence(step: dict[str, Any], times: int, inside: str = "normalizers") -> dict[str, Any]:
    return {"type": "Sequence", inside: [step] * times}


def added(text: str, number: int, normalized: bool) -> dict[str, Any]:
    flags = dict.fromkeys(("single_word", "lstrip", "rstrip", "special"), False)
    return {"id": number, "content": text, "normalized": normalized, **flags}


def charsmap(entry: bytes) -> str:
    """A map of characters without any, and one entry."""
    return base64.b64encode(b"\4\0\0\0" + bytes(4) + entry + b"\0").decode()


def template(pieces: list[Any], special: dict[str, Any] | None = None) -> dict[str, Any]:
    both = [{"Sequence": {"id": name, "type_id": 0}} for name in "AB"]
    named = special or {}
    return {"type": "TemplateProcessing", "single": pieces, "pair": both, "special_tokens": named}


TEXT = {"Sequence": {"id": "A", "type_id": 0}}
MANY = {"id": "x", "ids": [0] * 200, "tokens": ["x"] * 200}
NAMED = {"SpecialToken": {"id": "x", "type_id": 0}}
BOMBS: dict[str, tuple[dict[str, Any], str]] = {
    "a number that no vocabulary has": (
        {"model": {"type": "WordLevel", "vocab": {"a": 0, "[UNK]": 2**31}, "unk_token": "[UNK]"}},
        "number its tokens below 4,194,304",
    ),
    "an added token of such a number": (
        {"added_tokens": [added("a", 2**31, False)]},
        "number its tokens below 4,194,304",
    ),
    "an added token that doubles": (
        {"added_tokens": [added("a", 4, True)], "normalizer": sequence(TWICE, 40)},
        "tokens that normalizing does not make long",
    ),
    "bytes as letters of bytes": (
        {"pre_tokenizer": sequence(BYTES, 40, "pretokenizers")},
        "turn bytes into letters at most 4 times",
    ),
    "a template that repeats": ({"post_processor": template([TEXT] * 50)}, "at most 8 times"),
    "templates that repeat": (
        {"post_processor": sequence(template([TEXT, TEXT]), 30, "processors")},
        "at most 8 times",
    ),
    "a template that adds": (
        {"post_processor": template([TEXT, *[NAMED] * 200], {"x": MANY})},
        "add at most 10,000 tokens",
    ),
    "a decoder that doubles": (
        {"decoder": sequence(TWICE, 40, "decoders")},
        "make at most 4,096 characters of one by its decoder",
    ),
    "a long content": (
        {"normalizer": {**TWICE, "content": "a" * 5000}},
        "at most 4,096 characters",
    ),
    "a long entry": (
        {"normalizer": {"type": "Precompiled", "precompiled_charsmap": charsmap(b"a" * 5000)}},
        "a map of characters to at most 4,096 bytes",
    ),
    "thousands of steps": ({"normalizer": sequence({"type": "NFC"}, 1001)}, "at most 1,000 steps"),
    "a key that stands twice": ({}, "each key once"),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_bomb_is_refused_before_it_is_built(folder: Path, name: str) -> None:
    changes, word = BOMBS[name]
    edit_json(folder / "tokenizer.json", **changes)
    if word == "each key once":
        content = (folder / "tokenizer.json").read_text()
        (folder / "tokenizer.json").write_text('{"normalizer": null,' + content[1:])
    start = time.thread_time()
    refused(folder, "tokenizer.json", word)
    assert time.thread_time() - start < 10


@pytest.mark.parametrize(
    "normalizer",
    [
        sequence(TWICE, 24),
        sequence(TWICE, 40),
        sequence(sequence(TWICE, 8), 8),
        sequence(PATTERN, 40),
        sequence({"type": "Replace", "pattern": {"Regex": "(?=.)"}, "content": "ab"}, 30),
        sequence({"type": "ByteLevel"}, 40),
        sequence({"type": "Replace", "pattern": {"String": "a"}, "content": "a" * 4000}, 3),
    ],
)
def test_a_text_that_would_fill_the_memory_is_refused_before_it_does(
    folder: Path, normalizer: dict[str, Any]
) -> None:
    edit_json(folder / "tokenizer.json", normalizer=normalizer)
    loaded = load(folder)
    start = time.thread_time()
    for door in (loaded.inputs, loaded.tokens):
        with pytest.raises(ValueError, match=r"must stay of about its length .*; got more than"):
            door("an apple é")
    assert time.thread_time() - start < 10


def test_a_text_that_takes_for_ever_is_given_up_and_no_second_one_is_begun(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each search for this pattern stays just below the steps that its library allows."""
    pattern = {"type": "Split", "pattern": {"Regex": "(x|xx)+y"}, "behavior": "Isolated"}
    edit_json(folder / "tokenizer.json", pre_tokenizer={**pattern, "invert": False})
    monkeypatch.setattr(limits, "_SECONDS", 0.1)
    loaded = load(folder)
    text = ("x" * 29 + " ") * 30
    for _ in range(2):
        with pytest.raises(ValueError, match=r"the tokenizer of .* cuts in seconds; got no end"):
            loaded.inputs(text)
    monkeypatch.setattr(limits, "_SECONDS", 60)
    with pytest.raises(ValueError, match="got no end"):
        loaded.inputs("love")


def test_ctrl_c_gets_through_to_a_tokenizer(folder: Path) -> None:
    pattern = {"type": "Split", "pattern": {"Regex": "(x|xx)+y"}, "behavior": "Isolated"}
    edit_json(folder / "tokenizer.json", pre_tokenizer={**pattern, "invert": False})
    program = (
        "import signal, sys, time\n"
        "from tokenizers import Tokenizer\n"
        "from regard.models.tokenizer_limits import Bounded\n"
        f"tokenizer = Bounded(Tokenizer.from_file({str(folder / 'tokenizer.json')!r}))\n"
        "signal.signal(signal.SIGALRM, signal.default_int_handler)\n"
        "signal.setitimer(signal.ITIMER_REAL, 0.2)\n"
        "start = time.monotonic()\n"
        "try:\n"
        "    tokenizer.encode(('x' * 27 + ' ') * 3000)\n"  # which takes a minute
        "except KeyboardInterrupt:\n"
        "    sys.exit(130 if time.monotonic() - start < 10 else 'late')\n"
    )
    done = subprocess.run([sys.executable, "-c", program], timeout=60, check=False)
    assert done.returncode == 130


# ── honest ones ───────────────────────────────────────────────────────────────────────────────

N = normalizers
GPT4 = (
    r"""(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+|\s+"""
)
NORMALIZERS: dict[str, Any] = {
    "bert": N.BertNormalizer(),
    "llama": N.Sequence([N.Prepend("▁"), N.Replace(" ", "▁")]),
    "t5": N.Sequence([N.Replace(Regex(" {2,}"), "▁"), N.Strip()]),
    "albert": N.Sequence(
        [N.Replace("``", '"'), N.Replace("''", '"'), N.NFKD(), N.StripAccents(), N.Lowercase()]
    ),
    "clip": N.Sequence([N.NFC(), N.Replace(Regex(r"\s+"), " "), N.Lowercase()]),
    "bytes": N.ByteLevel(),
    "many replacements": N.Sequence(
        [N.Replace(chr(0xBC + n), f"{n}/{n + 1}") for n in range(60)] + [N.Replace("…", "...")]
    ),
    "newlines": N.Replace(Regex(r"\n"), "<|end_of_line|>"),
}


@pytest.mark.parametrize("name", NORMALIZERS)
def test_no_honest_normalizer_is_refused_for_a_long_text(name: str) -> None:
    text = "The animal didn't  cross…\n ½ ﷺ ｱｲ 한국어 İ ẞ é " * 3000
    bounded = limits.Growth(json.loads(NORMALIZERS[name].__getstate__()))
    bounded.check(text)
    bounded.check("ﷺ" * 100_000)
    bounded.check("")


def test_honest_tokenizers_of_every_kind_pass() -> None:
    words = {f"w{n}": n for n in range(300)} | {"<unk>": 300, "a": 3 * 10**6}
    tokenizer = Tokenizer(models.BPE(vocab=words, merges=[], unk_token="<unk>"))
    tokenizer.normalizer = NORMALIZERS["many replacements"]
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Split(Regex(GPT4), "isolated"),
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
        ]
    )
    tokenizer.post_processor = processors.Sequence(
        [
            processors.ByteLevel(),
            processors.TemplateProcessing(
                single="<s> $A </s>",
                pair="<s> $A </s> </s> $B </s>",
                special_tokens=[("<s>", 1), ("</s>", 2)],
            ),
        ]
    )
    tokenizer.decoder = decoders.Sequence(
        [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip()]
    )
    tokenizer.add_special_tokens([f"<extra_{n}>" for n in range(1000)])
    content = json.loads(tokenizer.to_str())
    limits.check_tokenizer(content, Path("tokenizer.json"))
    limits.check_added(content, Path("tokenizer.json"))


def test_what_is_no_tokenizer_is_left_to_its_library() -> None:
    for wrong in (None, 7, "x", [], [None], {"type": "Sequence"}, {"type": None, "content": 7}):
        names = (
            "model",
            "added_tokens",
            "normalizer",
            "pre_tokenizer",
            "post_processor",
            "decoder",
        )
        content: dict[str, Any] = dict.fromkeys(names, wrong)
        limits.check_tokenizer(content, Path("tokenizer.json"))
