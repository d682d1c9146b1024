"""What `tare explain` found: the report, and its views for the terminal."""

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec
from rich.console import Group, RenderableType
from rich.text import Text

from tare.cases.plan import Skip
from tare.errors import Interrupted
from tare.findings.diagnosis import Diagnosis
from tare.records.work import Peaks
from tare.report.findings import diagnosis_view, findings_view
from tare.report.numbers import seconds, several, size
from tare.report.overview import ReusedRecords, reused_line
from tare.report.svg import colour
from tare.report.table import Cell, FittingTable, Sized, fold
from tare.report.terminal import make_console, skipped_view
from tare.system.text import ending
from tare.trace.breakdown import Breakdown, ShareRange
from tare.trace.explanation import Explanation
from tare.trace.group import PARTS, UNKNOWN, DomainShares, GroupBreakdown, WorkloadShares, group_breakdowns
from tare.trace.host_time import HostTime
from tare.trace.idle import IdleTime
from tare.trace.waterfall import ORDER, Waterfall, WaterfallDifference

# The widths of the longest and the shortest bar of a waterfall, and of the columns beside it.
MAX_BAR, MIN_BAR, BESIDE_BAR = 34, 4, 44
EIGHTHS = " ▏▎▍▌▋▊▉█"
MAX_OPERATORS = 12
MAX_PLACES = 3
WHERE_WIDTH = 58
# This many rungs fit side by side; the others follow in further tables.
MAX_RUNGS = 6
IDLE_HEADS = ("why idle", "of idle", "most of it", "at")
# Letters of the segments that share their first letter with another.
LETTERS = {"roofline": "R", "kernel inefficiency": "i", "data loading": "D"}
# Prefixes that autograd adds to every name of its own.
_AUTOGRAD_PREFIXES = ("autograd::engine::evaluate_function: ", "torch::autograd::")


class ExplainReport(msgspec.Struct, kw_only=True):
    """Everything that was asked for. `diagnoses` has findings, tables and memory for each explanation, in the same
    order; `failed` says why a case has no explanation."""

    explanations: list[Explanation]
    diagnoses: list[Diagnosis]
    failed: dict[str, str] = {}
    # Combinations that are impossible here and rungs that no profiler sees into, with the reason.
    skipped: list[Skip] = []
    against: list[WaterfallDifference] = []
    peaks: list[Peaks] = []
    # Where records of earlier runs were reused.
    recorded: ReusedRecords | None = None
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        return 130 if self.interrupted else 1 if self.failed or not self.explanations else 0

    @property
    def breakdowns(self) -> GroupBreakdown | None:
        """Side by side, where several workloads were explained on a device; the host alone has no breakdown."""
        if len({one.workload or one.title for one in self.explanations}) < 2:
            return None
        breakdowns = group_breakdowns(self.explanations, self.failed)
        return breakdowns if breakdowns.bars else None

    def document(self) -> dict[str, Any]:
        fields = {name: getattr(self, name) for name in self.__struct_fields__}
        return fields | {"breakdowns": self.breakdowns}

    @property
    def ladders(self) -> list[list[Explanation]]:
        """Explanations of one workload on several rungs, or of several traces, in groups of two and more."""
        groups: dict[tuple[str, ...], list[Explanation]] = {}
        for one in self.explanations:
            if not one.waterfall.profiled:
                workload, *rest = one.case.split("/") if one.case else [""]
                groups.setdefault((workload, *rest[1:]), []).append(one)
        return [group for group in groups.values() if len(group) > 1]


def print_report(report: ExplainReport, rows: int = 0, sort: str | None = None) -> None:
    """`rows` of the tables of operators and kernels, which are long and not shown by default."""
    console = make_console()
    views: list[RenderableType] = []
    for explanation, diagnosis in zip(report.explanations, report.diagnoses, strict=True):
        views.append(explanation_view(explanation))
        views.append(diagnosis_view(diagnosis, rows, sort) if rows else findings_view(diagnosis))
    views += [ladder_view(rungs) for rungs in report.ladders]
    views += [against_view(difference) for difference in report.against]
    for view in views:
        console.print(view)
        console.print()
    if report.breakdowns:
        console.print(group_view(report.breakdowns))
    for key, reason in report.failed.items():
        console.print(Text(f"{key} has no explanation: {reason}", style="red"))
    if report.skipped:
        console.print(skipped_view(report.skipped))
    if report.recorded:
        console.print(Text(reused_line(report.recorded), style="dim"))
    if report.interrupted:
        console.print(str(Interrupted()), style="yellow")


