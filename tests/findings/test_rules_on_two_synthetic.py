"""Rules that compare two traces, on synthetic pairs of which the second is slower, and on pairs where it is
not."""

from typing import Any

import pytest
from synthetic import SIMT, TF32, product, seen, steps
from traces import TraceBuilder

from tare.findings.context import Context
from tare.findings.finding import find, get_rule


def test_kernel_changed() -> None:
    fast = steps(product((512, 512, 512), "float", TF32, 100), length=140)
    slow = steps(product((512, 512, 512), "float", SIMT, 700), length=740)
    found = seen("kernel-changed", slow, fast)
    assert found is not None
    assert found.saving_s == pytest.approx(600e-6, rel=0.05)
    assert "aten::mm [[512,512],[512,512]]" in found.locations[0].where
    assert seen("kernel-changed", fast, slow) is None
    other_shape = steps(product((256, 512, 512), "float", SIMT, 700), length=740)
    assert seen("kernel-changed", other_shape, fast) is None


def test_a_slower_kernel_that_does_not_delay_the_step_is_no_finding() -> None:
    fast = steps(product((512, 512, 512), "float", TF32, 10))
    slow = steps(product((512, 512, 512), "float", SIMT, 100))
    assert seen("kernel-changed", slow, fast) is None


def convolution(inner: str, kernel: str, length: float) -> Any:
    def make(trace: TraceBuilder, at: float) -> None:
        trace.op("aten::conv2d", at + 2, at + 32, **{"Input Dims": [[8, 3, 32, 32], [16, 3, 3, 3]]})
        trace.op(inner, at + 5, at + 30, **{"Input Dims": [[8, 3, 32, 32], [16, 3, 3, 3], [len(inner)]]})
        trace.launch(at + 10, at + 15, at + 20, at + 20 + length, kernel)
        trace.call("cudaDeviceSynchronize", at + 35, at + 25 + length)

    return make


def test_another_library_behind_the_same_operator_is_a_changed_kernel() -> None:
    fast = steps(convolution("aten::cudnn_convolution", "sm90_xmma_fprop", 100), length=140)
    slow = steps(convolution("aten::_slow_conv2d_forward", "im2col_kernel", 500), length=540)
    found = seen("kernel-changed", slow, fast)
    assert found is not None
    assert found.locations[0].where.startswith("aten::conv2d")
    assert found.saving_s == pytest.approx(400e-6, rel=0.05)


def many_launches(count: int, length: float) -> Any:
    """A convolution of so many kernels, 30 µs of host time each: the device waits for every launch."""

    def make(trace: TraceBuilder, at: float) -> None:
        trace.op("aten::conv2d", at + 2, at + 10 + 30 * count, **{"Input Dims": [[8, 3, 32, 32], [16, 3, 3, 3]]})
        for i in range(count):
            begin = at + 10 + 30 * i
            trace.launch(begin, begin + 8, begin + 12, begin + 12 + length, f"part_of_{count}")
        trace.call("cudaDeviceSynchronize", at + 20 + 30 * count, at + 30 + 30 * count)

    return make


def test_many_small_kernels_for_one_cost_their_launches() -> None:
    """Sixteen kernels of 5 µs for one of 20: the device has little more to do, the host has 450 µs more."""
    fast, slow = steps(many_launches(1, 20), length=100), steps(many_launches(16, 5), length=600)
    found = seen("kernel-changed", slow, fast)
    assert found is not None
    assert found.saving_s == pytest.approx(450e-6, rel=0.05)
    assert seen("kernel-changed", fast, slow) is None


def test_operator_slowed() -> None:
    fast = steps(product((512, 512, 512), "float", TF32, 100), length=140)
    slow = steps(product((512, 512, 512), "float", TF32, 300), length=340)
    found = seen("operator-slowed", slow, fast)
    assert found is not None
    assert found.saving_s == pytest.approx(200e-6, rel=0.05)
    assert seen("operator-slowed", fast, fast) is None
    assert seen("kernel-changed", slow, fast) is None


def parts(trace: TraceBuilder, at: float) -> None:
    for i, name in enumerate(("aten::add", "aten::clamp_min")):
        trace.op(name, at + 50 * i, at + 50 * i + 20)
        trace.launch(at + 50 * i + 5, at + 50 * i + 9, at + 50 * i + 10, at + 50 * i + 50, f"elementwise_{name}")


def fused(length: float) -> Any:
    def make(trace: TraceBuilder, at: float) -> None:
        trace.op("CompiledFunction", at, at + 20)
        trace.launch(at + 5, at + 9, at + 10, at + 10 + length, "triton_poi_fused_add_relu_0", "cuLaunchKernel")
        trace.call("cudaDeviceSynchronize", at + 25, at + 15 + length)

    return make


def test_fused_slower() -> None:
    """Two kernels of 40 µs each against one of 200; one of 50 is what fusing is for."""
    found = seen("fused-slower", steps(fused(200), length=220), steps(parts))
    assert found is not None
    assert found.saving_s == pytest.approx(120e-6, rel=0.05)
    assert found.evidence["parts"] == "aten::add, aten::clamp_min"
    assert seen("fused-slower", steps(fused(50)), steps(parts)) is None


def paced(extra: float, pace: float = 1.0) -> Any:
    def make(trace: TraceBuilder, at: float) -> None:
        begin = at
        for i in range(10):
            trace.launch(begin + 1, begin + 5, begin + 8, begin + 18)
            begin += 30 * pace + (extra if i == 4 else 0)

    return make


def test_host_work_grew() -> None:
    found = seen("host-work-grew", steps(paced(400)), steps(paced(0)))
    assert found is not None
    assert found.saving_s == pytest.approx(400e-6, rel=0.1)
    assert found.evidence["stretches"] == 1


def test_a_host_that_is_slower_everywhere_is_no_growth() -> None:
    assert seen("host-work-grew", steps(paced(0, 2.0)), steps(paced(0))) is None


def test_rules_of_two_traces_need_two() -> None:
    assert not [finding for finding in find(Context(steps(parts).build())) if get_rule(finding.rule).pair]
