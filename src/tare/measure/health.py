"""Sources of noise on this machine, each with what to do about it."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Literal

import msgspec
import psutil

from tare.measure.nvml import Gpu
from tare.measure.telemetry import busy_now

HOT_C = 83


class Check(msgspec.Struct, frozen=True):
    """`unknown`: this machine does not report it."""

    name: str
    state: Literal["good", "warn", "unknown"]
    seen: str
    remedy: str = ""


def examine(gpus: Mapping[str, str]) -> list[Check]:
    checks = [_governor(), _boost(), _load(), _memory(), _swap(), _affinity()]
    for device, pci in gpus.items():
        gpu = Gpu.open(pci)
        checks += _gpu(device, gpu) if gpu else [Check(f"{device} NVML", "unknown", "NVML does not answer")]
    return checks


def _governor(root: Path = Path("/sys/devices/system/cpu")) -> Check:
    governors = {path.read_text().strip() for path in root.glob("cpu[0-9]*/cpufreq/scaling_governor")}
    if not governors:
        return Check("CPU governor", "unknown", "not shown (a virtual machine, or no frequency scaling)")
    if governors == {"performance"}:
        return Check("CPU governor", "good", "performance")
    return Check("CPU governor", "warn", ", ".join(sorted(governors)), "cpupower frequency-set -g performance")


def _boost() -> Check:
    for path, boosted in (("/sys/devices/system/cpu/cpufreq/boost", "1"),
                          ("/sys/devices/system/cpu/intel_pstate/no_turbo", "0")):  # fmt: skip
        try:
            on = Path(path).read_text().strip() == boosted
        except OSError:
            continue
        if on:
            return Check("CPU boost", "warn", "on: the clock depends on heat", f"echo {1 - int(boosted)} > {path}")
        return Check("CPU boost", "good", "off")
    return Check("CPU boost", "unknown", "not shown")


def _load() -> Check:
    reasons = busy_now(None)
    load = f"load {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores"
    if reasons:
        remedy = "stop other programs before measuring (top shows them)"
        return Check("CPU load", "warn", f"{', '.join(reasons)}, {load}", remedy)
    return Check("CPU load", "good", load)


def _memory() -> Check:
    memory = psutil.virtual_memory()
    seen = f"{memory.available / 2**30:.1f} of {memory.total / 2**30:.1f} GiB free"
    if memory.available < 0.2 * memory.total:
        return Check("host memory", "warn", seen, "free memory, or large cases will fail")
    return Check("host memory", "good", seen)


def _swap() -> Check:
    used = psutil.swap_memory().used
    if used > 2**20:
        return Check("swap", "warn", f"{used / 2**20:.0f} MiB in use", "swapoff -a, or free memory")
    return Check("swap", "good", "not in use")


def _affinity() -> Check:
    if not hasattr(os, "sched_getaffinity"):
        return Check("CPU affinity", "unknown", "not shown")
    usable, total = len(os.sched_getaffinity(0)), os.cpu_count() or 1
    return Check("CPU affinity", "good", f"{usable} of {total} logical cores")


def _gpu(device: str, gpu: Gpu) -> list[Check]:
    reading = gpu.read()
    others = [pid for pid in reading.processes or () if pid != os.getpid()]
    checks = []
    if reading.processes is None:
        checks.append(Check(f"{device} processes", "unknown", "not shown"))
    elif others:
        checks.append(
            Check(
                f"{device} processes",
                "warn",
                f"{len(others)} others on it",
                "stop them: nvidia-smi shows them",
            )
        )
    else:
        checks.append(Check(f"{device} processes", "good", "no other program on it"))
    if reading.throttle is None:
        checks.append(Check(f"{device} throttling", "unknown", "not shown"))
    elif reading.throttle:
        checks.append(
            Check(
                f"{device} throttling",
                "warn",
                ", ".join(reading.throttle),
                "cool it, or raise its power limit",
            )
        )
    else:
        checks.append(Check(f"{device} throttling", "good", "none now"))
    if reading.temperature_c is not None:
        hot = reading.temperature_c >= HOT_C
        seen = f"{reading.temperature_c:.0f} °C, {reading.sm_clock_mhz or 0:.0f} MHz"
        checks.append(Check(f"{device} heat", "warn" if hot else "good", seen, "let it cool" if hot else ""))
    return checks
