"""tare explain, diff and frames: where a step's time goes, what changed in it, and how deep its calls are."""

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tare.cli.options import (
    MEASURING,
    EnvironmentOption,
    JsonOption,
    OutputOption,
    QuickOption,
    RecordedOption,
    ResumeOption,
    StoreOption,
    TagOption,
    choose,
    grid_options,
    make_table,
    name_environments,
    option_groups,
    print_json,
    print_result,
    read_targets,
    split,
    target_argument,
)
from tare.errors import BadInput, Interrupted

if TYPE_CHECKING:
    from tare.report.explain import ExplainReport


@option_groups(grid=grid_options("default: eager"), measuring=choose(MEASURING, "rounds budget"))
def explain(
    targets: Annotated[list[str], target_argument("WORKLOAD|@GROUP|TRACE|FOLDER")],
    grid: dict[str, Any],
    measuring: dict[str, Any],
    against: Annotated[str | None, typer.Option(help="Another rung or trace: what it removes.")] = None,
    quick: QuickOption = False,
    stacks: Annotated[
        bool, typer.Option("--stacks/--no-stacks", help="Profile again for source lines (default: yes).")
    ] = True,
    resume: ResumeOption = False,
    recorded: RecordedOption = False,
    tables: Annotated[
        int, typer.Option(min=0, metavar="ROWS", help="Also show operators, kernels and memory.")
    ] = 0,
    modules: Annotated[
        int, typer.Option(min=0, metavar="DEPTH", help="Also show time and memory by module, this many levels.")
    ] = 0,
    sort: Annotated[str | None, typer.Option(help="Sort the tables by this column, as printed.")] = None,
    annotate: Annotated[
        Path | None, typer.Option(help="Write the trace with idle causes and findings; one file per case.")
    ] = None,
    flame: Annotated[
        Path | None, typer.Option(help="Write a flame graph: .json for speedscope, any other name folded stacks.")
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write charts, findings and tables to an HTML page.")] = None,
    svg: Annotated[
        Path | None, typer.Option(help="Write the waterfall as an SVG picture; one per workload.")
    ] = None,
    live: Annotated[bool, typer.Option("--live", help="Record steady steps of the command after --.")] = False,
    steps: Annotated[int | None, typer.Option(min=1, max=1000, help="How many steps --live records.")] = None,
    stop: Annotated[bool, typer.Option("--stop", help="End the command of --live once it is recorded.")] = False,
    replay: Annotated[
        str | None, typer.Option(help="Write a script that runs this operator of the trace alone (see -o).")
    ] = None,
    output: OutputOption = None,
    tag: TagOption = None,
    env: EnvironmentOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Explain where the time of a step goes.

    Measures a workload, profiles it in a process of its own, and explains it; or explains a trace (of
    torch.profiler, Nsight Systems, JAX, TensorFlow or rocprof), or the traces of all ranks of a job. Or runs any
    script and records steady steps of it: tare explain --live -- python train.py
    """
    from tare.commands.explain import ExplainOptions, explain_files, explain_plan
    from tare.commands.run import Session
    from tare.commands.traces import names_trace, refuse_annotation, unseen
    from tare.records.tags import read_tags
    from tare.report.explain import print_report
    from tare.report.files import check_apart, check_writable
    from tare.report.findings import MAX_ROWS, check_column

    check_column(sort)
    name_environments(env)
    targets = targets if live else _with_folders(targets)
    files = [target for target in targets if names_trace(target)]
    outputs = [path for path in (annotate, flame, html, svg) if path]
    for path in outputs:
        check_writable(path)
    check_apart(outputs, [Path(name) for name in (*files, against or "") if names_trace(name)])
    for file in files if annotate else ():
        refuse_annotation(file)

    if not live and (stop or steps):
        raise BadInput(f"--{'stop' if stop else 'steps'} is for a command: tare explain --live -- python train.py")
    if files and len(files) < len(targets):
        raise BadInput("name traces or workloads, not both")
    others = {"quick": quick, "no-stacks": not stacks, "resume": resume, "recorded": recorded, "tag": bool(tag)}
    given = [*grid, *measuring, *(name for name, value in {**others, "store": store is not None}.items() if value)]
    if files and given:
        raise BadInput(f"--{given[0]} is for workloads: a trace is explained as it was recorded")
    if modules and not stacks:
        raise BadInput("--modules needs the recording with stacks: leave out --no-stacks")
    if against == "":
        raise BadInput("--against names nothing; leave it out to explain the rung alone")
    if against and names_trace(against) != bool(files):
        kinds = ("trace", "trace") if files else ("rung", "workload")
        raise BadInput(f"--against {against}: name a {kinds[0]} to compare a {kinds[1]} with")
    if against and len(files) > 1:
        raise BadInput(f"--against compares one trace with another: {len(files)} are named")
    if replay is not None or output:
        return _write_replay(
            targets, files, replay, output, [*map(str, outputs), *(["--json"] if as_json else [])]
        )
    if live:
        unused = [name for name in given if name != "no-stacks"] + (["against"] if against else [])
        report = _explain_live(targets, unused, steps, stacks, stop, as_json)
    elif files:
        report = explain_files(files, against)
    else:
        rungs = split(grid.get("rung"), "--rung") or ["eager"]
        if against in rungs:
            raise BadInput(f"--against {against}: that rung is explained itself; name another")
        rungs += [against] if against else []
        table = {**make_table(grid, auto=True), "rung": list(dict.fromkeys(rungs))}
        plan = read_targets(targets, table)
        options = ExplainOptions(against=against, stacks=stacks, resume=resume, recorded=recorded)
        tags = read_tags(tag or [])
        session = Session(plan, measuring, quick, store, show_progress=not as_json, unwanted=unseen, tags=tags)
        report = explain_plan(session, options)
    # Printed first, so that a file that cannot be written loses nothing; and written even if the reader of the
    # output stops early (`| head`).
    try:
        if as_json:
            print_json(report.document())
        else:
            print_report(report, tables or (MAX_ROWS if sort else 0), sort, modules)
    finally:
        # An incomplete report replaces no file.
        if not report.interrupted:
            _write_files(report, html, svg, annotate, flame)
    return report.exit_code


def _write_replay(
    targets: list[str], files: list[str], name: str | None, output: Path | None, others: list[str]
) -> int:
    from tare.commands.operator_script import replay_script
    from tare.report.files import check_writable, write_whole

    if name is None:
        raise BadInput("-o is for the script of --replay NAME")
    if len(files) != 1 or files != targets:
        raise BadInput("--replay takes one trace: tare explain trace.json.gz --replay aten::mm -o op.py")
    if others:
        raise BadInput(f"--replay writes a script and nothing else: leave out {others[0]}")
    if output:
        check_writable(output)
    script = replay_script(files[0], name)
    if output:
        write_whole(output, script)
    else:
        typer.echo(script, nl=False)
    return 0


def _explain_live(
    targets: list[str], unused: list[str], steps: int | None, stacks: bool, stop: bool, as_json: bool
) -> "ExplainReport":
    from tare.commands.live import LiveOptions, explain_live
    from tare.workloads.commands import get_command, is_command

    if len(targets) != 1 or not is_command(targets[0]):
        raise BadInput("--live takes a command: tare explain --live -- python train.py")
    if unused:
        raise BadInput(f"--{unused[0]} is not for a command: it is recorded as it runs")
    arguments = get_command(targets[0]).arguments
    return explain_live(arguments, LiveOptions(steps=steps, stacks=stacks, stop=stop, as_json=as_json))


def _with_folders(targets: list[str]) -> list[str]:
    """The targets, with the traces in a folder instead of the folder. BadInput for a file of another kind."""
    from tare.commands.ranks import trace_files
    from tare.commands.traces import names_trace, refuse_unreadable
    from tare.workloads import all_workloads

    expanded: list[str] = []
    for target in targets:
        path = Path(target)
        if not path.exists() or names_trace(target) or target in all_workloads():
            expanded.append(target)
        elif path.is_dir():
            expanded += trace_files(target)
        elif path.suffix in (".toml", ".py"):
            expanded.append(target)
        else:
            refuse_unreadable(path)
    return expanded


def _write_files(
    report: Any, html: Path | None, svg: Path | None, annotate: Path | None, flame: Path | None
) -> None:
    from tare.report.explain import case_parts, write_html, write_svg
    from tare.report.files import several_files
    from tare.report.flame import write_flame
    from tare.report.formats.annotated_trace import write_annotated
    from tare.trace.flame import flame as stacks_of
    from tare.trace.read import read
    from tare.trace.windows import select_steps

    if not report.explanations and (html or svg or annotate or flame):
        typer.echo("nothing was explained: no file is written", err=True)
        return
    if html:
        write_html(report, html)
    pictures = write_svg(report, svg) if svg else []
    traces: list[Path] = []
    if annotate:
        _refuse_merged(report)
        traces = several_files(annotate, [case_parts(explanation) for explanation in report.explanations])
        for explanation, diagnosis, target in zip(report.explanations, report.diagnoses, traces, strict=True):
            source = Path(explanation.trace)
            write_annotated(read(source), source, target, diagnosis.findings)
    flames: list[Path] = []
    if flame:
        _refuse_merged(report)
        flames = several_files(flame, [case_parts(explanation) for explanation in report.explanations])
        for explanation, target in zip(report.explanations, flames, strict=True):
            write_flame(stacks_of(select_steps(read(Path(explanation.trace)))), explanation.title, target)
    for written in (pictures, traces, flames):
        # The user did not choose the names of several files.
        if len(written) > 1:
            typer.echo(f"written: {', '.join(map(str, written))}", err=True)


def _refuse_merged(report: Any) -> None:
    """Raises BadInput for a rank that has no file of its own."""
    for explanation in report.explanations:
        if report.job and not Path(explanation.trace).exists():
            raise BadInput(f"{explanation.trace} is merged with other ranks: name a file of that rank alone")


def diff(
    before: Annotated[str, typer.Argument(metavar="A", help="A trace, or a record's id, key or file.")],
    after: Annotated[str, typer.Argument(metavar="B", help="The other one.")],
    rows: Annotated[int, typer.Option(min=1, help="How many operators and kernels to show.")] = 15,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Compare two traces or two records.

    Shows the operators and kernels that appeared, vanished or slowed.
    """
    from rich.text import Text

    from tare.commands.diff import diff as compare
    from tare.report.diff import diff_view
    from tare.report.terminal import make_console

    with make_console(stderr=True).status(Text(f"comparing {before} and {after}")):
        result = compare(before, after, store)
    print_result(as_json, result, lambda: diff_view(result.records, result.trace, result.notes, rows))


@option_groups(
    grid=grid_options(
        "default: every one in the ladder", "mode device precision batch size layout",
        batch="Batch size (default: the workload's).",
    ),
    measuring=choose(
        MEASURING, "rounds budget timeout jobs", rounds="Fresh processes per timed case (default 3).",
        budget="Seconds of sampling per timed case (default 12).",
        timeout="Seconds after which a worker is killed.", jobs="Compile and count this many rungs at a time (1).",
    ),
)  # fmt: skip
def frames(
    workload: Annotated[str, target_argument("WORKLOAD")],
    grid: dict[str, Any],
    measuring: dict[str, Any],
    stack: Annotated[bool, typer.Option("--stack", help="Print the stacks.")] = False,
    cost: Annotated[bool, typer.Option("--cost", help="Also time what a call costs on each rung.")] = False,
    as_json: JsonOption = False,
) -> int:
    """Count the call depth between your call and the vendor library.

    On every rung, the stack frames from the user's call to the first convolution (or matrix product) of the
    vendor library.
    """
    from tare.cases.options import make_options
    from tare.commands.frames import count_call_depths
    from tare.report.frames import cost_view, depth_view, stack_view
    from tare.report.overview import skipped_view
    from tare.report.terminal import make_console

    options = make_options(measuring, "the command line")
    with make_console(stderr=True).status("") as status:
        counts = count_call_depths(workload, make_table(grid), options, cost, status.update)
    views = [partial(depth_view, ladder) for ladder in counts.ladders()]
    views += [partial(stack_view, depth) for depth in counts.depths if stack]
    views += [partial(cost_view, counts.cost)] if counts.cost else []
    views += [partial(skipped_view, counts.skipped)] if counts.skipped else []
    print_result(as_json, counts, *views)
    if counts.interrupted:
        raise Interrupted("the rungs that were ready are shown, and the others are missing")
    return counts.exit_code
