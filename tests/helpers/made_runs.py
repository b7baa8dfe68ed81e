"""Runs that are made up, so that no model is needed to look at views of one."""

from __future__ import annotations

from dataclasses import replace

import torch

import regard
from regard.run import Layer, Options, Run
from regard.text import tokenize

__all__ = ["ENGLISH", "SENTENCES", "long_text", "made_run"]

ENGLISH = "The animal did not cross the street because it was too tired."
SENTENCES = {
    "English": ENGLISH,
    "Korean": "그 동물은 너무 피곤해서 길을 건너지 않았다고 사람들이 말했다.",
    "Bengali": "প্রাণীটি খুব ক্লান্ত ছিল বলে রাস্তা পার হয়নি, সবাই তাই বলল।",
    "hostile": "<script>alert(1)</script> & \"quoted\" 'text' \u202e back <b>bold</b>",
}


def long_text(n_tokens: int, language: str = "English") -> str:
    """A text of so many tokens."""
    words = [token.text for token in tokenize(SENTENCES[language])]
    return " ".join((words * (n_tokens // len(words) + 1))[:n_tokens])


def made_run(
    text: str = ENGLISH,
    *,
    layers: int = 3,
    heads: int = 5,
    kv_heads: int | None = None,
    causal: bool = True,
    width: int = 11,
    keep: bool = True,
    top: int = 8,
    size: tuple[int, int] | None = (64, 64),
    hidden_states: bool = True,
    sharpness: float = 3.0,
    seed: int = 0,
) -> Run:
    """A run of `layers` × `heads` random heads over the words of a text; one head is plain: 0.0
    looks at the previous token, so that pictures have something to show.
    """
    generator = torch.Generator().manual_seed(seed)
    tokens = tokenize(text)
    n = len(tokens)
    made: dict[str, Layer] = {}
    blocks: dict[str, torch.Tensor] = {}
    x = torch.randn(1, n, 2 * width, generator=generator)
    for index in range(layers):
        q = torch.randn(1, heads, n, width, generator=generator) * sharpness
        k = torch.randn(1, kv_heads or heads, n, width, generator=generator)
        if index == 0:
            places = torch.randn(n + 1, width, generator=generator) * 4
            q[0, 0], k[0, 0] = places[:n], places[1:]
        see = regard.See(entropy=True, top=top, map=size, distance=True)
        options = Options(causal=causal)
        _, seen = regard.attention(q, k, k, causal=causal, see=see)
        name = f"model.layers.{index}.attention"
        layer = Layer(name, seen, options, kv_heads=kv_heads or heads)
        made[name] = replace(layer, q=q, k=k) if keep else layer
        x = x + torch.randn(1, n, 2 * width, generator=generator) * 0.5
        blocks[f"model.layers.{index}"] = x
    return Run(
        made,
        model="made up",
        text=text,
        tokens=[tokens],
        hidden_states=blocks if hidden_states else {},
    )
