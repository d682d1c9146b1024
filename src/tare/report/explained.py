"""All of what was explained: printed, or written as a page or a picture."""

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Protocol

from rich.console import Group, RenderableType
from rich.text import Text

from tare.errors import BadInput
from tare.findings.diagnosis import Diagnosis
from tare.report.charts import DARK, FAINT, PAPER, breakdown_svg, ladder_svg, waterfall_svg
from tare.report.colours import colour
from tare.report.explain import against_view, explanation_view, percent, shorten
from tare.report.files import write_whole
from tare.report.findings import diagnosis_view, findings_view
from tare.report.numbers import seconds
from tare.report.terminal import make_console, simple_table
from tare.trace.explanation import Explanation
from tare.trace.group import PARTS, UNKNOWN, Breakdowns
from tare.trace.waterfall import ORDER, Against

MOST_COLUMNS = 6
# Where the first letter of a segment is another's too.
LETTERS = {"floor": "F", "kernel inefficiency": "i", "data loading": "D"}


class Explained(Protocol):
    """See tare.explain.Explained."""

    @property
    def explanations(self) -> list[Explanation]: ...
    @property
    def diagnoses(self) -> list[Diagnosis]: ...
    @property
    def failed(self) -> dict[str, str]: ...
    @property
    def against(self) -> list[Against]: ...
    @property
    def breakdowns(self) -> Breakdowns | None: ...
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
    if explained.interrupted:
        console.print("interrupted: the same command with --resume goes on from here", style="yellow")


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
    return one.rung or one.title


def ladder_view(rungs: Sequence[Explanation]) -> RenderableType:
    """One stacked bar a rung on one scale, and the segments of all side by side."""
    most = max(one.waterfall.gross for one in rungs)
    bars = simple_table("rung", "", "gross")
    bars.columns[2].min_width = 7
    for one in rungs:
        parts = {segment.name: segment.ns / most for segment in one.waterfall.segments}
        bars.add_row(shorten(rung_of(one), 34), stacked(parts, 50), seconds(one.waterfall.gross / 1e9))
    table = simple_table("segment", *(rung_of(one) for one in rungs[:MOST_COLUMNS]))
    for column in table.columns[1:]:
        column.justify, column.no_wrap, column.overflow = "right", False, "fold"
    for name in ORDER:
        times = [one.waterfall.find(name) for one in rungs[:MOST_COLUMNS]]
        if any(times):
            table.add_row(Text(name, style=colour(name)), *(seconds(ns / 1e9) if ns else "-" for ns in times))
    table.add_row("gross", *(seconds(one.waterfall.gross / 1e9) for one in rungs[:MOST_COLUMNS]), style="bold")
    return Group(bars, Text(""), table)


def stacked(parts: Mapping[str, float], width: int) -> Text:
    """Shares of `width` one after the other; each cell bears the letter of its part, for paper has no colours."""
    line, at = Text(), 0.0
    for name, share in parts.items():
        cells = round((at + share) * width) - round(at * width)
        line.append(LETTERS.get(name, name[0]) * cells, f"black on {colour(name)}")
        at += share
    return line


def group_view(found: Breakdowns) -> RenderableType:
    """The shares of each workload, and their means by domain."""
    bars = simple_table("workload", "rung", "mode", "", *PARTS)
    for one in found.bars:
        shares = {part: getattr(one, part) for part in PARTS}
        line = stacked(shares, 24)
        bars.add_row(shorten(one.workload, 34), one.rung, one.mode, line, *map(percent, shares.values()))
    means = simple_table("domain", "mode", "workloads", *PARTS)
    known = [mean for mean in found.domains if mean.domain != UNKNOWN]
    for mean in (*known, *found.overall):
        texts = (percent(getattr(mean, part)) for part in PARTS)
        means.add_row(mean.domain, mean.mode, str(mean.workloads), *texts)
    parts: list[RenderableType] = [bars, Text(""), means]
    if found.missing:
        parts.append(Text(f"not in the means: {', '.join(found.missing)}", style="yellow"))
    return Group(*parts)


def pictures(explained: Explained) -> list[str]:
    made = [ladder_svg([o.waterfall for o in g], [rung_of(o) for o in g], _ladder_title(g))
            for g in ladders(explained.explanations)]  # fmt: skip
    if explained.breakdowns:
        for mode in dict.fromkeys(one.mode for one in explained.breakdowns.bars):
            bars = [one for one in explained.breakdowns.bars if one.mode == mode]
            made.append(breakdown_svg(bars, f"active, movement, idle{f': {mode}' if mode else ''}"))
    return made + [waterfall_svg(one.waterfall) for one in explained.explanations]


def write_svg(explained: Explained, path: Path) -> None:
    """The ladder where there are several rungs, else the waterfall."""
    made = pictures(explained)
    if not made:
        raise BadInput(f"nothing was explained: no picture to write to {path}")
    write_whole(path, made[0])


def write_html(explained: Explained, path: Path) -> None:
    """A page that needs nothing beside itself: no script, no font, no link."""
    titles = ", ".join(dict.fromkeys(one.title for one in explained.explanations))
    notes = dict.fromkeys(note for one in explained.explanations for note in (*one.notes, *one.waterfall.notes))
    body = [f"<figure>{svg}</figure>" for svg in pictures(explained)]
    body += [f"<p class='note'>{escape(note)}</p>" for note in notes]
    style = (
        "body{font-family:system-ui,sans-serif;margin:2rem auto;max-width:960px;color:#222}figure{margin:2rem 0}"
    )
    style += "svg{max-width:100%;height:auto}.note{color:#666;font-size:.9rem}:root{color-scheme:light dark}"
    style += f"@media (prefers-color-scheme:dark){{body{{background:{DARK[PAPER]}}}.note{{color:{DARK[FAINT]}}}}}"
    head = f"<!doctype html><html lang='en'><meta charset='utf-8'><title>tare explain: {escape(titles)}</title>"
    write_whole(path, "\n".join([head, f"<style>{style}</style>", *body, "</html>"]))


def _ladder_title(rungs: Sequence[Explanation]) -> str:
    return rungs[0].title.rpartition(" on ")[0] or "one step"
