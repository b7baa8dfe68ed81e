"""One pass of a model of `regard.nn`, recorded: from what its modules compute to a `Trace`."""

from __future__ import annotations

import inspect
import math
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from regard._trace.attention_recording import take_attention
from regard._trace.check import within
from regard._trace.inputs import Read, names_of_ids, read_ids, read_vectors
from regard._trace.recording import Recording
from regard._trace.trace import Trace
from regard.nn import (
    Decoder,
    DecoderLayer,
    Embedding,
    Encoder,
    EncoderLayer,
    EncoderModel,
    FeedForward,
    HeadLinear,
    LanguageModel,
    LayerNorm,
    LowRankValue,
    MaskedLanguageModel,
    MultiHeadAttention,
    RMSNorm,
    SequenceClassifier,
    Transformer,
)
from regard.nn._evaluation import evaluating
from regard.nn._hooks import Recorded, recording
from regard.nn._places import Positions

_MOST_NUMBERS = 8_000_000  # of weights, in all heads of all layers together
_OF_IDS = (Embedding, LanguageModel, EncoderModel, MaskedLanguageModel, SequenceClassifier)
_OF_VECTORS = (
    *(MultiHeadAttention, EncoderLayer, DecoderLayer, Encoder, Decoder),
    *(FeedForward, LayerNorm, RMSNorm),
)
_LINEAR = (nn.Linear, HeadLinear)
# What must stand under each name, so that it is known how its steps came about. What a list holds
# goes by the name of the list.
_PARTS: dict[str, tuple[type[nn.Module], ...]] = {
    **dict.fromkeys(("attention", "cross"), (MultiHeadAttention,)),
    **dict.fromkeys(("w_q", "w_k", "w_o", "w_in", "w_gate", "w_out", "down", "up"), _LINEAR),
    **dict.fromkeys(("transform", "pooler", "head"), _LINEAR),
    **dict.fromkeys(("norm", "norms"), (LayerNorm, RMSNorm, nn.Identity)),
    **dict.fromkeys(("embedding", "target_embedding"), (Embedding,)),
    **dict.fromkeys(("tokens", "segments"), (nn.Embedding,)),
    "w_v": (*_LINEAR, LowRankValue),
    "feed_forward": (FeedForward,),
    "positions": (Positions,),
    "layers": (EncoderLayer, DecoderLayer),
    "encoder": (Encoder,),
    "decoder": (Decoder,),
    "body": (EncoderModel,),
}


class Prepared(NamedTuple):
    """A model, and what it is called with in a pass of one sequence, or of two."""

    model: nn.Module
    sequences: dict[str, tuple[str, ...]]
    arguments: tuple[Tensor, ...]
    options: dict[str, Any]
    outcomes: tuple[str, ...]
    title: str
    note: str


def prepared(
    given: Any,
    model: nn.Module,
    *,
    tokens: Sequence[str] | None = None,
    context: Any = None,
    context_tokens: Sequence[str] | None = None,
    target: Any = None,
    target_tokens: Sequence[str] | None = None,
    tokenizer: Any = None,
    causal: bool = False,
    seed: int = 0,
) -> Prepared:
    """What a model of regard.nn is called with, of what `regard.trace` is given. Raises
    TypeError and ValueError for what cannot be traced.
    """
    kind = type(model).__name__
    if not isinstance(model, (*_OF_IDS, *_OF_VECTORS, Transformer)):
        raise TypeError(
            f"trace(): model must be a module of regard.nn, or Projections; got {kind}. "
            "regard.watch sees into any PyTorch model."
        )
    _refuse_parts(model)
    _refuse_scales(model)
    _refuse(kind, "target", target, isinstance(model, Transformer))
    if not isinstance(model, MultiHeadAttention):  # which may have one
        layer = model.layers[0] if isinstance(model, Decoder) else model
        crosses = isinstance(layer, DecoderLayer) and layer.cross is not None
        _refuse(kind, "context", context, crosses)
    options: dict[str, Any] = {}
    if causal:
        if "causal" not in inspect.signature(model.forward).parameters:
            raise ValueError(f"trace(): a {kind} has a mask of its own: leave causal out.")
        options["causal"] = True
    reads: dict[str, Read] = {}
    if isinstance(model, Transformer):
        reads["source"] = read_ids(given, "the source", tokens, tokenizer)
        reads["target"] = read_ids(target, "the target", target_tokens, tokenizer)
    elif isinstance(model, _OF_IDS):
        reads["input"] = read_ids(given, "the input", tokens, tokenizer)
    else:
        width = _width(model)
        reads["input"] = read_vectors(given, "X", tokens, width, seed, "the model")
        if context is not None:
            width = getattr(model, "context_width", width)
            names = context_tokens
            reads["context"] = read_vectors(context, "context", names, width, seed, "the model")
    parameter = next(model.parameters())
    arguments = [
        torch.as_tensor(
            read.array, dtype=torch.int64 if read.array.ndim == 1 else parameter.dtype
        ).to(parameter.device)[None]
        for read in reads.values()
    ]
    if "context" in reads:
        name = "context" if isinstance(model, MultiHeadAttention) else "memory"
        options[name] = arguments.pop()
    is_random = any(read.is_random for read in reads.values())
    return Prepared(
        model,
        {name: read.tokens for name, read in reads.items()},
        tuple(arguments),
        options,
        _outcomes(model, tokenizer),
        given if isinstance(given, str) else "",
        f"The embeddings are random numbers (seed {seed})." if is_random else "",
    )


