"""Call depths, stacks and costs of calls as text."""

from tare.records.call_depth import CallCost, CallCosts, CallDepth, FramePart, Stack
from tare.report.ladder import title
from tare.report.numbers import duration, seconds
from tare.report.view import FittingTable, View
from tare.stats.intervals import Interval

# The abstraction paper (docs/sources.md), figure 4: calls between Conv2d.forward and cudnnConvolutionForward in
# PyTorch of 2020, by gdb.
PAPER = {"eager": "30+61", "libtorch": "61", "torchscript": "14", "vendor": "1"}
# The heading of a column and the part that it counts. CPython: C frames of the interpreter.
COLUMNS: dict[str, FramePart] = {
    "Python": "python",
    "CPython": "interpreter",
    "framework": "framework",
    "vendor": "vendor",
    "system": "system",
}
HEAD = "frames from the user's call to the first vendor call; range: over all; paper: Levental & Orlova, 2020"


def depth_view(depths: list[CallDepth]) -> View:
    """The ladder of depths. Interpreter and system frames have a column only where there are any."""
    stacks = [depth.stack for depth in depths if depth.stack]
    kept = {
        head: part
        for head, part in COLUMNS.items()
        if part in ("python", "framework", "vendor") or any(stack.count(part) for stack in stacks)
    }
    rows = [
        {
            "rung": depth.case.rung,
            **{head: str(depth.stack.count(part)) for head, part in kept.items()},
            "total": str(depth.stack.total),
            "range": str(depth.least) if depth.least == depth.most else f"{depth.least}-{depth.most}",
            "paper": PAPER.get(depth.case.rung, "-"),
            "reaches": short(depth.stack.entry, 24),
        }
        for depth in depths
        if depth.stack
    ]
    spare, folds = ("system", "paper", "CPython", "range"), {"rung": 0, "reaches": 12}
    view = View(title(depths[0].case), HEAD).put(FittingTable(rows, folds=folds, spare=spare))
    for depth in depths:
        if depth.failure:
            view.add("failure", f"{depth.case.rung}: {depth.failure.cause}, {depth.failure.message}")
        elif not depth.stack:
            view.add("item", f"{depth.case.rung}: no vendor library was seen to be called in the step")
    unwatched = {f"{entry}: {why}" for depth in depths for entry, why in depth.unwatched.items()}
    return view.add("warning", *(f"not watched: {line}" for line in sorted(unwatched)))


def stack_view(depth: CallDepth) -> View:
    """A stack from the user's call down to the vendor library, Python frames first."""
    stack = depth.stack
    frames = (*reversed(stack.python), *reversed(stack.native)) if stack else ()
    rows = [{"": f"  {frame.part}", " ": short(frame.name, 60), "  ": short(frame.where, 24)} for frame in frames]
    view = View(depth.case.rung).put(FittingTable(rows, words=("", "  "), folds={" ": 12}))
    return view.add("item", "" if rows else "no stack")


def cost_view(costs: CallCosts) -> View:
    rows = [_cost_cells(cost, cost.call) for cost in costs.rungs if cost.call]
    spare = ("share", "bare", "frames", "above")
    view = View("the cost of one call of a convolution that computes next to nothing")
    view.put(FittingTable(rows, words=("parity",), folds={"rung": 0}, spare=spare))
    view.add("failure", *(f"{cost.rung} failed: {cost.failure}" for cost in costs.rungs if cost.failure))
    for language, interval in (("C++", costs.native_frame), ("Python", costs.python_frame)):
        if interval and interval.mid > 0:
            view.add("aside", f"a frame of {language} that does nothing costs {duration(interval)}")
    return view.add(
        "item",
        f"above: what a call takes more than on {costs.cheapest}; a frame: that per frame, work included",
        "bare: what the frames would take if they did nothing; share: its part of 'above'",
    )


def _cost_cells(cost: CallCost, call: Interval) -> dict[str, str]:
    above = cost.above if cost.above and cost.above.low > 0 else None
    return {
        "rung": cost.rung,
        "frames": _frames(cost.stack_per_call),
        "a call": _beyond_noise(call),
        "above": _beyond_noise(cost.above),
        "a frame": _beyond_noise(cost.frame),
        "bare": seconds(cost.bare),
        "share": f"{min(cost.bare / above.mid, 1):.0%}" if cost.bare and above else "-",
        "parity": cost.parity,
    }


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


def _frames(stack: Stack | None) -> str:
    if stack is None:
        return "-"
    return f"{len(stack.python)}+{len(stack.native)}" if stack.python else str(len(stack.native))


def _beyond_noise(interval: Interval | None) -> str:
    if interval is None or interval.low == interval.mid == 0:
        return "-"
    return duration(interval) if interval.low > 0 else "noise"
