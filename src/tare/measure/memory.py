"""Memory of the measured process: peak host memory since a reset, and three figures of device memory."""

import contextlib
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

from tare.measure.nvml import Gpu
from tare.records.record import DeviceMemory, HostMemory, MemoryTrace

_STATUS = Path("/proc/self/status")
_CLEAR = Path("/proc/self/clear_refs")


class Allocator(Protocol):
    """A device's memory allocator. It counts from the start of the process, which measures one case."""

    def allocated(self) -> int: ...
    def allocated_peak(self) -> int: ...
    def reserved_peak(self) -> int: ...
    def reset_peaks(self) -> None: ...
    def release_cached(self) -> None:
        """Returns memory that is only cached to the device, so that the steps show what they hold."""


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
        self._memory.reset_peak_memory_stats(self._device)

    def release_cached(self) -> None:
        self._memory.empty_cache()


class MemoryMeter:
    """Memory of this process, from its construction on. The peaks of the preparation and of the steps are apart;
    marks between the timed series show whether memory grows from step to step."""

    def __init__(self, gpu: Gpu | None) -> None:
        # The allocator of the device's memory, as soon as there is a program that has one.
        self.allocator: Allocator | None = None
        self._gpu, self._gpu_start = gpu, gpu.used() if gpu else None
        self._can_reset = _reset_host_peak()
        self._start = _resident()
        self._prepare_peak = 0
        self._device_prepare_peak: int | None = None
        # Peaks of allocated and reserved device memory up to the last exclusion.
        self._allocated_peak = self._reserved_peak = 0
        self._marks: list[tuple[int, int, int | None]] = []

    def mark_prepared(self) -> None:
        """Ends the preparation: its peaks are kept, and the peaks of stepping start anew."""
        self._prepare_peak = self._host_peak()
        _reset_host_peak()
        if self.allocator:
            self._device_prepare_peak = self.allocator.allocated_peak()
            self.allocator.release_cached()
            self.allocator.reset_peaks()

    @contextlib.contextmanager
    def excluded(self) -> Iterator[None]:
        """Device memory that is allocated and freed in here does not count into the peaks."""
        if self.allocator is None:
            yield
            return
        self._allocated_peak = max(self._allocated_peak, self.allocator.allocated_peak())
        self._reserved_peak = max(self._reserved_peak, self.allocator.reserved_peak())
        yield
        self.allocator.reset_peaks()

    def mark(self) -> None:
        device = self.allocator.allocated() if self.allocator else None
        self._marks.append((time.perf_counter_ns(), _resident(), device))

    def host(self) -> HostMemory:
        method = "VmHWM after reset" if self._can_reset else "ru_maxrss since start"
        return HostMemory(
            peak=self._host_peak(), prepare_peak=self._prepare_peak, start=self._start, method=method
        )

    def device(self) -> DeviceMemory | None:
        """None where nothing counts a device's memory: on a CPU."""
        nvml, nvml_method = self._nvml()
        if self.allocator is None and nvml is None:
            return None
        return DeviceMemory(
            allocated_peak=(
                max(self._allocated_peak, self.allocator.allocated_peak()) if self.allocator else None
            ),
            reserved_peak=max(self._reserved_peak, self.allocator.reserved_peak()) if self.allocator else None,
            prepare_allocated_peak=self._device_prepare_peak,
            nvml=nvml,
            nvml_method=nvml_method,
        )

    def trace(self) -> MemoryTrace:
        device = [device for _, _, device in self._marks if device is not None]
        return MemoryTrace(
            at_ns=[at for at, _, _ in self._marks],
            host=[host for _, host, _ in self._marks],
            device=device if self.allocator else None,
        )

    def _nvml(self) -> tuple[int | None, str | None]:
        """This process's memory by NVML; where that is hidden, the growth of the device's memory."""
        own = (self._gpu.processes() or {}).get(os.getpid()) if self._gpu else None
        if own is not None:
            return own, "process"
        used = self._gpu.used() if self._gpu else None
        if used is None or self._gpu_start is None:
            return None, None
        return max(used - self._gpu_start, 0), "device, above its use before the preparation"

    def _host_peak(self) -> int:
        """VmHWM since its reset where the kernel has it; elsewhere the peak since the process started."""
        return _status_field("VmHWM") if self._can_reset else _maximum_resident()


def _reset_host_peak() -> bool:
    try:
        _CLEAR.write_text("5")
    except OSError:
        return False
    return True


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
