"""Rounds abreast, in processes of their own: nobody is at work while another is measured, and nothing is lost."""

import itertools
import signal
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest
from builders import ENVIRONMENT
from checking import Kept
from launching import planted_launcher
from proof import make

from tare.cases.case import Case, Layout
from tare.cases.options import Options
from tare.execute.executor import LocalExecutor
from tare.execute.launch import ForkLauncher, Launcher
from tare.execute.parallel import NOTE, Due, in_order, run_abreast
from tare.execute.runner import Side, run_cases
from tare.execute.supervise import Watchman, supervise
from tare.protocol.jobs import ProbeJob
from tare.protocol.messages import Done
from tare.records.record import Round

OPTIONS = Options(rounds=1, budget=0.3, parity=False, abreast=3)


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


class Beside(Kept):
    """A journal of what was measured abreast, and of what is left to be measured alone."""

    def abreast(
        self, executor: LocalExecutor, *cases: Case, options: Options = OPTIONS, fast: bool = False
    ) -> None:
        run_abreast(cases, options, Side(executor, ENVIRONMENT, self), self, fast)

    def alone(self, executor: LocalExecutor, *cases: Case, options: Options = OPTIONS) -> None:
        run_cases(cases, options, Side(executor, ENVIRONMENT, self), self)


def planted(name: str, batch: int = 4) -> Case:
    return Case(workload=f"planted_{name}", rung="eager", batch=batch)


def spans(done: Round) -> list[tuple[int, int]]:
    return [(one.at_ns[0], one.at_ns[-1] + one.wall_ns[-1]) for one in done.series]


def test_nobody_is_at_work_while_another_is_measured(executor: LocalExecutor, notes: Path) -> None:
    """Three quick ones, and two that are at work for one and two seconds before they can be measured."""
    quick = [make("mlp", "eager", "infer", batch=batch, threads=1) for batch in (1, 2, 3)]
    busy = [planted("busy", batch) for batch in (2, 4)]
    journal = Beside()
    journal.abreast(executor, *busy, *quick)
    measured = {case: spans(done[0]) for case, done in journal.kept.items()}
    assert set(measured) == {*quick, *busy}
    everybody = sorted((low, high, case.key) for case, found in measured.items() for low, high in found)
    for (_, high, first), (low, _, second) in itertools.pairwise(everybody):
        assert high <= low, (first, second)
    for case in busy:
        at_work = [int(line) for line in (notes / f"busy-{case.batch}").read_text().splitlines()]
        assert at_work
        others = [span for other, found in measured.items() if other is not case for span in found]
        inside = [at for at in at_work for low, high in others if low <= at <= high]
        assert not inside, "one that is stopped notes nothing"


def test_what_was_measured_abreast_is_a_round_like_another(executor: LocalExecutor) -> None:
    case = make("mlp", "eager", "infer", threads=1)
    journal, alone = Beside(), Beside()
    checked = msgspec.structs.replace(OPTIONS, rounds=2, parity=True)
    journal.abreast(executor, case, options=checked)
    alone.alone(executor, case, options=checked)
    record, other = journal.made[case], alone.made[case]
    assert (record.ok, record.parity.status, [r.index for r in record.rounds]) == (True, "same", [0, 1])
    first, second = record.rounds[0], other.rounds[0]
    assert first.counts == second.counts
    assert first.host_memory is not None
    assert (first.isolation, first.operators) == (second.isolation, second.operators)
    assert [one.kind for one in first.series] == [one.kind for one in second.series]
    assert (first.prepare_s, first.build_s, first.notes) == (None, None, [NOTE])
    assert second.prepare_s is not None


def test_what_fails_by_itself_is_kept_with_its_cause(executor: LocalExecutor) -> None:
    journal = Beside()
    good = make("mlp", "eager", "infer", threads=1)
    journal.abreast(executor, planted("raise"), good, planted("nan"))
    causes = {case.workload: record.failure and record.failure.cause for case, record in journal.made.items()}
    assert causes == {"planted_raise": "exception", "mlp": None, "planted_nan": "nan"}


def test_what_others_may_have_caused_is_measured_again_alone(executor: LocalExecutor) -> None:
    journal = Beside()
    cases = planted("crowded"), planted("segfault"), make("mlp", "eager", "infer", threads=1)
    journal.abreast(executor, *cases)
    assert [case.workload for case in journal.made] == ["mlp"]
    journal.alone(executor, *cases)
    crowded, crashed = (journal.made[case] for case in cases[:2])
    assert crowded.ok
    assert (NOTE in crowded.rounds[0].notes, len(crowded.rounds)) == (False, 1)
    assert crashed.failure is not None
    assert crashed.failure.cause == "signal"


def test_time_in_which_it_has_to_stand_still_is_not_its_own(executor: LocalExecutor) -> None:
    """One hangs until its timeout; the others wait for it longer than they may take, and are measured."""
    hurried = msgspec.structs.replace(OPTIONS, timeout=6, abreast=6)
    quick = [make("mlp", "eager", "infer", batch=batch, threads=1) for batch in (1, 2)]
    journal = Beside()
    journal.abreast(executor, planted("hang"), *quick, options=hurried)
    failure = journal.made[planted("hang")].failure
    assert failure is not None
    assert (failure.cause, failure.message) == ("timeout", "stopped after 6 s")
    assert all(journal.made[case].ok for case in quick)
    assert all(journal.kept[case][0].seconds < 6 for case in quick)


