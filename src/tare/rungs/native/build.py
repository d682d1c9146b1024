"""Building the C++ rungs on first use, into a cache keyed by everything that decides the result."""

import contextlib
import hashlib
import itertools
import os
import secrets
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tare.errors import TareError
from tare.rungs.native.architectures import architectures, processor
from tare.rungs.native.commands import Commands
from tare.rungs.native.libraries import blas, cublas, cudnn, torch_folder
from tare.system.home import home_folder
from tare.system.locks import FileLock

SOURCES = Path(__file__).parents[1]
TIMEOUT_S = 1800.0
# More compilers than this do not speed up one component.
MOST_JOBS = 4
# Variables that cmake reads.
FLAGS = ("CXXFLAGS", "CUDAFLAGS", "LDFLAGS")
# The folders that are built separately, with their programs; the longest build first.
COMPONENTS = {
    "libtorch": ("tare-libtorch", "tare-script", "tare-aot"),
    "vendor/cuda": ("tare-vendor-cuda",),
    "vendor/cpu": ("tare-vendor-cpu",),
    "native/frames": ("libtare-frames.so", "tare-descend"),
}


def missing_tools(component: str = "libtorch") -> str | None:
    """The tools and libraries that a build lacks here, or None."""
    lacking = [name for name in ("cmake",) if shutil.which(name) is None]
    if compiler() is None:
        named = os.environ.get("CXX")
        lacking.append(f"a C++ compiler (CXX={named} is no program here)" if named else "a C++ compiler")
    if component == "vendor/cpu" and blas() is None:
        lacking.append("an OpenBLAS beside SciPy")
    if component == "vendor/cuda":
        lacking += ["nvcc"] if nvcc() is None else []
        lacking += ["cuDNN's headers"] if cudnn() is None else []
        lacking += ["cuBLAS's headers"] if cublas() is None else []
        lacking += [] if architectures() else ["an NVIDIA GPU, or CUDAARCHS=90 to build for one elsewhere,"]
    return ", ".join(lacking) or None


def compiler() -> str | None:
    named = os.environ.get("CXX")
    wanted = (named,) if named else ("c++", "g++", "clang++")
    return next((path for name in wanted if (path := shutil.which(name))), None)


def nvcc() -> str | None:
    return shutil.which("nvcc") or shutil.which("nvcc", path="/usr/local/cuda/bin")


def executable(name: str, on_build: Callable[[], None] = lambda: None) -> Path:
    """The program of a rung, built if its sources have not been built with these tools yet."""
    component = next(component for component, programs in COMPONENTS.items() if name in programs)
    folder = build_folder(component)
    program = folder / name
    if not program.exists():
        on_build()
        _build(component, folder, min(os.cpu_count() or 1, MOST_JOBS), Commands())
    return program


