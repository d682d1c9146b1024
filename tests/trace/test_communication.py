"""Collectives are a share of their own: recognised, measured, and never computing."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from ranks import ALL_REDUCE, collective, job, message
from traces import TraceBuilder

from tare.report.explain import explanation_view
from tare.report.terminal import plain_text
from tare.report.view import View
from tare.trace.breakdown import Breakdown, breakdown
from tare.trace.collective_names import algorithm, is_collective, operation
from tare.trace.explanation import About, explain
from tare.trace.group import group_breakdowns


def parts_of(builder: TraceBuilder) -> Breakdown:
    parts = breakdown(builder.build())
    assert parts is not None
    return parts


def test_a_job_that_communicates_for_most_of_its_window_does_not_compute_it() -> None:
    """100 us: computing 20, a collective 60 of which 10 beside computing, a copy 20 of which 10 alone, idle 20."""
    builder = TraceBuilder()
    builder.step(0, 100)
    builder.launch(1, 2, 10, 30)
    collective(builder, 4, 20, 80, **message(elements=3 << 20))
    builder.copy("HtoD (Pinned -> Device)", 70, 90, builder.call("cudaMemcpyAsync", 9, 10), 1 << 20)
    parts = parts_of(builder)
    assert (parts.window, parts.active, parts.communicating, parts.movement, parts.idle) == (
        100_000, 20_000, 50_000, 10_000, 20_000,
    )  # fmt: skip
    assert parts.communication_overlapped == 10_000
    assert sum(parts.share(part).median for part in ("active", "communicating", "movement", "idle")) == 1.0
    (use,) = parts.collectives
    assert (use.operation, use.algorithm, use.count, use.bytes, use.ranks, use.busy, use.exposed) == (
        "all-reduce", "ring LL", 1, 12 << 20, 4, 60_000, 50_000,
    )  # fmt: skip
    # 12 MiB in 60 us, of which each link carries 2 * 3/4.
    assert use.bus_median == pytest.approx((12 << 20) / 60e-6 * 1.5)


def test_waterfall_views_and_groups_have_the_fourth_share() -> None:
    explanation = explain(job(slow_for=100, slow=1)[0].build(), About(title="rank 0"))
    assert explanation.waterfall.find("communication") > 0
    assert sum(segment.ns for segment in explanation.waterfall.segments) == explanation.waterfall.gross
    (bar,) = group_breakdowns([explanation]).bars
    assert bar.communicating > 0.4
    assert bar.active + bar.communicating + bar.movement + bar.idle == pytest.approx(1.0)
    printed = plain_text(View().show(explanation_view(explanation)))
    assert "communicating" in printed
    assert "1 all-reduce a step (ring LL) over 4 ranks: 4 MiB at" in printed
    assert max(map(len, printed.splitlines())) <= 100


def test_without_collectives_there_are_three_shares() -> None:
    builder = TraceBuilder()
    builder.step(0, 100)
    builder.launch(1, 2, 10, 30)
    parts = parts_of(builder)
    assert (parts.communicating, parts.collectives) == (0, [])


@pytest.mark.parametrize(
    ("kernel", "kind", "by"),
    [
        (ALL_REDUCE, "all-reduce", "ring LL"),
        ("ncclKernel_AllReduce_TREE_LL128_Sum_float(ncclWorkElem)", "all-reduce", "tree LL128"),
        ("ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)", "all-gather", "ring LL"),
        ("ncclDevKernel_ReduceScatter_Sum_bf16_RING_LL(x)", "reduce-scatter", "ring LL"),
        ("ncclDevKernel_AllReduce_Sum_f16_NVLS_SIMPLE(x)", "all-reduce", "NVLS SIMPLE"),
        ("ncclDevKernel_SendRecv(ncclDevKernelArgsStorage<4096ul>)", "send-receive", ""),
        ("ncclSymkDevKernel_AllReduce_AGxLL_R_sum_bf16(x)", "all-reduce", ""),
        ("ncclDevKernel_Generic_4(ncclDevKernelArgsStorage)", "collective", ""),
        ("rccl_main_kernel(x)", "collective", ""),
        ("mscclKernel_Sum_half_Simple_false(ncclDevComm*)", "collective", ""),
        ("void vllm::cross_device_reduce_2stage<__half, 8>(vllm::RankData*)", "all-reduce", "two-shot"),
        ("void vllm::cross_device_reduce_1stage<__half, 8>(vllm::RankData*)", "all-reduce", "one-shot"),
        ("void tensorrt_llm::kernels::oneShotAllReduceKernel<half, 8>(x)", "all-reduce", "one-shot"),
        ("void c10d::symmetric_memory::two_shot_all_reduce_kernel_inplace<float>(x)", "all-reduce", "two-shot"),
        ("void multimem_all_reduce_kernel<c10::BFloat16, 16>(x)", "all-reduce", ""),
    ],
)
def test_collectives_by_the_names_of_their_kernels(kernel: str, kind: str, by: str) -> None:
    assert is_collective(kernel)
    assert (operation(kernel), algorithm(kernel)) == (kind, by)


@pytest.mark.parametrize(
    "kernel",
    ["void at::native::reduce_kernel<512, 1>(x)", "sm90_xmma_gemm_bf16", "void cub::DeviceReduceKernel<x>(y)",
     "triton_per_fused_all_reduce_0", "void at::native::vectorized_gather_kernel<16, long>(x)",
     "void at::native::_scatter_gather_elementwise_kernel<128, 8>(x)"],
)  # fmt: skip
def test_reductions_within_a_device_are_no_collectives(kernel: str) -> None:
    assert not is_collective(kernel)


def test_a_kernel_of_unknown_name_is_a_collective_by_the_operation_that_launched_it() -> None:
    builder = TraceBuilder()
    builder.step(0, 100)
    builder.op("c10d::allgather_", 0, 20)
    builder.op("nccl:_all_gather_base", 1, 19)
    builder.launch(2, 4, 10, 30, kernel="fancy_transport")
    # It scales by a kernel of torch's own, which computes.
    builder.launch(6, 8, 30, 40, kernel="void at::native::vectorized_elementwise_kernel<4, x>(y)")
    # Waiting for a collective is none.
    builder.op("_c10d_functional::wait_tensor", 50, 60)
    builder.launch(52, 54, 60, 70, kernel="other")
    parts = parts_of(builder)
    assert (parts.communicating, parts.active) == (20_000, 20_000)
    assert [use.operation for use in parts.collectives] == ["all-gather"]


@pytest.mark.parametrize(
    "odd", [{"In msg nelems": -5}, {"dtype": 7}, {"Group size": "x"}, {"In msg nelems": 1e30}]
)
def test_odd_messages_are_not_recorded(odd: dict[str, Any]) -> None:
    builder = TraceBuilder()
    builder.step(0, 100)
    collective(builder, 4, 20, 80, **message(operation="_allgather_base", **odd | {"Out msg nelems": None}))
    (use,) = parts_of(builder).collectives
    assert (use.operation, use.bytes, use.bus_median) == ("all-gather", None, None)


spans = st.lists(st.tuples(st.integers(0, 300), st.integers(1, 80), st.sampled_from("kcm")), max_size=12)


@given(spans)
def test_the_shares_add_up_to_the_nanosecond(work: list[tuple[int, int, str]]) -> None:
    builder = TraceBuilder()
    builder.step(0, 200)
    builder.launch(1, 2, 5, 6)
    for i, (start, length, kind) in enumerate(work):
        at = 3 + i / 10
        if kind == "m":
            builder.copy(
                "DtoH (Device -> Pinned)", start, start + length, builder.call("cudaMemcpyAsync", at, at), 8
            )
        else:
            builder.launch(at, at, start, start + length, kernel=ALL_REDUCE if kind == "c" else "k")
    parts = parts_of(builder)
    assert parts.active + parts.communicating + parts.movement + parts.idle == parts.window
    for step in parts.steps:
        assert step.active + step.communicating + step.movement + step.idle == step.window
        assert min(step.active, step.communicating, step.movement, step.idle) >= 0
    microseconds = {kind: {t for s, n, k in work if k == kind for t in range(s, s + n)} for kind in "kcm"}
    last = max([200, *(start + length for start, length, _ in work)])
    computing = (microseconds["k"] | {5}) & set(range(last))
    assert parts.active == 1000 * len(computing)
    assert parts.communicating == 1000 * len(microseconds["c"] - computing)
    assert parts.movement == 1000 * len(microseconds["m"] - computing - microseconds["c"])
