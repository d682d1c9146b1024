"""The sampler in simulated time: when it stops, how it sizes its blocks, what it keeps."""

import gc
import weakref
from statistics import median

import pytest
from simulated import SimulatedClock, Timed

from tare.measure import sampler
from tare.measure.sampler import (
    DEVICE_WARMUP_S,
    FEWEST_BLOCKS,
    MOST_BLOCKS,
    PIPELINE_STEPS,
    SHORTEST,
    SamplingLimits,
    StepTimer,
    sample,
    sample_runs,
)
from tare.records.record import Series
from tare.stats.intervals import median_interval

LIMITS = SamplingLimits(budget_s=4.0, width=0.01)
# What SamplingLimits gives each series of a budget of 4 s.
WARM_UP_S, PIPELINED_S, LATENCY_S = 1.0, 2.25, 0.75


@pytest.fixture(autouse=True)
def _resolution(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "resolution_ns", lambda: 50)


def take(clock: SimulatedClock, limits: SamplingLimits = LIMITS) -> tuple[Series, Series, Series]:
    found: list[Series] = []
    sample(StepTimer(lambda: None, clock), limits, found.append, clock.now)
    warm, pipelined, latency = found
    return warm, pipelined, latency


def seconds(series: Series) -> float:
    return (series.at_ns[-1] + series.wall_ns[-1] - series.at_ns[0]) / 1e9


def wobble(low: float, high: float) -> SimulatedClock:
    """Steps that take one of two times in turn: noise without randomness."""
    clock = SimulatedClock(lambda _: low if len(clock.timed) % 2 else high)
    return clock


def test_warm_up_ends_when_steady() -> None:
    """Steps that begin ten times slower and get faster until 0.2 s have passed."""
    warm, pipelined, _ = take(SimulatedClock(lambda t: 1e-3 * max(1.0, 10 - 45 * t)))
    assert warm.stop == "steady"
    assert warm.step_seconds()[0] == pytest.approx(10e-3)
    assert 0.2 < seconds(warm) < 0.3
    assert set(pipelined.step_seconds()) == {1e-3}


def test_a_warm_up_that_never_is_steady_says_so() -> None:
    """Every window of five steps is 5 % slower than the one before."""
    warm, _, _ = take(SimulatedClock(lambda t: 1e-3 * (1 + 10 * t)))
    assert warm.stop == "unsteady"
    assert seconds(warm) == pytest.approx(WARM_UP_S, abs=0.05)


def test_a_device_is_warmed_for_as_long_as_it_needs() -> None:
    warm, _, _ = take(SimulatedClock(lambda _: 1e-3, overlaps=True))
    assert warm.stop == "steady"
    assert DEVICE_WARMUP_S <= seconds(warm) < 2 * DEVICE_WARMUP_S


def test_sampling_stops_at_the_width_but_not_on_a_calm_moment() -> None:
    _, pipelined, latency = take(SimulatedClock(lambda _: 1e-3))
    assert (pipelined.stop, latency.stop) == ("width", "width")
    assert seconds(pipelined) == pytest.approx(SHORTEST * PIPELINED_S, rel=0.01)
    assert seconds(latency) == pytest.approx(SHORTEST * LATENCY_S, rel=0.02)


def test_sampling_that_never_gets_narrow_spends_its_budget_and_no_more() -> None:
    _, pipelined, latency = take(wobble(1e-3, 1.5e-3))
    assert (pipelined.stop, latency.stop) == ("budget", "budget")
    assert PIPELINED_S <= seconds(pipelined) < PIPELINED_S + 2e-3
    assert LATENCY_S <= seconds(latency) < LATENCY_S + 2e-3
    assert median_interval(pipelined.step_seconds()).width > LIMITS.width


def test_a_series_that_stopped_at_its_width_has_that_width() -> None:
    _, pipelined, _ = take(wobble(1e-3, 1.015e-3))
    assert pipelined.stop == "width"
    assert median_interval(pipelined.step_seconds()).width <= LIMITS.width


def test_short_steps_fill_the_time_and_not_the_memory() -> None:
    """A hundred seconds of microseconds: blocks get longer, so that a limited number of them lasts."""
    noisy = SamplingLimits(budget_s=100, width=0.01)
    warm, pipelined, _ = take(wobble(1e-6, 1.5e-6), noisy)
    assert len(warm.wall_ns) <= MOST_BLOCKS
    assert 0.5 * MOST_BLOCKS <= len(pipelined.wall_ns) <= MOST_BLOCKS
    assert pipelined.stop == "budget"
    assert seconds(pipelined) == pytest.approx(noisy.pipelined_s, rel=0.01)


@pytest.mark.parametrize(("slower", "stop"), [(1.0, "width"), (1.5, "budget")])
def test_latency_of_short_steps_is_full_before_its_time_and_says_what_it_knows(slower: float, stop: str) -> None:
    _, _, latency = take(wobble(1e-6, slower * 1e-6))
    assert (len(latency.wall_ns), latency.stop) == (MOST_BLOCKS, stop)


