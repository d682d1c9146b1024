"""tare push and nightly: from the machine that measures to the site that many look at."""

import os
from pathlib import Path
from typing import Annotated, Any

import typer

from tare.cli.check import ForceOption, MetricOption, ThresholdsOption, read_rules
from tare.cli.options import (
    MEASURING,
    JsonOption,
    ResumeOption,
    StoreOption,
    TagOption,
    Texts,
    choose,
    grid_options,
    make_table,
    option_groups,
    print_result,
    read_targets,
    target_argument,
)
from tare.errors import BadInput, Interrupted

ToOption = Annotated[str | None, typer.Option("--to", metavar="URL", help="The site: https://HOST[:PORT].")]
TokenOption = Annotated[
    Path | None, typer.Option("--token-file", metavar="FILE", help="Holds the token (or TARE_TOKEN does).")
]
PlainOption = Annotated[bool, typer.Option("--plain", help="Allow http://, in a network that you trust.")]


def push(
    terms: Annotated[Texts, typer.Argument(metavar="KEY|ID|WORKLOAD|FIELD=VALUE", show_default=False)] = None,
    to: ToOption = None,
    token_file: TokenOption = None,
    traces: Annotated[bool, typer.Option("--traces", help="Also the traces of what was explained.")] = False,
    plain: PlainOption = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Send records to a site, which takes each once.

    With nothing named, every record in the store. After an interruption the same command goes on.
    """
    from rich.progress import Progress

    from tare.commands.push import TOKEN, SiteClient, read_token
    from tare.commands.push import push as send
    from tare.report.numbers import several
    from tare.report.terminal import make_console
    from tare.store.database import Store

    if to is None:
        raise BadInput("name the site: --to https://HOST")
    site = SiteClient(to, read_token(token_file, os.environ.get(TOKEN)), plain)
    console = make_console(stderr=True)
    with (
        Store(store, existing=True, reading=True) as opened,
        Progress(console=console, transient=True, disable=as_json or not console.is_terminal) as progress,
    ):
        task = progress.add_task(f"sending to {to}", total=None)
        result = send(
            opened,
            site,
            terms or [],
            traces,
            lambda done, total: progress.update(task, advance=done, total=total),
        )
    others = {"explanation": result.explanations, "trace": result.traces, "regression": result.regressions}
    more = "".join(f", {several(count, name)}" for name, count in others.items() if count)
    text = f"{several(result.records, 'record')}, {result.sent} new at {result.to}{more}"
    if result.refused:
        text += (
            f"\n{several(len(result.refused), 'record')} refused: their run has another record of the same case"
        )
    print_result(as_json, result, lambda: text, wide=True)
    return 1 if result.refused else 0


@option_groups(
    grid=grid_options("default: the ladder; for a group, eager"),
    measuring=choose(
        MEASURING, "rounds budget timeout isolation", rounds="Fresh processes per case (default: as tare check)."
    ),
)
def nightly(
    targets: Annotated[list[str], target_argument("WORKLOAD|@GROUP|PLAN.toml")],
    grid: dict[str, Any],
    measuring: dict[str, Any],
    baseline: Annotated[str, typer.Option(help="Compare with this; the first night becomes it.")] = "main",
    metric: MetricOption = None,
    thresholds: ThresholdsOption = None,
    max_minutes: Annotated[
        float | None, typer.Option(min=0, metavar="M", help="Stop measuring then (exit code 3).")
    ] = None,
    output: Annotated[
        Path, typer.Option("--output", "-o", metavar="FOLDER", help="Where the reports of each night go.")
    ] = Path("nightly"),
    to: ToOption = None,
    token_file: TokenOption = None,
    plain: PlainOption = False,
    force: ForceOption = False,
    resume: ResumeOption = False,
    tag: TagOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Measure a plan, check it against a baseline, write the reports, send the records: for cron or CI.

    Exit code 1 on a regression, or if the site could not be reached: the next night then sends what is missing.
    """
    from tare.commands.nightly import run_night
    from tare.commands.push import TOKEN, SiteClient, read_token
    from tare.records.tags import read_tags
    from tare.report.numbers import several

    site = SiteClient(to, read_token(token_file, os.environ.get(TOKEN)), plain) if to is not None else None
    plan = read_targets(targets, make_table(grid))
    rules = read_rules(metric, thresholds, targets[0])
    result = run_night(
        plan, measuring, baseline, rules, store, output, resume, force, max_minutes, site,
        read_tags(tag or []), show_progress=not as_json,
    )  # fmt: skip
    lines = [f"{several(result.records, 'record')}, {result.failed} failed"]
    if result.is_first:
        lines[0] += f"; there was no baseline '{baseline}', and this night is it now"
    else:
        lines[0] += f", {several(result.regressions, 'case')} got worse than baseline '{baseline}'"
    lines.append(f"reports in {result.folder}: {', '.join(result.files) or 'none'}")
    if result.pushed:
        lines.append(f"{result.pushed.sent} records sent to {result.pushed.to}")
    if result.push_failed:
        lines.append(f"not sent, the next night does it: {result.push_failed}")
    print_result(as_json, result, lambda: "\n".join(lines), wide=True)
    if result.exit_code == Interrupted.exit_code:
        raise Interrupted
    return result.exit_code
