"""cuDNN turns a channels-first tensor round before and after its convolutions, in kernels of their own."""

from collections.abc import Iterator

import numpy as np

from tare.findings.context import Scene, spans_of
from tare.findings.finding import Hit, Place
from tare.findings.registry import rule
from tare.trace.kernel_names import converts_layout

LEAST_SHARE = 0.02


@rule(
    "channels-first",
    sees="cuDNN converts between channels-first and channels-last for 2 % of the step or more.",
    remedy="Put model and input into memory_format=torch.channels_last.",
)
def look(scene: Scene) -> Iterator[Hit]:
    device = scene.trace.device
    codes = [code for code, name in enumerate(scene.trace.names) if converts_layout(name)]
    works = np.flatnonzero(np.isin(device.name, codes) & np.isin(device.call, list(scene.script.call_at)))
    if len(works) == 0 or scene.device_share(works) < LEAST_SHARE:
        return
    calls = np.unique(device.call[works])
    yield Hit(
        summary=f"kernels only turn tensors round for cuDNN: {scene.per_step(len(works)):.3g} a step",
        evidence={"device_share": scene.device_share(works), "kernels_per_step": scene.per_step(len(works))},
        places=[
            Place(
                where=where,
                count=scene.per_step(len(rows)),
                seconds=scene.device_s(scene.works_of(np.array(rows))),
            )
            for where, rows in scene.places.of_calls(calls).items()
        ],
        gain_s=scene.price(scene.drop(calls)),
        # The convolutions and norms themselves are faster in channels-last as well: no trace of the slow way says
        # by how much.
        at_least=True,
        spans=spans_of(device, works),
    )
