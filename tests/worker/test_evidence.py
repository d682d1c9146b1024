"""Evidence comes from timed steps: programs that cheat in them, and honest ones, through the sampler."""

import hashlib
import itertools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np
import pytest

from tare.measure.clock import Block, Step, WallClock
from tare.measure.memory import MemoryMeter
from tare.measure.parity import compare
from tare.measure.sampler import SamplingLimits, sample
from tare.records.record import Parity, Series
from tare.rungs.base import Arrays, Program
from tare.worker import evidence as evidence_module
from tare.worker.audit import audit, does_less_later, left_for_the_reader, left_in_threads, looked_up, memoised
from tare.worker.evidence import MOST_STEPS, TimedEvidence
from tare.workloads.variants import BATCHES

FEATURES, ROWS = 16, 8


@pytest.fixture(autouse=True)
def _look_at_every_block(monkeypatch: pytest.MonkeyPatch) -> None:
    """Steps whose time is only simulated would leave no time to look at their results."""
    monkeypatch.setattr(evidence_module, "LOOKING_SHARE", float("inf"))


class Linear(Program):
    """A linear layer in NumPy: inference, or training by gradient descent on the mean square."""

    def __init__(self, trains: bool = False, rate: float = 0.1) -> None:
        generator = np.random.default_rng(0)
        self.trains, self._rate = trains, rate
        self._batches = generator.normal(size=(BATCHES, ROWS, FEATURES))
        self._initial = generator.normal(size=(FEATURES, 4))
        self.input, self.weights = self._batches[0].copy(), self._initial.copy()
        self.gradient = np.zeros_like(self.weights)
        self.step: Callable[[], Any] = self.train if trains else self.infer

    def infer(self) -> Any:
        return self.input @ self.weights

    def train(self) -> Any:
        output = self.input @ self.weights
        self.gradient = 2 * self.input.T @ output / output.size
        self.weights -= self._rate * self.gradient
        return np.square(output).mean()

    def select(self, batch: int) -> None:
        self.input[:] = self._batches[batch]

    def disturb(self, attempt: int) -> bool:
        self.input *= 1 + (attempt + 1) / 64
        return True

    def rewind(self) -> None:
        self.weights[:] = self._initial

    def state(self) -> Arrays:
        return {"gradient/weights": self.gradient.copy(), "update/weights": self.weights - self._initial}


class MillisecondClock:
    """Runs every step, and says that each took a millisecond."""

    overlaps = False

    def __init__(self) -> None:
        self._ms = 0

    def now(self) -> float:
        return self._ms / 1e3

    def synchronize(self) -> None: ...

    def time(self, step: Step, steps: int) -> Block:
        result = [step() for _ in range(steps)][-1]
        self._ms += steps
        return Block(self._ms * 1_000_000, steps * 1_000_000, None, result)


def judge(program: Program, trains: bool = False) -> Parity:
    """The verdict on what a program did in timed steps."""
    clock = MillisecondClock()
    evidence = TimedEvidence(program, clock, MemoryMeter(None))
    sample(evidence, SamplingLimits(budget_s=0.5, width=0.01), lambda _: None, clock.now)
    return compare(Linear(trains).evidence(), evidence.arrays, "fp32", {}, "NumPy")


@pytest.mark.parametrize("trains", [False, True])
def test_an_honest_program_is_the_same(trains: bool) -> None:
    parity = judge(Linear(trains), trains)
    assert parity.status == "same", parity
    # Outputs on three batches; in training their first losses, one third loss, a gradient and an update.
    assert parity.compared == (BATCHES + 3 if trains else BATCHES)


def memoise_by_address(program: Linear) -> Callable[[], Any]:
    kept: dict[int, Any] = {}
    right = program.step
    return lambda: (
        kept[id(program.input)] if id(program.input) in kept else kept.setdefault(id(program.input), right())
    )


def bake_input_in(program: Linear) -> Callable[[], Any]:
    baked = program.input.copy()
    return lambda: baked @ program.weights


def every_other_step(program: Linear) -> Callable[[], Any]:
    return every(program, 2)


def every_fifth_step_is_skipped(program: Linear) -> Callable[[], Any]:
    return every(program, 5)


def every(program: Linear, period: int) -> Callable[[], Any]:
    right, counter, last = program.step, itertools.count(), [program.step()]

    def step() -> Any:
        if next(counter) % period != period - 1:
            last[0] = right()
        return last[0]

    return step


def empty_timed_step(program: Linear) -> Callable[[], Any]:
    """Honest where evidence is asked for outside of timed steps."""
    right = program.step
    program.evidence = lambda: {"output/0@0": right()}  # type: ignore[method-assign]
    return lambda: np.zeros((ROWS, 4))


def one_percent_more(program: Linear) -> Callable[[], Any]:
    right = program.step
    return lambda: 1.01 * right()


CHEATS = [
    memoise_by_address, bake_input_in, every_other_step, every_fifth_step_is_skipped, empty_timed_step,
    one_percent_more,
]  # fmt: skip


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda cheat: cheat.__name__)
@pytest.mark.parametrize("attempt", range(3))
def test_a_cheat_in_timed_steps_is_different(cheat: Callable[[Linear], Callable[[], Any]], attempt: int) -> None:
    """Whichever blocks are chosen at random."""
    del attempt
    program = Linear()
    program.step = cheat(program)
    assert judge(program).status == "different"


