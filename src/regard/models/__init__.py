"""A name or a path to a model and its tokenizer; refuses what it cannot trust.

Start reading at `load`. A model folder is data, never code: `regard._checkpoint` checks its files
and reads its weights, `config` checks its config, `tokenizer` reads that, `build` makes the model
and sees that nothing is missing. `fetch` brings the two models that can be had by name. torch and
transformers are imported when they are needed, not before.
"""

from regard._checkpoint.errors import CheckpointError
from regard.models._choose import Choice, model_for
from regard.models._load import load, open_model
from regard.models.loaded import Loaded
from regard.models.reader import OpenedModel, Reader, Reading

__all__ = [
    "CheckpointError",
    "Choice",
    "Loaded",
    "OpenedModel",
    "Reader",
    "Reading",
    "load",
    "model_for",
    "open_model",
]
