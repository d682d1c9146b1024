"""For which GPUs the CUDA program is compiled."""

import os
from functools import cache


def architectures() -> str:
    """What `CUDAARCHS` says, as with CMake ("80;90"); else those of the GPUs that are here; else nothing.

    Asked of the driver instead of left to CMake's `native`, since a build belongs to them: a home folder that
    moves to another GPU needs another build.
    """
    return os.environ.get("CUDAARCHS") or ";".join(_of_this_machine())


@cache
def _of_this_machine() -> tuple[str, ...]:
    import pynvml

    try:
        pynvml.nvmlInit()
        handles = [pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(pynvml.nvmlDeviceGetCount())]
        found = {pynvml.nvmlDeviceGetCudaComputeCapability(handle) for handle in handles}
    except pynvml.NVMLError:
        return ()
    return tuple(f"{major}{minor}" for major, minor in sorted(found))
