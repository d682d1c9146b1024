"""After every step more memory is allocated than after the one before."""

import numpy as np

from tare.findings import Context, Location, Match, rule
from tare.trace.memory import HOST, memory_use

# So many steps in a row must each leave at least this many bytes more than the one before.
FEWEST_STEPS = 4
LEAST_BYTES = 1024
CYCLES = (
    "Break the circle of references that a step makes (an object that holds what holds it), or call gc.collect() "
    "now and then: until Python's collector comes by itself, all of it stays allocated."
)


@rule("Let go of what a step made: detach what is kept (loss.item() or .detach()), clear lists and workspaces.")
def memory_growth(context: Context) -> Match | None:
    """Each of at least 4 steps leaves at least 1 KiB more device memory allocated than the one before."""
    use = memory_use(context.trace)
    if use is None or use.device == HOST or use.growth is None:
        return None
    held, growth = use.after_step, use.growth
    if len(held) < FEWEST_STEPS or np.diff(held).min() < LEAST_BYTES:
        return None
    collectable = use.garbage is not None and use.garbage >= held[-1] - held[0]
    until = ", until Python's collector comes" if collectable else ""
    return Match(
        summary=f"every step leaves {growth.mid / 2**20:.3g} MiB more allocated{until}",
        evidence={
            "bytes_per_step": growth.mid,
            "bytes_per_step_low": growth.low,
            "bytes_per_step_high": growth.high,
            "steps": len(held),
        },
        locations=[
            Location(
                where=f"{owner.where} ({owner.kind}, {owner.bytes / 2**20:.3g} MiB)",
                count=owner.blocks / len(held),
                seconds=0.0,
            )
            for owner in use.unreleased
        ],
        severity="low" if collectable else "high" if growth.mid > use.peak_bytes / 100 else "medium",
        remedy=CYCLES if collectable else None,
    )
