"""Which of several machines of one kind is not like the others, from the same small measurement on each."""

import math
from collections.abc import Mapping, Sequence
from statistics import median, median_low
from typing import NamedTuple

# Machines of one kind differ by a few per cent; a throttled or shared one by more.
LIMIT = 0.10


class Agreement(NamedTuple):
    """The machine's time over that of its peers, and whether that is more than chance and more than the limit."""

    ratio: float
    drifts: bool


def judge_agreement(times: Mapping[str, Sequence[float]], limit: float = LIMIT) -> dict[str, Agreement]:
    """Compares the median of each machine's processes with the low median over machines.

    The low median, because what disturbs a machine makes it slower: of two that disagree, the faster one is taken
    for what the machine can do. A machine drifts if its median is further from that than the limit and none of its
    processes took as long as any of the reference's. With r processes on either side that happens to two equal
    machines once in (2r choose r) times each way (Wilcoxon, 1945: the rank sum is extreme).
    """
    typical = {name: median(values) for name, values in times.items() if values and min(values) > 0}
    if not typical:
        return {}
    middle = median_low(typical.values())
    reference = times[next(name for name, value in typical.items() if value == middle)]
    return {
        name: Agreement(
            value / middle,
            abs(math.log(value / middle)) > math.log1p(limit) and _are_apart(times[name], reference),
        )
        for name, value in typical.items()
    }


def _are_apart(a: Sequence[float], b: Sequence[float]) -> bool:
    return min(a) > max(b) or max(a) < min(b)
