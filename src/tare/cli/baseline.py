"""tare baseline: names for sets of records."""

from typing import Annotated

import typer

from tare.cli.help import PlainHelp
from tare.cli.options import JsonOption, StoreOption, print_result
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


@app.command("set", cls=PlainHelp)
def set_(
    name: NameArgument,
    selector: Annotated[
        str, typer.Argument(metavar="RUN|newest[~N]|BASELINE|FIELD=VALUE", help="Which records.")
    ] = "newest",
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Name the records of a run (the newest run by default)."""
    from tare.report.numbers import several
    from tare.store.baselines import set_baseline
    from tare.store.database import Store
    from tare.store.selection import select_records

    with Store(store, existing=True) as opened:
        records = select_records(selector, opened).records
        replaced = set_baseline(opened, name, records)
    document = {"baseline": name, "replaced": replaced, "records": [record.id for record in records]}
    text = f"{'replaced' if replaced else 'set'} baseline {name}: {several(len(records), 'record')}"
    print_result(as_json, document, lambda: text, wide=True)


@app.command("list", cls=PlainHelp)
def list_(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """List the baselines."""
    from tare.report.lists import list_view
    from tare.store.baselines import list_baselines
    from tare.store.database import Store

    with Store(store, reading=True) as opened:
        entries = [baseline._asdict() for baseline in list_baselines(opened)]
    print_result(as_json, entries, lambda: list_view(entries, ("name", "created", "records")), wide=True)


@app.command("show", cls=PlainHelp)
def show(name: NameArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Show the ladders of a baseline."""
    from rich.console import Group

    from tare.report.ladder import ladder_view, make_ladders
    from tare.store.baselines import get_baseline
    from tare.store.database import Store

    with Store(store, reading=True) as opened:
        records = get_baseline(opened, name)
    ladders = make_ladders(records)
    parts = [part for ladder in ladders for part in (ladder_view(ladder), "")]
    print_result(as_json, {"records": records, "ladders": ladders}, lambda: Group(*parts))


@app.command("remove", cls=PlainHelp)
def remove(name: NameArgument, store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Remove a name; its records stay in the store."""
    from tare.store.baselines import remove_baseline
    from tare.store.database import Store

    with Store(store, existing=True) as opened:
        remove_baseline(opened, name)
    print_result(as_json, {"removed": name}, lambda: f"removed baseline {name}; its records stay", wide=True)
