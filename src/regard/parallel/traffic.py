"""What travels: the bytes that a rank sends for one attention, counted without sending any.

`python -m regard.parallel.traffic` prints what many ranks would need, as a simulation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from regard.observation import See
from regard.parallel.layout import length
from regard.parallel.plan import Plan, plan

_TOLD = 17 * 8  # what a rank tells each of the others first: do parts fit together?


@dataclass(frozen=True)
class Traffic:
    """Bytes that one rank sends, by what they are for, and the rounds in which it waits for others.

    >>> some = plan(ranks=2, heads=4, layout="zigzag")
    >>> Traffic(some, tokens=1000, width=64).forward()
    {'agreement': 136, 'heads': 1024000, 'ring': 0, 'seen': 0}
    """

    plan: Plan
    tokens: int
    width: int
    value_width: int | None = None
    batch: int = 1
    number: int = 4  # bytes of a number of q, k and v
    rank: int = 0
    see: See | None = None

    @property
    def _values(self) -> int:
        return self.width if self.value_width is None else self.value_width

    @property
    def _own(self) -> int:
        """Tokens of this rank."""
        return self.plan.layout.length(self.tokens, self.rank)

    @property
    def _others(self) -> int:
        """Tokens of its group that others hold."""
        return length(self.plan.group_runs(self.tokens, self.rank)) - self._own

    def _blocks(self) -> Iterator[int]:
        """The tokens of each block in the order in which it comes by."""
        index = self.rank // self.plan.heads
        for step in range(self.plan.ring):
            yield self.plan.group_layout.length(self.tokens, (index - step) % self.plan.ring)

    def _exchanged(self, numbers: int, *, back: bool, keys: bool = False) -> int:
        """So many numbers of each token and head, to a share of the heads or back from it."""
        plan = self.plan
        all_heads = plan.kv_heads if keys else plan.n_heads
        some = plan.kv_share(self.rank) if keys else plan.share(self.rank)
        share = some.stop - some.start
        cells = share * self._others if back else (all_heads - share) * self._own
        return cells * self.batch * numbers

    def forward(self) -> dict[str, int]:
        """What the forward pass sends."""
        plan, values = self.plan, self._values
        found = {"agreement": _TOLD * (plan.ranks - 1), "heads": 0, "ring": 0, "seen": 0}
        if plan.ranks == 1:
            return dict.fromkeys(found, 0)
        found["heads"] = self.number * (
            self._exchanged(self.width, back=False)
            + self._exchanged(self.width + values, back=False, keys=True)
            + self._exchanged(values, back=True)
        )
        found["ring"] = self._travelling(self.width + values)
        if self.see is not None:
            found["seen"] = self._seen(self.see)
        return found

    def backward(self) -> dict[str, int]:
        """What the backward pass sends: everything the other way, and gradients behind keys."""
        plan, values = self.plan, self._values
        found = {"heads": 0, "ring": 0}
        if plan.ranks == 1:
            return found
        found["heads"] = self.number * (
            self._exchanged(values, back=False)
            + self._exchanged(self.width, back=True)
            + self._exchanged(self.width + values, back=True, keys=True)
        )
        if plan.ring > 1:
            share = plan.kv_share(self.rank)
            wide = max(self.number, 4)  # sums are kept in float32 at least
            sums = self.batch * (share.stop - share.start) * (self.width + values) * wide
            found["ring"] = self._travelling(self.width + values) + self.tokens * sums
        return found

    def _travelling(self, numbers: int) -> int:
        """So many numbers of every key, round the ring once."""
        share = self.plan.kv_share(self.rank)
        each = self.batch * (share.stop - share.start) * numbers * self.number
        return sum(list(self._blocks())[:-1]) * each

    def _seen(self, see: See) -> int:
        plan, dtype = self.plan, 8 if self.number == 8 else 4
        share = plan.share(self.rank)
        heads = share.stop - share.start
        single = 1 + see.entropy + see.distance + see.received + see.max_logit + see.n_spans
        numbers = dtype * single + (see.top + see.contribution) * (8 + dtype)
        found = self._exchanged(numbers, back=True)
        if see.norms is not None:
            each = see.norms.element_size()
            found += self._exchanged(each, back=False)
            found += sum(list(self._blocks())[:-1]) * self.batch * heads * each
        if see.map is not None:
            rows, columns = see.map
            own = (self.rank + 1) * rows // plan.ranks - self.rank * rows // plan.ranks
            found += self.batch * heads * (rows - own) * (columns + 1) * 8
            found += self.batch * plan.n_heads * own * columns * dtype * (plan.ranks - 1)
        if plan.ring > 1 and (see.map is not None or see.received):
            found += self._travelling(self.width)
            found += self.tokens * self.batch * heads * 8 * see.received
        return found

    @property
    def steps(self) -> int:
        """The rounds of the forward pass, one behind the other, in which keys or heads travel."""
        return (2 if self.plan.heads > 1 else 0) + self.plan.ring - 1


def simulation() -> str:
    """What one causal layer would need on many ranks: a table, computed and not measured.

    >>> print(simulation().splitlines()[0])
    A simulation: one causal layer, 32 heads, 8 of keys, 128 wide, bfloat16, zigzag; no run.
    """
    lines = [
        "A simulation: one causal layer, 32 heads, 8 of keys, 128 wide, bfloat16, zigzag; no run.",
        "",
        "| tokens | ranks | heads × ring | steps | q, k, v and output of a rank | it sends forward "
        "| backward | it computes | bandwidth that hides it at 100 TFLOP/s |",
        "|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    heads, kv_heads, width = 32, 8, 128
    for tokens in (1_000_000, 10_000_000):
        for ranks in (8, 64, 512):
            found = plan(ranks=ranks, heads=heads, kv_heads=kv_heads, layout="zigzag")
            some = Traffic(found, tokens, width, number=2)
            forward, backward = sum(some.forward().values()), sum(some.backward().values())
            held = tokens / ranks * 2 * width * (2 * heads + 2 * kv_heads)
            work = 4 * tokens * tokens / 2 * width * heads / ranks  # floating-point operations
            lines.append(
                f"| {tokens:,} | {ranks} | {found.heads} × {found.ring} | {some.steps} | "
                f"{held / 1e9:.2f} GB | {forward / 1e9:.2f} GB | {backward / 1e9:.2f} GB | "
                f"{work / 1e12:,.0f} TFLOP | {forward / (work / 1e14) / 1e9:.2g} GB/s |"
            )
    return "\n".join(lines)


if __name__ == "__main__":
    print(simulation())
