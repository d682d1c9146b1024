"""tare check, compare and calibrate: is it slower than the baseline, and how small a change could be seen?"""

import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tare.cli.fleet import CalibratedOption, DriftOption, NodeOption, OnOption, read_fleet_target
from tare.cli.options import (
    MEASURING,
    EnvironmentOption,
    JsonOption,
    OutputOption,
    ResumeOption,
    StoreOption,
    TagOption,
    choose,
    complete_rungs,
    grid_options,
    make_table,
    name_environments,
    option_groups,
    print_result,
    read_targets,
    split,
    target_argument,
)
from tare.errors import BadInput, Interrupted

if TYPE_CHECKING:
    from tare.guard.changes import Report
    from tare.guard.compare import Rules

MetricOption = Annotated[list[str] | None, typer.Option("--metric", help="Only these metrics (default: all).")]
ThresholdsOption = Annotated[
    Path | None,
    typer.Option("--thresholds", metavar="FILE.toml", help="Default: PLAN.guard.toml next to the plan."),
]
FormatOption = Annotated[
    list[str] | None,
    typer.Option(
        "--format",
        metavar="NAME[=FILE]",
        help="terminal, or one of tare list formats: markdown, json, ..., junit. Several with a FILE each.",
    ),
]
ForceOption = Annotated[
    bool, typer.Option("--force", help="Compare across environments, and report the difference.")
]
AllOption = Annotated[bool, typer.Option("--all", help="Also show unchanged figures.")]
SELECTOR = "BASELINE|RUN|newest[~N]|FILE.json|FIELD=VALUE"
# Of a calibration: small workloads of different kinds, and rounds.
SMOKE = ("mlp", "mnist_cnn", "lstm")
ROUNDS = 12


