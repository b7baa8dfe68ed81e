"""Text from a model, token by token: `generate` all of it, or `stream` it.

Start reading at `doors`. `prompts` and `options` say what may be asked; `feed` is the model, one
token at a time; `sampling` draws a token, `beams` searches for a sequence.
"""

from regard.nn.generation.api import generate, stream
from regard.nn.generation.options import GenerateOptions, StreamOptions
from regard.nn.generation.prompts import Tokens
from regard.nn.generation.result import Generated

__all__ = ["GenerateOptions", "Generated", "StreamOptions", "Tokens", "generate", "stream"]
