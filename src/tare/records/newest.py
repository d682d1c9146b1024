"""Which of several records of a case is shown: the newest."""

from collections.abc import Iterable

from tare.records.record import Record


def newest_of_each_case(records: Iterable[Record]) -> list[Record]:
    """The newest record stands for its case: older ones may come from another state of the machine."""
    return list({r.case.key: r for r in sorted(records, key=lambda r: r.created)}.values())


def newest_in_each_environment(records: Iterable[Record]) -> list[Record]:
    """The newest record of each case and environment, in the order in which those first came.

    A round that failed before its worker had pinned any flags does not say which of the environments of its place
    it would have had. So it stands for all of them while it is the newest, and for none afterwards.
    """
    ordered = sorted(records, key=lambda record: record.created)
    in_environment = {(r.case.key, r.environment.id): r for r in ordered}
    in_place = {(r.case.key, r.environment.place): r for r in ordered}
    kept = []
    for record in in_environment.values():
        last = in_place[record.case.key, record.environment.place]
        if record is last or not (_failed_early(record) or _failed_early(last)):
            kept.append(record)
    return kept


def _failed_early(record: Record) -> bool:
    return record.failure is not None and record.environment.id == record.environment.place
