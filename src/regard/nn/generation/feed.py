"""A model, one token of each sequence at a time: a prompt goes in whole, then what follows it."""

from __future__ import annotations

import math
from collections.abc import Generator
from contextlib import contextmanager

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from regard.nn._evaluation import evaluating
from regard.nn.models import LanguageModel
from regard.nn.transformer import Transformer


class Feed:
    """The logits of the next token, and what is remembered of the tokens so far.

    `prompts` are the first tokens of each sequence, `source` what a `Transformer` reads.
    """

    def __init__(
        self,
        call: str,
        model: LanguageModel | Transformer,
        prompts: list[list[int]],
        *,
        source: list[list[int]] | None = None,
        window: int | None = None,
    ) -> None:
        self.count = len(prompts)
        self._call, self._model, self._prompts, self._source = call, model, prompts, source
        self._device = model.head.weight.device
        self._cache = model.new_cache(len(prompts), window)
        self._source_ids: Tensor | None = None
        self._source_lengths: Tensor | None = None

    @contextmanager
    def quiet(self) -> Generator[None]:
        """Inside the `with` there are no gradients and no dropout; then all is as before."""
        with evaluating(self._model), torch.inference_mode():
            yield

    def begin(self) -> tuple[Tensor, Tensor]:
        """The logits (B, vocabulary) of the first new tokens, and their logsumexp (B,)."""
        if self._source is not None:
            found = _padded(self._source, self._device, on_left=False)
            self._source_ids, self._source_lengths = found
        ids, lengths = _padded(self._prompts, self._device, on_left=True)
        if lengths is None:
            return self._logits(ids, None)
        longest = ids.shape[1]
        real = torch.arange(longest, device=self._device) >= longest - lengths[:, None]
        return self._logits(ids, real)

    def next(self, tokens: list[int]) -> tuple[Tensor, Tensor]:
        """The same of the tokens after these, one for each row."""
        return self._logits(torch.tensor(tokens, device=self._device)[:, None], None)

    def select(self, rows: list[int], *, memory: bool = True) -> None:
        """Go on with these rows, in this order. Without `memory` each looks at what it did."""
        chosen = torch.tensor(rows, device=self._device)
        self._cache.select(chosen, memory)
        if memory and self._source_ids is not None:
            self._source_ids = self._source_ids[chosen]
        if memory and self._source_lengths is not None:
            self._source_lengths = self._source_lengths[chosen]

    def _logits(self, ids: Tensor, real: Tensor | None) -> tuple[Tensor, Tensor]:
        if isinstance(self._model, LanguageModel):
            found = self._model(ids, mask=real, cache=self._cache, last=True)
        else:
            assert self._source_ids is not None
            found = self._model(
                self._source_ids,
                ids,
                source_lengths=self._source_lengths,
                target_mask=real,
                cache=self._cache,
                last=True,
            )
        logits = found[:, -1]
        if logits.dtype in (torch.float16, torch.bfloat16):
            logits = logits.float()
        lse = logits.logsumexp(-1)  # not finite if a logit is NaN or inf, or if all are −inf
        if not all(map(math.isfinite, lse.tolist())):
            raise ValueError(
                f"{self._call}: the model's logits must be numbers; got NaN or infinity for token "
                f"{self._cache.length}. Are there some among its weights?"
            )
        return logits, lse


def _padded(
    rows: list[list[int]], device: torch.device, *, on_left: bool
) -> tuple[Tensor, Tensor | None]:
    """ids (B, N) of rows side by side, and how many of each are real (B,), None if all are."""
    side = "left" if on_left else "right"
    ids = pad_sequence([torch.tensor(row) for row in rows], batch_first=True, padding_side=side)
    lengths = torch.tensor([len(row) for row in rows], device=device)
    return ids.to(device), lengths if bool((lengths < ids.shape[1]).any()) else None
