"""`Verdict`: what became of one family."""

from __future__ import annotations

from dataclasses import dataclass, field

# In words, in the order in which they are counted.
KINDS = {
    "exact": "every attention is seen, and nothing differs",
    "part": "nothing differs; what is not seen is said in `run.unseen`",
    "none": "computes no attention; nothing differs",
    "refused": "`watch` refuses before the model runs",
    "different": "**watched is not as unwatched**",
    "not built": "no small model of it could be made and run here",
    "no model": "names a part of other models",
}


@dataclass
class Verdict:
    family: str
    kind: str  # one of KINDS
    why: str = ""
    model: str = ""  # its class
    shrink: str = ""  # how it was made small
    given: list[str] = field(default_factory=list[str])  # what it was called with
    ways: list[str] = field(default_factory=list[str])  # in which it ran
    figures: dict[str, float] = field(default_factory=dict[str, float])  # the worst of each kind
    unseen: list[str] = field(default_factory=list[str])
    notes: list[str] = field(default_factory=list[str])  # what the model itself could not do
    seconds: float = 0.0

    @property
    def is_judged(self) -> bool:
        return self.kind not in ("not built", "no model")
