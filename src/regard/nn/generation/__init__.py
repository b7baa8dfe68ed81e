"""Text from a model, token by token: `generate` all of it, or `stream` it.

Start reading at `api`. `inputs` says what may be asked; `feed` is the model, one token at a time;
`decoding` chooses the tokens.
"""

from regard.nn.generation.api import generate, stream
from regard.nn.generation.decoding import Generated
from regard.nn.generation.inputs import GenerateOptions, StreamOptions, Tokens

__all__ = ["GenerateOptions", "Generated", "StreamOptions", "Tokens", "generate", "stream"]
