"""The shortest time that a step can take: its FLOPs at a rate that no device reaches."""

import os

from tare.measure.devices import open_gpu

# FLOPs per cycle of a CPU core, more than the matrix units of today have (AMX: 2048 in bfloat16, Apple's: 512 in
# float32); and of a CUDA core: a fused multiply-add, or its share of a tensor core (30 on an H200 in float8).
CPU_CORE = {"fp32": 1024.0, "half": 8192.0}
CUDA_CORE = {"fp32": 4.0, "half": 128.0}
CPU_HERTZ = 6e9
# A transformed convolution needs as few as a quarter of the multiplications that are counted.
TRANSFORMED = 4.0


def shortest_s(flops: float, precision: str, device: str) -> float:
    """A time that no correct step with so many FLOPs can undercut; 0 where nothing is known of the device."""
    kind = "fp32" if precision == "fp32" else "half"
    rate = None
    if device == "cpu":
        rate = CPU_CORE[kind] * CPU_HERTZ * (os.cpu_count() or 1)
    elif gpu := open_gpu(device):
        cycles = gpu.core_cycles()
        rate = CUDA_CORE[kind] * cycles if cycles else None
    return flops / TRANSFORMED / rate if rate else 0.0
