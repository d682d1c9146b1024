"""What a kernel is, by its name: the profiler says nothing else. Names are the vendors' habits, not a contract."""

import re
from functools import lru_cache

# cuBLAS, cuDNN, CUTLASS, FlashAttention and Triton name the instruction (hmma, imma, wgmma, tensorop, s1688,
# s16816, tf32, bf16f32 in xmma names) in kernels that use tensor cores.
_TENSOR = re.compile(
    r"tensorop|tensor_op|hmma|imma|wgmma|s1688|s16816|h16816|s884|h884|i16832|_tf32|tf32f32|tf32tf32"
    r"|xmma_(?:gemm|fprop|dgrad|wgrad|implicit_gemm)\w*(?:bf16|f16|tf32|e4m3|e5m2|i8)"
    r"|nvjet|_sm(?:70|75|80|86|89|90|100)_xmma\w*(?:bf16|f16)|flash_(?:fwd|bwd)|fmha|cutlass\w*_(?:bf16|f16|h)\w*gemm"
    r"|cudnn_generated_fort_native_sdpa|device_kernel.*(?:GMMA|MMA_64)|MmaTensorOp|sm90_xmma|SM90_64x"
)
_NO_TENSOR = re.compile(r"simt|ffma|dfma|sgemm|_f32f32_f32f32_|gemv|gemmSN|gemmk1")
_MATRIX = re.compile(
    r"gemm|gemv|xmma|cutlass|conv(?!ert)|fprop|dgrad|wgrad|nvjet|implicit|winograd|mma|flash_|fmha|triton_(?:mm|tem)",
    re.I,
)
_LAYOUT = re.compile(r"nchwToNhwc|nhwcToNchw|nchw2nhwc|nhwc2nchw", re.I)
# Products of complex numbers and transformed tiles: a convolution that computes less than its definition says.
_TRANSFORMED = re.compile(r"cf32cf32|float2|winograd|fft", re.I)
# cuBLAS writes the condition of a template before the name.
_CONDITION = re.compile(r"^(?:void )?std::enable_if<.*?>::type ")
# CUTLASS hides the kernel's name in the template of a launcher.
_CUTLASS = re.compile(r"cutlass\w*::Kernel2?<(\w+)")
_CLASSES = re.compile(r"<.*|\(.*")


@lru_cache(maxsize=16384)
def tensor_cores(name: str) -> bool | None:
    """Whether the kernel uses tensor cores; None for one that computes no matrix product or whose name is
    silent."""
    if not _MATRIX.search(name):
        return None
    if _NO_TENSOR.search(name):
        return False
    return True if _TENSOR.search(name) else None


@lru_cache(maxsize=16384)
def matrix(name: str) -> bool:
    """A matrix product or a convolution, by its name."""
    return bool(_MATRIX.search(name))


def transformed(name: str) -> bool:
    """A convolution's product behind a Fourier or Winograd transform."""
    return bool(_TRANSFORMED.search(name))


def converts_layout(name: str) -> bool:
    """One of cuDNN's own conversions between channels-first and channels-last."""
    return bool(_LAYOUT.search(name))


@lru_cache(maxsize=16384)
def short_name(name: str) -> str:
    """Without return type, arguments, template and torch's namespace: 'void at::native::f<...>(...)' is 'f'.

    A functor says more than the launcher's name, so the first one inside stays.
    """
    plain = (
        _CONDITION.sub("", name)
        .removeprefix("void ")
        .replace("(anonymous namespace)::", "")
        .replace("at::native::", "")
    )
    if named := _CUTLASS.search(plain):
        return named[1]
    head = _CLASSES.sub("", plain)
    inner = re.search(r"(\w*(?:[Ff]unctor|_kernel_cuda|Ops?|BinaryFunctor)\w*)", plain[len(head) :])
    return f"{head}<{inner[1]}>" if inner and "elementwise" in head else head or name
