"""`regard.trace`: from a text or an X to a trace, of attention alone or of a whole model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, overload

import numpy as np
from numpy.typing import ArrayLike

from regard._trace.build import as_matrix
from regard._trace.projections import Positions, Projections
from regard._trace.trace import Trace
from regard.reference import Array
from regard.text import tokenize

if TYPE_CHECKING:
    from torch import Tensor, nn


@overload
def trace(
    text_or_x: str | ArrayLike,
    *,
    model: Projections | None = None,
    tokens: Sequence[str] | None = None,
    positions: Positions = "none",
    causal: bool = False,
    scale: bool = True,
    heads: int | None = None,
    width: int | None = None,
    seed: int = 0,
) -> Trace: ...
@overload
def trace(
    text_or_x: str | ArrayLike | Tensor,
    *,
    model: nn.Module,
    tokens: Sequence[str] | None = None,
    context: str | ArrayLike | Tensor | None = None,
    context_tokens: Sequence[str] | None = None,
    target: str | ArrayLike | Tensor | None = None,
    target_tokens: Sequence[str] | None = None,
    tokenizer: Any = None,
    causal: bool = False,
    seed: int = 0,
) -> Trace: ...
def trace(
    text_or_x: Any,
    *,
    model: Projections | nn.Module | None = None,
    tokens: Sequence[str] | None = None,
    context: Any = None,
    context_tokens: Sequence[str] | None = None,
    target: Any = None,
    target_tokens: Sequence[str] | None = None,
    tokenizer: Any = None,
    positions: Positions = "none",
    causal: bool = False,
    scale: bool = True,
    heads: int | None = None,
    width: int | None = None,
    seed: int = 0,
) -> Trace:
    """Every step of self-attention, or of a whole model of `regard.nn`, on one sequence.

    **Attention alone.** `text_or_x` is a text, or embeddings X (N, d_model); `model` holds the
    matrices. Without it they are small random numbers of two digits, the same for the same `seed`;
    so are the embeddings of a text's words, and a word that occurs twice has the same embedding
    twice. `width` is d_model for a text (4), which the `heads` (2) must divide. `scale=False`
    leaves out the division by √d_k; `causal` masks what comes later.

    **A model**: any module of `regard.nn`. Attention, layers and stacks take X (N, width), or a
    text as above; models of tokens take ids (N,), or a text and a `tokenizer`, which is that of
    `transformers` or any function from a text to ids. Cross-attention looks at `context`
    (M, width), a `Transformer` reads a `target` besides. `tokens`, `context_tokens` and
    `target_tokens` are names. The pass is one of evaluation: nothing drops out.

    Every number that the model computes is its own; scores and weights, which it never makes,
    follow from its queries and keys in float64, and it is checked that weights · V is what the
    model computed, within rounding. Raises ValueError if not.

    Cost: every step is kept, so memory grows with layers · heads · N². Of a model, at most
    8,000,000 weights.

    >>> example = trace("I love apple phones")
    >>> list(example.steps)[:4], example.steps["weights"].array.shape
    (['input', 'query', 'key', 'value'], (2, 4, 4))

    >>> from regard.nn import LanguageModel, LanguageModelConfig, Rotary
    >>> config = LanguageModelConfig(vocabulary=11, width=6, heads=3, position=Rotary())
    >>> example = trace([1, 10, 2], model=LanguageModel(config), tokens=["I", "love", "phones"])
    >>> example.steps["decoder.layers.0.attention.weights"].array.shape
    (3, 3, 3)
    >>> example.explain("decoder.layers.0.attention.scaled", "I", "phones")
    '−∞: masked, as “phones” comes after “I” and may not be seen'
    >>> list(example.steps)[-3:]
    ['decoder.norm.input', 'decoder.norm.output', 'logits']
    """
    others = {"context": context, "target": target, "tokenizer": tokenizer}
    others |= {"context_tokens": context_tokens, "target_tokens": target_tokens}
    if model is not None and not isinstance(model, Projections):
        own = {"positions": positions != "none", "scale": not scale}
        own |= {"heads": heads is not None, "width": width is not None}
        for name in (name for name, is_given in own.items() if is_given):
            raise ValueError(f"trace(): a model has its own {name}: leave {name} out.")
        from regard._trace.model import trace_model

        return trace_model(text_or_x, model, tokens=tokens, causal=causal, seed=seed, **others)
    for name in (name for name, value in others.items() if value is not None):
        raise ValueError(f"trace(): {name} needs a model of regard.nn; got none. Say model=…")
    heads, d_model = 2 if heads is None else heads, 4 if width is None else width
    note = ""
    if isinstance(text_or_x, str):
        if tokens is not None:
            raise ValueError("trace(): a text has its own tokens; `tokens` are names for an X.")
        words = [token.text for token in tokenize(text_or_x)]
        if not words:
            raise ValueError("trace(): the text has no word in it.")
        tokens, title = words, text_or_x
        d_model = d_model if model is None else model.w_q.shape[1]
        x = np.stack([random_numbers(seed, word.encode(), (d_model,)) for word in words])
        note = f"The embeddings are random numbers (seed {seed}): they mean nothing yet."
    else:
        x, title = as_matrix(text_or_x, "X"), ""
        tokens = [f"x{i + 1}" for i in range(len(x))] if tokens is None else tokens
    if model is None:
        model = _random_projections(x.shape[1], heads, seed)
        subject = "The embeddings and the matrices" if note else "The matrices"
        note = f"{subject} are random numbers (seed {seed}): nothing has been learned yet."
    return Trace.build(
        tokens=tokens,
        embeddings=x,
        projections=model,
        positions=positions,
        causal=causal,
        scale=scale,
        title=title,
        note=note,
    )


def _random_projections(width: int, heads: int, seed: int) -> Projections:
    if heads < 1 or width % heads:
        raise ValueError(f"trace(): {heads} heads do not divide a width of {width}.")
    shape = (heads, width, width // heads)
    # So that queries, keys and values are about as large as what they are made of.
    size = 1 / np.sqrt(width)
    w_q, w_k, w_v = (random_numbers(seed, name, shape, size) for name in (b"W_Q", b"W_K", b"W_V"))
    return Projections(w_q, w_k, w_v, random_numbers(seed, b"W_O", (width, width), size))


def random_numbers(seed: int, name: bytes, shape: tuple[int, ...], size: float = 1.0) -> Array:
    """Random numbers of two digits after the point, the same for the same seed and name."""
    return np.random.default_rng([seed, *name]).normal(scale=size, size=shape).round(2)
