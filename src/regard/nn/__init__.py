"""Transformers whose modules read like the formulas, on `regard.attention`.

Start reading at `attention`: one formula with its matrices. `layers` joins it with `feed_forward`
as a `residual` arrangement says, `stacks` puts layers one after the other, `models` and
`transformer` put token ids in front and a head behind. Configurations are frozen dataclasses.

>>> import torch
>>> from regard.nn import LanguageModel, LanguageModelConfig
>>> config = LanguageModelConfig(vocabulary=97, width=32, heads=4, layers=2)
>>> LanguageModel(config)(torch.tensor([[5, 7, 11]])).shape
torch.Size([1, 3, 97])
"""

from regard.nn.attention import LowRankValue, MultiHeadAttention, SelfAttention
from regard.nn.cache import Cache, KeyValues
from regard.nn.config import (
    EncoderModelConfig,
    LanguageModelConfig,
    MaskedLanguageModelConfig,
    SequenceClassifierConfig,
    StackConfig,
    TransformerConfig,
)
from regard.nn.convert import from_hugging_face, from_torch, to_hugging_face, to_torch
from regard.nn.embedding import Embedding
from regard.nn.feed_forward import FeedForward
from regard.nn.files import Model, load
from regard.nn.generation import Generated, generate, stream
from regard.nn.layers import DecoderLayer, EncoderLayer
from regard.nn.linear import HeadLinear, Linear
from regard.nn.models import EncoderModel, LanguageModel, MaskedLanguageModel, SequenceClassifier
from regard.nn.norm import LayerNorm, RMSNorm
from regard.nn.position import (
    ALiBi,
    Learned,
    NoPosition,
    Position,
    RelativeBias,
    Rotary,
    Sinusoidal,
)
from regard.nn.residual import NotesNorm, PostNorm, PreNorm, Residual
from regard.nn.stacks import Decoder, Encoder
from regard.nn.transformer import Transformer

__all__ = [
    "ALiBi",
    "Cache",
    "Decoder",
    "DecoderLayer",
    "Embedding",
    "Encoder",
    "EncoderLayer",
    "EncoderModel",
    "EncoderModelConfig",
    "FeedForward",
    "Generated",
    "HeadLinear",
    "KeyValues",
    "LanguageModel",
    "LanguageModelConfig",
    "LayerNorm",
    "Learned",
    "Linear",
    "LowRankValue",
    "MaskedLanguageModel",
    "MaskedLanguageModelConfig",
    "Model",
    "MultiHeadAttention",
    "NoPosition",
    "NotesNorm",
    "Position",
    "PostNorm",
    "PreNorm",
    "RMSNorm",
    "RelativeBias",
    "Residual",
    "Rotary",
    "SelfAttention",
    "SequenceClassifier",
    "SequenceClassifierConfig",
    "Sinusoidal",
    "StackConfig",
    "Transformer",
    "TransformerConfig",
    "from_hugging_face",
    "from_torch",
    "generate",
    "load",
    "stream",
    "to_hugging_face",
    "to_torch",
]
