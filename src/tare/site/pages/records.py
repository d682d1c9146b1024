"""One record in full: figures, rounds, every sample, the environment, what was explained."""

from typing import Any

from tare.records.record import Record
from tare.report.ladder import make_ladders
from tare.report.page import PageChart
from tare.report.record import record_view
from tare.report.web.figures import command_of, make_families
from tare.site.page import Lines, Page, PageLink, Part, ShownCommand
from tare.site.pages.workloads import explained_parts
from tare.site.questions import Scope, one_record_row
from tare.store import schema
from tare.store.explanations import find_trace
from tare.system.home import trace_paths

# Of each round at most so many samples are drawn.
MOST_DRAWN = 1500


def find_record(scope: Scope, id_: str) -> Record:
    if one_record_row(scope, id_) is None:
        raise LookupError(f"there is no record {id_[:40]}")
    return scope.store.find(schema.records.c.id == id_)[0]


def record_page(scope: Scope, id_: str) -> Page:
    record = find_record(scope, id_)
    row = one_record_row(scope, id_)
    case = record.case
    links = [
        PageLink("the record as JSON", f"records/{id_}/record.json"),
        PageLink("its run", f"runs/{record.run}/"),
    ]
    if row is not None and row.series:
        links = [
            PageLink("over time", f"series/{row.series}/"),
            PageLink("its ladder", f"ladders/{row.series}/"),
            *links,
        ]
    if find_stored_trace(scope, id_) is not None:
        links.append(PageLink("its trace", f"records/{id_}/trace.json.gz"))
    if record.project and (address := scope.commit_address(record.project.commit)):
        links.append(PageLink("its commit", address))
    parts: list[Part] = [links]
    if record.failure:
        failure = record.failure
        texts = [f"{failure.cause} in {failure.stage or 'the start'}: {failure.message}", failure.detail]
        parts.append(Lines([text for text in texts if text], "failure", "It failed"))
    parts += [ShownCommand("measure again", text) for text in _commands(record)]
    for kind, title in (("pipelined", "Samples: steps back to back"), ("latency", "Samples: single steps")):
        if figure := _samples(record, kind):
            parts.append(PageChart(f"samples-{kind}", title, _thinned(record), figure))
    parts.append(record_view(record))
    parts += explained_parts(scope, record)
    crumbs = [PageLink("workloads", "workloads/"), PageLink(case.workload, f"workloads/{case.workload}/")]
    return Page(f"Record {id_}: {case.workload} on {case.rung}", f"records/{id_}/", parts, crumbs=crumbs)


def find_stored_trace(scope: Scope, id_: str) -> bytes | None:
    """The trace that was uploaded, or that this machine has recorded."""
    if (trace := find_trace(scope.store, id_)) is not None:
        return trace
    path, _ = trace_paths(id_)
    return path.read_bytes() if path.is_file() else None


def _commands(record: Record) -> list[str]:
    return [command for family in make_families(make_ladders([record])) if (command := command_of(family))]


def _thinned(record: Record) -> str:
    series = record.rounds[0].find("pipelined") if record.rounds else None
    if series is None or series.blocks is None:
        return "every timed block"
    return f"{len(series.wall_ns)} of {series.blocks} blocks a round: the others were dropped because of their age"


def _samples(record: Record, kind: Any) -> dict[str, Any] | None:
    series = []
    for round_ in record.rounds:
        found = round_.find(kind)
        if found is None or not found.wall_ns:
            continue
        every = max(len(found.wall_ns) // MOST_DRAWN, 1)
        begin = found.at_ns[0]
        series.append(
            {
                "name": f"round {round_.index + 1}",
                "at": [(at - begin) / 1e9 for at in found.at_ns[::every]],
                "values": found.step_seconds()[::every],
            }
        )
    return {"kind": "samples", "series": series} if series else None
