"""tare explain: where a step's time goes, and why the device waits."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tare.cli.options import (
    BatchOption,
    BudgetOption,
    DeviceOption,
    FeedOption,
    JsonOption,
    LayoutOption,
    ModeOption,
    OptimizerOption,
    PrecisionOption,
    QuickOption,
    RecordedOption,
    RoundsOption,
    SizeOption,
    SmokeOption,
    StoreOption,
    complete_rungs,
    complete_targets,
    given,
    make_table,
    print_json,
    split,
)
from tare.errors import BadInput


def explain(
    targets: Annotated[
        list[str],
        typer.Argument(
            metavar="WORKLOAD|@GROUP...|TRACE.json[.gz]...", autocompletion=complete_targets, show_default=False
        ),
    ],
    rung: Annotated[
        list[str] | None, typer.Option(help="Rungs (default: eager).", autocompletion=complete_rungs)
    ] = None,
    against: Annotated[str | None, typer.Option(help="Another rung or trace: what it removes.")] = None,
    mode: ModeOption = None,
    device: DeviceOption = None,
    precision: PrecisionOption = None,
    batch: BatchOption = None,
    size: SizeOption = None,
    smoke: SmokeOption = False,
    feed: FeedOption = None,
    layout: LayoutOption = None,
    optimizer: OptimizerOption = None,
    rounds: RoundsOption = None,
    budget: BudgetOption = None,
    quick: QuickOption = False,
    stacks: Annotated[
        bool, typer.Option("--stacks/--no-stacks", help="Profile again for source lines (default: yes).")
    ] = True,
    resume: Annotated[bool, typer.Option("--resume", help="Continue an interrupted run.")] = False,
    recorded: RecordedOption = False,
    tables: Annotated[
        int, typer.Option(min=0, metavar="ROWS", help="Also show operators, kernels and memory.")
    ] = 0,
    sort: Annotated[str | None, typer.Option(help="Sort the tables by this column, as printed.")] = None,
    annotate: Annotated[
        Path | None, typer.Option(help="Write the trace with idle causes and findings; one file per case.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write charts, findings and tables to an HTML page.")] = None,
    svg: Annotated[
        Path | None, typer.Option(help="Write the waterfall as an SVG picture; one per workload.")
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Explain where the time of a step goes.

    Measures a workload, profiles it in a process of its own, and explains it; or explains a trace.
    """
    from tare.cases.plan import make_plan
    from tare.commands.explain import ExplainOptions, explain_files, explain_plan
    from tare.commands.traces import names_trace
    from tare.report.explain import print_report
    from tare.report.files import check_apart, check_writable
    from tare.report.findings import MAX_ROWS, check_column

    check_column(sort)
    files = [target for target in targets if names_trace(target)]
    outputs = [path for path in (annotate, html, svg) if path]
    for path in outputs:
        check_writable(path)
    check_apart(outputs, [Path(name) for name in (*files, against or "") if names_trace(name)])

    if files and len(files) < len(targets):
        raise BadInput("name traces (.json, .json.gz) or workloads, not both")
    if files:
        _refuse_measuring_options(
            {
                "rung": rung, "mode": mode, "device": device, "precision": precision, "batch": batch, "size": size,
                "smoke": smoke, "feed": feed, "layout": layout, "optimizer": optimizer, "rounds": rounds,
                "budget": budget, "quick": quick, "no-stacks": not stacks, "resume": resume,
                "recorded": recorded, "store": store,
            }
        )  # fmt: skip
    if against == "":
        raise BadInput("--against names nothing; leave it out to explain the rung alone")
    if against and names_trace(against) != bool(files):
        kinds = ("trace (.json, .json.gz)", "trace") if files else ("rung", "workload")
        raise BadInput(f"--against {against}: name a {kinds[0]} to compare a {kinds[1]} with")
    if against and len(files) > 1:
        raise BadInput(f"--against compares one trace with another: {len(files)} are named")
    if files:
        report = explain_files(files, against)
    else:
        rungs = split(rung, "--rung") or ["eager"]
        if against in rungs:
            raise BadInput(f"--against {against}: that rung is explained itself; name another")
        rungs += [against] if against else []
        grid = make_table(
            rung=list(dict.fromkeys(rungs)), mode=mode, device=device, precision=precision, batch=batch, auto=True,
            size=size, feed=feed, layout=layout, optimizer=optimizer,
        )  # fmt: skip
        grid |= {"smoke": True} if smoke else {}
        plan = make_plan({"grid": [{"workload": targets, **grid}]}, "the command line", "explain")
        options = ExplainOptions(against=against, stacks=stacks, resume=resume, recorded=recorded)
        measuring = given(rounds=rounds, budget=budget)
        report = explain_plan(plan, measuring, quick, store, not as_json, options)
    # Printed first, so that a file that cannot be written loses nothing; and written even if the reader of the
    # output stops early (`| head`).
    try:
        if as_json:
            print_json(report.document())
        else:
            print_report(report, tables or (MAX_ROWS if sort else 0), sort)
    finally:
        # An incomplete report replaces no file.
        if not report.interrupted:
            _write_files(report, html, svg, annotate)
    return report.exit_code


def _refuse_measuring_options(options: dict[str, Any]) -> None:
    for name, value in options.items():
        # Zero is a given value; None, False and an empty list are not.
        if value is not None and value is not False and value != []:
            raise BadInput(f"--{name} is for workloads: a trace is explained as it was recorded")


def _write_files(report: Any, html: Path | None, svg: Path | None, annotate: Path | None) -> None:
    from tare.report.charts import case_parts, write_svg
    from tare.report.files import several_files
    from tare.report.formats.annotated_trace import write_annotated
    from tare.report.page import write_html
    from tare.trace.read import read

    if not report.explanations and (html or svg or annotate):
        typer.echo("nothing was explained: no file is written", err=True)
        return
    if html:
        write_html(report, html)
    pictures = write_svg(report, svg) if svg else []
    traces: list[Path] = []
    if annotate:
        traces = several_files(annotate, [case_parts(one) for one in report.explanations])
        for one, diagnosis, target in zip(report.explanations, report.diagnoses, traces, strict=True):
            source = Path(one.trace)
            write_annotated(read(source), source, target, diagnosis.findings)
    for written in (pictures, traces):
        # The user did not choose the names of several files.
        if len(written) > 1:
            typer.echo(f"written: {', '.join(map(str, written))}", err=True)
