"""Which of several records of a case is shown: the newest."""

from collections.abc import Iterable

from tare.records.record import Record


def newest_of_each_case(records: Iterable[Record]) -> list[Record]:
    """The newest record of each case; older ones may come from another state of the machine."""
    return list({r.case.key: r for r in sorted(records, key=lambda r: r.created)}.values())


def newest_in_each_environment(records: Iterable[Record]) -> list[Record]:
    """The newest record of each case and environment, ordered by the first record of each.

    A round that failed before its worker had pinned the flags has an incomplete environment: it may belong to any
    environment of its machine. While it is the newest it replaces the records of all of them, later it is dropped.
    """
    ordered = sorted(records, key=lambda record: record.created)
    in_environment = {(r.case.key, r.environment.id): r for r in ordered}
    on_machine = {(r.case.key, r.environment.base_id): r for r in ordered}
    kept = []
    for record in in_environment.values():
        last = on_machine[record.case.key, record.environment.base_id]
        if record is last or not (_failed_early(record) or _failed_early(last)):
            kept.append(record)
    return kept


def _failed_early(record: Record) -> bool:
    return record.failure is not None and record.environment.id == record.environment.base_id
