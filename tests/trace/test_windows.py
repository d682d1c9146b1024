"""Outlier steps: which steps count."""

from hypothesis import example, given
from hypothesis import strategies as st
from traces import TraceBuilder

from tare.trace.breakdown import breakdown
from tare.trace.host import host_events
from tare.trace.host_time import host_time
from tare.trace.kernel_table import kernel_table
from tare.trace.tables import Trace
from tare.trace.windows import drop_outlier_steps

# The median is 10, so 16 is an outlier. Of the other steps the median is 6, and 10 would be an outlier.
SHRINKING = [6, 6, 6, 10, 10, 16, 16, 16, 16]


def steps_of(lengths: list[int], device: bool) -> Trace:
    """Steps of these lengths in microseconds, as tare records them, each with one operator."""
    trace, at = TraceBuilder(tare_profiled={"case": "made"}), 0.0
    for number, length in enumerate(lengths):
        trace.event("user_annotation", f"tare::step#{number}", at, at + length)
        trace.op("aten::mm", at + 1, at + length - 1)
        if device:
            trace.launch(at + 1, at + 2, at + 2, at + length - 1)
        at += length + 1
    return trace.build()


@given(lengths=st.lists(st.integers(4, 60), min_size=1, max_size=12), device=st.booleans())
@example(lengths=SHRINKING, device=False)
@example(lengths=SHRINKING, device=True)
def test_dropping_outliers_twice_changes_nothing(lengths: list[int], device: bool) -> None:
    once = drop_outlier_steps(steps_of(lengths, device))
    # The same trace, so that what is known of it is not computed again.
    assert drop_outlier_steps(once) is once
    assert host_events(once) is host_events(once)
    assert once.steps.counted.any()
    time = host_time(once)
    assert time is not None
    assert time.steps == once.steps.counted.sum()


def test_the_median_is_over_all_steps_also_after_dropping_some() -> None:
    twice = drop_outlier_steps(drop_outlier_steps(steps_of(SHRINKING, False)))
    assert twice.steps.counted.tolist() == [1] * 5 + [0] * 4


def test_work_from_before_the_trace_is_in_no_step() -> None:
    """A device that is 50 us behind: its first two kernels were launched before the trace began."""
    builder = TraceBuilder()
    for number in range(3):
        at = 100 * number
        builder.step(at, at + 100, number)
        builder.launch(at + 5, at + 8, at + 60, at + 140)
    builder.kernel("earlier", 0, 30, correlation=900)
    builder.kernel("earlier", 30, 50, correlation=901)
    trace = builder.build()
    parts = breakdown(trace)
    assert parts is not None
    assert [(step.window, step.active, step.kernels) for step in parts.steps] == [
        (90_000, 80_000, 1), (100_000, 80_000, 1), (100_000, 80_000, 1),
    ]  # fmt: skip
    assert parts.orphans == 0
    assert {kernel.name for kernel in kernel_table(trace, counted=True)} == {"k"}


def test_work_launched_before_the_first_step_is_in_no_step() -> None:
    builder = TraceBuilder()
    builder.launch(1, 3, 10, 150, kernel="warm-up")
    builder.step(100, 200)
    builder.launch(105, 108, 160, 190)
    parts = breakdown(builder.build())
    assert parts is not None
    assert [(step.window, step.active, step.kernels) for step in parts.steps] == [(50_000, 30_000, 1)]


def test_orphans_within_the_steps_stay() -> None:
    builder = TraceBuilder()
    builder.step(0, 100)
    builder.launch(5, 8, 10, 20)
    builder.kernel("lost", 30, 40, correlation=900)
    parts = breakdown(builder.build())
    assert parts is not None
    assert (parts.window, parts.active, parts.orphans) == (100_000, 20_000, 1)
