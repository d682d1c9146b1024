"""The physical floor of a step: its operations and bytes against the peaks that were measured on this machine.

Floor = max(FLOPs / matrix rate, bytes / bandwidth) of the whole step, where the bytes are those that must pass
if everything were fused. Operator by operator the same formula (Williams et al., Roofline, CACM 2009) gives what
perfect kernels would take that each read and write memory; what lies between the two is unfused traffic.
"""

import msgspec

from tare.records.work import Peaks, Work

# An unfused share is only known where a rung runs the operators one by one, as they were counted.
UNFUSED_RUNGS = ("eager", "cudagraph")


class Floor(msgspec.Struct, frozen=True, kw_only=True):
    """Nanoseconds of one step: the floor, and the sum of the operators' rooflines (None where a rung fuses)."""

    fused: int
    operators: int | None
    bound: str
    flops: int
    bytes: int
    uncounted: list[str]
    unpriced: list[str]

    def split(self, kernels: int) -> dict[str, int]:
        """The device's computing time divided into floor, unfused traffic and inefficiency."""
        floor = min(self.fused, kernels)
        unfused = 0 if self.operators is None else min(max(self.operators - floor, 0), kernels - floor)
        return {
            "floor": floor,
            "unfused traffic": unfused,
            "kernel inefficiency": kernels - floor - unfused,
        }

    def notes(self, found: dict[str, int]) -> list[str]:
        said = []
        kernels = found["floor"] + found["unfused traffic"] + found["kernel inefficiency"]
        if self.fused > kernels:
            said.append(
                f"the counted work needs {self.fused / 1e6:.3g} ms at the measured peaks, more than the kernels "
                "took: they compute less than was counted (Winograd, sparsity), a cache serves them, or the "
                "peaks are too low"
            )
        if self.uncounted:
            said.append(f"not counted, so the floor is a lower bound: {', '.join(self.uncounted)}")
        if self.unpriced:
            said.append(f"no measured peak for the precision of: {', '.join(self.unpriced)}")
        if self.operators is None:
            said.append("this rung fuses operators: its unfused traffic is part of kernel inefficiency")
        return said


def find_floor(work: Work, peaks: Peaks, precision: str, rung: str) -> Floor | None:
    """None where this machine's peaks lack what the step needs. `precision` is the case's: tf32 is fp32's."""
    bandwidth = peaks.find("bandwidth")
    if not bandwidth:
        return None
    seconds_of_flops = 0.0
    operators = 0.0
    unpriced = set()
    for one in work.operators:
        name = "tf32" if one.precision == "fp32" and precision == "tf32" else one.precision
        rate = peaks.find(f"matrix:{name}")
        if one.flops and not rate:
            unpriced.add(one.name)
        seconds = one.flops / rate if rate else 0.0
        seconds_of_flops += one.count * seconds
        operators += one.count * max(seconds, one.bytes / bandwidth)
    seconds_of_bytes = (work.read + work.written) / bandwidth
    return Floor(
        fused=round(max(seconds_of_flops, seconds_of_bytes) * 1e9),
        operators=round(operators * 1e9) if rung.partition(":")[0] in UNFUSED_RUNGS else None,
        bound="compute" if seconds_of_flops >= seconds_of_bytes else "memory",
        flops=work.flops,
        bytes=work.read + work.written,
        uncounted=work.uncounted,
        unpriced=sorted(unpriced),
    )
