"""`tare.compare`: callables side by side, results apart, records by their processes."""

import random
import time
from typing import Any

import msgspec
import pytest
from builders import ENVIRONMENT, make_failure, make_record

import tare
from tare.api.compare import compare_records
from tare.measure.clock import Block
from tare.records.record import Parity


class ScriptedClock:
    """A step returns how long it is to have taken; 1 % of noise is added. Nothing depends on this machine."""

    overlaps = False

    def __init__(self) -> None:
        self._noise = random.Random(7)

    def synchronize(self) -> None: ...

    def time(self, step: Any, steps: int) -> Block:
        wall_ns = round(steps * step() * 1e9 * self._noise.gauss(1, 0.01))
        return Block(time.perf_counter_ns(), wall_ns, None, None)


@pytest.fixture
def scripted(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("measure", "compare"):
        monkeypatch.setattr(f"tare.api.{module}.clock_of", lambda _: ScriptedClock())


def quick() -> float:
    return 0.001


def slow() -> float:
    return 0.003


@pytest.mark.usefixtures("scripted")
def test_a_planted_slowdown_is_found_in_both_directions() -> None:
    slower, faster = tare.compare(quick, slow, budget=0.4), tare.compare(slow, quick, budget=0.4)
    assert slower.verdict == "slower"
    assert slower.ratio.low < 3 < slower.ratio.high < 3.1
    assert faster.verdict == "faster"
    assert faster.ratio.low < 1 / 3 < faster.ratio.high
    assert "20 pairs of blocks in random order" in repr(slower)


@pytest.mark.usefixtures("scripted")
def test_a_callable_is_the_same_as_itself() -> None:
    same = tare.compare(quick, quick, budget=0.4)
    assert same.verdict == "same"
    assert (same.a, same.b) == ("quick (a)", "quick (b)")


@pytest.mark.usefixtures("scripted")
def test_results_of_separate_runs_say_what_they_assume() -> None:
    first, second = tare.measure(quick, budget=0.1), tare.measure(slow, budget=0.1)
    compared = tare.compare(first, second)
    assert compared.verdict == "slower"
    assert compared.ratio.mid == pytest.approx(second.gross.median / first.gross.median)
    assert "assumes that nothing but the step changed" in repr(compared)
    assert tare.compare(first, first).verdict == "same"


def test_two_real_callables_are_measured() -> None:
    calls = {"a": 0, "b": 0}

    def count(name: str) -> None:
        calls[name] += 1

    compared = tare.compare(lambda: count("a"), lambda: count("b"), budget=0.2)
    assert min(calls.values()) > 20
    assert compared.ratio.mid > 0


def test_things_of_other_kinds_are_refused_in_one_line() -> None:
    with pytest.raises(tare.BadInput, match=r"two callables.*, not int and str"):
        tare.compare(3, "x")  # type: ignore[call-overload]
    with pytest.raises(tare.BadInput, match="margin"):
        tare.compare(quick, slow, margin=5)


def test_records_are_compared_by_their_processes() -> None:
    before = make_record(steps_s=(1e-3, 1.01e-3, 0.99e-3), id="before")
    now = make_record(steps_s=(2e-3, 2.02e-3, 1.98e-3), id="now")
    compared = tare.compare(before, now)
    assert compared.verdict == "slower"
    assert compared.ratio.mid == pytest.approx(2)
    assert "3 fresh processes against 3" in compared.design
    assert "assumes that the machine did not change" in compared.design
    assert tare.compare(before, before, margin=0.1).verdict == "same"


def test_a_record_that_computes_something_else_is_different_and_never_faster() -> None:
    wrong = make_record(steps_s=(1e-4, 1e-4, 1e-4), parity=Parity(status="different"))
    compared = compare_records(make_record(), wrong)
    assert compared.verdict == "different"
    assert "does not compute what the reference computes" in compared.notes[0]


def test_records_without_a_common_machine_or_without_a_time_are_refused() -> None:
    elsewhere = msgspec.structs.replace(ENVIRONMENT, machine={**ENVIRONMENT.machine, "cpu": "other-cpu"})
    with pytest.raises(tare.BadInput, match=r"not comparable.*cpu"):
        tare.compare(make_record(), make_record(environment=elsewhere))
    with pytest.raises(tare.BadInput, match="no time to compare"):
        tare.compare(make_record(), make_record(rounds=[], failure=make_failure()))
