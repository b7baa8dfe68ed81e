"""Who computes what: shares of the heads, a ring of keys, or both; and what then travels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from regard._arguments import WrongValue, shown, whole
from regard.parallel.layout import Kind, Layout, Run, checked_kind

By = Literal["heads", "ring"]


@dataclass(frozen=True)
class Plan:
    """How P ranks share one attention. `heads` of them make a group, which has all heads of its
    tokens; `ring` groups send keys and values on. P = heads · ring; rank r is number r mod heads
    of group ⌊r / heads⌋.

    `print(plan)` says it in words.
    """

    layout: Layout
    n_heads: int
    kv_heads: int
    heads: int
    ring: int
    why: str

    @property
    def ranks(self) -> int:
        return self.layout.ranks

    @property
    def group_layout(self) -> Layout:
        """That of groups: P ranks cut as P tokens are, so that a group's tokens lie together."""
        return Layout(self.layout.kind, self.ring)

    def kv_share(self, rank: int) -> slice:
        """The key heads that a rank computes: of Hkv, [⌊m·Hkv/heads⌋, ⌊(m+1)·Hkv/heads⌋)."""
        member = rank % self.heads
        return slice(
            member * self.kv_heads // self.heads, (member + 1) * self.kv_heads // self.heads
        )

    def share(self, rank: int) -> slice:
        """The query heads that go with them."""
        each, share = self.n_heads // max(self.kv_heads, 1), self.kv_share(rank)
        return slice(share.start * each, share.stop * each)

    def members(self, rank: int) -> range:
        """The ranks of the group that a rank is in."""
        first = rank // self.heads * self.heads
        return range(first, first + self.heads)

    def group_runs(self, size: int, rank: int) -> list[Run]:
        """The tokens, of so many, that a rank has of the heads of its share."""
        return self.group_layout.runs(size, rank // self.heads)

    def __str__(self) -> str:
        some = f"{self.n_heads} heads, {self.kv_heads} of keys" if self.kv_heads else "no heads"
        lines = [
            f"{self.ranks} rank{'s' * (self.ranks > 1)}, {some}, {self.layout.kind}: {self.why}"
        ]
        if self.heads > 1:
            shares = [self.kv_share(rank) for rank in range(self.heads)]
            counts = sorted({share.stop - share.start for share in shares}, reverse=True)
            lines.append(
                f"heads: each of {self.heads} ranks computes {' or '.join(map(str, counts))} key "
                f"heads, and the query heads that go with them, on all tokens of "
                f"{'the sequence' if self.ring == 1 else 'their group'}."
            )
        if self.ring > 1:
            of = "ranks" if self.heads == 1 else f"groups of {self.heads} ranks"
            lines.append(
                f"ring: keys and values travel round {self.ring} {of}, one block at a time, and "
                "what each finds is merged by lse."
            )
        return "\n".join(lines)


def plan(
    *,
    ranks: int,
    heads: int,
    kv_heads: int | None = None,
    layout: Kind = "contiguous",
    by: By | None = None,
) -> Plan:
    """How `regard.parallel.attention` shares its work out, and why.

    - Where ranks are at most as many as key heads, by heads alone: shares are as even as they can
      be, nothing is merged, and results are those of one process to the bit.
    - Else the ranks make groups, as large as possible, of which each member has the same number of
      key heads (a divisor of both numbers), and keys and values travel round the groups.
    - `by="heads"` and `by="ring"` ask for one of them alone.

    >>> print(plan(ranks=6, heads=8, kv_heads=2, layout="zigzag"))
    6 ranks, 8 heads, 2 of keys, zigzag: ranks outnumber key heads
    heads: each of 2 ranks computes 1 key heads, and the query heads that go with them, on all tokens of their group.
    ring: keys and values travel round 3 groups of 2 ranks, one block at a time, and what each finds is merged by lse.
    """  # noqa: E501
    call = "plan()"
    ranks = whole(call, "ranks", ranks, 1, remedy="It is how many processes share a sequence.")
    heads = whole(call, "heads", heads, 0, remedy="It is how many heads q has.")
    kv_heads = heads if kv_heads is None else whole(call, "kv_heads", kv_heads, 0)
    return planned(call, Layout(checked_kind(call, layout), ranks), heads, kv_heads, by)


def planned(call: str, layout: Layout, n_heads: int, kv_heads: int, by: object) -> Plan:
    """The same, of a layout."""
    if by not in ("heads", "ring", None):
        raise WrongValue(
            f"{call}: by must be 'heads', 'ring' or None; got {shown(by)}. "
            "None takes heads where there are enough; regard.parallel.plan(…) says what it takes."
        )
    ranks = layout.ranks
    if by == "heads" and ranks > max(kv_heads, 1):
        raise WrongValue(
            f"{call}: by='heads' needs at least as many key heads as ranks; got {kv_heads} key "
            f"heads and {ranks} ranks. by=None lets keys travel round groups of ranks."
        )
    if by == "ring":
        group, why = 1, "keys travel, as was asked for"
    elif by == "heads" or ranks <= kv_heads or ranks == 1:
        group, why = ranks, "as was asked for" if by else "there are key heads for every rank"
        why = "nothing is shared" if ranks == 1 else f"{why}, and nothing is merged"
    else:
        both = [n for n in range(1, kv_heads + 1) if ranks % n == 0 and kv_heads % n == 0]
        group, why = max(both, default=1), "ranks outnumber key heads"
    return Plan(layout, n_heads, kv_heads, group, ranks // group, why)
