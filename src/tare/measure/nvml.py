"""NVML: clocks, throttling, temperature, power, energy and memory of a GPU."""

from typing import Any, NamedTuple

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
    processes: tuple[int, ...] | None


def throttle_reasons(bits: int) -> tuple[str, ...]:
    return tuple(name for bit, name in REASONS.items() if bits & bit)


def seen_by_nvml() -> tuple[list[str], str | None]:
    """The names of all GPUs of this machine, and their driver's version; nothing where there is no NVML."""
    try:
        import pynvml

        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
        names = [str(pynvml.nvmlDeviceGetName(pynvml.nvmlDeviceGetHandleByIndex(i))) for i in range(count)]
        return names, str(pynvml.nvmlSystemGetDriverVersion())
    except (ImportError, OSError):
        return [], None
    except pynvml.NVMLError:
        return [], None


class Gpu:
    """One GPU by the index that CUDA gives it (CUDA_VISIBLE_DEVICES is honoured through its PCI address)."""

    def __init__(self, handle: Any, nvml: Any) -> None:
        self._handle = handle
        self._nvml = nvml

    @classmethod
    def open(cls, pci_bus_id: str) -> "Gpu | None":
        """The GPU at a PCI address, or None where there is no NVML or no such GPU."""
        try:
            import pynvml

            pynvml.nvmlInit()
            return cls(pynvml.nvmlDeviceGetHandleByPciBusId(pci_bus_id.encode()), pynvml)
        except (ImportError, OSError):
            return None
        except pynvml.NVMLError:
            return None

    def read(self) -> GpuReading:
        nvml = self._nvml
        power = self._ask(nvml.nvmlDeviceGetPowerUsage)
        energy = self._ask(nvml.nvmlDeviceGetTotalEnergyConsumption)
        rates = self._ask(nvml.nvmlDeviceGetUtilizationRates)
        bits = self._ask(nvml.nvmlDeviceGetCurrentClocksThrottleReasons)
        running = self._ask(nvml.nvmlDeviceGetComputeRunningProcesses)
        return GpuReading(
            sm_clock_mhz=self._ask(nvml.nvmlDeviceGetClockInfo, nvml.NVML_CLOCK_SM),
            temperature_c=self._ask(nvml.nvmlDeviceGetTemperature, nvml.NVML_TEMPERATURE_GPU),
            power_w=power / 1000 if power is not None else None,
            utilisation=rates.gpu / 100 if rates is not None else None,
            energy_j=energy / 1000 if energy is not None else None,
            throttle=throttle_reasons(bits) if bits is not None else None,
            processes=tuple(process.pid for process in running) if running is not None else None,
        )

    def driver(self) -> str | None:
        try:
            return str(self._nvml.nvmlSystemGetDriverVersion())
        except self._nvml.NVMLError:
            return None

    def used_by(self, pid: int) -> int | None:
        """Bytes that NVML counts for a process; many containers hide them."""
        for process in self._ask(self._nvml.nvmlDeviceGetComputeRunningProcesses) or []:
            if process.pid == pid and process.usedGpuMemory:
                return int(process.usedGpuMemory)
        return None

    def used(self) -> int | None:
        memory = self._ask(self._nvml.nvmlDeviceGetMemoryInfo)
        return int(memory.used) if memory is not None else None

    def _ask(self, call: Any, *args: Any) -> Any:
        """The result of a call, or None where this GPU, driver or container does not support it."""
        try:
            return call(self._handle, *args)
        except self._nvml.NVMLError:
            return None
