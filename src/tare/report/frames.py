"""Call depths, stacks and costs of calls as text."""

from rich.console import Group, RenderableType
from rich.text import Text

from tare.records.call_depth import CallCosts, CallDepth, Stack
from tare.report.numbers import duration, seconds
from tare.report.table import FittingTable, Sized, prose
from tare.report.terminal import title
from tare.stats.intervals import Interval

# The abstraction paper (docs/sources.md), figure 4: calls between Conv2d.forward and cudnnConvolutionForward in
# PyTorch of 2020, by gdb.
PAPER = {"eager": "30+61", "libtorch": "61", "torchscript": "14", "vendor": "1"}
# The heading of a column and the part that it counts. CPython: C frames of the interpreter.
COLUMNS = {
    "Python": "python",
    "CPython": "interpreter",
    "framework": "framework",
    "vendor": "vendor",
    "system": "system",
}
# Of a function's name, and of the rest of its line.
LONGEST_NAME, BESIDE_NAME = 60, 42


def depth_view(depths: list[CallDepth]) -> RenderableType:
    """The ladder of depths. Interpreter and system frames have a column only where there are any."""
    counted = [depth for depth in depths if depth.stack]
    kept = [c for c in COLUMNS if c in ("Python", "framework", "vendor") or any(_count(d, c) for d in counted)]
    rows = []
    for depth in counted:
        assert depth.stack is not None
        counts = (str(_count(depth, column)) for column in kept)
        spread = str(depth.least) if depth.least == depth.most else f"{depth.least}-{depth.most}"
        paper = PAPER.get(depth.case.rung, "-")
        total, entry = str(depth.stack.total), short(depth.stack.entry, 24)
        rows.append((depth.case.rung, *counts, total, spread, paper, entry))
    heads = ("rung", *kept, "total", "range", "paper", "reaches")
    spare, folds = ("system", "paper", "CPython", "range"), {"rung": 0, "reaches": 12}
    table = FittingTable(heads, rows, right=heads[1:-1], folds=folds, spare=spare)
    parts: list[RenderableType] = [Text(title(depths[0].case), style="bold")]
    head = "frames from the user's call to the first vendor call; range: over all; paper: Levental & Orlova, 2020"
    parts += [Text(head, style="dim"), table]
    for depth in depths:
        if depth.failure:
            parts.append(Text(f"  {depth.case.rung}: {depth.failure.cause}, {depth.failure.message}", style="red"))
        elif not depth.stack:
            parts.append(Text(f"  {depth.case.rung}: no vendor library was seen to be called in the step"))
    unwatched = {f"{entry}: {why}" for depth in depths for entry, why in depth.unwatched.items()}
    parts += [Text(f"  not watched: {line}", style="yellow") for line in sorted(unwatched)]
    return Group(*parts)


def stack_view(depth: CallDepth) -> RenderableType:
    """A stack from the user's call down to the vendor library, Python frames first."""
    lines = [Text(f"{depth.case.rung}", style="bold")]
    stack = depth.stack
    if stack is None:
        return Group(*lines, Text("  no stack"))
    if stack.python:
        lines.append(Text("  Python", style="dim"))
        lines += [Text(f"    {frame.name}  {frame.where}") for frame in reversed(stack.python)]
    lines.append(Text("  C and C++", style="dim"))
    return Group(*lines, Sized(lambda width: _native(stack, max(min(LONGEST_NAME, width - BESIDE_NAME), 12))))


def _native(stack: Stack, longest: int) -> RenderableType:
    return Group(
        *(
            Text(f"    {frame.part:<11} {short(frame.name, longest)}  {short(frame.where, 24)}")
            for frame in reversed(stack.native)
        )
    )


def cost_view(costs: CallCosts) -> RenderableType:
    heads = ("rung", "frames", "a call", "above", "a frame", "bare", "share", "parity")
    rows = []
    for cost in costs.rungs:
        if cost.call is None:
            continue
        above = cost.above if cost.above and cost.above.low > 0 else None
        rows.append(
            (
                cost.rung,
                _frames(cost.stack_per_call),
                _beyond_noise(cost.call),
                _beyond_noise(cost.above),
                _beyond_noise(cost.frame),
                seconds(cost.bare),
                f"{min(cost.bare / above.mid, 1):.0%}" if cost.bare and above else "-",
                cost.parity,
            )
        )
    spare = ("share", "bare", "frames", "above")
    table = FittingTable(heads, rows, right=heads[1:-1], folds={"rung": 0}, spare=spare)
    parts: list[RenderableType] = [
        Text("the cost of one call of a convolution that computes next to nothing", style="bold"),
        table,
        *(Text(f"  {cost.rung} failed: {cost.failure}", style="red") for cost in costs.rungs if cost.failure),
    ]
    for language, interval in (("C++", costs.native_frame), ("Python", costs.python_frame)):
        if interval and interval.mid > 0:
            time = duration(interval)
            parts.append(prose(f"  a frame of {language} that does nothing costs {time}", [time], style="dim"))
    parts += [
        Text(f"  above: what a call takes more than on {costs.cheapest}; a frame: that per frame, work included"),
        Text("  bare: what the frames would take if they did nothing; share: its part of 'above'"),
    ]
    return Group(*parts)


def short(name: str, most: int) -> str:
    """A function's name without parameters and template arguments, cut to what a line holds."""
    depth, kept = 0, []
    for character in name.replace("(anonymous namespace)", "{anonymous}"):
        if character == "(" and depth == 0:
            break
        if character == "<":
            depth += 1
            kept.append("<>" if depth == 1 else "")
        elif character == ">":
            depth -= 1
        elif depth == 0:
            kept.append(character)
    text = "".join(kept)
    return text if len(text) <= most else f"{text[: most // 2 - 2]}...{text[-(most // 2 - 1) :]}"


def _count(depth: CallDepth, column: str) -> int:
    return depth.stack.count(COLUMNS[column]) if depth.stack else 0  # type: ignore[arg-type]


def _frames(stack: Stack | None) -> str:
    if stack is None:
        return "-"
    return f"{len(stack.python)}+{len(stack.native)}" if stack.python else str(len(stack.native))


def _beyond_noise(interval: Interval | None) -> str:
    if interval is None or interval.low == interval.mid == 0:
        return "-"
    return duration(interval) if interval.low > 0 else "noise"
