"""cuDNN converts channels-first tensors before and after its convolutions, in kernels of their own."""

import numpy as np

from tare.findings import Context, Match, rule, spans_of
from tare.trace.names import converts_layout

LEAST_SHARE = 0.02


@rule(
    "channels-first",
    sees="cuDNN converts between channels-first and channels-last for 2 % of the step or more.",
    remedy="Put model and input into memory_format=torch.channels_last.",
)
def look(context: Context) -> Match | None:
    device = context.trace.device
    codes = [code for code, name in enumerate(context.trace.names) if converts_layout(name)]
    kernels = np.flatnonzero(np.isin(device.name, codes) & context.launched)
    share = context.device_share(kernels)
    if share < LEAST_SHARE:
        return None
    calls = np.unique(device.call[kernels])
    return Match(
        summary=f"kernels only convert layouts for cuDNN: {context.per_step(len(kernels)):.3g} a step",
        evidence={"device_share": share, "kernels_per_step": context.per_step(len(kernels))},
        locations=[
            context.device_location(where, context.activities_of(np.array(rows)))
            for where, rows in context.locator.of_calls(calls).items()
        ],
        saving_s=context.saving(context.without(calls)),
        # Convolutions and norms are faster in channels-last as well, by how much this trace does not show.
        bound="at least",
        spans=spans_of(device, kernels),
    )
