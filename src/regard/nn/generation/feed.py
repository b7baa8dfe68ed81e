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
        self._call, self._model, self._device = call, model, model.head.weight.device
        self._prompts = _padded(prompts, self._device, on_left=True)
        self._source = None if source is None else _padded(source, self._device, on_left=False)
        self._cache = model.new_cache(len(prompts), window)
        self._is_quiet = False

    @contextmanager
    def quiet(self) -> Generator[None]:
        """Inside the `with` there are no gradients and no dropout; then all is as before.

        Inside another one it does nothing: looking at all modules for each token takes its time.
        """
        if self._is_quiet:
            yield
            return
        with evaluating(self._model), torch.inference_mode():
            self._is_quiet = True
            try:
                yield
            finally:
                self._is_quiet = False

    def begin(self) -> tuple[Tensor, Tensor]:
        """The logits (B, vocabulary) of the first new tokens, and their logsumexp (B,)."""
        ids, lengths = self._prompts
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
        self._cache.select(torch.tensor(rows, device=self._device), memory)

    def _logits(self, ids: Tensor, real: Tensor | None) -> tuple[Tensor, Tensor]:
        if isinstance(self._model, LanguageModel):
            found = self._model(ids, mask=real, cache=self._cache, last=True)
        else:
            memory = self._cache.memory
            source = self._source if memory is None else (memory.source, memory.lengths)
            assert source is not None
            found = self._model(
                source[0],
                ids,
                source_lengths=source[1],
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
