"""The search for a batch: double it until throughput stops rising or memory runs out, and keep the whole curve.

The TorchBench paper (section 2.2) chooses its inference batches this way. All rungs of a ladder have the same
batch, so one of them searches for all.
"""

from collections.abc import Callable, Sequence

import msgspec

from tare.cases.case import Case
from tare.cases.options import Options
from tare.records.figures import throughput
from tare.records.record import BatchPoint, BatchSearch, Record, Round, SearchStop

# A doubling that adds less than this has not raised the throughput: a round is about as exact.
RISE = 0.03
# This many such doublings in a row end the search: a single one can be an unlucky tile size of a kernel.
FLAT = 2
OUT_OF_MEMORY = ("host-oom", "device-oom")
# Batches tried until the first one works: batch norm, for example, cannot train on a single item.
TRIES = 3
LARGEST = 2**24
# A point is one round of this many seconds; when a step takes as long, the next batch would not fit.
POINT_S = 2.0
POINT_WIDTH = 0.02


def search_batch(case: Case, measure: Callable[[Case], Round]) -> BatchSearch:
    """The curve of a case's throughput over its batch, and the batch chosen from it."""
    points: list[BatchPoint] = []
    stop: SearchStop | None = None
    batch = 1
    while stop is None:
        points.append(BatchPoint(batch=batch, round=measure(with_batch(case, batch))))
        batch *= 2
        stop = _stop(points) or ("largest" if batch > LARGEST else None)
    return BatchSearch(chosen=_best(points), stop=stop, points=points, rung=case.rung)


def search_options(options: Options) -> Options:
    """How a point is measured: one short round, without parity."""
    budget = min(POINT_S, options.round_budget)
    return msgspec.structs.replace(
        options, rounds=1, budget=budget, width=max(POINT_WIDTH, options.width), parity=False
    )


def choose_searching_case(ladder: Sequence[Case]) -> Case:
    """The case of a ladder that searches for all: eager, or the first."""
    return next((case for case in ladder if case.rung == "eager"), ladder[0])


def find_earlier_search(case: Case, records: Sequence[Record]) -> BatchSearch | None:
    """The search for the same ladder in an interrupted run."""
    ladder = with_batch(case, 1).ladder
    return next((r.search for r in records if r.search and with_batch(r.case, 1).ladder == ladder), None)


def with_batch(case: Case, batch: int) -> Case:
    return msgspec.structs.replace(case, batch=batch)


def _stop(points: list[BatchPoint]) -> SearchStop | None:
    failure = points[-1].round.failure
    rates = [rate for point in points if (rate := throughput(point))]
    if failure:
        if failure.cause in OUT_OF_MEMORY:
            return "memory"
        return "failure" if rates or len(points) >= TRIES else None
    own = throughput(points[-1])
    if own and points[-1].batch / own > POINT_S:
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
