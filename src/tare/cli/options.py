"""Options that several verbs share, how they become a grid, and what the shell completes."""

import functools
import inspect
import json
import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from tare.cases.case import CHOICES
from tare.errors import BadInput

if TYPE_CHECKING:
    from rich.console import RenderableType

    from tare.cases.plan import Plan

# No count has more. Python itself refuses to read a number of more than 4300 digits.
MOST_DIGITS = 18
Texts = list[str] | None
# Options by name, as Typer wants them annotated.
OptionGroup = dict[str, Any]


def complete_targets(incomplete: str) -> list[str]:
    """Workloads and groups, for the shell."""
    from tare.workloads import all_workloads
    from tare.workloads.groups import all_groups

    names = [*all_workloads(), *(f"@{group}" for group in all_groups())]
    return [name for name in names if name.startswith(incomplete)]


def complete_rungs(incomplete: str) -> list[str]:
    """Rungs and their variants, also the last of a list with commas. For the shell."""
    from tare.rungs.registry import every_name

    head, comma, last = incomplete.rpartition(",")
    return [f"{head}{comma}{name}" for name in every_name() if name.startswith(last)]


def target_argument(metavar: str, **settings: Any) -> Any:
    return typer.Argument(metavar=metavar, autocompletion=complete_targets, **{"show_default": False} | settings)


def _choice(help: str) -> Any:
    """An option that takes the words of its help, which the shell completes."""
    words = re.findall(r"[\w:-]+", help)
    return typer.Option(
        help=help,
        autocompletion=lambda incomplete: [word for word in words if word.startswith(incomplete)],
    )


StoreOption = Annotated[
    str | None,
    typer.Option(
        "--store", metavar="FILE|URL", help="The store (default: TARE_STORE, or records.db in TARE_HOME)."
    ),
]
TagOption = Annotated[
    Texts, typer.Option("--tag", metavar="KEY=VALUE", help="Kept in the records, to find them by; several.")
]
EnvironmentOption = Annotated[
    Texts, typer.Option("--env", metavar="NAME=PATH", help="A virtual environment for RUNG@NAME; several.")
]
ColumnsOption = Annotated[
    str | None, typer.Option(metavar="NAME,NAME", help="Also show throughput, tokens, p50, p95, p99, spread, ...")
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print one JSON document and nothing else.")]
OutputOption = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write to this file instead of standard output.")
]
ResumeOption = Annotated[bool, typer.Option("--resume", help="Go on where the same command was interrupted.")]
RecordedOption = Annotated[
    bool, typer.Option("--recorded", help="Measure only what the store has no comparable record of.")
]
QuickOption = Annotated[
    bool, typer.Option("--quick", help="One round of 1.5 seconds per case; C++ only if it is built.")
]

