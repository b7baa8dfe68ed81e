"""A text as a model reads it: what its tokenizer makes of it, before any weight is there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard._arguments import whole
from regard._checkpoint.errors import is_from_rust, plain
from regard.models.tokenizer_limits import Bounded, TooMuch
from regard.text import Token, place_tokens

if TYPE_CHECKING:
    from tokenizers import Encoding, Tokenizer


@dataclass(frozen=True)
class Reading:
    """The tokens of a text, of which the model gets `ids` and `type_ids`, one a token.

    A token that the model does not know has the text that is read for it, such as [UNK].
    """

    text: str
    tokens: list[Token]
    ids: list[int]
    type_ids: list[int]

    @property
    def pieces(self) -> list[str]:
        """What each token stands for in the text; a special token, which is not in it, its name."""
        return [self.text[each.start : each.end] or each.text for each in self.tokens]

    @property
    def unknown(self) -> list[str]:
        """The pieces of the text that the model does not know."""
        each = zip(self.pieces, self.tokens, strict=True)
        return [piece for piece, token in each if piece != token.text]

    @property
    def sign(self) -> str:
        """What the model reads for these; empty if it knows all."""
        each = zip(self.pieces, self.tokens, strict=True)
        return next((token.text for piece, token in each if piece != token.text), "")


class Reader:
    """Reads texts with the tokenizer of a model that takes at most `positions` tokens, whose ids
    are below `rows`; None is no limit. Without a tokenizer no text can be read.

    >>> from tokenizers import Tokenizer
    >>> from tokenizers.models import WordLevel
    >>> from tokenizers.pre_tokenizers import Whitespace
    >>> words = Tokenizer(WordLevel({"?": 0, "I": 1, "love": 2}, unk_token="?"))
    >>> words.pre_tokenizer = Whitespace()
    >>> reading = Reader("small", words).read("I love you")
    >>> [token.text for token in reading.tokens], reading.unknown
    (['I', 'love', '?'], ['you'])
    >>> Reader("small", words).read("I love you", first=2).text
    'I love'
    """

    def __init__(
        self,
        name: str,
        tokenizer: Tokenizer | None,
        *,
        unknown: str | None = None,
        positions: object = None,
        rows: int | None = None,
    ) -> None:
        self.name = name
        # A config may say anything.
        self._positions = positions if isinstance(positions, int) and positions > 0 else None
        self._rows = rows
        if tokenizer is None:
            self._bounded = None
        else:
            self._bounded = Bounded(tokenizer)
            self._sign = getattr(tokenizer.model, "unk_token", None) or unknown or ""
            self._unknown_id = tokenizer.token_to_id(self._sign)

    @property
    def positions(self) -> int | None:
        """How many tokens the model takes at most; None: as many as there are."""
        return self._positions

    def read(self, text: object, operation: str = "read", first: int | None = None) -> Reading:
        """A text, or as much of it as its `first` tokens are, special tokens included.

        Raises ValueError, in the name of an operation, if the tokenizer cannot take it.
        """
        if first is not None:
            first = whole(
                f"{operation}()", "first", first, remedy="It is how many tokens are read."
            )
        encoding = self._encode(text, operation)
        assert isinstance(text, str)
        tokens = [
            Token(self._sign, token.start, token.end)
            if number == self._unknown_id and token.start < token.end
            else token
            for token, number in zip(
                place_tokens(text, encoding.tokens, encoding.offsets), encoding.ids, strict=True
            )
        ]
        if first is None or first >= len(tokens):
            return Reading(text, tokens, encoding.ids, encoding.type_ids)
        # The special tokens behind the text, such as [SEP], stay behind what is left of it.
        own = [n for n, token in enumerate(tokens) if token.start < token.end]
        behind = [*range(own[-1] + 1, len(tokens))] if own else []
        kept = first - len(behind)
        if not own or kept <= own[0]:
            raise ValueError(
                f"{operation}(): first must leave room for a token of the text beside the "
                f"{len(tokens) - len(own)} that {self.name} adds; got {first}. Take more."
            )
        end = tokens[kept - 1].end
        places = [*range(kept), *behind]
        tokens = [Token(each.text, min(each.start, end), min(each.end, end)) for each in tokens]
        return Reading(
            text[:end],
            [tokens[n] for n in places],
            [encoding.ids[n] for n in places],
            [encoding.type_ids[n] for n in places],
        )

    def check(self, readings: Sequence[Reading], operation: str = "read") -> None:
        """Raise ValueError for a text that the model cannot take."""
        for reading in readings:
            count, largest = len(reading.ids), max(reading.ids, default=0)
            if count == 0:
                wrong = "have at least one token; got none. Give it a word."
            elif self._positions is not None and count > self._positions:
                wrong = (
                    f"have at most the {self._positions:,} tokens that {self.name} has positions "
                    f"for; got {count:,}. Cut it into parts, or say first={self._positions} to "
                    "read the first of them: nothing is cut off here unasked."
                )
            elif self._rows is not None and largest >= self._rows:
                unknown = reading.tokens[reading.ids.index(largest)].text
                wrong = (
                    f"have tokens that {self.name} knows, {self._rows:,} in number; got "
                    f"{unknown!r}, whose number is {largest:,}. The tokenizer does not belong to "
                    "the model."
                )
            else:
                continue
            raise ValueError(f"{operation}(): text must {wrong}")

    def _encode(self, text: object, operation: str) -> Encoding:
        if self._bounded is None:
            raise ValueError(
                f"{operation}(): {self.name} must have a tokenizer; got a folder without "
                "tokenizer.json. Put one there with tokenizer.save_pretrained(folder)."
            )
        if not isinstance(text, str):
            raise TypeError(
                f"{operation}(): text must be a str; got {type(text).__name__}. Decode bytes "
                "first, and join words with spaces."
            )
        tokenizer = f"the tokenizer of {self.name}"
        harm = "Its tokenizer.json is broken, or made to do harm."
        cause: BaseException | None = None
        try:
            text.encode("utf-8")
            return self._bounded.encode(text)
        except UnicodeEncodeError as error:
            wrong = (
                f"be Unicode; got half of a surrogate pair at {error.start}. Read the text with "
                "the encoding that it was written in."
            )
        except TooMuch as error:
            wrong = f"stay of about its length when {tokenizer} normalizes it; got {error}. {harm}"
        except TimeoutError:
            wrong = f"be one that {tokenizer} cuts in seconds; got no end. {harm}"
        except BaseException as error:
            if not is_from_rust(error):
                raise
            cause, said = error, f"an error from it ({plain(error)})"
            wrong = (
                f"be one that {tokenizer} can take; got {said}. Its tokenizer.json may be broken."
            )
        raise ValueError(f"{operation}(): text must {wrong}") from cause


@dataclass(frozen=True)
class OpenedModel:
    """A folder with a model, whose config and tokenizer have been checked.

    `special` has the special tokens by their role. The tokenizer is None if the folder has no
    `tokenizer.json`. `notes` are sentences on what in the folder is not used.
    """

    name: str
    folder: Path
    config: dict[str, Any]
    tokenizer: Tokenizer | None
    special: dict[str, str]
    notes: tuple[str, ...]

    def read(self, text: str, first: int | None = None) -> Reading:
        """What the model will read of a text, or of its `first` tokens.

        Raises ValueError if it cannot. A text may still be too long by a few tokens, where not all
        positions of a model are for them.
        """
        unknown = self.special.get("unk_token")
        positions = self.config.get("max_position_embeddings")
        reader = Reader(self.name, self.tokenizer, unknown=unknown, positions=positions)
        reading = reader.read(text, first=first)
        reader.check([reading])
        return reading
