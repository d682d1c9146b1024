"""Running a plan: the order of its rounds, and each result kept the moment it exists."""

import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Generic, NamedTuple, Protocol, TypeVar

import msgspec

from tare.cases.case import Case
from tare.cases.options import Options
from tare.errors import BadInput
from tare.execute.executor import Executor, executable_rung
from tare.records.environment import Environment
from tare.records.record import NOT_ASKED_FOR, BatchSearch, Parity, Record, Round
from tare.rungs import get_rung
from tare.system.repository import Repository
from tare.workloads import get_workload


class Journal(Protocol):
    """Where results are stored at once, and where an interrupted run finds them again."""

    run: str

    def rounds(self, case: Case) -> list[Round]: ...
    def record(self, case: Case) -> Record | None: ...
    def add_round(self, case: Case, round_: Round, /) -> None: ...
    def add_record(self, record: Record) -> None: ...


E = TypeVar("E", bound=Executor, covariant=True)


class FirstFailure(Exception):
    """A case failed, and nothing more is to be measured (--fail-fast)."""


class Target(NamedTuple, Generic[E]):
    """One version of what is measured: the executor of its rounds, their environment, and their journal.
    `searches` tells how the batches of cases were found, if they were searched for; `projects` the state of the
    user's project by the name of a workload. `digests` are those of the code of the user's models, where this
    version has other files than the cases were made with."""

    executor: E
    environment: Environment
    journal: Journal
    searches: Mapping[Case, BatchSearch] = MappingProxyType({})
    fail_fast: bool = False
    projects: Mapping[str, Repository] = MappingProxyType({})
    tags: Mapping[str, str] = MappingProxyType({})
    digests: Mapping[str, str | None] = MappingProxyType({})

    def own_case(self, case: Case) -> Case:
        """The case with this version's code: its rounds and its record are kept under that."""
        if case.workload not in self.digests:
            return case
        return msgspec.structs.replace(case, source=self.digests[case.workload])


class Listener(Protocol):
    """Hears of progress. `planned` gets the number of rounds of each case and the journals in which some of them
    may be already; a stage is a short text such as "compiling: seconds to minutes"."""

    def planned(self, rounds: Mapping[Case, int], journals: Sequence[Journal]) -> None: ...
    def round_started(self, case: Case, index: int) -> None: ...
    def stage_changed(self, stage: str) -> None: ...
    def round_finished(self, case: Case, round_: Round) -> None: ...
    def record_finished(self, record: Record) -> None: ...


def ladders(cases: Iterable[Case]) -> list[list[Case]]:
    """Cases that differ only in the rung, together, in the order of their first appearance."""
    groups: dict[str, list[Case]] = {}
    for case in cases:
        groups.setdefault(case.ladder, []).append(case)
    return list(groups.values())


def schedule(cases: Iterable[Case], rounds: int) -> Iterator[tuple[Case, int]]:
    """One ladder after the other; within a ladder A B C A B C, so that slow changes of the machine affect all
    rungs alike. Rungs that need no compiler and no build come first: their results are there within seconds."""
    for ladder in ladders(cases):
        quick_first = sorted(ladder, key=preparation_cost)
        for index in range(rounds):
            for case in quick_first:
                yield case, index


def preparation_cost(case: Case) -> int:
    """0 for a rung that is ready at once, 1 if it compiles in Python, 2 if it needs an executable."""
    return 2 if executable_rung(case) else int(get_rung(case.rung).caches)


def run_cases(cases: Iterable[Case], options: Options, target: Target[Executor], listener: Listener) -> None:
    """Measures what the journal does not have yet."""
    for case, index in schedule(cases, options.rounds):
        advance(case, index, options, target, listener)


def advance(case: Case, index: int, options: Options, target: Target[Executor], listener: Listener) -> None:
    """Measures one round, unless the journal has it, and adds the record after the last round of the case. Raises
    FirstFailure if that has failed and the target is to fail fast."""
    measure_round(case, index, options, target, listener)
    complete(case, index, options, target, listener)


def measure_round(case: Case, index: int, options: Options, target: Target[Executor], listener: Listener) -> None:
    journal, own = target.journal, target.own_case(case)
    if is_pending(own, index, journal):
        listener.round_started(case, index)
        check = not has_parity(journal.rounds(own))
        round_ = target.executor.run_round(own, index, options, check)
        journal.add_round(own, round_)
        listener.round_finished(case, round_)


def complete(case: Case, index: int, options: Options, target: Target[Executor], listener: Listener) -> None:
    """Adds the record of a case whose last round this was, unless the journal has it."""
    journal, own = target.journal, target.own_case(case)
    if journal.record(own) is not None:
        return
    rounds = journal.rounds(own)
    if index < options.rounds - 1 and not _has_failed(rounds):
        return
    record = make_record(
        own, rounds, target.environment, journal.run, target.searches.get(case),
        target.projects.get(case.workload), target.tags,
    )  # fmt: skip
    journal.add_record(record)
    listener.record_finished(record)
    if target.fail_fast and record.failed:
        raise FirstFailure


def is_pending(case: Case, index: int, journal: Journal) -> bool:
    """Whether a round is still to be measured."""
    return journal.record(case) is None and _is_missing(journal.rounds(case), index)


def has_parity(rounds: list[Round]) -> bool:
    """Whether one of the rounds was compared with the reference: then the others need not be."""
    return any(round_.parity for round_ in rounds)


def save_round(case: Case, round_: Round, journal: Journal, listener: Listener) -> None:
    journal.add_round(case, round_)
    listener.round_finished(case, round_)


def make_record(
    case: Case,
    rounds: list[Round],
    environment: Environment,
    run: str,
    search: BatchSearch | None = None,
    project: Repository | None = None,
    tags: Mapping[str, str] = MappingProxyType({}),
) -> Record:
    """A case fails if no round succeeded; a failed round among good ones is kept and counted."""
    good = [round_ for round_ in rounds if round_.failure is None]
    flags = good[0].flags if good else rounds[0].flags
    packages = next((round_.packages for round_ in rounds if round_.packages), {})
    # Rungs in an environment have other versions than the running interpreter. Builds add to them (2.10.0+cu128).
    known = {name: version.partition("+")[0] for name, version in environment.software.items()}
    others = {name: found for name, found in packages.items() if known.get(name) != found.partition("+")[0]}
    unchecked = Parity(status="unchecked", reason=NOT_ASKED_FOR if good else "no round succeeded")
    return Record(
        id=uuid.uuid4().hex[:12],
        run=run,
        created=datetime.now(UTC).isoformat(timespec="microseconds"),
        case=case,
        environment=msgspec.structs.replace(
            environment, flags={**environment.flags, **flags}, packages={**environment.packages, **others}
        ),
        rounds=rounds,
        parity=next((round_.parity for round_ in good if round_.parity), unchecked),
        failure=None if good else rounds[-1].failure,
        tokens_per_step=_tokens_per_step(case),
        search=search,
        project=project,
        tags=dict(tags),
    )


def _tokens_per_step(case: Case) -> int | None:
    """Kept in the record, because a report does not need the workload to be known."""
    try:
        workload = get_workload(case.workload)
    except BadInput:
        return None
    return workload.tokens_per_step(case.batch, case.sizes)


def _is_missing(rounds: list[Round], index: int) -> bool:
    return index >= len(rounds) and not _has_failed(rounds)


def _has_failed(rounds: list[Round]) -> bool:
    """A case that has only failed is not tried again: its cause is the result."""
    return bool(rounds) and all(round_.failure is not None for round_ in rounds)
