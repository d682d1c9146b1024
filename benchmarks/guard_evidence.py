"""The evidence of an A/A check: every alarm, and the suspects that came nearest to one, with the figures of their
rounds, so that an alarm can be examined later. Small enough to be committed."""

from pathlib import Path
from typing import Any

from sqlalchemy import select

from tare.errors import TareError
from tare.guard.metrics import get_metric, values
from tare.records.record import Record
from tare.store import schema
from tare.store.database import Store

# How many of the suspects that were not confirmed are kept.
NEAREST = 3


def evidence(report: dict[str, Any], store: Path) -> dict[str, Any]:
    """`alarms`: all regressions. `nearest`: suspects that were not confirmed, those with the smallest p first. A
    figure that was measured again has the rounds of its confirmation, on which the verdict rests."""
    entries = [{"case": case["case"], "change": change} for case in report["cases"] for change in case["changes"]]
    suspects = [one for one in entries if one["change"]["stage"] == "not confirmed"]
    near = sorted(suspects, key=lambda one: _p(one["change"]))[:NEAREST]
    accused = [one for one in entries if one["change"]["worse"]]
    return {
        "alarms": [_with_rounds(one, store) for one in accused] + _broken(report),
        "nearest": [_with_rounds(one, store) for one in near],
    }


def _broken(report: dict[str, Any]) -> list[dict[str, Any]]:
    """Cases that leak, fail, or compute something else."""
    kept = ("case", "state", "reason", "leaks")
    return [
        {name: case[name] for name in kept}
        for case in report["cases"]
        if case["leaks"] or case["state"] != "compared"
    ]


def _p(change: dict[str, Any]) -> tuple[float, float]:
    """The adjusted p, by which a check decides, then the raw one, because many tests share an adjusted p."""
    return tuple(1.0 if change[name] is None else change[name] for name in ("adjusted_p", "p"))  # type: ignore[return-value]


def _with_rounds(entry: dict[str, Any], store: Path) -> dict[str, Any]:
    """With the figure and the time of every round on either side, in order."""
    change = entry["change"]
    sides = records_of(store, entry["case"], again=change["stage"] != "first")
    metric = get_metric(change["metric"])
    rounds = {
        side: [float(f"{value:.5g}") for value in values(record, metric).values()]
        for side, record in sides.items()
    }
    times = [done.started for record in sides.values() for done in record.rounds]
    return {**entry, "rounds": rounds, "began": min(times, default=""), "last": max(times, default="")}


def records_of(store: Path, case: str, again: bool) -> dict[str, Record]:
    """A case's records of a check side by side, in a store with that check alone: of its first measurement, or of
    its confirmation."""
    with Store(str(store), reading=True) as opened:
        runs = {row.id: row for row in opened.rows(select(schema.runs)) if row.confirmation == again}
        records = [record for record in opened.find(schema.records.c.key == case) if record.run in runs]
    sides = {"baseline" if runs[record.run].baseline_side else "now": record for record in records}
    if len(sides) != len(records):
        raise TareError(f"{store} holds more than one check of {case}")
    return sides
