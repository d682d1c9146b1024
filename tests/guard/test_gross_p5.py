"""The 5th percentile of the step within a round: what it is, and what it finds on a shared machine."""

import numpy as np
import pytest
from builders import make_record, make_round, make_series

from tare.guard.metrics import get_metric, values
from tare.records.record import Record, Round, Series
from tare.stats.comparison import compare
from tare.stats.two_stage import MAX_CONFIRM, confirm

P5 = get_metric("gross_p5")
GROSS = get_metric("gross")
# A neighbour makes the machine a third slower, for a quarter of the time. With these spells one round in thirteen
# has no quiet moment, and a quarter have a slow median; on a virtual machine of two cores it was one in ten and a
# quarter (rounds of a quarter of a second, 90 s).
SLOWER, SPELL_S, CALM_S, BLOCK_S, BLOCKS = 1.33, 0.25, 0.75, 3e-3, 100


def round_of(seconds: list[float], index: int = 0) -> Round:
    wall = [round(one * 1e9) for one in seconds]
    series = Series(kind="pipelined", steps=[1] * len(wall), wall_ns=wall, at_ns=wall, stop="budget")
    return make_round(index, series=[series, make_series("latency", 1e-3)])


def test_it_is_the_step_at_a_twentieth_of_the_blocks() -> None:
    record = make_record(rounds=[round_of([1.0e-3 + 1e-6 * n for n in range(40)][::-1])])
    assert values(record, P5) == pytest.approx({0: 1.002e-3})
    assert values(record, GROSS) == pytest.approx({0: 1.0195e-3})


def test_it_is_the_undisturbed_step_of_a_mostly_disturbed_machine() -> None:
    record = make_record(rounds=[round_of([1.33e-3] * 80 + [1e-3] * 20)])
    assert values(record, P5) == pytest.approx({0: 1e-3})
    assert values(record, GROSS) == pytest.approx({0: 1.33e-3})


def test_a_few_blocks_have_no_percentile() -> None:
    assert values(make_record(rounds=[round_of([1e-3] * 19)]), P5) == {}
    assert values(make_record(rounds=[round_of([1e-3] * 20)]), P5) != {}


def rounds_on_a_shared_machine(step_s: float, chance: np.random.Generator) -> Record:
    """Each round starts in one of the machine's two states, which alternate at random."""
    rounds = []
    for index in range(MAX_CONFIRM):
        slow = chance.random() < SPELL_S / (SPELL_S + CALM_S)
        blocks = []
        for _ in range(BLOCKS):
            slow ^= chance.random() < BLOCK_S / (SPELL_S if slow else CALM_S)
            blocks.append(step_s * (SLOWER if slow else 1) * (1 + 0.01 * chance.random()))
        rounds.append(round_of(blocks, index))
    return make_record(rounds=rounds)


@pytest.mark.parametrize(("truly", "found"), [(1.0, (0, 0)), (1.07, (13, 15))])
def test_seven_percent_are_found_on_a_shared_machine_and_nothing_where_nothing_is(
    truly: float, found: tuple[int, int]
) -> None:
    accused = {P5.name: 0, GROSS.name: 0}
    for seed in range(15):
        chance = np.random.default_rng(seed)
        before, now = (rounds_on_a_shared_machine(1e-3 * times, chance) for times in (1.0, truly))
        for metric in (P5, GROSS):
            a, b = (list(values(record, metric).values()) for record in (before, now))
            (verdict,) = confirm([compare(a, b, paired=True)], [metric.margin])
            accused[metric.name] += verdict == "higher"
    assert found[0] <= accused[P5.name] <= found[1]
    # By medians it is lost more often than not: this is why the percentile exists.
    assert accused[GROSS.name] <= 8
