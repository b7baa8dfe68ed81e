"""The tokens of a run: their ids as the model got them, and their texts and spans."""

from __future__ import annotations

import threading
from itertools import accumulate
from typing import Any

import torch
from torch import Tensor, nn

from regard.nn import Cache, Transformer
from regard.text import Token, place_tokens


class Text:
    """The token ids of one pass, or of a prompt and what is generated from it."""

    def __init__(self, first: int, has_encoder: bool) -> None:
        self.first = first  # how many sequences were read before
        self._has_encoder = has_encoder  # so that a decoder reads something else
        self._grows = False
        self.ids: dict[str, Tensor | None] = {"": None, "decoder": None}  # by the part that reads

    def take(self, own: Any, decoder: Any, grows: bool) -> None:
        """The ids of one forward pass, which go on from those before, if it grows."""
        self._grows = grows
        if decoder is None:
            self.ids = {"": self._grown("", own), "decoder": None}
        else:
            self.ids["decoder"] = self._grown("decoder", decoder)
            if own is not None:
                self.ids[""] = _ids(own)

    def _grown(self, part: str, given: Any) -> Tensor | None:
        old, ids = self.ids[part], _ids(given)
        if ids is None or not self._grows:
            return ids
        if old is None or len(old) != len(ids):
            return None
        return torch.cat([old, ids.to(old.device)], 1)

    def forget(self) -> None:
        """Sequences have changed places, as beams do: whose tokens are whose is not known."""
        if self._grows:
            self.ids = dict.fromkeys(self.ids)

    def part(self, name: str) -> str:
        """Which ids a module reads: "decoder", or "" for all others."""
        is_known = self._has_encoder or self.ids["decoder"] is not None
        return "decoder" if is_known and "decoder" in name.split(".") else ""

    def of(self, name: str, n_keys: int) -> Tensor | None:
        """The ids of all keys of a module, None if they are not known."""
        ids = self.ids[self.part(name)]
        return ids if ids is not None and ids.shape[1] == n_keys else None


def _ids(given: Any) -> Tensor | None:
    if isinstance(given, Tensor) and given.dim() == 2 and given.dtype in (torch.int64, torch.int32):
        return given.detach().clone()
    return None


class _Here(threading.local):
    text: Text | None = None  # what is being read in this thread


class TokenIds:
    """The texts that a model is given, by the thread that it runs in."""

    def __init__(self, model: nn.Module) -> None:
        names = (name for name, _ in model.named_modules(remove_duplicate=False))
        self._has_encoder = any("encoder" in name.split(".") for name in names)
        self._is_ours = isinstance(model, Transformer)
        self.here = _Here()
        self._lock = threading.RLock()
        self.sequences = 0  # that were read, one pass after the other
        self.count = 0  # of texts
        self.last: Text | None = None  # in whichever thread

    def take(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Look for ids among the arguments of one forward pass."""
        decoder = kwargs.get("decoder_input_ids")
        if self._is_ours:
            given = dict(zip(("source", "target"), args, strict=False)) | kwargs
            own, decoder = given.get("source"), given.get("target")
        else:
            own = kwargs.get("input_ids", next((x for x in args if isinstance(x, Tensor)), None))
        grows = _has_past(kwargs)
        text = self.here.text if grows else None
        with self._lock:
            if text is None:
                text = Text(self.sequences, self._has_encoder)
                self.count += 1
                ids = _ids(own)
                self.sequences += 0 if ids is None else len(ids)
            self.here.text = self.last = text
        text.take(own, decoder, grows)


def _has_past(kwargs: dict[str, Any]) -> bool:
    cache, past = kwargs.get("cache"), kwargs.get("past_key_values")
    if isinstance(cache, Cache):
        return cache.length > 0
    length = getattr(past, "get_seq_length", None)
    return past is not None and (length is None or int(length()) > 0)


class Names:
    """Names for the tokens of texts: what a tokenizer makes of them, and of what was given as text.

    Texts are those of the sequences of a pass, or, if there are as many as all passes have
    sequences, of one pass after the other.
    """

    def __init__(self, tokenizer: Any, text: str | list[str] | None, sequences: int) -> None:
        self._tokenizer = tokenizer
        self._texts = [text] if isinstance(text, str) else text
        self._is_in_order = self._texts is not None and len(self._texts) == sequences
        self._found: dict[str, bool] = {}  # was a text what the model read, in any pass?
        self._known: dict[tuple[int, str], list[list[Token]] | None] = {}

    @property
    def not_read(self) -> list[str]:
        """The texts that are not what the model read, of those that were compared."""
        return [text for text, found in self._found.items() if not found]

    def texts_of(self, text: Text | None) -> list[str] | None:
        """What was given as the texts of this one."""
        if self._texts is None or text is None or text.ids[""] is None or not self._is_in_order:
            return self._texts
        return self._texts[text.first : text.first + len(text.ids[""])]

    def of(self, text: Text | None, part: str = "") -> list[list[Token]] | None:
        """The tokens of each sequence; spans where the text gives the same ids, else those of a
        text put together from the tokens. None if they are not known."""
        if self._tokenizer is None:
            return None
        key = id(text), part
        if key not in self._known:
            texts = (None if part else self.texts_of(text)) or []
            ids = None if text is None else text.ids[part]
            if ids is not None:
                rows = enumerate(ids.tolist())
                named = [self._named(row, texts[n] if n < len(texts) else None) for n, row in rows]
            else:
                named = [self._with_spans(each)[1] for each in texts] if texts else None
            self._known[key] = named
        return self._known[key]

    def _named(self, row: list[int], text: str | None) -> list[Token]:
        """The tokens of one sequence, whose ids are `row`: the text may be padded, or go on."""
        decode = self._tokenizer.decode
        if text is not None:
            own, tokens = self._with_spans(text)
            starts = range(len(row) - len(own) + 1)
            at = next((n for n in starts if row[n : n + len(own)] == own), None)
            self._found[text] = self._found.get(text, False) or at is not None
            if at is not None:
                padding = self._tokenizer.convert_ids_to_tokens(row[:at])
                before = [Token(name, 0, 0) for name in padding]
                end = len(text)
                behind = [Token(decode([token]), end, end) for token in row[at + len(tokens) :]]
                return [*before, *tokens, *behind]
        words = [decode([token]) for token in row]  # one behind the other
        ends = accumulate(len(word) for word in words)
        return [Token(word, end - len(word), end) for word, end in zip(words, ends, strict=True)]

    def _with_spans(self, text: str) -> tuple[list[int], list[Token]]:
        encoded = self._tokenizer(text, return_offsets_mapping=True, truncation=False)
        ids, spans = encoded["input_ids"], encoded["offset_mapping"]
        names = self._tokenizer.convert_ids_to_tokens(ids)
        return ids, place_tokens(text, names, spans)
