"""All of what was explained, printed."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from rich.console import Group, RenderableType
from rich.text import Text

from tare.cases.grid import Skip
from tare.errors import Interrupted
from tare.findings.diagnosis import Diagnosis
from tare.report.colours import colour
from tare.report.explain import against_view, explanation_view, percent
from tare.report.findings import diagnosis_view, findings_view
from tare.report.numbers import seconds
from tare.report.overview import ReusedRecords, reused_line
from tare.report.table import Cell, FittingTable, Sized, fold
from tare.report.terminal import make_console, skipped_view
from tare.system.text import ending
from tare.trace.explanation import Explanation
from tare.trace.group import PARTS, UNKNOWN, DomainShares, GroupBreakdown, WorkloadShares
from tare.trace.waterfall import ORDER, WaterfallDifference

# So many rungs fit side by side; the others follow in further tables.
MOST_COLUMNS = 6
# Where the first letter of a segment is another's too.
LETTERS = {"roofline": "R", "kernel inefficiency": "i", "data loading": "D"}


class Explained(Protocol):
    """See tare.commands.explain.Explained."""

    @property
    def explanations(self) -> list[Explanation]: ...
    @property
    def diagnoses(self) -> list[Diagnosis]: ...
    @property
    def failed(self) -> dict[str, str]: ...
    @property
    def skipped(self) -> list[Skip]: ...
    @property
    def against(self) -> list[WaterfallDifference]: ...
    @property
    def breakdowns(self) -> GroupBreakdown | None: ...
    @property
    def recorded(self) -> ReusedRecords | None: ...
    @property
    def interrupted(self) -> bool: ...


def render(explained: Explained, rows: int = 0, sort: str | None = None) -> None:
    """`rows` of the tables of operators and kernels; none by default, for they are long."""
    console = make_console()
    for one, diagnosis in zip(explained.explanations, explained.diagnoses, strict=True):
        console.print(explanation_view(one))
        console.print()
        console.print(diagnosis_view(diagnosis, rows, sort) if rows else findings_view(diagnosis))
        console.print()
    for falls in ladders(explained.explanations):
        console.print(ladder_view(falls))
        console.print()
    for found in explained.against:
        console.print(against_view(found))
        console.print()
    if explained.breakdowns:
        console.print(group_view(explained.breakdowns))
    for key, why in explained.failed.items():
        console.print(Text(f"{key} has no explanation: {why}", style="red"))
    if explained.skipped:
        console.print(skipped_view(explained.skipped))
    if explained.recorded:
        console.print(Text(reused_line(explained.recorded), style="dim"))
    if explained.interrupted:
        console.print(str(Interrupted()), style="yellow")


def ladders(explanations: Sequence[Explanation]) -> list[list[Explanation]]:
    """Explanations of one workload on several rungs, or of several traces, in groups of two and more."""
    groups: dict[tuple[str, ...], list[Explanation]] = {}
    for one in explanations:
        if one.waterfall.profiled:
            continue
        parts = one.case.split("/") if one.case else [""]
        groups.setdefault((parts[0], *parts[2:]), []).append(one)
    return [found for found in groups.values() if len(found) > 1]


def rung_of(one: Explanation) -> str:
    """A rung that computes something else bears the word for it wherever it stands beside others."""
    name = one.rung or one.title
    return f"{name} ({one.differs})" if one.differs else name


def ladder_view(rungs: Sequence[Explanation]) -> RenderableType:
    """One stacked bar a rung on one scale, and the segments of all side by side."""
    return Sized(lambda width: _ladder(rungs, width))


def _ladder(rungs: Sequence[Explanation], width: int) -> RenderableType:
    most = max(one.waterfall.gross for one in rungs)
    names = [ending(rung_of(one), 34) for one in rungs]
    room = max(min(50, width - min(max(map(len, names)), 34) - 13), 8)
    rows = []
    for name, one in zip(names, rungs, strict=True):
        parts = {segment.name: segment.ns / most for segment in one.waterfall.segments}
        rows.append((name, stacked(parts, room), seconds(one.waterfall.gross / 1e9)))
    bars = FittingTable(("rung", "", "gross"), rows, folds={"rung": 0}, spare=("",))
    views: list[RenderableType] = [bars]
    side = max(min(MOST_COLUMNS, (width - 21) // 10), 1)
    for start in range(0, len(rungs), side):
        views += [Text(""), _segments(rungs[start : start + side], width)]
    return Group(*views)


def _segments(rungs: Sequence[Explanation], width: int) -> RenderableType:
    """The segments of as many rungs as fit side by side."""
    each = max((width - 21) // len(rungs) - 2, 8)
    rows: list[tuple[Text | str, ...]] = []
    for name in ORDER:
        times = [one.waterfall.find(name) for one in rungs]
        if any(times):
            rows.append((Text(name, style=colour(name)), *(seconds(ns / 1e9) if ns else "-" for ns in times)))
    totals = [seconds(one.waterfall.gross / 1e9) for one in rungs]
    rows.append(tuple(Text(text, style="bold") for text in ("gross", *totals)))
    heads = ("segment", *(fold(rung_of(one), each) for one in rungs))
    return FittingTable(heads, rows, right=heads[1:])


def stacked(parts: Mapping[str, float], width: int) -> Text:
    """Shares of `width` one after the other; each cell bears the letter of its part, for paper has no colours."""
    line, at = Text(), 0.0
    for name, share in parts.items():
        cells = round((at + share) * width) - round(at * width)
        line.append(LETTERS.get(name, name[0]) * cells, f"black on {colour(name)}")
        at += share
    return line


def group_view(found: GroupBreakdown) -> RenderableType:
    """The shares of each workload, and their means by domain."""
    return Sized(lambda width: _group(found, max(min(24, width - 72), 8)))


def _group(found: GroupBreakdown, room: int) -> RenderableType:
    # Traces of other people's have neither.
    known = [name for name in ("rung", "mode") if any(getattr(one, name) for one in found.bars)]

    def shares(one: WorkloadShares | DomainShares) -> list[str]:
        return [percent(getattr(one, part)) for part in PARTS]

    rows: list[list[Cell]] = []
    for one in found.bars:
        bar = stacked({part: getattr(one, part) for part in PARTS}, room)
        rows.append([ending(one.workload, 34), *(getattr(one, name) for name in known), bar, *shares(one)])
    folds = {"workload": 8, "rung": 0}
    bars = FittingTable(("workload", *known, "", *PARTS), rows, folds=folds, spare=("", "movement"))
    means = FittingTable(
        ("domain", *known, "workloads", *PARTS),
        [
            [one.domain, *(getattr(one, name) for name in known), str(one.workloads), *shares(one)]
            for one in (*(mean for mean in found.domains if mean.domain != UNKNOWN), *found.overall)
        ],
        folds={"domain": 0, "rung": 0},
        spare=("movement",),
    )
    parts: list[RenderableType] = [bars, Text(""), means]
    if found.missing:
        parts.append(Text(f"not in the means: {', '.join(found.missing)}", style="yellow"))
    return Group(*parts)