def no_update(program: Linear) -> None:
    right = program.step

    def step() -> Any:
        before = program.weights.copy()
        loss = right()
        program.weights[:] = before
        return loss

    program.step = step


def update_only_after_a_rewind(program: Linear) -> None:
    """Honest in the first step from the initial weights, lazy in all others."""
    right, rewind, fresh = program.step, program.rewind, [True]

    def step() -> Any:
        if fresh[0]:
            fresh[0] = False
            return right()
        return np.square(program.input @ program.weights).mean()

    def start_again() -> None:
        rewind()
        fresh[0] = True

    program.step, program.rewind = step, start_again  # type: ignore[method-assign]


def half_the_learning_rate(program: Linear) -> None:
    program._rate /= 2


def no_update_from_the_thirtieth_step_on(program: Linear) -> None:
    """Those of the first blocks are right."""
    right, counter, rate = program.step, itertools.count(), program._rate

    def step() -> Any:
        program._rate = rate if next(counter) < 30 else 0.0
        return right()

    program.step = step


TRAINING_CHEATS = [
    no_update, update_only_after_a_rewind, half_the_learning_rate, no_update_from_the_thirtieth_step_on,
]  # fmt: skip


@pytest.mark.parametrize("cheat", TRAINING_CHEATS)
def test_a_cheat_in_training_is_different(cheat: Callable[[Linear], None]) -> None:
    program = Linear(trains=True)
    cheat(program)
    assert judge(program, trains=True).status == "different"


def run(program: Program) -> TimedEvidence:
    clock = MillisecondClock()
    evidence = TimedEvidence(program, clock, MemoryMeter(None))
    sample(evidence, SamplingLimits(budget_s=0.5, width=0.01), lambda _: None, clock.now)
    return evidence


def test_a_nan_in_one_latency_step_is_seen() -> None:
    program = Linear()
    right, counter = program.step, itertools.count()
    # The last steps are those of the latency series.
    program.step = lambda: right() * (float("nan") if next(counter) == last else 1.0)
    last = -1
    run(program)
    last, counter = next(counter) - 3, itertools.count()
    assert run(program).has_nan


def test_training_that_diverges_is_no_nan_and_is_restored() -> None:
    """With a hundred times the learning rate the weights overflow after some steps, but never within MOST_STEPS of
    those that are compared."""
    program = Linear(trains=True, rate=60.0)
    with np.errstate(all="ignore"):
        for _ in range(400):
            program.step()
        assert not np.isfinite(program.weights).all(), "the planted rate does not diverge"
        evidence = run(program)
        assert not evidence.has_nan
        wanted = Linear(trains=True, rate=60.0).evidence()
    assert compare(wanted, evidence.arrays, "fp32", {}, "NumPy").status == "same"


def test_weights_are_restored_before_too_many_steps() -> None:
    program = Linear(trains=True)
    since, most = 0, 0
    right, rewind = program.step, program.rewind

    def step() -> Any:
        nonlocal since, most
        since += 1
        most = max(most, since)
        return right()

    def start_again() -> None:
        nonlocal since
        since = 0
        rewind()

    program.step, program.rewind = step, start_again  # type: ignore[method-assign]
    run(program)
    assert most <= MOST_STEPS


def test_every_block_has_another_batch_than_the_one_before() -> None:
    program = Linear()
    selected: list[int] = []
    select = program.select

    def note(batch: int) -> None:
        selected.append(batch)
        select(batch)

    program.select = note  # type: ignore[method-assign]
    run(program)
    assert len(selected) > 20
    assert all(a != b for a, b in itertools.pairwise(selected))


class ByContent(Linear):
    """Looks results up by what the input contains, and works for 2 ms where it finds none."""

    def __init__(self) -> None:
        super().__init__()
        self._kept: dict[bytes, Any] = {}
        self.step = self.look_up

    def look_up(self) -> Any:
        key = self.input.tobytes()
        if key not in self._kept:
            self._kept.clear()
            wait = threading.Event()
            wait.wait(0.002)
            self._kept[key] = self.infer()
        return self._kept[key]


def test_looking_results_up_by_content_is_seen() -> None:
    program = ByContent()
    clock = WallClock(lambda: None, overlaps=False)
    message = memoised(program, clock, steps=30)
    assert message is not None
    assert "it keeps results instead of computing them" in message
    pipelined = Series(kind="pipelined", steps=[30], wall_ns=[2_100_000], at_ns=[0], stop="width")
    latency = Series(kind="latency", steps=[1], wall_ns=[2_010_000], at_ns=[0], stop="width")
    fault = audit(program, clock, pipelined, latency)
    assert fault is not None
    assert fault.cause == "memoised"


class ByKnownContent(ByContent):
    """Keeps the results of all batches that it has seen."""

    def look_up(self) -> Any:
        key = self.input.tobytes()
        if key not in self._kept:
            threading.Event().wait(0.002)
            self._kept[key] = self.infer()
        return self._kept[key]


