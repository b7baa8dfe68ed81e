"""A model whose weights are not read yet: what it makes of a text is known before they are."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.models.reader import Reader, Reading, no_tokenizer, positions_of

if TYPE_CHECKING:
    from tokenizers import Tokenizer


@dataclass(frozen=True)
class Opened:
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
        if self.tokenizer is None:
            raise no_tokenizer(self.name, "read")
        unknown, positions = self.special.get("unk_token"), positions_of(self.config)
        reader = Reader(self.name, self.tokenizer, unknown=unknown, positions=positions)
        reading = reader.read(text, first=first)
        reader.check([reading])
        return reading
