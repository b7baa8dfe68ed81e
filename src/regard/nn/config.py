"""The configurations of stacks and models: frozen, checked, saved as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from typing import Annotated, Any, Literal, Self

from regard.nn.feed_forward import Activation
from regard.nn.norm import NormName
from regard.nn.position import NoPosition, Position, Rotary
from regard.nn.residual import PreNorm, Residual
from regard.nn.serialization import Bounds, Described

Split = Literal["whole", "slices"]
Chance = Annotated[float, Bounds(0.0, 1.0)]


@dataclass(frozen=True, kw_only=True)
class HeadsConfig(Described):
    """The widths of attention's heads, which `StackConfig` explains; 0 and None follow."""

    width: int
    heads: int
    kv_heads: int = 0
    head_width: int = 0
    value_width: int = 0
    value_rank: int | None = None
    split: Split = "whole"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not self.head_width and self.width % self.heads:
            raise self._refuse(
                "width", f"a multiple of the {self.heads} heads", "Or give head_width."
            )
        self._follow(kv_heads=self.heads, head_width=self.width // self.heads)
        self._follow(value_width=self.head_width)
        if self.heads % self.kv_heads:
            raise self._refuse("kv_heads", f"a divisor of the {self.heads} heads")

    def _follow(self, **usual: object) -> None:
        """Give fields that were not given what follows from others; `but` lets them follow anew."""
        for name, value in usual.items():
            found = getattr(self, name)
            if found is None or (type(found) is int and not found):
                object.__setattr__(self, name, value)
                self.__dict__["followed"] = self.__dict__.get("followed", frozenset()) | {name}


@dataclass(frozen=True, kw_only=True)
class StackConfig(HeadsConfig):
    """What an `Encoder` or a `Decoder` is made of: `layers` layers, all alike.

    - `width` is d_model, `heads` the number of heads; `kv_heads` how many key heads they share, as
      many as `heads` unless given
    - `head_width` is d_k, width / heads unless given; `value_width` d_v, as d_k unless given
    - `split`: "whole", every head projects all of X; "slices", each its own part of X
    - `value_rank`: V = X V_down V_up by matrices of this rank
    - `hidden`: the width inside the feed-forward layer, 4 · width unless given
    - `bias`: do linear maps have one; `attention_bias`: those of attention, as `bias` unless given
    - `window`: a token sees itself and the window − 1 before it (and after it, in an encoder)
    - `final_norm`: does a norm end the stack; None: if the arrangement needs it
    - `dropout`: of embeddings and of what each sublayer adds; `attention_dropout` of the weights
      and `hidden_dropout` inside the feed-forward layer, as `dropout` unless given

    >>> config = StackConfig(width=6, heads=3)
    >>> config.head_width, StackConfig.from_json(config.to_json()) == config
    (2, True)
    >>> StackConfig(width=8, heads=3)
    Traceback (most recent call last):
    ValueError: StackConfig(): width must be a multiple of the 3 heads; got 8. Or give head_width.
    """

    layers: int = 1
    hidden: int = 0
    activation: Activation = "gelu"
    norm: NormName = "layer"
    norm_eps: Annotated[float, Bounds(0.0)] = 1e-5
    residual: Residual = field(default_factory=PreNorm)
    position: Position = field(default_factory=NoPosition)
    bias: bool = True
    attention_bias: bool | None = None
    window: int | None = None
    final_norm: bool | None = None
    dropout: Chance = 0.0
    attention_dropout: Chance | None = None
    hidden_dropout: Chance | None = None

    def but(self, **changes: Any) -> Self:
        """The same with some fields changed; what was not given follows from them anew.

        `dataclasses.replace` would keep the numbers that followed from the old ones.

        >>> StackConfig(width=6, heads=3).but(width=12).head_width
        4
        """
        followed = self.__dict__.get("followed", ())
        names = (field.name for field in fields(self) if field.name not in followed)
        return type(self)(**{name: getattr(self, name) for name in names} | changes)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._follow(
            hidden=4 * self.width,
            attention_bias=self.bias,
            final_norm=self.residual.norms_at_end,
        )


@dataclass(frozen=True, kw_only=True)
class _TokenConfig(StackConfig):
    """What every model that takes token ids has besides its stack.

    - `vocabulary`: how many tokens there are
    - `embedding_norm`: is there a norm after the embeddings
    - `embedding_scale`: are the tokens' rows multiplied by √width
    """

    vocabulary: int
    embedding_norm: bool = False
    embedding_scale: bool = False


@dataclass(frozen=True, kw_only=True)
class LanguageModelConfig(_TokenConfig):
    """A `LanguageModel`: a decoder over `vocabulary` tokens, and a head; `Rotary` unless said.

    `tied`: the head's matrix is the embeddings' table. `head_bias`: has the head a bias. `causal`:
    a token sees none that comes later; without, it sees all of them, and nothing can be generated.

    >>> LanguageModelConfig(vocabulary=11, width=6, heads=3).position
    Rotary(base=10000.0, pairing='halves', width=None)
    """

    position: Position = field(default_factory=Rotary)
    tied: bool = True
    head_bias: bool = False
    causal: bool = True


@dataclass(frozen=True, kw_only=True)
class EncoderModelConfig(_TokenConfig):
    """An `EncoderModel`: embeddings and an encoder. `segments`: how many kinds of text parts.

    >>> EncoderModelConfig(vocabulary=11, width=6, heads=3).segments
    0
    """

    segments: int = 0


@dataclass(frozen=True, kw_only=True)
class MaskedLanguageModelConfig(EncoderModelConfig):
    """A `MaskedLanguageModel`: an encoder model, one more layer with a norm, and a head.

    >>> MaskedLanguageModelConfig(vocabulary=11, width=6, heads=3).tied
    True
    """

    tied: bool = True


@dataclass(frozen=True, kw_only=True)
class SequenceClassifierConfig(EncoderModelConfig):
    """A `SequenceClassifier` into `classes` classes.

    `pooling`: what stands for the sequence, its "first" token's vector or the "mean" of all;
    `pooler`: does that go through tanh(x W + b) first.

    >>> SequenceClassifierConfig(vocabulary=11, width=6, heads=3, classes=2).pooling
    'mean'
    """

    classes: int
    pooling: Literal["mean", "first"] = "mean"
    pooler: bool = False


@dataclass(frozen=True, kw_only=True)
class TransformerConfig(_TokenConfig):
    """A `Transformer`: an encoder of `layers` layers, a decoder of `decoder_layers`, and a head.

    The target has a vocabulary of its own (`target_vocabulary`), unless that is 0: then source and
    target share one table. `tied`: the head's matrix is the target's table.

    >>> TransformerConfig(vocabulary=11, width=6, heads=3, layers=2).decoder_layers
    2
    """

    target_vocabulary: int = 0
    decoder_layers: int = 0
    tied: bool = True
    head_bias: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        self._follow(decoder_layers=self.layers)
