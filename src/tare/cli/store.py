"""tare store: look after a store."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tare.cli.help import PlainHelp
from tare.cli.options import JsonOption, StoreOption, print_result
from tare.errors import BadInput

if TYPE_CHECKING:
    from tare.store.maintenance import OnDone

app = typer.Typer(
    help="Look after a store: check, copy, vacuum, export, upgrade.",
    rich_markup_mode=None,
)


@app.callback(invoke_without_command=True)
def root(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        raise BadInput("tare store takes a command: check, copy, vacuum, export, upgrade")


@contextmanager
def _bar(text: str, total: int, shown: bool) -> "Iterator[OnDone]":
    """A progress bar on a terminal."""
    from rich.progress import Progress

    from tare.report.terminal import make_console

    console = make_console(stderr=True)
    with Progress(console=console, transient=True, disable=not (shown and console.is_terminal)) as progress:
        task = progress.add_task(text, total=total)
        yield lambda count: progress.advance(task, count)


@app.command("check", cls=PlainHelp)
def check(
    mend: Annotated[bool, typer.Option("--repair", help="Write the tables anew from the records.")] = False,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Read every record, and compare it with what the tables say of it.

    Exit code 1 if something is wrong.
    """
    from tare.report.numbers import several
    from tare.store.database import Store
    from tare.store.maintenance import check_store, count_records, repair

    with Store(store, existing=True, reading=not mend) as opened:
        total = count_records(opened)
        if mend:
            with _bar("writing the tables anew", total, not as_json) as on_done:
                repair(opened, on_done)
        with _bar("checking records", total, not as_json) as on_done:
            problems = list(check_store(opened, on_done))
    lines = [f"{problem.subject}: {problem.text}" for problem in problems]
    if any(problem.mendable for problem in problems):
        lines.append("tare store check --repair mends what the tables say")
    lines.append(f"{several(total, 'record')} read, {several(len(problems), 'problem')}")
    document = {"records": total, "problems": [problem._asdict() for problem in problems]}
    print_result(as_json, document, lambda: "\n".join(lines), wide=True)
    return 1 if problems else 0


@app.command("copy", cls=PlainHelp)
def copy(
    to: Annotated[str, typer.Argument(metavar="FILE|URL", help="The other store.", show_default=False)],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Copy everything to another store, which keeps what it has.

    Nothing is copied twice: after an interruption the same command goes on.
    """
    from tare.report.numbers import several
    from tare.store.database import Store
    from tare.store.maintenance import copy_store, count_records

    with Store(store, existing=True, reading=True) as source, Store(to) as target:
        if source.engine.url == target.engine.url:
            raise BadInput(f"{target.where} is the store itself: name another")
        total = count_records(source)
        with _bar(f"copying to {target.where}", total, not as_json) as on_done:
            new = copy_store(source, target, on_done)
    document = {"from": source.where, "to": target.where, "records": total, "new": new}
    text = f"{several(total, 'record')} in {source.where}, {new} new in {target.where}"
    print_result(as_json, document, lambda: text, wide=True)


@app.command("vacuum", cls=PlainHelp)
def vacuum(
    older: Annotated[
        int | None,
        typer.Option("--samples-older-than", metavar="DAYS", min=0, help="Drop most samples of older records."),
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Give unused space back, and thin the samples of old records.

    A thinned record keeps its figures: 101 blocks of each series, evenly spaced by rank, with the median.
    """
    from datetime import UTC, datetime, timedelta

    from tare.report.numbers import several
    from tare.store.database import Store
    from tare.store.maintenance import count_records, drop_finished_rounds, drop_samples, give_back_space

    thinned = 0
    with Store(store, existing=True) as opened:
        if older is not None:
            before = (datetime.now(UTC) - timedelta(days=older)).isoformat(timespec="microseconds")
            with _bar("thinning records", count_records(opened), not as_json) as on_done:
                thinned = drop_samples(opened, before, on_done)
        rounds = drop_finished_rounds(opened)
        give_back_space(opened)
    document = {"thinned": thinned, "rounds": rounds}
    text = f"{several(thinned, 'record')} thinned, {several(rounds, 'round')} of finished runs removed"
    print_result(as_json, document, lambda: text, wide=True)


@app.command("export", cls=PlainHelp)
def export(
    output: Annotated[
        Path, typer.Option("--output", "-o", help="Write to this file: .jsonl, or .jsonl.gz compressed.")
    ] = Path("records.jsonl.gz"),
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Write every record, one a line, as tare import reads them.

    For stores that are too large for tare export.
    """
    from tare.report.files import write_lines
    from tare.report.numbers import several
    from tare.store.database import Store
    from tare.store.maintenance import count_records, exported_lines

    if not output.name.endswith((".jsonl", ".jsonl.gz")):
        raise BadInput(f"--output names a file that ends in .jsonl or .jsonl.gz, not '{output.name[:60]}'")
    with Store(store, existing=True, reading=True) as opened:
        total = count_records(opened)
        with _bar(f"writing {output}", total, not as_json) as on_done:
            write_lines(output, exported_lines(opened.records(), on_done))
    print_result(
        as_json, {"file": str(output), "records": total}, lambda: f"wrote {several(total, 'record')} to {output}"
    )


@app.command("upgrade", cls=PlainHelp)
def upgrade_(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """Bring the tables of a store to the layout of this tare."""
    from tare.store.database import Store
    from tare.store.upgrade import upgrade

    with Store(store, existing=True, upgrading=True) as opened:
        steps = upgrade(opened)
        document = {"store": opened.where, "layout": opened.revision, "migrations": steps}
    text = f"layout {document['layout']}" + (f", by {', '.join(steps)}" if steps else ": nothing to do")
    print_result(as_json, document, lambda: f"{document['store']} has {text}", wide=True)
