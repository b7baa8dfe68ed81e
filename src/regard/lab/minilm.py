"""MiniLM reads plain sentences of one length: its queries, keys, hidden states and matrices."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from regard.lab.experiment import Asked
from regard.reference import Array

# Eight words of one token each, so that every sentence has as many tokens: weights at the same
# place of two sentences can be compared.
SENTENCES = (
    "the old man walked slowly to the river",
    "my sister bought three red apples this morning",
    "nobody knows why the train was so late",
    "rain fell on the roof all night long",
    "she gave the small dog a new name",
    "heavy trucks are not allowed on this bridge",
    "we found a silver coin under the floor",
    "his first book was about birds and trees",
    "the doctor said that he must rest now",
    "can you open the window behind the table",
    "many people in the city speak two languages",
    "after the war they built a larger school",
    "the judge did not believe her strange story",
    "fresh bread smells better than any other food",
    "our team lost the game by one goal",
    "he closed his eyes and counted to ten",
    "the museum keeps paintings from every single century",
    "water turns hard when the air gets cold",
    "please send me the answer before next monday",
    "a young woman played the piano very well",
    "cars and horses used to share this road",
    "the teacher wrote five numbers on the wall",
    "without the map we could never return home",
    "some stars are much bigger than our sun",
)


@dataclass(frozen=True, eq=False)
class Seen:
    """What MiniLM computed of sentences; B sentences of N tokens, L layers, H heads.

    `q` and `k` are (L, B, H, N, D). `hidden` (L, B, N, d) is what each layer read. `w_v` and `w_o`
    are (L, d, d): the columns of `w_v` and the rows of `w_o` are those of one head after the other.
    """

    q: Array
    k: Array
    hidden: Array
    w_v: Array
    w_o: Array
    tokens: list[list[str]]


def read(asked: Asked, n_sentences: int) -> Seen:
    """MiniLM's reading of the first so many sentences, as float64."""
    loaded = asked.load("minilm")
    import torch

    from regard import watch

    texts = list(SENTENCES[:n_sentences])
    model: Any = loaded.model
    with torch.no_grad(), watch(model, keep=("q", "k")) as run:
        out = model(**loaded.inputs(texts), output_hidden_states=True)
    layers = model.encoder.layer

    def stacked(tensors: list[Any]) -> Array:
        return np.stack([tensor.detach().double().numpy() for tensor in tensors])

    return Seen(
        q=stacked([layer.q for layer in run.layers.values()]),
        k=stacked([layer.k for layer in run.layers.values()]),
        hidden=stacked(list(out.hidden_states[:-1])),
        w_v=stacked([layer.attention.self.value.weight.T for layer in layers]),
        w_o=stacked([layer.attention.output.dense.weight.T for layer in layers]),
        tokens=[[token.text for token in loaded.tokens(text)] for text in texts],
    )
