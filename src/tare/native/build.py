"""Building the C++ rungs on first use, into a cache keyed by everything that decides the result."""

import fcntl
import hashlib
import os
import shutil
import subprocess
from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

from tare.errors import TareError
from tare.home import home

SOURCES = Path(__file__).parent
TIMEOUT_S = 1800.0


def missing_tools() -> str | None:
    """What a build lacks here, or None."""
    lacking = [name for name in ("cmake",) if shutil.which(name) is None]
    if compiler() is None:
        lacking.append("a C++ compiler")
    return ", ".join(lacking) or None


def compiler() -> str | None:
    wanted = (os.environ.get("CXX"), "c++", "g++", "clang++")
    return next((path for name in wanted if name and (path := shutil.which(name))), None)


def executable(name: str, on_build: Callable[[], None] = lambda: None) -> Path:
    """The program of a rung, built if these sources have not been built with these tools yet."""
    folder = home() / "native" / build_key()
    program = folder / name
    if not program.exists():
        on_build()
        _build(folder)
    return program


def build_key() -> str:
    """Sources, compiler, torch and CUDA: a change of any makes a new build, and the old ones stay usable."""
    digest = hashlib.sha256()
    for path in sorted(SOURCES.rglob("*")):
        if path.suffix in (".cpp", ".hpp", ".cu", ".txt"):
            digest.update(path.relative_to(SOURCES).as_posix().encode() + path.read_bytes())
    digest.update(_first_line(compiler() or "", "--version").encode())
    digest.update(_torch_version().encode())
    digest.update(_first_line(shutil.which("nvcc") or "", "--version").encode())
    return digest.hexdigest()[:16]


def _build(folder: Path) -> None:
    folder.parent.mkdir(parents=True, exist_ok=True)
    # Two tares that need the same build at the same time: one builds, the other finds it built.
    with (folder.parent / f"{folder.name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if folder.exists():
            return
        work = folder.with_suffix(".building")
        shutil.rmtree(work, ignore_errors=True)
        generator = ["-G", "Ninja"] if shutil.which("ninja") else []
        configure = ["cmake", *generator, "-S", str(SOURCES), "-B", str(work)]
        _run([*configure, f"-DTORCH_FOLDER={_torch_folder()}", f"-DCMAKE_CXX_COMPILER={compiler()}"], work)
        _run(["cmake", "--build", str(work), "--parallel", str(min(os.cpu_count() or 1, 4))], work)
        work.rename(folder)


def _run(command: list[str], work: Path) -> None:
    work.mkdir(parents=True, exist_ok=True)
    log = work / "build.log"
    with log.open("a") as output:
        try:
            done = subprocess.run(
                command, stdout=output, stderr=subprocess.STDOUT, stdin=subprocess.DEVNULL, timeout=TIMEOUT_S
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise TareError(f"cannot build the native rungs: {error}") from error
    if done.returncode != 0:
        lines = [line for line in log.read_text(errors="replace").splitlines() if "rror" in line]
        raise TareError(f"cannot build the native rungs: {(lines or ['see the log'])[0][:300]} (log: {log})")


def _torch_folder() -> Path:
    # Found without importing torch: the parent process stays light.
    found = find_spec("torch")
    if found is None or found.origin is None:
        raise TareError("cannot build the native rungs: torch is not installed")
    return Path(found.origin).parent


def _torch_version() -> str:
    try:
        return version("torch")
    except PackageNotFoundError:
        return "none"


def _first_line(program: str, *args: str) -> str:
    if not program:
        return ""
    try:
        done = subprocess.run([program, *args], capture_output=True, text=True, timeout=30)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return program + done.stdout
