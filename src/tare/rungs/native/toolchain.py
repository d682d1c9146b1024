"""What this machine has for building the C++ rungs: compilers, libraries (in wheels or in a CUDA toolkit), and the
processors that they are built for."""

import os
import platform
import shutil
import subprocess
import sys
from functools import cache
from importlib.util import find_spec
from pathlib import Path

from tare.measure.nvml import ask_nvml, handles

# Fields of /proc/cpuinfo that identify a kind of processor, on x86-64 and aarch64.
IDENTIFYING = {
    "vendor_id", "cpu family", "model", "flags",
    "CPU implementer", "CPU variant", "CPU part", "Features",
}  # fmt: skip


def compiler() -> str | None:
    named = os.environ.get("CXX")
    wanted = (named,) if named else ("c++", "g++", "clang++")
    return next((path for name in wanted if (path := shutil.which(name))), None)


def nvcc() -> str | None:
    return shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")


@cache
def version_text(program: str | None) -> str:
    """The path of a compiler, and what it says about its version."""
    if program is None:
        return ""
    try:
        return program + subprocess.run([program, "--version"], capture_output=True, text=True, timeout=30).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""


def torch_folder() -> Path | None:
    return _package_folder("torch")


def blas() -> Path | None:
    """The OpenBLAS that SciPy's wheels carry on Linux; its names begin with `scipy_`."""
    scipy = _package_folder("scipy") if sys.platform == "linux" else None
    return next(iter(sorted(scipy.parent.glob("scipy.libs/libscipy_openblas-*.so*"))), None) if scipy else None


def cudnn() -> Path | None:
    return _folder_with("cudnn.h", "cudnn")


def cublas() -> Path | None:
    return _folder_with("cublasLt.h", "cu13", "cublas")


def _package_folder(name: str) -> Path | None:
    # Without importing the package: torch takes seconds.
    spec = find_spec(name)
    return Path(spec.origin).parent if spec and spec.origin else None


def _folder_with(header: str, *packages: str) -> Path | None:
    """The folder over `include/HEADER`: torch's own wheels first, so that the process loads the same libraries
    as torch."""
    spec = find_spec("nvidia")
    roots = (spec.submodule_search_locations or []) if spec else []
    wheels = [Path(root, package) for root in roots for package in packages]
    candidates = [*wheels, Path("/usr/local/cuda"), Path("/usr")]
    return next((folder for folder in candidates if (folder / "include" / header).is_file()), None)


def architectures() -> str:
    """`CUDAARCHS`, as for CMake ("80;90"), or the architectures of this machine's GPUs, or nothing.

    They are part of a build's key, so that a home folder used with another GPU gets another build; CMake's
    `native` would not tell them.
    """
    return os.environ.get("CUDAARCHS") or _architectures_of_this_machine()


@cache
def _architectures_of_this_machine() -> str:
    capabilities = ask_nvml(lambda nvml: {nvml.nvmlDeviceGetCudaComputeCapability(gpu) for gpu in handles(nvml)})
    return ";".join(f"{major}{minor}" for major, minor in sorted(capabilities or ()))


def processor() -> str:
    """What `-march=native` means here: machines that share a home folder need a build for each kind of
    processor."""
    try:
        first = Path("/proc/cpuinfo").read_text(errors="replace").partition("\n\n")[0]
    except OSError:
        return platform.machine()
    lines = (line.partition(":") for line in first.splitlines())
    fields = [f"{name.strip()}={value.strip()}" for name, _, value in lines if name.strip() in IDENTIFYING]
    return " ".join([platform.machine(), *fields])
