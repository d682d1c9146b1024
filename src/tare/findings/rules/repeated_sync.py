"""The host waits for the device several times a step at one location: a loop, or a check made twice (the
TorchBench paper, listing 5)."""

from tare.findings import Context, Match, rule
from tare.findings.rules.hidden_sync import fetch_match, fetches_by_location


@rule(
    "repeated-sync",
    sees="A value of at most 1 KiB is fetched from the device more than once a step at the same place.",
    remedy="Drop the redundant check, or stack the values on the device and fetch them together.",
)
def look(context: Context) -> Match | None:
    repeated = [rows for rows in fetches_by_location(context) if len(rows) > context.steps]
    return fetch_match(context, repeated, "is waited for at one place", checks=True) if repeated else None
