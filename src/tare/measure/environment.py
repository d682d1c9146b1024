"""The environment of a record: this machine and its software. Runs in a process that may touch the device."""

import os
import platform
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, packages_distributions, version
from pathlib import Path

import psutil

import tare
from tare.measure.nvml import seen_by_nvml
from tare.records.environment import VARIABLE, Environment
from tare.system.repository import read_repository
from tare.system.variables import is_kept

LIBRARIES = ("torch", "torchvision", "numpy", "triton", "nvidia-cudnn-cu12", "nvidia-cudnn-cu13", "mkl")
OWN_NAME = "tare-bench"


def collect() -> Environment:
    """Everything that torch, the devices and the system report."""
    import torch

    environment = collect_without_torch()
    machine = {name: value for name, value in environment.machine.items() if name not in ("gpu", "gpus")}
    software = {
        **environment.software,
        "python": platform.python_version(),
        "tare": tare.__version__,
        **{name: found for name in LIBRARIES if (found := package_version(name))},
        "torch": str(torch.__version__),
    }
    circumstances = {"load_1min": f"{os.getloadavg()[0]:.2f}", "host": platform.node()}
    if torch.version.cuda:
        software["cuda"] = str(torch.version.cuda)
    if torch.backends.cudnn.is_available():
        software["cudnn"] = str(torch.backends.cudnn.version())
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        machine["gpu"] = properties.name
        machine["gpus"] = str(torch.cuda.device_count())
        machine["gpu_memory_gib"] = str(round(properties.total_memory / 2**30))
        machine["compute_capability"] = f"{properties.major}.{properties.minor}"
        # Two GPUs of one kind are one environment, but a reader can tell them apart.
        circumstances["gpu_uuid"] = str(getattr(properties, "uuid", "unknown"))
    else:
        software.pop("driver", None)
    # The checkout that tare runs from; an installed wheel has none.
    root = Path(__file__).resolve().parents[3]
    if (root / ".git").exists() and (checkout := read_repository(root)):
        circumstances["tare_commit"] = checkout.commit + ("+changes" if checkout.dirty else "")
    if container := _container():
        circumstances["container"] = container
    return Environment(machine=machine, software=software, flags=environment.flags, circumstances=circumstances)


def collect_without_torch() -> Environment:
    """The environment without what torch reports, for figures that a user's program prints. Touches no device."""
    gpus, driver = seen_by_nvml()
    process = psutil.Process()
    machine = {
        "arch": platform.machine(),
        "cpu": _cpu_model(),
        "cores": str(psutil.cpu_count(logical=False) or os.cpu_count()),
        "logical_cores": str(len(process.cpu_affinity()) if hasattr(process, "cpu_affinity") else os.cpu_count()),
        "memory_gib": str(round(psutil.virtual_memory().total / 2**30)),
    }
    software = {"os": platform.system(), "kernel": platform.release()}
    if gpus:
        machine |= {"gpu": gpus[0], "gpus": str(len(gpus))}
    if driver:
        software["driver"] = driver
    kept = [(name, value) for name, value in sorted(os.environ.items()) if is_kept(name, value)]
    flags = {f"{VARIABLE}{_as_text(name)}": _as_text(value) for name, value in kept}
    return Environment(machine=machine, software=software, flags=flags, circumstances={})


def _as_text(name_or_value: str) -> str:
    """A variable is bytes, which are not always a text that a record can hold."""
    return os.fsencode(name_or_value).decode(errors="replace")


def package_version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def imported_packages() -> dict[str, str]:
    """The versions of the installed packages that this process has imported. It takes a tenth of a second or more:
    Python has to read which modules each of them has."""
    modules = {name.partition(".")[0] for name in list(sys.modules)} - sys.stdlib_module_names
    providers = packages_distributions()
    # A package that is installed as a link to its sources does not list its modules.
    names = {package for module in modules for package in providers.get(module, [module])}
    return {name: found for name in sorted(names - {OWN_NAME}) if (found := package_version(name))}


def _cpu_model(cpuinfo: Path = Path("/proc/cpuinfo")) -> str:
    """As lscpu names it. On x86-64 /proc/cpuinfo has the name; on ARM it has numbers, which lscpu translates."""
    try:
        lines = [line.partition(":") for line in cpuinfo.read_text().splitlines()]
    except OSError:
        return platform.processor() or "unknown"
    fields = {name.strip(): value.strip() for name, _, value in lines}
    if "model name" in fields:
        return fields["model name"]
    numbers = "/".join(fields.get(name, "?") for name in ("CPU implementer", "CPU part", "CPU variant"))
    return _lscpu_model() or (f"arm {numbers}" if "CPU part" in fields else platform.processor() or "unknown")


def _lscpu_model() -> str:
    lines = (line.partition(":") for line in _output("lscpu").splitlines())
    return next((value.strip() for name, _, value in lines if name.strip() == "Model name"), "").strip("-")


def _output(*command: str) -> str:
    """What a command prints; nothing where it fails or does not exist."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=10, env={**os.environ, "LC_ALL": "C"}
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _container() -> str:
    if Path("/.dockerenv").exists():
        return "docker"
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    try:
        return "gvisor" if "gVisor" in Path("/proc/version").read_text() else ""
    except OSError:
        return ""
