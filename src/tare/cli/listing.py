"""tare list: what there is."""

from typing import Annotated, Any

import typer

from tare.cli.options import JsonOption, StoreOption, print_json
from tare.errors import BadInput, unknown

HEADS: dict[str, tuple[str, ...]] = {
    "findings": ("finding", "sees", "remedy"),
    "groups": ("group", "size", "workloads"),
    "records": ("id", "created", "case", "gross", "status"),
    "rungs": ("rung", "summary", "available"),
    "workloads": ("workload", "task", "batch", "sizes", "available"),
}


def list_(
    what: Annotated[str, typer.Argument(metavar="workloads|groups|rungs|findings|records")],
    terms: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY | FIELD=VALUE | @GROUP]...", help="Which of them.")
    ] = None,
    domain: Annotated[str | None, typer.Option(help="Workloads of one domain: vision, nlp, ...")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List workloads, groups of them, rungs, findings or stored records.

    For a rung or a workload that is not available: why, and how to get it.
    """
    if what not in HEADS:
        raise unknown("list", what, HEADS)
    if domain and what != "workloads":
        raise BadInput(f"--domain is for workloads, not for {what}")
    if what == "workloads":
        entries = _workloads(terms or [], domain)
    elif what == "groups":
        entries = _groups(terms or [])
    elif what == "rungs":
        entries = _rungs(terms or [])
    elif what == "findings":
        entries = _findings(terms or [])
    else:
        entries = _records(terms or [], store)
    if as_json:
        print_json(entries)
        return
    from tare.report.lists import list_view
    from tare.report.terminal import make_console

    make_console().print(list_view(entries, HEADS[what]))


def _workloads(terms: list[str], domain: str | None) -> list[dict[str, Any]]:
    from tare.report.lists import describe_workloads

    return describe_workloads(terms, domain)


def _groups(terms: list[str]) -> list[dict[str, Any]]:
    from tare.report.lists import describe_groups

    return describe_groups(terms)


def _rungs(names: list[str]) -> list[dict[str, Any]]:
    from tare.commands.survey import survey
    from tare.report.lists import describe_rungs

    entries = describe_rungs(survey(names))
    return [entry for entry in entries if not names or entry["rung"] in names]


def _findings(names: list[str]) -> list[dict[str, Any]]:
    from tare.report.lists import describe_findings

    return describe_findings(names)


def _records(terms: list[str], store: str | None) -> list[dict[str, Any]]:
    from tare.commands.records import find_records, no_record
    from tare.report.lists import describe_record

    found = find_records(terms, store)
    if terms and not found:
        raise no_record(terms)
    return [describe_record(record) for record in found]
