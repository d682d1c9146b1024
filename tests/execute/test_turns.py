"""Who measures when: one at a time, while everybody who prepares stands still."""

import signal
import threading
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tare.errors import TareError
from tare.execute.measurement_gate import Abandoned, Lane, Turnstile, await_turn

STOP, GO = signal.SIGSTOP, signal.SIGCONT


class Said:
    """The signals that processes got."""

    def __init__(self) -> None:
        self.all: list[tuple[int, signal.Signals]] = []

    def __call__(self, pid: int, number: signal.Signals) -> None:
        self.all.append((pid, number))

    def stopped(self) -> set[int]:
        last = dict(self.all)
        return {pid for pid, number in last.items() if number == STOP}


class Crowd:
    """Lanes with processes 1, 2, 3, ... that have entered a turnstile."""

    def __init__(self, folder: Path, count: int, enough: int) -> None:
        self.said = Said()
        self.turnstile = Turnstile(enough, self.said)
        self.lanes = [Lane(folder / str(pid)) for pid in range(1, count + 1)]
        for pid, lane in enumerate(self.lanes, 1):
            self.turnstile.enter(lane)
            self.turnstile.started(lane, pid)

    @property
    def measuring(self) -> list[int]:
        return [lane.pid for lane in self.lanes if lane.measures]

    def close(self) -> None:
        for lane in self.lanes:
            lane.close()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "turns"


def test_two_that_wait_measure_one_after_the_other(folder: Path) -> None:
    crowd = Crowd(folder, 2, enough=2)
    first, second = crowd.lanes
    crowd.turnstile.waits(first)
    assert (crowd.measuring, first.stands_still) == ([], True), "the other one still prepares"
    crowd.turnstile.waits(second)
    assert (crowd.measuring, first.stands_still, second.stands_still) == ([1], False, True)
    crowd.turnstile.leaves(first)
    assert crowd.measuring == [1, 2]
    crowd.turnstile.leaves(second)
    crowd.close()


def test_who_prepares_stands_still_while_others_measure(folder: Path) -> None:
    crowd = Crowd(folder, 3, enough=1)
    slow, quick, other = crowd.lanes
    crowd.turnstile.waits(quick)
    assert (crowd.measuring, crowd.said.stopped()) == ([2], {1, 3})
    still = [slow.stands_still]
    crowd.turnstile.leaves(quick)
    still.append(slow.stands_still)
    assert (still, crowd.said.stopped()) == ([True, False], set())
    # One that ends before it is prepared holds nobody up.
    crowd.turnstile.leaves(other)
    crowd.turnstile.waits(slow)
    assert crowd.measuring == [1, 2]
    crowd.close()


def test_who_has_measured_goes_on_when_the_others_have(folder: Path) -> None:
    crowd = Crowd(folder, 3, enough=2)
    first, second, slow = crowd.lanes
    crowd.turnstile.waits(first)
    crowd.turnstile.waits(second)
    assert (crowd.measuring, crowd.said.stopped()) == ([1], {3})
    crowd.turnstile.has_measured(first)
    assert (crowd.measuring, crowd.said.stopped()) == ([2], {1, 3})
    crowd.turnstile.has_measured(second)
    assert (crowd.measuring, crowd.said.stopped()) == ([], set())
    crowd.turnstile.leaves(first)
    # Said twice, or by one that never measured, it changes nothing.
    crowd.turnstile.has_measured(second)
    crowd.turnstile.has_measured(slow)
    crowd.turnstile.leaves(second)
    crowd.turnstile.waits(slow)
    assert crowd.measuring == [3]
    crowd.close()


def test_nobody_begins_while_another_measures(folder: Path) -> None:
    crowd = Crowd(folder, 1, enough=1)
    crowd.turnstile.waits(crowd.lanes[0])
    late = Lane(folder / "late")
    entered = threading.Event()

    def enter() -> None:
        crowd.turnstile.enter(late)
        entered.set()

    thread = threading.Thread(target=enter)
    thread.start()
    assert not entered.wait(0.2)
    crowd.turnstile.leaves(crowd.lanes[0])
    assert entered.wait(10)
    thread.join()
    late.close()
    crowd.close()


