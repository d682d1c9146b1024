"""tare study: what papers claimed, measured again, with a verdict on every claim."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tare.cli.help import PlainHelp
from tare.cli.options import (
    MEASURING,
    EnvironmentOption,
    JsonOption,
    QuickOption,
    ResumeOption,
    StoreOption,
    choose,
    name_environments,
    option_groups,
    print_json,
    print_result,
)
from tare.errors import BadInput

app = typer.Typer(
    help="Claims of papers, measured again: list, run, show.",
    rich_markup_mode=None,
)


def complete_studies(incomplete: str) -> list[str]:
    from tare.studies.registry import study_names

    return [name for name in study_names() if name.startswith(incomplete)]


NameArgument = Annotated[
    str, typer.Argument(metavar="NAME|STUDY.toml", show_default=False, autocompletion=complete_studies)
]


@app.callback(invoke_without_command=True)
def root(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        raise BadInput("tare study takes a command: list, run, show")


@app.command("list", cls=PlainHelp)
def list_(as_json: JsonOption = False) -> None:
    """List the studies."""
    from tare.commands.study import list_studies
    from tare.report.study import studies_view

    entries = list_studies()
    print_result(as_json, entries, lambda: studies_view(entries), wide=True)


@app.command("run", cls=PlainHelp)
@option_groups(measuring=choose(MEASURING, "rounds budget timeout jobs", rounds="Fresh processes per case.",
                                budget="Seconds of sampling per case."))  # fmt: skip
def run(
    name: NameArgument,
    measuring: dict[str, Any],
    device: Annotated[str, typer.Option(help="cpu or cuda (default: cuda where there is one).")] = "auto",
    quick: QuickOption = False,
    resume: ResumeOption = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Say what would be measured, and stop.")] = False,
    env: EnvironmentOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Measure what a study needs, and judge its claims."""
    from tare.commands.study import StudySession
    from tare.report.study import study_view
    from tare.report.terminal import make_console

    name_environments(env)
    if dry_run and resume:
        raise BadInput("--dry-run does not know what an interrupted run has measured: leave out --resume")
    session = StudySession(name, device, quick, measuring, store, show_progress=not as_json)
    if dry_run:
        planned = session.dry_run()
        if as_json:
            print_json(planned.document())
        else:
            planned.render()
        return planned.exit_code
    result = session.run(resume)
    verdict = session.verdict()
    if as_json:
        print_json({"run": result.document(), "study": verdict})
    else:
        result.render()
        make_console().print(study_view(verdict))
    return result.exit_code


@app.command("show", cls=PlainHelp)
def show(
    name: NameArgument,
    records: Annotated[
        list[Path] | None,
        typer.Option(metavar="FILE", help="Judge by these instead of the store: records, or the --json of explain,"
                     " coverage or frames; several."),
    ] = None,
    points: Annotated[bool, typer.Option("--points", help="Also every point behind a figure.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="What quick runs measured; it decides nothing.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:  # fmt: skip
    """Show what a paper said, what this machine says, and the verdicts."""
    from tare.commands.study import show_study
    from tare.report.study import study_view

    verdict = show_study(name, records or [], quick, store)
    print_result(as_json, verdict, lambda: study_view(verdict, points))