def explanation_view(one: Explanation) -> RenderableType:
    title = one.title + (f" · {one.device}" if one.device else "")
    parts: list[RenderableType] = [Text(title, style="bold"), Text(summary(one), style="dim"), Text("")]
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
    waterfall = one.waterfall
    step = "a profiled step" if waterfall.profiled else f"gross {seconds(waterfall.gross / 1e9)} a step"
    who = "the device computes" if one.breakdown else "the operators compute"
    text = f"{step}, of which {who} {percent(waterfall.net / waterfall.gross) if waterfall.gross else 'nothing'}"
    if one.roofline and not one.roofline.uncounted and not one.roofline.without_peak:
        share = percent(waterfall.find("roofline") / waterfall.gross)
        uncertain = ", uncertain" if one.roofline.caveats else ""
        text += f"; the roofline ({one.roofline.bound}-bound{uncertain}) is {share}"
    return text


def waterfall_view(waterfall: Waterfall) -> RenderableType:
    """One row a segment; each bar starts where the previous one ended."""
    return Sized(lambda width: _waterfall(waterfall, max(min(MAX_BAR, width - BESIDE_BAR), MIN_BAR)))


def _waterfall(waterfall: Waterfall, width: int) -> FittingTable:
    gross = waterfall.gross
    rows: list[tuple[str, Text, str, str]] = []
    start = 0
    for segment in waterfall.segments:
        time = "" if waterfall.profiled else seconds(segment.ns / 1e9)
        segment_bar = bar(start, segment.ns, gross, colour(segment.name), width)
        rows.append((segment.name, segment_bar, time, percent(segment.ns / gross)))
        start += segment.ns
    name, time = ("the profiled step", "") if waterfall.profiled else ("gross", seconds(gross / 1e9))
    rows.append((name, bar(0, gross, gross, "white", width), time, "100 %"))
    heads = ("where a step goes", "", " " if waterfall.profiled else "time", "share")
    return FittingTable(heads, rows, right=heads[2:], folds={heads[0]: 0}, spare=("",))


def bar(start: int, length: int, total: int, style: str, width: int = MAX_BAR) -> Text:
    """A bar with a resolution of an eighth of a character; a length above zero shows at least one eighth."""
    if not total:
        return Text()
    before = min(round(start * width / total), width - 1)
    eighths = min(max(round(length * width * 8 / total), 1 if length else 0), (width - before) * 8)
    full, rest = divmod(eighths, 8)
    return Text(" " * before).append("█" * full + EIGHTHS[rest].strip(), style)


def device_view(parts: Breakdown, waterfall: Waterfall) -> RenderableType:
    steps = len(parts.steps)
    scope = several(steps, "step")
    if not waterfall.profiled:
        scope += f"; the profiler made it {parts.window / steps / waterfall.gross:.2f}x as long"
    lines = [Text(f"the device, in shares of the profiled step ({scope})", style="dim")]
    lines += [Text(f"{name:<10}{share_range(parts.share(name))}") for name in PARTS]
    kernels, launches = (sum(getattr(step, name) for step in parts.steps) for name in ("kernels", "launches"))
    text = f"{several(kernels / steps, 'kernel')} and {several(launches / steps, 'launch', 'launches')} a step"
    text += f" on {several(len(parts.streams), 'stream')}"
    text += f"; the host is in launch calls {percent(parts.launching / parts.window)} of the time"
    if parts.overlapped:
        text += f"; {percent(parts.overlapped / parts.window)} on more than one stream at once"
    lines.append(Text(text))
    if parts.graph_launches:
        launched = several(parts.graph_launches, "CUDA graph launch", "CUDA graph launches")
        lines.append(Text(f"{launched} with {several(parts.graph_kernels / parts.graph_launches, 'kernel')} each"))
    for copies in parts.copies:
        rate = copies.bytes / copies.busy if copies.busy else 0.0
        memory = f" ({copies.memory})" if copies.memory else ""
        text = f"{several(copies.count / steps, 'copy', 'copies')} a step {copies.direction}{memory}: "
        text += f"{size(copies.bytes // steps)} at {rate:.3g} GB/s"
        if copies.direction != "device to device":
            text += f", {percent(copies.exposed / copies.busy) if copies.busy else '0 %'} of it exposed"
        lines.append(Text(text))
    return Group(*lines)


