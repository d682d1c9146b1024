"""Memory meters of the measured process: peak host memory since a reset, and three figures of device memory."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from tare.records.record import DeviceMemory, HostMemory, MemoryTrace

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")

# Bytes that NVML attributes to this process, and how it was asked.
ReadNvml = Callable[[], tuple[int, str] | None]


class Allocator(Protocol):
    """A device's memory allocator. It counts from the start of the process, which measures one case."""

    def allocated(self) -> int: ...
    def allocated_peak(self) -> int: ...
    def reserved_peak(self) -> int: ...
    def reset_peaks(self) -> None:
        """Starts new peaks, and returns cached memory to the device so that the steps show what they hold."""


class TorchAllocator:
    """torch's caching allocator of one accelerator."""

    def __init__(self, memory: Any, device: Any) -> None:
        self._memory, self._device = memory, device

    @classmethod
    def of(cls, device: Any) -> "TorchAllocator | None":
        import torch

        memory = getattr(torch, device.type, None) if device.type != "cpu" else None
        return cls(memory, device) if hasattr(memory, "max_memory_allocated") else None

    def allocated(self) -> int:
        return int(self._memory.memory_allocated(self._device))

    def allocated_peak(self) -> int:
        return int(self._memory.max_memory_allocated(self._device))

    def reserved_peak(self) -> int:
        return int(self._memory.max_memory_reserved(self._device))

    def reset_peaks(self) -> None:
        self._memory.empty_cache()
        self._memory.reset_peak_memory_stats(self._device)


class HostMeter:
    """VmHWM after a reset where the kernel has it; elsewhere the peak since the process started."""

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


class DeviceMeter:
    """What the device's allocator counts, where the program has one, and NVML's view of this process."""

    def __init__(self, allocator: Allocator | None, read_nvml: ReadNvml) -> None:
        self._allocator, self._read_nvml = allocator, read_nvml
        self._prepare_peak: int | None = None

    def mark_prepared(self) -> None:
        if self._allocator is not None:
            self._prepare_peak = self._allocator.allocated_peak()
            self._allocator.reset_peaks()

    def read(self) -> DeviceMemory | None:
        """None where nothing counts a device's memory: on a CPU."""
        nvml, nvml_method = self._read_nvml() or (None, None)
        if self._allocator is None and nvml is None:
            return None
        return DeviceMemory(
            allocated_peak=self._allocator.allocated_peak() if self._allocator else None,
            reserved_peak=self._allocator.reserved_peak() if self._allocator else None,
            prepare_allocated_peak=self._prepare_peak,
            nvml=nvml,
            nvml_method=nvml_method,
        )


class MemoryTracer:
    """Memory at moments between the timed series, to see whether it grows from step to step."""

    def __init__(self, allocator: Allocator | None) -> None:
        self._allocator = allocator
        self._at: list[int] = []
        self._host: list[int] = []
        self._device: list[int] = []

    def mark(self) -> None:
        self._at.append(time.perf_counter_ns())
        self._host.append(_resident())
        if self._allocator is not None:
            self._device.append(self._allocator.allocated())

    def read(self) -> MemoryTrace:
        return MemoryTrace(at_ns=self._at, host=self._host, device=self._device if self._allocator else None)


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
