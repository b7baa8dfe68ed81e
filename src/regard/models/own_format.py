"""How a folder of `regard.nn` and its tokenizer are recognised, without importing torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tokenizers import Tokenizer

FORMAT = "regard.nn"  # as config.json says it
# The special tokens by their role, as training names them.
_ROLES = {
    **{"bos_token": "<start>", "eos_token": "<stop>", "unk_token": "<unknown>"},
    **{"pad_token": "<pad>", "mask_token": "<mask>"},
}


def roles_of(tokenizer: Tokenizer | None) -> dict[str, str]:
    """The special tokens that a tokenizer has, by their role."""
    if tokenizer is None:
        return {}
    return {role: text for role, text in _ROLES.items() if tokenizer.token_to_id(text) is not None}
