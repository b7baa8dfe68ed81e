"""The steps of everything around attention: embeddings, norms, residuals, feed-forward, heads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch

from regard._rules.general import (
    Activated,
    Copied,
    Gated,
    Given,
    LayerNormed,
    LookedUp,
    Mean,
    RmsNormed,
    Summed,
    Wave,
)
from regard._rules.rule import Rule
from regard._steps import Axis
from regard._trace.kinds import KINDS
from regard._trace.told import Book, numbers, tokens_axis
from regard.nn import (
    DecoderLayer,
    EncoderLayer,
    FeedForward,
    LanguageModel,
    LayerNorm,
    MaskedLanguageModel,
    RMSNorm,
    SequenceClassifier,
    Sinusoidal,
    Transformer,
)
from regard.nn._tell import Told
from regard.nn.embedding import Embedding
from regard.nn.stacks import Decoder, Encoder


def take(book: Book, told: Told) -> None:
    """One step that a module other than attention tells."""
    for kind, reader in _READERS:
        if isinstance(told.module, kind):
            reader(book, told, book.enter(told.path, told.name))
            return
    raise ValueError(
        f"trace(): {told.path} is a {type(told.module).__name__}, whose steps are not known."
    )


def _rows(book: Book, told: Told) -> Axis:
    return tokens_axis(book.tokens(told.path))


def _through(book: Book, told: Told, begin: str) -> None:
    """What comes in or goes out as it is."""
    array = numbers(told.tensor[0])
    kind = "given" if told.name == "input" else "result"
    rule = book.source(array, "each token's vector")
    book.add(begin + told.name, array, kind, rule, _rows(book, told))


# ── embeddings ────────────────────────────────────────────────────────────────────────────────


def _embedding(book: Book, told: Told, begin: str) -> None:
    module: Any = told.module
    array, rows = numbers(told.tensor[0]), _rows(book, told)
    match told.name:
        case "ids":
            column = Axis("dimension", ("id",))
            rule = Given("the number of the token")
            book.add(begin + "ids", array[:, None], "ids", rule, rows, column)
        case "tokens":
            formula, rows_name = "E = table[I]", None
            if module.scale != 1.0:
                ids = torch.from_numpy(book.steps[begin + "ids"].array[:, 0]).long()
                rows_name = begin + "rows"
                book.matrices[rows_name] = numbers(module.tokens.weight.detach().cpu()[ids])
                formula = f"E = table[I]·√{array.shape[-1]}"
            rule = LookedUp(book.called(module.tokens.weight), begin + "ids", rows=rows_name)
            book.add(begin + "tokens", array, "tokens", rule, rows, formula=formula)
        case "segments":
            rule = LookedUp(book.called(module.segments.weight), row=0)
            book.add(begin + "segments", array, "segments", rule, rows)
        case "positions":
            _positions(book, told, begin)
        case _:
            parts_of = ("tokens", "segments", "positions")
            of: tuple[str, ...] = tuple(
                begin + name for name in parts_of if begin + name in book.steps
            )
            formula = "X = " + " + ".join(KINDS[name.rpartition(".")[2]].symbol for name in of)
            rule = Summed(of) if len(of) > 1 else Copied(begin + "tokens")
            book.add(begin + told.name, array, "sum", rule, rows, formula=formula)


def _positions(book: Book, told: Told, begin: str) -> None:
    """What is added for the place of a token; without padding that is its number in the text."""
    module: Any = told.module
    array = numbers(told.tensor[0])
    position = getattr(module.positions, "position", None)
    if isinstance(position, Sinusoidal):
        rule: Rule = Wave(position.base, position.layout == "halves")
        formula = "P = sin, cos of p / base^(2i/width)"
    else:
        rule, formula = LookedUp(book.called(module.positions.weight)), "P = table[p]"
    book.add(begin + "positions", array, "positions", rule, _rows(book, told), formula=formula)


def _stack(book: Book, told: Told, begin: str) -> None:
    match told.name:
        case "positions":
            _positions(book, told, begin)
        case "placed":
            array = numbers(told.tensor[0])
            rule = Summed((begin + "input", begin + "positions"))
            rows = _rows(book, told)
            book.add(begin + told.name, array, "sum", rule, rows, formula="X = input + P")
        case _:
            _through(book, told, begin)


# ── layers ────────────────────────────────────────────────────────────────────────────────────


def _layer(book: Book, told: Told, begin: str) -> None:
    module: Any = told.module
    if not told.name.endswith(".residual"):
        _through(book, told, begin)
        return
    array, name = numbers(told.tensor[0]), told.name.removesuffix(".residual")
    inside = f"{told.path}." if told.path else ""
    sublayer = book.begin(inside + name)
    added = book.steps[sublayer + "output"]
    # What goes round the sublayer is what came into it, or into a norm before it.
    norms = [book.begin(f"{inside}norms.{n}") for n in range(len(module.norms))]
    away = {
        each + "input": np.abs(book.steps[each + "input"].array + added.array - array)
        for each in (sublayer, *norms)
        if each + "input" in book.steps
    }
    round_it = min(away, key=lambda each: float(away[each].max()))
    # One rounding takes a sum half of this far at most.
    if (away[round_it] > torch.finfo(told.tensor.dtype).eps * np.abs(array)).any():
        difference = f"{away[round_it].max():.1e}".replace("-", "−")
        raise ValueError(
            f"trace(): {inside}{told.name} must be what came into {name}, or into a norm before "
            f"it, plus what {name} made; it differs by {difference}, more than rounding explains. "
            "Only a Residual that adds these two can be traced."
        )
    source = book.root(round_it)
    if source == book.root(begin + "input"):  # the layer's own name for it
        source = begin + "input"
    rule, rows = Summed((source, added.name)), _rows(book, told)
    formula = f"R = {source.removeprefix(begin)} + {name}"
    book.add(begin + told.name, array, "residual", rule, rows, formula=formula)


def _norm(book: Book, told: Told, begin: str) -> None:
    module: Any = told.module
    array, rows = numbers(told.tensor[0]), _rows(book, told)
    if told.name == "input":
        book.add(begin + "input", array, "given", book.source(array, "each token's vector"), rows)
        return
    weight = book.parameter(module.weight)
    if isinstance(module, RMSNorm):
        assert weight is not None
        rule: Rule = RmsNormed(begin + "input", weight, module.eps)
        kind = "rms_norm"
    else:
        rule = LayerNormed(begin + "input", weight, book.parameter(module.bias), module.eps)
        kind = "layer_norm"
    book.add(begin + "output", array, kind, rule, rows)


def _feed_forward(book: Book, told: Told, begin: str) -> None:
    module: Any = told.module
    array, rows = numbers(told.tensor[0]), _rows(book, told)
    match told.name:
        case "input":
            book.add(
                begin + "input", array, "given", book.source(array, "each token's vector"), rows
            )
        case "hidden":
            book.add(
                begin + "hidden", array, "hidden", book.product(begin + "input", module.w_in), rows
            )
        case "gate":
            book.add(
                begin + "gate", array, "gate", book.product(begin + "input", module.w_gate), rows
            )
        case "activated":
            if module.w_gate is None:
                rule: Rule = Activated(begin + "hidden", module.activation)
                formula = f"A = {module.activation}(F)"
            else:
                rule, formula = Gated(begin + "gate", begin + "hidden"), "A = silu(G) ⊙ F"
            book.add(begin + "activated", array, "activated", rule, rows, formula=formula)
        case _:
            rule = book.product(begin + "activated", module.w_out)
            book.add(begin + "output", array, "fed", rule, rows)


# ── heads of models ───────────────────────────────────────────────────────────────────────────


def _model(book: Book, told: Told, begin: str) -> None:
    module: Any = told.module
    array = numbers(told.tensor)
    rows, last = Axis("token", ("the whole",)), next(reversed(book.steps))
    if array.ndim == 3:
        array, rows = array[0], _rows(book, told)
    match told.name:
        case "transformed":
            rule: Rule = book.product(last, module.transform)
            book.add(begin + told.name, array, "transformed", rule, rows)
        case "pooled":
            if module.config.pooling == "mean":
                rule, formula = Mean(last), f"C = mean of {last}"
            else:
                rule, formula = Copied(last, 0), f"C = {last}, first token"
            book.add(begin + told.name, array, "pooled", rule, rows, formula=formula)
        case "pooler":
            rule = book.product(last, module.pooler)
            book.add(begin + told.name, array, "transformed", rule, rows, formula="T = C W + b")
        case "activated":
            function = "tanh" if isinstance(module, SequenceClassifier) else "gelu"
            formula = f"A = {function}(T)"
            rule = Activated(last, function)
            book.add(begin + told.name, array, "activated", rule, rows, formula=formula)
        case _:
            columns = Axis("dimension", tuple(book.outcomes))
            rule = book.product(last, module.head)
            book.add(begin + told.name, array, "logits", rule, rows, columns)


_READERS: tuple[tuple[Any, Callable[[Book, Told, str], None]], ...] = (
    (Embedding, _embedding),
    ((Encoder, Decoder), _stack),
    ((EncoderLayer, DecoderLayer), _layer),
    ((LayerNorm, RMSNorm), _norm),
    (FeedForward, _feed_forward),
    ((LanguageModel, MaskedLanguageModel, SequenceClassifier, Transformer), _model),
)
