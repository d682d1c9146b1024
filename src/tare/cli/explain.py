"""tare explain: where a step's time goes, and why the device waits."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tare.cli.options import (
    BudgetOption,
    DeviceOption,
    FeedOption,
    JsonOption,
    LayoutOption,
    ModeOption,
    OptimizerOption,
    PrecisionOption,
    QuickOption,
    RoundsOption,
    SizeOption,
    StoreOption,
    given,
    make_table,
    print_json,
    split,
)
from tare.errors import BadInput


def explain(
    targets: Annotated[list[str], typer.Argument(metavar="WORKLOAD...|TRACE.json[.gz]...", show_default=False)],
    rung: Annotated[list[str] | None, typer.Option(help="Rungs (default: eager).")] = None,
    against: Annotated[str | None, typer.Option(help="Another rung or trace: what it removes.")] = None,
    mode: ModeOption = None,
    device: DeviceOption = None,
    precision: PrecisionOption = None,
    batch: Annotated[list[str] | None, typer.Option(help="Batch sizes (default: the workload's).")] = None,
    size: SizeOption = None,
    feed: FeedOption = None,
    layout: LayoutOption = None,
    optimizer: OptimizerOption = None,
    rounds: RoundsOption = None,
    budget: BudgetOption = None,
    quick: QuickOption = False,
    stacks: Annotated[
        bool, typer.Option("--stacks/--no-stacks", help="Also profile for the lines of source (default: yes).")
    ] = True,
    resume: Annotated[bool, typer.Option("--resume", help="Go on where it was interrupted.")] = False,
    tables: Annotated[int, typer.Option(min=0, metavar="ROWS", help="Also operators, kernels and memory.")] = 0,
    sort: Annotated[str | None, typer.Option(help="The column that sorts the tables: host_self, calls...")] = None,
    annotate: Annotated[Path | None, typer.Option(help="Write the trace with idle causes and findings.")] = None,
    html: Annotated[Path | None, typer.Option(help="Write the charts to an HTML page.")] = None,
    svg: Annotated[Path | None, typer.Option(help="Write the waterfall as an SVG picture.")] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Say where the time of a step goes: measure it, profile it apart, and explain it; or explain a trace."""
    from tare.cases.plan import make_plan
    from tare.explain import Wish, explain_files, explain_plan, is_trace
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
        grid = make_table(
            rung=list(dict.fromkeys(rungs)), mode=mode, device=device, precision=precision, batch=batch, size=size,
            feed=feed, layout=layout, optimizer=optimizer,
        )  # fmt: skip
        plan = make_plan({"grid": [{"workload": targets, **grid}]}, "the command line", "explain")
        options = given(rounds=rounds, budget=budget)
        wish = Wish(against=against, stacks=stacks, resume=resume)
        explained = explain_plan(plan, options, quick, store, not as_json, wish)
    # What is not whole yet takes the place of no file.
    whole = not explained.interrupted
    if annotate and whole:
        _annotate(explained, annotate)
    if html and whole:
        write_html(explained, html)
    if svg and whole:
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
