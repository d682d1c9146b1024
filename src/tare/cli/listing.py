"""tare list: what there is."""

from typing import Annotated, Any

import typer

from tare.cli.options import JsonOption, StoreOption, print_json
from tare.errors import BadInput, unknown

HEADS: dict[str, tuple[str, ...]] = {
    "findings": ("finding", "sees", "remedy"),
    "formats": ("format", "of", "summary"),
    "groups": ("group", "size", "workloads"),
    "records": ("id", "created", "case", "gross", "status"),
    "rungs": ("rung", "summary", "available"),
    "workloads": ("workload", "task", "batch", "sizes", "available"),
}


def list_(
    what: Annotated[str, typer.Argument(metavar="|".join(HEADS), autocompletion=lambda: list(HEADS))],
    terms: Annotated[
        list[str] | None, typer.Argument(metavar="[KEY | FIELD=VALUE | @GROUP]...", help="Which of them.")
    ] = None,
    domain: Annotated[str | None, typer.Option(help="Workloads of one domain: vision, nlp, ...")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List workloads, groups of them, rungs, findings, formats or stored records.

    For a rung or a workload that is not available: why, and how to get it.
    """
    if what not in HEADS:
        raise unknown("list", what, HEADS)
    if domain and what != "workloads":
        raise BadInput(f"--domain is for workloads, not for {what}")
    entries = _entries(what, terms or [], domain, store)
    if as_json:
        print_json(entries)
        return
    from tare.report.lists import list_view
    from tare.report.terminal import make_console

    make_console(whole_lines=True).print(list_view(entries, HEADS[what]))


def _entries(what: str, terms: list[str], domain: str | None, store: str | None) -> list[dict[str, Any]]:
    from tare.report import lists

    if what == "workloads":
        return lists.describe_workloads(terms, domain)
    if what == "groups":
        return lists.describe_groups(terms)
    if what == "findings":
        return lists.describe_findings(terms)
    if what == "formats":
        return lists.describe_formats(terms)
    if what == "rungs":
        from tare.commands.survey import survey

        entries = lists.describe_rungs(survey(terms))
        return [entry for entry in entries if not terms or entry["rung"] in terms]
    from tare.commands.records import find_records, no_record

    records = find_records(terms, store)
    if terms and not records:
        raise no_record(terms)
    return [lists.describe_record(record) for record in records]
