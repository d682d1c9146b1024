"""`tare env`: makes, lists and removes environments."""

import os
import re
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from tare.bisect.command import CandidateFailed, run_command
from tare.bisect.workspaces import make_layered_environment
from tare.errors import BadInput, TareError, unknown
from tare.execute.environments import VERSION, environments, folder_of, interpreter, name_environment
from tare.execute.environments import find_interpreter as find_interpreter
from tare.system.locks import FileLock

# What each needs, with the versions that were seen to work with this tare.
RECIPES = {
    "jax": ("jax==0.10.2", "jaxlib==0.10.2"),
    "onnxruntime": ("onnx==1.23.2", "onnxscript==0.7.2", "onnxruntime==1.31.1"),
    "openvino": ("onnx==1.23.2", "onnxscript==0.7.2", "openvino==2026.4.1"),
    "tensorflow": ("tensorflow==2.21.0",),
    "torch": ("torch",),
}
# Minutes of downloads, for torch with CUDA.
TIMEOUT_S = 3600.0
NAME = re.compile(r"([a-z]+)(?:==([A-Za-z0-9][A-Za-z0-9.+]*))?")


def packages_of(name: str) -> tuple[str, ...]:
    """What pip installs for `jax` or `torch==2.9.1`; BadInput for a name that is not known."""
    matched = NAME.fullmatch(name)
    if matched is None or matched[1] not in RECIPES:
        raise unknown("environment", name, (*RECIPES, "torch==VERSION"))
    distribution, wanted = matched[1], matched[2]
    if wanted is None:
        if distribution == "torch":
            raise BadInput("which torch? tare env create torch==VERSION")
        return RECIPES[distribution]
    others = (each for each in RECIPES[distribution] if each.partition(VERSION)[0] not in (distribution, "jaxlib"))
    return (f"{distribution}{VERSION}{wanted}", *others)


def create(name: str, notify: Callable[[str], None] = lambda _: None) -> Path:
    """A virtual environment that sees the packages of the running interpreter, after its own. It gets its name
    when it is complete."""
    packages, folder = packages_of(name), folder_of(name)
    with FileLock(folder.with_name(f".{name}.lock")) as lock:
        lock.acquire()
        if folder.exists():
            raise BadInput(f"there is an environment {name} already: tare env remove {name}")
        _install(packages, folder, notify)
    return folder


def _install(packages: Sequence[str], folder: Path, notify: Callable[[str], None]) -> None:
    unfinished = folder.with_name(f".{folder.name}")
    shutil.rmtree(unfinished, ignore_errors=True)
    try:
        notify(f"installing {', '.join(packages)}: minutes")
        make_layered_environment(unfinished, sys.executable, TIMEOUT_S)
        pip = [str(interpreter(unfinished)), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        run_command([*pip, *packages], unfinished, os.environ, TIMEOUT_S)
    except CandidateFailed as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise TareError(f"cannot make the environment {folder.name}: {error}") from None
    except BaseException:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise
    unfinished.rename(folder)


def list_environments() -> list[dict[str, str]]:
    return [{"name": name, "folder": str(path)} for name, path in environments().items()]


def name_environments(texts: Sequence[str]) -> None:
    """NAME=PATH of each --env."""
    for text in texts:
        name_environment(text)


def remove(name: str) -> Path:
    folder = folder_of(name)
    if name not in environments() or not folder.is_dir():
        raise unknown("environment", name, environments())
    shutil.rmtree(folder)
    return folder
