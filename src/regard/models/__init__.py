"""A name or a path to a model and its tokenizer; refuses what it cannot trust.

Start reading at `load`. A model folder is data, never code: `folder`, `header` and `config` check
what it holds, `weights` and `tokenizer` read it, `build` makes the model and sees that nothing is
missing. `fetch` brings the two models that can be had by name. torch and transformers are imported
when they are needed, not before.
"""

from regard.models._load import load
from regard.models.errors import CheckpointError
from regard.models.loaded import Loaded

__all__ = ["CheckpointError", "Loaded", "load"]
