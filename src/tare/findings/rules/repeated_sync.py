"""The host waits for the device several times a step at one place: a loop, or a check made twice (the TorchBench
paper, listing 5)."""

from collections.abc import Iterator

from tare.findings.context import Scene
from tare.findings.finding import Hit
from tare.findings.registry import rule
from tare.findings.rules.hidden_sync import by_place, hit


@rule(
    "repeated-sync",
    sees="A value of at most 1 KiB is fetched from the device more than once a step at the same place.",
    remedy="Drop the redundant check, or stack the values on the device and fetch them together.",
)
def look(scene: Scene) -> Iterator[Hit]:
    found = {where: rows for where, rows in by_place(scene).items() if len(rows) > scene.steps}
    if found:
        yield hit(scene, found, "is waited for at one place", checks=True)
