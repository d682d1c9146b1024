"""Which steps count: those that took as long as most, whoever asks and however often."""

from hypothesis import example, given
from hypothesis import strategies as st
from traces import TraceBuilder

from tare.findings.amounts import weigh
from tare.trace.tables import Trace
from tare.trace.windows import typical

# The median is 10, and 16 too long for it; of what is left the median is 6, and 10 would be too long for that.
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
def test_the_typical_steps_of_typical_steps_are_all_of_them(lengths: list[int], device: bool) -> None:
    once = typical(steps_of(lengths, device))
    assert typical(once).steps.counted.tolist() == once.steps.counted.tolist()
    assert once.steps.counted.any()
    weighed = weigh(once, gross_s=1e-5)
    assert weighed.steps == once.steps.counted.sum() == len(weighed.whole["aten::mm"].each)


def test_a_step_left_out_before_still_tells_what_is_usual() -> None:
    assert typical(typical(steps_of(SHRINKING, False))).steps.counted.tolist() == [1, 1, 1, 1, 1, 0, 0, 0, 0]
