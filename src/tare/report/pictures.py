"""What was explained as pictures. Of several cases each has a file of its own."""

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from tare.report.charts import breakdown_svg, ladder_svg, waterfall_svg
from tare.report.explained import Explained, ladders, rung_of
from tare.report.files import several_files, write_whole
from tare.trace.explanation import Explanation


class Picture(NamedTuple):
    """`parts` are what a file of its own is named by, the most telling first."""

    parts: list[str]
    svg: str


def write_svg(explained: Explained, path: Path) -> list[Path]:
    """The ladder where there are several rungs, else the waterfall; where those are several, also the bars of the
    group. The files that were written: none where nothing was explained."""
    groups = ladders(explained.explanations)
    shown = {id(one) for group in groups for one in group}
    made = [*_ladders(groups), *(_waterfall(o) for o in explained.explanations if id(o) not in shown)]
    if len(made) > 1:
        made += _breakdowns(explained)
    paths = several_files(path, [one.parts for one in made]) if made else []
    for target, one in zip(paths, made, strict=True):
        write_whole(target, one.svg)
    return paths


def overviews(explained: Explained) -> list[str]:
    """What shows several at once: ladders and groups."""
    return [one.svg for one in (*_ladders(ladders(explained.explanations)), *_breakdowns(explained))]


def case_parts(one: Explanation, rung: bool = True) -> list[str]:
    """What tells a case from others, for the names of files; a trace has its title alone."""
    if not one.case:
        return [one.title]
    workload, name, *rest = one.case.split("/")
    return [workload, *rest, *([name] if rung else [])]


def _waterfall(one: Explanation) -> Picture:
    return Picture(case_parts(one), waterfall_svg(one.waterfall, on_host=one.breakdown is None))


def _ladders(groups: Sequence[Sequence[Explanation]]) -> list[Picture]:
    made = []
    for group in groups:
        title = group[0].title.rpartition(" on ")[0] or "one step"
        on_host = all(one.breakdown is None for one in group)
        svg = ladder_svg([one.waterfall for one in group], [rung_of(one) for one in group], title, on_host)
        made.append(Picture(case_parts(group[0], rung=False) if group[0].case else ["ladder"], svg))
    return made


def _breakdowns(explained: Explained) -> list[Picture]:
    """A picture a mode: those of inference and training have no common means."""
    found = explained.breakdowns
    made = []
    for mode in dict.fromkeys(one.mode for one in found.bars) if found else ():
        bars = [one for one in found.bars if one.mode == mode] if found else []
        title = f"active, movement, idle{f': {mode}' if mode else ''}"
        made.append(Picture(["breakdown", mode], breakdown_svg(bars, title)))
    return made
