"""The peaks of a machine, each a step for the sampler: matrix products, copies, launches.

They are measured, because data sheets lack devices, count sparsity, and ignore clock and power limits.
"""

import time
from collections.abc import Callable
from functools import partial
from itertools import product
from typing import Any, NamedTuple

# Large enough to be limited by the unit that is measured, small enough for a second of sampling.
MATRIX = {"cuda": 8192, "cpu": 1024, "other": 4096}
# Where a product of that size takes longer than this, the CPU has no unit for its precision, and a small matrix is
# as fast: bf16 on two aarch64 cores reached 1.156 GFLOP/s at 1024 and 1.151 at 256.
LONGEST_PRODUCT_S = 0.5
SMALL_MATRIX = 256
COPIED = {"cuda": 1 << 30, "cpu": 1 << 28, "other": 1 << 28}
TRANSFER = 1 << 28

FLOPS, BYTES, SECONDS = "FLOP/s", "B/s", "s"
DTYPES = {"fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16"}


class Load(NamedTuple):
    """One step, and the FLOPs or bytes it takes; 1 where the time itself is the peak."""

    step: Callable[[], Any]
    amount: float


class PeakBenchmark(NamedTuple):
    """A peak to measure; `make` prepares its step."""

    name: str
    unit: str
    meaning: str
    make: Callable[[], Load]


def benchmarks(device: str) -> list[PeakBenchmark]:
    """The peaks that a kind of device has."""
    kind = device.partition(":")[0]
    precisions = DTYPES if kind == "cuda" else ("fp32", "bf16")
    peaks = [
        PeakBenchmark(f"matrix:{p}", FLOPS, f"square matrix product, {p}", partial(_matrix, device, p))
        for p in precisions
    ]
    peaks += [
        PeakBenchmark("bandwidth", BYTES, "copy within the device, read plus written", partial(_copy, device)),
        PeakBenchmark("dispatch", SECONDS, "one tiny eager operator, back to back", partial(_dispatch, device)),
    ]
    if kind != "cuda":
        return peaks
    peaks.append(PeakBenchmark("launch", SECONDS, "one empty kernel from Python, back to back", _launch))
    for way, memory in product(("host-to-device", "device-to-host"), ("pinned", "pageable")):
        make = partial(_transfer, device, way, memory == "pinned")
        peaks.append(PeakBenchmark(f"copy:{way}:{memory}", BYTES, f"{way}, {memory} memory", make))
    return peaks


def _kind(device: str) -> str:
    kind = device.partition(":")[0]
    return kind if kind in MATRIX else "other"


def _matrix(device: str, precision: str) -> Load:
    import torch

    torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
    dtype = getattr(torch, DTYPES[precision])

    def multiply(size: int) -> Load:
        # Random numbers: zeros draw less power and so run at a higher clock.
        left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
        out = torch.empty(size, size, device=device, dtype=dtype)
        return Load(lambda: torch.mm(left, right, out=out), 2.0 * size**3)

    kind = _kind(device)
    return affordable(multiply, MATRIX[kind]) if kind == "cpu" else multiply(MATRIX[kind])


def affordable(multiply: Callable[[int], Load], size: int, now: Callable[[], float] = time.perf_counter) -> Load:
    """The product of that size, or a small one where its time predicts that the other takes too long."""
    small = multiply(SMALL_MATRIX)
    taken = []
    # The first call prepares and is not used.
    for _ in range(3):
        began = now()
        small.step()
        taken.append(now() - began)
    expected = min(taken[1:]) * (size / SMALL_MATRIX) ** 3
    return small if expected > LONGEST_PRODUCT_S else multiply(size)


def _copy(device: str) -> Load:
    import torch

    count = COPIED[_kind(device)] // 4
    source, target = torch.randn(count, device=device), torch.empty(count, device=device)
    return Load(lambda: target.copy_(source), 8.0 * count)


def _dispatch(device: str) -> Load:
    import torch

    number = torch.zeros(1, device=device)
    return Load(lambda: number.add_(1), 1.0)


def _launch() -> Load:
    """On the current device."""
    import torch

    sleep = torch.cuda._sleep
    return Load(lambda: sleep(0), 1.0)


def _transfer(device: str, way: str, pinned: bool) -> Load:
    import torch

    host = torch.randn(TRANSFER // 4, pin_memory=pinned)
    there = torch.empty(TRANSFER // 4, device=device)
    source, target = (host, there) if way == "host-to-device" else (there, host)
    return Load(lambda: target.copy_(source, non_blocking=pinned), float(TRANSFER))
