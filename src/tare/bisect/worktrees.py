"""Where a candidate lives: its own virtual environment, its own worktree, or just a folder. Built once, kept."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tare.bisect.candidates import git
from tare.bisect.environments import make_environment, make_layered_environment
from tare.bisect.process import CannotRun, run_vector
from tare.bisect.spec import Spec, fill, vector
from tare.bisect.this_tare import still_needed, tare_mark, this_tare

READY = "built"


class Place(NamedTuple):
    """`folder` is where what builds it runs; `values` fill in a command's placeholders."""

    folder: Path
    values: dict[str, str]
    environment: dict[str, str]

    @property
    def python(self) -> str:
        return self.values["python"]


class Places:
    """The places of one bisection under one folder."""

    def __init__(self, spec: Spec, root: Path, tell: Callable[[str], None] = lambda _: None) -> None:
        self._spec, self._root, self._tell = spec, root, tell
        # A layered environment, and an interpreter that all share, have the tare that runs.
        brings_tare = spec.case and spec.has_own_python and not spec.is_layered
        self._tare = tare_mark() if brings_tare else ""

    def get(self, candidate: int) -> Place:
        """The candidate's place, built now if it is not there yet; CannotRun where it cannot be built."""
        label = self._spec.candidates[candidate].label
        base = self._root / f"{candidate:05d}"
        place = self._describe(label, base)
        if not (base / READY).exists():
            # What an earlier, killed build has left may be half a place.
            self._remove(base)
            base.mkdir(parents=True)
            self._tell(f"building {label}")
            self._build(place, base)
            (base / READY).write_text(self._tare)
        elif (base / READY).read_text() != self._tare:
            # Candidates measured by different tares would differ by that as well.
            self._tell(f"bringing this tare to {label}")
            self._install_tare(place, base)
            (base / READY).write_text(self._tare)
        return place

    def _describe(self, label: str, base: Path) -> Place:
        folder = base / "tree" if self._spec.repo else base
        own = base / "venv"
        python = str(own / "bin" / "python") if self._spec.has_own_python else self._spec.python
        values = {"label": label, "dir": str(folder), "python": python}
        environment = {**os.environ, "TARE_LABEL": label}
        if self._spec.has_own_python:
            environment |= {
                "VIRTUAL_ENV": str(own),
                "PATH": f"{own / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}",
            }
            # The caller's own paths would shadow what is installed for the candidate.
            environment.pop("PYTHONPATH", None)
            environment.pop("PYTHONHOME", None)
        environment |= {name: fill(value, values) for name, value in self._spec.environment.items()}
        return Place(folder, values, environment)

    def _build(self, place: Place, base: Path) -> None:
        spec = self._spec
        if spec.repo:
            git(
                Path(spec.repo), "worktree", "add", "--detach", "--force", str(place.folder), place.values["label"]
            )
        if spec.has_own_python:
            make = make_layered_environment if spec.is_layered else make_environment
            make(base / "venv", spec.python, spec.build_timeout)
        for option, commands in (("--install", spec.install), ("--build", spec.build)):
            for command in commands:
                self._run(vector(command, place.values, option), place)
        if self._tare:
            self._install_tare(place, base)

    def _install_tare(self, place: Place, base: Path) -> None:
        """Nothing that is there already changes: it is the candidate."""
        pip = [place.python, "-m", "pip"]
        there = self._run([*pip, "list", "--format=freeze", "--disable-pip-version-check"], place)
        kept = base / "installed.txt"
        kept.write_text(there)
        if needed := still_needed(there):
            self._run([*pip, "install", "--quiet", "--constraint", str(kept), *needed], place)
        self._run([*pip, "install", "--quiet", "--no-deps", "--force-reinstall", this_tare(base)], place)

    def _run(self, command: list[str], place: Place) -> str:
        # Looked up on the candidate's own path, so that `pip` is the pip of its environment.
        found = shutil.which(command[0], path=place.environment.get("PATH"))
        vector_ = [found or command[0], *command[1:]]
        return run_vector(vector_, place.folder, place.environment, self._spec.build_timeout).output

    def _remove(self, base: Path) -> None:
        if base.exists():
            shutil.rmtree(base)
        if self._spec.repo:
            git(Path(self._spec.repo), "worktree", "prune")


__all__ = ["CannotRun", "Place", "Places"]
