"""The folders of the libraries that the C++ rungs are built on: in installed wheels, or in a CUDA toolkit."""

import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from tare.errors import TareError


def torch_folder() -> Path:
    # Without importing torch, which takes seconds.
    spec = find_spec("torch")
    if spec is None or spec.origin is None:
        raise TareError("cannot build the native rungs: torch is not installed")
    return Path(spec.origin).parent


def blas() -> Path | None:
    """The OpenBLAS that SciPy's wheels carry on Linux; its names begin with `scipy_`."""
    if sys.platform != "linux":
        return None
    spec = find_spec("scipy")
    if spec is None or spec.origin is None:
        return None
    return next(iter(sorted(Path(spec.origin).parents[1].glob("scipy.libs/libscipy_openblas-*.so*"))), None)


def cudnn() -> Path | None:
    return _folder("cudnn.h", ("cudnn",))


def cublas() -> Path | None:
    return _folder("cublasLt.h", ("cu13", "cublas"))


def _folder(header: str, packages: tuple[str, ...]) -> Path | None:
    """The folder over `include/HEADER`: torch's own wheels first, so that the process loads the same libraries
    as torch."""
    return next((folder for folder in _candidates(packages) if (folder / "include" / header).is_file()), None)


def _candidates(packages: tuple[str, ...]) -> Iterator[Path]:
    spec = find_spec("nvidia")
    for root in (spec.submodule_search_locations or []) if spec else []:
        yield from (Path(root) / package for package in packages)
    yield from (Path("/usr/local/cuda"), Path("/usr"))
