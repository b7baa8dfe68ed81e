"""What a tokenizer that came from elsewhere may do: nothing that outgrows the text by far.

A `tokenizer.json` is a program in small: its steps may double a text, and twenty of them fill a
machine. What can be told from the file is refused before the tokenizer is built; how much a text
grows is found out step by step before it is tokenized, where the steps could make too much of it.
"""

from __future__ import annotations

import base64
import binascii
import json
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard._checkpoint import CheckpointError, plain

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer
    from tokenizers.normalizers import Normalizer

# Each is far more than any published tokenizer has.
_IDS = 2**22  # the largest have a million tokens; a list of the numbers that have none is made
_STEPS = 1_000  # of normalizing and the like
_LONGEST = 4_096  # characters that a step puts in place of something
_TIMES = 8  # that the text is repeated by templates
_SPECIAL = 10_000  # tokens that templates add
_BYTE_LEVELS = 4  # steps that turn each byte into a letter of two
_USUAL = 64  # bytes of the longest entry in a map of characters; Unicode's own has 33

# Characters that a text of n may become: _ROOM + _GROWTH · n. Unicode has one that becomes 18.
_ROOM, _GROWTH = 2**20, 20
_PIECE = 1_000  # characters that are looked at together
_SECONDS, _SLOWEST = 20.0, 5_000  # that a text may take: in all, and characters a second
_INSIDE = ("normalizers", "pretokenizers", "processors", "decoders")
_AGAIN = "Do not use it: an honest one never looks like this."


class TooMuch(ValueError):
    """A text would become too long."""


# ── what the file says ────────────────────────────────────────────────────────────────────────


def check_tokenizer(content: Mapping[str, Any], file: Path) -> None:
    """Raise CheckpointError for a tokenizer.json that would fill the memory, however short a text.

    >>> check_tokenizer({"model": {"vocab": {"a": 2**31}}}, Path("tokenizer.json"))
    Traceback (most recent call last):
    regard._checkpoint.errors.CheckpointError: load(): tokenizer.json must number its tokens below
    4,194,304; got 2147483648. Do not use it: an honest one never looks like this.
    """

    def refuse_above(most: int, expected: str, found: int) -> None:
        if found > most:
            raise CheckpointError(file, expected, plain(found), _AGAIN)

    model = content.get("model")
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    added = [token for token in _listed(content.get("added_tokens")) if isinstance(token, dict)]
    ids = [token.get("id") for token in added]
    ids += vocabulary.values() if isinstance(vocabulary, dict) else []
    largest = max((number for number in ids if isinstance(number, int)), default=0)
    refuse_above(_IDS - 1, f"number its tokens below {_IDS:,}", largest)
    steps = {
        part: list(_steps(content.get(part)))
        for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder")
    }
    for part, found in steps.items():
        what = part.replace("_", "-")
        refuse_above(_STEPS, f"have at most {_STEPS:,} steps as its {what}", len(found))
        longest = max((len(_put(step)) for step in found), default=0)
        refuse_above(_LONGEST, f"put in at most {_LONGEST:,} characters at a time", longest)
    for step in steps["normalizer"]:
        expected = f"have a map of characters to at most {_LONGEST:,} bytes"
        refuse_above(_LONGEST, expected, _longest_entry(step))
    twice = sum(step.get("type") == "ByteLevel" for step in steps["pre_tokenizer"])
    refuse_above(_BYTE_LEVELS, f"turn bytes into letters at most {_BYTE_LEVELS} times", twice)
    times, special = 1, 0
    for step in steps["post_processor"]:
        known = step.get("special_tokens")
        sizes = {name: len(_listed(_get(known, name, "ids"))) for name in _keys(known)}
        single = _listed(step.get("single"))
        names = [_get(piece, "SpecialToken", "id") for piece in single]
        repeated = sum("Sequence" in _keys(piece) for piece in single)
        special = special * max(repeated, 1)
        special += sum(sizes.get(name, 1) for name in names if isinstance(name, str))
        times *= max(repeated, 1)
    refuse_above(_TIMES, f"repeat a text at most {_TIMES} times by its templates", times)
    refuse_above(_SPECIAL, f"add at most {_SPECIAL:,} tokens by its templates", special)
    grown = _bound(steps["decoder"], 1)
    refuse_above(_LONGEST, f"make at most {_LONGEST:,} characters of one by its decoder", grown)


def check_added(content: Mapping[str, Any], file: Path) -> None:
    """Raise CheckpointError if a token of its own becomes too long: they are normalized, too."""
    added = [token for token in _listed(content.get("added_tokens")) if isinstance(token, dict)]
    texts = [str(token.get("content")) for token in added if token.get("normalized")]
    growth = Growth(content.get("normalizer"))
    for text in texts:
        try:
            growth.check(text)
        except TooMuch as error:
            raise CheckpointError(
                file, "have tokens that normalizing does not make long", plain(error), _AGAIN
            ) from None


# ── what becomes of a text ────────────────────────────────────────────────────────────────────


class Growth:
    """How much a normalizer, as a tokenizer.json describes it, makes of a text.

    >>> twice = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
    >>> Growth({"type": "Sequence", "normalizers": [twice] * 5}).check("banana")
    >>> Growth({"type": "Sequence", "normalizers": [twice] * 40}).check("banana")
    Traceback (most recent call last):
    regard.models.tokenizer_limits.TooMuch: more than 1,048,696 characters from 6
    """

    def __init__(self, normalizer: object) -> None:
        self._steps = list(_steps(normalizer))

    def check(self, text: str) -> None:
        """Raise TooMuch if it becomes far longer than it is, before it is that long."""
        most = _most(len(text))
        if _bound(self._steps, len(text)) <= most:
            return
        now = text
        for step in self._steps:
            part = _built(step)
            if _grown(part, step, now, most) <= most:
                now = part.normalize_str(now)
                if len(now) <= most:
                    continue
            raise TooMuch(f"more than {most:,} characters from {len(text):,}")


