"""More memory is allocated after every step than after the one before."""

from collections.abc import Iterator

import numpy as np

from tare.findings.context import Scene
from tare.findings.finding import Hit, Place
from tare.findings.registry import rule
from tare.trace.memory import after_steps, memory_use

# So many steps in a row must each have left more than the one before, at least this many bytes.
FEWEST_STEPS = 4
LEAST_BYTES = 1024
CYCLES = (
    "Break the circle of references that a step makes (an object that holds what holds it), or call gc.collect() "
    "now and then: until Python's collector comes by itself, all of it stays allocated."
)


@rule(
    "memory-growth",
    sees="Each of at least 4 steps leaves at least 1 KiB more device memory allocated than the one before.",
    remedy="Let go of what a step made: detach what is kept (loss.item() or .detach()), clear lists and "
    "workspaces.",
)
def look(scene: Scene) -> Iterator[Hit]:
    held = after_steps(scene.trace)
    if len(held) < FEWEST_STEPS or np.diff(held).min() < LEAST_BYTES:
        return
    use = memory_use(scene.trace)
    if use is None or use.growth is None:
        return
    rise = use.growth
    garbage = use.garbage is not None and use.garbage >= held[-1] - held[0]
    until = ", until Python's collector comes" if garbage else ""
    yield Hit(
        summary=f"every step leaves {rise.mid / 2**20:.3g} MiB more allocated{until}",
        evidence={
            "bytes_per_step": rise.mid,
            "bytes_per_step_low": rise.low,
            "bytes_per_step_high": rise.high,
            "steps": len(use.after_step),
        },
        places=[
            Place(
                where=f"{owner.where} ({owner.kind}, {owner.bytes / 2**20:.3g} MiB)",
                count=owner.blocks / len(use.after_step),
                seconds=0.0,
            )
            for owner in use.left
        ],
        severity="low" if garbage else "high" if rise.mid > use.peak_bytes / 100 else "medium",
        remedy=CYCLES if garbage else None,
    )