def test_a_few_ladders_go_before_the_next_and_of_them_first_what_compiles(executor: LocalExecutor) -> None:
    cases = [make("mlp", rung, "infer", batch=batch) for batch in range(1, 6) for rung in ("eager", "compile")]
    two = msgspec.structs.replace(OPTIONS, abreast=2)
    found = [f"{due.case.rung} {due.case.batch}" for due in in_order(cases, 0, two, executor, Beside())]
    assert found == [
        "compile 1", "compile 2", "eager 1", "eager 2",
        "compile 3", "compile 4", "eager 3", "eager 4",
        "compile 5", "eager 5",
    ]  # fmt: skip


def test_references_are_made_while_the_ladders_before_them_are_prepared(executor: LocalExecutor) -> None:
    cases = [make("mlp", rung, "infer", batch=batch) for batch in (1, 2, 3) for rung in ("eager", "compile")]
    checked = msgspec.structs.replace(OPTIONS, abreast=2, parity=True)
    found = [
        f"{one.case.rung if isinstance(one, Due) else 'reference'} {one.case.batch}"
        for one in in_order(cases, 0, checked, executor, Beside())
    ]
    assert found == [
        "reference 1", "reference 2", "compile 1", "compile 2", "reference 3", "eager 1", "eager 2",
        "compile 3", "eager 3",
    ]  # fmt: skip


def test_ladders_that_share_a_reference_have_it_made_once(executor: LocalExecutor) -> None:
    layouts: tuple[Layout, ...] = ("contiguous", "channels-last")
    cases = [Case(workload="resnet18", rung="eager", batch=1, layout=layout) for layout in layouts]
    checked = msgspec.structs.replace(OPTIONS, abreast=1, parity=True)
    found = in_order(cases, 0, checked, executor, Beside())
    assert [isinstance(one, Due) for one in found] == [False, True, True]


def test_who_has_no_reference_is_left_and_the_others_are_compared(executor: LocalExecutor) -> None:
    """Three at a time: the cases wait for their references, which are made beside each other."""
    good = [make("mlp", rung, "infer", batch=n, threads=1) for n in (1, 2, 3) for rung in ("eager", "torchscript")]
    checked = msgspec.structs.replace(OPTIONS, parity=True)
    journal = Beside()
    journal.abreast(executor, good[0], planted("raise"), *good[1:], options=checked)
    assert {case: record.parity.status for case, record in journal.made.items()} == dict.fromkeys(good, "same")
    journal.alone(executor, planted("raise"), options=checked)
    assert journal.made[planted("raise")].failed


def test_what_has_to_be_alone_is_left(executor: LocalExecutor) -> None:
    journal = Beside()
    journal.abreast(executor, make("mlp", "compile:max-autotune", "infer"), make("mlp", "aot", "infer"))
    assert journal.kept == {}


def test_what_is_known_is_not_measured_again(executor: LocalExecutor) -> None:
    case = make("mlp", "eager", "infer", threads=1)
    journal = Beside()
    journal.abreast(executor, case)
    before = list(journal.kept[case])
    journal.abreast(executor, case)
    journal.alone(executor, case)
    assert journal.kept[case] == before


def test_the_first_failure_ends_it_where_that_is_asked_for(executor: LocalExecutor) -> None:
    journal = Beside()
    one_by_one = msgspec.structs.replace(OPTIONS, abreast=1)
    cases = planted("raise"), make("mlp", "eager", "infer", threads=1)
    journal.abreast(executor, *cases, options=one_by_one, fast=True)
    assert [case.workload for case in journal.made] == ["planted_raise"]


class Impatient(Beside):
    def ends(self, case: Case, done: Round) -> None:  # noqa: ARG002
        raise KeyboardInterrupt


def test_an_interruption_ends_who_waits_and_who_is_stopped(executor: LocalExecutor) -> None:
    def workers() -> list[psutil.Process]:
        return [one for child in psutil.Process().children() for one in child.children(recursive=True)]

    journal = Impatient()
    # Of three at a time one is enough for turns to begin: the one that hangs is stopped then.
    with pytest.raises(KeyboardInterrupt):
        journal.abreast(
            executor, planted("hang"), *(make("mlp", "eager", "infer", batch=n, threads=1) for n in (1, 2))
        )
    assert len(journal.kept) == 1, "what was measured is kept"
    _, alive = psutil.wait_procs(workers(), timeout=60)
    assert not alive
    assert isinstance(supervise(executor.launcher.launch(ProbeJob()), Watchman(120)).messages[-1], Done)


def test_workers_side_by_side_each_have_their_own_end(launcher: Launcher) -> None:
    assert isinstance(launcher, ForkLauncher)
    first, second = launcher.launch(ProbeJob()), launcher.launch(ProbeJob())
    psutil.Process(first.pid).send_signal(signal.SIGKILL)
    ended = supervise(second, Watchman(120))
    assert (ended.status, isinstance(ended.messages[-1], Done)) == (0, True)
    assert supervise(first, Watchman(120)).status == signal.SIGKILL
