"""Call depths, stacks and prices of calls as text."""

from rich.console import Group, RenderableType
from rich.text import Text

from tare.execute.call_stacks import Depth
from tare.report.numbers import duration, seconds
from tare.report.table import FittingTable, Sized, prose
from tare.report.terminal import title
from tare.stats.intervals import Interval
from tare.trace.call_cost import Cost
from tare.trace.call_stack import Stack

# The abstraction paper (docs/sources.md), figure 4: calls between Conv2d.forward and cudnnConvolutionForward in
# PyTorch of 2020, by gdb.
PAPER = {"eager": "30+61", "libtorch": "61", "torchscript": "14", "vendor": "1"}
# A column's head and the part that it counts: CPython is the interpreter's C frames.
COLUMNS = {
    "Python": "python",
    "CPython": "interpreter",
    "framework": "framework",
    "vendor": "vendor",
    "system": "system",
}
# Of a function, and what stands beside it in a line.
LONGEST_NAME, BESIDE_NAME = 60, 42


def depth_view(depths: list[Depth]) -> RenderableType:
    """The ladder of depths. Interpreter and system frames have a column only where there are any."""
    good = [depth for depth in depths if depth.stack]
    kept = [c for c in COLUMNS if c in ("Python", "framework", "vendor") or any(_count(d, c) for d in good)]
    rows = []
    for depth in good:
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
    blind = {f"{entry}: {why}" for depth in depths for entry, why in depth.blind.items()}
    parts += [Text(f"  not watched: {line}", style="yellow") for line in sorted(blind)]
    return Group(*parts)


def stack_view(depth: Depth) -> RenderableType:
    """A stack from the user's call down to the vendor library, Python's own frames first."""
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


def cost_view(cost: Cost) -> RenderableType:
    heads = ("rung", "frames", "a call", "above", "a frame", "bare", "share", "parity")
    rows = []
    for price in cost.prices:
        if price.call is None:
            continue
        seen = price.above if price.above and price.above.low > 0 else None
        rows.append(
            (
                price.rung,
                _frames(price.passed),
                _beyond_noise(price.call),
                _beyond_noise(price.above),
                _beyond_noise(price.frame),
                seconds(price.bare),
                f"{min(price.bare / seen.mid, 1):.0%}" if price.bare and seen else "-",
                price.parity,
            )
        )
    spare = ("share", "bare", "frames", "above")
    table = FittingTable(heads, rows, right=heads[1:-1], folds={"rung": 0}, spare=spare)
    parts: list[RenderableType] = [
        Text("the price of one call of a convolution that computes next to nothing", style="bold"),
        table,
        *(Text(f"  {p.rung} failed: {p.failure}", style="red") for p in cost.prices if p.failure),
    ]
    for what, interval in (("C++", cost.native_frame), ("Python", cost.python_frame)):
        if interval and interval.mid > 0:
            costs = duration(interval)
            parts.append(prose(f"  a frame of {what} that does nothing costs {costs}", [costs], style="dim"))
    parts += [
        Text(f"  above: what a call takes more than on {cost.cheapest}; a frame: that per frame, work included"),
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


def _count(depth: Depth, column: str) -> int:
    return depth.stack.count(COLUMNS[column]) if depth.stack else 0  # type: ignore[arg-type]


def _frames(stack: Stack | None) -> str:
    if stack is None:
        return "-"
    return f"{len(stack.python)}+{len(stack.native)}" if stack.python else str(len(stack.native))


def _beyond_noise(interval: Interval | None) -> str:
    if interval is None or interval.low == interval.mid == 0:
        return "-"
    return duration(interval) if interval.low > 0 else "noise"
