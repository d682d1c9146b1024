"""Call depth: the frames between the user's call and the vendor library, and what a call costs on each rung.

The cost of a call is the difference between a long and a short chain of calls, so that what a step costs once
cancels. The same difference for frames that do nothing, in C++ and in Python, times the depth is the time that
depth alone can cost. The rest of a call is the work that its frames do.
"""

import math
from collections.abc import Sequence
from statistics import median
from typing import Literal

import msgspec

from tare.cases.case import Case
from tare.records.figures import round_median
from tare.records.record import Failure, Round
from tare.stats.intervals import Interval, process_interval

FramePart = Literal["python", "interpreter", "framework", "vendor", "system"]
CallKind = Literal["convolution", "product", "recurrent", "graph", "other"]


class Frame(msgspec.Struct, frozen=True):
    name: str
    where: str
    part: FramePart


class Stack(msgspec.Struct, frozen=True, kw_only=True):
    """From the entry point of the vendor library (first) to the user's call (last).

    Python frames are a separate stack: since CPython 3.11 a Python function called by another has no C frame.
    """

    entry: str
    kind: CallKind
    # False for a call of another thread, whose stack does not lead to the user's call.
    anchored: bool
    python: tuple[Frame, ...]
    native: tuple[Frame, ...]

    def count(self, part: FramePart) -> int:
        return sum(frame.part == part for frame in (*self.python, *self.native))

    @property
    def total(self) -> int:
        return len(self.python) + len(self.native)


class CallDepth(msgspec.Struct, kw_only=True):
    """The stack of one library call on one rung, and the depths of the step's other calls of the same kind.

    `stack` is None if the step called no vendor library, for example because its kernels were generated.
    """

    case: Case
    stack: Stack | None = None
    # The number of calls of this kind in the step, and their fewest and most frames.
    calls: int = 0
    least: int = 0
    most: int = 0
    # Entry points that could not be watched, with the reason.
    unwatched: dict[str, str] = {}
    failure: Failure | None = None


class CallCost(msgspec.Struct, kw_only=True):
    """Seconds of one call on one rung. `above` is the difference from the cheapest rung."""

    rung: str
    depth: CallDepth | None
    call: Interval | None = None
    above: Interval | None = None
    # What this depth would cost if its frames did nothing.
    bare: float | None = None
    parity: str = "unchecked"
    failure: str | None = None

    @property
    def stack_per_call(self) -> Stack | None:
        """The frames that each call passes; None for a captured graph, which passes its frames once a step."""
        stack = self.depth.stack if self.depth else None
        return stack if stack and stack.kind != "graph" else None

    @property
    def frame(self) -> Interval | None:
        """Seconds above the cheapest rung per frame, work included."""
        if self.above is None or self.stack_per_call is None:
            return None
        count = self.stack_per_call.total
        low, mid, high, sound = self.above
        return Interval(low / count, mid / count, high / count, sound)


class CallCosts(msgspec.Struct, kw_only=True):
    rungs: list[CallCost]
    cheapest: str | None
    # Seconds of a frame that does nothing.
    native_frame: Interval | None
    python_frame: Interval | None


def call_cost(depth: CallDepth, short: Sequence[Round], long: Sequence[Round], more_calls: int) -> CallCost:
    """The cost of a call, from rounds of two chains of which the long one has `more_calls` more calls."""
    failure = next((r.failure for r in (*short, *long) if r.failure), None)
    return CallCost(
        rung=depth.case.rung,
        depth=depth,
        call=slope(short, long, more_calls),
        parity=next((r.parity.status for r in long if r.parity), "unchecked"),
        failure=f"{failure.cause}: {failure.message}" if failure else None,
    )


def slope(short: Sequence[Round], long: Sequence[Round], more: int) -> Interval | None:
    """Seconds per additional unit, over pairs of rounds. Pairs with a failure or without a second round are
    ignored.

    The interval is not sound for one pair, or where noise makes the slope of a pair negative.
    """
    slopes = []
    for few, many in zip(short, long, strict=False):
        low, high = round_median(few, "pipelined"), round_median(many, "pipelined")
        if low and high and not (few.failure or many.failure):
            slopes.append((high.mid - low.mid) / more)
    if not slopes:
        return None
    if len(slopes) == 1 or min(slopes) <= 0:
        return Interval(min(slopes), median(slopes), max(slopes), sound=False)
    return process_interval(slopes)


def compare_costs(costs: list[CallCost], native: Interval | None, python: Interval | None) -> CallCosts:
    """Adds to each rung the difference from the cheapest, and the cost of its depth alone.

    A rung that computes something else, or whose cost is lost in noise, is not the cheapest.
    """
    sound = [cost for cost in costs if cost.call and cost.call.low > 0 and cost.parity not in ("different", "nan")]
    cheapest = min(sound, key=lambda cost: cost.call.mid if cost.call else 0.0, default=None)
    for cost in sound:
        if cheapest and cheapest.call and cost.call:
            cost.above = _difference(cost.call, cheapest.call)
    for cost in costs:
        stack = cost.stack_per_call
        if stack and native and (python or not stack.python):
            cost.bare = len(stack.native) * native.mid + len(stack.python) * (python.mid if python else 0.0)
    name = cheapest.rung if cheapest else None
    return CallCosts(rungs=costs, cheapest=name, native_frame=native, python_frame=python)


def _difference(left: Interval, right: Interval) -> Interval:
    """The difference of two independent estimates: half widths add as squares. It is 0 for the same estimate."""
    half = 0.0 if left is right else math.hypot(left.high - left.low, right.high - right.low) / 2
    mid = left.mid - right.mid
    return Interval(mid - half, mid, mid + half, left.sound and right.sound)
