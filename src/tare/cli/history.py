"""tare history: the series of a case, and its change points."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tare.cli.options import JsonOption, StoreOption, print_json
from tare.errors import BadInput

if TYPE_CHECKING:
    from tare.guard.history import History


def history(
    terms: Annotated[
        list[str] | None,
        typer.Argument(metavar="[KEY | WORKLOAD | FIELD=VALUE | NAME | FILE]...", show_default=False),
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

    wanted = get_metric(metric)
    terms = terms or []
    if chart is not None and chart.suffix not in (".svg", ".html"):
        raise BadInput(f"--chart writes .svg or .html, not '{chart.name[:60]}'")
    histories = record_histories(find_series(terms, store), wanted)
    imported = find_foreign_points(terms, store)
    histories += foreign_histories(imported, wanted)
    if not histories and (terms or not as_json):
        hint = "what was imported has one figure, leave --metric out" if imported else "tare list records"
        raise BadInput(f"no record with a {metric} matches {' '.join(terms) or 'anything'}; {hint}")
    if chart is not None:
        _draw(histories, chart)
    if as_json:
        print_json(histories)
        return
    from tare.report.history import histories_view
    from tare.report.terminal import make_console

    make_console().print(histories_view(histories))


def _draw(histories: "list[History]", chart: Path) -> None:
    from tare.report.files import write_whole
    from tare.report.history_chart import chart_html, chart_svg

    if chart.suffix == ".html":
        write_whole(chart, chart_html(histories))
        return
    if len(histories) != 1:
        raise BadInput(f"an .svg holds one series, and {len(histories)} match: name one, or write .html")
    write_whole(chart, chart_svg(histories[0]))