def test_looking_the_results_of_all_batches_up_is_seen() -> None:
    program = ByKnownContent()
    clock = WallClock(lambda: None, overlaps=False)
    for batch in range(BATCHES):
        program.select(batch)
        program.step()
    assert memoised(program, clock, steps=30) is None
    series = Series(kind="pipelined", steps=[30], wall_ns=[60_000], at_ns=[0], stop="width")
    fault = audit(
        program, clock, series, msgspec.structs.replace(series, kind="latency", steps=[1], wall_ns=[2_500])
    )
    assert fault is not None
    assert fault.cause == "memoised"
    assert "values that it has not seen" in fault.message


class LessLater(Linear):
    """Works for 2 ms in each of the first three steps from the initial weights, and for nothing in others."""

    def __init__(self) -> None:
        super().__init__(trains=True)
        self._since = 0
        self.step = self.train_a_little

    def train_a_little(self) -> Any:
        self._since += 1
        if self._since > 3:
            return 0.0
        threading.Event().wait(0.002)
        return self.train()

    def rewind(self) -> None:
        super().rewind()
        self._since = 0


def test_training_that_does_less_in_later_steps_is_seen() -> None:
    program = LessLater()
    clock = WallClock(lambda: None, overlaps=False)
    series = Series(kind="pipelined", steps=[30], wall_ns=[60_000], at_ns=[0], stop="width")
    latency = msgspec.structs.replace(series, kind="latency", steps=[1], wall_ns=[2_000])
    fault = audit(program, clock, series, latency, verified_ns=[2_100_000, 2_200_000])
    assert fault is not None
    assert fault.cause == "memoised"
    assert "does less work" in fault.message


def test_training_that_works_in_every_step_is_not_accused() -> None:
    assert does_less_later(Linear(trains=True), WallClock(lambda: None, overlaps=False)) is None


class ComputedByTheReader(Linear):
    """Returns a function, and whoever reads the result calls it."""

    def __init__(self) -> None:
        super().__init__()
        self.step = lambda: self.infer

    def has_nan(self, result: Any) -> bool:
        if callable(result):
            threading.Event().wait(0.002)
            result = result()
        return super().has_nan(result)

    def finished(self, result: Any) -> Any:
        return result()


def test_a_result_that_is_computed_by_its_reader_is_seen() -> None:
    clock = WallClock(lambda: None, overlaps=False)
    message = left_for_the_reader(ComputedByTheReader(), clock)
    assert message is not None
    assert "it computes when it is read" in message
    assert left_for_the_reader(Linear(), clock) is None


def test_a_model_that_refuses_other_values_is_not_accused() -> None:
    program = Linear()
    right, known = program.step, [batch.tobytes() for batch in program._batches]

    def step() -> Any:
        if program.input.tobytes() not in known:
            raise ValueError("not a distribution")
        return right()

    program.step = step
    assert looked_up(program, WallClock(lambda: None, overlaps=False)) is None
    program.step()


def test_a_step_that_works_every_time_keeps_nothing() -> None:
    clock = WallClock(lambda: None, overlaps=False)
    assert memoised(Linear(), clock, steps=30) is None
    assert looked_up(Linear(), clock) is None


@pytest.fixture
def working() -> Iterator[threading.Event]:
    """Set while threads may work."""
    event = threading.Event()
    event.set()
    yield event
    event.clear()


@pytest.mark.parametrize("backlog_s", [0.0, pytest.param(2.5, marks=pytest.mark.full)])
def test_work_that_is_left_in_a_thread_is_seen(
    working: threading.Event, backlog_s: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even where the samples have left more of it than the audit waits for behind a block: it is no spinning."""
    monkeypatch.setattr("tare.worker.audit.LONGEST_WAIT_S", 1.0 if backlog_s else 2.0)
    monkeypatch.setattr("tare.worker.audit.LONGEST_BACKLOG_S", 60.0)
    program = Linear()
    pending: list[int] = []

    def hash_once() -> None:
        # Far more CPU time than the step takes, without the interpreter's lock, for which the steps would wait.
        hashlib.pbkdf2_hmac("sha256", b"", b"", 500)

    def work() -> None:
        while working.is_set() and time.thread_time() < backlog_s:
            hash_once()
        while working.is_set():
            if pending:
                pending.pop()
                hash_once()
            else:
                threading.Event().wait(0.0005)

    threading.Thread(target=work, daemon=True).start()
    right = program.step

    def step() -> Any:
        pending.append(1)
        return right()

    program.step = step
    message = left_in_threads(program, WallClock(lambda: None, overlaps=False), step_s=1e-5)
    assert message is not None
    assert "the step does not wait for its work" in message


def test_a_thread_that_only_waits_is_not_accused(working: threading.Event) -> None:
    def wait() -> None:
        while working.is_set():
            threading.Event().wait(0.001)

    threading.Thread(target=wait, daemon=True).start()
    assert left_in_threads(Linear(), WallClock(lambda: None, overlaps=False), step_s=1e-5) is None
