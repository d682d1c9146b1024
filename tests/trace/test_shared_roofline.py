"""Rungs on one roofline: what a faster one has proven, and what only looks like it."""

from builders import make_peaks
from traces import TraceBuilder

from tare.records.work import OperatorWork, Work
from tare.trace.explanation import About, Explanation, explain, share_roofline
from tare.trace.roofline import compute_roofline

# One product of 30 µs at the peak.
WORK = Work(
    operators=[OperatorWork(name="aten::mm", count=1, flops=30_000_000, bytes=1, precision="fp32")],
    read=1,
    written=1,
)
PEAKS = make_peaks("cpu")


def on_a_host(computing: float, step: float) -> Explanation:
    """A step of so many µs, of which an operator computes for so many."""
    builder = TraceBuilder()
    builder.step(0, step)
    builder.op("aten::mm", 0, computing)
    roofline = compute_roofline(WORK, PEAKS, "fp32", "eager")
    return explain(builder.build(), About(title="host", gross=round(step * 1000)), roofline)


def rooflines(*rungs: Explanation) -> list[int]:
    return [one.waterfall.find("roofline") for one in share_roofline(rungs)]


def test_a_rung_that_computed_in_less_lowers_the_roofline_of_the_others() -> None:
    assert rooflines(on_a_host(50, 60), on_a_host(20, 20)) == [20_000, 20_000]


def test_time_in_no_operator_may_be_computing_and_so_proves_nothing() -> None:
    """As of code that was compiled ahead, of which the profiler sees nothing."""
    unseen = on_a_host(10, 100)
    assert rooflines(on_a_host(50, 60), unseen) == [30_000, 10_000]
    assert any("computes there unseen" in note for note in unseen.waterfall.notes)


def test_a_step_whose_operators_take_what_they_need_computes_nothing_unseen() -> None:
    assert not any("unseen" in note for note in on_a_host(40, 200).waterfall.notes)
