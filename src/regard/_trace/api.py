"""`regard.trace`: from a text or an X to a trace, of attention alone or of a whole model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from regard._trace.inputs import Positions, Projections, random_numbers, read_vectors
from regard._trace.trace import Trace

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from torch import Tensor, nn


def trace(
    text_or_x: str | ArrayLike | Tensor,
    *,
    model: Projections | nn.Module | None = None,
    tokens: Sequence[str] | None = None,
    context: str | ArrayLike | Tensor | None = None,
    context_tokens: Sequence[str] | None = None,
    target: str | ArrayLike | Tensor | None = None,
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
    others: dict[str, Any] = {"context": context, "target": target, "tokenizer": tokenizer}
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
    if model is not None:
        width = model.w_q.shape[1]
    x, names, is_random = read_vectors(text_or_x, "X", tokens, 4 if width is None else width, seed)
    note = f"The embeddings are random numbers (seed {seed}): they mean nothing yet."
    if model is None:
        n_heads, d_model = 2 if heads is None else heads, x.shape[1]
        if n_heads < 1 or d_model % n_heads:
            raise ValueError(f"trace(): {n_heads} heads do not divide a width of {d_model}.")
        # So that queries, keys and values are about as large as what they are made of.
        size, shape = 1 / np.sqrt(d_model), (n_heads, d_model, d_model // n_heads)
        w_q, w_k, w_v = (random_numbers(seed, w, shape, size) for w in (b"W_Q", b"W_K", b"W_V"))
        w_o = random_numbers(seed, b"W_O", (d_model, d_model), size)
        model = Projections(w_q, w_k, w_v, w_o)
        subject = "The embeddings and the matrices" if is_random else "The matrices"
        note = f"{subject} are random numbers (seed {seed}): nothing has been learned yet."
    elif not is_random:
        note = ""
    return Trace.build(
        tokens=names,
        embeddings=x,
        projections=model,
        positions=positions,
        causal=causal,
        scale=scale,
        title=text_or_x if isinstance(text_or_x, str) else "",
        note=note,
    )
