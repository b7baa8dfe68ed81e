"""From tokenizer.json to a tokenizer that cuts nothing off and adds no padding by itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard._checkpoint.errors import CheckpointError, is_from_rust, plain
from regard._checkpoint.folder import own_file
from regard._checkpoint.strict_json import read_object
from regard.models.config import refuse_code

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerFast

__all__ = ["read_tokenizer"]

_LIMIT = 500_000_000  # bytes of tokenizer.json; large vocabularies take 35 million
_SPECIAL = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")


def read_tokenizer(folder: Path) -> PreTrainedTokenizerFast | None:
    """The tokenizer that `tokenizer.json` describes, to the letter; None if there is no such file.

    `tokenizer_config.json` says only which tokens are the special ones. Chat templates are not
    read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     read_tokenizer(Path(folder)) is None
    True
    """
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    file = own_file(folder, "tokenizer.json")
    about = _about(folder)
    if file is None:
        return None
    if file.stat().st_size > _LIMIT:
        raise CheckpointError(
            file, f"have at most {_LIMIT:,} bytes", "more", "Is it the file that it says it is?"
        )
    try:
        exact = Tokenizer.from_file(str(file))
    except BaseException as error:
        if not is_from_rust(error):
            raise
        raise CheckpointError(
            folder / "tokenizer.json",
            "be a tokenizer that the tokenizers library reads",
            f"one that it refuses ({plain(error)})",
            "Save it once more with tokenizer.save_pretrained(folder).",
        ) from error
    exact.no_padding()
    exact.no_truncation()
    special = {
        f"{kind}_token": name
        for kind in _SPECIAL
        if (name := _name(about.get(f"{kind}_token"))) and exact.token_to_id(name) is not None
    }
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=exact, **special)
    # The wrapper may change its copy (it marks tokens as special, and sets templates). What is
    # looked at here must be what the file says.
    tokenizer._tokenizer = exact
    return tokenizer


def _about(folder: Path) -> dict[str, Any]:
    file = own_file(folder, "tokenizer_config.json")
    if file is None:
        return {}
    about = read_object(file, _LIMIT)
    refuse_code(about, folder / "tokenizer_config.json")
    return about


def _name(value: object) -> str | None:
    """A special token as configs write it: its text, or an object with its text as content."""
    if isinstance(value, dict):
        value = value.get("content")
    return value if isinstance(value, str) else None
