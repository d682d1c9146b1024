"""Explanations for the terminal: the waterfall, the device's shares, why it was idle, and where."""

from rich.console import Group, RenderableType
from rich.text import Text

from tare.report.colours import colour
from tare.report.numbers import seconds, several, size
from tare.report.terminal import simple_table
from tare.trace.breakdown import Breakdown, Spread
from tare.trace.explanation import Explanation
from tare.trace.hosttime import HostTime
from tare.trace.idle import Idle
from tare.trace.waterfall import Against, Waterfall

BAR = 34
EIGHTHS = " ▏▎▍▌▋▊▉█"
MOST_OPERATORS = 12
PLACES = 3
WHERE = 58
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
    if one.floor and not one.floor.uncounted and not one.floor.unpriced:
        said += f"; the floor ({one.floor.bound}-bound) is {percent(fall.find('floor') / fall.gross)}"
    return said


def waterfall_view(fall: Waterfall) -> RenderableType:
    """One row a segment, each bar beginning where the one before it ended."""
    heads = ("where a step goes", "", "" if fall.profiled else "time", "share")
    table = simple_table(*heads, right=slice(2, None))
    at = 0
    for segment in fall.segments:
        table.add_row(
            segment.name,
            bar(at, segment.ns, fall.gross, colour(segment.name)),
            "" if fall.profiled else seconds(segment.ns / 1e9),
            percent(segment.ns / fall.gross),
        )
        at += segment.ns
    table.add_row(
        "the profiled step" if fall.profiled else "gross",
        bar(0, fall.gross, fall.gross, "white"),
        "" if fall.profiled else seconds(fall.gross / 1e9),
        "100 %",
    )
    return table


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


def idle_view(idle: Idle, named: Idle | None = None) -> RenderableType:
    """The causes, and for each the places that hold most of it; from the trace with stacks where there is one."""
    table = simple_table("why idle", "of idle", "most of it at", right=slice(1, 2))
    table.columns[0].min_width, table.columns[1].min_width = 19, 7
    for cause in sorted(idle.causes, key=lambda one: -one.idle):
        if not cause.idle:
            continue
        source = next((c for c in named.causes if c.cause == cause.cause and c.idle), cause) if named else cause
        for i, place in enumerate(source.places[:PLACES]):
            first = (cause.cause, percent(cause.idle / idle.idle)) if i == 0 else ("", "")
            where = place.where.replace(_ENGINE, "").replace(_NODE, "")
            table.add_row(*first, f"{percent(place.idle / source.idle):>6}  {shorten(where)}")
    return table


def host_view(time: HostTime) -> RenderableType:
    table = simple_table("the host, by operator", "self", "calls a step", right=slice(1, None))
    for one in time.operators[:MOST_OPERATORS]:
        calls = f"{one.calls / time.steps:.3g}" if one.calls else ""
        table.add_row(shorten(one.name), percent(one.self_time / time.window), calls)
    rest = time.operators[MOST_OPERATORS:]
    if rest:
        share = percent(sum(one.self_time for one in rest) / time.window)
        table.add_row(f"{len(rest)} others", share, f"{sum(one.calls for one in rest) / time.steps:.3g}")
    return table


def against_view(found: Against) -> RenderableType:
    """What the other step removed, segment by segment."""
    one, other = (shorten(name, 30) for name in (found.one, found.other))
    table = simple_table("what the second removed", one, other, "removed", right=slice(1, None))
    for part in found.parts:
        table.add_row(part.name, *_times(part.ns, part.against, part.removed))
    total = [sum(getattr(part, field) for part in found.parts) for field in ("ns", "against", "removed")]
    table.add_row("gross", *_times(*total), style="bold")
    return table


def _times(ns: int, against: int, removed: int) -> tuple[str, str, str]:
    one, other, less = (seconds(abs(time) / 1e9) if time else "-" for time in (ns, against, removed))
    return one, other, f"-{less}" if removed < 0 else less


def spread(shares: Spread) -> str:
    if shares.most - shares.least < 0.0005:
        return percent(shares.median)
    return f"{percent(shares.median)} ({percent(shares.least)} to {percent(shares.most)})"


def percent(share: float) -> str:
    shown = 100 * share
    if 0 < shown < 0.05:
        return "<0.1 %"
    return f"{shown:.1f} %" if shown < 99.95 else "100 %"


def shorten(where: str, longest: int = WHERE) -> str:
    """The end of a place says more than its beginning."""
    return where if len(where) <= longest else "…" + where[-longest + 1 :]
