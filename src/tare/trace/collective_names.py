"""Which kernels and operators are collectives, and what their names say: operation, algorithm, protocol.

The libraries' names: NCCL (ncclKernel_ before 2.19, ncclDevKernel_ since, ncclSymk for symmetric memory), RCCL
(the same, rccl_ and mscclKernel_), MSCCL++, the all-reduce kernels of vLLM, TensorRT-LLM and SGLang, and
torch's own on symmetric memory.
"""

import re
from functools import lru_cache

OPERATIONS = (
    ("all-reduce", re.compile(r"all_?reduce|cross_device_reduce|quick_?reduce", re.I)),
    ("reduce-scatter", re.compile(r"reduce_?scatter", re.I)),
    ("all-gather", re.compile(r"all_?gather|_gather_base", re.I)),
    ("all-to-all", re.compile(r"all_?to_?all", re.I)),
    ("broadcast", re.compile(r"broadcast", re.I)),
    ("barrier", re.compile(r"barrier", re.I)),
    ("send-receive", re.compile(r"send_?recv|\bi?(?:send|recv)\b|_(?:send|recv)_|(?:send|recv)$", re.I)),
    ("reduce", re.compile(r"reduce", re.I)),
    ("gather", re.compile(r"gather", re.I)),
    ("scatter", re.compile(r"scatter", re.I)),
)
OTHER_OPERATION = "collective"

_COLLECTIVE = re.compile(
    r"nccl(?:Dev|Symk?Dev|Symk)?Kernel|ncclSymk|rccl(?:Dev|Generic)?Kernel|rccl_|msccl"
    r"|cross_device_reduce_|(?:one|two)_?shot_?all_?reduce|multimem_\w*(?:reduce|gather|scatter)"
    r"|all_?reduce_?(?:fusion|prototype|kernel|rmsnorm)|trtllm_all_?reduce|quickreduce|userbuffers_fp16_sum"
    r"|nvshmem\w*(?:reduce|alltoall|broadcast|fcollect)|deep_ep::\w+::(?:dispatch|combine|cached_notify)"
    r"|oneccl|xccl_|hcclKernel|^(?:gloo|mpi):\w",
    re.I,
)
# Operators and ranges in which torch starts a collective: record_param_comms, c10d::allreduce_, nccl:all_reduce.
_NAMES_COLLECTIVE = re.compile(
    r"record_param_comms|_?c10d(?:_functional)?::(?!wait)|(?:nccl|rccl|mscclpp|msccl|ucc|xccl|hccl|gloo):\w"
    r"|symm_mem::\w*(?:all_reduce|all_gather|reduce_scatter)"
)
_ORDINARY = re.compile(r"at::native|at::cuda|elementwise|^triton_|gemm|memcpy|memset|fill", re.I)
_ALGORITHM = re.compile(
    r"(RING|TREE|COLLNET_DIRECT|COLLNET_CHAIN|COLLNET|NVLS_TREE|NVLS|PAT)(?:_(LL128|LL|SIMPLE))?"
)
_SHOT = re.compile(r"(one|two)_?shot|cross_device_reduce_([12])stage", re.I)


@lru_cache(maxsize=16384)
def is_collective(kernel: str) -> bool:
    return bool(_COLLECTIVE.search(kernel))


@lru_cache(maxsize=16384)
def names_collective(operator: str) -> bool:
    return bool(_NAMES_COLLECTIVE.match(operator))


@lru_cache(maxsize=16384)
def is_ordinary(kernel: str) -> bool:
    """A kernel that computes for a collective, and would be called the same elsewhere."""
    return bool(_ORDINARY.search(kernel)) and not is_collective(kernel)


@lru_cache(maxsize=16384)
def operation(name: str) -> str:
    """all-reduce, all-gather, ...; from the name of a kernel, of an operator, or of torch's own argument."""
    # A template's or function's arguments name other things: ncclDevKernel_SendRecv(ncclDevKernelArgsStorage).
    plain = name.partition("(")[0].partition("<")[0]
    return next((kind for kind, pattern in OPERATIONS if pattern.search(plain)), OTHER_OPERATION)


@lru_cache(maxsize=16384)
def algorithm(kernel: str) -> str:
    """'ring LL', 'one-shot', or nothing. NCCL names the variant that the kernel is specialised for."""
    if shot := _SHOT.search(kernel):
        return "one-shot" if (shot[1] or "").lower() == "one" or shot[2] == "1" else "two-shot"
    match = _ALGORITHM.search(kernel)
    if not match:
        return ""
    name = match[1].lower().replace("_", "-")
    # Ring and tree are words, the others are abbreviations.
    return " ".join(filter(None, (name if name in ("ring", "tree") else name.upper(), match[2])))
