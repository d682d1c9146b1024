"""Matrix products: where they stand, and how long they would take at a measured rate."""

from collections.abc import Sequence

from tare.findings.context import Scene
from tare.trace.counting import product

# A product that takes so long at the peak rate comes near it: on an H200 one of 4096 (0.2 ms in bfloat16) is
# within a tenth of the rate of one of 8192, with which the peak is measured. What smaller ones reach is unknown.
LONG_S = 100e-6


def reaches(flops: Sequence[int | None], rate: float | None) -> bool:
    """Whether all of these products come near a peak rate, so that a price by it is an estimate and no bound."""
    return rate is not None and all(one is not None and one / rate >= LONG_S for one in flops)


def product_place(scene: Scene, row: int, work: int) -> str:
    """The shape of a product, and its line or the operators around it; `work` is one of its kernels."""
    where, found = scene.places.of_call(int(scene.trace.device.call[work])), product(scene.trace, row)
    if found is None:
        return where
    return f"{'x'.join(map(str, (found.batch, found.m, found.k, found.n)))} at {where}"
