"""Explanations for the terminal: the waterfall, the device's shares, why it was idle, and where."""

from rich.console import Group, RenderableType
from rich.text import Text

from tare.report.colours import colour
from tare.report.numbers import seconds, several, size
from tare.report.table import FittingTable, Sized, fold
from tare.system.text import ending
from tare.trace.breakdown import Breakdown, ShareRange
from tare.trace.explanation import Explanation
from tare.trace.host_time import HostTime
from tare.trace.idle import IdleTime
from tare.trace.waterfall import Waterfall, WaterfallDifference

# The longest and the shortest bar, and what stands beside it in a row.
BAR, SHORTEST_BAR, BESIDE = 34, 4, 44
EIGHTHS = " ▏▎▍▌▋▊▉█"
MOST_OPERATORS = 12
PLACES = 3
WHERE = 58
IDLE = ("why idle", "of idle", "most of it", "at")
# What autograd puts before every name of its own.
_ENGINE, _NODE = "autograd::engine::evaluate_function: ", "torch::autograd::"


def explanation_view(one: Explanation) -> RenderableType:
    head = one.title + (f" · {one.device}" if one.device else "")
    parts: list[RenderableType] = [Text(head, style="bold"), Text(summary(one), style="dim"), Text("")]
    parts.append(waterfall_view(one.waterfall))
    if one.breakdown and one.idle:
        parts += [Text(""), device_view(one.breakdown, one.waterfall), Text(""), idle_view(one.idle, one.places)]
    else:
        parts += [Text(""), host_view(one.host)]
    parts += [Text(f"  note: {note}", style="yellow") for note in (*one.notes, *one.waterfall.notes)]
    if one.case:
        parts.append(Text(f"trace kept in {one.trace}", style="dim"))
    return Group(*parts)


def summary(one: Explanation) -> str:
    fall = one.waterfall
    said = "a profiled step" if fall.profiled else f"gross {seconds(fall.gross / 1e9)} a step"
    said += f", of which the {'device' if one.breakdown else 'operators'} compute{'s' if one.breakdown else ''} "
    said += percent(fall.net / fall.gross) if fall.gross else "nothing"
    if one.roofline and not one.roofline.uncounted and not one.roofline.without_peak:
        said += f"; the roofline ({one.roofline.bound}-bound) is {percent(fall.find('roofline') / fall.gross)}"
    return said


def waterfall_view(fall: Waterfall) -> RenderableType:
    """One row a segment, each bar beginning where the one before it ended."""
    return Sized(lambda width: _waterfall(fall, max(min(BAR, width - BESIDE), SHORTEST_BAR)))


def _waterfall(fall: Waterfall, width: int) -> FittingTable:
    rows: list[tuple[str, Text, str, str]] = []
    at = 0
    for segment in fall.segments:
        line = bar(at, segment.ns, fall.gross, colour(segment.name), width)
        time = "" if fall.profiled else seconds(segment.ns / 1e9)
        rows.append((segment.name, line, time, percent(segment.ns / fall.gross)))
        at += segment.ns
    name, time = ("the profiled step", "") if fall.profiled else ("gross", seconds(fall.gross / 1e9))
    rows.append((name, bar(0, fall.gross, fall.gross, "white", width), time, "100 %"))
    heads = ("where a step goes", "", " " if fall.profiled else "time", "share")
    return FittingTable(heads, rows, right=heads[2:], folds={heads[0]: 0}, spare=("",))


def bar(start: int, length: int, whole: int, style: str, width: int = BAR) -> Text:
    """A bar from the nearest character on, to an eighth of one; what is there at all shows at least that much."""
    if not whole:
        return Text()
    before = min(round(start * width / whole), width - 1)
    eighths = min(max(round(length * width * 8 / whole), 1 if length else 0), (width - before) * 8)
    full, rest = divmod(eighths, 8)
    return Text(" " * before).append("█" * full + EIGHTHS[rest].strip(), style)


