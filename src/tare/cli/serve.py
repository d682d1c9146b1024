"""tare serve: the site of a store, its tokens, and the same pages as files."""

from pathlib import Path
from typing import Annotated

import typer

from tare.cli.help import PlainHelp
from tare.cli.options import JsonOption, StoreOption, print_result
from tare.errors import BadInput

app = typer.Typer(rich_markup_mode=None, subcommand_metavar="[token COMMAND]")
token = typer.Typer(help="Who may write to the site, or read it: create, list, revoke.", rich_markup_mode=None)
app.add_typer(token, name="token")

READ = ("open", "token")


@app.callback(invoke_without_command=True)
def serve(
    context: typer.Context,
    port: Annotated[int, typer.Option(min=0, max=65535, metavar="N", help="The port; 0 takes a free one.")] = 8700,
    host: Annotated[str, typer.Option(metavar="ADDRESS", help="Which addresses are listened on.")] = "127.0.0.1",
    read: Annotated[str, typer.Option(metavar="open|token", help="Who may read.")] = "open",
    address: Annotated[
        str, typer.Option(metavar="URL", help="The site's own address, for the links of alerts.")
    ] = "",
    proxy: Annotated[
        str, typer.Option(metavar="ADDRESS", help="A proxy in front that says who asks, or * for any.")
    ] = "127.0.0.1",
    webhook_file: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A file with the address that is told of confirmed regressions."),
    ] = None,
    export: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Write the pages as files, and serve nothing.")
    ] = None,
    commits: Annotated[
        str, typer.Option(metavar="URL", help="Shows a commit: https://HOST/OWNER/NAME/commit/{commit}.")
    ] = "",
    store: StoreOption = None,
) -> None:
    """Serve the pages of a store: what got slower, each workload over time, the grid, every record.

    Writing (tare push, notes) takes a token: tare serve token create NAME --write. docs/team.md has the rest.
    """
    if context.invoked_subcommand is not None:
        return
    from tare.commands.serve import run_server, write_site

    if read not in READ:
        raise BadInput(f"--read takes open or token, not '{read[:20]}'")
    if commits and not (commits.startswith(("https://", "http://")) and "{commit}" in commits):
        raise BadInput(f"--commits takes an address with {{commit}} in it, not '{commits[:60]}'")
    if export is not None:
        write_site(store, export, commits)
        return
    run_server(store, host, port, read, address, proxy, webhook_file, commits)


@token.callback(invoke_without_command=True)
def token_root(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        raise BadInput("tare serve token takes a command: create, list, revoke")


@token.command("create", cls=PlainHelp)
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose it is, to revoke it by.", show_default=False)],
    write: Annotated[bool, typer.Option("--write", help="It may upload, and write notes.")] = False,
    project: Annotated[str, typer.Option(metavar="NAME", help="What it uploads, and all it sees.")] = "",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="FILE", help="Write it to this file, for its owner alone."),
    ] = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """Make a token, and show it once: the store keeps its digest alone."""
    from tare.site.access import create_token
    from tare.store.database import Store
    from tare.system.private_files import write_private

    with Store(store) as opened:
        made = create_token(opened, name, project, write)
    if output is not None:
        try:
            write_private(output, made.encode() + b"\n")
        except OSError as error:
            raise BadInput(f"cannot write {output}: {error.strerror}; revoke the token '{name}'") from None
    document = {"name": name, "project": project, "may_write": write, "token": None if output else made}
    print_result(as_json, document, lambda: f"wrote the token to {output}" if output else made, wide=True)


@token.command("list", cls=PlainHelp)
def list_(store: StoreOption = None, as_json: JsonOption = False) -> None:
    """List the tokens, without what makes them valid."""
    from tare.report.lists import list_view
    from tare.site.access import list_tokens
    from tare.store.database import Store

    with Store(store, reading=True) as opened:
        entries = list_tokens(opened)
    shown = [
        {
            "name": entry["name"],
            "project": entry["project"] or "all",
            "may": "write" if entry["may_write"] else "read",
            "created": entry["created"][:16].replace("T", " "),
            "used": (entry["used"] or "never")[:16].replace("T", " "),
            "state": f"revoked {entry['revoked'][:10]}" if entry["revoked"] else "valid",
        }
        for entry in entries
    ]
    columns = ("name", "project", "may", "created", "used", "state")
    print_result(as_json, entries, lambda: list_view(shown, columns), wide=True)


@token.command("revoke", cls=PlainHelp)
def revoke(
    name: Annotated[str, typer.Argument(metavar="NAME", show_default=False)],
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> None:
    """End a token; what it has uploaded stays."""
    from tare.site.access import revoke_token
    from tare.store.database import Store

    with Store(store, existing=True) as opened:
        revoke_token(opened, name)
    print_result(as_json, {"revoked": name}, lambda: f"revoked {name}", wide=True)
