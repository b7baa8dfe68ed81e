"""PyTorch's own of what `make packages` tries, and how the outcome gets into docs/models.md."""

from __future__ import annotations

import pytest
import torch
from families.packages import torch_models
from families.packages.judge import judge
from families.packages.section import TITLE, kept, replaced, section
from families.verdict import Verdict

pytestmark = pytest.mark.filterwarnings("ignore")


def test_modules_of_torch_are_exact_with_every_mask() -> None:
    torch.manual_seed(1)
    for trial in (*torch_models.multi_head_attention(), *torch_models.transformers()):
        assert (trial.name, judge(trial).kind) == (trial.name, "exact")


def test_what_does_not_run_here_is_said_not_to_run() -> None:
    (trial,) = torch_models.varlen()
    verdict = judge(trial)
    assert verdict.kind == "not built"
    assert "does not run here: NotImplementedError" in verdict.why


def test_the_section_takes_the_place_of_the_last_one_and_of_nothing_else() -> None:
    first = section({"torch (all)": [Verdict("one", "exact", "1 record")]})
    second = section({"torch (all)": [Verdict("two", "part", "a | b")]})
    page = "# Families\n\ntext\n"
    once = replaced(page, first)
    assert once.startswith(page)
    assert "| one | exact | 1 record |" in kept(once)
    twice = replaced(once + "\n## More\n\nend\n", second)
    assert twice.count(TITLE) == 1
    assert twice.endswith("\n## More\n\nend\n")
    assert kept(twice) == second
    assert "a \\| b" in second
    assert kept(page) == ""
