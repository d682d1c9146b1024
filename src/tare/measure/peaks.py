"""The ceilings of a machine, each as a step for the sampler: how fast it multiplies, copies, launches.

Measured, not looked up: tables of data sheets lack devices, count sparsity, and know nothing of clocks and limits.
"""

import time
from collections.abc import Callable
from typing import Any, NamedTuple

# Large enough to be limited by the unit that is measured, small enough for a second of sampling.
MATRIX = {"cuda": 8192, "cpu": 1024, "other": 4096}
# Where a product of that size takes longer than this, there is no unit for its precision. A loop in its place
# is as fast on a small matrix: bf16 on two aarch64 cores, 1.156 GFLOP/s at 1024 and, in a 64th of the time, 1.151.
LONGEST_PRODUCT_S = 0.5
SMALL_MATRIX = 256
COPIED = {"cuda": 1 << 30, "cpu": 1 << 28, "other": 1 << 28}
TRANSFER = 1 << 28

FLOPS, BYTES, SECONDS = "FLOP/s", "B/s", "s"
DTYPES = {"fp32": "float32", "tf32": "float32", "bf16": "bfloat16", "fp16": "float16"}


class Load(NamedTuple):
    """One step of a peak, and how much of it a step does; for a latency the amount is 1."""

    step: Callable[[], Any]
    amount: float


class Ceiling(NamedTuple):
    """What is measured: its name, its unit, what makes its step, and what one should know of it."""

    name: str
    unit: str
    make: Callable[[str], Load]
    meaning: str


def ceilings(device: str) -> list[Ceiling]:
    """The ceilings that a kind of device has."""
    kind = device.partition(":")[0]
    found = [
        Ceiling(f"matrix:{precision}", FLOPS, _matrix(precision), f"square matrix product, {precision}")
        for precision in DTYPES
        if kind == "cuda" or precision in ("fp32", "bf16")
    ]
    found.append(Ceiling("bandwidth", BYTES, _bandwidth, "copy within the device's memory, read plus written"))
    found.append(Ceiling("dispatch", SECONDS, _dispatch, "one tiny eager operator, back to back"))
    if kind != "cuda":
        return found
    found.append(Ceiling("launch", SECONDS, _launch, "one empty kernel from Python, back to back"))
    for way in ("host-to-device", "device-to-host"):
        for memory in ("pinned", "pageable"):
            name = f"copy:{way}:{memory}"
            found.append(Ceiling(name, BYTES, _transfer(way, memory == "pinned"), f"{way}, {memory} memory"))
    return found


def _kind(device: str) -> str:
    kind = device.partition(":")[0]
    return kind if kind in MATRIX else "other"


def _matrix(precision: str) -> Callable[[str], Load]:
    def make(device: str) -> Load:
        import torch

        torch.backends.cuda.matmul.allow_tf32 = precision == "tf32"
        dtype = getattr(torch, DTYPES[precision])

        def product(size: int) -> Load:
            # Random numbers: zeros draw less power and so run at a higher clock.
            left, right = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
            out = torch.empty(size, size, device=device, dtype=dtype)
            return Load(lambda: torch.mm(left, right, out=out), 2.0 * size**3)

        kind = _kind(device)
        return bearable(product, MATRIX[kind]) if kind == "cpu" else product(MATRIX[kind])

    return make


def bearable(product: Callable[[int], Load], size: int, now: Callable[[], float] = time.perf_counter) -> Load:
    """The product of that size, or a small one where the small one says that the other would take too long."""
    small = product(SMALL_MATRIX)
    taken = []
    # The first prepares; of the others the quicker was disturbed less.
    for _ in range(3):
        began = now()
        small.step()
        taken.append(now() - began)
    expected = min(taken[1:]) * (size / SMALL_MATRIX) ** 3
    return small if expected > LONGEST_PRODUCT_S else product(size)


def _bandwidth(device: str) -> Load:
    import torch

    count = COPIED[_kind(device)] // 4
    source, target = torch.randn(count, device=device), torch.empty(count, device=device)
    return Load(lambda: target.copy_(source), 8.0 * count)


def _dispatch(device: str) -> Load:
    import torch

    one = torch.zeros(1, device=device)
    return Load(lambda: one.add_(1), 1.0)


def _launch(device: str) -> Load:  # noqa: ARG001 - on the current device
    import torch

    sleep = torch.cuda._sleep
    return Load(lambda: sleep(0), 1.0)


def _transfer(way: str, pinned: bool) -> Callable[[str], Load]:
    def make(device: str) -> Load:
        import torch

        host = torch.randn(TRANSFER // 4, pin_memory=pinned)
        there = torch.empty(TRANSFER // 4, device=device)
        source, target = (host, there) if way == "host-to-device" else (there, host)
        return Load(lambda: target.copy_(source, non_blocking=pinned), float(TRANSFER))

    return make
