"""The regions that a program marked: their calls, the host's time inside, and the device's."""

from synthetic import steps
from traces import TraceBuilder

from tare.report.explain import regions_view
from tare.report.terminal import plain_text
from tare.trace.explanation import About, explain
from tare.trace.regions import Region, regions


def fill(trace: TraceBuilder, at: float) -> None:
    """A step of 1000 µs: loading for 300, then a model of 500 whose backward pass another thread launches."""
    trace.annotation("data loading", at + 10, at + 110)
    trace.annotation("data loading", at + 200, at + 400)
    trace.annotation("model", at + 400, at + 900)
    trace.annotation("backward", at + 600, at + 800)
    trace.op("aten::mm", at + 450, at + 500)
    trace.launch(at + 460, at + 470, at + 480, at + 580)
    trace.launch(at + 650, at + 660, at + 700, at + 750, thread=77)
    trace.annotation("tare::collection", at + 910, at + 920)


def test_each_region_has_its_calls_and_times() -> None:
    assert regions(steps(fill, 2).build()) == [
        Region(name="model", calls=2, host=1_000_000, device=300_000),
        Region(name="data loading", calls=4, host=600_000, device=0),
        Region(name="backward", calls=2, host=400_000, device=100_000),
    ]


def test_a_region_within_itself_counts_once() -> None:
    def recurse(trace: TraceBuilder, at: float) -> None:
        trace.annotation("outer", at, at + 100)
        trace.annotation("outer", at + 20, at + 60)

    (region,) = regions(steps(recurse, 1).build())
    assert (region.calls, region.host) == (2, 100_000)


def test_the_explanation_shows_them_as_shares_of_gross() -> None:
    explanation = explain(steps(fill, 2).build(), About(title="t", gross=2_000_000))
    text = plain_text(regions_view(explanation))
    rows = {line.split("  ")[0]: line.split()[-7:] for line in text.splitlines()[1:]}
    # Half of the profiled step of 1 ms, and of the 2 ms that the step takes without the profiler.
    assert rows["model"] == ["1", "1.0", "ms", "50.0", "%", "15.0", "%"]
    assert rows["data loading"] == ["2", "600", "µs", "30.0", "%", "0.0", "%"]


def test_a_trace_without_regions_shows_no_table() -> None:
    explanation = explain(steps(lambda trace, at: trace.op("aten::mm", at, at + 9), 2).build(), About(title="t"))
    assert explanation.regions == []
    assert plain_text(regions_view(explanation)).strip() == ""
