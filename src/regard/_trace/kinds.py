"""The steps of a whole Transformer by name: what each is called, and what it means."""

from __future__ import annotations

from collections.abc import Mapping

from regard._rules.general import Given
from regard._steps import STEPS, StepKind


def kind(title: str, symbol: str, formula: str, meaning: str, dimension: str = "") -> StepKind:
    return StepKind(title, symbol, formula, meaning, Given(), dimension)


KINDS: Mapping[str, StepKind] = {
    **STEPS,
    "ids": kind("Token ids", "I", "I, given", "The number of each token in the vocabulary."),
    "tokens": kind(
        "Token embeddings",
        "E",
        "E = table[I]",
        "What each token means by itself: its row of a learned table.",
        "e",
    ),
    "segments": kind(
        "Segments", "G", "G = table[kind]", "Which part of the text each token is in.", "g"
    ),
    "positions": kind("Positions", "P", "P", "Where each token stands.", "p"),
    "sum": kind(
        "Embeddings", "X", "X = E + P", "What each token means, plus where it stands.", "x"
    ),
    "given": kind("Input", "X", "X", "Each token's vector as it comes in.", "x"),
    "context": kind("Context", "Y", "Y", "The other sequence, which is looked at.", "y"),
    "down": kind("Narrow value", "D", "D = X V_down", "The value through a narrow place.", "d"),
    "turned_query": kind(
        "Turned query",
        "Q′",
        "Q′ = x·cos − y·sin, pair by pair",
        "The query, turned by an angle that grows with the token's position.",
        "q",
    ),
    "turned_key": kind(
        "Turned key",
        "K′",
        "K′ = x·cos − y·sin, pair by pair",
        "The key, turned by an angle that grows with the token's position.",
        "k",
    ),
    "bias": kind(
        "Score bias",
        "B",
        "B",
        "What is added to a score for how far query and key stand apart.",
    ),
    "residual": kind(
        "Residual",
        "R",
        "R = x + sublayer",
        "What came in, plus what the sublayer makes of it: nothing is lost on the way.",
        "r",
    ),
    "hidden": kind(
        "Hidden", "F", "F = X W_in", "Each token's vector, widened: features of it.", "f"
    ),
    "gate": kind("Gate", "G", "G = X W_gate", "How far each feature is let through.", "g"),
    "activated": kind(
        "Activated", "A", "A = activation(F)", "Features that are there; others are near 0.", "a"
    ),
    "layer_norm": kind(
        "LayerNorm",
        "N",
        "N = (x − mean) / √(variance + ε) · γ + β",
        "Each token's vector brought to one size.",
        "n",
    ),
    "rms_norm": kind(
        "RMSNorm",
        "N",
        "N = x / √(mean(x²) + ε) · γ",
        "Each token's vector brought to one size.",
        "n",
    ),
    "result": kind("Output", "O", "O", "Each token's vector as it goes out.", "o"),
    "fed": kind(
        "Refined", "O", "O = A W_out", "The features, brought back to the width of a vector.", "o"
    ),
    "transformed": kind(
        "Transformed", "T", "T = X W", "Each token's vector, made ready for the head.", "t"
    ),
    "pooled": kind("Pooled", "C", "C", "One vector that stands for the whole sequence.", "c"),
    "logits": kind("Logits", "L", "L = X W_head", "How much speaks for each token, or each class."),
}
