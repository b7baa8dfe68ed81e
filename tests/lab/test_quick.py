"""Quick runs as they are typed: what they find, and that a broken premise turns it.

Three of them here; `make soak` runs all.
"""

from __future__ import annotations

import pytest
from helpers.soak import times

import regard
from regard.lab import NAMES

# Of what is not said here, the claim holds. Of what may be too little to tell, either is right.
WHOLE = {
    "recall": {"holds", "open"},
    "meaning": {"open", "holds"},
    "reference": {"fails", "open"},
    "content": {"open"},
    "refine": {"fails"},
    "induction": {"holds", "open"},
}
FEW = ("order", "roles", "width")


@pytest.mark.parametrize("name", NAMES if times(1) > 1 else FEW)
def test_a_quick_run_finds_what_there_is(name: str) -> None:
    whole = regard.lab.run(name, quick=True)
    assert whole.verdict.outcome in WHOLE.get(name, {"holds"})
    broken = regard.lab.run(name, quick=True, false=True)
    assert broken.verdict.outcome == "fails"
    # More of it fails with the premise broken than with it whole.
    failed = [
        sum(finding.outcome == "fails" for finding in found.verdict.findings)
        for found in (whole, broken)
    ]
    assert failed[1] > failed[0] or name == "refine"