def test_a_process_that_starts_when_turns_have_begun_is_stopped_at_once(folder: Path) -> None:
    crowd = Crowd(folder, 1, enough=1)
    late = Lane(folder / "late")
    crowd.turnstile.enter(late)
    crowd.turnstile.waits(crowd.lanes[0])
    assert crowd.said.stopped() == set(), "it has no process yet"
    crowd.turnstile.started(late, 99)
    assert crowd.said.stopped() == {99}
    crowd.turnstile.leaves(crowd.lanes[0])
    assert crowd.said.stopped() == set()
    late.close()
    crowd.close()


def test_what_is_abandoned_lets_nobody_in(folder: Path) -> None:
    turnstile = Turnstile(1, Said())
    turnstile.abandon()
    lane = Lane(folder / "lane")
    with pytest.raises(Abandoned):
        turnstile.enter(lane)
    lane.close()


@pytest.fixture(scope="module")
def shared_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("turns")


@given(
    count=st.integers(1, 6),
    enough=st.integers(1, 6),
    moves=st.lists(st.tuples(st.integers(0, 5), st.sampled_from(["on", "on", "dies"])), max_size=60),
)
@settings(max_examples=200, deadline=None)
def test_at_most_one_measures_and_then_nobody_else_is_at_work(
    shared_folder: Path, count: int, enough: int, moves: list[tuple[int, str]]
) -> None:
    """Whatever happens in which order: processes get ready, measure, finish, die early."""
    crowd = Crowd(shared_folder, count, enough)
    at = dict.fromkeys(crowd.lanes, "prepares")

    def go_on(lane: Lane) -> None:
        """What a process does next, if it may."""
        if lane.stands_still:
            return
        if at[lane] == "prepares":
            at[lane] = "waits"
            crowd.turnstile.waits(lane)
        elif lane.measures:
            at[lane] = "finishes"
            crowd.turnstile.has_measured(lane)
        elif at[lane] == "finishes":
            leave(lane)

    def leave(lane: Lane) -> None:
        del at[lane]
        crowd.turnstile.leaves(lane)

    def look() -> None:
        measuring = [lane for lane in at if lane.measures]
        at_work = {lane.pid for lane, where in at.items() if where != "waits"}
        assert len(measuring) <= 1
        if measuring:
            assert crowd.said.stopped() >= at_work - {measuring[0].pid}
            assert measuring[0].pid not in crowd.said.stopped()
        else:
            assert not crowd.said.stopped() & at_work

    for which, what in moves:
        lane = crowd.lanes[which % count]
        if lane in at:
            (go_on if what == "on" else leave)(lane)
        look()
    # Left to themselves they all have their turn, and come to their end.
    for _ in range(4 * count):
        for lane in list(at):
            go_on(lane)
            look()
    assert not at
    crowd.close()


def test_a_worker_waits_until_it_is_let_in(folder: Path) -> None:
    lane = Lane(folder / "lane")
    through = threading.Event()

    def wait() -> None:
        await_turn(lane.pipe)
        through.set()

    thread = threading.Thread(target=wait)
    thread.start()
    assert not through.wait(0.2)
    lane.let_in()
    assert through.wait(10)
    thread.join()
    lane.close()


def test_a_worker_whom_nobody_can_let_in_any_more_says_so(folder: Path) -> None:
    lane = Lane(folder / "lane")
    raised: list[BaseException] = []

    def wait() -> None:
        try:
            await_turn(lane.pipe)
        except TareError as error:
            raised.append(error)

    thread = threading.Thread(target=wait)
    thread.start()
    thread.join(0.2)
    assert thread.is_alive()
    lane.close()
    thread.join(10)
    assert [str(error) for error in raised] == ["nobody is left to say when it may measure"]
