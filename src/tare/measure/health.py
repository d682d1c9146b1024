"""Sources of noise on this machine, each with what to do about it."""

import os
from collections.abc import Mapping
from contextlib import suppress
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


def _check(name: str, is_noisy: bool | None, seen: str, remedy: str = "") -> Check:
    if is_noisy is None:
        return Check(name, "unknown", seen)
    return Check(name, "warn", seen, remedy) if is_noisy else Check(name, "good", seen)


def examine(gpus: Mapping[str, str]) -> list[Check]:
    checks = [_governor(), _boost(), _load(), _memory(), _swap(), _affinity()]
    for device, pci in gpus.items():
        gpu = Gpu.open(pci)
        checks += _gpu(device, gpu) if gpu else [_check(f"{device} NVML", None, "NVML does not answer")]
    return checks


def _governor(root: Path = Path("/sys/devices/system/cpu")) -> Check:
    governors = {path.read_text().strip() for path in root.glob("cpu[0-9]*/cpufreq/scaling_governor")}
    if not governors:
        return _check("CPU governor", None, "not shown (a virtual machine, or no frequency scaling)")
    remedy = "cpupower frequency-set -g performance"
    return _check("CPU governor", governors != {"performance"}, ", ".join(sorted(governors)), remedy)


def _boost() -> Check:
    for path, boosted in (("/sys/devices/system/cpu/cpufreq/boost", "1"),
                          ("/sys/devices/system/cpu/intel_pstate/no_turbo", "0")):  # fmt: skip
        with suppress(OSError):
            on = Path(path).read_text().strip() == boosted
            seen = "on: the clock depends on heat" if on else "off"
            return _check("CPU boost", on, seen, f"echo {1 - int(boosted)} > {path}")
    return _check("CPU boost", None, "not shown")


def _load() -> Check:
    reasons = busy_now(None)
    seen = ", ".join([*reasons, f"load {os.getloadavg()[0]:.2f} on {os.cpu_count()} cores"])
    return _check("CPU load", bool(reasons), seen, "stop other programs before measuring (top shows them)")


def _memory() -> Check:
    memory = psutil.virtual_memory()
    seen = f"{memory.available / 2**30:.1f} of {memory.total / 2**30:.1f} GiB free"
    is_scarce = memory.available < 0.2 * memory.total
    return _check("host memory", is_scarce, seen, "free memory, or large cases will fail")


def _swap() -> Check:
    used = psutil.swap_memory().used
    seen = f"{used / 2**20:.0f} MiB in use" if used > 2**20 else "not in use"
    return _check("swap", used > 2**20, seen, "swapoff -a, or free memory")


def _affinity() -> Check:
    if not hasattr(os, "sched_getaffinity"):
        return _check("CPU affinity", None, "not shown")
    return _check("CPU affinity", False, f"{len(os.sched_getaffinity(0))} of {os.cpu_count() or 1} logical cores")


def _gpu(device: str, gpu: Gpu) -> list[Check]:
    reading = gpu.read()
    processes, throttling = f"{device} processes", f"{device} throttling"
    checks = [_check(processes, None, "not shown"), _check(throttling, None, "not shown")]
    if reading.processes is not None:
        others = len(reading.processes.keys() - {os.getpid()})
        seen = f"{others} others on it" if others else "no other program on it"
        checks[0] = _check(processes, others > 0, seen, "stop them: nvidia-smi shows them")
    if reading.throttle is not None:
        seen = ", ".join(reading.throttle) or "none now"
        checks[1] = _check(throttling, bool(reading.throttle), seen, "cool it, or raise its power limit")
    if reading.temperature_c is not None:
        seen = f"{reading.temperature_c:.0f} °C, {reading.sm_clock_mhz or 0:.0f} MHz"
        checks.append(_check(f"{device} heat", reading.temperature_c >= HOT_C, seen, "let it cool"))
    return checks