def device_view(parts: Breakdown, fall: Waterfall) -> RenderableType:
    said = several(len(parts.steps), "step")
    if not fall.profiled:
        said += f"; the profiler made it {parts.window / len(parts.steps) / fall.gross:.2f}x as long"
    lines = [Text(f"the device, in shares of the profiled step ({said})", style="dim")]
    for name in ("active", "movement", "idle"):
        lines.append(Text(f"{name:<10}{spread(parts.share(name))}"))
    kernels = sum(step.kernels for step in parts.steps) / len(parts.steps)
    launches = sum(step.launches for step in parts.steps) / len(parts.steps)
    line = f"{several(kernels, 'kernel')} and {several(launches, 'launch', 'launches')} a step"
    line += f" on {several(len(parts.streams), 'stream')}"
    line += f"; the host is in launch calls {percent(parts.launching / parts.window)} of the time"
    if parts.overlapped:
        line += f"; {percent(parts.overlapped / parts.window)} on more than one stream at once"
    lines.append(Text(line))
    if parts.graph_launches:
        per = parts.graph_kernels / parts.graph_launches
        launched = several(parts.graph_launches, "CUDA graph launch", "CUDA graph launches")
        lines.append(Text(f"{launched} with {several(per, 'kernel')} each"))
    for copies in parts.copies:
        rate = copies.bytes / copies.busy if copies.busy else 0.0
        hidden = (
            ""
            if copies.direction == "device to device"
            else (f", {percent(copies.exposed / copies.busy) if copies.busy else '0 %'} of it exposed")
        )
        memory = f" ({copies.memory})" if copies.memory else ""
        count = copies.count / len(parts.steps)
        lines.append(
            Text(f"{several(count, 'copy', 'copies')} a step {copies.direction}{memory}: "
                 f"{size(copies.bytes // len(parts.steps))} "
                 f"at {rate:.3g} GB/s{hidden}")
        )  # fmt: skip
    return Group(*lines)


def idle_view(idle: IdleTime, named: IdleTime | None = None) -> RenderableType:
    rows = [(*row[:3], ending(row[3], WHERE)) for row in idle_rows(idle, named)]
    return FittingTable(IDLE, rows, right=IDLE[1:3], folds={"why idle": 0, "at": 16})


def idle_rows(idle: IdleTime, named: IdleTime | None = None) -> list[tuple[str, str, str, str]]:
    """The causes, and for each the places that hold most of it; from the trace with stacks where there is one."""
    rows = []
    for cause in sorted(idle.causes, key=lambda one: -one.idle):
        if not cause.idle:
            continue
        source = next((c for c in named.causes if c.cause == cause.cause and c.idle), cause) if named else cause
        for i, place in enumerate(source.places[:PLACES]):
            first = (cause.cause, percent(cause.idle / idle.idle)) if i == 0 else ("", "")
            where = place.where.replace(_ENGINE, "").replace(_NODE, "")
            rows.append((*first, percent(place.idle / source.idle), where))
    return rows


def host_view(time: HostTime) -> RenderableType:
    rows = []
    for one in time.operators[:MOST_OPERATORS]:
        calls = f"{one.calls / time.steps:.3g}" if one.calls else ""
        rows.append((ending(one.name, WHERE), percent(one.self_time / time.window), calls))
    rest = time.operators[MOST_OPERATORS:]
    if rest:
        share = percent(sum(one.self_time for one in rest) / time.window)
        rows.append((f"{len(rest)} others", share, f"{sum(one.calls for one in rest) / time.steps:.3g}"))
    heads = ("the host, by operator", "self", "calls a step")
    return FittingTable(heads, rows, right=heads[1:], folds={heads[0]: 12})


def against_view(found: WaterfallDifference) -> RenderableType:
    """What the other step removed, segment by segment."""
    return Sized(lambda width: _against(found, max((width - 38) // 2, 8)))


def _against(found: WaterfallDifference, widest: int) -> FittingTable:
    heads, cells = against_cells(found)
    one, other = (fold(ending(name, 30), widest) for name in heads[1:3])
    rows: list[tuple[str | Text, ...]] = [*cells[:-1], tuple(Text(text, style="bold") for text in cells[-1])]
    fitting = (heads[0], one, other, heads[3])
    return FittingTable(fitting, rows, right=fitting[1:], folds={heads[0]: 0})


def against_cells(found: WaterfallDifference) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The segments of both steps, and gross as the last row."""
    rows = [(part.name, *_times(part.ns, part.against, part.removed)) for part in found.parts]
    total = [sum(getattr(part, field) for part in found.parts) for field in ("ns", "against", "removed")]
    return ("what the second removed", found.one, found.other, "removed"), [*rows, ("gross", *_times(*total))]


def _times(ns: int, against: int, removed: int) -> tuple[str, str, str]:
    one, other, less = (seconds(abs(time) / 1e9) if time else "-" for time in (ns, against, removed))
    return one, other, f"-{less}" if removed < 0 else less


def spread(shares: ShareRange) -> str:
    if shares.most - shares.least < 0.0005:
        return percent(shares.median)
    return f"{percent(shares.median)} ({percent(shares.least)} to {percent(shares.most)})"


def percent(share: float) -> str:
    shown = 100 * share
    if 0 < shown < 0.05:
        return "<0.1 %"
    return f"{shown:.1f} %" if shown < 99.95 else "100 %"