def trace_model(given: Any, model: nn.Module, **options: Any) -> Trace:
    """What `regard.trace` gives for a module; the options are those of `prepared`."""
    asked = prepared(given, model, **options)
    _refuse_many(model, max(map(len, asked.sequences.values())))
    found = Recording(model, asked.sequences, asked.outcomes)
    with evaluating(model), torch.no_grad(), recording(model) as recorded:
        model(*asked.arguments, **asked.options)
    largest = take_all(found, recorded)
    kind = type(model).__name__
    trace = Trace(asked.title, asked.sequences, found.steps, found.matrices, model=kind)
    own = f"The numbers of every step are those of the {kind} itself."
    note = [asked.note, own, checked_words(len(trace.attentions), largest)]
    return replace(trace, note=" ".join(filter(None, note)))


def take_all(found: Recording, recorded: Iterable[Recorded]) -> float:
    """Make steps of what was recorded; how far weights · V is from what was computed."""
    largest = 0.0
    for step in recorded:
        if isinstance(step.module, MultiHeadAttention):
            largest = max(largest, take_attention(found, step))
        else:
            found.take(step)
    return largest


def checked_words(count: int, largest: float) -> str:
    """How near weights · V came to what so many attentions have computed."""
    if not count:
        return ""
    where = "attention" if count == 1 else f"each of {count} attentions"
    return (
        "Scores and weights follow from its queries and keys. Checked: in "
        f"{where} weights · V is what it computed, within {within(largest)}."
    )


def _refuse(kind: str, name: str, value: Any, wanted: bool) -> None:
    if wanted and value is None:
        raise ValueError(f"trace(): a {kind} needs a second sequence; got none. Say {name}=…")
    if not wanted and value is not None:
        raise ValueError(f"trace(): a {kind} takes no {name}; got one. Leave it out.")


def _refuse_parts(model: nn.Module) -> None:
    """Raise TypeError if a part was replaced by one that records no steps."""
    for path, part in model.named_modules():
        owner, _, name = path.rpartition(".")
        if name.isdecimal():
            wanted = _PARTS.get(owner.rpartition(".")[2])
        else:
            wanted = (nn.ModuleList,) if name in ("layers", "norms") else _PARTS.get(name)
        if wanted is not None and not isinstance(part, wanted):
            kinds = " or ".join(each.__name__ for each in wanted)
            raise TypeError(
                f"trace(): {path} must be a {kinds}, whose steps are known; got a "
                f"{type(part).__name__}. regard.watch sees into any PyTorch model."
            )


def _refuse_scales(model: nn.Module) -> None:
    """Raise ValueError if scores are not divided by a positive number, which is what is shown."""
    for path, module in model.named_modules():
        if not isinstance(module, MultiHeadAttention):
            continue
        scale = module.scale
        if scale is not None and (not 0.0 < scale < math.inf or 1.0 / scale == math.inf):
            raise ValueError(
                f"trace(): the scale of {path or type(module).__name__} must be a number above 0, "
                f"as scores are shown divided by 1/scale; got {scale!r}. None is 1/√d_k."
            )


def _refuse_many(model: nn.Module, longest: int) -> None:
    """Raise ValueError if the weights alone would be more than a reader can hold."""
    heads = sum(part.heads for part in model.modules() if isinstance(part, MultiHeadAttention))
    if heads * longest**2 > _MOST_NUMBERS:
        raise ValueError(
            f"trace(): with {heads:,} heads in all layers there must be at most "
            f"{math.isqrt(_MOST_NUMBERS // heads):,} tokens, as each step of attention is kept; "
            f"got {longest:,}. regard.flow and regard.watch take longer texts."
        )


def _width(model: nn.Module) -> int:
    if isinstance(model, MultiHeadAttention):
        return model.width
    if isinstance(model, EncoderLayer | DecoderLayer | Encoder | Decoder):
        return model.config.width
    if isinstance(model, FeedForward):
        return model.w_in.in_features
    return model.get_parameter("weight").shape[0]


def _outcomes(model: nn.Module, tokenizer: Any) -> tuple[str, ...]:
    """The names of the logits' columns."""
    if isinstance(model, SequenceClassifier):
        return tuple(f"class {c}" for c in range(model.config.classes))
    head = getattr(model, "head", None)
    return names_of_ids(range(head.out_features), tokenizer) if isinstance(head, nn.Linear) else ()
