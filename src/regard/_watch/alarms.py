"""When a training is about to go wrong, by its heads: entropy that collapses, logits that grow."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

from regard._watch.signs import Signs

COLLAPSED = 0.02  # of the entropy that equal weights would have
# A logit this large gives e⁻⁵⁰ to any key that has none; and trained models have larger ones that
# do not grow, so it has to be a multiple of what it was at first, too.
LARGE = 50.0
GROWN = 4.0


class Alarms:
    """Compares what heads do with what they did at first, and says each thing once."""

    def __init__(self, say: Callable[[str], None]) -> None:
        self._say = say
        self._collapsed: set[tuple[str, int]] = set()
        self._grown: set[str] = set()
        self._first: dict[tuple[str, int], tuple[int, float]] = {}  # the step, and the logit

    def hear(self, step: int, layers: Mapping[str, Signs]) -> None:
        """What was measured at one more step."""
        for name, signs in layers.items():
            for head, logit in enumerate(signs.max_logit):
                if logit is not None:
                    self._heard_logit(step, name, head, logit)
            pairs = zip(signs.entropy, signs.spread, strict=True)
            for head, (entropy, spread) in enumerate(pairs):
                if entropy is None or spread is None or not spread < COLLAPSED:
                    continue
                if (name, head) not in self._collapsed:
                    self._collapsed.add((name, head))
                    self._say(collapse(name, head, step, entropy, spread))

    def _heard_logit(self, step: int, name: str, head: int, logit: float) -> None:
        first_step, first = self._first.setdefault((name, head), (step, logit))
        is_lost = not math.isfinite(logit)
        if name in self._grown or not (is_lost or logit >= max(LARGE, GROWN * max(first, 1.0))):
            return
        self._grown.add(name)
        self._say(growth(name, head, step, logit, first_step, first))


def collapse(layer: str, head: int, step: int, entropy: float, spread: float) -> str:
    """What is said of a head whose weights have become narrow."""
    return (
        f"head {head} of {layer} has collapsed at step {step}: the mean entropy of its weights is "
        f"{entropy:.2g} nats, {spread:.1%} of what equal weights would have. It looks at one key "
        "only; a lower learning rate or a warm-up may help."
    )


def growth(layer: str, head: int, step: int, logit: float, first_step: int, first: float) -> str:
    """What is said of the first head of a layer whose logits have become large."""
    found = f"{logit:,.0f}" if math.isfinite(logit) else "not finite"
    since = f"{first:.3g} at step {first_step}"
    if math.isfinite(logit) and first >= 1:
        since = f"{logit / first:,.1f} times the {since}"
    said = f", {since}" if step != first_step else ""
    return (
        f"the logits of {layer} have grown at step {step}: the largest of head {head} is "
        f"{found}{said}. Softmax then looks at one key, and hands no gradient on; scores that are "
        "divided by √d_k, a norm of q and k, or a lower learning rate may help."
    )