@option_groups(
    grid=grid_options("default: the ladder; for a group, eager"),
    measuring=choose(
        MEASURING, "rounds budget timeout isolation", rounds="Fresh processes per case and side (default 6)."
    ),
)
def check(
    targets: Annotated[list[str], target_argument("WORKLOAD|@GROUP|PLAN.toml")],
    grid: dict[str, Any],
    measuring: dict[str, Any],
    baseline: Annotated[str | None, typer.Option(help="The baseline's name (tare baseline set NAME).")] = None,
    baseline_python: Annotated[
        str | None,
        typer.Option(
            metavar="PYTHON", help="Run the baseline's version side by side: its interpreter or environment."
        ),
    ] = None,
    baseline_env: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=VALUE", help="Likewise: a variable set for the baseline's side."),
    ] = None,
    baseline_dir: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Likewise: your models' files are there instead of in this folder."),
    ] = None,
    confirm: Annotated[
        int | None,
        typer.Option(
            min=0, max=1000, metavar="ROUNDS", help="Rounds to confirm a suspect (default: by the noise; 0: none)."
        ),
    ] = None,
    metric: MetricOption = None,
    thresholds: ThresholdsOption = None,
    diff: Annotated[
        bool, typer.Option("--diff/--no-diff", help="Profile regressed cases on both sides, if both can be run.")
    ] = True,
    force: ForceOption = False,
    resume: ResumeOption = False,
    max_minutes: Annotated[
        float | None,
        typer.Option(min=0, metavar="M", help="Stop measuring then, and report what is decided (exit code 3)."),
    ] = None,
    everything: AllOption = False,
    format: FormatOption = None,
    output: OutputOption = None,
    tag: TagOption = None,
    env: EnvironmentOption = None,
    on: OnOption = None,
    node: NodeOption = None,
    calibrated: CalibratedOption = True,
    drift: DriftOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Measure workloads or a plan and compare them with a baseline.

    Suspects are measured again. Exit code 1 on a regression.
    """
    from tare.commands.check import CheckSession, Version
    from tare.commands.environments import find_interpreter
    from tare.records.tags import read_tags

    target = read_fleet_target(on, None, node, calibrated, drift)
    if target and (baseline_dir or env):
        option = "--baseline-dir" if baseline_dir else "--env"
        raise BadInput(f"{option} and --on do not go together: the node has folders of its own")
    name_environments(env)
    reports = _read_formats(format, output, as_json)
    if baseline is None and baseline_python is None and baseline_dir is None and not baseline_env:
        raise BadInput("nothing to compare with: name --baseline, or --baseline-python or -dir for its version")
    if baseline_dir is not None and not baseline_dir.is_dir():
        raise BadInput(f"--baseline-dir: there is no folder {baseline_dir}")
    plan = read_targets(targets, make_table(grid))
    rules = read_rules(metric, thresholds, targets[0], confirm)
    tags = read_tags(tag or [])
    session = CheckSession(plan, measuring, rules, store, show_progress=("json", None) not in reports, tags=tags)
    version = None
    if baseline_dir is not None and not plan.models:
        raise BadInput("--baseline-dir is for models of your own files (FILE.py::NAME)")
    if baseline_python is not None or baseline_dir is not None or baseline_env:
        python = baseline_python or sys.executable
        # On a node, that is its own interpreter.
        python = find_interpreter(python, "--baseline-python") if target is None else python
        variables = parse_variables(baseline_env or [], "--baseline-env")
        folder = str(baseline_dir.resolve()) if baseline_dir else ""
        version = Version(python=python, variables=variables, folder=folder)
    report = session.run(baseline, version, resume, force, diff, max_minutes, target)
    if report.interrupted:
        raise Interrupted
    return _write_reports(report, reports, everything)


def compare(
    a: Annotated[str, typer.Argument(metavar="A", help=f"Before: {SELECTOR}.", show_default=False)],
    b: Annotated[str, typer.Argument(metavar="B", help="Now: likewise.", show_default=False)],
    rung: Annotated[
        list[str] | None, typer.Option(help="Only these rungs.", autocompletion=complete_rungs)
    ] = None,
    case: Annotated[
        str | None, typer.Option(help="Only cases whose key begins with this or fits this pattern.")
    ] = None,
    metric: MetricOption = None,
    thresholds: ThresholdsOption = None,
    force: ForceOption = False,
    everything: AllOption = False,
    format: FormatOption = None,
    output: OutputOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Compare two sets of records, case by case.

    Per case: the ratio with its interval, a verdict, and what else differs.
    """
    from tare.commands.compare import compare_stored

    reports = _read_formats(format, output, as_json)
    rules = read_rules(metric, thresholds)
    report = compare_stored(a, b, rules, store, force, split(rung, "--rung"), case)
    return _write_reports(report, reports, everything)


