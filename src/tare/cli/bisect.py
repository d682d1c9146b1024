"""tare bisect: which version, commit or label made it slower."""

from pathlib import Path
from typing import Annotated, Any

import typer

from tare.cli.check import parse_variables
from tare.cli.options import (
    JsonOption,
    ResumeOption,
    grid_options,
    make_table,
    option_groups,
    print_result,
    read_targets,
    split,
    target_argument,
)
from tare.errors import BadInput


@option_groups(
    grid=grid_options(
        "default: eager", "mode device precision batch size smoke layout optimizer threads input inputs loss"
    )
)
def bisect(
    target: Annotated[str | None, target_argument("WORKLOAD|FILE.py::NAME")] = None,
    *,
    grid: dict[str, Any],
    case: Annotated[str | None, typer.Option(help="Measure this case with tare.")] = None,
    command: Annotated[str | None, typer.Option(help="Or run this; it prints a number. {} is the label.")] = None,
    good: Annotated[str | None, typer.Option(help="The good version, commit or label.")] = None,
    bad: Annotated[str | None, typer.Option(help="The bad one.")] = None,
    install: Annotated[
        list[str] | None, typer.Option(help="Run in a new virtual environment: 'pip install torch=={}'.")
    ] = None,
    versions: Annotated[
        list[str] | None, typer.Option(help="The versions, oldest first (default: pip's).")
    ] = None,
    repo: Annotated[
        Path | None, typer.Option(metavar="DIR", help="Bisect the commits of this repository.")
    ] = None,
    build: Annotated[list[str] | None, typer.Option(help="Run in each commit's worktree, {dir}.")] = None,
    labels: Annotated[Path | None, typer.Option(metavar="FILE", help="Bisect these lines, oldest first.")] = None,
    measure: Annotated[
        str | None, typer.Option(help="Of a command: output (the number printed last, the default) or wall.")
    ] = None,
    metric: Annotated[str | None, typer.Option(help="What of a case is compared (default: gross).")] = None,
    env: Annotated[list[str] | None, typer.Option(metavar="NAME=VALUE", help="Set for all commands.")] = None,
    python: Annotated[str | None, typer.Option(help="The interpreter (default: this one).")] = None,
    budget: Annotated[float | None, typer.Option(help="Seconds of sampling per measurement (default 4).")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds after which a measurement is killed.")] = 900.0,
    confidence: Annotated[float, typer.Option(help="How certain a culprit must be.")] = 0.95,
    runs: Annotated[int | None, typer.Option(min=1, help="Give up after this many measurements.")] = None,
    resume: ResumeOption = False,
    as_json: JsonOption = False,
) -> int:
    """Find the version, commit or label that made it slower.

    Measures the candidates that carry most information. Exit code 0 only if a culprit was found.
    """
    from tare.bisect.loop import bisect as run_bisection
    from tare.bisect.spec import make_spec
    from tare.measure.environment import collect_without_torch
    from tare.report.bisect import bisect_view
    from tare.report.terminal import make_console
    from tare.system.home import home

    if not 0.5 <= confidence < 1:
        raise BadInput(f"--confidence takes 0.5 to 1, not {confidence}")
    if grid and target is None:
        raise BadInput(f"--{next(iter(grid))} is for a workload or a model that is named")
    spec = make_spec(
        target=_run_arguments(target, grid) if target else [],
        case=case, command=command, good=good, bad=bad, install=install or [],
        versions=split(versions, "--versions"), repo=repo, build=build or [], labels=labels, reading=measure,
        metric=metric, environment=parse_variables(env or [], "--env"),
        python=python, budget=budget, timeout=timeout,
    )  # fmt: skip
    console = make_console(stderr=True)
    with console.status("bisecting") as status:

        def notify(text: str) -> None:
            status.update(text[:90])
            if not as_json:
                console.print(text, style="dim", markup=False)

        folder = home() / "bisect" / spec.fingerprint
        result = run_bisection(spec, folder, collect_without_torch(), resume, confidence, runs, notify)
    print_result(as_json, result.document(), lambda: bisect_view(result))
    return result.exit_code


def _run_arguments(target: str, grid: dict[str, Any]) -> list[str]:
    """The arguments of `tare run` for one case; BadInput for what is wrong here already."""
    if target.endswith(".toml"):
        raise BadInput(f"{target}: a plan has many cases; name a workload, a model or --case KEY")
    read_targets([target], make_table(grid))
    arguments = [target]
    for name, value in {"rung": ["eager"], **grid}.items():
        if value is True:
            arguments.append(f"--{name}")
        else:
            texts = value if isinstance(value, list) else [value]
            arguments += [part for text in texts for part in (f"--{name}", text)]
    return arguments
