"""The doctor's findings for the terminal."""

from rich.text import Text

from tare.measure.health import Check
from tare.protocol.messages import Probed
from tare.report.lists import describe_rungs, list_view
from tare.report.view import FittingTable, View

STYLE = {"good": "green", "warn": "bold yellow", "unknown": "dim"}


def health_view(probed: Probed, checks: list[Check]) -> View:
    environment = probed.environment
    facts = {"devices": ", ".join(probed.devices), **environment.machine, **environment.software}
    rows = [
        {"noise": check.name, "state": Text(check.state, style=STYLE[check.state]), "seen": check.seen}
        for check in checks
    ]
    noise = View().put(FittingTable(rows, words=("state",), folds={"noise": 0, "seen": 0}))
    noise.add("warning", *(f"{c.name}: {c.remedy}" for c in checks if c.state == "warn" and c.remedy))
    rungs = list_view(describe_rungs(probed), ("rung", "summary", "available"))
    return View().facts(facts).show(rungs, noise)