def idle_view(idle: IdleTime, located: IdleTime | None = None) -> RenderableType:
    rows = [(*row[:3], ending(row[3], WHERE_WIDTH)) for row in idle_rows(idle, located)]
    return FittingTable(IDLE_HEADS, rows, right=IDLE_HEADS[1:3], folds={"why idle": 0, "at": 16})


def idle_rows(idle: IdleTime, located: IdleTime | None = None) -> list[tuple[str, str, str, str]]:
    """The causes with the places that hold most of each; the places come from `located`, a trace with stacks,
    where it has the same cause."""
    rows = []
    for cause in sorted(idle.causes, key=lambda cause: -cause.idle):
        if not cause.idle:
            continue
        candidates = located.causes if located else []
        source = next((other for other in candidates if other.cause == cause.cause and other.idle), cause)
        for i, place in enumerate(source.places[:MAX_PLACES]):
            first = (cause.cause, percent(cause.idle / idle.idle)) if i == 0 else ("", "")
            where = place.where
            for prefix in _AUTOGRAD_PREFIXES:
                where = where.replace(prefix, "")
            rows.append((*first, percent(place.idle / source.idle), where))
    return rows


def host_view(time: HostTime) -> RenderableType:
    rows = []
    for operator in time.operators[:MAX_OPERATORS]:
        calls = f"{operator.calls / time.steps:.3g}" if operator.calls else ""
        rows.append((ending(operator.name, WHERE_WIDTH), percent(operator.self_time / time.window), calls))
    others = time.operators[MAX_OPERATORS:]
    if others:
        share = percent(sum(operator.self_time for operator in others) / time.window)
        calls = f"{sum(operator.calls for operator in others) / time.steps:.3g}"
        rows.append((f"{len(others)} others", share, calls))
    heads = ("the host, by operator", "self", "calls a step")
    return FittingTable(heads, rows, right=heads[1:], folds={heads[0]: 12})


