"""The doctor's findings for the terminal."""

from rich.console import Group, RenderableType
from rich.text import Text

from tare.measure.health import Check
from tare.protocol.messages import Probed
from tare.report.lists import describe_rungs, list_view
from tare.report.table import Cell, FittingTable, simple_table

STYLE = {"good": "green", "warn": "bold yellow", "unknown": "dim"}


def health_view(probed: Probed, checks: list[Check]) -> RenderableType:
    facts = simple_table("", "")
    facts.show_header = False
    facts.add_row("devices", ", ".join(probed.devices))
    for name, value in {**probed.environment.machine, **probed.environment.software}.items():
        facts.add_row(name, value)
    facts.columns[1].no_wrap = False
    rows: list[list[Cell]] = [
        [check.name, Text(check.state, style=STYLE[check.state]), check.seen] for check in checks
    ]
    noise = FittingTable(("noise", "state", "seen"), rows, folds={"noise": 0, "seen": 0})
    remedies = [Text(f"  {c.name}: {c.remedy}", style="yellow") for c in checks if c.state == "warn" and c.remedy]
    rungs = list_view(describe_rungs(probed), ("rung", "summary", "available"))
    return Group(facts, Text(""), rungs, Text(""), noise, *remedies)
