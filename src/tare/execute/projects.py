"""The user's project: which state of it the records of a plan belong to."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path

from tare.cases.case import Case
from tare.cases.source import ModelSource
from tare.system.repository import Repository, read_repository
from tare.workloads.own.registry import own_source


def read_projects(
    cases: Iterable[Case], find_source: Callable[[str], ModelSource | None] = own_source
) -> dict[str, Repository]:
    """By the name of a workload, the repository that holds the user's model, or else the current folder. It is
    read before anything is measured, while the user's files are those that will be measured."""
    projects: dict[str, Repository] = {}
    repositories: dict[Path, Repository | None] = {}
    # A folder can be deleted while a shell is in it.
    with suppress(OSError):
        for workload in dict.fromkeys(case.workload for case in cases):
            path = _model_file(find_source(workload)) or Path.cwd()
            if path not in repositories:
                repositories[path] = read_repository(path)
            if repository := repositories[path]:
                projects[workload] = repository
    return projects


def _model_file(source: ModelSource | None) -> Path | None:
    """The file of a user's model. Names that a package knows are no absolute paths."""
    path = Path(source.location) if source else None
    return path if path and path.is_absolute() and path.is_file() else None
