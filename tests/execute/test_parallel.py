"""Parallel preparation with real processes: nothing else runs while a case is measured, and nothing is lost."""

import itertools
import signal
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest
from builders import ENVIRONMENT
from launching import planted_launcher
from mock_runs import MemoryJournal
from proof import make

from tare.cases.case import Case, Layout
from tare.cases.options import Options
from tare.execute.executor import LocalExecutor
from tare.execute.launch import ForkLauncher, Launcher
from tare.execute.parallel import (
    NOTE,
    PendingRound,
    measure_cases,
    order_tasks,
    portions,
    run_parallel,
    stage_ahead,
)
from tare.execute.runner import FirstFailure, Target, run_cases
from tare.execute.supervise import Supervision, WorkerExit, supervise
from tare.protocol.jobs import ProbeJob, ReferenceJob, StageJob
from tare.protocol.messages import Done
from tare.records.record import Failure, Round

OPTIONS = Options(rounds=1, budget=0.3, parity=False, jobs=3)
CHECKED = msgspec.structs.replace(OPTIONS, parity=True)


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("notes")


@pytest.fixture(scope="module")
def launcher(tmp_path_factory: pytest.TempPathFactory, notes: Path) -> Iterator[Launcher]:
    with planted_launcher(tmp_path_factory.mktemp("home"), PLANTED_NOTES=str(notes)) as made:
        yield made


@pytest.fixture
def executor(launcher: Launcher, tmp_path: Path) -> LocalExecutor:
    return LocalExecutor(launcher, tmp_path / "scratch")


class Journal(MemoryJournal):
    """What was measured in parallel, and what is left to be measured alone."""

    def parallel(self, executor: LocalExecutor, *cases: Case, options: Options = OPTIONS) -> None:
        run_parallel(cases, options, Target(executor, ENVIRONMENT, self), self)

    def alone(self, executor: LocalExecutor, *cases: Case, options: Options = OPTIONS) -> None:
        run_cases(cases, options, Target(executor, ENVIRONMENT, self), self)


def planted(name: str, batch: int = 4) -> Case:
    return Case(workload=f"planted_{name}", rung="eager", batch=batch)


def spans(done: Round) -> list[tuple[int, int]]:
    return [(one.at_ns[0], one.at_ns[-1] + one.wall_ns[-1]) for one in done.series]


def test_no_process_computes_while_another_is_measured(executor: LocalExecutor, notes: Path) -> None:
    """Three quick cases, and two that compute for one and two seconds before they can be measured."""
    quick = [make("mlp", "eager", "infer", batch=batch, threads=1) for batch in (1, 2, 3)]
    busy = [planted("busy", batch) for batch in (2, 4)]
    journal = Journal()
    journal.parallel(executor, *busy, *quick)
    measured = {case: spans(done[0]) for case, done in journal.saved_rounds.items()}
    assert set(measured) == {*quick, *busy}
    everybody = sorted((low, high, case.key) for case, found in measured.items() for low, high in found)
    for (_, high, first), (low, _, second) in itertools.pairwise(everybody):
        assert high <= low, (first, second)
    for case in busy:
        at_work = [int(line) for line in (notes / f"busy-{case.batch}").read_text().splitlines()]
        assert at_work
        others = [span for other, found in measured.items() if other is not case for span in found]
        inside = [at for at in at_work for low, high in others if low <= at <= high]
        assert not inside, "a stopped process computes nothing"


@pytest.mark.full
def test_a_round_prepared_in_parallel_is_like_any_other(executor: LocalExecutor) -> None:
    case = make("mlp", "eager", "infer", threads=1)
    journal, alone = Journal(), Journal()
    checked = msgspec.structs.replace(OPTIONS, rounds=2, parity=True)
    journal.parallel(executor, case, options=checked)
    alone.alone(executor, case, options=checked)
    record, other = journal.saved_records[case], alone.saved_records[case]
    assert (record.ok, record.parity.status, [r.index for r in record.rounds]) == (True, "same", [0, 1])
    first, second = record.rounds[0], other.rounds[0]
    assert first.counts == second.counts
    assert first.host_memory is not None
    assert (first.isolation, first.operators) == (second.isolation, second.operators)
    assert [one.kind for one in first.series] == [one.kind for one in second.series]
    assert (first.prepare_s, first.build_s, first.notes) == (None, None, [NOTE])
    assert second.prepare_s is not None


@pytest.mark.full
def test_a_failure_is_recorded_with_its_cause(executor: LocalExecutor) -> None:
    journal = Journal()
    good = make("mlp", "eager", "infer", threads=1)
    journal.parallel(executor, planted("raise"), good, planted("nan"))
    causes = {
        case.workload: record.failure and record.failure.cause for case, record in journal.saved_records.items()
    }
    assert causes == {"planted_raise": "exception", "mlp": None, "planted_nan": "nan"}


