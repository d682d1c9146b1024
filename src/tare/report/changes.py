"""A comparison for the terminal: changed figures in full, the rest in one line."""

import math
from collections import Counter
from collections.abc import Iterator
from typing import Literal, NamedTuple

from tare.guard.changes import CallChange, CaseChange, MetricChange, Report
from tare.report.numbers import change_text, decimals, scale_of, seconds, several, size, value
from tare.report.view import FittingTable, View
from tare.system.text import beginning

MAX_CALL_CHANGES = 6
MAX_KEYS = 5
# Digits of a difference that are worth seeing, and the most of a figure.
DIGITS_OF_DIFFERENCE, MOST_DIGITS = 2, 5
STATES = {
    "broken": "fails now",
    "different": "computes something else now",
    "failed": "fails on both sides",
    "fixed": "works now, and failed before",
}
NEWLY_FAILING = "fails in some rounds now, and did not before"


def wrong_with(case: CaseChange) -> str:
    """Why a case is bad apart from its figures; empty if it is not."""
    if case.state in ("broken", "different"):
        return f"{STATES[case.state]}: {case.reason}"
    return f"{NEWLY_FAILING}: {case.reason}" if case.newly_failing else ""


def state_of(case: CaseChange) -> str:
    """What is to be said of a case apart from its figures; empty if there is nothing."""
    if wrong := wrong_with(case):
        return wrong
    return case.reason if case.state == "compared" else f"{STATES[case.state]}: {case.reason}"


def source_line(case: CaseChange) -> str:
    """That the model itself was edited: a change of its figures may be intended."""
    return f"the model's source differs: {case.source_change}" if case.source_change else ""


def changes_view(report: Report, everything: bool = False) -> View:
    """`everything` also shows metrics that did not change."""
    view = View(f"{report.b} against {report.a}").add("aside", *report.compared)
    view.add("warning", *(f"not comparable, and forced: {line}" for line in report.forced))
    for case in report.cases:
        _add_case(view, case, everything)
    view.add("warning", *unfinished_lines(report))
    view.add("note", *report.notes)
    for label, keys in only_in(report).items():
        view.add("warning", f"not compared, only in {label}:").add("key", *keys[:MAX_KEYS])
        view.add("item", _more(len(keys) - MAX_KEYS))
    return view.add("bad" if report.bad else "title", summary_line(report))


def only_in(report: Report) -> dict[str, list[str]]:
    """The cases that only one side has, by that side's name: a reader must not take them for compared."""
    sides = ((report.b, report.only_b), (report.a, report.only_a))
    return {label: keys for label, keys in sides if keys}


def unfinished_lines(report: Report) -> list[str]:
    """What is undecided because the time was over: a reader must not take it for unchanged."""
    return [f"{key}: out of time after {measured}, undecided" for key, measured in report.unfinished.items()]


class Problem(NamedTuple):
    """What a CI must show of a comparison. `change` is the figure that got worse, where it is one."""

    level: Literal["error", "warning"]
    rule: str
    case: str
    text: str
    change: MetricChange | None = None


def problems(report: Report) -> Iterator[Problem]:
    for case in report.cases:
        if state := wrong_with(case) or (case.reason if case.state == "compared" else ""):
            rule = "failed-rounds" if case.state == "compared" else case.state
            yield Problem("error" if wrong_with(case) else "warning", rule, case.case, state)
        for leak in case.leaks:
            yield Problem("error", "leak", case.case, f"leak: {leak}")
        for change in case.changes:
            if change.worse:
                text = f"{change.metric} is {change.verdict}: {change_of(change)}; {remark(change)}"
                yield Problem("error" if change.regression else "warning", change.metric, case.case, text, change)
    for key, measured in report.unfinished.items():
        yield Problem("warning", "out-of-time", key, f"out of time after {measured}: undecided")
    for line in report.forced:
        yield Problem("warning", "not-comparable", "environment", f"not comparable, and forced: {line}")


def summary_line(report: Report) -> str:
    """`2 regressions in 1 of 12 cases, 1 not compared; gross: 9 same, 2 undecided, 1 slower`"""
    count = sum(len(case.regressions) + len(case.leaks) + bool(wrong_with(case)) for case in report.bad)
    head = f"no regression in {several(len(report.cases), 'case')}"
    if report.unfinished:
        measured = sum(case.case not in report.unfinished for case in report.cases)
        every = len(report.cases) + len(report.unfinished.keys() - {case.case for case in report.cases})
        head = f"out of time: {len(report.unfinished)} of {several(every, 'case')} undecided"
        head += f", no regression in the other {measured}" if measured else ""
    if count:
        head = f"{several(count, 'regression')} in {len(report.bad)} of {len(report.cases)} cases"
    if report.only_b:
        head += f", {len(report.only_b)} not compared"
    verdicts = Counter(c.verdict for case in report.cases for c in case.changes if c.metric == "gross")
    text = ", ".join(f"{n} {verdict}" for verdict, n in verdicts.most_common())
    return f"{head}; gross: {text}" if text else head


