"""What ablated heads change, in the terminal."""

from __future__ import annotations

from collections.abc import Sequence

from rich.text import Text

from regard.run import Effect
from regard.view.lines import INDENT, fit_name, paragraph, title_line


def render_effect(
    effect: Effect, ablated: Sequence[tuple[int, int]], labels: Sequence[str], width: int = 80
) -> list[Text]:
    """What changed when heads (layer, head) were ablated: after every block, and in the output.

    >>> import torch
    >>> from regard.run import Run
    >>> one, other = (Run(hidden_states={"block": torch.tensor([[[3.0, y]]])}) for y in (4.0, -4.0))
    >>> print(*render_effect(one.effect(other), [(0, 2)], ["love"])[1:4], sep="\\n")
    Without 0.2   what changed, block by block
        block   mean change  largest  at token
        0           160.00%  160.00%  love
    """
    heads = ", ".join(f"{layer}.{head}" for layer, head in ablated)
    lines = [Text(), title_line(f"Without {heads}", "what changed, block by block", width)]
    lines.append(Text(f"{' ' * INDENT}block   mean change  largest  at token", "dim"))
    changes = [(str(index), change) for index, change in enumerate(effect.layers.values())]
    if effect.output is not None:
        changes.append(("output", effect.output))
    for name, change in changes:
        relative = change.relative.double().cpu().numpy()[0].reshape(-1)
        line = f"{' ' * INDENT}{name:<6}  {relative.mean():>11.2%}  {relative.max():>7.2%}"
        if len(relative) == len(labels) and relative.max() > 0:
            line += f"  {fit_name(labels[int(relative.argmax())], 24)}"
        lines.append(Text(line))
    output = effect.output
    if output is not None and output.divergence is not None and output.flipped is not None:
        flipped = int(output.flipped.sum())
        lines += paragraph(
            f"Next word: {float(output.divergence.mean()):.3g} nats of divergence on average; the "
            f"most likely one is another after {flipped:,} of {output.flipped.numel():,} tokens.",
            width,
        )
    remark = "Change: the length of the difference, as a share of the vector's own."
    return lines + paragraph(remark, width, style="dim")
