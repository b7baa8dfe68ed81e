"""What √dₖ does: the weights of one trace with and without it, side by side."""

from __future__ import annotations

import numpy as np
from rich.text import Text

from regard import reference
from regard._arithmetic import figure
from regard._trace import Trace
from regard.view.lines import indented, paragraph
from regard.view.matrix import Matrix, table


def render_scaling(
    scaled: Trace,
    unscaled: Trace,
    width: int = 80,
    *,
    head: int | None = None,
    everything: bool = False,
) -> list[Text]:
    """The weights, the largest weight and the entropy of each row, with √dₖ and without.

    >>> from regard.worked import example
    >>> scaling = example("scaling")
    >>> print(*render_scaling(scaling.trace(), scaling.trace(scale=False), 60), sep="\\n")
        What √dₖ = √4 does
    ...
    Q  0.7311  0.8808    0.5822  0.3653
    ...
    """
    step = scaled.steps["weights"]
    root = f"√{figure((scaled.divisor or 1.0) ** 2).removesuffix('.0')}"
    lines = [Text.assemble((f"    What √dₖ = {root} does", "bold"))]
    both = np.stack([step.array, unscaled.steps["weights"].array])  # (2, H, Nq, Nk)
    largest, entropies = both.max(axis=-1), reference.entropy(both)  # (2, H, Nq)
    rows, columns = (axis.labels for axis in step.axes[-2:])
    for h, label in enumerate(step.axes[0].labels):
        if head not in (None, h):
            continue
        pairs = [
            Matrix(title, columns, array, float(both.max()))
            for title, array in zip(("with √dₖ", "without"), both[:, h], strict=True)
        ]
        summaries = [
            Matrix(title, ("with", "without"), values[:, h].T, float(values[:, h].max()))
            for title, values in (("largest weight", largest), ("entropy in nats", entropies))
        ]
        corner = f"A, {label}" if len(step.array) > 1 else "A"
        for matrices in (pairs, summaries):
            block = table(rows, matrices, width - 4, corner=corner, everything=everything)
            lines += indented(block.lines)
    (weight, weight_without), (spread, spread_without) = (
        values.mean(axis=(1, 2)) for values in (largest, entropies)
    )
    why = f"a little sharper. Scores grow with dₖ, and here it is only {root[1:]}."
    if weight_without - weight > 0.1:
        why = "larger scores let the softmax pick one token instead of mixing several."
    return lines + paragraph(
        f"Without √dₖ the largest weight of a row is {weight_without:.4f} on average instead of "
        f"{weight:.4f}, and the entropy {spread_without:.4f} instead of {spread:.4f}: {why}",
        width,
    )
