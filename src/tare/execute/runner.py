"""Running a plan: every case in its rounds, each result kept the moment it exists."""

import uuid
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from tare.cases.case import Case
from tare.cases.options import Options
from tare.execute.executor import Executor
from tare.execute.schedule import schedule
from tare.records.environment import Environment
from tare.records.record import BatchSearch, Parity, Record, Round


class Known(Protocol):
    """What has been measured."""

    def rounds(self, case: Case) -> list[Round]: ...
    def record(self, case: Case) -> Record | None: ...


class Journal(Known, Protocol):
    """Where results go at once, and where an interrupted run finds them again."""

    run: str

    def add_round(self, case: Case, done: Round) -> None: ...
    def add_record(self, record: Record) -> None: ...


E = TypeVar("E", bound=Executor, covariant=True)


class Side(NamedTuple, Generic[E]):
    """One version of what is measured: who runs its rounds, where, and who keeps them."""

    executor: E
    environment: Environment
    journal: Journal


class Listener(Protocol):
    """Who is told of progress. `plans` are the rounds of each case on each side, of which some may be known."""

    def plans(self, rounds: Mapping[Case, int], sides: Sequence[Known]) -> None: ...
    def starts(self, case: Case, index: int) -> None: ...
    def ends(self, case: Case, done: Round) -> None: ...
    def records(self, record: Record) -> None: ...


def run_cases(
    cases: Iterable[Case],
    options: Options,
    side: Side[Executor],
    listener: Listener,
    fail_fast: bool = False,
    searches: Mapping[Case, BatchSearch] | None = None,
) -> list[Record]:
    """Measures what the journal does not have yet, and returns a record for every case. `searches` says how the
    batches of cases were found, if they were searched for."""
    cases = list(cases)
    for case, index in schedule(cases, options.rounds):
        search = (searches or {}).get(case)
        ended = advance(case, index, options, side, listener, search)
        if fail_fast and ended is not None and ended.failed:
            break
    return [record for case in cases if (record := side.journal.record(case)) is not None]


def advance(
    case: Case,
    index: int,
    options: Options,
    side: Side[Executor],
    listener: Listener,
    search: BatchSearch | None = None,
) -> Record | None:
    """Measures one round, unless the journal has it; returns the record if this round was the case's last."""
    executor, environment, journal = side
    if journal.record(case) is not None:
        return None
    done = journal.rounds(case)
    if _lacks(done, index):
        listener.starts(case, index)
        made = executor.run_round(case, index, options, check=not is_proved(done))
        keep_round(case, made, journal, listener)
        done = [*done, made]
    if index < options.rounds - 1 and not _given_up(done):
        return None
    record = make_record(case, done, environment, journal.run, search)
    journal.add_record(record)
    listener.records(record)
    return record


def is_due(case: Case, index: int, journal: Known) -> bool:
    """Whether a round is still to be measured."""
    return journal.record(case) is None and _lacks(journal.rounds(case), index)


def is_proved(rounds: list[Round]) -> bool:
    """Whether one of them was compared with the reference: the others need not be."""
    return any(done.parity for done in rounds)


def keep_round(case: Case, made: Round, journal: Journal, listener: Listener) -> None:
    journal.add_round(case, made)
    listener.ends(case, made)


def make_record(
    case: Case, rounds: list[Round], environment: Environment, run: str, search: BatchSearch | None = None
) -> Record:
    """A case fails if no round succeeded; a round that failed beside good ones is kept and counted."""
    good = [r for r in rounds if r.failure is None]
    flags = good[0].flags if good else rounds[0].flags
    unchecked = Parity(status="unchecked", reason="not asked for" if good else "no round succeeded")
    return Record(
        id=uuid.uuid4().hex[:12],
        run=run,
        created=datetime.now(UTC).isoformat(timespec="microseconds"),
        case=case,
        environment=msgspec.structs.replace(environment, flags={**environment.flags, **flags}),
        rounds=rounds,
        parity=next((r.parity for r in good if r.parity), unchecked),
        failure=None if good else rounds[-1].failure,
        search=search,
    )


def _lacks(rounds: list[Round], index: int) -> bool:
    return index >= len(rounds) and not _given_up(rounds)


def _given_up(rounds: list[Round]) -> bool:
    """A case that has only failed is not tried again: its cause is the result."""
    return bool(rounds) and all(r.failure is not None for r in rounds)
