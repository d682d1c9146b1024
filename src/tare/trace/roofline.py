"""The roofline of a step: its FLOPs and bytes against the peaks that were measured on this machine.

Roofline = max(FLOPs / matrix rate, bytes / bandwidth) of the whole step, where the bytes are those that must be
moved if everything were fused. The same formula operator by operator (Williams et al., Roofline, CACM 2009) gives
the time of perfect kernels that each read and write memory. The difference of the two is unfused traffic.
"""

import msgspec

from tare.records.work import Peaks, Work

# Rungs that run the counted operators one by one. Unfused traffic is known only for them.
UNFUSED_RUNGS = ("eager", "cudagraph")


class Roofline(msgspec.Struct, frozen=True, kw_only=True):
    """Nanoseconds of one step: fused, and as the sum over the operators (None where a rung fuses)."""

    ns: int
    unfused_ns: int | None
    bound: str
    flops: int
    bytes: int
    # Operators without a FLOP formula, and operators whose precision has no measured peak.
    uncounted: list[str]
    without_peak: list[str]
    # Why the peaks may be wrong: they were measured on a busy machine, or with other settings.
    caveats: list[str] = []

    def split(self, kernels: int) -> dict[str, int]:
        """The device's computing time divided into roofline, unfused traffic and inefficiency."""
        roofline = min(self.ns, kernels)
        unfused = 0 if self.unfused_ns is None else min(max(self.unfused_ns - roofline, 0), kernels - roofline)
        return {
            "roofline": roofline,
            "unfused traffic": unfused,
            "kernel inefficiency": kernels - roofline - unfused,
        }

    def notes(self, kernels: int) -> list[str]:
        notes = [f"the roofline is uncertain: {caveat}" for caveat in self.caveats]
        if self.ns > kernels:
            notes.append(
                f"the counted work needs {self.ns / 1e6:.3g} ms at the measured peaks, more than the kernels "
                "took: they compute less than was counted (Winograd, sparsity), a cache serves them, or the "
                "peaks are too low"
            )
        if self.uncounted:
            notes.append(f"not counted, so the roofline is a lower bound: {', '.join(self.uncounted)}")
        if self.without_peak:
            notes.append(f"no measured peak for the precision of: {', '.join(self.without_peak)}")
        if self.unfused_ns is None:
            notes.append("this rung fuses operators: its unfused traffic is part of kernel inefficiency")
        return notes


def compute_roofline(work: Work, peaks: Peaks, precision: str, rung: str) -> Roofline | None:
    """None where no bandwidth was measured. With the case's precision tf32, fp32 operators have the tf32 peak."""
    bandwidth = peaks.find("bandwidth")
    if not bandwidth:
        return None
    compute_s = 0.0
    unfused_s = 0.0
    without_peak = set()
    for operator in work.operators:
        name = "tf32" if operator.precision == "fp32" and precision == "tf32" else operator.precision
        rate = peaks.find(f"matrix:{name}")
        if operator.flops and not rate:
            without_peak.add(operator.name)
        seconds = operator.flops / rate if rate else 0.0
        compute_s += operator.count * seconds
        unfused_s += operator.count * max(seconds, operator.bytes / bandwidth)
    memory_s = (work.read + work.written) / bandwidth
    return Roofline(
        ns=round(max(compute_s, memory_s) * 1e9),
        unfused_ns=round(unfused_s * 1e9) if rung.partition(":")[0] in UNFUSED_RUNGS else None,
        bound="compute" if compute_s >= memory_s else "memory",
        flops=work.flops,
        bytes=work.read + work.written,
        uncounted=work.uncounted,
        without_peak=sorted(without_peak),
        caveats=peaks.caveats,
    )
