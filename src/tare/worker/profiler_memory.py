"""Whether torch's profiler keeps the tensors of a step alive while it records their shapes."""

import gc
from collections.abc import Callable
from typing import Any

# What two steps leave may differ by less.
LEAST_BYTES = 1024


def held_for_shapes(
    step: Callable[[], Any],
    synchronize: Callable[[], None],
    allocated: Callable[[], int],
    least: int = LEAST_BYTES,
) -> bool:
    """True where steps leave more memory allocated under a profiler that records shapes than without one.

    It refers weakly to every tensor that it has seen, and one that torch.func wraps is not let go then (torch 2.10
    and 2.11): each step of functorch_maml_omniglot left 11 GB, and asked the driver for as much.
    """
    from torch.profiler import ProfilerActivity

    from tare.measure.profiler import recording

    def left() -> int:
        gc.collect()
        before = allocated()
        step()
        synchronize()
        gc.collect()
        return allocated() - before

    plain = max(left(), left())
    with recording([ProfilerActivity.CPU], 1, 1, record_shapes=True) as profiler:
        left()
        profiler.step()
        seen = min(left(), left())
    return seen - plain >= least
