"""For which GPUs and processors the programs of the vendor rung are compiled."""

import os
import platform
from functools import cache
from pathlib import Path

# What tells one processor from another in /proc/cpuinfo, on x86-64 and aarch64; the rest changes as it runs.
TELLING = {
    "vendor_id", "cpu family", "model", "flags",
    "CPU implementer", "CPU variant", "CPU part", "Features",
}  # fmt: skip


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


def processor() -> str:
    """What `-march=native` stands for here: a home that other machines share needs a build for each kind."""
    try:
        first = Path("/proc/cpuinfo").read_text(errors="replace").partition("\n\n")[0]
    except OSError:
        return platform.machine()
    lines = (line.partition(":") for line in first.splitlines())
    told = [f"{name.strip()}={value.strip()}" for name, _, value in lines if name.strip() in TELLING]
    return " ".join([platform.machine(), *told])
