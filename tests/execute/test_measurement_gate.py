"""The measurement gate: one process measures at a time, and all that prepare are stopped meanwhile."""

import signal
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tare.errors import TareError
from tare.execute.measurement_gate import GatedProcess, MeasurementGate
from tare.execute.parallel import Cancelled
from tare.worker.round import wait_at_gate

STOP, GO = signal.SIGSTOP, signal.SIGCONT


class Signals:
    """The signals that processes got."""

    def __init__(self) -> None:
        self.all: list[tuple[int, int]] = []

    def __call__(self, pid: int, number: int) -> None:
        self.all.append((pid, number))

    def stopped(self) -> set[int]:
        last = dict(self.all)
        return {pid for pid, number in last.items() if number == STOP}


class Processes:
    """Processes 1, 2, 3, ... that have entered a gate."""

    def __init__(self, folder: Path, count: int, enough: int) -> None:
        self.signals = Signals()
        self.gate = MeasurementGate(enough, self.signals)
        self.all = [GatedProcess(folder / str(pid)) for pid in range(1, count + 1)]
        for pid, process in enumerate(self.all, 1):
            self.gate.enter(process)
            self.gate.started(process, pid)

    @property
    def measuring(self) -> list[int]:
        return [process.reaper for process in self.all if process.is_measuring]

    def close(self) -> None:
        for process in self.all:
            process.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "gate"


def test_two_prepared_processes_are_measured_one_after_the_other(folder: Path) -> None:
    processes = Processes(folder, 2, enough=2)
    first, second = processes.all
    processes.gate.prepared(first)
    assert (processes.measuring, first.is_paused) == ([], True), "the other one still prepares"
    processes.gate.prepared(second)
    assert (processes.measuring, first.is_paused, second.is_paused) == ([1], False, True)
    processes.gate.ended(first)
    assert processes.measuring == [1, 2]
    processes.gate.ended(second)
    processes.close()


def test_preparing_processes_are_stopped_while_another_is_measured(folder: Path) -> None:
    processes = Processes(folder, 3, enough=1)
    slow, quick, other = processes.all
    processes.gate.prepared(quick)
    assert (processes.measuring, processes.signals.stopped()) == ([2], {1, 3})
    still = [slow.is_paused]
    processes.gate.ended(quick)
    still.append(slow.is_paused)
    assert (still, processes.signals.stopped()) == ([True, False], set())
    # A process that ends before it is prepared delays no other.
    processes.gate.ended(other)
    processes.gate.prepared(slow)
    assert processes.measuring == [1, 2]
    processes.close()


def test_a_measured_process_continues_when_the_others_are_measured(folder: Path) -> None:
    processes = Processes(folder, 3, enough=2)
    first, second, slow = processes.all
    processes.gate.prepared(first)
    processes.gate.prepared(second)
    # Also one that waits: what it started may still compute.
    assert (processes.measuring, processes.signals.stopped()) == ([1], {2, 3})
    processes.gate.measured(first)
    assert (processes.measuring, processes.signals.stopped()) == ([2], {1, 3})
    processes.gate.measured(second)
    assert (processes.measuring, processes.signals.stopped()) == ([], set())
    processes.gate.ended(first)
    # Reported twice, or by a process that never measured, it changes nothing.
    processes.gate.measured(second)
    processes.gate.measured(slow)
    processes.gate.ended(second)
    processes.gate.prepared(slow)
    assert processes.measuring == [3]
    processes.close()


def test_no_process_enters_while_another_is_measured(folder: Path) -> None:
    processes = Processes(folder, 1, enough=1)
    processes.gate.prepared(processes.all[0])
    late = GatedProcess(folder / "late")
    entered = threading.Event()

    def enter() -> None:
        processes.gate.enter(late)
        entered.set()

    thread = threading.Thread(target=enter)
    thread.start()
    assert not entered.wait(0.2)
    processes.gate.ended(processes.all[0])
    assert entered.wait(10)
    thread.join()
    late.close()
    processes.close()


def test_a_process_that_starts_during_measuring_is_stopped_at_once(folder: Path) -> None:
    processes = Processes(folder, 1, enough=1)
    late = GatedProcess(folder / "late")
    processes.gate.enter(late)
    processes.gate.prepared(processes.all[0])
    assert processes.signals.stopped() == set(), "it has no process yet"
    processes.gate.started(late, 99)
    assert processes.signals.stopped() == {99}
    processes.gate.ended(processes.all[0])
    assert processes.signals.stopped() == set()
    late.close()
    processes.close()


def test_a_process_does_not_enter_after_an_interruption(folder: Path) -> None:
    processes = Processes(folder, 1, enough=1)
    processes.gate.prepared(processes.all[0])
    checks = iter((None, None, Cancelled()))

    def check() -> None:
        if error := next(checks):
            raise error

    late = GatedProcess(folder / "late")
    with pytest.raises(Cancelled):
        processes.gate.enter(late, check)
    late.close()
    processes.close()


@pytest.fixture(scope="module")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("gate")


@given(
    count=st.integers(1, 6),
    enough=st.integers(1, 6),
    moves=st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["on", "on", "dies"])), max_size=60),
)
@settings(max_examples=200, deadline=None)
def test_at_most_one_process_measures_and_no_other_runs_meanwhile(
    shared_folder: Path, count: int, enough: int, moves: list[tuple[int, str]]
) -> None:
    """In whatever order processes get ready, measure, finish and die."""
    processes = Processes(shared_folder, count, enough)
    at = dict.fromkeys(processes.all, "preparing")

    def go_on(process: GatedProcess) -> None:
        """What a process does next, if it is not stopped."""
        if process.is_paused:
            return
        if at[process] == "preparing":
            at[process] = "waiting"
            processes.gate.prepared(process)
        elif process.is_measuring:
            at[process] = "finishing"
            processes.gate.measured(process)
        elif at[process] == "finishing":
            leave(process)

    def leave(process: GatedProcess) -> None:
        del at[process]
        processes.gate.ended(process)

    def look() -> None:
        measuring = [process for process in at if process.is_measuring]
        at_work = {process.reaper for process, where in at.items() if where != "waiting"}
        assert len(measuring) <= 1
        if measuring:
            assert processes.signals.stopped() >= at_work - {measuring[0].reaper}
            assert measuring[0].reaper not in processes.signals.stopped()
        else:
            assert not processes.signals.stopped() & at_work

    for which, what in moves:
        process = processes.all[which % count]
        if process in at:
            (go_on if what == "on" else leave)(process)
        look()
    # In the end all have been measured and have ended.
    for _ in range(4 * count):
        for process in list(at):
            go_on(process)
            look()
    assert not at
    processes.close()


def test_a_worker_waits_at_the_gate(folder: Path) -> None:
    process = GatedProcess(folder / "process")
    through = threading.Event()

    def wait() -> None:
        wait_at_gate(process.pipe)
        through.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert not through.wait(0.2)
    process.let_measure()
    assert through.wait(10)
    thread.join()
    process.close()


def test_a_worker_at_the_gate_notices_that_its_parent_is_gone(folder: Path) -> None:
    process = GatedProcess(folder / "process")
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            wait_at_gate(process.pipe)
        except TareError as error:
            raised.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()
    process.close()
    thread.join(10)
    assert [str(error) for error in raised] == ["the parent is gone: nobody opens the measurement gate"]
