"""How one number of a Transformer comes about, kind by kind: a line of text from numbers alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from regard._arithmetic import Explanation, elide, equals, factor, figure
from regard.reference import Array

# ── attention ─────────────────────────────────────────────────────────────────────────────────


def turned(value: float, x: float, cosine: float, partner: float, sine: float) -> Explanation:
    """One number of a pair, turned by its angle; `sine` has the sign with which it is added.

    >>> turned(0.25, 1.0, 0.5, 0.5, -0.5)
    '0.25 = 1.0·0.5 − 0.5·0.5 (turned by its position)'
    """
    terms = [(x, cosine), (partner, sine)]
    sign = "−" if sine < 0 else "+"
    line = f"{factor(x)}·{factor(cosine)} {sign} {factor(partner)}·{figure(abs(sine))}"
    return Explanation(
        f"{figure(value)} {equals(value, terms)} {line} (turned by its position)", value, terms
    )


def scaled(
    value: float, score: float, divisor: float, bias: float | None = None, plain: bool = False
) -> Explanation:
    """A score divided by √d_k, and what is added to it; `plain`: it is not divided.

    >>> scaled(3.0, 6.0, 2.0), scaled(6.0, 6.0, 1.0, plain=True)
    ('3.0 = 6.0 / √4', '6.0 = 6.0, not scaled')
    >>> scaled(2.5, 6.0, 2.0, -0.5)
    '2.5 = 6.0 / √4 + (−0.5) (bias)'
    """
    more = "" if bias is None else f" + {factor(bias)} (bias)"
    terms = (score,) if bias is None else (score, bias)
    # Only a root that is a whole number gives a score other than 0 an exact quotient.
    exact = divisor.is_integer() or score == 0
    products = [(value, divisor)] + ([] if bias is None else [(-bias, divisor)])
    sign = equals(score, products) if exact else "≈"
    if plain:
        sign = "=" if bias is None else equals(value, [(score,), (bias,)])
        line = f"{figure(score)}{more}, not scaled"
    else:
        line = f"{figure(score)} / √{figure(divisor**2).removesuffix('.0')}{more}"
    return Explanation(f"{figure(value)} {sign} {line}", value, terms)


def masked(
    rows: Sequence[str], columns: Sequence[str], i: int, j: int, causal: bool
) -> Explanation:
    """−∞, in place of a score, for what a query may not see.

    >>> masked(["cat", "sat"], ["cat", "sat"], 0, 1, causal=True)
    '−∞: masked, as “sat” comes after “cat” and may not be seen'
    >>> masked(["cat", "sat"], ["cat", "sat"], 1, 0, causal=True)
    '−∞: masked, as “cat” may not be seen by “sat”'
    """
    row, column = rows[i], columns[j]
    if causal and j > i + len(columns) - len(rows):  # the last query stands beside the last key
        why = f"“{column}” comes after “{row}” and may not be seen"
    else:
        why = f"“{column}” may not be seen by “{row}”"
    return Explanation(f"−∞: masked, as {why}", -math.inf)


def softmax(value: float, row: Array, j: int) -> Explanation:
    """Place j of the softmax of a row of scores.

    >>> softmax(0.5, np.array([0.0, 0.0, -np.inf]), 0)
    '0.5 ≈ e^0.0 / (e^0.0 + e^0.0) ≈ 1.0 / 2.0'
    """
    scores: list[float] = row.tolist()
    own, allowed = scores[j], [s for s in scores if s != -math.inf]
    if own == -math.inf:
        return Explanation("0.0 = e^−∞ / …: masked, no attention at all", value)
    largest, remark = max(allowed), ""
    if abs(largest) > 100.0:  # e^±100 is past what a reader, and e^±710 what a float, can hold
        own, allowed = own - largest, [s - largest for s in allowed]
        remark = " (largest score taken off first)"
    exponentials = [math.exp(s) for s in allowed]
    powers = elide([f"e^{figure(s)}" for s in allowed], " + ")
    line = (
        f"{figure(value)} ≈ e^{figure(own)} / ({powers}) "
        f"≈ {figure(math.exp(own))} / {figure(sum(exponentials))}{remark}"
    )
    return Explanation(line, value, exponentials)


# ── norms ─────────────────────────────────────────────────────────────────────────────────────


def layer_norm(
    value: float, x: Array, j: int, weight: float | None, bias: float | None, eps: float
) -> Explanation:
    """(x − mean) / √(variance + ε) · γ + β; `terms` are x, mean, variance, ε, γ and β.

    >>> layer_norm(1.1, np.array([1.0, 3.0]), 1, 1.2, -0.1, 1e-5)
    '1.1 ≈ (3.0 − 2.0) / √(1.0 + 1e−05)·1.2 + (−0.1)'
    """
    middle, spread = float(x.mean()), float(x.var())
    line = f"({figure(float(x[j]))} − {factor(middle)}) / √({figure(spread)} + {_small(eps)})"
    line += "" if weight is None else f"·{factor(weight)}"
    line += "" if bias is None else f" + {factor(bias)}"
    terms = (float(x[j]), middle, spread, eps, 1.0 if weight is None else weight, bias or 0.0)
    return Explanation(f"{figure(value)} ≈ {line}", value, terms)


def rms_norm(value: float, x: Array, j: int, weight: float, eps: float) -> Explanation:
    """x / √(mean(x²) + ε) · γ; `terms` are x, mean(x²), ε and γ.

    >>> rms_norm(0.8485, np.array([3.0, 4.0]), 0, 1.0, 1e-5)
    '0.8485 ≈ 3.0 / √(12.5 + 1e−05)·1.0'
    """
    square = float(np.square(x).mean())
    line = f"{figure(float(x[j]))} / √({figure(square)} + {_small(eps)})·{factor(weight)}"
    return Explanation(f"{figure(value)} ≈ {line}", value, (float(x[j]), square, eps, weight))


def _small(eps: float) -> str:
    return f"{eps:g}".replace("-", "−")


# ── activations: `terms` are what is multiplied ───────────────────────────────────────────────


def _relu(value: float, x: float) -> Explanation:
    return Explanation(f"{figure(value)} = max(0, {figure(x)})", value, (max(0.0, x),))


def _gelu(value: float, x: float) -> Explanation:
    share = 0.5 * (1.0 + math.erf(x / math.sqrt(2.0)))
    line = f"{factor(x)}·Φ({figure(x)}) ≈ {factor(x)}·{figure(share)}"
    return Explanation(f"{figure(value)} ≈ {line}", value, (x, share))


def _gelu_tanh(value: float, x: float) -> Explanation:
    share = 0.5 * (1.0 + math.tanh(math.sqrt(2.0 / math.pi) * (x + 0.044715 * x**3)))
    line = f"{factor(x)}·½(1 + tanh(√(2/π)(x + 0.044715 x³))) ≈ {factor(x)}·{figure(share)}"
    return Explanation(f"{figure(value)} ≈ {line}", value, (x, share))


def _silu(value: float, x: float) -> Explanation:
    share = _sigmoid(x)
    line = f"{factor(x)}·σ({figure(x)}) ≈ {factor(x)}·{figure(share)}"
    return Explanation(f"{figure(value)} ≈ {line}", value, (x, share))


def _tanh(value: float, x: float) -> Explanation:
    return Explanation(f"{figure(value)} ≈ tanh({figure(x)})", value, (math.tanh(x),))


def _sigmoid(x: float) -> float:
    small = math.exp(-abs(x))  # so that nothing overflows
    return 1.0 / (1.0 + small) if x >= 0 else small / (1.0 + small)


ACTIVATED: Mapping[str, Callable[[float, float], Explanation]] = {
    "relu": _relu,
    "gelu": _gelu,
    "gelu_tanh": _gelu_tanh,
    "silu": _silu,
    "tanh": _tanh,
}


def gated(value: float, gate: float, hidden: float) -> Explanation:
    """silu(gate) · hidden.

    >>> gated(0.0, 0.0, 2.0)
    '0.0 ≈ 0.0·σ(0.0)·2.0 ≈ 0.0·0.5·2.0 (gate·σ(gate)·hidden)'
    """
    share = _sigmoid(gate)
    line = f"{factor(gate)}·σ({figure(gate)})·{factor(hidden)}"
    line += f" ≈ {factor(gate)}·{figure(share)}·{factor(hidden)} (gate·σ(gate)·hidden)"
    return Explanation(f"{figure(value)} ≈ {line}", value, (gate, share, hidden))


# ── embeddings ────────────────────────────────────────────────────────────────────────────────


def looked_up(value: float, place: str, row: float | None = None, width: int = 1) -> Explanation:
    """A number of a table, times √width if the table's number `row` is given, too.

    >>> looked_up(0.5, "row 7 of embedding.tokens.weight")
    '0.5 is looked up: row 7 of embedding.tokens.weight'
    >>> looked_up(1.0, "row 7 of embedding.tokens.weight", 0.5, 4)
    '1.0 = 0.5·√4 (row 7 of embedding.tokens.weight)'
    """
    if row is None:
        return Explanation(f"{figure(value)} is looked up: {place}", value)
    root = math.sqrt(width)
    sign = equals(value, [(row, root)]) if root.is_integer() else "≈"
    return Explanation(
        f"{figure(value)} {sign} {factor(row)}·√{width} ({place})", value, ((row, root),)
    )


def wave(
    value: float, name: str, position: int, base: float, power: int, width: int
) -> Explanation:
    """sin or cos of position / base^(power/width).

    >>> wave(0.8415, "sin", 1, 10_000.0, 0, 6)
    '0.8415 ≈ sin(1 / 10000^(0/6)) ≈ sin(1.0)'
    """
    angle = position * base ** (-power / width)
    line = f"{name}({position} / {base:g}^({power}/{width})) ≈ {name}({figure(angle)})"
    return Explanation(f"{figure(value)} ≈ {line}", value, (angle,))


def mean(value: float, numbers: Array, what: str) -> Explanation:
    """The mean of numbers.

    >>> mean(2.0, np.array([1.0, 3.0]), "the mean over all tokens")
    '2.0 = (1.0 + 3.0) / 2 (the mean over all tokens)'
    """
    terms = [float(number) for number in numbers]
    shown = elide([figure(terms[0]), *map(factor, terms[1:])], " + ")
    sign = equals(value * len(terms), [(term,) for term in terms])
    line = f"{figure(value)} {sign} ({shown}) / {len(terms)} ({what})"
    return Explanation(line, value, [(term, 1.0 / len(terms)) for term in terms])
