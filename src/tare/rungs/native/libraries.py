"""Where the libraries lie that the C++ rungs are built on: in the wheels beside us, or in a CUDA toolkit."""

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from tare.errors import TareError


def torch_folder() -> Path:
    # Found without importing torch: the parent process stays light.
    found = find_spec("torch")
    if found is None or found.origin is None:
        raise TareError("cannot build the native rungs: torch is not installed")
    return Path(found.origin).parent


def blas() -> Path | None:
    """The OpenBLAS that SciPy's wheels carry on Linux; its names begin with `scipy_`."""
    if sys.platform != "linux":
        return None
    found = find_spec("scipy")
    if found is None or found.origin is None:
        return None
    return next(iter(sorted(Path(found.origin).parents[1].glob("scipy.libs/libscipy_openblas-*.so*"))), None)


def cudnn() -> Path | None:
    return _folder("cudnn.h", ("cudnn",))


def cublas() -> Path | None:
    return _folder("cublasLt.h", ("cu13", "cublas"))


def _folder(header: str, packages: tuple[str, ...]) -> Path | None:
    """The folder over `include/HEADER`: torch's own wheels first, so that the process loads what torch would."""
    return next((folder for folder in _candidates(packages) if (folder / "include" / header).is_file()), None)


def _candidates(packages: tuple[str, ...]) -> Iterator[Path]:
    found = find_spec("nvidia")
    for root in (found.submodule_search_locations or []) if found else []:
        yield from (Path(root) / package for package in packages)
    yield from (Path("/usr/local/cuda"), Path("/usr"))
