"""Matrix products whose rows do not begin at a multiple of 16 bytes: tensor cores are fed with half the width or
less."""

from collections.abc import Iterator

import numpy as np

from tare.findings.context import Scene, spans_of
from tare.findings.finding import Hit, Place
from tare.findings.products import product_place, reaches
from tare.findings.registry import rule
from tare.findings.replay import Edit
from tare.trace.counting import ITEM, PRODUCTS, Product, product
from tare.trace.tables import Integers

# Tensor cores want leading dimensions of a multiple of 16 bytes (cuBLAS documentation, tensor core usage).
BYTES = 16
LEAST_SHARE = 0.05
RATE = {"c10::BFloat16": "bf16", "c10::Half": "fp16"}


@rule(
    "off-multiple-shapes",
    sees="Half-precision matrix products, 5 % of the step or more, with a dimension that is no multiple of 8.",
    remedy="Pad the dimension to a multiple of 8 (better 64): vocabulary, classes, channels, sequence.",
)
def look(scene: Scene) -> Iterator[Hit]:
    guilty: dict[str, list[int]] = {}
    good_rate = 0.0
    launched = scene.works_by(scene.operators(*PRODUCTS))
    for row, mine in launched.items():
        found = product(scene.trace, row)
        if found is None or found.type not in RATE:
            continue
        if not misaligned(found):
            taken = float(scene.trace.device.duration[mine].sum())
            good_rate = max(good_rate, found.flops / taken * 1e9 if taken else 0.0)
        elif mine:
            guilty.setdefault(product_place(scene, row, mine[0]), []).append(row)
    rows = np.array(sorted(row for rows in guilty.values() for row in rows), dtype=np.int64)
    works = np.array([work for row in rows.tolist() for work in launched[row]], dtype=np.int64)
    share = scene.device_share(works)
    if share < LEAST_SHARE:
        return
    kind = product(scene.trace, int(rows[0]))
    assert kind is not None
    peak = scene.rates.get(f"matrix:{RATE[kind.type]}")
    rate = peak or good_rate
    counted = [found.flops for row in rows.tolist() if (found := product(scene.trace, row))]
    gain = _gain(scene, sum(counted), works, rate) if rate else None
    evidence: dict[str, float | int | str] = {"device_share": share, "type": kind.type}
    yield Hit(
        summary=f"matrix products have dimensions off the multiple of 8: {scene.per_step(len(rows)):.3g} a step",
        evidence=evidence | ({"flops_per_s": rate} if rate else {}),
        places=[
            Place(
                where=where,
                count=scene.per_step(len(mine)),
                seconds=scene.device_s(np.array([work for row in mine for work in launched[row]])),
            )
            for where, mine in guilty.items()
        ],
        gain_s=gain,
        at_most=gain is not None and not reaches(counted, peak),
        severity=None if gain is not None else ("medium" if share >= 0.2 else "low"),
        spans=spans_of(scene.trace.device, works),
    )


def misaligned(found: Product) -> bool:
    """A factor's or the result's rows are no multiple of 16 bytes apart."""
    item = ITEM.get(found.type, 4)
    leading = [found.n]
    if found.strides:
        # The stride that is not 1: the distance between rows, or between columns of a transposed factor.
        leading += [max(stride[-2:]) for stride in found.strides if len(stride) >= 2]
    else:
        leading += [found.k]
    return any(one > 1 and one * item % BYTES for one in leading)


def _gain(scene: Scene, flops: int, works: Integers, rate: float) -> float:
    """At the rate of well-shaped products."""
    left = min(flops / rate / scene.steps / scene.device_s(works), 1.0)
    return scene.price(
        Edit(factors={scene.script.work_at[w]: left for w in works.tolist() if w in scene.script.work_at})
    )
