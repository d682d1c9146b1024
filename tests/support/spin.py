"""A kernel that lasts a known time by the GPU's own clock."""

from collections.abc import Callable
from typing import Any

import torch

SOURCE = r"""
extern "C" __global__ void spin(int microseconds, float* out) {
    unsigned long long start, now;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    do {
        asm volatile("mov.u64 %0, %globaltimer;" : "=l"(now));
    } while (now - start < (unsigned long long)microseconds * 1000ull);
    out[0] += 1.0f;
}
"""


def make_spin(microseconds: int) -> Callable[[], Any]:
    """A step that occupies the device for that long and returns what proves it: how often it ran."""
    kernel = torch.cuda._compile_kernel(SOURCE, "spin")
    count = torch.zeros(1, device="cuda")

    def step() -> Any:
        kernel(grid=(1, 1, 1), block=(1, 1, 1), args=[microseconds, count])
        return count

    return step
