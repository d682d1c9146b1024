"""The nodes of a fleet: as a table, and while they measure."""

from collections.abc import Mapping, Sequence

from rich.console import Group, RenderableType

from tare.cases.case import Case
from tare.execute.fleet.fleet import FleetNode
from tare.report.numbers import seconds
from tare.report.progress import Progress
from tare.report.view import FittingTable, View


def fleet_view(nodes: Sequence[FleetNode]) -> View:
    """Who measures, whether they agree, and who is left out and why."""
    devices = list(dict.fromkeys(each.device for node in nodes for each in node.calibration))
    rows = [_cells(node, devices) for node in nodes]
    view = View("nodes").put(FittingTable(rows, words=("node", "state"), folds={"is": 16}))
    for node in nodes:
        if node.left_out:
            view.add("failure", f"{node.name} is left out: {node.left_out}")
        view.add("note", *(f"{node.name}: {note}" for note in node.notes))
        view.add("warning", *(f"{node.name}: {warning}" for warning in node.warnings()))
    return view


def _cells(node: FleetNode, devices: Sequence[str]) -> dict[str, str]:
    machine = node.environment.machine if node.environment else {}
    kinds = [machine.get("arch", ""), machine.get("cpu", ""), f"{node.cores:g} cores", machine.get("gpu", "")]
    cells = {"node": node.name, "state": "left out" if node.left_out else "good"}
    cells["is"] = ", ".join(filter(None, kinds))
    for device in devices:
        measured = next((each for each in node.calibration if each.device == device), None)
        cells[device] = seconds(measured.median_s) if measured else "-"
        cells[f"{device} x peers"] = f"{measured.ratio:.2f}" if measured and measured.ratio else "-"
    return cells


class FleetProgress(Progress):
    """Progress over all nodes: what each does now, above one bar with the time left."""

    def __init__(self, shown: bool) -> None:
        self._doing: dict[str, str] = {}
        super().__init__(shown)

    def node_changed(self, node: str, doing: str) -> None:
        """What a node does now; nothing for one that waits."""
        if " " in doing or node not in self._doing or not doing:
            self._doing[node] = doing
        working = sum(map(bool, self._doing.values()))
        self._current = f"{working} of {len(self._doing)} nodes measure"
        self.stage_changed("")

    def stage_changed(self, stage: str) -> None:
        """A stage of the whole fleet, or none while the nodes measure."""
        if stage:
            self._current = ""
        super().stage_changed(stage)

    def node_chosen(self, node: str) -> None:
        """From now on one node measures, as this machine would without a fleet."""
        self._doing.clear()
        self._current = ""
        self.stage_changed(f"measuring on {node}")

    def rounds_dropped(self, case: Case, count: int) -> None:
        """Rounds that are measured again on another node."""
        self._rounds.pop(case, None)
        self._advance(-count)

    def view(self) -> RenderableType:
        if not self._doing:
            return super().view()
        rows: list[Mapping[str, str]] = [
            {"node": node, "measures": doing or "-"} for node, doing in sorted(self._doing.items())
        ]
        return Group(View().put(FittingTable(rows, words=("node",), folds={"measures": 20})).gap(), self._bar)
