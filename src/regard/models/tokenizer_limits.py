"""What a tokenizer that came from elsewhere may do: nothing that outgrows the text by far.

A `tokenizer.json` is a program in small: its steps may double a text, and twenty of them fill a
machine. What can be told from the file is refused before the tokenizer is built; how much a text
grows is found out step by step before it is tokenized, where the steps could make too much of it.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard._checkpoint.errors import DO_NOT_USE, CheckpointError, plain

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer

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


class TooMuch(ValueError):
    """A text would become too long."""


# ── what the file says ────────────────────────────────────────────────────────────────────────


def check_tokenizer(content: Mapping[str, Any], file: Path) -> None:
    """Raise CheckpointError for a tokenizer.json that would fill the memory, however short a text.

    What is no tokenizer at all is left to its library.
    """

    def refuse_above(most: int, expected: str, found: int) -> None:
        if found > most:
            raise CheckpointError(file, expected, plain(found), DO_NOT_USE)

    ids = [_object(token).get("id") for token in _listed(content.get("added_tokens"))]
    ids += _object(_object(content.get("model")).get("vocab")).values()
    largest = max((number for number in ids if isinstance(number, int)), default=0)
    refuse_above(_IDS - 1, f"number its tokens below {_IDS:,}", largest)
    steps: dict[str, list[_Step]] = {}
    for part in ("normalizer", "pre_tokenizer", "post_processor", "decoder"):
        found = list(_steps(content.get(part)))
        what = part.replace("_", "-")
        refuse_above(_STEPS, f"have at most {_STEPS:,} steps as its {what}", len(found))
        steps[part] = [_Step(step) for step in found]
        longest = max((step.put for step in steps[part]), default=0)
        refuse_above(_LONGEST, f"put in at most {_LONGEST:,} characters at a time", longest)
    entry = max((step.entry for step in steps["normalizer"]), default=0)
    refuse_above(_LONGEST, f"have a map of characters to at most {_LONGEST:,} bytes", entry)
    twice = sum(step.kind == "ByteLevel" for step in steps["pre_tokenizer"])
    refuse_above(_BYTE_LEVELS, f"turn bytes into letters at most {_BYTE_LEVELS} times", twice)
    times, special = 1, 0
    for step in steps["post_processor"]:
        known = _object(step.content.get("special_tokens"))
        sizes = {name: len(_listed(_object(each).get("ids"))) for name, each in known.items()}
        single = [_object(piece) for piece in _listed(step.content.get("single"))]
        names = [_object(piece.get("SpecialToken")).get("id") for piece in single]
        repeated = max(sum("Sequence" in piece for piece in single), 1)
        times *= repeated
        special *= repeated
        special += sum(sizes.get(name, 1) for name in names if isinstance(name, str))
    refuse_above(_TIMES, f"repeat a text at most {_TIMES} times by its templates", times)
    refuse_above(_SPECIAL, f"add at most {_SPECIAL:,} tokens by its templates", special)
    grown = _bound(steps["decoder"], 1)
    refuse_above(_LONGEST, f"make at most {_LONGEST:,} characters of one by its decoder", grown)


def check_added(content: Mapping[str, Any], file: Path) -> None:
    """Raise CheckpointError if a token of its own becomes too long: they are normalized, too."""
    growth = Growth(content.get("normalizer"))
    for token in map(_object, _listed(content.get("added_tokens"))):
        try:
            if token.get("normalized"):
                growth.check(str(token.get("content")))
        except TooMuch as error:
            expected = "have tokens that normalizing does not make long"
            raise CheckpointError(file, expected, plain(error), DO_NOT_USE) from None


# ── what becomes of a text ────────────────────────────────────────────────────────────────────


class _Step:
    """A step of a tokenizer.json, as far as it may make a text longer."""

    def __init__(self, content: dict[str, Any]) -> None:
        self.content = content
        self.kind = content.get("type")
        self.pattern = content.get("pattern")
        put = content.get("prepend" if self.kind == "Prepend" else "content")
        self.put = len(put) if isinstance(put, str) else 0  # characters that it puts into a text
        # Bytes of the longest entry in its map of characters: the size of an index in 4 bytes, the
        # index, and the entries with a zero byte after each.
        packed = content.get("precompiled_charsmap")
        try:
            unpacked = base64.b64decode(packed) if isinstance(packed, str) else b""
        except (binascii.Error, ValueError):
            unpacked = b""  # which the library refuses
        start = 4 + int.from_bytes(unpacked[:4], "little")
        entries = re.finditer(rb"[^\0]+", unpacked[start:])
        self.entry = max((len(entry[0]) for entry in entries), default=0)

    def apply(self, text: str, most: int) -> str | None:
        """What becomes of a text; None if that is longer than `most`, and then it is not made."""
        from tokenizers import Regex, Tokenizer
        from tokenizers.normalizers import Replace

        model = {"type": "WordLevel", "vocab": {}, "unk_token": ""}
        alone = {"version": "1.0", "normalizer": self.content, "model": model, "added_tokens": []}
        normalizer = Tokenizer.from_str(json.dumps(alone)).normalizer
        assert normalizer is not None
        if _bound([self], len(text)) <= most:
            length = 0
        elif self.pattern is not None:
            # How often it matches is told by what one letter in its place makes longer than none.
            regex = "Regex" in self.pattern
            found = Regex(self.pattern["Regex"]) if regex else self.pattern["String"]
            none, one = (len(Replace(found, put).normalize_str(text)) for put in ("", "x"))
            length = none + (one - none) * self.put
        else:
            length = 0
            for start in range(0, len(text), _PIECE):
                length += len(normalizer.normalize_str(text[start : start + _PIECE]))
                if length > most:
                    break
        made = normalizer.normalize_str(text) if length <= most else None
        return None if made is None or len(made) > most else made


def _bound(steps: list[_Step], length: int) -> int:
    """At most so many characters come of a text of that length.

    What Unicode itself makes longer does not count: it is at most 18 times as long, and no longer
    by being done again.
    """
    maps = 0
    for step in steps:
        string = _object(step.pattern).get("String")
        if step.kind == "Prepend":
            length += step.put
        elif isinstance(string, str) and string:
            length = length * max(step.put, len(string)) // len(string)
        elif step.pattern is not None:
            length = (length + 1) * (step.put + 1)  # it may match between any two characters
        elif step.kind == "ByteLevel":
            length *= 4
        elif step.entry:
            maps += 1
            length *= step.entry if maps > 1 or step.entry > _USUAL else 1
    return length


class Growth:
    """How much a normalizer, as a tokenizer.json describes it, makes of a text.

    >>> twice = {"type": "Replace", "pattern": {"String": "a"}, "content": "aa"}
    >>> Growth({"type": "Sequence", "normalizers": [twice] * 5}).check("banana")
    >>> Growth({"type": "Sequence", "normalizers": [twice] * 40}).check("banana")
    Traceback (most recent call last):
    regard.models.tokenizer_limits.TooMuch: more than 1,048,696 characters from 6
    """

    def __init__(self, normalizer: object) -> None:
        self._steps = [_Step(step) for step in _steps(normalizer)]

    def check(self, text: str) -> None:
        """Raise TooMuch if it becomes far longer than it is, before it is that long."""
        most = _ROOM + _GROWTH * len(text)
        if _bound(self._steps, len(text)) <= most:
            return
        now: str | None = text
        for step in self._steps:
            now = step.apply(now, most)
            if now is None:
                raise TooMuch(f"more than {most:,} characters from {len(text):,}")


class Bounded:
    """A tokenizer that makes neither too much of a text, nor takes for ever."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._has_no_end = False
        try:
            described = json.loads(tokenizer.normalizer.__getstate__())
        except Exception:  # noqa: BLE001, there is none, or somebody's own, which is from no file
            described = None
        self._growth = Growth(described)

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


# ── what stands in the file ───────────────────────────────────────────────────────────────────


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


def _listed(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _object(value: object) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}