# The fields of a grid (see tare.cases.plan), but for the rungs.
GRID: OptionGroup = {
    "mode": Annotated[Texts, _choice(f"{', '.join(CHOICES['mode'])}.")],
    "device": Annotated[Texts, _choice("auto, cpu, cuda, cuda:1, mps, xpu, all.")],
    "precision": Annotated[Texts, _choice(f"{', '.join(CHOICES['precision'])}.")],
    "batch": Annotated[Texts, typer.Option(metavar="N,N", help="Batch sizes, or auto (default: the workload's).")],
    "size": Annotated[Texts, typer.Option(metavar="NAME=N,N", help="Sizes of the workload.")],
    "smoke": Annotated[bool, typer.Option("--smoke", help="The workloads' small sizes, for a CPU.")],
    "feed": Annotated[Texts, _choice(f"{', '.join(CHOICES['feed'])}.")],
    "layout": Annotated[Texts, _choice(f"{', '.join(CHOICES['layout'])}.")],
    "optimizer": Annotated[Texts, _choice(f"{', '.join(CHOICES['optimizer'])}.")],
    "threads": Annotated[Texts, typer.Option(metavar="N,N", help="CPU threads (default: torch's).")],
    # Of a user's model.
    "input": Annotated[
        Texts, typer.Option(metavar="SHAPE", help="Your model's inputs: 8x3x224x224, 8x128:int64<30522.")
    ],
    "inputs": Annotated[str | None, typer.Option(metavar="FILE.py::NAME", help="Or what makes them.")],
    "loss": Annotated[str | None, typer.Option(metavar="FILE.py::NAME", help="Your model's loss.")],
}
MODEL = ("input", "inputs", "loss")
# How a case is measured (see tare.cases.options).
MEASURING: OptionGroup = {
    "rounds": Annotated[int | None, typer.Option(help="Fresh processes per case (default 3).")],
    "budget": Annotated[float | None, typer.Option(help="Seconds of sampling per case (default 12).")],
    "timeout": Annotated[float | None, typer.Option(help="Seconds after which a round is killed.")],
    "width": Annotated[float | None, typer.Option(help="Stop when the median is known this well (0.01).")],
    "isolation": Annotated[str | None, typer.Option(help="fork (cheap) or spawn (nothing shared).")],
    "memory": Annotated[int | None, typer.Option(min=1, help="MiB of host memory a worker may use.")],
    "parity": Annotated[
        bool | None, typer.Option("--parity/--no-parity", help="Compare every rung with float64.")
    ],
    "reference": Annotated[
        str | None, typer.Option(help="What to compare with: float64, or float32 for less than that (float64).")
    ],
    "jobs": Annotated[
        int | None, typer.Option(help="Prepare this many cases at a time; measure one at a time (1).")
    ],
}


def choose(group: OptionGroup, names: str, **help: str) -> OptionGroup:
    """These options of a group; some with the help of a verb in which they have another default."""
    chosen = {name: group[name] for name in names.split()}
    for name, text in help.items():
        kind, option = get_args(chosen[name])
        chosen[name] = Annotated[kind, typer.Option(metavar=option.metavar, help=text)]
    return chosen


def grid_options(rungs: str, names: str = " ".join(GRID), **help: str) -> OptionGroup:
    """The fields of a grid. Rungs have another default in each verb."""
    rung = typer.Option(help=f"Rungs ({rungs}).", autocompletion=complete_rungs)
    return {"rung": Annotated[Texts, rung], **choose(GRID, names, **help)}


