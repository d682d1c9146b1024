"""`tare serve`: the site in a server, or as files."""

import socket
from pathlib import Path
from typing import cast

import typer

from tare.errors import BadInput, TareError
from tare.report.terminal import make_console
from tare.store.database import Store

NEEDED = "the site needs packages that are not installed: pip install 'tare-bench[serve]' (starlette and uvicorn)"
# A client that sends nothing more is dropped after so many seconds; so many may be connected.
KEEP_ALIVE_S, MOST_CONNECTIONS = 10, 400
LONGEST_WEBHOOK = 4096


def run_server(
    where: str | None,
    host: str,
    port: int,
    read: str,
    address: str,
    proxy: str,
    webhook_file: Path | None,
    commits: str,
) -> None:
    """Serves until it is interrupted."""
    try:
        import uvicorn

        from tare.site.alerts import check_webhook
        from tare.site.server import ReadAccess, Site, SiteOptions
        from tare.site.slow_clients import ImpatientProtocol
    except ModuleNotFoundError as error:
        raise BadInput(NEEDED) from error
    webhook = check_webhook(_read_webhook(webhook_file)) if webhook_file else ""
    with Store(where) as store:
        listening = _listen(host, port)
        shown = f"http://{f'[{host}]' if ':' in host else host}:{listening.getsockname()[1]}/"
        options = SiteOptions(cast(ReadAccess, read), webhook, address or shown, commits)
        config = uvicorn.Config(
            Site(store, options).app(),
            http=ImpatientProtocol,
            log_level="warning",
            timeout_keep_alive=KEEP_ALIVE_S,
            limit_concurrency=MOST_CONNECTIONS,
            server_header=False,
            forwarded_allow_ips=proxy,
        )
        typer.echo(f"{shown} shows {store.where}; Ctrl-C ends it")
        with listening:
            uvicorn.Server(config).run(sockets=[listening])


def _listen(host: str, port: int) -> socket.socket:
    try:
        family, _, _, _, place = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)[
            0
        ]
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(place)
    except OSError as error:
        raise BadInput(
            f"cannot listen on {host}:{port} ({error.strerror}); choose another --port or --host"
        ) from None
    return listening


def _read_webhook(path: Path) -> str:
    """In a file, because the address of a webhook is a secret."""
    try:
        with path.open("rb") as file:
            return file.read(LONGEST_WEBHOOK).decode().strip()
    except (OSError, UnicodeError) as error:
        raise BadInput(f"cannot read the webhook's address from {path}: {error}") from None


def write_site(where: str | None, folder: Path, commits: str) -> None:
    from rich.progress import Progress

    try:
        from tare.site.export import export_site
    except ModuleNotFoundError as error:
        raise BadInput(NEEDED) from error
    console = make_console(stderr=True)
    with (
        Store(where, existing=True, reading=True) as store,
        Progress(console=console, transient=True, disable=not console.is_terminal) as progress,
    ):
        task = progress.add_task(f"writing {folder}", total=None)
        try:
            count = export_site(store, folder, lambda pages: progress.advance(task, pages), commits)
        except OSError as error:
            raise TareError(f"cannot write the pages: {error}") from None
    typer.echo(f"wrote {count} pages: open {folder / 'index.html'}")
