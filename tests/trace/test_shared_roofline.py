"""One roofline for the rungs of a ladder."""

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
    """A step of `step` µs, of which an operator computes for `computing` µs."""
    builder = TraceBuilder()
    builder.step(0, step)
    builder.op("aten::mm", 0, computing)
    roofline = compute_roofline(WORK, PEAKS, "fp32", "eager")
    return explain(builder.build(), About(title="host", gross=round(step * 1000)), roofline)


def rooflines(*rungs: Explanation) -> list[int]:
    return [one.waterfall.find("roofline") for one in share_roofline(rungs)]


def test_a_faster_rung_lowers_the_roofline_of_the_others() -> None:
    assert rooflines(on_a_host(50, 60), on_a_host(20, 20)) == [20_000, 20_000]


def test_time_outside_operators_may_be_computing() -> None:
    """Code that was compiled ahead of time is not seen by the profiler."""
    unseen = on_a_host(10, 100)
    assert rooflines(on_a_host(50, 60), unseen) == [30_000, 10_000]
    assert any("computes there unseen" in note for note in unseen.waterfall.notes)


def test_a_step_whose_operators_cover_the_work_has_no_note() -> None:
    assert not any("unseen" in note for note in on_a_host(40, 200).waterfall.notes)
