"""`tare.compare`: which of two is faster, by how much, and how sure is that?"""

import math
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, overload

from tare.api.display import Displayed
from tare.api.measure import BUDGET, WIDTH, Measurement, measure
from tare.api.steps import CallableProgram, clock_of
from tare.errors import BadInput, quote
from tare.guard.comparable import order_within_pairs, refuse_differences, split_differences, were_interleaved
from tare.guard.metrics import MARGIN, METRICS, values
from tare.records.figures import good_rounds
from tare.records.record import Record
from tare.report.numbers import change_text, several
from tare.stats.comparison import CONFIDENCE, Comparison, Verdict, judge
from tare.stats.comparison import compare as compare_medians
from tare.stats.intervals import Interval

if TYPE_CHECKING:
    from tare.api.ladder import MeasuredLadder, MeasuredRung
    from tare.report.view import View

Speed = Literal["faster", "slower", "same", "undecided", "different"]
WORDS: dict[Verdict, Speed] = {"lower": "faster", "higher": "slower", "same": "same", "undecided": "undecided"}
# Half of the budget is for warming up, the other half for this many pairs of blocks: enough for a test by ranks.
PAIRS = 20
# The half width of an interval of 95 % in standard deviations of a Gaussian.
HALF_WIDTH = 1.96


@dataclass(frozen=True, repr=False)
class SpeedComparison(Displayed):
    """`ratio` is the time of b over that of a, with its interval; `verdict` says what b is against a."""

    a: str
    b: str
    ratio: Interval
    verdict: Speed
    #: Two-sided, against a ratio of 1.
    p: float
    #: How the two were measured, and what the verdict assumes.
    design: str
    notes: tuple[str, ...] = ()

    def __repr__(self) -> str:
        bounds = (self.ratio.low, self.ratio.high) if self.ratio.sound else (None, None)
        return f"{self.b} against {self.a}: {change_text(self.ratio.mid, *bounds)}, {self.verdict}; {self.design}"

    def view(self) -> "View":
        from tare.report.view import View

        bounds = (self.ratio.low, self.ratio.high) if self.ratio.sound else (None, None)
        view = View(f"{self.b} against {self.a}", self.design)
        view.facts({"time": change_text(self.ratio.mid, *bounds), "verdict": self.verdict, "p": f"{self.p:.2g}"})
        return view.add("note", *self.notes)


@overload
def compare(a: "MeasuredLadder", b: "MeasuredLadder", *, margin: float = MARGIN) -> dict[str, SpeedComparison]: ...


@overload
def compare(
    a: "Callable[[], Any] | Measurement | MeasuredRung | Record",
    b: "Callable[[], Any] | Measurement | MeasuredRung | Record",
    *,
    margin: float = MARGIN,
    budget: float = 2 * BUDGET,
    device: Any = None,
) -> SpeedComparison: ...


def compare(
    a: Any, b: Any, *, margin: float = MARGIN, budget: float = 2 * BUDGET, device: Any = None
) -> "SpeedComparison | dict[str, SpeedComparison]":
    """Compares the time of a step of b with that of a.

    >>> import tare
    >>> numbers = list(range(500))
    >>> print(tare.compare(lambda: sum(numbers), lambda: sum(numbers * 20), budget=0.5).verdict)
    slower

    Two callables are measured side by side in this process, in pairs of blocks in random order: whatever changes
    the machine's speed affects both. Two results of `tare.measure` were measured apart: the comparison assumes
    that the machine was the same for both, and says so. Rungs of a ladder, and records, are compared by the
    medians of their fresh processes. Of two ladders the result is a dictionary by rung.

    b is `faster` or `slower` where the interval of the ratio lies outside `margin` (0.02: 2 %) and p is at most
    0.05, and `same` where it lies inside; otherwise `undecided`.
    """
    if not 0 <= margin < 1:
        raise BadInput(f"margin is a share such as 0.02, not {quote(margin)}")
    if isinstance(a, Measurement) and isinstance(b, Measurement):
        return _compare_measurements(a, b, margin)
    rungs_a, rungs_b = (getattr(each, "rungs", None) for each in (a, b))
    if isinstance(rungs_a, dict) and isinstance(rungs_b, dict):
        common = [name for name in rungs_a if name in rungs_b]
        if not common:
            raise BadInput(f"no rung is in both ladders: {', '.join(rungs_a)} against {', '.join(rungs_b)}")
        return {name: compare_records(rungs_a[name].record, rungs_b[name].record, margin) for name in common}
    record_a, record_b = (each if isinstance(each, Record) else getattr(each, "record", None) for each in (a, b))
    if isinstance(record_a, Record) and isinstance(record_b, Record):
        return compare_records(record_a, record_b, margin)
    if not (callable(a) and callable(b)):
        raise BadInput(
            f"compare takes two callables, two results of tare.measure, two rungs, two ladders or two records, "
            f"not {type(a).__name__} and {type(b).__name__}"
        )
    return _compare_callables(a, b, margin, budget, device)


