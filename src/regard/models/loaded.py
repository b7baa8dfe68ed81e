"""What `load` gives: a model, its tokenizer, and text in the form that the model takes."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.models.reader import Reader, Reading
from regard.text import Token

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel, PreTrainedTokenizerFast

    from regard.run import Run


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
    >>> loaded.see("I love")
    Run('BertModel': 1 layer, 2 heads, 2 tokens)
    >>> loaded.inputs("I I I I I I")
    Traceback (most recent call last):
    ValueError: inputs(): text must have at most the 5 tokens that small has positions for; got 6.
    Cut it into parts, or say first=5 to read the first of them: nothing is cut off here unasked.
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

    def inputs(self, text: str | Sequence[str], first: int | None = None) -> dict[str, Tensor]:
        """The tensors that the model is called with, (B, N) each: `model(**loaded.inputs(text))`.

        The special tokens of the model are added; nothing is cut off, unless only the `first` so
        many tokens of each text are asked for. Texts of a batch are padded to the longest, on the
        right, so that every token keeps its position. Raises ValueError if a text has no token, or
        more of them than the model has positions.
        """
        texts = list(text) if isinstance(text, (list, tuple)) else [text]
        if not texts:
            raise ValueError("inputs(): text must be a text or several; got an empty list.")
        return self.batch([self._reader.read(one, "inputs", first) for one in texts])

    def batch(self, readings: Sequence[Reading], operation: str = "inputs") -> dict[str, Tensor]:
        """The tensors of texts that were read already, as `inputs` has them."""
        import torch

        self._reader.check(readings, operation)
        longest = max(len(reading.ids) for reading in readings)
        # What fills up does not matter, as it is masked.
        owners, names = (self.tokenizer, self.model.config), ("pad_token_id", "eos_token_id")
        fillers = (getattr(owner, name, None) for owner in owners for name in names)
        padding = next((each for each in fillers if isinstance(each, int) and each >= 0), 0)

        def padded(rows: list[list[int]], filler: int) -> Tensor:
            return torch.tensor([row + [filler] * (longest - len(row)) for row in rows])

        found = {
            "input_ids": padded([reading.ids for reading in readings], padding),
            "attention_mask": padded([[1] * len(reading.ids) for reading in readings], 0),
            "token_type_ids": padded([reading.type_ids for reading in readings], 0),
        }
        taken = set(inspect.signature(self.model.forward).parameters)
        if (
            not getattr(self.model.config, "type_vocab_size", 0)
            and not found["token_type_ids"].any()
        ):
            taken.discard("token_type_ids")  # GPT-2 would add the row of token 0 for each
        return {name: tensor for name, tensor in found.items() if name in taken}

    def tokens(self, text: str) -> list[Token]:
        """The tokens of a text as the model sees them, each with its span in the text.

        A special token that the tokenizer adds has its own name as text and an empty span, where it
        stands. A token that is a part of a character has the span of the whole character.
        """
        reading = self._reader.read(text, "tokens")
        pieces = zip(reading.pieces, reading.tokens, strict=True)
        return [replace(token, text=piece) for piece, token in pieces]

    def reader(self) -> Reader:
        """What reads texts for the model: `loaded.reader().read(text)`."""
        return self._reader

    @cached_property
    def _reader(self) -> Reader:
        positions = getattr(self.model.config, "max_position_embeddings", None)
        for name, module in self.model.named_modules():
            # RoBERTa and its kin start to count after the number of the padding token.
            if name.endswith("position_embeddings") and isinstance(positions, int):
                skipped = getattr(module, "padding_idx", None)
                positions -= 0 if skipped is None else skipped + 1
                break
        embeddings: Any = self.model.get_input_embeddings()
        return Reader(
            self.name,
            None if self.tokenizer is None else self.tokenizer.backend_tokenizer,
            unknown=getattr(self.tokenizer, "unk_token", None),
            positions=positions,
            rows=embeddings.weight.shape[0],
        )

    def see(self, text: str | Reading, **options: Any) -> Run:
        """The run of a text: where every head of the model looked. `regard.ask.see` has the
        options, such as `first`, `keep` and `ablate`.
        """
        from regard.ask import see

        return see(self, text, **options)