def build_all(components: Sequence[str], cores: int) -> dict[str, Path | TareError]:
    """Builds the missing components in parallel on `cores` cores. Returns each one's folder, or the error that its
    build failed with."""
    at_once = max(min(len(components), cores), 1)
    jobs = max(min(cores // at_once, MOST_JOBS), 1)
    commands = Commands()

    def build(component: str) -> Path | TareError:
        folder = build_folder(component)
        try:
            _build(component, folder, jobs, commands)
        except TareError as error:
            return error
        return folder

    with ThreadPoolExecutor(at_once) as pool:
        try:
            return dict(zip(components, pool.map(build, components), strict=True))
        except BaseException:
            commands.stop()
            raise


def build_folder(component: str) -> Path:
    return home_folder("native") / f"{component.replace('/', '-')}-{_key_of_this_process(component)}"


@cache
def _key_of_this_process(component: str) -> str:
    """Cached, because it reads a hundred files and every round of an executable needs it."""
    return build_key(component)


def build_key(component: str = "libtorch") -> str:
    """Sources, compiler, torch and CUDA: a change of any makes a new build, and the old ones stay usable."""
    digest = hashlib.sha256(component.encode())
    for path in sorted(SOURCES.rglob("*")):
        if path.suffix in (".cpp", ".hpp", ".cu", ".cuh", ".txt") and _belongs(path, component):
            digest.update(path.relative_to(SOURCES).as_posix().encode() + path.read_bytes())
    digest.update(_first_line(compiler() or "", "--version").encode())
    digest.update(_version("torch").encode())
    digest.update(repr([os.environ.get(name) for name in FLAGS]).encode())
    if component == "libtorch":
        # The path of torch's libraries is compiled in.
        digest.update(str(torch_folder()).encode())
    if component == "vendor/cpu":
        # It is compiled for this processor, and crashes on one that lacks an instruction.
        digest.update(f"{blas()} {processor()}".encode())
    if component == "vendor/cuda":
        digest.update(f"{cudnn()} {cublas()} {architectures()}".encode())
        digest.update(_first_line(nvcc() or "", "--version").encode())
    return digest.hexdigest()[:16]


def _belongs(path: Path, component: str) -> bool:
    """Whether a source belongs to a component or is shared by all."""
    folder = path.relative_to(SOURCES).parent.as_posix()
    others = [other for other in COMPONENTS if other != component]
    return not any(folder == other or folder.startswith(f"{other}/") for other in others)


def _build(component: str, folder: Path, jobs: int, commands: Commands) -> None:
    # If two processes need the same build, one builds and the other waits.
    with _alone(folder.parent / f"{folder.name}.lock", commands):
        if all((folder / program).exists() for program in COMPONENTS[component]):
            return
        # Remove an incomplete build.
        shutil.rmtree(folder, ignore_errors=True)
        for left in folder.parent.glob(f"{folder.name}.building*"):
            shutil.rmtree(left, ignore_errors=True)
        # A new folder, because compilers of a killed process may still write to the old one.
        work = folder.with_name(f"{folder.name}.building-{secrets.token_hex(4)}")
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        configure = ["cmake", *generator, "-S", str(SOURCES), "-B", str(work), f"-DTARE_COMPONENT={component}"]
        _run([*configure, f"-DCMAKE_CXX_COMPILER={compiler()}", *_settings(component)], work, commands)
        _run(["cmake", "--build", str(work), "--parallel", str(jobs)], work, commands)
        absent = [program for program in COMPONENTS[component] if not (work / program).exists()]
        if absent:
            raise TareError(f"the build gave no {', '.join(absent)} (log: {work / 'build.log'})")
        work.rename(folder)


@contextlib.contextmanager
def _alone(path: Path, commands: Commands) -> Iterator[None]:
    try:
        lock = FileLock(path)
    except OSError as error:
        raise TareError(f"cannot build the native rungs: {error}") from error
    with lock:
        lock.acquire(commands.check)
        yield


def _settings(component: str) -> list[str]:
    if component == "libtorch":
        return [f"-DTORCH_FOLDER={torch_folder()}"]
    if component == "vendor/cpu":
        return [f"-DBLAS_LIBRARY={blas()}"]
    if component == "native/frames":
        return []
    where = [f"-DCUDNN_FOLDER={cudnn()}", f"-DCUBLAS_FOLDER={cublas()}"]
    return [f"-DCMAKE_CUDA_COMPILER={nvcc()}", f"-DCMAKE_CUDA_ARCHITECTURES={architectures()}", *where]


def _run(command: list[str], work: Path, commands: Commands) -> None:
    log = work / "build.log"
    try:
        work.mkdir(exist_ok=True)
        with log.open("a") as output:
            code = commands.run(command, output, TIMEOUT_S)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise TareError(f"cannot build the native rungs: {error}") from error
    if code != 0:
        raise TareError(
            f"cannot build the native rungs: {_first_error(log.read_text(errors='replace'))} (log: {log})"
        )


def _first_error(log: str) -> str:
    """The first line with an error, and for CMake the lines after it that explain it."""
    lines = log.splitlines()
    first = next((index for index, line in enumerate(lines) if "rror" in line), None)
    if first is None:
        return "see the log"
    said = [lines[first]]
    if "CMake Error" in said[0]:
        said += _sentence(lines[first + 1 : first + 12])
    return " ".join(said)[:300]


def _sentence(lines: list[str]) -> Iterator[str]:
    """The lines of one message of CMake, which ends with a full stop or two empty lines."""
    for line, behind in itertools.pairwise([*lines, ""]):
        if line.strip():
            yield line.strip()
        if line.rstrip().endswith(".") or not (line.strip() or behind.strip()):
            return


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "none"


@cache
def _first_line(program: str, *args: str) -> str:
    if not program:
        return ""
    try:
        done = subprocess.run([program, *args], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return program + done.stdout
