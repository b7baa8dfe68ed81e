"""Quick runs as they are typed: which way each effect goes, and that a broken premise turns it.

Three of them here; `make soak` runs all.
"""

from __future__ import annotations

import pytest
from helpers.soak import times

import regard
from regard.lab import NAMES, Result

# Parts of the claim that do not hold with the premise whole, or of which too little is known.
NOT_SO = {
    "meaning": {"most.open"},
    "reference": {"head.open"},
    "refine": {"share.fails"},
}
# Parts of the claim that hold with the premise broken, as well: it was another that was broken.
STILL = {
    "recall": {"path.holds"},
    "order": {"known"},
    "roles": {"broken.holds"},
    "learning": {"first.holds"},
    "geometry": {"sign.holds"},
    "reference": {"order.holds"},
    "heads": {"apart.holds"},
    "rank": {"count.holds"},
    "refine": {"share.holds"},
    "induction": {"sees.holds"},
    "meaning": {"move.open"},
}
FEW = ("order", "roles", "width")


def parts(result: Result) -> dict[str, str]:
    """What came out of each part of a claim. Seconds are left out: they are the machine's, and of
    what else it does."""
    begin = f"{result.experiment.name}.finding."
    found = {each.said.key.removeprefix(begin): each.outcome for each in result.verdict.findings}
    return {key: outcome for key, outcome in found.items() if not key.startswith("seconds.")}


@pytest.mark.parametrize("name", NAMES if times(1) > 1 else FEW)
def test_a_quick_run_finds_which_way_it_goes_and_a_broken_premise_turns_it(name: str) -> None:
    whole = parts(regard.lab.run(name, quick=True))
    assert "holds" in whole.values()
    assert {key for key, outcome in whole.items() if outcome != "holds"} <= NOT_SO.get(name, set())
    broken = parts(regard.lab.run(name, quick=True, false=True))
    assert {key for key, outcome in broken.items() if outcome != "fails"} <= STILL.get(name, set())
    assert "fails" in broken.values() or name == "meaning"  # few sentences
    assert whole != broken
