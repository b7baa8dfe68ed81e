"""What √d_k does: the weights of one trace with and without it, side by side."""

from __future__ import annotations

import numpy as np
from rich.text import Text

from regard import reference
from regard._arithmetic import figure
from regard._trace import Trace
from regard.view.matrix import Matrix, table
from regard.view.terminal import paragraph


def render_scaling(
    scaled: Trace,
    unscaled: Trace,
    width: int = 80,
    *,
    head: int | None = None,
    everything: bool = False,
) -> list[Text]:
    """The weights, the largest weight and the entropy of each row, with √d_k and without.

    >>> from regard.worked import example
    >>> scaling = example("scaling")
    >>> print(*render_scaling(scaling.trace(), scaling.trace(scale=False), 60), sep="\\n")
        What √d_k = √4 does
    ...
    Q  0.7311  0.8808    0.5822  0.3653
    ...
    """
    step = scaled.steps["weights"]
    root = f"√{figure((scaled.divisor or 1.0) ** 2).removesuffix('.0')}"
    lines = [Text.assemble((f"    What √d_k = {root} does", "bold"))]
    weights = (step.array, unscaled.steps["weights"].array)
    largest = [array.max(axis=-1) for array in weights]
    entropies = [reference.entropy(array) for array in weights]
    rows, columns = (axis.labels for axis in step.axes[-2:])
    for h, label in enumerate(step.axes[0].labels):
        if head not in (None, h):
            continue
        pairs = [
            Matrix(title, columns, array[h], max(array.max() for array in weights))
            for title, array in zip(("with √d_k", "without"), weights, strict=True)
        ]
        summaries: list[Matrix] = []
        for title, values in (("largest weight", largest), ("entropy in nats", entropies)):
            array = np.stack([side[h] for side in values], axis=1)
            summaries.append(Matrix(title, ("with", "without"), array, float(array.max())))
        corner = f"A, {label}" if len(step.array) > 1 else "A"
        for matrices in (pairs, summaries):
            block = table(rows, matrices, width - 4, corner=corner, everything=everything)
            lines += [Text("    ").append_text(line) for line in block.lines]
    means = [f"{values.mean():.4f}" for values in (*largest, *entropies)]
    sharper = float(largest[1].mean() - largest[0].mean())
    return lines + paragraph(
        f"Without √d_k the largest weight of a row is {means[1]} on average instead of {means[0]}, "
        f"and the entropy {means[3]} instead of {means[2]}: "
        + (
            "larger scores let the softmax pick one token instead of mixing several."
            if sharper > 0.1
            else f"a little sharper. Scores grow with d_k, and here it is only {root[1:]}."
        ),
        width,
    )
