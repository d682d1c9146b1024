"""Records of earlier runs that stand for cases of a plan, so that these need not be measured again."""

from collections.abc import Sequence
from datetime import UTC, datetime

import msgspec

from tare.cases.case import Case
from tare.records.environment import Environment
from tare.records.newest import newest_of_each_case
from tare.records.record import Record
from tare.store.database import Store
from tare.store.query import Query
from tare.store.selectors import runs_beside


class Taken(msgspec.Struct, frozen=True, kw_only=True):
    """How many of a plan's cases were taken from the store, how many of those are failures, and when the oldest
    was measured."""

    taken: int
    planned: int
    failed: int = 0
    oldest: str | None = None
    # None where the record does not say when it was made, as an imported one may not.
    oldest_age_s: float | None = None


def comparable_records(store: Store, cases: Sequence[Case], environment: Environment) -> list[Record]:
    """The newest record of every case of these cases' workloads that was measured in an environment like this one,
    newest first. A failure is a record like any other.

    Flags that a worker pins are not asked for: they follow from the case and from tare's version. What a check has
    measured beside its own run is another version, or a second look at what seemed slow: neither is taken.
    """
    workloads = tuple(sorted({case.workload for case in cases}))
    beside = runs_beside(store)
    found = [
        record
        for record in store.find(Query(fields=(("workload", workloads),)))
        if record.environment.base_id == environment.base_id and record.run not in beside
    ]
    return sorted(newest_of_each_case(found), key=lambda record: record.created, reverse=True)


def count_taken(records: Sequence[Record], planned: int, now: datetime | None = None) -> Taken:
    """What is said of the records that were taken."""
    oldest = min((record.created for record in records), default=None)
    return Taken(
        taken=len(records),
        planned=planned,
        failed=sum(record.failure is not None for record in records),
        oldest=oldest,
        oldest_age_s=_age(oldest, now or datetime.now(UTC)) if oldest else None,
    )


def _age(created: str, now: datetime) -> float | None:
    try:
        return max((now - datetime.fromisoformat(created)).total_seconds(), 0.0)
    except (ValueError, TypeError):
        # An imported record may say anything there.
        return None
