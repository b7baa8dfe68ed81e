"""What a token is: bytes, characters, or pieces that are learned from the texts."""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from regard._extras import need

if TYPE_CHECKING:
    from tokenizers import Tokenizer

SPECIAL = ("<pad>", "<start>", "<stop>", "<unknown>", "<mask>")
PAD, START, STOP, UNKNOWN, MASK = range(len(SPECIAL))
IGNORED = -100  # a target that does not count, as PyTorch has it
_MOST_CHARACTERS = 100_000


def make_tokenizer(kind: str, texts: Iterable[str], vocabulary: int = 0) -> Tokenizer:
    """A tokenizer of these texts. Its first tokens are SPECIAL; no text is ever read as one.

    >>> made = make_tokenizer("characters", ["hello"])
    >>> made.encode("hole", add_special_tokens=False).ids, made.get_vocab_size()
    ([6, 8, 7, 5], 9)
    >>> made.decode([6, 8, 7, 5])
    'hole'
    """
    return {"characters": _characters, "bytes": _bytes, "bpe": _pieces}[kind](texts, vocabulary)


def _library() -> Any:
    return need("train()", "tokenizers", "models")


def _characters(texts: Iterable[str], vocabulary: int) -> Tokenizer:
    library = _library()
    found: set[str] = set()
    for text in texts:
        found.update(text)
    if len(found) > _MOST_CHARACTERS:
        raise ValueError(
            f"train(): the texts must have at most {_MOST_CHARACTERS:,} different characters; got "
            f'{len(found):,}. tokens = "bytes" takes any text.'
        )
    words = {text: number for number, text in enumerate([*SPECIAL, *sorted(found)])}
    made = library.Tokenizer(library.models.WordLevel(words, unk_token=SPECIAL[UNKNOWN]))
    any_character = library.Regex(r"[\s\S]")
    made.pre_tokenizer = library.pre_tokenizers.Split(any_character, "isolated")
    made.decoder = library.decoders.Fuse()
    return _with_special(made)


def _bytes(texts: Iterable[str], vocabulary: int) -> Tokenizer:
    library = _library()
    alphabet = sorted(library.pre_tokenizers.ByteLevel.alphabet())
    words = {text: number for number, text in enumerate([*SPECIAL, *alphabet])}
    made = library.Tokenizer(library.models.BPE(words, []))
    return _with_special(_of_bytes(made, regex=False))


def _pieces(texts: Iterable[str], vocabulary: int) -> Tokenizer:
    library = _library()
    made = _of_bytes(library.Tokenizer(library.models.BPE()), regex=True)
    alphabet = library.pre_tokenizers.ByteLevel.alphabet()
    least = len(SPECIAL) + len(alphabet)
    if vocabulary < least:
        raise ValueError(
            f"recipe [data]: vocabulary must be at least {least}, one for each byte and "
            f"{len(SPECIAL)} more; got {vocabulary}."
        )
    trainer = library.trainers.BpeTrainer(
        vocab_size=vocabulary,
        special_tokens=list(SPECIAL),
        initial_alphabet=sorted(alphabet),
        show_progress=False,
    )
    made.train_from_iterator(iter(texts), trainer)
    return _with_special(made)


def _of_bytes(made: Any, *, regex: bool) -> Any:
    library = _library()
    made.pre_tokenizer = library.pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=regex)
    made.decoder = library.decoders.ByteLevel()
    return made


def _with_special(made: Any) -> Any:
    """Special tokens are known, so that decoding leaves them out."""
    library = _library()
    made.add_special_tokens([library.AddedToken(text, special=True) for text in SPECIAL])
    return made


def ids_of(tokenizer: Tokenizer, text: str) -> list[int]:
    """The tokens of a text; what looks like a special token in it is taken letter by letter.

    >>> ids_of(make_tokenizer("characters", ["<stop>"]), "<stop>")
    [5, 9, 10, 7, 8, 6]
    """
    if any(special in text for special in SPECIAL):
        # A special token is found before anything else is: not in two halves of it.
        halves: list[int] = []
        for part in _torn(text):
            halves += tokenizer.encode(part, add_special_tokens=False).ids
        return halves
    return tokenizer.encode(text, add_special_tokens=False).ids


def reader_of(kind: str, tokenizer: Tokenizer) -> Callable[[str], NDArray[np.uint32]]:
    """The same as `ids_of`, by a table where a token is a letter or a byte: far faster.

    >>> made = make_tokenizer("characters", ["hello"])
    >>> reader_of("characters", made)("hole?").tolist()
    [6, 8, 7, 5, 3]
    """
    if kind == "bpe":
        return lambda text: np.array(ids_of(tokenizer, text), np.uint32)
    words = tokenizer.get_vocab()
    if kind == "bytes":
        table = np.array([words[letter] for letter in _letters_of_bytes()], np.uint32)
        return lambda text: table[np.frombuffer(text.encode("utf-8"), np.uint8)]
    table = np.full(sys.maxunicode + 1, UNKNOWN, np.uint32)
    for word, number in words.items():
        if len(word) == 1:
            table[ord(word)] = number
    return lambda text: table[np.frombuffer(text.encode("utf-32-le"), "<u4")]


def _letters_of_bytes() -> list[str]:
    """The letter that stands for each byte, as GPT-2 has it: itself if it can be seen, else one of
    those from 256 on.
    """
    seen = {*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)}
    others = itertools.count(256)
    return [chr(byte if byte in seen else next(others)) for byte in range(256)]


def _torn(text: str) -> Iterator[str]:
    """The text in parts, none of which has a special token in it."""
    start = 0
    for place, character in enumerate(text):
        if character == "<" and any(text.startswith(special, place) for special in SPECIAL):
            yield text[start : place + 1]
            start = place + 1
    yield text[start:]
