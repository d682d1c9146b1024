"""The memory meters on allocations of known size."""

import os
import sys
from collections.abc import Callable
from multiprocessing import get_context
from typing import Any, cast

import numpy as np
import pytest
import torch

from tare.measure import memory
from tare.measure.memory import MemoryMeter, TorchAllocator
from tare.measure.nvml import Gpu

MB = 1_000_000
# The kernel counts pages in batches per processor, and the test process frees some of its own meanwhile.
SLACK = 2 * MB
linux = pytest.mark.skipif(sys.platform != "linux", reason="the peak can be reset on Linux only")


def touched() -> Any:
    """200 MB that are really there: ones, since zeros would be mapped and never touched."""
    return np.ones(200 * MB // 8)


def measured_while_stepping() -> Any:
    meter = MemoryMeter(None)
    meter.mark_prepared()
    held = touched()
    found = meter.host()
    assert held.nbytes == 200 * MB
    return found


def measured_while_preparing() -> Any:
    meter = MemoryMeter(None)
    held = touched()
    del held
    meter.mark_prepared()
    return meter.host()


def in_a_fresh_process(measure: Callable[[], Any]) -> Any:
    """A test process holds gigabytes that earlier tests have left, and may let go of them at any moment."""
    with get_context("spawn").Pool(1) as pool:
        return pool.apply(measure)


@linux
def test_a_peak_while_stepping_is_the_steps_alone() -> None:
    found = in_a_fresh_process(measured_while_stepping)
    assert found.method == "VmHWM after reset"
    assert 200 * MB - SLACK <= found.peak - found.start < 260 * MB
    assert found.prepare_peak - found.start < 100 * MB


@linux
def test_a_peak_while_preparing_is_the_preparations_alone() -> None:
    found = in_a_fresh_process(measured_while_preparing)
    assert found.prepare_peak - found.start >= 200 * MB - SLACK
    assert found.peak - found.start < 100 * MB


def test_where_the_peak_cannot_be_reset_the_method_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "_reset_host_peak", lambda: False)
    found = MemoryMeter(None).host()
    assert found.method == "ru_maxrss since start"
    assert found.peak >= 1 * MB


class FakeMemory:
    """The memory functions of a torch device module; a reset brings the peak down to what is held."""

    def __init__(self) -> None:
        self.held = 100
        self.peak = 700
        self.reserved = 1024
        self.emptied = 0

    def memory_allocated(self, _device: Any) -> int:
        return self.held

    def max_memory_allocated(self, _device: Any) -> int:
        return self.peak

    def max_memory_reserved(self, _device: Any) -> int:
        return self.reserved

    def reset_peak_memory_stats(self, _device: Any) -> None:
        self.peak = self.held

    def empty_cache(self) -> None:
        self.emptied += 1


class FakeGpu:
    """NVML's answers: bytes of this process, where they are shown, and of the whole GPU."""

    def __init__(self, own: int | None, used: int) -> None:
        self.own, self.all = own, used

    def processes(self) -> dict[int, int | None]:
        return {os.getpid(): self.own}

    def used(self) -> int:
        return self.all


def make_meter(allocator: TorchAllocator | None, gpu: FakeGpu | None = None) -> MemoryMeter:
    meter = MemoryMeter(cast("Gpu | None", gpu))
    meter.allocator = allocator
    return meter


def test_a_cpu_has_no_device_memory_rather_than_zero_bytes() -> None:
    assert TorchAllocator.of(torch.device("cpu")) is None
    meter = make_meter(None)
    meter.mark_prepared()
    assert meter.device() is None


def test_the_three_figures_of_a_device() -> None:
    fake = FakeMemory()
    meter = make_meter(TorchAllocator(fake, "cuda"), FakeGpu(4096, 9999))
    fake.peak = 900
    meter.mark_prepared()
    assert fake.emptied == 1
    fake.peak = 300
    usage = meter.device()
    assert usage is not None
    assert (usage.prepare_allocated_peak, usage.allocated_peak, usage.reserved_peak) == (900, 300, 1024)
    assert (usage.nvml, usage.nvml_method) == (4096, "process")


def test_what_was_allocated_before_the_meter_belongs_to_the_preparation() -> None:
    meter = make_meter(TorchAllocator(FakeMemory(), "cuda"))
    meter.mark_prepared()
    usage = meter.device()
    assert usage is not None
    assert (usage.prepare_allocated_peak, usage.allocated_peak, usage.nvml) == (700, 100, None)


def test_a_program_without_an_allocator_has_what_nvml_sees() -> None:
    gpu = FakeGpu(None, 1000)
    meter = make_meter(None, gpu)
    meter.mark_prepared()
    gpu.all = 1005
    usage = meter.device()
    assert usage is not None
    assert (usage.allocated_peak, usage.reserved_peak, usage.prepare_allocated_peak) == (None, None, None)
    # The container hides what this process holds, so its growth counts.
    assert (usage.nvml, usage.nvml_method) == (5, "device, above its use before the preparation")


def test_a_trace_has_a_reading_of_host_and_device_for_every_mark() -> None:
    meter = make_meter(TorchAllocator(FakeMemory(), "cuda"))
    meter.mark()
    meter.mark()
    trace = meter.trace()
    assert trace.device == [100, 100]
    assert len(trace.host) == 2
    assert make_meter(None).trace().device is None
