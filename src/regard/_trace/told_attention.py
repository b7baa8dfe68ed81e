"""The steps of an attention: those that it tells, and scores and weights, which follow."""

from __future__ import annotations

import math

import numpy as np
import torch
from torch import Tensor

from regard import reference
from regard._arithmetic import figure
from regard._rules.attention import (
    Bucket,
    Joined,
    Mixed,
    Scaled,
    Scored,
    Sloped,
    Softmaxed,
    Turned,
)
from regard._rules.general import Given
from regard._rules.rule import Rule
from regard._steps import Axis
from regard._trace.check import rounding
from regard._trace.told import Book, numbers, tokens_axis
from regard.nn._places import AlibiBiases, RelativeBiases
from regard.nn._tell import Told
from regard.nn.attention import LowRankValue, MultiHeadAttention
from regard.reference import Array


class AttentionReader:
    """Takes what attentions tell, one after the other; `largest` is the largest difference found.

    That is between weights · V and what the model computed, of all attentions so far.
    """

    def __init__(self, book: Book) -> None:
        self.book = book
        self.largest = 0.0
        self._begin = ""
        self._path = ""
        self._module: MultiHeadAttention | None = None
        self._tensors: dict[str, Tensor] = {}

    def take(self, told: Told) -> None:
        """One step that an attention tells, or the low-rank value inside one."""
        module, name, tensor = told.module, told.name, told.tensor[0]
        if isinstance(module, MultiHeadAttention) and name == "input":
            self._begin, self._path = self.book.enter(told.path, name), told.path
            self._module, self._tensors = module, {}
        self._tensors[name] = tensor
        if name in ("cosine", "sine"):  # (1, N, width), or the same without its first axis
            flat = told.tensor.reshape(-1, told.tensor.shape[-1])
            self.book.matrices[self._begin + name] = numbers(flat)
        elif name != "mask":
            self._step(name, tensor)

    def _step(self, name: str, tensor: Tensor) -> None:
        book, begin, module = self.book, self._begin, self._module
        assert module is not None
        array = numbers(tensor)
        rows = tokens_axis(book.tokens(self._path))
        keys = self._keys()
        left = begin + ("context" if "context" in self._tensors else "input")
        groups = self._groups(module)
        match name:
            case "input":
                rule = book.source(array, "each token's vector")
                book.add(begin + name, array, "given", rule, rows)
            case "context":
                book.add(begin + name, array, name, book.source(array, "the context"), keys)
            case "query":
                book.add(begin + name, array, name, book.product(begin + "input", module.w_q), rows)
            case "key":
                rule = book.product(left, module.w_k)
                book.add(
                    begin + name, array, name, rule, keys, heads=groups, formula=self._of(name)
                )
            case "down":
                assert isinstance(module.w_v, LowRankValue)
                array = array.reshape(len(array), module.kv_heads, -1).swapaxes(0, 1)
                rule = book.product(left, module.w_v.down)
                book.add(begin + name, array, name, rule, keys, heads=groups)
            case "value":
                if isinstance(module.w_v, LowRankValue):
                    rule = book.product(begin + "down", module.w_v.up)
                else:
                    rule = book.product(left, module.w_v)
                book.add(
                    begin + name, array, name, rule, keys, heads=groups, formula=self._of(name)
                )
            case "turned_query":
                book.add(begin + name, array, name, self._turned("query", array), rows)
            case "turned_key":
                rule = self._turned("key", array)
                book.add(begin + name, array, name, rule, keys, heads=groups)
            case "bias":
                array = np.broadcast_to(array, (module.heads, *array.shape[-2:])).copy()
                book.add(begin + name, array, name, self._biased(array), rows, keys)
            case "head_output":
                self._scores(module, tensor, rows, keys)
            case "concatenated":
                labels = tuple(
                    f"head {h + 1} z{i + 1}"
                    for h in range(module.heads)
                    for i in range(module.value_width)
                )
                columns = Axis("dimension", labels)
                book.add(begin + name, array, name, Joined(begin + "head_output"), rows, columns)
            case "output":
                assert module.w_o is not None
                rule = book.product(begin + "concatenated", module.w_o)
                book.add(begin + name, array, name, rule, rows)
            case _:
                raise ValueError(f"trace(): attention told a step {name!r}, which is not known.")

    def _keys(self) -> Axis:
        own = "context" not in self._tensors
        return tokens_axis(self.book.tokens(self._path) if own else self.book.others, "key token")

    def _of(self, name: str) -> str:
        """The formula, where keys and values are not made from X, or not by one matrix."""
        symbol = {"key": "K", "value": "V"}[name]
        left, matrix = ("X" if "context" not in self._tensors else "Y"), f"W_{symbol}"
        module = self._module
        assert module is not None
        if name == "value" and isinstance(module.w_v, LowRankValue):
            left, matrix, maker = "D", "V_up", module.w_v.up
        else:
            maker = getattr(module, f"w_{symbol.lower()}")
        more = "" if getattr(maker, "bias", None) is None else " + b"
        return f"{symbol} = {left} {matrix}{more}"

    def _groups(self, module: MultiHeadAttention) -> tuple[str, ...]:
        """The names of the key heads, each for the query heads that it serves."""
        size = module.heads // module.kv_heads
        if size == 1:
            return ()
        return tuple(f"heads {g * size + 1}–{(g + 1) * size}" for g in range(module.kv_heads))

    def _turned(self, name: str, array: Array) -> Rule:
        """Which numbers were turned together is seen from what became of them."""
        begin = self._begin
        cosine, sine = (self.book.matrices[begin + each] for each in ("cosine", "sine"))
        x = self.book.steps[begin + name].array[..., : cosine.shape[-1]]
        halves = np.roll(x, x.shape[-1] // 2, axis=-1)
        neighbours = x.reshape(*x.shape[:-1], -1, 2)[..., ::-1].reshape(x.shape)
        away = [
            np.abs(x * cosine + partner * sine - array[..., : x.shape[-1]]).max()
            for partner in (halves, neighbours)
        ]
        return Turned(begin + name, begin + "cosine", begin + "sine", bool(away[0] <= away[1]))

    def _biased(self, array: Array) -> Rule:
        """What is added to the scores, by the module that sees to positions around this one."""
        path = self._path
        while True:
            places = getattr(self.book.modules[path], "positions", None)
            name = f"{path}.positions" if path else "positions"
            if isinstance(places, AlibiBiases):
                self.book.matrices[f"{name}.slopes"] = np.array(places.slopes)
                return Sloped(f"{name}.slopes")
            if isinstance(places, RelativeBiases):
                table = self.book.parameter(places.weight)
                assert table is not None
                self.book.matrices[f"{name}.buckets"] = _buckets(places, array)
                return Bucket(table, f"{name}.buckets")
            if not path:
                return Given("what is added to the score")
            path = path.rpartition(".")[0]

    def _allowed(self, shape: tuple[int, ...]) -> tuple[np.ndarray, bool]:
        """Which keys a query may see, (…, Nq, Nk), and whether it is none that comes later."""
        mask = self._tensors.get("mask")
        if mask is None:
            return np.ones(shape[-2:], dtype=bool), False
        allowed = mask.cpu().numpy()
        later = np.triu(np.ones(shape[-2:], dtype=bool), k=1)
        causal = shape[-2] == shape[-1] and "context" not in self._tensors
        return allowed, bool(causal and later.any() and not (allowed & later).any())

    def _scores(self, module: MultiHeadAttention, output: Tensor, rows: Axis, keys: Axis) -> None:
        """Scores, scaled scores and weights in float64; they must give what the model computed."""
        book, begin, tensors = self.book, self._begin, self._tensors
        names = {
            name: f"turned_{name}" if f"turned_{name}" in tensors else name
            for name in ("query", "key")
        }
        q, k, v = (tensors[each] for each in (names["query"], names["key"], "value"))
        usual = math.sqrt(module.head_width)
        divisor = usual if module.scale is None else 1.0 / module.scale
        if math.isclose(divisor, usual, rel_tol=1e-12):
            divisor = usual
        allowed, causal = self._allowed((len(rows.labels), len(keys.labels)))
        bias = book.steps[begin + "bias"].array if "bias" in tensors else None
        step = reference.attention(
            numbers(q), numbers(k), numbers(v), mask=allowed, bias=bias, scale=1.0 / divisor
        )
        difference, limit = rounding(
            q, k, v, output, step.scaled, step.output, divisor, tensors.get("bias")
        )
        if not difference <= limit:
            found, most = (f"{number:.1e}".replace("-", "−") for number in (difference, limit))
            raise ValueError(
                f"trace(): {self._path or type(module).__name__}: weights · V must be what the "
                f"model computed; it differs by {found}, and rounding explains {most} at most."
            )
        self.largest = max(self.largest, difference)
        formula = "S′ = S / √d_k" if divisor == usual else f"S′ = S / {figure(divisor)}"
        formula += "" if bias is None else " + B"
        if not allowed.all():
            formula += ", −∞ where the key comes later" if causal else ", −∞ where masked"
        scored = Scored(begin + names["query"], begin + names["key"])
        turned = "S = Q′ K′ᵀ" if names["query"] != "query" else "S = Q Kᵀ"
        book.add(begin + "scores", step.scores, "scores", scored, rows, keys, formula=turned)
        # Divided, not multiplied by a reciprocal: 6 / √4 is 3 to the last bit.
        scaled = np.where(
            step.allowed, step.scores / divisor + (0.0 if bias is None else bias), -np.inf
        )
        rule = Scaled(begin + "scores", divisor, None if bias is None else begin + "bias", causal)
        book.add(begin + "scaled", scaled, "scaled", rule, rows, keys, formula=formula)
        rule = Softmaxed(begin + "scaled")
        book.add(begin + "weights", step.weights, "weights", rule, rows, keys)
        rule = Mixed(begin + "weights", begin + "value")
        book.add(begin + "head_output", numbers(output), "head_output", rule, rows)


def _buckets(places: RelativeBiases, array: Array) -> Array:
    """The bucket of every distance, with buckets for later keys or without, as the bias shows."""
    n_queries, n_keys = array.shape[-2:]
    queries = torch.arange(n_keys - n_queries, n_keys)[:, None]
    table = numbers(places.weight)
    both = [
        places.buckets(queries - torch.arange(n_keys), causal).numpy() for causal in (False, True)
    ]
    away = [np.abs(table[buckets].transpose(2, 0, 1) - array).max() for buckets in both]
    return both[int(away[1] < away[0])].astype(np.float64)
