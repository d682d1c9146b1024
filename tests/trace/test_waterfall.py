"""The waterfall: known answers, and sums that are exact whatever comes in."""

from builders import make_peaks
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace
from traces import TraceBuilder

from tare.records.work import OperatorWork, Work
from tare.trace.breakdown import breakdown
from tare.trace.idle import explain_idle
from tare.trace.roofline import compute_roofline
from tare.trace.waterfall import BUSY, Waterfall, apportion, device_waterfall, lower_roofline, waterfall_difference

PEAKS = make_peaks("cuda")
WORK = Work(
    operators=[
        OperatorWork(name="aten::mm", count=2, flops=3_000_000, bytes=1000, precision="fp32"),
        OperatorWork(name="aten::relu", count=1, flops=0, bytes=2000, precision="fp32"),
    ],
    read=1500,
    written=500,
)


def waterfall(gross: int, work: Work | None = WORK, rung: str = "eager") -> Waterfall:
    """A step of 100 us: Python 10, dispatch 10, the call 5, waiting 5, kernel 20, copy 20, tail 30."""
    builder = TraceBuilder()
    builder.step(0, 100)
    builder.op("aten::mm", 10, 60)
    builder.launch(20, 25, 30, 50)
    builder.copy("DtoH (Device -> Pinned)", 50, 70, builder.call("cudaMemcpyAsync", 26, 28), 64)
    trace = builder.build()
    parts, idle = breakdown(trace), explain_idle(trace)
    assert parts is not None
    assert idle is not None
    roofline = compute_roofline(work, PEAKS, "fp32", rung) if work else None
    made = device_waterfall("test", gross, parts, idle, roofline)
    assert sum(segment.ns for segment in made.segments) == gross
    return made


def times(made: Waterfall) -> dict[str, int]:
    return {segment.name: segment.ns for segment in made.segments}


def test_segments_of_a_step_slower_under_the_profiler() -> None:
    """FLOPs take 6 us; operator by operator 3 + 3 + 2. Gross is half the profile: only idle shrinks."""
    assert times(waterfall(50_000)) == {
        "roofline": 6000, "kernel inefficiency": 12_000, "unfused traffic": 2000, "movement": 20_000,
        # 10 us of idle time for 60: Python 10, dispatch 10, launch gaps 10, tail 30.
        "python": 1667, "dispatch": 1667, "launch gaps": 1666, "tail": 5000,
    }  # fmt: skip


def test_a_profile_faster_than_gross_is_scaled_as_a_whole() -> None:
    made = times(waterfall(200_000, work=None))
    assert (made["kernels"], made["movement"], made["python"]) == (40_000, 40_000, 20_000)


def test_a_device_busy_for_longer_than_gross_has_no_idle_time_and_a_note() -> None:
    """Kernels and copies took 20 us each. A little more gross is a little idle time: there is no jump between."""
    made = waterfall(30_000, work=None)
    assert times(made) == {"kernels": 15_000, "movement": 15_000}
    assert made.notes == [BUSY]
    assert sum(times(waterfall(40_006, work=None)).values()) - 40_000 == 6
    assert times(waterfall(40_000, work=None)) == {"kernels": 20_000, "movement": 20_000}


def test_a_rung_that_fuses_has_no_unfused_traffic() -> None:
    made = waterfall(50_000, rung="compile")
    assert made.find("unfused traffic") == 0
    assert made.find("kernel inefficiency") == 14_000
    assert any("fuses" in note for note in made.notes)


def test_a_roofline_above_the_kernels_is_clipped_with_a_note() -> None:
    much = Work(operators=WORK.operators * 10, read=0, written=0, uncounted=["aten::lstm"])
    made = waterfall(50_000, much)
    assert (made.find("roofline"), made.find("kernel inefficiency")) == (20_000, 0)
    assert any("more than the kernels took" in note for note in made.notes)
    assert any("aten::lstm" in note for note in made.notes)


def test_the_difference_adds_up_to_the_difference_of_gross() -> None:
    one, other = waterfall(50_000), waterfall(45_000, rung="compile")
    parts = waterfall_difference(one, other)
    assert sum(part.removed for part in parts) == 5000
    assert {part.name: part.removed for part in parts}["unfused traffic"] == 2000


def test_a_faster_rung_lowers_the_roofline_of_another() -> None:
    """30 µs of work at the peaks. One rung's kernels took 20 µs, another's 40: the roofline of both is 20."""
    much = Work(operators=WORK.operators * 5, read=0, written=0)
    roofline = compute_roofline(much, PEAKS, "fp32", "eager")
    assert roofline is not None
    fast, slow = waterfall(50_000, much), waterfall(200_000, much)
    assert (fast.find("roofline"), slow.find("roofline")) == (20_000, 30_000)
    shared = lower_roofline(slow, roofline, fast.find("roofline"))
    assert (shared.find("roofline"), shared.net, shared.gross) == (20_000, slow.net, slow.gross)
    assert sum(segment.ns for segment in shared.segments) == 200_000
    assert {part.name: part.removed for part in waterfall_difference(fast, shared)}["roofline"] == 0
    assert any("0.02 ms" in note for note in shared.notes)
    assert lower_roofline(fast, roofline, 20_000) == fast


def test_a_roofline_from_uncertain_peaks_is_marked() -> None:
    peaks = replace(PEAKS, caveats=["measured on a busy machine"])
    roofline = compute_roofline(WORK, peaks, "fp32", "eager")
    assert roofline is not None
    assert roofline.caveats == ["measured on a busy machine"]
    assert roofline.notes(kernels=20_000) == ["the roofline is uncertain: measured on a busy machine"]


@given(st.integers(0, 10**15), st.lists(st.integers(0, 10**12), min_size=1, max_size=9))
def test_apportion_is_exact_and_fair(total: int, weights: list[int]) -> None:
    parts = apportion(total, {str(i): weight for i, weight in enumerate(weights)})
    assert sum(parts.values()) == total
    whole = sum(weights)
    if whole:
        assert all(abs(parts[str(i)] * whole - total * weight) < whole for i, weight in enumerate(weights))
