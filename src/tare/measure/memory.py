"""Memory meters of the measured process: peak host memory since a reset, and the device's three figures."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tare.records.record import DeviceMemory, HostMemory, MemoryTrace

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


class HostMeter:
    """VmHWM after a reset where the kernel has it; elsewhere the process's peak since its start, named so."""

    def __init__(self) -> None:
        self.method = "VmHWM after reset" if self._reset() else "ru_maxrss since start"
        self._start = _resident()
        self._prepare_peak = 0

    def mark_prepared(self) -> None:
        """Ends the preparation: its peak is kept and the peak of stepping starts anew."""
        self._prepare_peak = self._peak()
        self._reset()

    def read(self) -> HostMemory:
        return HostMemory(
            peak=self._peak(), prepare_peak=self._prepare_peak, start=self._start, method=self.method
        )

    def _reset(self) -> bool:
        try:
            _CLEAR.write_text("5")
        except OSError:
            return False
        return True

    def _peak(self) -> int:
        return _status_field("VmHWM") if self.method.startswith("VmHWM") else _maximum_resident()


class Trace:
    """Memory at moments between the timed series, to see whether it grows from step to step."""

    def __init__(self, device: Any) -> None:
        import torch

        memory = getattr(torch, device.type, None) if device.type != "cpu" else None
        self._allocated = getattr(memory, "memory_allocated", None)
        self._device = device
        self._at: list[int] = []
        self._host: list[int] = []
        self._held: list[int] = []

    def mark(self) -> None:
        self._at.append(time.perf_counter_ns())
        self._host.append(_resident())
        if self._allocated is not None:
            self._held.append(self._allocated(self._device))

    def read(self) -> MemoryTrace:
        return MemoryTrace(at_ns=self._at, host=self._host, device=self._held if self._allocated else None)


class DeviceMeter:
    """torch's allocator on an accelerator that has one, and NVML's view of this process on CUDA.

    The allocator counts from the process's start, and a process measures one case: what its peak is until
    `mark_prepared` is the preparation's, weights and the capture of a graph included.
    """

    def __init__(self, device: Any, nvml: Callable[[], tuple[int, str] | None]) -> None:
        import torch

        self._device = device
        self._memory = getattr(torch, device.type, None) if device.type != "cpu" else None
        if not hasattr(self._memory, "max_memory_allocated"):
            self._memory = None
        self._nvml = nvml
        self._prepare_peak: int | None = None

    def mark_prepared(self) -> None:
        """Ends the preparation; what it cached is handed back, so that the steps show what they hold themselves
        (a captured graph keeps its own pool)."""
        if self._memory is not None:
            self._prepare_peak = self._memory.max_memory_allocated(self._device)
            self._memory.empty_cache()
            self._memory.reset_peak_memory_stats(self._device)

    def read(self) -> DeviceMemory | None:
        if self._device.type == "cpu":
            return None
        seen = self._nvml()
        return DeviceMemory(
            allocated_peak=self._memory.max_memory_allocated(self._device) if self._memory else None,
            reserved_peak=self._memory.max_memory_reserved(self._device) if self._memory else None,
            prepare_allocated_peak=self._prepare_peak,
            nvml=seen[0] if seen else None,
            nvml_method=seen[1] if seen else None,
        )


def _status_field(name: str) -> int:
    for line in _STATUS.read_text().splitlines():
        if line.startswith(name + ":"):
            return int(line.split()[1]) * 1024
    return 0


def _resident() -> int:
    return _status_field("VmRSS") if _STATUS.exists() else _maximum_resident()


def _maximum_resident() -> int:
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    # macOS counts bytes, everyone else KiB.
    return peak if sys.platform == "darwin" else peak * 1024