def option_groups(**groups: OptionGroup) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Lets the parameters of a verb stand for groups of options. Typer only knows single options: it is shown a
    signature with the options of each group, and the verb gets those of them that were given, as a dict."""

    def decorate(verb: Callable[..., Any]) -> Callable[..., Any]:
        parameters: dict[str, inspect.Parameter] = {}
        for parameter in inspect.signature(verb).parameters.values():
            # A keyword-only parameter may follow another that has a default.
            single = parameter.replace(kind=parameter.KEYWORD_ONLY)
            for name, kind in groups.get(parameter.name, {}).items():
                default = False if get_args(kind)[0] is bool else None
                parameters[name] = single.replace(name=name, default=default, annotation=kind)
            if parameter.name not in groups:
                parameters[parameter.name] = single

        @functools.wraps(verb)
        def call(**values: Any) -> Any:
            for name, group in groups.items():
                options = {option: values.pop(option) for option in group}
                values[name] = {o: value for o, value in options.items() if value != parameters[o].default}
            return verb(**values)

        call.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
        call.__annotations__ = {name: parameter.annotation for name, parameter in parameters.items()}
        return call

    return decorate


def make_table(grid: dict[str, Any], auto: bool = False) -> dict[str, Any]:
    """The table of a grid (see tare.cases.plan) from the options that were given. `auto` allows `--batch auto`."""
    readers = {"batch": batches if auto else whole_numbers, "threads": whole_numbers, "size": sizes}
    as_given = {name: grid[name] for name in ("smoke", "inputs", "loss") if name in grid}
    table = {name: readers.get(name, split)(grid[name], f"--{name}") for name in grid if name not in as_given}
    return table | as_given


def read_targets(targets: list[str], grid: dict[str, Any], **defaults: Any) -> "Plan":
    """The plan of the file or of the workloads that are named; `defaults` are for the grid of the latter."""
    from tare.cases.plan import make_plan, read_plan
    from tare.workloads.commands import is_command

    if any(map(is_command, targets)):
        return _command_plan(targets, grid)
    files = [target for target in targets if target.endswith(".toml")]
    if not files:
        model = {name: grid[name] for name in MODEL if name in grid}
        table = {"workload": targets, **defaults, **{name: grid[name] for name in grid if name not in model}}
        if model and len(targets) > 1:
            raise BadInput(f"--{next(iter(model))} is for one model: name only that, or write a plan")
        models = [{"target": target, **model} for target in targets] if model else []
        return make_plan({"grid": [table], "model": models}, "the command line", "-".join(targets)[:60])
    if len(targets) > 1:
        raise BadInput("give one plan, or workloads, not both")
    if grid:
        raise BadInput(f"--{next(iter(grid))} is for workloads; in a plan the file says it ({files[0]})")
    return read_plan(Path(files[0]))


def _command_plan(targets: list[str], grid: dict[str, Any]) -> "Plan":
    """The plan of the command that followed `--`. Its workers are small if they share nothing with a server that
    has torch imported: what they take counts for --memory."""
    from tare.cases.plan import make_plan
    from tare.rungs.command import CommandRung
    from tare.rungs.registry import rung
    from tare.workloads.commands import COMMAND

    rung(CommandRung)
    if len(targets) > 1:
        raise BadInput("give workloads or, after --, a command, not both")
    if grid:
        raise BadInput(f"--{next(iter(grid))} is for workloads: a command has its arguments")
    table = {"workload": targets, "rung": [COMMAND], "device": ["cpu"]}
    options = {"parity": False, "isolation": "spawn"}
    return make_plan({"options": options, "grid": [table]}, "the command line", targets[0])


def split(values: Texts, option: str) -> list[str]:
    """`--batch 1,32 --batch 256` gives 1, 32, 256. An option that names nothing (`--rung ,`, an empty variable) is
    refused: its default is seldom what was meant."""
    parts = [part.strip() for value in values or () for part in value.split(",") if part.strip()]
    if values and not parts:
        raise BadInput(f"{option} names nothing; leave it out for the default")
    return parts


def whole_numbers(values: Texts, option: str, besides: str = "") -> list[int]:
    numbers = []
    for text in split(values, option):
        if not re.fullmatch(f"0*[1-9][0-9]{{0,{MOST_DIGITS - 1}}}", text):
            raise BadInput(f"{option} takes {besides}positive whole numbers, not '{text[:40]}'")
        numbers.append(int(text))
    return numbers


def batches(values: Texts, option: str) -> list[int] | str:
    """Batch sizes, or `auto` alone."""
    texts = split(values, option)
    if texts == ["auto"]:
        return "auto"
    if "auto" in texts:
        raise BadInput(f"{option} takes auto alone, or positive whole numbers")
    return whole_numbers(texts, option, "auto or ")


def sizes(values: Sequence[str], option: str) -> dict[str, list[int]]:
    """`--size resolution=64,224 --size classes=10` as a table of lists."""
    table: dict[str, list[int]] = {}
    for value in values:
        name, equals, numbers = value.partition("=")
        if not name or not equals or not numbers:
            raise BadInput(f"{option} takes NAME=NUMBER[,NUMBER], not '{value[:60]}'")
        table.setdefault(name.strip(), []).extend(whole_numbers([numbers], f"{option} {name}"))
    return table


def name_environments(texts: list[str] | None) -> None:
    """NAME=PATH of each --env."""
    if texts:
        from tare.commands import environments

        environments.name_environments(texts)


def print_json(document: Any) -> None:
    """One document on standard output."""
    import msgspec

    typer.echo(json.dumps(msgspec.to_builtins(document), indent=1, allow_nan=False))


def print_result(as_json: bool, document: Any, *views: "Callable[[], RenderableType]", wide: bool = False) -> None:
    """A result as JSON or on the terminal. `wide` lines are whole off a terminal."""
    if as_json:
        print_json(document)
        return
    from tare.report.terminal import make_console

    console = make_console(whole_lines=wide)
    for view in views:
        console.print(view())
