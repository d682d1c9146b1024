"""What depth costs: the time of one call through each rung, and the time that its frames alone would take.

A chain of tiny convolutions is timed at two lengths by the ordinary sampler, in fresh processes, without the
counter. The difference is the price of the additional calls: whatever a step costs once cancels. The same is
done for frames that do nothing, in C++ and in Python: their price times the depth is what depth alone can cost.
The rest of a call is what its frames do, which no timing from outside can attribute to one of them.
"""

import math
from collections.abc import Iterable
from statistics import median

import msgspec

from tare.cases.case import Case
from tare.cases.options import Options
from tare.execute.call_stacks import Depth
from tare.execute.tasks import ErrandExecutor
from tare.records.figures import round_median
from tare.records.record import Round
from tare.rungs.native.build import executable
from tare.stats.intervals import Interval, process_interval
from tare.trace.call_stack import Stack

FEW, MANY = 8, 40
# About as deep as the rungs are: a processor predicts the way back from some sixteen calls, and from no more.
SHALLOW, DEEP = 5, 55
# Bare frames of C++ are no rung; they are measured like one, and this is their name meanwhile.
NATIVE = "descend"
DESCENT = "tare-descend"


class Price(msgspec.Struct, kw_only=True):
    """One call through one rung. `above` is what it takes more than on the cheapest rung."""

    rung: str
    depth: Depth | None
    call: Interval | None = None
    above: Interval | None = None
    # What this depth would cost if its frames did nothing.
    bare: float | None = None
    parity: str = "unchecked"
    failure: str | None = None

    @property
    def passed(self) -> Stack | None:
        """The frames that each call passes. A captured graph's are passed once a step, whatever it calls."""
        stack = self.depth.stack if self.depth else None
        return stack if stack and stack.kind != "graph" else None

    @property
    def frame(self) -> Interval | None:
        """Seconds above the cheapest rung for each frame that stands there, work included."""
        if self.above is None or self.passed is None:
            return None
        count = self.passed.total
        low, mid, high, sound = self.above
        return Interval(low / count, mid / count, high / count, sound)


class Cost(msgspec.Struct, kw_only=True):
    prices: list[Price]
    cheapest: str | None
    # Seconds of a frame that does nothing.
    native_frame: Interval | None
    python_frame: Interval | None


class Timing:
    """Times the rungs of `depths` (their cases are chains of calls), and bare frames, round by round in turn. What
    it has measured when it is interrupted has its prices too."""

    def __init__(self, depths: Iterable[Depth]) -> None:
        self._depths = [depth for depth in depths if depth.failure is None]
        self.cases = [_long(depth.case, length) for depth in self._depths for length in (FEW, MANY)]
        self._bare = [_python(SHALLOW), _python(DEEP), _native(SHALLOW), _native(DEEP)]
        self._rounds: dict[str, list[Round]] = {case.key: [] for case in (*self.cases, *self._bare)}

    def measure(self, executor: ErrandExecutor, options: Options) -> None:
        for index in range(options.rounds):
            for case in (*self.cases, *self._bare):
                executor.say(f"timing {case.workload} {case.rung} {index + 1}/{options.rounds}")
                self._rounds[case.key].append(_measure(executor, case, index, options))

    def cost(self) -> Cost:
        of = self._rounds
        prices = [
            _price(depth, of[_long(depth.case, FEW).key], of[_long(depth.case, MANY).key])
            for depth in self._depths
        ]
        native = _slope(of[_native(SHALLOW).key], of[_native(DEEP).key], DEEP - SHALLOW)
        python = _slope(of[_python(SHALLOW).key], of[_python(DEEP).key], DEEP - SHALLOW)
        return compare_prices(prices, native, python)


def compare_prices(prices: list[Price], native: Interval | None, python: Interval | None) -> Cost:
    """Each rung beside the cheapest, and beside what its depth alone would cost. One that computes something
    else is no floor for the others."""
    sound = [p for p in prices if p.call and p.call.low > 0 and p.parity not in ("different", "nan")]
    cheapest = min(sound, key=lambda p: p.call.mid if p.call else 0.0, default=None)
    for one in sound:
        if cheapest and cheapest.call and one.call:
            one.above = _difference(one.call, cheapest.call)
    for one in prices:
        stack = one.passed
        if stack and native and (python or not stack.python):
            one.bare = len(stack.native) * native.mid + len(stack.python) * (python.mid if python else 0.0)
    return Cost(
        prices=prices,
        cheapest=cheapest.rung if cheapest else None,
        native_frame=native,
        python_frame=python,
    )


def _difference(one: Interval, other: Interval) -> Interval:
    """Of two independent estimates; their half widths add as squares. Nothing differs from itself."""
    half = 0.0 if one is other else math.hypot(one.high - one.low, other.high - other.low) / 2
    mid = one.mid - other.mid
    return Interval(mid - half, mid, mid + half, one.sound and other.sound)


def _measure(executor: ErrandExecutor, case: Case, index: int, options: Options) -> Round:
    if case.rung == NATIVE:
        return executor.run_program((str(executable(DESCENT)),), case, index, options)
    # Once a rung, that it computes what the others do.
    return executor.run_round(case, index, options, check=index == 0 and case.sizes.get("calls") == MANY)


def _price(depth: Depth, few: list[Round], many: list[Round]) -> Price:
    failed = next((r.failure for r in (*few, *many) if r.failure), None)
    parity = next((r.parity.status for r in many if r.parity), "unchecked")
    return Price(
        rung=depth.case.rung,
        depth=depth,
        call=_slope(few, many, MANY - FEW),
        parity=parity,
        failure=f"{failed.cause}: {failed.message}" if failed else None,
    )


def _slope(short: list[Round], long: list[Round], more: int) -> Interval | None:
    """Seconds for each of the additional ones, over the rounds; within a round both were measured one after
    another. Where noise makes a round's difference negative the interval is not sound, and says so. A round that
    was interrupted between the two does not count."""
    slopes = []
    for one, other in zip(short, long, strict=False):
        low, high = round_median(one, "pipelined"), round_median(other, "pipelined")
        if low and high and not (one.failure or other.failure):
            slopes.append((high.mid - low.mid) / more)
    if not slopes:
        return None
    if len(slopes) == 1 or min(slopes) <= 0:
        return Interval(min(slopes), median(slopes), max(slopes), sound=False)
    return process_interval(slopes)


def _long(case: Case, calls: int) -> Case:
    return msgspec.structs.replace(case, sizes={**case.sizes, "calls": calls})


def _python(depth: int) -> Case:
    return Case(workload="frame_chain", rung="eager", batch=1, sizes={"depth": depth})


def _native(depth: int) -> Case:
    # The batch is how native/frames/descend.cpp is told its depth; no workload is involved.
    return Case(workload="frame_chain", rung=NATIVE, batch=depth)
