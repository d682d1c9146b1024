"""The timeline of one step as a figure that can be zoomed."""

from tare.report.numbers import seconds, several
from tare.report.page import PageChart
from tare.report.svg import COLOURS, colour
from tare.trace.step_timeline import StepTimeline

# Colours of what the device does; causes of idle time have those of the waterfall.
WORK = {
    "computing": COLOURS["kernels"],
    "communicating": COLOURS["communicating"],
    "moving": COLOURS["movement"],
    "setting memory": COLOURS["unfused traffic"],
    "launch call": COLOURS["launch gaps"],
    "device-side waiting": COLOURS["launch gaps"],
}


def timeline_chart(timeline: StepTimeline, number: int, title: str) -> PageChart:
    names: dict[str, int] = {}
    groups: dict[str, str] = {}
    tracks = []
    for track in timeline.tracks:
        spans = []
        for span in track.spans:
            groups.setdefault(span.group, WORK.get(span.group) or colour(span.group))
            spans.append([span.start, span.duration, names.setdefault(span.name, len(names)), span.group])
        tracks.append({"name": track.name, "kind": track.kind, "spans": spans})
    length = seconds(timeline.length / 1e9)
    text = f"step {timeline.step}, {length} in the profiled run; drag to zoom, double-click to go back"
    if timeline.hidden:
        text += (
            f"; {several(timeline.hidden, 'span')} of at most {seconds(timeline.longest_hidden / 1e9)} not drawn"
        )
    figure = {
        "kind": "timeline",
        "length": timeline.length,
        "names": list(names),
        "groups": groups,
        "tracks": tracks,
    }
    return PageChart(f"timeline-{number}", title, text, figure)
