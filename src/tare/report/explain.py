"""What `tare explain` found: the report, its views, and its files."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.text import Text

from tare.cases.plan import Skip
from tare.errors import Interrupted
from tare.findings.diagnosis import Diagnosis
from tare.records.work import Peaks
from tare.report.charts import breakdown_svg, ladder_svg, waterfall_svg
from tare.report.files import several_files, write_whole
from tare.report.findings import diagnosis_view, findings_view, top_kernels_view
from tare.report.modules import module_tree_part, modules_view
from tare.report.numbers import percent, seconds, several, signed, size
from tare.report.overview import ReusedRecords, reused_line, skipped_view
from tare.report.page import PagePart, render_page
from tare.report.ranks import job_view
from tare.report.serving import serving_view
from tare.report.svg import colour
from tare.report.terminal import make_console
from tare.report.timeline import timeline_chart
from tare.report.view import Cell, Drawing, FittingTable, View
from tare.trace.breakdown import Breakdown, ShareRange
from tare.trace.explanation import Explanation
from tare.trace.group import (
    COMMUNICATING_PARTS,
    PARTS,
    UNKNOWN,
    DomainShares,
    GroupBreakdown,
    WorkloadShares,
    group_breakdowns,
    parts_of,
)
from tare.trace.host_time import HostTime
from tare.trace.idle import IdleTime
from tare.trace.job import RankJob
from tare.trace.read import read
from tare.trace.step_timeline import step_timeline
from tare.trace.waterfall import ORDER, Waterfall, WaterfallDifference

EIGHTHS = " ▏▎▍▌▋▊▉█"
MAX_OPERATORS = 12
MAX_PLACES = 3
MAX_REGIONS = 8
# This many rungs fit side by side; the others follow in further tables.
MAX_RUNGS = 6
# A timeline takes a second to be made, and some hundred kilobytes.
MOST_TIMELINES = 8
# The rows of each table of a page.
PAGE_ROWS = 10
# The longest place on a terminal. Its end says most.
WHERE = -58
# Letters of the segments that share their first letter with another.
LETTERS = {
    "roofline": "R",
    "kernel inefficiency": "i",
    "data loading": "D",
    "communication": "c",
    "communicating": "c",
    "host waiting": "h",
    "work before the trace": "w",
    "not known": "?",
}
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
    # Of several ranks: the job. The explanations are then those of one rank.
    job: RankJob | None = None
    # Where records of earlier runs were reused.
    recorded: ReusedRecords | None = None
    # How the command of --live ended, where that is a failure.
    command_failed: str = ""
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        failed = self.failed or self.command_failed or not self.explanations
        return 130 if self.interrupted else 1 if failed else 0

    @property
    def breakdowns(self) -> GroupBreakdown | None:
        """Side by side, where several workloads were explained on a device; the host alone has no breakdown."""
        if len({explanation.workload or explanation.title for explanation in self.explanations}) < 2:
            return None
        breakdowns = group_breakdowns(self.explanations, self.failed)
        return breakdowns if breakdowns.bars else None

    def document(self) -> dict[str, Any]:
        document = msgspec.structs.asdict(self) | {"breakdowns": self.breakdowns}
        if self.job is None:
            del document["job"]
        if not self.command_failed:
            del document["command_failed"]
        return document

    @property
    def ladders(self) -> list[list[Explanation]]:
        """Explanations of one workload on several rungs, or of several traces, in groups of two and more."""
        groups: dict[tuple[str, ...], list[Explanation]] = {}
        for explanation in self.explanations:
            if not explanation.waterfall.profiled:
                workload, *rest = explanation.case.split("/") if explanation.case else [""]
                groups.setdefault((workload, *rest[1:]), []).append(explanation)
        return [group for group in groups.values() if len(group) > 1]


def print_report(report: ExplainReport, rows: int = 0, sort: str | None = None, depth: int = 0) -> None:
    """`rows` of the tables of operators and kernels and `depth` levels of modules, which are long and not shown by
    default."""
    views = [*_case_views(report, rows, sort, depth), *_overviews(report), _outcome(report)]
    make_console().print(View().show(*views))


def write_html(report: ExplainReport, path: Path) -> None:
    title = ", ".join(dict.fromkeys(explanation.title for explanation in report.explanations))
    parts: list[PagePart] = [*_overviews(report), *_case_views(report, PAGE_ROWS)]
    for number, (explanation, diagnosis) in enumerate(zip(report.explanations, report.diagnoses, strict=True)):
        parts += _zoomable(explanation, diagnosis, number)
    write_whole(path, render_page(f"tare explain: {title}", *parts, _outcome(report)))


def _zoomable(explanation: Explanation, diagnosis: Diagnosis, number: int) -> Iterator[PagePart]:
    """What only a page can show: the timeline of a step, and the tree of the modules."""
    if number < MOST_TIMELINES and Path(explanation.trace).is_file():
        timeline = step_timeline(read(Path(explanation.trace)))
        if timeline is not None:
            yield timeline_chart(timeline, number, f"One step of {explanation.title}")
    if diagnosis.modules is not None:
        yield module_tree_part(diagnosis.modules, f"Modules of {explanation.title}")


def _case_views(report: ExplainReport, rows: int, sort: str | None = None, depth: int = 0) -> Iterator[View]:
    if report.job:
        yield job_view(report.job)
    for explanation, diagnosis in zip(report.explanations, report.diagnoses, strict=True):
        yield explanation_view(explanation)
        yield serving_view(diagnosis.serving)
        if rows:
            yield diagnosis_view(diagnosis, rows, sort)
        else:
            yield findings_view(diagnosis)
            yield top_kernels_view(diagnosis)
        if depth:
            yield modules_view(diagnosis.modules, depth)


def _overviews(report: ExplainReport) -> list[View]:
    """What several cases have in common: ladders, differences and breakdowns."""
    if report.job is not None:
        return []
    views = [ladder_view(rungs) for rungs in report.ladders]
    views += [against_view(difference) for difference in report.against]
    return [*views, group_view(report.breakdowns)] if report.breakdowns else views


def _outcome(report: ExplainReport) -> View:
    view = View().add("failure", *(f"{key} has no explanation: {why}" for key, why in report.failed.items()))
    view.add("failure", report.command_failed)
    view.parts += skipped_view(report.skipped).parts
    view.add("faint", reused_line(report.recorded) if report.recorded else "")
    return view.add("warning", str(Interrupted()) if report.interrupted else "")


def write_svg(report: ExplainReport, path: Path) -> list[Path]:
    """Writes a ladder for several rungs of a workload and a waterfall for each other case; where these are
    several, also the breakdowns of the group. Returns the written files: none where nothing was explained."""
    # What tells each picture from the others in the name of its file, the most specific first.
    names: list[list[str]] = []
    pictures: list[str] = []
    for rungs in report.ladders:
        names.append(case_parts(rungs[0], rung=False) if rungs[0].case else ["ladder"])
        pictures.append(_ladder_svg(rungs))
    in_ladders = {id(explanation) for rungs in report.ladders for explanation in rungs}
    for explanation in report.explanations:
        if id(explanation) not in in_ladders:
            names.append(case_parts(explanation))
            pictures.append(waterfall_svg(explanation.waterfall, on_host=explanation.breakdown is None))
    if len(pictures) > 1 and report.breakdowns:
        charts = _breakdown_svgs(report.breakdowns)
        names += [["breakdown", mode] for mode in charts]
        pictures += charts.values()
    paths = several_files(path, names) if pictures else []
    for target, picture in zip(paths, pictures, strict=True):
        write_whole(target, picture)
    return paths


def case_parts(explanation: Explanation, rung: bool = True) -> list[str]:
    """What tells a case from others in the name of a file; a foreign trace has only its title."""
    if not explanation.case:
        return [explanation.title]
    workload, rung_name, *rest = explanation.case.split("/")
    return [workload, *rest, *([rung_name] if rung else [])]


def _ladder_svg(rungs: Sequence[Explanation]) -> str:
    title = rungs[0].title.rpartition(" on ")[0] or "one step"
    on_host = all(explanation.breakdown is None for explanation in rungs)
    return ladder_svg(
        [explanation.waterfall for explanation in rungs],
        [rung_label(explanation) for explanation in rungs],
        title,
        on_host,
    )


def _breakdown_svgs(breakdown: GroupBreakdown) -> dict[str, str]:
    """One for each mode: inference and training have no common means."""
    modes = dict.fromkeys(bar.mode for bar in breakdown.bars)
    titles = {mode: f"active, movement, idle{f': {mode}' if mode else ''}" for mode in modes}
    return {
        mode: breakdown_svg([bar for bar in breakdown.bars if bar.mode == mode], title)
        for mode, title in titles.items()
    }


def explanation_view(explanation: Explanation) -> View:
    view = View(
        explanation.title + (f" · {explanation.device}" if explanation.device else ""), summary(explanation)
    )
    view.show(waterfall_view(explanation.waterfall, on_host=explanation.breakdown is None))
    if explanation.breakdown and explanation.idle:
        view.show(
            device_view(explanation.breakdown, explanation.waterfall),
            idle_view(explanation.idle, explanation.places),
        )
    else:
        view.show(host_view(explanation.host))
    view.show(regions_view(explanation))
    view.add("note", *explanation.notes, *explanation.waterfall.notes)
    return view.add("faint", f"trace kept in {explanation.trace}" if explanation.case else "")


def summary(explanation: Explanation) -> str:
    waterfall = explanation.waterfall
    step = "a profiled step" if waterfall.profiled else f"gross {seconds(waterfall.gross / 1e9)} a step"
    who = "the device computes" if explanation.breakdown else "the operators compute"
    text = f"{step}, of which {who} {percent(waterfall.net / waterfall.gross) if waterfall.gross else 'nothing'}"
    if explanation.roofline and not explanation.roofline.uncounted and not explanation.roofline.without_peak:
        share = percent(waterfall.find("roofline") / waterfall.gross)
        uncertain = ", uncertain" if explanation.roofline.caveats else ""
        text += f"; the roofline ({explanation.roofline.bound}-bound{uncertain}) is {share}"
    return text


def waterfall_view(waterfall: Waterfall, on_host: bool = False) -> View:
    """One row a segment; each bar starts where the previous one ended."""
    rows: list[dict[str, Cell]] = []
    start = 0
    for segment in waterfall.segments:
        rows.append(_waterfall_row(waterfall, segment.name, start, segment.ns, colour(segment.name)))
        start += segment.ns
    name = "the profiled step" if waterfall.profiled else "gross"
    rows.append(_waterfall_row(waterfall, name, 0, waterfall.gross, "white"))
    head = "where a step goes"
    drawn = FittingTable(rows, folds={head: 0}, spare=("",), svg=lambda: waterfall_svg(waterfall, on_host))
    return View().put(drawn)


def _waterfall_row(waterfall: Waterfall, name: str, start: int, ns: int, style: str) -> dict[str, Cell]:
    gross = waterfall.gross
    return {
        "where a step goes": name,
        "": Drawing(lambda width: bar(start, ns, gross, style, width), most=34, least=4),
        **({} if waterfall.profiled else {"time": seconds(ns / 1e9)}),
        "share": percent(ns / gross) if gross else "",
    }


def bar(start: int, length: int, total: int, style: str, width: int) -> Text:
    """A bar with a resolution of an eighth of a character; a length above zero shows at least one eighth."""
    if not total:
        return Text()
    before = min(round(start * width / total), width - 1)
    eighths = min(max(round(length * width * 8 / total), 1 if length else 0), (width - before) * 8)
    full, rest = divmod(eighths, 8)
    return Text(" " * before).append("█" * full + EIGHTHS[rest].strip(), style)


def device_view(parts: Breakdown, waterfall: Waterfall) -> View:
    steps = len(parts.steps)
    scope = several(steps, "step")
    if not waterfall.profiled:
        scope += f"; the profiler made it {parts.window / steps / waterfall.gross:.2f}x as long"
    view = View().add("faint", f"the device, in shares of the profiled step ({scope})")
    names = COMMUNICATING_PARTS if parts.collectives else PARTS
    view.facts({name: share_range(parts.share(name)) for name in names})
    kernels, launches = (sum(getattr(step, name) for step in parts.steps) for name in ("kernels", "launches"))
    text = f"{several(kernels / steps, 'kernel')} and {several(launches / steps, 'launch', 'launches')} a step"
    text += f" on {several(len(parts.streams), 'stream')}"
    text += f"; the host is in launch calls {percent(parts.launching / parts.window)} of the time"
    if parts.overlapped:
        text += f"; {percent(parts.overlapped / parts.window)} on more than one stream at once"
    view.add("plain", text)
    if parts.graph_launches:
        launched = several(parts.graph_launches, "CUDA graph launch", "CUDA graph launches")
        view.add("plain", f"{launched} with {several(parts.graph_kernels / parts.graph_launches, 'kernel')} each")
    for line in _communication_lines(parts):
        view.add("plain", line)
    for copies in parts.copies:
        rate = copies.bytes / copies.busy if copies.busy else 0.0
        memory = f" ({copies.memory})" if copies.memory else ""
        text = f"{several(copies.count / steps, 'copy', 'copies')} a step {copies.direction}{memory}: "
        text += f"{size(copies.bytes // steps)} at {rate:.3g} GB/s"
        if copies.direction != "device to device":
            text += f", {percent(copies.exposed / copies.busy) if copies.busy else '0 %'} of it exposed"
        view.add("plain", text)
    return view


def _communication_lines(parts: Breakdown) -> Iterator[str]:
    """How much of the communication is hidden behind computing, and each kind of collective."""
    if not parts.collectives:
        return
    steps, exposed, hidden = len(parts.steps), parts.communicating, parts.communication_overlapped
    text = f"collectives run {percent((exposed + hidden) / parts.window)} of the time"
    yield f"{text}: {percent(exposed / parts.window)} exposed, {percent(hidden / parts.window)} beside computing"
    for use in parts.collectives:
        text = f"{several(use.count / steps, use.operation)} a step"
        text += f" ({use.algorithm})" if use.algorithm else ""
        text += f" over {several(use.ranks, 'rank')}" if use.ranks else ""
        if use.bytes is not None:
            text += f": {size(use.bytes // steps)}"
        if use.bus_median is not None and use.bus_best is not None:
            text += f" at {use.bus_median / 1e9:.3g} GB/s of bus bandwidth (best {use.bus_best / 1e9:.3g})"
        yield f"{text}, {percent(use.exposed / use.busy) if use.busy else '0 %'} of it exposed"


def idle_view(idle: IdleTime, located: IdleTime | None = None) -> View:
    """The causes with the places that hold most of each; the places come from `located`, a trace with stacks,
    where it has the same cause."""
    rows = []
    for cause in sorted(idle.causes, key=lambda cause: -cause.idle):
        candidates = located.causes if located else []
        source = next((other for other in candidates if other.cause == cause.cause and other.idle), cause)
        for i, place in enumerate(source.places[:MAX_PLACES] if cause.idle else ()):
            where = place.where
            for prefix in _AUTOGRAD_PREFIXES:
                where = where.replace(prefix, "")
            rows.append(
                {
                    "why idle": cause.cause if i == 0 else "",
                    "of idle": percent(cause.idle / idle.idle) if i == 0 else "",
                    "most of it": percent(place.idle / source.idle),
                    "at": where,
                }
            )
    return View().put(FittingTable(rows, folds={"why idle": 0, "at": 16}, cuts={"at": WHERE}))


def host_view(time: HostTime) -> View:
    shown = [(each.name, each.self_time, each.calls) for each in time.operators[:MAX_OPERATORS]]
    if others := time.operators[MAX_OPERATORS:]:
        self_time, calls = (sum(getattr(each, name) for each in others) for name in ("self_time", "calls"))
        shown.append((f"{len(others)} others", self_time, calls))
    head = "the host, by operator"
    rows = [
        {
            head: name,
            "self": percent(self_time / time.window),
            "calls a step": f"{calls / time.steps:.3g}" if calls else "",
        }
        for name, self_time, calls in shown
    ]
    return View().put(FittingTable(rows, folds={head: 12}, cuts={head: WHERE}))


def regions_view(explanation: Explanation) -> View:
    """The regions that the program marked, as shares of the profiled step; where gross is known, also as that
    share of it. Nothing where there are none."""
    parts, host, gross = explanation.breakdown, explanation.host, explanation.waterfall.gross
    window = parts.window if parts else host.window
    known = not explanation.waterfall.profiled
    head = "marked regions"
    rows = [
        {
            head: region.name,
            "calls a step": f"{region.calls / host.steps:.3g}",
            **({"time": seconds(region.host / window * gross / 1e9)} if known else {}),
            "share": percent(region.host / window),
            **({"device": percent(region.device / window)} if parts else {}),
        }
        for region in explanation.regions[:MAX_REGIONS]
    ]
    view = View().put(FittingTable(rows, folds={head: 12}, cuts={head: WHERE}))
    more = len(explanation.regions) - MAX_REGIONS
    return view.add("faint", f"and {several(more, 'shorter region')}" if more > 0 else "") if rows else View()


def against_view(difference: WaterfallDifference) -> View:
    """What the second step removed, segment by segment."""
    head, fields = "what the second removed", ("ns", "against", "removed")
    totals = {field: sum(getattr(part, field) for part in difference.parts) for field in fields}
    parts = {part.name: {field: getattr(part, field) for field in fields} for part in difference.parts}
    rows = [
        {head: name, **{field: _time(ns) for field, ns in times.items()}}
        for name, times in (parts | {"gross": totals}).items()
    ]
    heads = {"ns": difference.first, "against": difference.other}
    return View().put(FittingTable(rows, folds={head: 0}, heads=heads))


def _time(ns: int) -> str:
    return signed(ns, lambda length: seconds(length / 1e9)) if ns else "-"


def rung_label(explanation: Explanation) -> str:
    """A rung that computes something else is marked wherever it is shown beside others."""
    name = explanation.rung or explanation.title
    return f"{name} ({explanation.differs})" if explanation.differs else name


def ladder_view(rungs: Sequence[Explanation]) -> View:
    """One stacked bar a rung on one scale, and the segments of all side by side."""
    longest = max(explanation.waterfall.gross for explanation in rungs)
    rows: list[dict[str, Cell]] = []
    for explanation in rungs:
        parts = {segment.name: segment.ns / longest for segment in explanation.waterfall.segments}
        rows.append(
            {
                "rung": rung_label(explanation),
                "": stacked_bar(parts, 50),
                "gross": seconds(explanation.waterfall.gross / 1e9),
            }
        )
    folds, cuts = {"rung": 0}, {"rung": -34}
    view = View().put(FittingTable(rows, folds=folds, spare=("",), cuts=cuts, svg=lambda: _ladder_svg(rungs)))
    for start in range(0, len(rungs), MAX_RUNGS):
        view.show(View().put(_segments(rungs[start : start + MAX_RUNGS])))
    return view


def _segments(rungs: Sequence[Explanation]) -> FittingTable:
    falls = {str(i): explanation.waterfall for i, explanation in enumerate(rungs)}
    rows: list[dict[str, Cell]] = []
    for name in ORDER:
        times = {i: fall.find(name) for i, fall in falls.items()}
        if any(times.values()):
            cells = {i: _time(ns) for i, ns in times.items()}
            rows.append({"segment": Text(name, style=colour(name)), **cells})
    rows.append({"segment": "gross", **{i: _time(fall.gross) for i, fall in falls.items()}})
    return FittingTable(
        rows, folds={"segment": 0}, heads={str(i): rung_label(explanation) for i, explanation in enumerate(rungs)}
    )


def stacked_bar(parts: Mapping[str, float], most: int) -> Drawing:
    """Shares of the width side by side; each cell has the letter of its part, for prints without colours."""

    def draw(width: int) -> Text:
        line, start = Text(), 0.0
        for name, share in parts.items():
            cells = round((start + share) * width) - round(start * width)
            line.append(LETTERS.get(name, name[0]) * cells, f"black on {colour(name)}")
            start += share
        return line

    return Drawing(draw, most)


def group_view(breakdown: GroupBreakdown) -> View:
    """The shares of each workload, and their means by domain."""
    # Traces that tare did not record have neither.
    known = [name for name in ("rung", "mode") if any(getattr(row, name) for row in breakdown.bars)]
    parts = parts_of(breakdown.bars)
    means = [mean for mean in (*breakdown.domains, *breakdown.overall) if mean.domain != UNKNOWN]

    def labels(row: WorkloadShares | DomainShares) -> dict[str, str]:
        return {name: getattr(row, name) for name in known}

    def shares(row: WorkloadShares | DomainShares) -> dict[str, str]:
        return {part: percent(getattr(row, part)) for part in parts}

    bars = [stacked_bar({part: getattr(row, part) for part in parts}, 24) for row in breakdown.bars]
    workloads = FittingTable(
        [
            {"workload": row.workload, **labels(row), "": bar, **shares(row)}
            for row, bar in zip(breakdown.bars, bars, strict=True)
        ],
        words=("mode",),
        folds={"workload": 8, "rung": 0},
        spare=("", "movement"),
        cuts={"workload": -34},
        svg=lambda: "".join(_breakdown_svgs(breakdown).values()),
    )
    domains = FittingTable(
        [{"domain": m.domain, **labels(m), "workloads": str(m.workloads), **shares(m)} for m in means],
        words=("mode",),
        folds={"domain": 0, "rung": 0},
        spare=("movement",),
    )
    view = View().put(workloads).show(View().put(domains))
    missing = f"not in the means: {', '.join(breakdown.missing)}"
    return view.add("warning", missing if breakdown.missing else "")


def share_range(shares: ShareRange) -> str:
    if shares.most - shares.least < 0.0005:
        return percent(shares.median)
    return f"{percent(shares.median)} ({percent(shares.least)} to {percent(shares.most)})"