def _compare_callables(
    a: Callable[[], Any], b: Callable[[], Any], margin: float, budget: float, device: Any
) -> SpeedComparison:
    first, second = (measure(step, budget=budget / 4, width=WIDTH, device=device) for step in (a, b))
    programs = [CallableProgram(step, (), {}) for step in (a, b)]
    clock = clock_of(programs[0].find_device(device or _device_of(first, second), None))
    block_s = budget / 2 / PAIRS / 2
    steps = [max(math.ceil(block_s / each.gross.mid), 2 if clock.overlaps else 1) for each in (first, second)]
    # Balanced: half of the pairs in either order.
    b_first = [True, False] * (PAIRS // 2)
    random.shuffle(b_first)
    times: tuple[list[float], list[float]] = ([], [])
    for begin_with_b in b_first:
        for side in (1, 0) if begin_with_b else (0, 1):
            times[side].append(clock.time(programs[side].step, steps[side]).wall_ns / steps[side] / 1e9)
    comparison = compare_medians(*times, paired=True, b_first=b_first)
    design = f"{PAIRS} pairs of blocks in random order in this process"
    return _compared(_step_names(first, second), comparison, margin, _notes(first, second), design)


def _step_names(a: Measurement, b: Measurement) -> tuple[str, str]:
    return (a.name, b.name) if a.name != b.name else (f"{a.name} (a)", f"{b.name} (b)")


def _notes(a: Measurement, b: Measurement) -> tuple[str, ...]:
    named = zip(_step_names(a, b), (a, b), strict=True)
    return tuple(f"{name}: {note}" for name, each in named for note in each.notes)


def _device_of(*measurements: Measurement) -> str | None:
    """The accelerator that either step was measured on: a clock that waits for it is right for both."""
    return next((each.device for each in measurements if each.device != "cpu"), None)


def _compare_measurements(a: Measurement, b: Measurement, margin: float) -> SpeedComparison:
    """From the intervals of two processes, or of one at two times."""
    shift = math.log(b.gross.mid / a.gross.mid)
    half = math.hypot(*(math.log(each.gross.high / each.gross.low) / 2 for each in (a, b)))
    sound = a.gross.sound and b.gross.sound
    # The p-value of a Gaussian whose interval of 95 % is the one above.
    higher = math.erfc(HALF_WIDTH * shift / half / math.sqrt(2)) / 2 if half else float(shift <= 0)
    comparison = Comparison(
        Interval(shift - half, shift, shift + half, sound).exp(), higher, 1 - higher, 1, 1, False, "none"
    )
    design = "measured apart, one process each: assumes that nothing but the step changed between them"
    return _compared(_step_names(a, b), comparison, margin, _notes(a, b), design)


def compare_records(a: Record, b: Record, margin: float = MARGIN) -> SpeedComparison:
    """By the gross of each round, each of them a fresh process."""
    names = _record_names(a, b)
    for record, name in zip((a, b), names, strict=True):
        if not good_rounds(record):
            failure = f"{record.failure.cause}: {record.failure.message}" if record.failure else "no round"
            raise BadInput(f"{name} has no time to compare ({failure})")
    _, blocking = split_differences([(a.environment, b.environment)])
    refuse_differences(blocking, remedy="records of different machines have no ratio")
    before, now = (values(record, METRICS[0]) for record in (a, b))
    common = sorted(before.keys() & now.keys())
    paired = were_interleaved(a, b) and len(common) >= 2
    x, y = (list(side.values()) for side in (before, now))
    if paired:
        x, y = ([side[i] for i in common] for side in (before, now))
    comparison = compare_medians(x, y, paired, b_first=order_within_pairs(a, b, common) if paired else ())
    design = f"{several(len(x), 'fresh process', 'fresh processes')} against {len(y)}"
    design += ", side by side" if paired else ", measured apart: assumes that the machine did not change"
    wrong = [
        f"{name} does not compute what the reference computes ({record.parity.status})"
        for record, name in zip((a, b), names, strict=True)
        if record.parity.status in ("different", "nan")
    ]
    compared = _compared(names, comparison, margin, tuple(wrong), design)
    # What computes something else is different, never faster.
    return SpeedComparison(**{**vars(compared), "verdict": "different"}) if wrong else compared


def _record_names(a: Record, b: Record) -> tuple[str, str]:
    """The rungs, where they differ; else the ids of the records."""
    if a.case.rung != b.case.rung:
        return a.case.rung, b.case.rung
    return f"{a.case.workload} {a.case.rung} ({a.id})", f"{b.case.workload} {b.case.rung} ({b.id})"


def _compared(
    names: tuple[str, str], comparison: Comparison, margin: float, notes: tuple[str, ...], design: str
) -> SpeedComparison:
    verdict = WORDS[judge(comparison, margin, level=1 - CONFIDENCE)]
    return SpeedComparison(*names, comparison.ratio, verdict, comparison.p, design, notes)
