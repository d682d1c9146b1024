"""Records of earlier runs that are used for cases of a plan (--recorded), so that these are not measured again."""

from collections.abc import Sequence
from datetime import UTC, datetime

from tare.cases.case import Case
from tare.records.environment import Environment
from tare.records.record import Record
from tare.report.overview import ReusedRecords
from tare.store import schema
from tare.store.database import Store
from tare.store.selection import auxiliary_runs, newest_of_each_case


def comparable_records(store: Store, cases: Sequence[Case], environment: Environment) -> list[Record]:
    """The newest record of every case of these workloads that was measured in the same environment, newest first.
    A failure is a record like any other.

    Flags that a worker sets are not compared: they follow from the case and from tare's version. The auxiliary
    runs of a check measured another version, or confirmed a suspicion: they are not used.
    """
    workloads = {case.workload for case in cases}
    auxiliary = auxiliary_runs(store)
    records = [
        record
        for record in store.find(schema.records.c.workload.in_(workloads))
        if record.environment.base_id == environment.base_id and record.run not in auxiliary
    ]
    return sorted(newest_of_each_case(records), key=lambda record: record.created, reverse=True)


def count_reused(records: Sequence[Record], planned: int, now: datetime | None = None) -> ReusedRecords:
    """How many records are reused, how many of them are failures, and how old the oldest is."""
    oldest = min((record.created for record in records), default=None)
    return ReusedRecords(
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
        # The date of an imported record may be anything.
        return None