@pytest.mark.parametrize(
    ("step_s", "overlaps", "steps"),
    [
        (1e-6, False, 1125),  # 2000 blocks fill 2.25 s
        (1e-3, False, 2),
        (2e-3, False, 1),
        (1e-6, True, 50_000),  # 50 ms of a device's work
        (1e-3, True, 50),
        (10e-3, True, PIPELINE_STEPS),
        (40e-3, True, 5),  # ten blocks of ten would not fit into half of 4 s
        (3.0, True, 2),
    ],
)
def test_blocks_are_long_enough_for_the_clock(step_s: float, overlaps: bool, steps: int) -> None:
    _, pipelined, latency = take(SimulatedClock(lambda _: step_s, overlaps))
    assert set(pipelined.steps) == {steps}
    assert set(latency.steps) == {1}


@pytest.mark.parametrize(("step_s", "steps"), [(1e-6, 1000), (30e-6, 34), (1e-3, 1)])
def test_a_block_on_the_host_lasts_a_millisecond(step_s: float, steps: int) -> None:
    _, pipelined, _ = take(SimulatedClock(lambda _: step_s), SamplingLimits(budget_s=0.1, width=0.01))
    assert set(pipelined.steps) == {steps}


def test_a_block_lasts_two_thousand_resolutions_of_a_coarse_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampler, "resolution_ns", lambda: 1000)
    _, pipelined, _ = take(SimulatedClock(lambda _: 1e-6), SamplingLimits(budget_s=0.1, width=0.01))
    assert set(pipelined.steps) == {2000}


def test_very_long_steps_are_run_a_few_times_only() -> None:
    clock = SimulatedClock(lambda _: 60.0)
    warm, pipelined, latency = take(clock)
    assert [len(s.wall_ns) for s in (warm, pipelined, latency)] == [FEWEST_BLOCKS] * 3
    assert (warm.stop, pipelined.stop, latency.stop) == ("unsteady", "budget", "budget")
    assert sum(timed.steps for timed in clock.timed) == 3 * FEWEST_BLOCKS


def test_every_raw_sample_is_kept() -> None:
    clock = wobble(1e-3, 1.2e-3)
    kept = [
        Timed(*entry)
        for series in take(clock)
        for entry in zip(series.at_ns, series.wall_ns, series.steps, strict=True)
    ]
    assert kept == clock.timed


def test_each_series_is_reported_as_it_ends() -> None:
    clock = SimulatedClock(lambda _: 1e-3)
    counts: list[tuple[str, int]] = []

    def report(series: Series) -> None:
        counts.append((series.kind, len(clock.timed) - sum(count for _, count in counts)))
        assert len(series.wall_ns) == counts[-1][1]

    sample(StepTimer(lambda: None, clock), LIMITS, report, clock.now)
    assert [kind for kind, _ in counts] == ["warmup", "pipelined", "latency"]


def test_a_step_that_fails_late_leaves_what_was_reported() -> None:
    found: list[Series] = []

    def step() -> None:
        if len(found) == 2:
            raise RuntimeError("in the latency series")

    clock = SimulatedClock(lambda _: 1e-3)
    with pytest.raises(RuntimeError, match="latency"):
        sample(StepTimer(step, clock), LIMITS, found.append, clock.now)
    assert [series.kind for series in found] == ["warmup", "pipelined"]


def test_the_last_result_is_returned_and_no_other_is_held() -> None:
    class Result:
        """What a step returned: on a device it would hold memory."""

    seen: list[weakref.ref[Result]] = []
    most = 0

    def step() -> Result:
        nonlocal most
        gc.collect(0)
        most = max(most, sum(ref() is not None for ref in seen))
        result = Result()
        seen.append(weakref.ref(result))
        return result

    clock = SimulatedClock(lambda _: 10e-3)
    sample(StepTimer(step, clock), LIMITS, lambda _: None, clock.now)
    assert len(seen) > 10
    assert most <= 1


def test_device_times_are_kept_beside_the_wall_clocks() -> None:
    _, pipelined, _ = take(SimulatedClock(lambda _: 1e-3, overlaps=True, device=True))
    assert pipelined.device_ns == [wall // 2 for wall in pipelined.wall_ns]
    assert median(pipelined.device_step_seconds()) == pytest.approx(0.5e-3)


def test_a_clock_without_device_events_has_no_device_times() -> None:
    assert all(series.device_ns is None for series in take(SimulatedClock(lambda _: 1e-3)))


@pytest.mark.parametrize(
    ("run_s", "budget_s", "runs", "stop"),
    [(0.5, 4.0, 8, "width"), (60.0, 4.0, FEWEST_BLOCKS, "budget"), (1e-3, 4.0, 400, "width")],
    ids=["until the interval is narrow", "longer than the budget", "short"],
)
def test_runs_of_a_command_have_one_warm_up_and_no_latency(
    run_s: float, budget_s: float, runs: int, stop: str
) -> None:
    """A run is a block of its own. Runs that do not vary are enough as soon as their interval may be looked at:
    after eight of them, and a tenth of the budget."""
    clock, series = SimulatedClock(lambda _: run_s), list[Series]()
    sample_runs(StepTimer(lambda: None, clock), budget_s, 0.01, series.append, clock.now)
    warm, timed = series
    assert (warm.kind, warm.steps) == ("warmup", [1])
    assert (timed.kind, set(timed.steps), timed.stop) == ("pipelined", {1}, stop)
    assert len(timed.steps) == pytest.approx(runs, abs=1)
