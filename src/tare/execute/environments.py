"""Environments: interpreters besides the running one, in which a framework or another version of one lives.

An environment is a folder with bin/python, made by `tare env create` or named by `--env NAME=PATH`. Rungs of an
environment run in its interpreter, with the running tare; everything else, the reference too, in the running one.
"""

import os
import re
import shutil
from collections.abc import Mapping
from functools import lru_cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from tare.errors import BadInput
from tare.execute.launch import SpawnLauncher
from tare.protocol.messages import Missing
from tare.rungs.registry import environment_name, get_rung
from tare.system.home import home, home_folder

FOLDER = "environments"
# Between a distribution and its version, in the names of environments.
VERSION = "=="
# A path may have the name of an environment in it, and so a version.
NAMED = re.compile(rf"([^=]+(?:{VERSION}[^=]+)?)=(.+)")
# Of --env, for this process.
_named: dict[str, Path] = {}


def name_environment(text: str) -> None:
    """NAME=PATH of --env; the path is the folder of a virtual environment."""
    matched = NAMED.fullmatch(text)
    if matched is None:
        raise BadInput(f"--env takes NAME=PATH, not '{text[:120]}'")
    name, place = matched.groups()
    # Not resolved: the interpreter of a virtual environment is a link out of it.
    path = Path(place).expanduser().absolute()
    if not interpreter(path).is_file():
        raise BadInput(f"--env {name[:80]}: there is no {interpreter(path)}")
    _named[name] = path


def interpreter(folder: Path) -> Path:
    return folder / "bin" / "python"


def environments() -> dict[str, Path]:
    """All that are complete, by name; those of --env win."""
    root = home() / FOLDER
    made = sorted(path for path in root.iterdir() if interpreter(path).is_file()) if root.is_dir() else []
    return {path.name: path for path in made} | _named


def folder_of(name: str) -> Path:
    return home_folder(FOLDER) / name


def find_environment(rung: str) -> Path | None:
    """The environment that a rung runs in; None for the running interpreter. A rung without an @ runs in the
    environment of its framework, if that exists and the running interpreter does not have the framework."""
    distribution = get_rung(rung).distribution
    wanted = environment_name(rung)
    if not wanted and installed(distribution) is not None:
        return None
    known = environments()
    if not wanted:
        return known.get(distribution)
    if wanted in known:
        return known[wanted]
    return None if wanted == installed(distribution) else known.get(f"{distribution}{VERSION}{wanted}")


def find_interpreter(text: str, option: str) -> str:
    """The interpreter that an option names: by its path, as a program of the PATH, or as an environment."""
    if (folder := environments().get(text)) is not None:
        return str(interpreter(folder))
    if (program := shutil.which(text)) is not None:
        return program
    hint = f": tare env create {text}" if VERSION in text else ", and no environment of that name (tare env list)"
    raise BadInput(f"{option}: there is no interpreter '{text[:80]}'{hint}")


def missing_environment(rung: str, name: str) -> Missing | None:
    """Why a rung with an @ cannot run, or None."""
    distribution = get_rung(rung).distribution
    if find_environment(rung) or name == installed(distribution):
        return None
    wanted = f"{distribution}{VERSION}{name}"
    return Missing(f"there is no environment {name} or {wanted}", f"tare env create {wanted}")


def environment_launcher(rung: str, variables: Mapping[str, str] | None = None) -> SpawnLauncher | None:
    """What starts workers in a rung's environment; None where that is the running interpreter."""
    folder = find_environment(rung)
    if folder is None:
        return None
    path = f"{folder / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
    own = {"VIRTUAL_ENV": str(folder), "PATH": path, **(variables or {})}
    return SpawnLauncher((str(interpreter(folder)), "-m", "tare.worker.process"), variables=own)


@lru_cache
def installed(distribution: str) -> str | None:
    """The version in the running interpreter, without what a build adds to it (2.10.0+cpu)."""
    try:
        return version(distribution).partition("+")[0]
    except PackageNotFoundError:
        return None
