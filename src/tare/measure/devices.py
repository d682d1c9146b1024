"""The devices torch offers here: their names, clocks and meters. A new kind of device is a branch in this file."""

from typing import Any

from tare.measure.clock import Clock, CudaClock, WallClock
from tare.measure.nvml import Gpu

# torch's accelerators that are not CUDA: timed by the synchronised wall clock.
OTHERS = ("mps", "xpu")


def device_types() -> list[str]:
    """What can run here, the fastest kind first."""
    import torch

    available = ["cuda"] if torch.cuda.is_available() else []
    for name in OTHERS:
        backend = getattr(torch.backends, name, None) if name == "mps" else getattr(torch, name, None)
        if backend is not None and backend.is_available():
            available.append(name)
    return [*available, "cpu"]


def make_clock(device: Any) -> Clock:
    import torch

    if device.type == "cuda":
        return CudaClock(device)
    if device.type == "cpu":
        return WallClock(lambda: None, overlaps=False)
    return WallClock(getattr(torch, device.type).synchronize, overlaps=True)


def open_gpu(device: str) -> Gpu | None:
    """NVML's handle for a torch device name such as cuda or cuda:1; None for anything else."""
    import torch

    if not device.startswith("cuda") or not torch.cuda.is_available():
        return None
    index = int(device.partition(":")[2] or 0)
    if index >= torch.cuda.device_count():
        return None
    return Gpu.open(pci_bus_id(index))


def pci_bus_id(index: int) -> str:
    import torch

    p = torch.cuda.get_device_properties(index)
    return f"{p.pci_domain_id:08x}:{p.pci_bus_id:02x}:{p.pci_device_id:02x}.0"
