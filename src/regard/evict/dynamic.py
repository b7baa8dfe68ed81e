"""A layer of transformers' `DynamicCache` that has forgotten keys, and knows how many."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.cache_utils import DynamicLayer


class Remembering(DynamicLayer):
    """Keys and values (B, Hkv, kept, D) of a longer text.

    Positions and masks go by its true length, as those of a sliding window do: for the mask, the
    keys that are left stand right before the new ones.
    """

    def __init__(self, before: Any, kept: Tensor) -> None:
        super().__init__()
        self.lazy_initialization(before.keys, before.values)
        places = kept.to(before.keys.device)[..., None]
        self.length: int = before.get_seq_length()  # of the text
        self.keys: Tensor = before.keys.gather(2, places.expand(-1, -1, -1, before.keys.shape[3]))
        self.values: Tensor = before.values.gather(
            2, places.expand(-1, -1, -1, before.values.shape[3])
        )

    def update(
        self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor]:
        self.length += key_states.shape[2]
        return super().update(key_states, value_states, *args, **kwargs)

    def get_seq_length(self) -> int:
        return self.length

    def get_mask_sizes(self, query_length: int) -> tuple[int, int]:
        kept = self.keys.shape[2]
        return kept + query_length, self.length - kept

    def crop(self, tokens_to_remove: int) -> None:
        raise NotImplementedError(
            "crop(): a cache that has forgotten keys cannot be taken back. Read the text again."
        )

    def reset(self) -> None:
        self.length = 0
        super().reset()

    def batch_repeat_interleave(self, repeats: int) -> None:
        self.batch_select_indices(torch.arange(len(self.keys)).repeat_interleave(repeats))
