"""tare explain: where a step's time goes, and why the device waits."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tare.cli.options import JsonOption, StoreOption, print_json, sizes, split, whole_numbers
from tare.errors import BadInput


def explain(
    targets: Annotated[list[str], typer.Argument(metavar="WORKLOAD...|TRACE.json[.gz]...", show_default=False)],
    rung: Annotated[list[str] | None, typer.Option(help="Rungs (default: eager).")] = None,
    against: Annotated[str | None, typer.Option(help="Another rung or trace: what it removes.")] = None,
    mode: Annotated[list[str] | None, typer.Option(help="infer, train.")] = None,
    device: Annotated[list[str] | None, typer.Option(help="auto, cpu, cuda, cuda:1.")] = None,
    precision: Annotated[
        list[str] | None, typer.Option(help="fp32, tf32, bf16, fp16, amp-bf16, amp-fp16.")
    ] = None,
    batch: Annotated[list[str] | None, typer.Option(help="Batch sizes (default: the workload's).")] = None,
    size: Annotated[list[str] | None, typer.Option(help="Sizes of the workload: NAME=N[,N].")] = None,
    feed: Annotated[list[str] | None, typer.Option(help="device, pinned, pageable.")] = None,
    layout: Annotated[list[str] | None, typer.Option(help="contiguous, channels-last.")] = None,
    optimizer: Annotated[list[str] | None, typer.Option(help="sgd, adam, adamw.")] = None,
    rounds: Annotated[int | None, typer.Option(help="Fresh processes a case (default 3).")] = None,
    budget: Annotated[float | None, typer.Option(help="Seconds of sampling a case (default 12).")] = None,
    quick: Annotated[bool, typer.Option("--quick", help="One round, two seconds a case.")] = False,
    tables: Annotated[int, typer.Option(min=0, metavar="ROWS", help="Also operators, kernels and memory.")] = 0,
    sort: Annotated[str | None, typer.Option(help="The column that sorts the tables: host_self, calls...")] = None,
    annotate: Annotated[Path | None, typer.Option(help="Write the trace with idle causes and findings.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the charts to an HTML page.")] = None,
    svg: Annotated[Path | None, typer.Option(help="Write the waterfall as an SVG picture.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Say where the time of a step goes: measure it, profile it apart, and explain it; or explain a trace."""
    from tare.explain import explain_files, explain_plan, is_trace
    from tare.report.explained import render, write_html, write_svg
    from tare.report.findings import MOST_ROWS, check_column

    check_column(sort)

    files = [target for target in targets if is_trace(target)]
    if files and len(files) < len(targets):
        raise BadInput("name traces (.json, .json.gz) or workloads, not both")
    if files and rung:
        raise BadInput("--rung is for workloads: a trace is of one rung")
    if against and is_trace(against) != bool(files):
        kinds = ("trace (.json, .json.gz)", "trace") if files else ("rung", "workload")
        raise BadInput(f"--against {against}: name a {kinds[0]} to compare a {kinds[1]} with")
    if against and len(files) > 1:
        raise BadInput(f"--against compares one trace with another: {len(files)} are named")
    if files:
        explained = explain_files(files, against)
    else:
        rungs = split(rung or ["eager"])
        if against in rungs:
            raise BadInput(f"--against {against}: that rung is explained itself; name another")
        rungs += [against] if against else []
        grid: dict[str, Any] = {
            "rung": list(dict.fromkeys(rungs)),
            "mode": split(mode or []),
            "device": split(device or []),
            "precision": split(precision or []),
            "batch": whole_numbers(batch or [], "--batch"),
            "size": sizes(size or []),
            "feed": split(feed or []),
            "layout": split(layout or []),
            "optimizer": split(optimizer or []),
        }
        options = {"rounds": rounds, "budget": budget}
        given = {name: value for name, value in options.items() if value is not None}
        explained = explain_plan(_plan(targets, grid), given, quick, store, not as_json, against)
    if annotate:
        _annotate(explained, annotate)
    if html:
        write_html(explained, html)
    if svg:
        write_svg(explained, svg)
    if as_json:
        print_json(explained.document())
    else:
        render(explained, tables or (MOST_ROWS if sort else 0), sort)
    return explained.exit_code


def _annotate(explained: Any, target: Path) -> None:
    from tare.export.annotated import write_annotated
    from tare.trace.read import read

    if len(explained.explanations) != 1:
        raise BadInput("--annotate writes one trace: explain one workload on one rung, or one trace")
    source = Path(explained.explanations[0].trace)
    write_annotated(read(source), source, target, explained.diagnoses[0].findings)


def _plan(targets: list[str], grid: dict[str, Any]) -> Any:
    from tare.cases.plan import make_plan

    chosen = {name: value for name, value in grid.items() if value}
    return make_plan({"grid": [{"workload": targets, **chosen}]}, "the command line", "explain")
