"""A candidate's workspace: its own virtual environment, its own worktree, or just a folder. Built once and
kept."""

import hashlib
import os
import re
import shutil
import sys
import tomllib
from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import requires
from pathlib import Path
from typing import NamedTuple

import msgspec

import tare
from tare.bisect.candidates import git
from tare.bisect.command import CandidateFailed, command_arguments, fill_placeholders, run_command
from tare.bisect.spec import BisectSpec
from tare.execute.environments import VERSION, environments, installed

# Marks a complete workspace; holds the fingerprint of the tare installed in it.
BUILT = "built"
# The interpreter reads .pth files in alphabetical order: the candidate's own packages come first.
LAYERS = "zz-layers.pth"
PIP = '#!/bin/sh\nexec "$(dirname "$0")/python" -m pip "$@"\n'
PROBE = (
    "import importlib.util, json, site; "
    "print(json.dumps({'packages': site.getsitepackages(), 'pip': importlib.util.find_spec('pip') is not None}))"
)
DISTRIBUTION = "tare-bench"
PACKAGE = Path(tare.__file__).resolve().parent


class Workspace(NamedTuple):
    """`folder` is where the build commands run; `values` fill in a command's placeholders."""

    folder: Path
    values: dict[str, str]
    environment: dict[str, str]

    @property
    def python(self) -> str:
        return self.values["python"]

    def run(self, arguments: Sequence[str], timeout: float) -> str:
        return run_command(arguments, self.folder, self.environment, timeout)

    def packages(self, timeout: float) -> str:
        """What is installed, one package with its version a line."""
        return self.run(
            [self.python, "-m", "pip", "list", "--format=freeze", "--disable-pip-version-check"], timeout
        )


class Workspaces:
    """The workspaces of one bisection under one folder."""

    def __init__(self, spec: BisectSpec, root: Path, notify: Callable[[str], None] = lambda _: None) -> None:
        self._spec, self._root, self._notify = spec, root, notify
        # A layered environment and a shared interpreter already have the running tare.
        needs_tare = spec.uses_tare and spec.has_own_python and not spec.is_layered
        self._tare = tare_fingerprint() if needs_tare else ""

    def get(self, candidate: int) -> Workspace:
        """The candidate's workspace, built now if it does not exist yet; CandidateFailed if it cannot be built."""
        label = self._spec.candidates[candidate].label
        base = self._root / f"{candidate:05d}"
        workspace = self._describe(label, base)
        if not (base / BUILT).exists():
            # A build that was killed leaves an incomplete workspace.
            self._remove(base)
            base.mkdir(parents=True)
            self._notify(f"building {label}")
            self._build(workspace, base)
        elif (base / BUILT).read_text() != self._tare:
            # Candidates measured by different tares would differ by that as well.
            self._notify(f"installing this tare for {label}")
            self._install_tare(workspace, base)
        (base / BUILT).write_text(self._tare)
        return workspace

    def _describe(self, label: str, base: Path) -> Workspace:
        spec = self._spec
        folder = base / "tree" if spec.repo else base
        own = base / "venv"
        python = str(own / "bin" / "python") if spec.has_own_python else spec.python
        values = {"label": label, "dir": str(folder), "python": python}
        environment = {**os.environ, "TARE_LABEL": label}
        if spec.has_own_python:
            path = f"{own / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}"
            environment |= {"VIRTUAL_ENV": str(own), "PATH": path}
            # The caller's own paths would shadow the candidate's packages.
            environment.pop("PYTHONPATH", None)
            environment.pop("PYTHONHOME", None)
        environment |= {name: fill_placeholders(value, values) for name, value in spec.environment.items()}
        return Workspace(folder, values, environment)

    def _build(self, workspace: Workspace, base: Path) -> None:
        spec = self._spec
        if spec.repo:
            tree, label = str(workspace.folder), workspace.values["label"]
            git(Path(spec.repo), "worktree", "add", "--detach", "--force", tree, label)
        if spec.has_own_python:
            make = make_layered_environment if spec.is_layered else make_environment
            make(base / "venv", spec.python, spec.build_timeout)
        if spec.environments_of:
            self._make_environment(f"{spec.environments_of}{VERSION}{workspace.values['label']}", workspace)
        for option, commands in (("--install", spec.install), ("--build", spec.build)):
            for command in commands:
                workspace.run(command_arguments(command, workspace.values, option), spec.build_timeout)
        if self._tare:
            self._install_tare(workspace, base)

    def _make_environment(self, name: str, workspace: Workspace) -> None:
        """What `tare run` finds by this name, unless it is there or its version is the running one."""
        distribution, _, version = name.partition(VERSION)
        if name not in environments() and version != installed(distribution):
            workspace.run([self._spec.python, "-m", "tare", "env", "create", name], self._spec.build_timeout)

    def _install_tare(self, workspace: Workspace, base: Path) -> None:
        """Copies the running tare, which no index need have, and installs those of its requirements that are
        missing. No package that is installed already is changed: those are the candidate."""
        installed = workspace.packages(self._spec.build_timeout)
        constraints = base / "installed.txt"
        constraints.write_text(installed)
        if missing := missing_requirements(installed):
            install = [workspace.python, "-m", "pip", "install", "--quiet", "--constraint", str(constraints)]
            workspace.run([*install, *missing], self._spec.build_timeout)
        for packages in (base / "venv").glob("lib/python*/site-packages"):
            shutil.rmtree(packages / PACKAGE.name, ignore_errors=True)
            shutil.copytree(PACKAGE, packages / PACKAGE.name, ignore=shutil.ignore_patterns("__pycache__"))

    def _remove(self, base: Path) -> None:
        if base.exists():
            shutil.rmtree(base)
        if self._spec.repo:
            git(Path(self._spec.repo), "worktree", "prune")


