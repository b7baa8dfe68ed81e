"""What an ablation did: one run beside another of the same model on the same text."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from regard._arguments import shown
from regard._wanted import still_wanted
from regard.text import Token

if TYPE_CHECKING:
    from regard.run.run import Run

_CALL = "effect()"
_CELLS = 2**22  # of what is compared in float64 at a time: 32 MB each


@dataclass(frozen=True, eq=False)
class Change:
    """How much each token, or each sequence, changed from a to b; float64.

    - `relative`: ‖a − b‖ / ‖a‖; 0 if both are 0, infinite if a alone is
    - `cosine`: of the angle between a and b; NaN where one of them is 0
    - `divergence`: of logits, Σ p ln(p / q) of their softmax p and q, in nats; else None
    - `flipped`: of logits, whether the most likely word is another; else None
    """

    relative: Tensor
    cosine: Tensor
    divergence: Tensor | None = None
    flipped: Tensor | None = None


@dataclass(frozen=True, eq=False)
class Effect:
    """What changed, block by block and in the output. `print(effect)` tells it in short.

    `real` (B, N) is False where there is padding, which the summary leaves out; None: nowhere.
    """

    layers: dict[str, Change]
    output: Change | None = None
    real: Tensor | None = None
    tokens: list[list[Token]] | None = field(default=None, repr=False)

    @property
    def changes(self) -> dict[str, Change]:
        """Of every block, and of the `output`."""
        return self.layers | ({} if self.output is None else {"output": self.output})

    def __str__(self) -> str:
        width = max(map(len, self.changes), default=0)
        lines = [f"{'':{width}}  mean change  largest change  mean cosine"]
        for name, change in self.changes.items():
            relative = self._counted(change.relative)
            if not len(relative):
                lines.append(f"{name:{width}}  nothing to compare")
                continue
            cosine = self._counted(change.cosine)
            lines.append(
                f"{name:{width}}  {relative.mean().item():>11.2%}  {relative.max().item():>14.2%}  "
                f"{cosine.nanmean().item():>11.4f}  {self._where(change.relative)}".rstrip()
            )
        output = self.output
        if output is not None and output.divergence is not None and output.flipped is not None:
            divergence = self._counted(output.divergence)
            flipped = self._counted(output.flipped)
            if len(divergence):
                lines.append(
                    f"Next word: {divergence.mean().item():.4g} nats of divergence on average, "
                    f"{divergence.max().item():.4g} {self._where(output.divergence)}; the "
                    f"most likely one changed at {int(flipped.sum())} of {len(flipped)} tokens."
                )
        return "\n".join(lines)

    def _counted(self, x: Tensor) -> Tensor:
        return x[self.real] if self.real is not None and self.real.shape == x.shape else x.flatten()

    def _where(self, x: Tensor) -> str:
        """At which token that is largest."""
        if x.dim() != 2:
            return ""
        if self.real is not None and self.real.shape == x.shape:
            x = x.masked_fill(~self.real, -torch.inf)
        sequence, place = divmod(int(x.nan_to_num(nan=-torch.inf).argmax()), x.shape[1])
        text = ""
        if self.tokens is not None and sequence < len(self.tokens):
            tokens = self.tokens[sequence]
            text = f" {tokens[place].text!r}" if len(tokens) == x.shape[1] else ""
        of = f" of sequence {sequence}" if x.shape[0] > 1 else ""
        return f"at {place}{text}{of}"


@torch.no_grad()
def effect(run: Run, other: Run, *, logits: bool | None = None) -> Effect:
    """What changed from this run to another of the same model on the same text: of each token after
    each block, and in the output. Needs `regard.watch(…, keep=("hidden_states", "output"))`.

    `logits` says whether the output is one score a word of the vocabulary. None decides: it is if
    the output is (B, N, …), a self-attention layer is causal, and the last axis is longer than that
    of every hidden state, which must have been kept for that.

    >>> import regard
    >>> states = [torch.tensor([[[3.0, y]]]) for y in (4.0, -4.0)]
    >>> one, other = (regard.Run(hidden_states={"block": x}) for x in states)
    >>> print(one.effect(other))
           mean change  largest change  mean cosine
    block      160.00%         160.00%      -0.2800  at 0
    """
    if not isinstance(other, type(run)):
        raise TypeError(
            f"{_CALL}: other must be a Run; got {shown(other)}. regard.watch(…) makes one."
        )
    if logits is not None and not isinstance(logits, bool):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise TypeError(
            f"{_CALL}: logits must be True, False or None; got {shown(logits)}. None decides."
        )
    check_tokens(run, other)
    pairs = {
        name: (x, other.hidden_states[name])
        for name, x in run.hidden_states.items()
        if name in other.hidden_states
    }
    outputs = {}
    if run.output is not None and other.output is not None:
        outputs = {"output": (run.output, other.output)}
    if not pairs and not outputs:
        raise ValueError(
            f"{_CALL}: both runs must have hidden states or an output to compare; they have none "
            'in common. regard.watch(…, keep=("hidden_states", "output")) keeps them.'
        )
    if logits and run.output is None:
        raise ValueError(
            f"{_CALL}: logits=True needs the output of both runs; it was not kept. "
            'regard.watch(…, keep=("output",)) keeps it.'
        )
    for name, (a, b) in [*pairs.items(), *outputs.items()]:
        if a.shape != b.shape or a.dim() < 2:
            raise ValueError(
                f"{_CALL}: {name} must be of the same shape (B, …) in both runs; "
                f"got {tuple(a.shape)} and {tuple(b.shape)}. Compare runs of one model on one text."
            )
    own = [layer for layer in run.layers.values() if not layer.cross]
    output = None
    for a, b in outputs.values():
        if logits is None:
            causal = any(layer.options.causal for layer in own)
            widths = [x.shape[-1] for x in run.hidden_states.values()]
            logits = causal and a.dim() >= 3 and bool(widths) and a.shape[-1] > max(widths)
        output = compare(a, b, logits)
    layers = {name: compare(a, b, False) for name, (a, b) in pairs.items()}
    real = own[0].queries if own else None
    return Effect(layers, output, None if real is None else real.cpu(), run.tokens)


def check_tokens(run: Run, other: Run) -> None:
    """Raises ValueError if two runs read different tokens."""
    ids, others = run.token_ids, other.token_ids
    if ids is not None and others is not None:
        same = ids.shape == others.shape and torch.equal(ids.cpu(), others.cpu())
    elif run.tokens is not None and other.tokens is not None:
        texts = ([[t.text for t in one] for one in x] for x in (run.tokens, other.tokens))
        same = next(texts) == next(texts)
    else:
        same = run.text is None or other.text is None or run.text == other.text
    if not same:
        raise ValueError(
            f"{_CALL}: both runs must have read the same tokens; they read different ones. "
            "Run the model on the same text twice, once with heads ablated or links blocked."
        )


def compare(a: Tensor, b: Tensor, logits: bool) -> Change:
    """Two tensors along their last axis, a few rows at a time."""
    shape, width = a.shape[:-1], a.shape[-1]
    rows = (x.reshape(shape.numel(), width).split(max(_CELLS // max(width, 1), 1)) for x in (a, b))
    parts: list[list[Tensor]] = []
    for some, others in zip(*rows, strict=True):
        still_wanted()
        x, y = some.detach().cpu().double(), others.detach().cpu().double()
        size, changed = x.norm(dim=-1), (x - y).norm(dim=-1)
        relative = torch.where(changed == 0, 0.0, changed / size)
        parts.append([relative, (x * y).sum(-1) / (size * y.norm(dim=-1))])
        if logits and width:
            p, q = x.log_softmax(-1), y.log_softmax(-1)
            # A word that has no chance in a adds nothing, even if it has none in b.
            divergence = torch.where(p == -torch.inf, 0.0, p.exp() * (p - q)).sum(-1)
            parts[-1] += [divergence, x.argmax(-1) != y.argmax(-1)]
    return Change(*(torch.cat(part).reshape(shape) for part in zip(*parts, strict=True)))
