"""Parts of a sequence, what fits together, and who computes what."""

from __future__ import annotations

import pytest
import torch
from helpers import parallel_jobs as jobs
from helpers.ranks import Failed, Ranks
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard.parallel import Layout, plan
from regard.parallel.layout import length, within


@given(st.sampled_from(["contiguous", "zigzag"]), st.integers(1, 9), st.integers(0, 101))
def test_every_token_is_on_exactly_one_rank(kind: str, ranks: int, size: int) -> None:
    layout = Layout(kind, ranks)  # pyright: ignore[reportArgumentType]
    runs = [layout.runs(size, rank) for rank in range(ranks)]
    tokens = sorted(n for some in runs for start, stop in some for n in range(start, stop))
    assert tokens == list(range(size))
    assert all(start < stop for some in runs for start, stop in some)
    lengths = [length(some) for some in runs]
    assert max(lengths) - min(lengths) <= (1 if kind == "contiguous" else 2)
    for some in runs:
        for run in some:
            assert within(run, some).stop - within(run, some).start == run[1] - run[0]


@given(
    st.sampled_from(["contiguous", "zigzag"]),
    st.integers(1, 12),
    st.integers(1, 12),
    st.integers(0, 101),
)
def test_groups_hold_the_tokens_of_their_ranks_and_each_head_once(
    kind: str, count: int, kv_heads: int, size: int
) -> None:
    found = plan(ranks=count, heads=2 * kv_heads, kv_heads=kv_heads, layout=kind)  # pyright: ignore[reportArgumentType]
    assert found.heads * found.ring == count
    assert (found.ring == 1) == (count <= kv_heads or count == 1 or found.heads == count)
    for rank in range(count):
        members = found.members(rank)
        assert rank in members
        heads = [n for peer in members for n in range(*found.share(peer).indices(2 * kv_heads))]
        assert heads == list(range(2 * kv_heads))
        group = found.group_runs(size, rank)
        for peer in members:
            for run in found.layout.runs(size, peer):
                within(run, group)  # or it raises
        assert length(group) == sum(found.layout.length(size, peer) for peer in members)


def test_zigzag_shares_causal_work_evenly() -> None:
    def work(kind: str, rank: int) -> int:
        runs = Layout(kind, 4).runs(4096, rank)  # pyright: ignore[reportArgumentType]
        return sum(n + 1 for start, stop in runs for n in range(start, stop))

    zigzag, contiguous = (
        [work(kind, rank) for rank in range(4)] for kind in ("zigzag", "contiguous")
    )
    assert max(zigzag) == min(zigzag)
    assert max(contiguous) > 6 * min(contiguous)


@pytest.mark.parametrize("layout", ["contiguous", "zigzag"])
@pytest.mark.parametrize(("count", "size"), [(2, 11), (3, 2), (4, 13), (4, 0)])
def test_what_was_cut_is_joined_and_gradients_come_back(
    ranks: Ranks, layout: str, count: int, size: int
) -> None:
    x = torch.arange(size * 3.0).view(3, size)
    for part, whole, gradient in ranks.run(count, jobs.cut_and_join, x, layout):
        assert torch.equal(whole, x)
        assert torch.equal(gradient, (1 + part.new_tensor(count - 1)) * 2 * torch.ones_like(part))


@pytest.mark.parametrize(
    ("what", "message"),
    [
        ("lengths", r"the parts of q, 10 tokens in all, must hold \[5, 5\] of them"),
        ("width", "all ranks must have the same width; got 5 on rank 0, 6 on rank 1"),
        ("options", "all ranks must have the same options; got others on rank 1"),
        ("mask", "mask must broadcast to"),
    ],
)
def test_parts_that_do_not_fit_are_refused_on_all_ranks_and_the_group_goes_on(
    ranks: Ranks, what: str, message: str
) -> None:
    import re

    for found in ranks.outcomes(2, jobs.misfit, what):
        assert isinstance(found, Failed)
        assert re.search(message, found.message), found.message
    q = torch.randn(1, 2, 5, 3)
    expected = regard.attention(q, q, q)
    assert torch.equal(ranks.run(2, jobs.attend, (q, q, q), {})[0]["out"], expected)


def test_what_one_rank_refuses_all_refuse_in_its_name(ranks: Ranks) -> None:
    first, second = ranks.outcomes(2, jobs.misfit, "type")
    assert "must have q's type" in second.message
    assert "got something that rank 1 refuses" in first.message


def test_more_ranks_than_key_heads_cannot_share_by_heads_alone(ranks: Ranks) -> None:
    q = torch.randn(1, 2, 5, 3)
    for found in ranks.outcomes(3, jobs.attend, (q, q, q), {}, None, "zigzag", "heads"):
        assert "by='heads' needs at least as many key heads as ranks; got 2" in found.message


def test_a_block_travels_while_another_is_computed(ranks: Ranks) -> None:
    for events in ranks.run(3, jobs.traced_ring, 3001):
        travels = [each for each in events if each.what == "travel" and "step" in each.name]
        computed = [each for each in events if each.what == "compute"]
        assert len(travels) == 2
        assert len(computed) == 3
        for travel, block in zip(travels, computed, strict=False):
            # Sent before the block is computed, and not waited for before it is.
            assert travel.start <= block.start
        waits = [each for each in events if each.what == "wait" and "step" in each.name]
        for wait, block in zip(waits, computed, strict=False):
            assert wait.start >= block.end
