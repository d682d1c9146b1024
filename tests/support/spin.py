"""A kernel that spins for a number of cycles and notes how long that was by the GPU's own clock."""

from typing import Any

import torch

SOURCE = r"""
extern "C" __global__ void spin(int kilocycles, double* noted) {
    unsigned long long start, end;
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(start));
    long long first = clock64();
    while (clock64() - first < (long long)kilocycles * 1000) { }
    asm volatile("mov.u64 %0, %globaltimer;" : "=l"(end));
    noted[0] += (double)(end - start);
    noted[1] += 1.0;
}
"""
# About an H200's clock under load; the true length is what the kernel notes.
KILOCYCLES_PER_MILLISECOND = 1980


class Spin:
    """A step that occupies the device for about that long; `true_s` is what it really was, on average."""

    def __init__(self, milliseconds: float) -> None:
        self._kernel = torch.cuda._compile_kernel(SOURCE, "spin")
        self._kilocycles = int(milliseconds * KILOCYCLES_PER_MILLISECOND)
        self._noted = torch.zeros(2, dtype=torch.float64, device="cuda")

    def __call__(self) -> Any:
        self._kernel(grid=(1, 1, 1), block=(1, 1, 1), args=[self._kilocycles, self._noted])
        return self._noted

    def forget(self) -> None:
        self._noted.zero_()

    @property
    def true_s(self) -> float:
        total_ns, count = self._noted.tolist()
        return float(total_ns / count / 1e9)
