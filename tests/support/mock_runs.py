"""A listener that hears nothing and a journal in memory, for tests of running without a store."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tare.cases.case import Case
from tare.execute.runner import Journal
from tare.records.record import Record, Round


class SilentListener:
    def planned(self, rounds: Mapping[Case, int], journals: Sequence[Journal]) -> None: ...
    def round_started(self, case: Case, index: int) -> None: ...
    def stage_changed(self, stage: str) -> None: ...
    def round_finished(self, case: Case, round_: Round) -> None: ...
    def record_finished(self, record: Record) -> None: ...


@dataclass
class MemoryJournal(SilentListener):
    """A journal, and a listener at the same time."""

    run: str = "run1"
    saved_rounds: dict[Case, list[Round]] = field(default_factory=dict)
    saved_records: dict[Case, Record] = field(default_factory=dict)

    def rounds(self, case: Case) -> list[Round]:
        return list(self.saved_rounds.get(case, []))

    def record(self, case: Case) -> Record | None:
        return self.saved_records.get(case)

    def add_round(self, case: Case, round_: Round, /) -> None:
        self.saved_rounds.setdefault(case, []).append(round_)

    def add_record(self, record: Record) -> None:
        self.saved_records[record.case] = record
