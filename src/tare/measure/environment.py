"""The fingerprint of this machine and its software. Runs in a process of its own that may touch the device."""

import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import psutil

import tare
from tare.measure.nvml import seen_by_nvml
from tare.records.environment import VARIABLE, Environment

LIBRARIES = ("torch", "torchvision", "numpy", "triton", "nvidia-cudnn-cu12", "nvidia-cudnn-cu13", "mkl")
# Variables that change what a step does; a prefix stands for all that begin with it.
VARIABLES = ("OMP_", "MKL_", "KMP_", "GOMP_", "OPENBLAS_", "CUDA_", "CUBLAS_", "CUDNN_", "NVIDIA_TF32", "TORCH",
             "PYTORCH_", "TRITON_", "MALLOC_", "LD_PRELOAD", "PYTHONOPTIMIZE", "PYTHONMALLOC")  # fmt: skip
# ... but for those that only say where files go.
PLACES = (
    "TORCH_HOME",
    "TORCHINDUCTOR_CACHE_DIR",
    "TRITON_CACHE_DIR",
    "CUDA_HOME",
    "CUDA_PATH",
    "CUDA_VERSION",
    "CUDA_CACHE_PATH",
    "CUDNN_PATH",
    "PYTORCH_KERNEL_CACHE_PATH",
    "TORCH_EXTENSIONS_DIR",
    "TRITON_HOME",
)


def collect() -> Environment:
    return Environment(
        machine=_machine(), software=_software(), flags=_variables(), circumstances=_circumstances()
    )


def collect_without_torch() -> Environment:
    """The part of it that no version of torch has a say in: for figures that programs of the user's give. Nothing
    here wakes a device."""
    gpus, driver = seen_by_nvml()
    machine = {**_host(), **({"gpu": gpus[0], "gpus": str(len(gpus))} if gpus else {})}
    software = {**_system(), **({"driver": driver} if driver else {})}
    return Environment(machine=machine, software=software, flags=_variables(), circumstances={})


def _host() -> dict[str, str]:
    return {
        "arch": platform.machine(),
        "cpu": _cpu_model(),
        "cores": str(psutil.cpu_count(logical=False) or os.cpu_count()),
        "logical_cores": str(len(psutil.Process().cpu_affinity()) if hasattr(psutil.Process, "cpu_affinity")
                             else os.cpu_count()),
        "memory_gib": str(round(psutil.virtual_memory().total / 2**30)),
    }  # fmt: skip


def _machine() -> dict[str, str]:
    import torch

    facts = _host()
    if torch.cuda.is_available():
        properties = torch.cuda.get_device_properties(0)
        facts["gpu"] = properties.name
        facts["gpus"] = str(torch.cuda.device_count())
        facts["gpu_memory_gib"] = str(round(properties.total_memory / 2**30))
        facts["compute_capability"] = f"{properties.major}.{properties.minor}"
    return facts


def _system() -> dict[str, str]:
    return {"os": platform.system(), "kernel": platform.release()}


def _software() -> dict[str, str]:
    import torch

    facts = {**_system(), "python": platform.python_version(), "tare": tare.__version__}
    for name in LIBRARIES:
        try:
            facts[name] = version(name)
        except PackageNotFoundError:
            continue
    facts["torch"] = str(torch.__version__)
    if torch.version.cuda:
        facts["cuda"] = str(torch.version.cuda)
    if torch.backends.cudnn.is_available():
        facts["cudnn"] = str(torch.backends.cudnn.version())
    driver = _driver()
    if driver:
        facts["driver"] = driver
    return facts


def _driver() -> str | None:
    from tare.measure.devices import open_gpu

    gpu = open_gpu("cuda")
    return gpu.driver() if gpu else None


def _variables() -> dict[str, str]:
    return {
        f"{VARIABLE}{name}": value
        for name, value in sorted(os.environ.items())
        if name.startswith(VARIABLES) and name not in PLACES
    }


def _circumstances() -> dict[str, str]:
    import torch

    facts = {"load_1min": f"{os.getloadavg()[0]:.2f}", "host": platform.node()}
    commit = _git("rev-parse", "HEAD")
    if commit:
        facts["tare_commit"] = commit + ("+changes" if _git("status", "--porcelain") else "")
    if torch.cuda.is_available():
        # Two machines of one kind are one environment, but a reader should be able to tell them apart.
        facts["gpu_uuid"] = str(getattr(torch.cuda.get_device_properties(0), "uuid", "unknown"))
    container = _container()
    if container:
        facts["container"] = container
    return facts


def _git(*args: str) -> str:
    """What git says of the checkout tare runs from; nothing where it runs from an installed wheel."""
    root = Path(__file__).resolve().parents[3]
    if not (root / ".git").exists():
        return ""
    try:
        done = subprocess.run(["git", "-C", str(root), *args], capture_output=True, text=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _cpu_model() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor() or "unknown"
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    named = {key.strip(): value.strip() for key, value in fields.items()}
    if "model name" in named:
        return named["model name"]
    arm = [named.get(key, "?") for key in ("CPU implementer", "CPU part", "CPU variant")]
    return "arm " + "/".join(arm) if "CPU part" in named else platform.processor() or "unknown"


def _container() -> str:
    if Path("/.dockerenv").exists():
        return "docker"
    if os.environ.get("KUBERNETES_SERVICE_HOST"):
        return "kubernetes"
    try:
        return "gvisor" if "gVisor" in Path("/proc/version").read_text() else ""
    except OSError:
        return ""
