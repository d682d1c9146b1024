"""torch.profiler: the trace of some steps, and net from its events."""

import time
import warnings
from pathlib import Path

import pytest
import torch
from torch.profiler import ProfilerActivity

from tare.measure.profiler import (
    kernel_time,
    kernels_among,
    operator_share,
    profile_steps,
    recording,
    write_trace,
)
from tare.trace.operator_table import operator_table
from tare.trace.read import read


def test_the_steps_after_the_warm_up_are_in_the_trace(tmp_path: Path) -> None:
    numbers = torch.ones(4)
    # torch says it once a process.
    getattr(torch.profiler.profiler, "_WARNINGS_SHOWN", set()).clear()
    with (
        warnings.catch_warnings(action="error"),
        recording([ProfilerActivity.CPU], warmup=2, active=3) as profiler,
    ):
        for _ in range(5):
            torch.relu(numbers)
            profiler.step()
    path = tmp_path / "trace.json.gz"
    write_trace(profiler, str(path))
    assert path.read_bytes().startswith(b"\x1f\x8b")
    assert list(tmp_path.iterdir()) == [path]
    calls = [row.calls for row in operator_table(read(path)) if row.name == "aten::relu"]
    assert calls == [3]


def test_a_trace_that_has_no_room_leaves_nothing(tmp_path: Path) -> None:
    with recording([ProfilerActivity.CPU], warmup=1, active=1) as profiler:
        for _ in range(2):
            torch.ones(4)
            profiler.step()
    with pytest.raises(OSError, match="nowhere"):
        write_trace(profiler, str(tmp_path / "nowhere" / "trace.json.gz"))
    assert not list(tmp_path.iterdir())


class Event:
    """An event as kineto lists it; times in nanoseconds."""

    def __init__(self, name: str, start: int, end: int, device: str = "CUDA", annotation: bool = False) -> None:
        self._name, self._start, self._end = name, start, end
        self._device, self._annotation = f"DeviceType.{device}", annotation

    def name(self) -> str:
        return self._name

    def start_ns(self) -> int:
        return self._start

    def end_ns(self) -> int:
        return self._end

    def duration_ns(self) -> int:
        return self._end - self._start

    def start_thread_id(self) -> int:
        return 1

    def device_type(self) -> str:
        return self._device

    def is_user_annotation(self) -> bool:
        return self._annotation


DEVICE_EVENTS = [
    Event("aten::mm", 0, 1000, "CPU"),
    Event("gemm", 100, 200),
    Event("relu", 150, 250),
    Event("relu", 300, 340),
    Event("Memset (Device)", 340, 350),
    Event("Memcpy DtoD (Device -> Device)", 400, 410),
    Event("Memcpy HtoD (Pageable -> Device)", 500, 600),
    Event("Context Sync", 0, 1000),
    Event("my region", 0, 1000, annotation=True),
]


def test_kernels_exclude_copies_annotations_and_host_events() -> None:
    assert kernels_among(DEVICE_EVENTS) == {"gemm": 1, "relu": 2}


def test_net_on_a_gpu_is_the_union_of_what_computed_per_step() -> None:
    """100 to 250, 300 to 350 and 400 to 410 in two steps; the copy from the host does not compute."""
    net = kernel_time(DEVICE_EVENTS, steps=2)
    assert net.busy_s == pytest.approx((150 + 50 + 10) / 2 * 1e-9)
    assert (net.steps, net.share) == (2, None)
    nothing = kernel_time(DEVICE_EVENTS[:1], steps=2)
    assert (nothing.busy_s, nothing.reason) == (None, "the profiler saw no kernel")


def test_net_on_a_cpu_is_the_share_of_operators_that_compute() -> None:
    """A convolution of 60 ns inside three callers, an allocation and a view, in a step of 200 ns."""
    events = [
        Event("ProfilerStep#1", 0, 200, "CPU", annotation=True),
        Event("autograd::engine::evaluate_function: ConvolutionBackward0", 0, 190, "CPU"),
        Event("aten::conv2d", 10, 100, "CPU"),
        Event("aten::convolution", 15, 95, "CPU"),
        Event("aten::mkldnn_convolution", 20, 90, "CPU"),
        Event("aten::empty", 25, 30, "CPU"),
        Event("aten::add_", 80, 85, "CPU"),
        Event("aten::view", 110, 150, "CPU"),
    ]
    # 70 ns minus the allocation; the bias inside it computes as well.
    assert operator_share(events, steps=1).share == pytest.approx((70 - 5) / 200)


def test_a_step_that_mostly_sleeps_is_mostly_tare() -> None:
    left, right = torch.randn(2, 256, 256)

    def step() -> None:
        torch.mm(left, right)
        time.sleep(0.05)

    profile = profile_steps(step, lambda: None, "cpu", step_s=0.05)
    assert profile.net.share is not None
    assert 0 < profile.net.share < 0.5
    assert profile.net.steps >= 2
