"""What this machine has, found out in a process of its own: asking a device wakes it, and fork would break it."""

from tare.measure.devices import device_types, pci_bus_id
from tare.measure.environment import collect
from tare.protocol.messages import Absent, Probed
from tare.rungs import all_rungs
from tare.workloads import all_workloads


def probe() -> Probed:
    import torch

    devices = device_types()
    absent: dict[str, dict[str, Absent]] = {}
    for device in devices:
        absent[device] = {}
        for name, rung in all_rungs().items():
            missing = rung.available(device)
            if missing:
                absent[device][name] = Absent(reason=missing.reason, remedy=missing.remedy)
    gpus = {}
    if "cuda" in devices:
        gpus = {f"cuda:{i}": pci_bus_id(i) for i in range(torch.cuda.device_count())}
    return Probed(
        devices=devices,
        absent=absent,
        missing_packages=missing_packages(),
        gpus=gpus,
        environment=collect(),
    )


def missing_packages() -> dict[str, Absent]:
    """For each workload that lacks a package: which, and the one command that brings it."""
    found = {}
    for name, workload in all_workloads().items():
        remedy = workload.remedy()
        if remedy:
            found[name] = Absent(reason=f"needs {', '.join(workload.lacking())}", remedy=remedy)
    return found
