"""The GPUs and processors that the vendor rung is compiled for."""

import os
import platform
from functools import cache
from pathlib import Path

# Fields of /proc/cpuinfo that identify a kind of processor, on x86-64 and aarch64.
IDENTIFYING = {
    "vendor_id", "cpu family", "model", "flags",
    "CPU implementer", "CPU variant", "CPU part", "Features",
}  # fmt: skip


def architectures() -> str:
    """`CUDAARCHS`, as for CMake ("80;90"), or the architectures of this machine's GPUs, or nothing.

    They are part of a build's key, so that a home folder used with another GPU gets another build; CMake's
    `native` would not tell them.
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
    """What `-march=native` means here: machines that share a home folder need a build for each kind of
    processor."""
    try:
        first = Path("/proc/cpuinfo").read_text(errors="replace").partition("\n\n")[0]
    except OSError:
        return platform.machine()
    lines = (line.partition(":") for line in first.splitlines())
    fields = [f"{name.strip()}={value.strip()}" for name, _, value in lines if name.strip() in IDENTIFYING]
    return " ".join([platform.machine(), *fields])
