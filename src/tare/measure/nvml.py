"""NVML: clocks, throttling, temperature, power, energy and memory of a GPU."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

Answer = TypeVar("Answer")

# NVML's bits for throttling. Idleness and a chosen application clock also lower the clock, but are no throttling.
REASONS = {
    0x04: "power cap",
    0x08: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal slowdown",
    0x40: "hardware thermal slowdown",
    0x80: "hardware power brake",
}


class GpuReading(NamedTuple):
    sm_clock_mhz: float | None
    temperature_c: float | None
    power_w: float | None
    utilisation: float | None
    energy_j: float | None
    # None where the GPU does not report them, which is not the same as empty.
    throttle: tuple[str, ...] | None
    # The bytes that each process holds; many containers hide them.
    processes: dict[int, int | None] | None


def throttle_reasons(bits: int) -> tuple[str, ...]:
    return tuple(name for bit, name in REASONS.items() if bits & bit)


def ask_nvml(ask: Callable[[Any], Answer]) -> Answer | None:
    """What `ask` gets from pynvml; None where there is no NVML, or where it refuses the call."""
    try:
        import pynvml

        pynvml.nvmlInit()
        return ask(pynvml)
    except (ImportError, OSError):
        return None
    except pynvml.NVMLError:
        return None


def handles(nvml: Any) -> list[Any]:
    return [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]


def seen_by_nvml() -> tuple[list[str], str | None]:
    """The names of all GPUs of this machine, and their driver's version; nothing where there is no NVML."""

    def ask(nvml: Any) -> tuple[list[str], str]:
        names = [str(nvml.nvmlDeviceGetName(handle)) for handle in handles(nvml)]
        return names, str(nvml.nvmlSystemGetDriverVersion())

    return ask_nvml(ask) or ([], None)


class Gpu:
    """One GPU by the index that CUDA gives it (CUDA_VISIBLE_DEVICES is honoured through its PCI address)."""

    def __init__(self, handle: Any, nvml: Any) -> None:
        self._handle = handle
        self._nvml = nvml

    @classmethod
    def open(cls, pci_bus_id: str) -> "Gpu | None":
        """The GPU at a PCI address, or None where there is no NVML or no such GPU."""
        return ask_nvml(lambda nvml: cls(nvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id.encode()), nvml))

    def read(self) -> GpuReading:
        nvml = self._nvml
        power = self._ask(nvml.nvmlDeviceGetPowerUsage)
        energy = self._ask(nvml.nvmlDeviceGetTotalEnergyConsumption)
        rates = self._ask(nvml.nvmlDeviceGetUtilizationRates)
        bits = self._ask(nvml.nvmlDeviceGetCurrentClocksThrottleReasons)
        return GpuReading(
            sm_clock_mhz=self._ask(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM),
            temperature_c=self._ask(nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU),
            power_w=power / 1000 if power is not None else None,
            utilisation=rates.gpu / 100 if rates is not None else None,
            energy_j=energy / 1000 if energy is not None else None,
            throttle=throttle_reasons(bits) if bits is not None else None,
            processes=self.processes(),
        )

    def processes(self) -> dict[int, int | None] | None:
        running = self._ask(self._nvml.nvmlDeviceGetComputeRunningProcesses)
        return None if running is None else {process.pid: process.usedGpuMemory or None for process in running}

    def core_cycles(self) -> float | None:
        """CUDA cores times the highest clock frequency."""
        cores = self._ask(self._nvml.nvmlDeviceGetNumGpuCores)
        mhz = self._ask(self._nvml.nvmlDeviceGetMaxClockInfo, self._nvml.NVML_CLOCK_SM)
        return cores * mhz * 1e6 if cores and mhz else None

    def used(self) -> int | None:
        memory = self._ask(self._nvml.nvmlDeviceGetMemoryInfo)
        return int(memory.used) if memory is not None else None

    def _ask(self, call: Any, *args: Any) -> Any:
        """The result of a call, or None where this GPU, driver or container does not support it."""
        try:
            return call(self._handle, *args)
        except self._nvml.NVMLError:
            return None
