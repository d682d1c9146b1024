"""`tare run --on` and `tare fleet status`: a plan over the machines of a cluster, its records in this store."""

import contextlib
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from functools import partial

import msgspec

from tare.cases.plan import Grid, expand_plan, fingerprint, nothing_to_do
from tare.commands.run import NOTHING_TO_RESUME, RunResult, Session
from tare.errors import BadInput
from tare.execute.fleet.dispatch import Dispatcher, FleetSettings
from tare.execute.fleet.fleet import NODE_FACTS, VERSIONS, Fleet, FleetCatalogue, FleetNode, NoNodes, own_versions
from tare.execute.fleet.ray_cluster import check_address, open_ray
from tare.execute.fleet.schedule import make_portions
from tare.execute.preload import FIELDS
from tare.execute.projects import read_projects
from tare.execute.runner import FirstFailure
from tare.report.fleet import FleetProgress, fleet_view
from tare.report.numbers import several
from tare.report.terminal import make_console
from tare.stats.agreement import LIMIT
from tare.store.database import Store
from tare.store.journal import StoreJournal, begin
from tare.store.journal import resume as resume_run
from tare.system.processes import interruptible

CALIBRATION_RUN = "fleet calibration"


class FleetRunResult(RunResult, kw_only=True):
    """`waiting` cases have no record because the nodes that could measure them are gone."""

    nodes: list[FleetNode] = []
    waiting: int = 0

    @property
    def exit_code(self) -> int:
        return super().exit_code or (1 if self.waiting else 0)

    def render(self, columns: Sequence[str] = ()) -> None:
        super().render(columns)
        console = make_console()
        measured = sorted({round_.node for record in self.records for round_ in record.rounds if round_.node})
        console.print(f"measured on {', '.join(measured) or 'no node'}", style="dim")
        if self.waiting:
            console.print(
                f"{several(self.waiting, 'case')} could not be measured, because every node that can is gone: "
                "the same command with --resume continues when one is back",
                style="yellow",
            )


class FleetTarget(msgspec.Struct, frozen=True, kw_only=True):
    """Which nodes measure: those of a cluster that have the `wanted` facts, and agree with their peers within a
    share."""

    address: str
    wanted: dict[str, str] = {}
    jobs_per_node: int = 1
    calibrate: bool = True
    drift: float = LIMIT

    def __post_init__(self) -> None:
        check_address(self.address)


class FleetSession(Session):
    """A Session whose plan is measured on the nodes of a cluster."""

    def run_on(self, target: FleetTarget, resume: bool, fail_fast: bool = False) -> FleetRunResult:
        """Measures the plan. Ctrl-C and SIGTERM end it early with what has been measured."""
        if any(grid.auto_batch for grid in self._plan.grids):
            raise BadInput("--batch auto searches on one machine: leave out --on, or name the batch")
        self._options = msgspec.structs.replace(self._options, jobs=target.jobs_per_node)
        with contextlib.ExitStack() as stack:
            store = stack.enter_context(Store(self.store))
            progress = stack.enter_context(FleetProgress(self._show_progress))
            fleet = stack.enter_context(open_fleet(target.address, progress))
            axes = {name: _values(self._plan.grids, name) for name in FIELDS}
            options = self._options
            fleet.survey(target.wanted, axes, self._plan.models, options.isolation, options.timeout)
            expansion = expand_plan(self._plan, FleetCatalogue(fleet.devices))
            self._drop_needless_parity(expansion.cases)
            versions = [own_versions()[name] for name in VERSIONS]
            identity = fingerprint(expansion.cases, [self._options.identity, "fleet", versions])
            measurable, skips = fleet.consider(expansion.cases, options.memory, build=not self._quick)
            cases = [case for case in expansion.cases if any(case in known for known in measurable.values())]
            skipped = [*expansion.skipped, *skips]
            if not cases:
                raise nothing_to_do(skipped)
            if target.calibrate:
                fleet.calibrate(partial(begin_calibration, store), target.drift)
            measurable = {node.name: measurable[node.name] for node in fleet.usable}
            journal = resume_run(store, identity) if resume else None
            if journal is None:
                if resume:
                    progress.say(NOTHING_TO_RESUME)
                journal = begin(store, self._plan.name, identity, skipped)
            journal.on_problem = partial(progress.say, always=True)
            progress.planned(dict.fromkeys(cases, self._options.rounds), [journal])
            result = FleetRunResult(
                run=journal.run, store=store.where, skipped=skipped, excluded_rungs=self._excluded,
                planned=len(cases), nodes=list(fleet.nodes.values()),
            )  # fmt: skip
            pending = [case for case in cases if journal.record(case) is None]
            portions = make_portions(pending, measurable)
            settings = FleetSettings(self._options, fail_fast, read_projects(cases), self._tags)
            try:
                with contextlib.suppress(FirstFailure):
                    Dispatcher(fleet, portions, settings, journal).run()
            except KeyboardInterrupt:
                result.interrupted = True
            result.records = [record for case in cases if (record := journal.record(case)) is not None]
            stopped = fail_fast and any(record.failed for record in result.records)
            if not (result.interrupted or stopped):
                result.waiting = len(cases) - len(result.records)
            if not (result.interrupted or result.waiting):
                journal.finish()
            progress.rounds_ended()
        return result


class FleetStatus(msgspec.Struct, kw_only=True):
    nodes: list[FleetNode]

    @property
    def exit_code(self) -> int:
        """A head that Ray may run nothing on is no fault."""
        return 1 if any(node.left_out and node.cores for node in self.nodes) else 0

    def render(self) -> None:
        make_console().print(fleet_view(self.nodes))


def fleet_status(target: FleetTarget, where: str | None, show_progress: bool) -> FleetStatus:
    """Looks at every node, and measures the small ladder on each: its records are kept."""
    with contextlib.ExitStack() as stack:
        store = stack.enter_context(Store(where))
        progress = stack.enter_context(FleetProgress(show_progress))
        fleet = stack.enter_context(open_fleet(target.address, progress))
        with contextlib.suppress(NoNodes):
            fleet.survey(target.wanted, {"rung": ["eager"]})
            if target.calibrate:
                fleet.calibrate(partial(begin_calibration, store), target.drift)
        return FleetStatus(nodes=list(fleet.nodes.values()))


def read_wanted(pairs: Sequence[str]) -> dict[str, str]:
    """The facts of --node FACT=VALUE."""
    wanted = {}
    valid = ("name", "host", *NODE_FACTS)
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or name not in valid or not value:
            raise BadInput(f"--node takes FACT=VALUE, not '{pair[:60]}' (facts: {', '.join(valid)})")
        wanted[name] = value
    return wanted


def _values(grids: Sequence[Grid], field: str) -> list[str]:
    """What the grids say of a field of their cases; a ladder of rungs has no name yet."""
    return sorted({value for grid in grids for value in getattr(grid, field) or ("a ladder",)})


@contextlib.contextmanager
def open_fleet(address: str, progress: FleetProgress) -> Iterator[Fleet]:
    progress.stage_changed("connecting to the cluster: seconds")
    with open_ray(address) as cluster, interruptible():
        yield Fleet(cluster, progress)


def begin_calibration(store: Store, name: str) -> StoreJournal:
    """The small ladder of a node on a day is a run of its own, as nodes of one kind measure the same cases."""
    moment = datetime.now(UTC).isoformat(timespec="microseconds")
    journal = begin(store, f"{CALIBRATION_RUN} of {name}", fingerprint([], [CALIBRATION_RUN, name, moment]), [])
    journal.finish()
    return journal
