"""The report of records and studies: its sections, and the page that shows them."""

import json
from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

import msgspec

from tare.records.record import Record
from tare.report.ladder import make_ladders
from tare.report.numbers import several
from tare.report.overview import failure_lines, table_view
from tare.report.page import render, web_file
from tare.report.record import provenance_view
from tare.report.study import study_view
from tare.report.suite import make_suites
from tare.report.view import Line, View
from tare.report.web.answers import answers
from tare.report.web.figures import Figure, family_figure, make_families, suite_figure
from tare.studies.verdict import StudyVerdict

# Of more families a page shows only the table, and the suites.
MOST_FIGURES = 24
HOW_TO_READ = (
    "Gross is the time of a step among others, net the part of it in which the device computes, and tare the "
    "rest: what the stack costs. Every rung computes the same network; parity says whether its results were "
    "compared with the reference and are the same. Error bars are 95 % intervals over fresh processes."
)


class ReportContent(msgspec.Struct, frozen=True, kw_only=True):
    """What a report holds; `answers` come first."""

    title: str
    answers: list[str]
    figures: list[Figure]
    records: list[Record]
    studies: list[StudyVerdict]

    def document(self) -> dict[str, Any]:
        return {
            "title": self.title,
            "answers": self.answers,
            "figures": [{**msgspec.to_builtins(figure), "csv": figure.csv} for figure in self.figures],
            "records": [record.id for record in self.records],
            "studies": self.studies,
        }


def make_report_content(
    records: Sequence[Record], studies: Sequence[StudyVerdict], title: str = ""
) -> ReportContent:
    families, suites = make_families(make_ladders(records)), make_suites(records)
    figures = [suite_figure(suite, number) for number, suite in enumerate(suites)]
    if len(families) <= MOST_FIGURES:
        figures += [family_figure(family, len(figures) + number) for number, family in enumerate(families)]
    names = [study.title for study in studies] or list(dict.fromkeys(record.case.workload for record in records))
    return ReportContent(
        title=title or f"tare report: {', '.join(names[:3])}{' and more' if len(names) > 3 else ''}",
        answers=answers(families, suites),
        figures=[figure for figure in figures if figure.points],
        records=list(records),
        studies=list(studies),
    )


def report_html(content: ReportContent) -> str:
    """One page that needs no network, and no script to be read: tables, verdicts and data are plain HTML."""
    return render(
        "report.html",
        title=content.title,
        facts=_facts(content.records),
        answers=content.answers,
        how_to_read=HOW_TO_READ,
        figures=content.figures,
        data_links=[f"data:text/csv;charset=utf-8,{quote(figure.csv)}" for figure in content.figures],
        # A text in a record must not end the script element that holds it.
        figure_data=json.dumps(msgspec.to_builtins(content.figures)).replace("<", "\\u003c"),
        sections=[section.parts for section in _sections(content)],
        plotly=web_file("plotly-cartesian.min.js") if content.figures else "",
        script=web_file("page.js"),
    )


def _facts(records: Sequence[Record]) -> list[str]:
    if not records:
        return []
    dates = sorted(record.created[:10] for record in records)
    days = dates[0] if dates[0] == dates[-1] else f"{dates[0]} to {dates[-1]}"
    measured = sum(record.ok for record in records)
    rounds = [len(record.rounds) for record in records]
    each = str(rounds[0]) if min(rounds) == max(rounds) else f"{min(rounds)} to {max(rounds)}"
    return [f"{several(len(records), 'case')}, {measured} measured in {each} rounds each, {days}"]


def _sections(content: ReportContent) -> Iterable[View]:
    yield from map(study_view, content.studies)
    if content.records:
        table = table_view(content.records, None)
        # Failures have a section of their own.
        heading, *parts = [part for part in table.parts if not (isinstance(part, Line) and part.role == "failure")]
        shared = heading.text if isinstance(heading, Line) else ""
        table.parts = [Line("title", f"All cases · {shared}"), *parts]
        yield table
    if failures := failure_lines(content.records):
        yield View("Failed").add("failure", *failures)
    seen: dict[str, Record] = {}
    for record in content.records:
        seen.setdefault(record.environment.base_id, record)
    for record in seen.values():
        environment = record.environment
        facts = {**environment.machine, **environment.software, **environment.circumstances}
        yield View("Environment").facts(facts)
    if content.records:
        yield provenance_view(content.records)