@pytest.mark.full
def test_a_failure_that_others_may_have_caused_is_measured_again_alone(executor: LocalExecutor) -> None:
    journal = Journal()
    cases = planted("crowded"), planted("segfault"), make("mlp", "eager", "infer", threads=1)
    journal.parallel(executor, *cases)
    assert [case.workload for case in journal.saved_records] == ["mlp"]
    journal.alone(executor, *cases)
    crowded, crashed = (journal.saved_records[case] for case in cases[:2])
    assert crowded.ok
    assert (NOTE in crowded.rounds[0].notes, len(crowded.rounds)) == (False, 1)
    assert crashed.failure is not None
    assert crashed.failure.cause == "signal"


def test_a_few_ladders_come_before_the_next_and_of_these_first_what_compiles(executor: LocalExecutor) -> None:
    cases = [make("mlp", rung, "infer", batch=batch) for batch in range(1, 6) for rung in ("eager", "compile")]
    two = msgspec.structs.replace(OPTIONS, jobs=2)
    found = [f"{task.case.rung} {task.case.batch}" for task in order_tasks(cases, 0, two, executor, Journal())]
    assert found == [
        "compile 1", "compile 2", "eager 1", "eager 2",
        "compile 3", "compile 4", "eager 3", "eager 4",
        "compile 5", "eager 5",
    ]  # fmt: skip


def test_references_are_made_while_the_ladders_before_them_are_prepared(executor: LocalExecutor) -> None:
    cases = [make("mlp", rung, "infer", batch=batch) for batch in (1, 2, 3) for rung in ("eager", "compile")]
    checked = msgspec.structs.replace(OPTIONS, jobs=2, parity=True)
    found = [
        f"{task.case.rung if isinstance(task, PendingRound) else 'reference'} {task.case.batch}"
        for task in order_tasks(cases, 0, checked, executor, Journal())
    ]
    assert found == [
        "reference 1", "reference 2", "compile 1", "compile 2", "reference 3", "eager 1", "eager 2",
        "compile 3", "eager 3",
    ]  # fmt: skip


def test_ladders_that_share_a_reference_have_it_made_once(executor: LocalExecutor) -> None:
    layouts: tuple[Layout, ...] = ("contiguous", "channels-last")
    cases = [Case(workload="resnet18", rung="eager", batch=1, layout=layout) for layout in layouts]
    checked = msgspec.structs.replace(OPTIONS, jobs=1, parity=True)
    tasks = order_tasks(cases, 0, checked, executor, Journal())
    assert [isinstance(task, PendingRound) for task in tasks] == [False, True, True]


@pytest.mark.full
def test_a_case_without_a_reference_is_left_and_the_others_are_compared(executor: LocalExecutor) -> None:
    """Three at a time: the cases wait for their references, which are made in parallel."""
    good = [make("mlp", rung, "infer", batch=n, threads=1) for n in (1, 2, 3) for rung in ("eager", "torchscript")]
    journal = Journal()
    journal.parallel(executor, good[0], planted("raise"), *good[1:], options=CHECKED)
    assert {case: record.parity.status for case, record in journal.saved_records.items()} == dict.fromkeys(
        good, "same"
    )
    journal.alone(executor, planted("raise"), options=CHECKED)
    assert journal.saved_records[planted("raise")].failed


def test_a_rung_that_times_its_kernels_is_left_to_be_measured_alone(executor: LocalExecutor) -> None:
    journal = Journal()
    journal.parallel(executor, make("mlp", "compile:max-autotune", "infer"))
    assert journal.saved_rounds == {}


@pytest.mark.parametrize(
    ("rung", "kinds"),
    [("eager", []), ("compile:max-autotune", []), ("aot", [StageJob]), ("libtorch:script", [StageJob])],
)
def test_what_is_made_ahead_for_a_rung(executor: LocalExecutor, rung: str, kinds: list[type]) -> None:
    case = make("mlp", rung, "infer")
    assert [type(job) for job in executor.jobs_ahead(case, OPTIONS, check=True)] == kinds
    assert [type(job) for job in executor.jobs_ahead(case, CHECKED, check=True)] == [ReferenceJob, *kinds]
    assert [type(job) for job in executor.jobs_ahead(case, CHECKED, check=False)] == kinds


@pytest.mark.full
def test_cases_that_read_the_same_files_are_staged_once(executor: LocalExecutor) -> None:
    plain, captured = (make("mlp", rung, "infer", device="cuda") for rung in ("vendor", "vendor:graph"))
    larger = make("mlp", "vendor", "infer", device="cuda", batch=5)
    assert executor.jobs_ahead(plain, OPTIONS, True) == executor.jobs_ahead(captured, OPTIONS, True) != []
    assert executor.jobs_ahead(plain, OPTIONS, True) != executor.jobs_ahead(larger, OPTIONS, True)
    stage_ahead(executor, [plain, captured], OPTIONS)
    assert executor.jobs_ahead(plain, OPTIONS, True) == []


