"""Several ranks as one job: waiting is told from transfer, and the rank that everybody waits for is named."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ranks import collective, job, message
from traces import TraceBuilder

from tare.errors import BadInput
from tare.trace.job import RankJob, explain_job
from tare.trace.matching import match_collectives


def explained(builders: list[TraceBuilder]) -> RankJob:
    result = explain_job([builder.build() for builder in builders])
    for rank in result.ranks:
        assert rank.computing + rank.waiting + rank.transfer + rank.moving + rank.idle == rank.window
        assert min(rank.waiting, rank.transfer, rank.idle) >= 0
    return result


@pytest.mark.parametrize("slow_in", ["kernel", "python"])
def test_the_rank_that_everybody_waits_for_is_named_with_what_it_did(slow_in: str) -> None:
    """Rank 2 is 300 us late in each of five steps: 300 us of waiting and 100 of transfer for the others."""
    result = explained(job(slow=2, slow_for=300, slow_in=slow_in))
    assert [rank.waiting // 1000 for rank in result.ranks] == [1500, 1500, 0, 1500]
    assert [rank.transfer // 1000 for rank in result.ranks] == [500] * 4
    assert [rank.last for rank in result.ranks] == [0, 0, 5, 0]
    straggler = result.straggler
    assert straggler is not None
    assert (straggler.rank, straggler.collectives, straggler.late) == (2, 5, 1_500_000)
    expected = "computing: slow_sort · aten::sort" if slow_in == "kernel" else "python: train.py(7): augment"
    assert straggler.did[0].what == expected
    assert straggler.did[0].ns == pytest.approx(5 * 300_000, rel=0.05)


def test_equal_ranks_have_no_straggler() -> None:
    result = explained(job())
    assert result.straggler is None
    assert result.imbalance == pytest.approx(0)
    assert all(rank.waiting == 0 for rank in result.ranks)


def test_the_imbalance_of_computing() -> None:
    """Three ranks compute 200 us a step, and one 500."""
    assert explained(job(slow=0, slow_for=300)).imbalance == pytest.approx(500 / 275 - 1)


def test_clocks_are_aligned_by_the_ends_of_collectives() -> None:
    apart = job(slow=1, slow_for=200, clocks=(0, 5_000_000, -70_000, 33))
    result = explained(apart)
    assert [rank.clock for rank in result.ranks] == [0, -5_000_000_000, 70_000_000, -33_000]
    together = explained(job(slow=1, slow_for=200))
    assert [rank.waiting for rank in result.ranks] == [rank.waiting for rank in together.ranks]
    assert result.straggler == together.straggler
    # Where all transfers end together, the path may lead through any of them.
    own, other = ({(part.what, part.ns) for part in each.critical} for each in (result, together))
    assert own == other


def test_the_critical_path_leads_through_the_slow_rank() -> None:
    result = explained(job(slow=3, slow_for=400))
    ns = {(part.rank, part.what): part.ns for part in result.critical}
    # Five steps: 200 us of the step's own work and 400 more on rank 3, then the transfer on any.
    assert ns[3, "computing"] == 5 * 600_000
    assert sum(time for (_, what), time in ns.items() if what == "transfer") == 5 * 100_000
    assert not any(what == "computing" for rank, what in ns if rank != 3)


def test_recordings_that_begin_apart_are_matched_by_their_steps() -> None:
    whole, part = job(ranks=2, steps=6), job(ranks=2, steps=6)
    first_kept = min(event["ts"] for event in part[1].events if event["name"] == "ProfilerStep#2")
    part[1].events = [event for event in part[1].events if event["ts"] >= first_kept]
    result = explained([whole[0], part[1]])
    assert (result.matched, result.unmatched) == (4, 2)
    assert [rank.clock for rank in result.ranks] == [0, 0]
    assert any("different numbers of steps: 4 to 6" in note for note in result.notes)


def test_without_marked_steps_the_steadier_match_counts() -> None:
    """Steps of different lengths; the second recording begins two steps later."""
    builders = [TraceBuilder(), TraceBuilder()]
    at = 0.0
    for number in range(8):
        at += 300 + 37 * number**2
        for rank, builder in enumerate(builders):
            if rank == 0 or number >= 2:
                builder.launch(at - 250, at - 248, at - 240, at - 100)
                collective(builder, at - 200, at - 100, at + 10 * (number % 3), **message(ranks=2))
    matched = match_collectives([builder.build() for builder in builders])
    assert len(matched.row) == 6
    assert matched.clock.tolist() == [0, 0]


def test_groups_of_ranks_wait_only_for_their_own() -> None:
    """Two groups of two ranks, by the names and members that torch records."""
    builders = [TraceBuilder() for _ in range(4)]
    for number in range(4):
        at = 1000 * number
        for rank, builder in enumerate(builders):
            late = 300 if rank == 1 else 0
            members = "[0, 1]" if rank < 2 else "[2, 3]"
            end = at + 600 if rank < 2 else at + 300
            builder.step(at, at + 900, number)
            builder.launch(at + 1, at + 3, at + 10, at + 200 + late)
            args = message(ranks=2, group="tp") | {"Process Group Ranks": members}
            collective(builder, at + 5, at + 200 + late, end, **args)
    result = explained(builders)
    assert [rank.waiting // 1000 for rank in result.ranks] == [1200, 0, 0, 0]
    assert result.straggler is not None
    assert result.straggler.rank == 1


def test_a_rank_that_is_there_twice_is_refused() -> None:
    with pytest.raises(BadInput, match="rank 0 is there twice"):
        explained([job()[0], job()[0]])


def test_traces_without_a_common_collective_are_a_note() -> None:
    builder = TraceBuilder()
    builder.step(0, 100)
    builder.launch(1, 2, 10, 30)
    result = explained([builder, builder])
    assert result.matched == 0
    assert any("nothing tells waiting from transfer" in note for note in result.notes)


@settings(max_examples=25)
@given(
    st.lists(st.lists(st.integers(0, 400), min_size=3, max_size=3), min_size=2, max_size=5),
    st.lists(st.integers(-1000, 1000), min_size=3, max_size=3),
)
def test_waiting_is_the_distance_to_the_last_rank(late: list[list[int]], clocks: list[int]) -> None:
    """Any lateness of three ranks in each step, on any clocks."""
    builders = [TraceBuilder() for _ in range(3)]
    at = 2000.0
    for number, step in enumerate(late):
        end = at + 100 + max(step) + 50
        for rank, builder in enumerate(builders):
            clock = clocks[rank]
            builder.step(at + clock, end + 10 + clock, number)
            builder.launch(at + 1 + clock, at + 3 + clock, at + 10 + clock, at + 100 + step[rank] + clock)
            collective(builder, at + 5 + clock, at + 100 + step[rank] + clock, end + clock, **message(ranks=3))
        at = end + 20
    result = explained(builders)
    expected = [sum(max(step) - step[rank] for step in late) for rank in range(3)]
    assert [rank.waiting for rank in result.ranks] == [1000 * us for us in expected]
    assert np.ptp([rank.transfer for rank in result.ranks]) == 0
    assert sum(part.ns for part in result.critical) > 0
