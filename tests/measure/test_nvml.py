"""NVML through a fake pynvml: what a GPU says, and what it does not."""

import sys
from types import SimpleNamespace
from typing import Any

import pytest

from tare.measure import health
from tare.measure.nvml import REASONS, Gpu, GpuReading, seen_by_nvml, throttle_reasons


class NVMLError(Exception):
    """pynvml's."""


class FakeNvml:
    """Answers every call that `answers` names, and raises NVMLError for the others."""

    NVMLError = NVMLError
    NVML_CLOCK_SM = 1
    NVML_TEMPERATURE_GPU = 0

    def __init__(self, **answers: Any) -> None:
        self._answers = answers

    def __getattr__(self, name: str) -> Any:
        def call(*_args: Any) -> Any:
            if name not in self._answers:
                raise NVMLError(name)
            return self._answers[name]

        return call


FULL = {
    "nvmlDeviceGetPowerUsage": 512_500,
    "nvmlDeviceGetTotalEnergyConsumption": 7_250,
    "nvmlDeviceGetUtilizationRates": SimpleNamespace(gpu=87),
    "nvmlDeviceGetCurrentClocksThrottleReasons": 0x24,
    "nvmlDeviceGetComputeRunningProcesses": [
        SimpleNamespace(pid=7, usedGpuMemory=None),
        SimpleNamespace(pid=9, usedGpuMemory=2048),
    ],
    "nvmlDeviceGetClockInfo": 1980,
    "nvmlDeviceGetTemperature": 61,
    "nvmlDeviceGetMemoryInfo": SimpleNamespace(used=4096),
    "nvmlSystemGetDriverVersion": "580.1",
}


def test_a_reading_in_our_units() -> None:
    assert Gpu("handle", FakeNvml(**FULL)).read() == GpuReading(
        sm_clock_mhz=1980,
        temperature_c=61,
        power_w=512.5,
        utilisation=0.87,
        energy_j=7.25,
        throttle=("power cap", "software thermal slowdown"),
        processes={7: None, 9: 2048},
    )


def test_what_nvml_refuses_is_none_and_not_zero() -> None:
    gpu = Gpu("handle", FakeNvml())
    assert gpu.read() == GpuReading(None, None, None, None, None, None, None)
    assert (gpu.used(), gpu.processes()) == (None, None)


def test_zero_is_zero() -> None:
    silent = FakeNvml(nvmlDeviceGetPowerUsage=0, nvmlDeviceGetCurrentClocksThrottleReasons=0)
    found = Gpu("handle", silent).read()
    assert (found.power_w, found.throttle) == (0, ())


def test_ask_passes_other_errors_on() -> None:
    def broken(_handle: Any) -> None:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        Gpu("handle", FakeNvml())._ask(broken)


def test_memory_of_a_gpu_and_of_its_processes() -> None:
    gpu = Gpu("handle", FakeNvml(**FULL))
    assert gpu.used() == 4096
    # Process 7 is there, but its memory is hidden: that is not zero bytes.
    assert gpu.processes() == {7: None, 9: 2048}


@pytest.mark.parametrize(
    ("bits", "names"),
    [
        (0x00, ()),
        (0x01, ()),  # idle
        (0x02, ()),  # a chosen application clock
        (0x04, ("power cap",)),
        (0x08 | 0x40, ("hardware slowdown", "hardware thermal slowdown")),
        (0x10, ("sync boost",)),
        (0x20, ("software thermal slowdown",)),
        (0x80, ("hardware power brake",)),
        (0x100, ()),  # the display's clock
        (0xFF, tuple(REASONS.values())),
    ],
)
def test_bits_of_throttling(bits: int, names: tuple[str, ...]) -> None:
    assert throttle_reasons(bits) == names


def test_a_gpu_is_opened_by_its_address(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = FakeNvml(nvmlInit=None, nvmlDeviceGetHandleByPciBusId="handle", nvmlDeviceGetPowerUsage=1000)
    monkeypatch.setitem(sys.modules, "pynvml", fake)
    gpu = Gpu.open("00000000:01:00.0")
    assert gpu is not None
    assert gpu.read().power_w == 1.0


@pytest.mark.parametrize("nvml", [None, FakeNvml(), FakeNvml(nvmlInit=None)])
def test_without_nvml_or_such_a_gpu_there_is_none(monkeypatch: pytest.MonkeyPatch, nvml: Any) -> None:
    # None in sys.modules makes the import itself fail.
    monkeypatch.setitem(sys.modules, "pynvml", nvml)
    assert Gpu.open("00000000:01:00.0") is None


def states(**answers: Any) -> dict[str, str]:
    return {check.name: check.state for check in health._gpu("cuda:0", Gpu("handle", FakeNvml(**answers)))}


def test_health_of_a_gpu() -> None:
    found = states(**FULL)
    assert found == {"cuda:0 processes": "warn", "cuda:0 throttling": "warn", "cuda:0 heat": "good"}
    calm = {"nvmlDeviceGetCurrentClocksThrottleReasons": 1, "nvmlDeviceGetComputeRunningProcesses": []}
    assert states(**FULL | calm | {"nvmlDeviceGetTemperature": 90}) == {
        "cuda:0 processes": "good",
        "cuda:0 throttling": "good",
        "cuda:0 heat": "warn",
    }


def test_a_gpu_that_says_nothing_is_unknown_and_not_good() -> None:
    assert states() == {"cuda:0 processes": "unknown", "cuda:0 throttling": "unknown"}


def test_the_gpus_of_a_machine_are_named_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    named = {
        "nvmlInit": None, "nvmlDeviceGetCount": 2, "nvmlDeviceGetHandleByIndex": 0,
        "nvmlDeviceGetName": "NVIDIA H200", "nvmlSystemGetDriverVersion": "580.1",
    }  # fmt: skip
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml(**named))
    assert seen_by_nvml() == (["NVIDIA H200", "NVIDIA H200"], "580.1")
    monkeypatch.setitem(sys.modules, "pynvml", FakeNvml())
    assert seen_by_nvml() == ([], None)
