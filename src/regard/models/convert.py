"""SmolLM2's GGUF file to a Hugging Face folder, once: reading it takes half a minute."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

from regard._checkpoint import as_os_error
from regard.models.packages import require
from regard.models.quiet import quiet

__all__ = ["convert"]


def convert(folder: Path, gguf: str, target: Path) -> None:
    """Write the model and the tokenizer in `folder`/`gguf` into the new folder `target`.

    The weights are those of the file, multiplied out to float32: no further rounding.

    >>> convert(Path("no_such_folder"), "model.gguf", Path("target"))
    Traceback (most recent call last):
    FileNotFoundError: ...
    """
    if not (folder / gguf).is_file():
        raise FileNotFoundError(2, "No such file", str(folder / gguf))
    require("transformers", "gguf", "accelerate")
    import torch
    from tokenizers.pre_tokenizers import ByteLevel, Digits, Sequence
    from transformers import AutoModelForCausalLM, AutoTokenizer, GgufConfig

    with quiet(), contextlib.redirect_stderr(io.StringIO()):  # it has progress bars of its own
        tokenizer = AutoTokenizer.from_pretrained(folder, gguf_file=gguf, local_files_only=True)
        read = AutoModelForCausalLM.from_pretrained(
            folder,
            gguf_file=gguf,
            dtype=torch.float32,
            quantization_config=GgufConfig(dequantize=True),
            local_files_only=True,
        )
        # What was read from GGUF refuses to be saved, though its weights are plain: so a new one.
        plain = type(read).from_pretrained(None, config=read.config, state_dict=read.state_dict())
        with as_os_error(target):
            plain.save_pretrained(target)
        # The file says `smollm` for how text is cut: each digit by itself. It is lost on the way.
        tokenizer.backend_tokenizer.pre_tokenizer = Sequence(
            [Digits(individual_digits=True), ByteLevel(add_prefix_space=False)]
        )
        with as_os_error(target):
            tokenizer.save_pretrained(target)
