"""tare baseline: names for sets of records."""

from typing import Annotated

import typer

from tare.cli.options import JsonOption, StoreOption, print_json
from tare.errors import BadInput

app = typer.Typer(
    help="Name sets of records, to compare with: set, list, show, remove.",
    rich_markup_mode=None,
)
NameArgument = Annotated[str, typer.Argument(metavar="NAME", show_default=False)]


@app.callback(invoke_without_command=True)
def root(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        raise BadInput("tare baseline takes a command: set, list, show, remove")


@app.command("set")
def set_(
    name: NameArgument,
    selector: Annotated[
        str, typer.Argument(metavar="[RUN|newest[~N]|BASELINE|FIELD=VALUE]", help="Which records.")
    ] = "newest",
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Name the records of a run (the newest run by default)."""
    from tare.commands.records import name_baseline
    from tare.report.numbers import several

    records, replaced = name_baseline(name, selector, store)
    if as_json:
        print_json({"baseline": name, "replaced": replaced, "records": [record.id for record in records]})
    else:
        typer.echo(f"{'replaced' if replaced else 'set'} baseline {name}: {several(len(records), 'record')}")


@app.command("list")
def list_(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """List the baselines."""
    from tare.commands.records import all_baselines
    from tare.report.lists import list_view
    from tare.report.terminal import make_console

    entries = [baseline._asdict() for baseline in all_baselines(store)]
    if as_json:
        print_json(entries)
    else:
        make_console(whole_lines=True).print(list_view(entries, ("name", "created", "records")))


@app.command("show")
def show(name: NameArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Show the ladders of a baseline."""
    from tare.commands.records import baseline_records
    from tare.report.ladder import make_ladders
    from tare.report.terminal import ladder_view, make_console

    records = baseline_records(name, store)
    if as_json:
        print_json({"records": records, "ladders": make_ladders(records)})
        return
    console = make_console()
    for ladder in make_ladders(records):
        console.print(ladder_view(ladder))
        console.print()


@app.command("remove")
def remove(name: NameArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Remove a name; its records stay in the store."""
    from tare.commands.records import forget_baseline

    forget_baseline(name, store)
    if as_json:
        print_json({"removed": name})
    else:
        typer.echo(f"removed baseline {name}; its records stay")
