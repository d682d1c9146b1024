"""Records of several workloads on two rungs, of which some are in the means of a suite and others are left out."""

from typing import Any

from builders import make_case, make_failure, make_record, make_round

from tare.records.record import DeviceMemory, HostMemory, Parity, Record

MIB = 2**20


def record(
    workload: str, rung: str, step_s: float, host: int = 100, device: int | None = 100, **more: Any
) -> Record:
    memory = HostMemory(peak=host * MIB, prepare_peak=0, start=0, method="x")
    on_device = DeviceMemory(reserved_peak=device * MIB) if device else None
    rounds = [make_round(i, step_s, host_memory=memory, device_memory=on_device) for i in range(3)]
    fields: dict[str, Any] = {"case": make_case(workload=workload, rung=rung, device="cuda"), "rounds": rounds}
    return make_record(**(fields | more))


def failed(workload: str, rung: str) -> Record:
    rounds = [make_round(0, series=[], failure=make_failure(cause="device-oom", message="no room"))]
    return record(workload, rung, 1.0, rounds=rounds, failure=rounds[0].failure)


def records() -> list[Record]:
    wrong = Parity(status="different", error=0.5, tolerance=1e-4, worst="output/0", compared=1)
    return [
        record("a", "eager", 4e-3, 100, 100),
        record("a", "compile", 1e-3, 200, 50),
        record("b", "eager", 1e-3, 100, 100),
        record("b", "compile", 1e-3, 50, 400),
        record("c", "eager", 1e-3),
        failed("c", "compile"),
        record("d", "eager", 1e-3),
        record("d", "compile", 1e-6, parity=wrong),
        failed("e", "eager"),
        record("e", "compile", 1e-6),
        record("f", "eager", 1e-3),
    ]
