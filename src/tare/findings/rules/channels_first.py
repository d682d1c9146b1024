"""cuDNN converts channels-first tensors before and after its convolutions, in kernels of their own."""

import numpy as np

from tare.findings import Context, Match, rule
from tare.trace.names import converts_layout

LEAST_SHARE = 0.02


@rule("Put model and input into memory_format=torch.channels_last.")
def channels_first(context: Context) -> Match | None:
    """cuDNN converts between channels-first and channels-last for 2 % of the step or more."""
    device = context.trace.device
    kernels = np.flatnonzero(context.trace.matching(device, converts_layout) & context.launched)
    share, count = context.device_share(kernels), context.per_step(len(kernels))
    if share < LEAST_SHARE:
        return None
    return Match(
        summary=f"kernels only convert layouts for cuDNN: {count:.3g} a step",
        evidence={"device_share": share, "kernels_per_step": count},
        locations=context.locations(device, kernels),
        saving_s=context.saving(context.without(np.unique(device.call[kernels]))),
        # Convolutions and norms are faster in channels-last as well, by how much this trace does not show.
        bound="at least",
        spans=device.intervals(kernels),
    )