def against_view(difference: WaterfallDifference) -> RenderableType:
    """What the second step removed, segment by segment."""
    return Sized(lambda width: _against(difference, max((width - 38) // 2, 8)))


def _against(difference: WaterfallDifference, widest: int) -> FittingTable:
    heads, cells = against_cells(difference)
    one, other = (fold(ending(name, 30), widest) for name in heads[1:3])
    rows: list[tuple[str | Text, ...]] = [*cells[:-1], tuple(Text(text, style="bold") for text in cells[-1])]
    fitting = (heads[0], one, other, heads[3])
    return FittingTable(fitting, rows, right=fitting[1:], folds={heads[0]: 0})


def against_cells(difference: WaterfallDifference) -> tuple[tuple[str, ...], list[tuple[str, ...]]]:
    """The heads of the columns, and the rows: the segments of both steps, and gross as the last."""
    rows = [(part.name, *_times(part.ns, part.against, part.removed)) for part in difference.parts]
    total = [sum(getattr(part, field) for part in difference.parts) for field in ("ns", "against", "removed")]
    heads = ("what the second removed", difference.one, difference.other, "removed")
    return heads, [*rows, ("gross", *_times(*total))]


def _times(ns: int, against: int, removed: int) -> tuple[str, str, str]:
    one, other, less = (seconds(abs(time) / 1e9) if time else "-" for time in (ns, against, removed))
    return one, other, f"-{less}" if removed < 0 else less


def rung_label(one: Explanation) -> str:
    """A rung that computes something else is marked wherever it is shown beside others."""
    name = one.rung or one.title
    return f"{name} ({one.differs})" if one.differs else name


def ladder_view(rungs: Sequence[Explanation]) -> RenderableType:
    """One stacked bar a rung on one scale, and the segments of all side by side."""
    return Sized(lambda width: _ladder(rungs, width))


def _ladder(rungs: Sequence[Explanation], width: int) -> RenderableType:
    longest = max(one.waterfall.gross for one in rungs)
    names = [ending(rung_label(one), 34) for one in rungs]
    bar_width = max(min(50, width - min(max(map(len, names)), 34) - 13), 8)
    rows = []
    for name, one in zip(names, rungs, strict=True):
        parts = {segment.name: segment.ns / longest for segment in one.waterfall.segments}
        rows.append((name, stacked_bar(parts, bar_width), seconds(one.waterfall.gross / 1e9)))
    views: list[RenderableType] = [
        FittingTable(("rung", "", "gross"), rows, folds={"rung": 0}, spare=("",)),
    ]
    columns = max(min(MAX_RUNGS, (width - 21) // 10), 1)
    for start in range(0, len(rungs), columns):
        views += [Text(""), _segments(rungs[start : start + columns], width)]
    return Group(*views)


def _segments(rungs: Sequence[Explanation], width: int) -> RenderableType:
    column_width = max((width - 21) // len(rungs) - 2, 8)
    rows: list[tuple[Text | str, ...]] = []
    for name in ORDER:
        times = [one.waterfall.find(name) for one in rungs]
        if any(times):
            rows.append((Text(name, style=colour(name)), *(seconds(ns / 1e9) if ns else "-" for ns in times)))
    totals = [seconds(one.waterfall.gross / 1e9) for one in rungs]
    rows.append(tuple(Text(text, style="bold") for text in ("gross", *totals)))
    heads = ("segment", *(fold(rung_label(one), column_width) for one in rungs))
    return FittingTable(heads, rows, right=heads[1:])


def stacked_bar(parts: Mapping[str, float], width: int) -> Text:
    """Shares of `width` side by side; each cell has the letter of its part, for prints without colours."""
    line, start = Text(), 0.0
    for name, share in parts.items():
        cells = round((start + share) * width) - round(start * width)
        line.append(LETTERS.get(name, name[0]) * cells, f"black on {colour(name)}")
        start += share
    return line


def group_view(breakdown: GroupBreakdown) -> RenderableType:
    """The shares of each workload, and their means by domain."""
    return Sized(lambda width: _group(breakdown, max(min(24, width - 72), 8)))


def _group(breakdown: GroupBreakdown, bar_width: int) -> RenderableType:
    # Traces that tare did not record have neither.
    known = [name for name in ("rung", "mode") if any(getattr(row, name) for row in breakdown.bars)]

    def labels(row: WorkloadShares | DomainShares) -> list[str]:
        return [getattr(row, name) for name in known]

    def shares(row: WorkloadShares | DomainShares) -> list[str]:
        return [percent(getattr(row, part)) for part in PARTS]

    rows: list[list[Cell]] = [
        [
            ending(row.workload, 34),
            *labels(row),
            stacked_bar({part: getattr(row, part) for part in PARTS}, bar_width),
            *shares(row),
        ]
        for row in breakdown.bars
    ]
    heads = ("workload", *known, "", *PARTS)
    workloads = FittingTable(heads, rows, folds={"workload": 8, "rung": 0}, spare=("", "movement"))
    means = FittingTable(
        ("domain", *known, "workloads", *PARTS),
        [
            [mean.domain, *labels(mean), str(mean.workloads), *shares(mean)]
            for mean in (*breakdown.domains, *breakdown.overall)
            if mean.domain != UNKNOWN
        ],
        folds={"domain": 0, "rung": 0},
        spare=("movement",),
    )
    parts: list[RenderableType] = [workloads, Text(""), means]
    if breakdown.missing:
        parts.append(Text(f"not in the means: {', '.join(breakdown.missing)}", style="yellow"))
    return Group(*parts)


def share_range(shares: ShareRange) -> str:
    if shares.most - shares.least < 0.0005:
        return percent(shares.median)
    return f"{percent(shares.median)} ({percent(shares.least)} to {percent(shares.most)})"


def percent(share: float) -> str:
    shown = 100 * share
    if 0 < shown < 0.05:
        return "<0.1 %"
    return f"{shown:.1f} %" if shown < 99.95 else "100 %"