class _Interpreter(msgspec.Struct):
    """What PROBE prints."""

    packages: list[str]
    pip: bool


def make_environment(folder: Path, python: str, timeout: float, pip: bool = True) -> None:
    """An empty virtual environment."""
    options = [] if pip else ["--without-pip"]
    run_command([python, "-m", "venv", *options, str(folder)], folder.parent, os.environ, timeout)


def make_layered_environment(folder: Path, python: str, timeout: float) -> None:
    """A virtual environment that also sees all packages of `python`, after its own. A candidate's build installs
    into it, and not into the interpreter that all candidates share, and need not install torch."""
    output = run_command([python, "-c", PROBE], folder.parent, os.environ, timeout)
    try:
        interpreter = msgspec.json.decode(output, type=_Interpreter)
    except msgspec.DecodeError:
        raise CandidateFailed(f"{python} does not say where its packages are") from None
    # Installing pip takes seconds, and a pip of the lower layer works as well: it installs where it runs.
    make_environment(folder, python, timeout, pip=not interpreter.pip)
    if interpreter.pip:
        for name in ("pip", "pip3"):
            (folder / "bin" / name).write_text(PIP)
            (folder / "bin" / name).chmod(0o755)
    layers = interpreter.packages
    if python == sys.executable:
        # The running tare may come from a folder that only the caller's path has.
        layers = [str(PACKAGE.parent), *layers]
    # addsitedir instead of the bare paths, so that their own .pth files (editable installations) count as well.
    text = "".join(f"import site; site.addsitedir({layer!r})\n" for layer in layers)
    for packages in folder.glob("lib/python*/site-packages"):
        (packages / LAYERS).write_text(text, encoding="utf-8")


@cache
def tare_fingerprint() -> str:
    """A hash of tare's files, which tells apart two tares of the same version."""
    digest = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*")):
        if path.is_file() and "__pycache__" not in path.parts:
            digest.update(str(path.relative_to(PACKAGE)).encode() + b"\0" + path.read_bytes())
    return digest.hexdigest()[:16]


def missing_requirements(installed: str) -> list[str]:
    """The requirements of tare that an environment does not have in any version, given `pip list --format=freeze`.

    Packages that the user's command installed are what is bisected. They are kept even where tare requires a newer
    one, which pip would otherwise install in their place.
    """
    project = PACKAGE.parents[1] / "pyproject.toml"
    if project.exists():
        requirements: list[str] = tomllib.loads(project.read_text())["project"]["dependencies"]
    else:
        requirements = [line for line in requires(DISTRIBUTION) or [] if "extra ==" not in line]
    present = {_project_name(line) for line in installed.splitlines()}
    return [line for line in requirements if _project_name(line) not in present]


def _project_name(requirement: str) -> str:
    """The normalised name at the beginning of a requirement (PEP 503)."""
    return re.sub(r"[-_.]+", "-", re.split(r"[^A-Za-z0-9._-]", requirement, maxsplit=1)[0]).lower()
