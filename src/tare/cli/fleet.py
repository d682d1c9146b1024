"""tare fleet: the machines of a cluster; and the options of the verbs that measure on them."""

from typing import TYPE_CHECKING, Annotated

import typer

from tare.cli.help import PlainHelp
from tare.cli.options import JsonOption, StoreOption, Texts, print_result
from tare.errors import BadInput

if TYPE_CHECKING:
    from tare.commands.fleet import FleetTarget

app = typer.Typer(help="A fleet on Ray: what its nodes are, and whether they agree.", rich_markup_mode=None)

OnOption = Annotated[
    str | None,
    typer.Option(
        "--on", metavar="ray://HOST:PORT", help="Measure on the nodes of a Ray cluster; ray: of this one."
    ),
]
JobsPerNodeOption = Annotated[
    int | None,
    typer.Option(
        min=1, max=256, metavar="N",
        help="With --on: cases that a node prepares at a time; it measures one at a time (1).",
    ),
]  # fmt: skip
NodeOption = Annotated[
    Texts,
    typer.Option(
        "--node", metavar="FACT=VALUE", help="With --on: only such nodes (arch=aarch64, name=a); several."
    ),
]
CalibratedOption = Annotated[
    bool,
    typer.Option("--calibrate/--no-calibrate", help="With --on: measure a small ladder on every node first."),
]
DriftOption = Annotated[
    float | None,
    typer.Option(min=0, metavar="SHARE", help="With --on: leave out nodes that differ more from peers (0.1)."),
]


@app.callback(invoke_without_command=True)
def root(context: typer.Context) -> None:
    if context.invoked_subcommand is None:
        raise BadInput("tare fleet takes a command: status")


@app.command("status", cls=PlainHelp)
def status(
    on: OnOption = "ray",
    node: NodeOption = None,
    calibrated: CalibratedOption = True,
    drift: DriftOption = None,
    store: StoreOption = None,
    as_json: JsonOption = False,
) -> int:
    """Show the nodes of a cluster: what they are, whether they agree, who is left out and why.

    Every node measures the same small ladder, whose records are kept. Exit code 1 if a node is left out.
    """
    from tare.commands.fleet import fleet_status
    from tare.report.fleet import fleet_view

    target = read_fleet_target(on, None, node, calibrated, drift)
    assert target is not None, "there is a default"
    fleet = fleet_status(target, store, show_progress=not as_json)
    print_result(as_json, fleet, lambda: fleet_view(fleet.nodes))
    return fleet.exit_code


def read_fleet_target(
    on: str | None, jobs_per_node: int | None, node: list[str] | None, calibrated: bool, drift: float | None
) -> "FleetTarget | None":
    """The nodes that the options name; None without --on, which the other options need."""
    if on is None:
        given = {
            "--jobs-per-node": jobs_per_node,
            "--node": node,
            "--no-calibrate": not calibrated,
            "--drift": drift,
        }
        for option, value in given.items():
            if value:
                raise BadInput(f"{option} is for a fleet: name its cluster with --on")
        return None
    from tare.commands.fleet import FleetTarget, read_wanted

    limit = {} if drift is None else {"drift": drift}
    wanted = read_wanted(node or [])
    return FleetTarget(address=on, wanted=wanted, jobs_per_node=jobs_per_node or 1, calibrate=calibrated, **limit)
