"""tare show, list, export, import and history: what the store holds."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tare.cli.options import ColumnsOption, JsonOption, OutputOption, StoreOption, Texts, print_json, print_result
from tare.errors import BadInput, unknown

TERMS = "KEY|ID|WORKLOAD|FIELD=VALUE|FILE"
# What `tare list` knows, and the columns of each.
LISTS: dict[str, tuple[str, ...]] = {
    "findings": ("finding", "sees", "remedy"),
    "formats": ("format", "of", "summary"),
    "groups": ("group", "size", "workloads"),
    "records": ("id", "created", "case", "gross", "status"),
    "rungs": ("rung", "summary", "available"),
    "workloads": ("workload", "task", "batch", "sizes", "available"),
}


def show(
    terms: Annotated[Texts, typer.Argument(metavar=f"{TERMS}|workload NAME", show_default=False)] = None,
    table: Annotated[bool, typer.Option("--table", help="One line per record instead of ladders.")] = False,
    columns: ColumnsOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show ladders and records, from the store or from a FILE.

    With nothing named, the newest run in the store. FILE is what tare export wrote (.json, .json.gz); other terms
    then choose among its records. `workload NAME` describes a workload. docs/records.md has all terms.
    """
    from tare.commands.records import find_records
    from tare.report.ladder import make_ladders, read_columns
    from tare.report.overview import overview
    from tare.report.record import provenance_view, record_view
    from tare.report.suite import make_suites
    from tare.report.terminal import make_console
    from tare.store.database import Store
    from tare.store.selection import newest_run

    wanted = read_columns(columns) if columns is not None else ()
    if terms and terms[0] == "workload":
        _show_workload(terms[1:], as_json)
        return
    if terms:
        records = find_records(terms, store, latest=True)
    else:
        with Store(store, reading=True) as opened:
            records = newest_run(opened)
    if as_json:
        print_json({"records": records, "ladders": make_ladders(records), "suites": make_suites(records)})
        return
    if not records:
        raise BadInput("the store is empty")
    console = make_console()
    is_one = len(records) == 1 and not table
    shown = record_view(records[0], wanted) if is_one else overview(records, table=table or None, columns=wanted)
    console.print(shown)
    if not is_one:
        console.print(provenance_view(records), end="")


def _show_workload(names: list[str], as_json: bool) -> None:
    from tare.commands.machine import describe_workload
    from tare.report.lists import workload_view

    if len(names) != 1:
        raise BadInput("name one workload: tare show workload NAME")
    workload = describe_workload(names[0])
    print_result(as_json, workload, lambda: workload_view(workload))


def list_(
    what: Annotated[str, typer.Argument(metavar="|".join(LISTS), autocompletion=lambda: list(LISTS))],
    terms: Annotated[Texts, typer.Argument(metavar="KEY|FIELD=VALUE|@GROUP", help="Which of them.")] = None,
    domain: Annotated[str | None, typer.Option(help="Workloads of one domain: vision, nlp, ...")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """List workloads, groups of them, rungs, findings, formats or stored records.

    For a rung or a workload that is not available: why, and how to get it.
    """
    from tare.report.lists import list_view

    if what not in LISTS:
        raise unknown("list", what, LISTS)
    if domain and what != "workloads":
        raise BadInput(f"--domain is for workloads, not for {what}")
    entries = _entries(what, terms or [], domain, store)
    print_result(as_json, entries, lambda: list_view(entries, LISTS[what]), wide=True)


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
        from tare.commands.machine import survey

        entries = lists.describe_rungs(survey(terms))
        return [entry for entry in entries if not terms or entry["rung"] in terms]
    from tare.commands.records import find_records

    return [lists.describe_record(record) for record in find_records(terms, store)]


def export(
    terms: Annotated[Texts, typer.Argument(metavar=TERMS, show_default=False)] = None,
    format: Annotated[
        str, typer.Option("--format", help="json, csv, markdown, mpe, table, svg, pyperf.")
    ] = "json",
    output: OutputOption = None,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON Schema of the format json, with the units.")
    ] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write records in another format.

    With nothing named, every record in the store. FILE is what tare export wrote before (.json, .json.gz); other
    terms then choose among its records. docs/records.md has all terms.
    """
    from tare.commands.records import find_records
    from tare.report.files import write_whole
    from tare.report.formats import get_record_format
    from tare.report.formats.json import schema_text

    if as_json and format != "json":
        raise BadInput(f"--json and --format {format} are two formats: name one")
    if schema and (terms or format != "json"):
        asked = f"--format {format}" if format != "json" else terms[0] if terms else ""
        raise BadInput(f"--schema describes the format json, and no records: leave out {asked}")
    exporter = get_record_format(format)
    text = schema_text() if schema else exporter(find_records(terms or [], store))
    if output is None:
        typer.echo(text, nl=False)
    else:
        write_whole(output, text)


def import_(
    files: Annotated[list[Path], typer.Argument(metavar="FILE", show_default=False)],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Import exported records, or results of other tools.

    What tare export wrote becomes records again. JSON of pyperf, pytest-benchmark and google-benchmark is kept for
    tare history.
    """
    from tare.commands.records import import_files
    from tare.report.numbers import several

    imported = import_files(files, store)
    lines = []
    for file in imported:
        lines.append(f"{file.file}: {file.source}, {several(file.found, file.kind[:-1])}, {file.new} new")
        lines += [f"  {name} skipped: {reason}" for name, reason in file.skipped.items()]
    print_result(as_json, imported, lambda: "\n".join(lines), wide=True)


def history(
    terms: Annotated[
        Texts, typer.Argument(metavar="KEY|WORKLOAD|FIELD=VALUE|NAME|FILE", show_default=False)
    ] = None,
    metric: Annotated[str, typer.Option(help="gross, latency, host_peak, ...")] = "gross",
    chart: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Also draw it: .svg (one series) or .html.")
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Show a figure over time, and its change points.

    Where each change is, how large, how sure. Imported benchmarks too.
    """
    from tare.commands.records import find_foreign_points, find_series
    from tare.guard.history import foreign_histories, record_histories
    from tare.guard.metrics import get_metric
    from tare.report.files import write_whole
    from tare.report.history import chart_html, chart_svg, histories_view

    wanted = get_metric(metric)
    if chart is not None and chart.suffix not in (".svg", ".html"):
        raise BadInput(f"--chart writes .svg or .html, not '{chart.name[:60]}'")
    imported = find_foreign_points(terms or [], store)
    histories = record_histories(find_series(terms or [], store), wanted) + foreign_histories(imported, wanted)
    if not histories and (terms or not as_json):
        hint = "what was imported has one figure, leave --metric out" if imported else "tare list records"
        raise BadInput(f"no record with a {metric} matches {' '.join(terms or ()) or 'anything'}; {hint}")
    if chart is not None and chart.suffix == ".svg" and len(histories) != 1:
        raise BadInput(f"an .svg holds one series, and {len(histories)} match: name one, or write .html")
    if chart is not None:
        write_whole(chart, chart_html(histories) if chart.suffix == ".html" else chart_svg(histories[0]))
    print_result(as_json, histories, lambda: histories_view(histories))
