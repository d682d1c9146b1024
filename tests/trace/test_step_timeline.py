"""The timeline of a step: what it shows of the device adds up to the step, and to the causes of its idle time."""

from collections import Counter
from pathlib import Path

import pytest
from synthetic import kernels, steps

from tare.report.timeline import timeline_chart
from tare.trace import step_timeline as timelines
from tare.trace.idle import explain_idle
from tare.trace.read import read
from tare.trace.step_timeline import StepTimeline, step_timeline

FOLDER = Path(__file__).parent / "recorded"
TRACES = ("resnet50-infer-b32-eager-nosync", "inefficient-exceptions-stack", "resnext50-infer-b32-eager-streams")


def covered(timeline: StepTimeline, kinds: tuple[str, ...]) -> int:
    """The length of the union of all spans on tracks of these kinds."""
    spans = sorted(
        (span.start, span.start + span.duration) for t in timeline.tracks if t.kind in kinds for span in t.spans
    )
    total, reached = 0, 0
    for start, end in spans:
        total += max(end - max(start, reached), 0)
        reached = max(reached, end)
    return total


def drawn(name: str) -> StepTimeline:
    timeline = step_timeline(read(FOLDER / f"{name}.json.gz"))
    assert timeline is not None
    return timeline


@pytest.mark.parametrize("name", TRACES)
def test_work_and_idle_time_fill_the_step_without_overlap(name: str) -> None:
    timeline = drawn(name)
    idle, busy = covered(timeline, ("idle",)), covered(timeline, ("stream",))
    assert idle + busy == timeline.length
    for track in timeline.tracks:
        ends = 0
        for span in track.spans:
            assert 0 <= span.start <= timeline.length - span.duration
            if track.kind == "idle":
                assert span.start >= ends
                ends = span.start + span.duration


def test_causes_are_those_of_the_explanation() -> None:
    """Of a trace with one step, all idle time by cause."""
    trace = steps(lambda making, at: kernels(making, at, every=200), count=1).build()
    timeline, idle = step_timeline(trace), explain_idle(trace)
    assert timeline is not None
    assert idle is not None
    shown: Counter[str] = Counter()
    (track,) = (track for track in timeline.tracks if track.kind == "idle")
    for span in track.spans:
        shown[span.group] += span.duration
    assert shown == {cause.cause: cause.idle for cause in idle.causes if cause.idle}
    work = [span for track in timeline.tracks if track.kind == "stream" for span in track.spans]
    assert [(span.start, span.duration) for span in work] == [(8000 + 200_000 * i, 10_000) for i in range(4)]
    assert {span.group for span in work} == {"computing"}


def test_the_shortest_spans_give_way_and_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    whole = drawn(TRACES[0])
    spans = sum(len(track.spans) for track in whole.tracks)
    monkeypatch.setattr(timelines, "MOST_SPANS", 100)
    some = drawn(TRACES[0])
    kept = [span for track in some.tracks for span in track.spans]
    assert 50 < len(kept) <= 100
    assert some.hidden == spans - len(kept)
    assert min(span.duration for span in kept) > some.longest_hidden
    assert "not drawn" in timeline_chart(some, 0, "t").subtitle


def test_the_chart_has_every_span_and_a_colour_for_each_group() -> None:
    timeline = drawn(TRACES[1])
    figure = timeline_chart(timeline, 3, "one step").figure
    assert [len(track["spans"]) for track in figure["tracks"]] == [len(track.spans) for track in timeline.tracks]
    groups = {span[3] for track in figure["tracks"] for span in track["spans"]}
    assert groups == set(figure["groups"])
    assert all(colour.startswith("#") for colour in figure["groups"].values())
