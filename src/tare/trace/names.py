"""What names in a trace say: the kernel's kind, the runtime call's effect, a copy's direction, a step's number.

The profiler records none of this otherwise. Kernel names follow the vendors' habits, which are no contract.
"""

import re
import sys
from functools import lru_cache

from tare.trace import tables

# tare's own annotations (tare.worker.profiling): a step, and Python's garbage collector after the last step.
# torch.profiler's schedule writes ProfilerStep#N.
STEP = "tare::step"
COLLECTION = "tare::collection"
_STEP = re.compile(r"(?:ProfilerStep|tare::step)#(\d{1,18})")
MODULE_PREFIX = "nn.Module: "
# Kinds of Python frames.
USER_LINE, MODULE, LOADER, LIBRARY = range(4)
_LINE = re.compile(r"(?P<file>.+)\(\d+\): .+")
_LIBRARIES = ("torch", "torchvision", "transformers", "timm", "site-packages", "dist-packages")

_CALLS = (
    (tables.GRAPH, re.compile(r"GraphLaunch")),
    (tables.LAUNCH, re.compile(r"Launch(?!HostFunc)")),
    # XPU's calls are those of Unified Runtime and Level Zero.
    (tables.COPY_CALL, re.compile(r"Memcpy|AppendMemoryCopy")),
    (tables.MEMSET_CALL, re.compile(r"Memset|cuMemsetD|USMFill|AppendMemoryFill")),
    (tables.SYNC, re.compile(r"Synchronize|urQueueFinish|urEventWait")),
    (
        tables.ALLOCATE,
        re.compile(r"Malloc|Free|HostAlloc|HostRegister|Mem(Create|Map|Unmap|Release|Address|Alloc)"),
    ),
)
# What begins and ends the capture of a stream into a graph, in CUDA and HIP.
_BEGIN_CAPTURE, _END_CAPTURE = re.compile(r"StreamBeginCapture"), re.compile(r"StreamEndCapture")
_DIRECTION = re.compile(r"\b(HtoD|DtoH|DtoD|HtoH|PtoP)\b|(Host|Device) ?(?:->|To) ?(Host|Device)")
# Indexed by `DeviceSpans.direction`.
_DIRECTIONS = ("HtoD", "DtoH", "DtoD", "HtoH", "PtoP")

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
_TRANSFORMED = re.compile(r"cf32cf32|float2|winograd|fft", re.I)
# cuBLAS writes a template's condition before the name; CUTLASS hides the name in a launcher's template argument.
_CONDITION = re.compile(r"^(?:void )?std::enable_if<.*?>::type ")
_CUTLASS = re.compile(r"cutlass\w*::Kernel2?<(\w+)")
_ARGUMENTS = re.compile(r"<.*|\(.*")
_FUNCTOR = re.compile(r"(\w*(?:[Ff]unctor|_kernel_cuda|Ops?|BinaryFunctor)\w*)")


def step_number(name: str) -> int | None:
    match = _STEP.fullmatch(name)
    return int(match[1]) if match else None


def is_loader(name: str) -> bool:
    return "DataLoader" in name or "torch/utils/data/" in name


def frame_kind(name: str) -> int:
    if name.startswith(MODULE_PREFIX):
        return MODULE
    if is_loader(name):
        return LOADER
    match = _LINE.fullmatch(name)
    if not match or name.startswith("<"):
        return LIBRARY
    parts = match["file"].replace("\\", "/").lstrip("/").split("/")
    root = parts[0].removesuffix(".py")
    installed = "lib" in parts and any(part.startswith("python3") for part in parts)
    library = installed or root in sys.stdlib_module_names or any(part in _LIBRARIES for part in parts)
    return LIBRARY if library else USER_LINE


def call_kind(name: str) -> int:
    return next((kind for kind, pattern in _CALLS if pattern.search(name)), tables.OTHER)


def begins_capture(name: str) -> bool:
    return bool(_BEGIN_CAPTURE.search(name))


def ends_capture(name: str) -> bool:
    return bool(_END_CAPTURE.search(name))


def copy_direction(name: str) -> int:
    """From names such as 'Memcpy HtoD (Pageable -> Device)'."""
    match = _DIRECTION.search(name)
    if not match:
        return -1
    return _DIRECTIONS.index(match[1] or f"{match[2][0]}to{match[3][0]}")


def copy_memory(name: str) -> int:
    """The host memory that a copy uses. Only a copy of pinned memory is asynchronous."""
    if "Pageable" in name:
        return tables.PAGEABLE
    return tables.PINNED if "Pinned" in name else -1


@lru_cache(maxsize=16384)
def uses_tensor_cores(name: str) -> bool | None:
    """None for a kernel that computes no matrix product, and where the name does not tell."""
    if not _MATRIX.search(name):
        return None
    if _NO_TENSOR.search(name):
        return False
    return True if _TENSOR.search(name) else None


@lru_cache(maxsize=16384)
def is_matrix(name: str) -> bool:
    """Whether the kernel is a matrix product or a convolution."""
    return bool(_MATRIX.search(name))


def is_transformed(name: str) -> bool:
    """Whether the kernel multiplies behind a Fourier or Winograd transform, which saves FLOPs."""
    return bool(_TRANSFORMED.search(name))


def converts_layout(name: str) -> bool:
    """Whether the kernel is one of cuDNN's conversions between channels-first and channels-last."""
    return bool(_LAYOUT.search(name))


@lru_cache(maxsize=16384)
def short_name(name: str) -> str:
    """Without return type, arguments, template and torch's namespace: 'void at::native::f<...>(...)' is 'f'.

    An elementwise launcher keeps its first functor, which says more than the launcher's name.
    """
    plain = _CONDITION.sub("", name).removeprefix("void ")
    plain = plain.replace("(anonymous namespace)::", "").replace("at::native::", "")
    if match := _CUTLASS.search(plain):
        return match[1]
    head = _ARGUMENTS.sub("", plain)
    functor = _FUNCTOR.search(plain[len(head) :])
    return f"{head}<{functor[1]}>" if functor and "elementwise" in head else head or name
