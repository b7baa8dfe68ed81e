"""SmolLM2 reads one text on several ranks: logits and every statistic are those of one process.

8,192 tokens, all that it has positions for, in `make soak`; some hundred here.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from helpers.long_text import read_alone, read_shared
from helpers.ranks import Ranks
from helpers.soak import times

pytest.importorskip("transformers")

SIZE = 131 if times(1) == 1 else 8192
# Shares of the largest number there is: what float32 loses in 30 layers, of which each rounds
# otherwise where rows are multiplied with other rows beside them.
ROUNDING = 1e-3
OTHER_KEYS = 1e-3  # weights that are nearly equal change places


def test_smollm2_reads_the_same_on_two_and_three_ranks(tmp_path: Path) -> None:
    read_alone(SIZE, tmp_path)
    ranks = Ranks(3, seconds=900)
    try:
        for count in (2, 3):
            for found in ranks.run(count, read_shared, SIZE, tmp_path):
                print(f"{SIZE:,} tokens on {count} ranks:", found)
                for name, apart in found.items():
                    most = OTHER_KEYS if name.endswith(("keys", "tokens")) else ROUNDING
                    assert apart <= most, name
    finally:
        ranks.close()
