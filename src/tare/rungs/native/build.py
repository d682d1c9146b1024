"""Building the C++ rungs on first use, into a cache keyed by everything that decides the result."""

import contextlib
import hashlib
import os
import re
import secrets
import shutil
import subprocess
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from pathlib import Path
from typing import NamedTuple

from tare.errors import TareError
from tare.measure.environment import package_version
from tare.rungs.native import toolchain
from tare.system.home import home_folder
from tare.system.locks import FileLock
from tare.system.processes import kill_session

SOURCES = Path(__file__).parents[1]
TIMEOUT_S = 1800.0
# More compilers than this do not speed up one component.
MOST_JOBS = 4
# Variables that cmake reads.
FLAGS = ("CXXFLAGS", "CUDAFLAGS", "LDFLAGS")


class Setting(NamedTuple):
    """A variable of CMake: what finds its value, and how to call what is missing where there is none."""

    find: Callable[[], object]
    description: str


class Component(NamedTuple):
    """A folder that is built separately: its programs, and the variables that its build needs."""

    programs: tuple[str, ...]
    settings: dict[str, Setting]


# The longest build first.
COMPONENTS = {
    "libtorch": Component(
        ("tare-libtorch", "tare-script", "tare-aot"), {"TORCH_FOLDER": Setting(toolchain.torch_folder, "torch")}
    ),
    "vendor/cuda": Component(
        ("tare-vendor-cuda",),
        {
            "CMAKE_CUDA_COMPILER": Setting(toolchain.nvcc, "nvcc"),
            "CUDNN_FOLDER": Setting(toolchain.cudnn, "cuDNN's headers"),
            "CUBLAS_FOLDER": Setting(toolchain.cublas, "cuBLAS's headers"),
            "CMAKE_CUDA_ARCHITECTURES": Setting(
                toolchain.architectures, "an NVIDIA GPU, or CUDAARCHS=90 to build for one elsewhere,"
            ),
        },
    ),
    "vendor/cpu": Component(
        ("tare-vendor-cpu",), {"BLAS_LIBRARY": Setting(toolchain.blas, "an OpenBLAS beside SciPy")}
    ),
    "native/frames": Component(("libtare-frames.so", "tare-descend"), {}),
}


def missing_tools(component: str = "libtorch") -> str | None:
    """The tools and libraries that a build lacks here, or None."""
    lacking = [] if shutil.which("cmake") else ["cmake"]
    if toolchain.compiler() is None:
        named = os.environ.get("CXX")
        lacking.append(f"a C++ compiler (CXX={named} is no program here)" if named else "a C++ compiler")
    lacking += [setting.description for setting in COMPONENTS[component].settings.values() if not setting.find()]
    return ", ".join(lacking) or None


def executable(name: str, on_build: Callable[[], None] = lambda: None) -> Path:
    """The program of a rung, built if its sources have not been built with these tools yet."""
    component = next(component for component, built in COMPONENTS.items() if name in built.programs)
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
    settings = {name: str(setting.find()) for name, setting in COMPONENTS[component].settings.items()}
    tools = [
        toolchain.version_text(toolchain.compiler()),
        package_version("torch"),
        [os.environ.get(name) for name in FLAGS],
        settings,
    ]
    if component == "vendor/cpu":
        # It is compiled for this processor, and crashes on one that lacks an instruction.
        tools.append(toolchain.processor())
    if component == "vendor/cuda":
        tools.append(toolchain.version_text(toolchain.nvcc()))
    digest.update(repr(tools).encode())
    return digest.hexdigest()[:16]


def _belongs(path: Path, component: str) -> bool:
    """Whether a source belongs to a component or is shared by all."""
    folder = path.relative_to(SOURCES).parent.as_posix()
    others = [other for other in COMPONENTS if other != component]
    return not any(folder == other or folder.startswith(f"{other}/") for other in others)


def _build(component: str, folder: Path, jobs: int, commands: "Commands") -> None:
    programs, settings = COMPONENTS[component]
    # If two processes need the same build, one builds and the other waits.
    with _alone(folder.parent / f"{folder.name}.lock", commands):
        if all((folder / program).exists() for program in programs):
            return
        # Remove an incomplete build.
        for path in [folder, *folder.parent.glob(f"{folder.name}.building*")]:
            shutil.rmtree(path, ignore_errors=True)
        # A new folder, because compilers of a killed process may still write to the old one.
        work = folder.with_name(f"{folder.name}.building-{secrets.token_hex(4)}")
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        variables: dict[str, object] = {"TARE_COMPONENT": component, "CMAKE_CXX_COMPILER": toolchain.compiler()}
        variables |= {name: setting.find() for name, setting in settings.items()}
        definitions = [f"-D{name}={value}" for name, value in variables.items()]
        commands.run(["cmake", *generator, "-S", str(SOURCES), "-B", str(work), *definitions], work)
        commands.run(["cmake", "--build", str(work), "--parallel", str(jobs)], work)
        absent = [program for program in programs if not (work / program).exists()]
        if absent:
            raise TareError(f"the build gave no {', '.join(absent)} (log: {work / 'build.log'})")
        work.rename(folder)


@contextlib.contextmanager
def _alone(path: Path, commands: "Commands") -> Iterator[None]:
    try:
        lock = FileLock(path)
    except OSError as error:
        raise TareError(f"cannot build the native rungs: {error}") from error
    with lock:
        lock.acquire(commands.check)
        yield


class Commands:
    """The commands of parallel builds, which are all killed if the caller is interrupted: no compilers are left
    running."""

    def __init__(self) -> None:
        self._running: set[subprocess.Popen[bytes]] = set()
        self._guard = threading.Lock()
        self._stopped = False

    def run(self, command: list[str], work: Path) -> None:
        """Runs a command, with its output in `build.log`. TareError where it cannot be started or fails."""
        log = work / "build.log"
        try:
            work.mkdir(exist_ok=True)
            with log.open("ab") as output:
                code = self._wait(command, output.fileno())
        except (OSError, subprocess.TimeoutExpired) as error:
            raise TareError(f"cannot build the native rungs: {error}") from error
        if code != 0:
            reason = first_error(log.read_text(errors="replace"))
            raise TareError(f"cannot build the native rungs: {reason} (log: {log})")

    def _wait(self, command: list[str], output: int) -> int:
        with self._guard:
            self.check()
            # A session of its own, by which all its descendants can be found.
            process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True
            )
            self._running.add(process)
        try:
            return process.wait(TIMEOUT_S)
        except BaseException:
            kill_session(process.pid)
            raise
        finally:
            with self._guard:
                self._running.discard(process)

    def check(self) -> None:
        if self._stopped:
            raise TareError("the build was interrupted")

    def stop(self) -> None:
        with self._guard:
            self._stopped = True
            for process in self._running:
                kill_session(process.pid)


def first_error(log: str) -> str:
    """The first line with an error; of CMake the whole message, up to a full stop or two empty lines."""
    error = re.search(r"(?ms)^CMake Error.*?(?:\.$|\n\n\n|\Z)|^[^\n]*rror[^\n]*", log)
    return " ".join(error[0].split())[:300] if error else "see the log"
