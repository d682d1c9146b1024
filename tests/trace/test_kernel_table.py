"""The table of kernels, what is counted of it, and what names say."""

from typing import Any

import pytest
from traces import TraceBuilder

from tare.trace.counting import bytes_touched, flops, product
from tare.trace.kernel_table import Kernel, kernel_table
from tare.trace.names import converts_layout, short_name, uses_tensor_cores
from tare.trace.tables import Trace


def one_operator(name: str, dims: Any, types: Any, values: Any = None) -> Trace:
    trace = TraceBuilder()
    trace.op(name, 0, 10, **{"Input Dims": dims, "Input type": types, "Concrete Inputs": values})
    return trace.build()


LSTM = [[2048, 512], [2048, 512], [2048], [2048]]


@pytest.mark.parametrize(
    ("name", "dims", "values", "expected"),
    [
        ("aten::mm", [[4, 5], [5, 6]], None, 2 * 4 * 5 * 6),
        ("aten::addmm", [[6], [4, 5], [5, 6]], None, 2 * 4 * 5 * 6),
        ("aten::bmm", [[3, 4, 5], [3, 5, 6]], None, 3 * 2 * 4 * 5 * 6),
        ("aten::mm", [[4, 5], [7, 6]], None, None),
        # 3x3, stride 2, padding 1: 224 gives 112.
        ("aten::convolution", [[8, 3, 224, 224], [64, 3, 3, 3], [64]],
         ["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1"], 2 * 8 * 64 * 112 * 112 * 27),
        ("aten::convolution", [[8, 3, 224, 224], [64, 3, 3, 3], [64]],
         ["", "", "", "[2, 2]", "[1, 1]", "[1, 1]", "True", "[0, 0]", "1"], None),
        # Depthwise: one channel a group.
        ("aten::convolution", [[1, 32, 10, 10], [32, 1, 3, 3], []],
         ["", "", "", "[1, 1]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "32"], 2 * 32 * 100 * 9),
        ("aten::convolution_backward", [[8, 64, 112, 112], [8, 3, 224, 224], [64, 3, 3, 3]],
         ["", "", "", "[64]", "[2, 2]", "[1, 1]", "[1, 1]", "False", "[0, 0]", "1", "[False, True, True]"],
         2 * 8 * 64 * 112 * 112 * 27),
        # 25 steps of 16 items by the weights of an LSTM; then without time, as packed sequences are.
        ("aten::_cudnn_rnn", [[25, 16, 512], LSTM, [], [2101248]], None, 2 * 400 * 2 * 2048 * 512),
        ("aten::_cudnn_rnn", [[400, 512], LSTM, [], [2101248]], None, 2 * 400 * 2 * 2048 * 512),
        ("aten::_cudnn_rnn_backward", [[25, 16, 512], LSTM], ["", "", "[True, False, False, True]"],
         2 * 2 * 400 * 2 * 2048 * 512),
        ("aten::_cudnn_rnn_backward", [[25, 16, 512], LSTM], ["", "", "[True, False, False, False]"],
         2 * 400 * 2 * 2048 * 512),
        ("aten::_cudnn_rnn", [[25, 16, 512], [], [], []], None, None),
        ("aten::_cudnn_rnn", [[25, 16, 512], ["x", {}, [-1, 2]]], None, None),
        ("aten::relu", [[4, 4]], None, None),
    ],
)  # fmt: skip
def test_flops(name: str, dims: Any, values: Any, expected: int | None) -> None:
    assert flops(one_operator(name, dims, ["float"] * len(dims), values), 0) == expected


@pytest.mark.parametrize(
    ("name", "dims", "types", "expected"),
    [
        ("aten::add", [[10, 20], [20], []], ["float", "float", "Scalar"], 4 * (200 + 20 + 200)),
        ("aten::relu", [[100]], ["c10::BFloat16"], 2 * 200),
        ("aten::copy_", [[100], [100], []], ["float", "c10::Half", ""], 400 + 200),
        ("aten::zero_", [[100]], ["float"], 400),
        ("aten::softmax", [[100]], ["float"], None),
        ("aten::add", [[100]], ["mystery"], None),
    ],
)
def test_bytes_of_pointwise_operators(name: str, dims: Any, types: Any, expected: int | None) -> None:
    assert bytes_touched(one_operator(name, dims, types), 0) == expected


def test_a_product_knows_its_shape_and_type() -> None:
    shape = product(one_operator("aten::addmm", [[6], [4, 5], [5, 6]], ["float", "c10::Half", "c10::Half"]), 0)
    assert shape is not None
    assert (shape.batch, shape.m, shape.k, shape.n, shape.type) == (1, 4, 5, 6, "c10::Half")


def table(trace: TraceBuilder) -> dict[str, Kernel]:
    return {kernel.name: kernel for kernel in kernel_table(trace.build())}


def test_a_known_table() -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 10, **{"Input Dims": [[1000, 1000], [1000, 1000]], "Input type": ["float", "float"]})
    shape: dict[str, Any] = {"grid": [8, 16, 1], "block": [256, 1, 1], "registers per thread": 90}
    trace.kernel("sgemm_128x64", 5, 25, trace.call("cudaLaunchKernel", 2, 4), **shape)
    trace.op("aten::relu", 30, 40, **{"Input Dims": [[1000]], "Input type": ["float"]})
    trace.launch(32, 34, 35, 36, "elementwise")
    trace.op("aten::relu", 50, 60, **{"Input Dims": [[1000]], "Input type": ["float"]})
    trace.launch(52, 54, 55, 58, "elementwise")
    trace.copy("HtoD (Pinned -> Device)", 60, 70, trace.call("cudaMemcpyAsync", 58, 59), 50_000)
    kernels = table(trace)
    gemm, relu, copy = kernels["sgemm_128x64"], kernels["elementwise"], kernels["Memcpy HtoD (Pinned -> Device)"]
    assert (gemm.calls, gemm.total, gemm.grid, gemm.block) == (1, 20_000, (8, 16, 1), (256, 1, 1))
    assert (gemm.registers, gemm.tensor_cores) == (90, False)
    assert gemm.flops_per_s == pytest.approx(2e9 / 20e-6)
    assert (relu.calls, relu.total, relu.mean, relu.counted) == (2, 4_000, 2_000, 2)
    assert relu.bytes_per_s == pytest.approx(2 * 8000 / 4e-6)
    assert copy.bytes_per_s == pytest.approx(5e9)
    assert gemm.share == pytest.approx(20 / 34)
    assert sum(kernel.share for kernel in kernels.values()) == pytest.approx(1)


def test_flops_are_not_counted_where_two_kernels_share_them() -> None:
    trace = TraceBuilder()
    trace.op("aten::mm", 0, 20, **{"Input Dims": [[10, 10], [10, 10]], "Input type": ["float", "float"]})
    trace.launch(2, 4, 5, 25, "gemm_part_one")
    trace.launch(6, 8, 25, 45, "gemm_part_two")
    assert all(kernel.flops_per_s is None for kernel in table(trace).values())


@pytest.mark.parametrize("kernel", ["sm80_xmma_gemm_cf32cf32_f32f32_cf32_tn_n", "sm80_xmma_fprop_implicit_gemm"])
def test_a_transformed_convolution_has_no_flop_rate(kernel: str) -> None:
    """Otherwise alexnet's kernel would run at 4.6 times the peak of an H200."""
    trace = TraceBuilder()
    dims, values = [[8, 64, 27, 27], [192, 64, 5, 5], []], ["", "", "", "[1, 1]", "[2, 2]", "[1, 1]", "False"]
    shapes = {"Input Dims": dims, "Input type": ["float", "float", ""], "Concrete Inputs": values}
    trace.op("aten::convolution", 0, 20, **shapes)
    trace.launch(2, 4, 5, 25, "void fft2d_r2c_32x32<float>(float2*)")
    trace.launch(6, 8, 25, 45, kernel)
    assert (table(trace)[kernel].flops_per_s is None) == ("cf32" in kernel)


@pytest.mark.parametrize(
    ("name", "cores"),
    [
        ("sm80_xmma_gemm_f32f32_f32f32_f32_nn_n_tilesize256x128x8_stage3_ffma_aligna4", False),
        ("sm80_xmma_gemm_f32f32_tf32f32_f32_nn_n_tilesize128x128x32", True),
        ("void cutlass::Kernel2<cutlass_80_simt_sgemm_64x64_8x5_tn_align1>(Params)", False),
        ("void cutlass::Kernel2<cutlass_80_tensorop_s1688gemm_128x128_16x4_nn_align4>(Params)", True),
        ("nvjet_sm90_tst_64x64_64x13_1x2_h_bz_splitK_NTT", True),
        ("sm90_xmma_fprop_implicit_gemm_bf16bf16_bf16f32_f32_nhwckrsc_nhwc_tilesize128x128x64", True),
        ("ampere_sgemm_128x64_tn", False),
        ("void gemv2T_kernel_val<int, int, float>", False),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::AddFunctor>", None),
        ("triton_poi_fused_add_relu_0", None),
    ],
)
def test_tensor_cores_by_name(name: str, cores: bool | None) -> None:
    assert uses_tensor_cores(name) is cores


def test_layout_conversions_and_short_names() -> None:
    assert converts_layout("void cudnn::engines_precompiled::nchwToNhwcKernel<__half, float>(x)")
    assert not converts_layout("void cudnn::bn_fw_tr_1C11_kernel_NCHW<float>")
    assert (
        short_name("void cutlass::Kernel2<cutlass_80_simt_sgemm_64x64>(Params)") == "cutlass_80_simt_sgemm_64x64"
    )
    assert short_name("void at::native::reduce_kernel<512, 1>(at::native::ReduceOp)") == "reduce_kernel"
    conditional = "std::enable_if<!(false), void>::type internal::gemvx::kernel<int, int, float2>(Params)"
    assert short_name(conditional) == "internal::gemvx::kernel"
