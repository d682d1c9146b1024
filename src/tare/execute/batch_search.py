"""The search for a batch: double it until throughput stops rising or memory ends, and keep the whole curve.

The TorchBench paper (section 2.2) finds its inference batches so. A ladder shares its batch, so one rung searches
for all.
"""

from collections.abc import Callable, Sequence

import msgspec

from tare.cases.case import Case
from tare.cases.options import Options
from tare.records.figures import throughput
from tare.records.record import BatchPoint, BatchSearch, Record, Round, SearchStop

# A doubling that adds less than this has not raised the throughput: a round is known to about as much.
RISE = 0.03
# That many such doublings in a row end the search: one alone can be an unlucky size of a kernel's tile.
FLAT = 2
MEMORY = ("host-oom", "device-oom")
# Batches tried before anything has worked: batch norm, for one, cannot train on a single item.
TRIES = 3
LARGEST = 2**24
# A point is measured in one round of this; when a step takes as long, the next would not fit.
POINT_S = 2.0
POINT_WIDTH = 0.02

Measure = Callable[[Case], Round]


def search_batch(case: Case, measure: Measure, slowest_s: float = POINT_S) -> BatchSearch:
    """The curve of a case's throughput over its batch, and the batch chosen from it."""
    points: list[BatchPoint] = []
    stop: SearchStop | None = None
    batch = 1
    while stop is None:
        done = measure(with_batch(case, batch))
        points.append(BatchPoint(batch=batch, round=done))
        batch *= 2
        stop = _ended(points, slowest_s) or ("largest" if batch > LARGEST else None)
    return BatchSearch(chosen=_best(points), stop=stop, points=points, rung=case.rung)


def search_options(options: Options) -> Options:
    """How a point is measured: one short round, without proof."""
    budget = min(POINT_S, options.round_budget)
    return msgspec.structs.replace(
        options, rounds=1, budget=budget, width=max(POINT_WIDTH, options.width), parity=False
    )


def searching(ladder: Sequence[Case]) -> Case:
    """The case of a ladder that searches for the others: eager, or the first."""
    return next((case for case in ladder if case.rung == "eager"), ladder[0])


def found_before(case: Case, records: Sequence[Record]) -> BatchSearch | None:
    """The search of an interrupted run for the same ladder."""
    wanted = with_batch(case, 1).ladder
    return next((r.search for r in records if r.search and with_batch(r.case, 1).ladder == wanted), None)


def with_batch(case: Case, batch: int) -> Case:
    return msgspec.structs.replace(case, batch=batch)


def _ended(points: list[BatchPoint], slowest_s: float) -> SearchStop | None:
    failure = points[-1].round.failure
    rates = [rate for point in points if (rate := throughput(point))]
    if failure:
        if failure.cause in MEMORY:
            return "memory"
        return "failure" if rates or len(points) >= TRIES else None
    own = throughput(points[-1])
    if own and points[-1].batch / own > slowest_s:
        return "time"
    if len(rates) <= FLAT:
        return None
    before = max(rates[:-FLAT])
    return "throughput" if max(rates[-FLAT:]) < before * (1 + RISE) else None


def _best(points: list[BatchPoint]) -> int:
    """The smallest batch that comes within the noise of the highest throughput; 1 where nothing worked."""
    rates = {point.batch: rate for point in points if (rate := throughput(point))}
    if not rates:
        return 1
    enough = max(rates.values()) / (1 + RISE)
    return min(batch for batch, rate in rates.items() if rate >= enough)
