"""A trained run as a folder that transformers loads: in the shape of GPT-2 or of Llama."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from regard._checkpoint.errors import plain
from regard._extras import need
from regard._files import replacing
from regard.models.progress import quiet
from regard.nn import LanguageModel, to_hugging_face
from regard.train.opened import OpenedRun
from regard.train.tokens import MASK, PAD, SPECIAL, START, STOP, UNKNOWN


def export_run(run: OpenedRun, folder: Path) -> str:
    """Write the model of a run and its tokenizer; the name of the class that it is there.

    Raises ValueError if transformers has no such model.
    """
    if not isinstance(run.model, LanguageModel):
        raise ValueError(
            f"export(): {plain(run.folder)} must hold a language model; got one that was trained "
            f"to {run.recipe.task}. GPT-2 and Llama are what can be written."
        )
    transformers = need("export()", "transformers", "models")
    theirs: Any = to_hugging_face(run.model)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=run.tokenizer,
        pad_token=SPECIAL[PAD],
        bos_token=SPECIAL[START],
        eos_token=SPECIAL[STOP],
        unk_token=SPECIAL[UNKNOWN],
        mask_token=SPECIAL[MASK],
        clean_up_tokenization_spaces=False,
    )
    theirs.config.eos_token_id = theirs.generation_config.eos_token_id = STOP
    theirs.config.pad_token_id = theirs.generation_config.pad_token_id = PAD
    with quiet(), replacing(folder) as new:
        theirs.save_pretrained(new)
        tokenizer.save_pretrained(new)
    return type(theirs).__name__
