"""tare env: other interpreters for other frameworks and versions."""

from typing import Annotated

import typer

from tare.cli.help import PlainHelp
from tare.cli.options import JsonOption, print_result
from tare.errors import BadInput

app = typer.Typer(
    help="Environments of other frameworks and versions: create, list, remove.",
    rich_markup_mode=None,
)
KNOWN = "jax, tensorflow, onnxruntime, openvino; torch==VERSION, jax==VERSION, ..."
NameArgument = Annotated[str, typer.Argument(metavar="NAME", help=KNOWN, show_default=False)]


@app.callback(invoke_without_command=True)
def root(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        raise BadInput("tare env takes a command: create, list, remove")


@app.command("create", cls=PlainHelp)
def create(name: NameArgument, as_json: JsonOption = False) -> None:
    """Make a virtual environment that also sees the packages here.

    Rungs use it by name (jax) or by version (eager@2.9.1).
    """
    from tare.commands import environments
    from tare.report.progress import Progress
    from tare.system.processes import interruptible

    with Progress(shown=not as_json) as progress, interruptible():
        folder = environments.create(name, progress.stage_changed)
    print_result(as_json, {"environment": name, "folder": str(folder)}, lambda: f"{name}: {folder}", wide=True)


@app.command("list", cls=PlainHelp)
def list_(as_json: JsonOption = False) -> None:
    """List the environments."""
    from tare.commands.environments import list_environments
    from tare.report.lists import list_view

    entries = list_environments()
    print_result(as_json, entries, lambda: list_view(entries, ("name", "folder")), wide=True)


@app.command("remove", cls=PlainHelp)
def remove(name: NameArgument, as_json: JsonOption = False) -> None:
    """Delete an environment that tare has made."""
    from tare.commands import environments

    folder = environments.remove(name)
    print_result(as_json, {"removed": name, "folder": str(folder)}, lambda: f"removed {name}", wide=True)