def change_of(change: MetricChange) -> str:
    """The relative change with its interval, or the difference of an exact metric."""
    if not change.exact and change.ratio is not None:
        return change_text(change.ratio, change.low, change.high)
    difference = change.b - change.a
    if change.unit != "B":
        return f"{difference:+g}"
    return f"{'-' if difference < 0 else '+'}{size(round(abs(difference)))}"


def before_and_now(change: MetricChange) -> tuple[str, str]:
    """Both figures with digits enough to see the change, and no more than the noise leaves. They have one unit
    where they are near each other: of 993 µs and 1.0 ms nobody sees which is larger."""
    small, large = sorted((change.a, change.b))
    if not change.unit or small <= 0 or small == large or large > 10 * small:
        return value(change.a, change.unit), value(change.b, change.unit)
    scale, unit = scale_of(small, change.unit)
    shown = small / scale
    places = DIGITS_OF_DIFFERENCE - 1 - math.floor(math.log10((large - small) / scale))
    if change.low is not None and change.high is not None and change.high > change.low:
        # Up to the first digit that is uncertain.
        places = min(places, -math.floor(math.log10(shown * (change.high - change.low) / 2)))
    places = min(places, MOST_DIGITS - 1 - math.floor(math.log10(shown)))
    places = max(decimals(shown, 0, 2 if shown < 10 else 3), places, 0)
    return f"{change.a / scale:.{places}f} {unit}", f"{change.b / scale:.{places}f} {unit}"


def share(number: float) -> str:
    """7%, 2.5%"""
    return f"{number * 100:.3g}%"


def remark(change: MetricChange) -> str:
    """Threshold, confirmation, outliers and notes of a change."""
    parts = []
    if change.regression:
        parts.append(_over(change))
    elif change.worse:
        parts.append(f"under the threshold of {share(change.threshold)}")
    if change.stage != "first":
        parts.append(f"{change.stage} in {change.rounds_b} fresh rounds")
    if change.undecided_because:
        parts.append(change.undecided_because)
    if change.more_rounds is not None:
        parts.append(f"{several(change.more_rounds, 'more round')} would probably decide")
    if change.outliers:
        parts.append(f"{several(change.outliers, 'outlier')} excluded")
    if change.note:
        parts.append(change.note)
    return ", ".join(parts)


def _over(change: MetricChange) -> str:
    """An interval that only reaches the threshold does not prove that the change exceeds it."""
    if not change.threshold:
        return "any increase counts"
    proven = change.low if change.low is not None else change.ratio
    sure = proven is None or proven > 1 + change.threshold
    return f"{'over' if sure else 'perhaps over'} {share(change.threshold)}"


def _add_case(view: View, case: CaseChange, everything: bool) -> None:
    view.add("bad" if case.bad else "key", case.case)
    view.add("aside", source_line(case))
    view.add("failure" if wrong_with(case) else "warning", state_of(case))
    view.add("failure", *(f"leak: {leak}" for leak in case.leaks))
    shown = [c for c in case.changes if everything or is_change(c) or c.stage != "first" or c.metric == "gross"]
    words, folds = ("metric", "verdict"), {"change": 0, "remark": 0}
    rows = [change_cells(change) for change in shown]
    view.put(FittingTable(rows, words=words, folds=folds, spare=("before", "now"), heads={"remark": ""}))
    if case.bad:
        # What differs in the step of a regressed case, in a few lines.
        view.add("aside", *map(call_line, case.call_changes[:MAX_CALL_CHANGES]))
        view.add("aside", _more(len(case.call_changes) - MAX_CALL_CHANGES, " (--format markdown)"))


def call_line(call: CallChange) -> str:
    """`slower: operator aten::mm, 2 to 3 ms a step`, or that Python takes longer."""
    times = f"{seconds(call.before_s or 0.0)} to {seconds(call.after_s or 0.0)} a step"
    if call.kind == "python":
        grown = seconds((call.after_s or 0.0) - (call.before_s or 0.0))
        where, _, functions = call.name.partition(", in ")
        return f"{where} grew by {grown}, {times}{f', in {functions}' if functions else ''}"
    if not (call.before_s and call.after_s and call.before_calls == call.after_calls):
        times = f"{call.before_calls:g} to {call.after_calls:g} calls a step"
    return f"{call.status}: {call.kind} {beginning(call.name, 60)}, {times}"


def is_change(change: MetricChange) -> bool:
    return change.worse or change.verdict not in ("same", "undecided")


def change_cells(change: MetricChange) -> dict[str, str]:
    before, now = before_and_now(change)
    return {
        "metric": change.metric,
        "before": before,
        "now": now,
        "change": change_of(change),
        "verdict": change.verdict,
        "remark": remark(change),
    }


def _more(hidden: int, where: str = "") -> str:
    return f"and {hidden} more{where}" if hidden > 0 else ""
