"""The tokens of a run: their ids as the model got them, and their texts and spans."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from regard.text import Token

__all__ = ["TokenIds", "tokens_of"]


class TokenIds:
    """The token ids that a model is given, which grow while it generates."""

    def __init__(self) -> None:
        self._ids: dict[str, Tensor | None] = {"": None, "decoder": None}
        self._grows = False

    def take(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Look for ids among the arguments of one forward pass."""
        first = next((x for x in args if isinstance(x, Tensor)), None)
        self._grows = _has_past(kwargs)
        own = kwargs.get("input_ids", first)
        decoder = kwargs.get("decoder_input_ids")
        if decoder is None:
            self._ids["decoder"] = None
            self._ids[""] = self._grown(self._ids[""], own)
        else:
            self._ids["decoder"] = self._grown(self._ids["decoder"], decoder)
            if own is not None:
                self._ids[""] = _ids(own)

    def _grown(self, old: Tensor | None, given: Any) -> Tensor | None:
        ids = _ids(given)
        if ids is None or not self._grows:
            return ids
        if old is None or len(old) != len(ids):
            return None
        return torch.cat([old, ids.to(old.device)], 1)

    def forget(self) -> None:
        """Sequences have changed places, as beams do: whose tokens are whose is not known."""
        if self._grows:
            self._ids = dict.fromkeys(self._ids)

    def all(self) -> Tensor | None:
        return self._ids[""]

    def of(self, name: str, n_keys: int) -> Tensor | None:
        """The ids of all keys of a module, None if they are not known."""
        is_decoders = self._ids["decoder"] is not None and "decoder" in name.split(".")
        ids = self._ids["decoder" if is_decoders else ""]
        return ids if ids is not None and ids.shape[1] == n_keys else None


def _ids(given: Any) -> Tensor | None:
    if isinstance(given, Tensor) and given.dim() == 2 and given.dtype in (torch.int64, torch.int32):
        return given.detach()
    return None


def _has_past(kwargs: dict[str, Any]) -> bool:
    past = kwargs.get("past_key_values")
    length = getattr(past, "get_seq_length", None)
    return past is not None and (length is None or int(length()) > 0)


def tokens_of(
    tokenizer: Any, text: str | list[str] | None, ids: Tensor | None
) -> list[list[Token]] | None:
    """The tokens of each sequence; spans where the text gives the same ids, else those of a text
    put together from the tokens."""
    if tokenizer is None:
        return None
    texts = [text] if isinstance(text, str) else text
    if ids is None:
        if texts is None:
            return None
        return [_with_spans(tokenizer, each)[1] for each in texts]
    result: list[list[Token]] = []
    for n, row in enumerate(ids.tolist()):
        spans: list[Token] | None = None
        if texts is not None and n < len(texts):
            own, tokens = _with_spans(tokenizer, texts[n])
            at = _place(own, row)
            if at is not None:
                spans = _pad(tokenizer, tokens, at, row, len(texts[n]))
        result.append(spans if spans is not None else _apart(tokenizer, row))
    return result


def _with_spans(tokenizer: Any, text: str) -> tuple[list[int], list[Token]]:
    encoded = tokenizer(text, return_offsets_mapping=True, truncation=False)
    ids, spans = encoded["input_ids"], encoded["offset_mapping"]
    names = tokenizer.convert_ids_to_tokens(ids)
    return ids, [
        Token(text[start:end] if end > start else name, start, end)
        for name, (start, end) in zip(names, spans, strict=True)
    ]


def _place(own: list[int], row: list[int]) -> int | None:
    """Where `own` lies in `row`, which may be padded, or go on."""
    for at in range(len(row) - len(own) + 1):
        if row[at : at + len(own)] == own:
            return at
    return None


def _pad(tokenizer: Any, tokens: list[Token], at: int, row: list[int], end: int) -> list[Token]:
    names = tokenizer.convert_ids_to_tokens(row)
    before = [Token(name, 0, 0) for name in names[:at]]
    behind = [Token(_text_of(tokenizer, token), end, end) for token in row[at + len(tokens) :]]
    return [*before, *tokens, *behind]


def _apart(tokenizer: Any, row: list[int]) -> list[Token]:
    """Each token's own text, one behind the other."""
    tokens: list[Token] = []
    at = 0
    for token in row:
        text = _text_of(tokenizer, token)
        tokens.append(Token(text, at, at + len(text)))
        at += len(text)
    return tokens


def _text_of(tokenizer: Any, token: int) -> str:
    return tokenizer.decode([token])