@option_groups(
    grid=grid_options("for workloads; default: eager", "device"),
    measuring=choose(MEASURING, "rounds budget", rounds=f"Fresh processes per case (default {ROUNDS})."),
)
def calibrate(
    targets: Annotated[
        list[str] | None, target_argument("WORKLOAD|PLAN.toml", help=f"Default: {' '.join(SMOKE)}.")
    ] = None,
    *,
    grid: dict[str, Any],
    measuring: dict[str, Any],
    metric: MetricOption = None,
    thresholds: ThresholdsOption = None,
    resume: ResumeOption = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Measure the noise of this machine.

    Measures one version against itself: the noise between processes, the changes that it hides, and how many
    rounds it takes to see them.
    """
    from tare.commands.run import Session
    from tare.guard.calibrate import calibrate as measure_noise
    from tare.guard.calibrate import refuse_empty
    from tare.guard.metrics import why_impossible
    from tare.report.noise import noise_view

    options = {"rounds": ROUNDS, **measuring}
    if options["rounds"] < 4:
        raise BadInput(f"--rounds {options['rounds']}: four processes are the fewest that show their noise")
    names = targets or list(SMOKE)
    plan = read_targets(names, make_table(grid), rung=["eager"])
    rules = read_rules(metric, thresholds, names[0])
    if all(chosen.exact for chosen in rules.metrics):
        raise BadInput(f"--metric {','.join(metric or ())}: a count has no noise to calibrate")
    session = Session(
        plan, options, quick=False, store=store, show_progress=not as_json,
        unwanted=lambda case: why_impossible(case, rules.metrics),
    )  # fmt: skip
    outcome = session.run(resume)
    lines = measure_noise(outcome.records, rules.thresholds, rules.metrics)
    if not outcome.interrupted:
        refuse_empty(lines, outcome.records, rules.metrics)
    failed = {record.case.key: record.failure for record in outcome.records if record.failure}
    document = {"run": outcome.run, "noise": lines, "failed": failed}
    print_result(as_json, document, lambda: noise_view(lines, outcome.records))
    if outcome.interrupted:
        raise Interrupted
    return outcome.exit_code


def parse_variables(pairs: Sequence[str], option: str) -> dict[str, str]:
    """Environment variables from NAME=VALUE. A value that may be secret is hidden from now on."""
    from tare.system.redaction import redact
    from tare.system.variables import remember_secrets

    variables = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or "\0" in value:
            raise BadInput(f"{option} takes NAME=VALUE, not '{redact(pair if not equals else name)[:60]}'")
        variables[name] = value
    remember_secrets(variables)
    return variables


def read_rules(
    metric: list[str] | None, thresholds: Path | None, target: str = "", confirm_rounds: int | None = None
) -> "Rules":
    """A plan may have its thresholds beside it."""
    from tare.guard.compare import Rules
    from tare.guard.metrics import get_metrics
    from tare.guard.thresholds import Thresholds, read_thresholds, thresholds_path

    metrics = get_metrics(split(metric, "--metric") or None)
    if thresholds is None and target.endswith(".toml") and thresholds_path(Path(target)).exists():
        thresholds = thresholds_path(Path(target))
    return Rules(read_thresholds(thresholds) if thresholds else Thresholds(), metrics, confirm_rounds)


def _read_formats(given: list[str] | None, output: Path | None, as_json: bool) -> list[tuple[str, Path | None]]:
    """The formats with their files, None for standard output. Refuses an unknown format and a file that cannot be
    written, before anything is measured."""
    from tare.report.files import check_apart, check_writable
    from tare.report.formats import get_comparison_format

    reports: list[tuple[str, Path | None]] = []
    for text in [*(given or []), *(["json"] if as_json else [])]:
        name, equals, file = text.partition("=")
        if equals and not file:
            raise BadInput(f"--format {text} names no file: write {name}=FILE, or {name} for standard output")
        reports.append((name, Path(file) if equals else output))
    without_file = [text for text in given or [] if "=" not in text]
    if len(without_file) > 1:
        raise BadInput(f"--format {' and '.join(without_file)}: give each of several its file, NAME=FILE")
    if as_json and without_file:
        reports = [report for report in reports if report[0] == "json" or report[1] not in (None, output)]
    if not any(file == output for _, file in reports):
        reports.append(("terminal", output))
    for name, _ in reports:
        if name != "terminal":
            get_comparison_format(name)
    files = [file for _, file in reports if file is not None]
    check_apart(files, [])
    for path in files:
        check_writable(path)
    return reports


def _write_reports(report: "Report", reports: Sequence[tuple[str, Path | None]], everything: bool) -> int:
    """Writes each report to standard output or its file, once all of them exist. If none goes to standard output,
    the terminal's view goes to standard error."""
    from tare.commands.reproduce import reproduce
    from tare.report.changes import changes_view
    from tare.report.files import write_whole
    from tare.report.formats import get_comparison_format
    from tare.report.terminal import make_console, plain_text

    report.command = reproduce(sys.argv[1:])
    view = changes_view(report, everything)
    texts = [
        plain_text(view) if name == "terminal" else get_comparison_format(name)(report) for name, _ in reports
    ]
    printed = [name for name, file in reports if file is None]
    if not printed or "terminal" in printed:
        make_console(stderr=not printed).print(view)
    for (name, file), text in zip(reports, texts, strict=True):
        if file is not None:
            write_whole(file, text)
        elif name != "terminal":
            typer.echo(text, nl=False)
    return report.exit_code