def _built(step: dict[str, Any]) -> Normalizer:
    from tokenizers import Tokenizer

    model = {"type": "WordLevel", "vocab": {}, "unk_token": ""}
    alone = {"version": "1.0", "normalizer": step, "model": model, "added_tokens": []}
    normalizer = Tokenizer.from_str(json.dumps(alone)).normalizer
    assert normalizer is not None
    return normalizer


def _described(normalizer: Normalizer | None) -> Any:
    """What a tokenizer.json would say of it; None of somebody's own, which is from no file."""
    try:
        return None if normalizer is None else json.loads(normalizer.__getstate__())
    except Exception:  # noqa: BLE001, as the library raises nothing else where it is not its own
        return None


def _most(length: int) -> int:
    return _ROOM + _GROWTH * length


def _bound(steps: list[dict[str, Any]], length: int) -> int:
    """At most so many characters come of a text of that length.

    What Unicode itself makes longer does not count: it is at most 18 times as long, and no longer
    by being done again.
    """
    maps = 0
    for step in steps:
        put = len(_put(step))
        pattern = step.get("pattern")
        if step.get("type") == "Prepend":
            length += put
        elif isinstance(_get(pattern, "String"), str) and _get(pattern, "String"):
            length = length * max(put, len(_get(pattern, "String"))) // len(_get(pattern, "String"))
        elif pattern is not None:
            length = (length + 1) * (put + 1)  # it may match between any two characters
        elif step.get("type") == "ByteLevel":
            length *= 4
        elif longest := _longest_entry(step):
            maps += 1
            length *= longest if maps > 1 or longest > _USUAL else 1
    return length


def _grown(part: Normalizer, step: dict[str, Any], text: str, most: int) -> int:
    """How long a text will be, as far as that may be too long."""
    from tokenizers import Regex
    from tokenizers.normalizers import Replace

    if _bound([step], len(text)) <= most:
        return len(text)
    pattern = step.get("pattern")
    if pattern is not None:
        # How often it matches is told by what one letter in its place makes longer than none.
        found = Regex(pattern["Regex"]) if "Regex" in pattern else pattern["String"]
        none, one = (len(Replace(found, put).normalize_str(text)) for put in ("", "x"))
        return none + (one - none) * len(_put(step))
    length = 0
    for start in range(0, len(text), _PIECE):
        length += len(part.normalize_str(text[start : start + _PIECE]))
        if length > most:
            break
    return length


class Bounded:
    """A tokenizer that makes neither too much of a text, nor takes for ever.

    >>> from tokenizers import Tokenizer
    >>> from tokenizers.models import WordLevel
    >>> Bounded(Tokenizer(WordLevel({"?": 0, "I": 1}, unk_token="?"))).encode("I").ids
    [1]
    """

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._growth = Growth(_described(tokenizer.normalizer))
        self._has_no_end = False

    def encode(self, text: str) -> Encoding:
        """The tokens of a text. Raises TooMuch, or TimeoutError: a pattern may never end.

        Ctrl-C gets through meanwhile, as only another thread is busy. That one cannot be ended; it
        does not keep the process from ending, and there is never a second.
        """
        self._growth.check(text)
        if self._has_no_end:
            raise TimeoutError
        found: list[Encoding | BaseException] = []

        def work() -> None:
            try:
                # Other than `encode`, this lets other threads go on.
                found.append(self._tokenizer.encode_batch([text])[0])
            except BaseException as error:  # noqa: BLE001, as it is raised below
                found.append(error)

        thread = threading.Thread(target=work, daemon=True, name="regard-tokenizer")
        thread.start()
        thread.join(_SECONDS + len(text) / _SLOWEST)
        if not found:
            self._has_no_end = True
            raise TimeoutError
        if isinstance(found[0], BaseException):
            raise found[0]
        return found[0]


# ── what stands in a step ─────────────────────────────────────────────────────────────────────


def _steps(part: object) -> Iterator[dict[str, Any]]:
    """Each step of a part of the file that is not made of others."""
    waiting = [part]
    while waiting:
        step = waiting.pop()
        if isinstance(step, dict) and step.get("type") == "Sequence":
            inside = [step.get(each) for each in _INSIDE]
            waiting += [each for some in inside for each in reversed(_listed(some))]
        elif isinstance(step, dict):
            yield step


def _put(step: dict[str, Any]) -> str:
    """What a step puts into a text."""
    found = step.get("prepend") if step.get("type") == "Prepend" else step.get("content")
    return found if isinstance(found, str) else ""


def _longest_entry(step: dict[str, Any]) -> int:
    """Bytes of the longest entry in its map of characters: the size of an index in 4 bytes, the
    index, and the entries with a zero byte after each.
    """
    packed = step.get("precompiled_charsmap")
    try:
        content = base64.b64decode(packed) if isinstance(packed, str) else b""
    except (binascii.Error, ValueError):
        return 0  # which the library refuses
    start = 4 + int.from_bytes(content[:4], "little")
    return max(map(len, content[start:].split(b"\0")))


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _keys(value: object) -> list[Any]:
    return list(value) if isinstance(value, dict) else []


def _get(value: object, *names: str) -> Any:
    for name in names:
        value = value.get(name) if isinstance(value, dict) else None
    return value
