"""From what the command line says to a spec; a combination that makes no sense is refused in one line."""

import re
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from tare.cases.case import Case
from tare.errors import BadInput, unknown
from tare.guard.bisect.candidates import commits
from tare.guard.bisect.candidates import labels as read_labels
from tare.guard.bisect.candidates import versions as list_versions
from tare.guard.bisect.spec import Candidate, Kind, Reading, Spec, vector
from tare.guard.metrics import get_metric

EXAMPLE = {"label": "x", "dir": "x", "python": "x"}


def make_spec(
    *,
    case: str | None,
    command: str | None,
    good: str | None,
    bad: str | None,
    install: Sequence[str],
    versions: Sequence[str],
    repo: Path | None,
    build: Sequence[str],
    labels: Path | None,
    reading: str,
    metric: str,
    environment: Sequence[str],
    python: str | None,
    budget: float,
    timeout: float,
) -> Spec:
    if (case is None) == (command is None):
        raise BadInput("say what to measure: --case KEY or --command '...', one of the two")
    if case is not None:
        Case.parse(case)
    get_metric(metric)
    if reading not in get_args(Reading):
        raise unknown("--measure", reading, get_args(Reading))
    for name, value in (("--budget", budget), ("--timeout", timeout)):
        if not 0 < value <= 604_800:
            raise BadInput(f"{name} takes seconds above 0, not {value}")
    for option, texts in (("--command", [command] if command else []), ("--install", install), ("--build", build)):
        for text in texts:
            # Refused now and not in the middle of a night.
            vector(text, EXAMPLE, option)
    interpreter = _interpreter(python)
    kind, candidates = _candidates(good, bad, install, versions, repo, build, labels, interpreter)
    return Spec(
        kind=kind,
        candidates=candidates,
        repo=str(repo.resolve()) if repo else None,
        install=list(install),
        build=list(build),
        command=command,
        case=case,
        metric=metric,
        reading="wall" if reading == "wall" else "output",
        environment=_variables(environment),
        python=interpreter,
        budget=budget,
        timeout=timeout,
    )


def _candidates(
    good: str | None,
    bad: str | None,
    install: Sequence[str],
    versions: Sequence[str],
    repo: Path | None,
    build: Sequence[str],
    labels: Path | None,
    python: str,
) -> tuple[Kind, list[Candidate]]:
    if repo is not None and labels is not None:
        raise BadInput("--repo and --labels are two ways to name candidates; give one")
    if build and repo is None:
        raise BadInput("--build is for --repo; a version is made by --install")
    if versions and (repo is not None or labels is not None):
        raise BadInput("--versions goes with --install, not with --repo or --labels")
    if labels is not None:
        return "labels", read_labels(labels, good, bad)
    if good is None or bad is None:
        raise BadInput("name both ends: --good and --bad")
    if repo is not None:
        if not repo.is_dir():
            raise BadInput(f"there is no folder {repo}")
        return "commits", commits(repo, good, bad)
    if not install:
        raise BadInput(
            "say how a version is installed: --install 'pip install NAME=={}' (or name --repo or --labels)"
        )
    return "versions", list_versions(good, bad, versions, install, python)


def _interpreter(python: str | None) -> str:
    if python is None:
        return sys.executable
    found = shutil.which(python)
    if found is None:
        raise BadInput(f"--python: there is no interpreter '{python[:80]}'")
    return found


def _variables(pairs: Sequence[str]) -> dict[str, str]:
    found = {}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals or not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
            raise BadInput(f"--env takes NAME=VALUE, not '{pair[:60]}'")
        found[name] = value
    return found
