"""The memory meters on allocations of known size."""

import sys
from collections.abc import Callable
from multiprocessing import get_context
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tare.measure.memory import DeviceMeter, HostMeter

MB = 1_000_000
# The kernel counts pages in batches per processor, and the test process frees some of its own meanwhile.
SLACK = 2 * MB
linux = pytest.mark.skipif(sys.platform != "linux", reason="the peak can be reset on Linux only")


def touched() -> Any:
    """200 MB that are really there: ones, since zeros would be mapped and never touched."""
    return np.ones(200 * MB // 8)


def measured_while_stepping() -> Any:
    meter = HostMeter()
    meter.mark_prepared()
    held = touched()
    found = meter.read()
    assert held.nbytes == 200 * MB
    return found


def measured_while_preparing() -> Any:
    meter = HostMeter()
    held = touched()
    del held
    meter.mark_prepared()
    return meter.read()


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
    monkeypatch.setattr(HostMeter, "_reset", lambda _: False)
    found = HostMeter().read()
    assert found.method == "ru_maxrss since start"
    assert found.peak >= 1 * MB


class FakeAllocator:
    """The memory functions of a torch device module, with a peak that a reset brings down to what is held."""

    def __init__(self) -> None:
        self.held = 100
        self.peak = 700
        self.reserved = 1024
        self.emptied = 0

    def max_memory_allocated(self, _device: Any) -> int:
        return self.peak

    def max_memory_reserved(self, _device: Any) -> int:
        return self.reserved

    def reset_peak_memory_stats(self, _device: Any) -> None:
        self.peak = self.held

    def empty_cache(self) -> None:
        self.emptied += 1


def make_meter(monkeypatch: pytest.MonkeyPatch, device: str, module: Any, seen: Any = None) -> DeviceMeter:
    monkeypatch.setitem(sys.modules, "torch", SimpleNamespace(**({device: module} if module else {})))
    return DeviceMeter(SimpleNamespace(type=device), lambda: seen)


def test_a_cpu_has_no_device_memory_rather_than_none_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    meter = make_meter(monkeypatch, "cpu", FakeAllocator(), (5, "process"))
    meter.mark_prepared()
    assert meter.read() is None


def test_the_three_figures_of_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    allocator = FakeAllocator()
    meter = make_meter(monkeypatch, "cuda", allocator, (4096, "process"))
    allocator.peak = 900
    meter.mark_prepared()
    assert allocator.emptied == 1
    allocator.peak = 300
    found = meter.read()
    assert found is not None
    assert (found.prepare_allocated_peak, found.allocated_peak, found.reserved_peak) == (900, 300, 1024)
    assert (found.nvml, found.nvml_method) == (4096, "process")


def test_what_was_allocated_before_the_meter_is_the_preparations(monkeypatch: pytest.MonkeyPatch) -> None:
    meter = make_meter(monkeypatch, "cuda", FakeAllocator())
    meter.mark_prepared()
    found = meter.read()
    assert found is not None
    assert (found.prepare_allocated_peak, found.allocated_peak) == (700, 100)


@pytest.mark.parametrize("module", [None, SimpleNamespace()])
def test_figures_that_nobody_gives_are_absent(monkeypatch: pytest.MonkeyPatch, module: Any) -> None:
    meter = make_meter(monkeypatch, "mps", module)
    meter.mark_prepared()
    found = meter.read()
    assert found is not None
    assert (found.allocated_peak, found.reserved_peak, found.prepare_allocated_peak) == (None, None, None)
    assert (found.nvml, found.nvml_method) == (None, None)
