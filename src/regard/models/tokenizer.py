"""From tokenizer.json to a tokenizer that cuts nothing off and adds no padding by itself."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from regard._checkpoint.errors import CheckpointError, is_from_rust, plain
from regard._checkpoint.files import own_file, parse_object, read_bytes, read_object
from regard.models.config import refuse_code
from regard.models.tokenizer_limits import check_added, check_tokenizer

if TYPE_CHECKING:
    from tokenizers import Tokenizer

# Large vocabularies take 60 million bytes, and an object for each of a million tokens.
_LIMIT, _OBJECTS = 200_000_000, 10_000_000
_SPECIAL = ("bos", "eos", "unk", "sep", "pad", "cls", "mask")


def read_tokenizer(folder: Path) -> tuple[Tokenizer | None, dict[str, str]]:
    """What `tokenizer.json` describes, to the letter; None if there is no such file. And the
    special tokens by their role, for which alone `tokenizer_config.json` is read.
    """
    from tokenizers import Tokenizer

    path = folder / "tokenizer.json"
    file = own_file(folder, "tokenizer.json")
    config = own_file(folder, "tokenizer_config.json")
    about = {} if config is None else read_object(config, _LIMIT)
    refuse_code(about, folder / "tokenizer_config.json")
    if file is None:
        return None, {}
    raw = read_bytes(file, _LIMIT)
    if raw.count(b"[") + raw.count(b"{") > _OBJECTS:
        remedy = "Is it the file that it says it is?"
        raise CheckpointError(file, f"have at most {_OBJECTS:,} objects", "more", remedy)
    content = parse_object(raw, path)
    check_tokenizer(content, path)
    try:
        check_added(content, path)
        exact = Tokenizer.from_buffer(raw)
    except CheckpointError:
        raise
    except BaseException as error:
        if not is_from_rust(error):
            raise
        raise CheckpointError(
            path,
            "be a tokenizer that the tokenizers library reads",
            f"one that it refuses ({plain(error)})",
            "Save it once more with tokenizer.save_pretrained(folder).",
        ) from error
    exact.no_padding()
    exact.no_truncation()
    special: dict[str, str] = {}
    for name in (f"{kind}_token" for kind in _SPECIAL):
        # Configs write its text, or an object with its text as content.
        text = about.get(name)
        text = text.get("content") if isinstance(text, dict) else text
        if isinstance(text, str) and text and exact.token_to_id(text) is not None:
            special[name] = text
    return exact, special