def test_a_staging_that_times_out_in_parallel_is_not_repeated(executor: LocalExecutor) -> None:
    case = make("mlp", "aot", "infer")
    (job,) = executor.jobs_ahead(case, OPTIONS, check=False)
    executor.keep_ahead(job, WorkerExit(status=9, killed="memory"), OPTIONS)
    assert executor.jobs_ahead(case, OPTIONS, check=False) == [job], "alone it may have memory enough"
    executor.keep_ahead(job, WorkerExit(status=9, killed="timeout", timeout_s=900), OPTIONS)
    failure = executor.run_once(job, OPTIONS)
    assert isinstance(failure, Failure)
    assert failure.message == (
        "stopped after 900 s, prepared in parallel (--jobs 3; with --jobs 1 it has all cores)"
    )


def test_a_plan_with_executables_is_measured_in_portions_of_whole_ladders() -> None:
    rungs = ("eager", "aot")
    cases = [make("mlp", rung, "infer", batch=batch) for rung in rungs for batch in range(1, 11)]
    assert portions(cases, 1, together=True) == [cases]
    assert [[(case.batch, case.rung) for case in portion] for portion in portions(cases, 1, together=False)] == [
        [(batch, rung) for batch in batches for rung in rungs] for batches in ((1, 2, 3, 4), (5, 6, 7, 8), (9, 10))
    ]
    assert portions([], 2, together=False) == []


@pytest.mark.full
def test_all_cases_are_measured_whether_or_not_they_can_wait_at_the_gate(
    executor: LocalExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    cases = [make("mlp", rung, "infer", threads=1) for rung in ("eager", "torchscript")]
    monkeypatch.setattr(executor, "can_wait_at_gate", lambda case: case.rung == "eager")
    journal = Journal()
    measure_cases(cases, OPTIONS, Target(executor, ENVIRONMENT, journal), journal)
    records = [journal.saved_records[case] for case in cases]
    assert [record.ok for record in records] == [True, True]
    assert [NOTE in record.rounds[0].notes for record in records] == [True, False]


@pytest.mark.full
def test_a_known_round_is_not_measured_again(executor: LocalExecutor) -> None:
    case = make("mlp", "eager", "infer", threads=1)
    journal = Journal()
    journal.parallel(executor, case)
    before = list(journal.saved_rounds[case])
    journal.parallel(executor, case)
    journal.alone(executor, case)
    assert journal.saved_rounds[case] == before


@pytest.mark.full
def test_fail_fast_ends_at_the_first_failure(executor: LocalExecutor) -> None:
    journal = Journal()
    one_by_one = msgspec.structs.replace(OPTIONS, jobs=1)
    cases = planted("raise"), make("mlp", "eager", "infer", threads=1)
    with pytest.raises(FirstFailure):
        run_parallel(cases, one_by_one, Target(executor, ENVIRONMENT, journal, fail_fast=True), journal)
    assert [case.workload for case in journal.saved_records] == ["planted_raise"]


class Interrupting(Journal):
    def round_finished(self, case: Case, round_: Round) -> None:  # noqa: ARG002
        raise KeyboardInterrupt


@pytest.mark.full
def test_an_interruption_ends_waiting_and_stopped_processes(executor: LocalExecutor) -> None:
    def workers() -> list[psutil.Process]:
        return [one for child in psutil.Process().children() for one in child.children(recursive=True)]

    journal = Interrupting()
    # Of three jobs, one that is prepared is enough to begin measuring: the process that hangs is stopped then.
    with pytest.raises(KeyboardInterrupt):
        journal.parallel(
            executor, planted("hang"), *(make("mlp", "eager", "infer", batch=n, threads=1) for n in (1, 2))
        )
    assert len(journal.saved_rounds) == 1, "what was measured is kept"
    _, alive = psutil.wait_procs(workers(), timeout=60)
    assert not alive
    assert isinstance(supervise(executor.launcher.launch(ProbeJob()), Supervision(120)).messages[-1], Done)


@pytest.mark.full
def test_two_workers_of_one_server_each_have_their_own_exit(launcher: Launcher) -> None:
    assert isinstance(launcher, ForkLauncher)
    first, second = launcher.launch(ProbeJob()), launcher.launch(ProbeJob())
    psutil.Process(first.pid).send_signal(signal.SIGKILL)
    ended = supervise(second, Supervision(120))
    assert (ended.status, isinstance(ended.messages[-1], Done)) == (0, True)
    assert supervise(first, Supervision(120)).status == signal.SIGKILL
