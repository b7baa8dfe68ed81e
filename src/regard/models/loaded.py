"""What `load` gives: a model, its tokenizer, and text in the form that the model takes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard._checkpoint import is_from_rust, plain
from regard.models.tokenizer_limits import Bounded, TooMuch
from regard.text import Token

if TYPE_CHECKING:
    from tokenizers import Encoding
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerFast


@dataclass(frozen=True, eq=False)
class Loaded:
    """A model and its tokenizer: `model, tokenizer = load("minilm")` takes them apart.

    `decoder` says whether each token sees only those before it. `notes` are sentences on what in
    the folder was not used. The tokenizer is None if the folder had no `tokenizer.json`.

    >>> from tokenizers import Tokenizer
    >>> from tokenizers.models import WordLevel
    >>> from tokenizers.pre_tokenizers import Whitespace
    >>> from transformers import BertConfig, BertModel, PreTrainedTokenizerFast
    >>> words = Tokenizer(WordLevel({"?": 0, "I": 1, "love": 2}, unk_token="?"))
    >>> words.pre_tokenizer = Whitespace()
    >>> small = BertConfig(vocab_size=3, hidden_size=4, num_hidden_layers=1, intermediate_size=4,
    ...                    num_attention_heads=2, max_position_embeddings=5)
    >>> tokenizer = PreTrainedTokenizerFast(tokenizer_object=words)
    >>> loaded = Loaded("small", BertModel(small).eval(), tokenizer, Path("small"), decoder=False)
    >>> loaded
    Loaded(name='small', folder=...Path('small'), decoder=False, notes=())
    >>> loaded.inputs(["I love", "I"])["attention_mask"].tolist()
    [[1, 1], [1, 0]]
    >>> loaded.tokens("I love")
    [Token(text='I', start=0, end=1), Token(text='love', start=2, end=6)]
    >>> loaded.inputs("I I I I I I")
    Traceback (most recent call last):
    ValueError: inputs(): text must have at most the 5 tokens that small has positions for; got 6.
    Shorten it, or cut it into parts: nothing is cut off here unasked.
    """

    name: str
    model: PreTrainedModel = field(repr=False)
    tokenizer: PreTrainedTokenizerFast | None = field(repr=False)
    folder: Path
    decoder: bool
    notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Any]:
        yield self.model
        yield self.tokenizer

    def inputs(self, text: str | Sequence[str]) -> dict[str, Tensor]:
        """The tensors that the model is called with, (B, N) each: `model(**loaded.inputs(text))`.

        The special tokens of the model are added, nothing is ever cut off. Texts of a batch are
        padded to the longest, on the right, so that every token keeps its position. Raises
        ValueError if a text has no token, or more of them than the model has positions.
        """
        import torch

        texts = list(text) if isinstance(text, (list, tuple)) else [text]
        if not texts:
            raise ValueError("inputs(): text must be a text or several; got an empty list.")
        encodings = [self._encode(one, "inputs") for one in texts]
        self._check(encodings)
        longest = max(len(encoding.ids) for encoding in encodings)
        padding = self._padding()

        def padded(rows: list[list[int]], filler: int) -> Tensor:
            return torch.tensor([row + [filler] * (longest - len(row)) for row in rows])

        found = {
            "input_ids": padded([encoding.ids for encoding in encodings], padding),
            "attention_mask": padded([[1] * len(encoding.ids) for encoding in encodings], 0),
            "token_type_ids": padded([encoding.type_ids for encoding in encodings], 0),
        }
        taken = inspect.signature(self.model.forward).parameters
        return {name: tensor for name, tensor in found.items() if name in taken}

    def tokens(self, text: str) -> list[Token]:
        """The tokens of a text as the model sees them, each with its span in the text.

        A special token that the tokenizer adds has its own name as text and an empty span, where it
        stands. A token that is a part of a character has the span of the whole character.
        """
        encoding = self._encode(text, "tokens")
        found: list[Token] = []
        reached = 0
        for name, (start, end), special in zip(
            encoding.tokens, encoding.offsets, encoding.special_tokens_mask, strict=True
        ):
            if special:
                found.append(Token(name, reached, reached))
            else:
                found.append(Token(text[start:end], start, end))
                reached = max(reached, end)
        return found

    def _encode(self, text: object, door: str) -> Encoding:
        if self.tokenizer is None:
            raise ValueError(
                f"{door}(): {self.name} must have a tokenizer; got a folder without "
                "tokenizer.json. Put one there with tokenizer.save_pretrained(folder)."
            )
        if not isinstance(text, str):
            raise TypeError(
                f"{door}(): text must be a str, or a list of them; got {type(text).__name__}. "
                "Decode bytes first, and join words with spaces."
            )
        try:
            text.encode("utf-8")
        except UnicodeEncodeError as error:
            raise ValueError(
                f"{door}(): text must be Unicode; got half of a surrogate pair at "
                f"{error.start}. Read the text with the encoding that it was written in."
            ) from None
        try:
            return self._bounded.encode(text)
        except TooMuch as error:
            raise ValueError(
                f"{door}(): text must stay of about its length when the tokenizer of {self.name} "
                f"normalizes it; got {error}. Its tokenizer.json is broken, or made to do harm."
            ) from None
        except TimeoutError:
            raise ValueError(
                f"{door}(): text must be one that the tokenizer of {self.name} cuts in seconds; "
                "got no end. Its tokenizer.json is broken, or made to do harm."
            ) from None
        except BaseException as error:
            if not is_from_rust(error):
                raise
            raise ValueError(
                f"{door}(): text must be one that the tokenizer of {self.name} can take; got an "
                f"error from it ({plain(error)}). Its tokenizer.json may be broken."
            ) from error

    @cached_property
    def _bounded(self) -> Bounded:
        assert self.tokenizer is not None
        return Bounded(self.tokenizer.backend_tokenizer)

    def _check(self, encodings: list[Encoding]) -> None:
        """Raise ValueError for a text that the model cannot take."""
        positions = self._positions()
        embeddings: Any = self.model.get_input_embeddings()
        rows = embeddings.weight.shape[0]
        for encoding in encodings:
            count = len(encoding.ids)
            if count == 0:
                raise ValueError(
                    "inputs(): text must have at least one token; got none. Give it a word."
                )
            if positions is not None and count > positions:
                raise ValueError(
                    f"inputs(): text must have at most the {positions:,} tokens that {self.name} "
                    f"has positions for; got {count:,}. Shorten it, or cut it into parts: nothing "
                    "is cut off here unasked."
                )
            if max(encoding.ids) >= rows:
                unknown = encoding.tokens[encoding.ids.index(max(encoding.ids))]
                raise ValueError(
                    f"inputs(): text must have tokens that {self.name} knows, {rows:,} in number; "
                    f"got {unknown!r}, whose number is {max(encoding.ids):,}. The tokenizer does "
                    "not belong to the model."
                )

    def _positions(self) -> int | None:
        """How many tokens the model can number; None if it has no such limit."""
        positions = getattr(self.model.config, "max_position_embeddings", None)
        if not isinstance(positions, int) or positions <= 0:
            return None
        for name, module in self.model.named_modules():
            # RoBERTa and its kin start to count after the number of the padding token.
            if name.endswith("position_embeddings"):
                skipped = getattr(module, "padding_idx", None)
                return positions if skipped is None else positions - skipped - 1
        return positions

    def _padding(self) -> int:
        """A token that fills up; which one does not matter, as it is masked."""
        for owner in (self.tokenizer, self.model.config):
            for name in ("pad_token_id", "eos_token_id"):
                found = getattr(owner, name, None)
                if isinstance(found, int) and found >= 0:
                    return found
        return 0
