"""From what the command line says to a spec; a combination that makes no sense is refused in one line."""

import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import get_args

from tare.bisect.candidates import commits
from tare.bisect.candidates import labels as read_labels
from tare.bisect.candidates import versions as list_versions
from tare.bisect.spec import Candidate, Kind, Reading, Spec, vector
from tare.cases.case import Case
from tare.errors import BadInput, unknown
from tare.guard.metrics import get_metric
from tare.guard.variables import parse_variables

EXAMPLE = {"label": "x", "dir": "x", "python": "x"}


@dataclass(frozen=True, kw_only=True)
class Asked:
    """What the options of `tare bisect` say, unchecked."""

    case: str | None = None
    command: str | None = None
    good: str | None = None
    bad: str | None = None
    install: Sequence[str] = ()
    versions: Sequence[str] = ()
    repo: Path | None = None
    build: Sequence[str] = ()
    labels: Path | None = None
    reading: str | None = None
    metric: str | None = None
    environment: Sequence[str] = ()
    python: str | None = None
    budget: float | None = None
    timeout: float = 900.0


def make_spec(asked: Asked) -> Spec:
    if (asked.case is None) == (asked.command is None):
        raise BadInput("say what to measure: --case KEY or --command '...', one of the two")
    if asked.case is not None:
        Case.parse(asked.case)
        if asked.reading is not None:
            raise BadInput("--measure says what of a --command is measured; of a --case, --metric does")
    elif asked.metric is not None or asked.budget is not None:
        name = "--metric" if asked.metric is not None else "--budget"
        raise BadInput(f"{name} is for --case: a --command measures what it measures, for as long as it likes")
    metric, budget = get_metric(asked.metric or "gross").name, 4.0 if asked.budget is None else asked.budget
    if asked.reading not in (None, *get_args(Reading)):
        raise unknown("--measure", asked.reading, get_args(Reading))
    for name, value in (("--budget", budget), ("--timeout", asked.timeout)):
        if not 0 < value <= 604_800:
            raise BadInput(f"{name} takes seconds above 0, not {value}")
    commands = [asked.command] if asked.command is not None else []
    for option, texts in (("--command", commands), ("--install", asked.install), ("--build", asked.build)):
        for text in texts:
            # Refused now and not in the middle of a night.
            vector(text, EXAMPLE, option)
    interpreter = _interpreter(asked.python)
    kind, candidates = _candidates(asked, interpreter)
    return Spec(
        kind=kind,
        candidates=candidates,
        repo=str(asked.repo.resolve()) if asked.repo else None,
        folder=str(Path.cwd()) if asked.command and not asked.repo else None,
        install=list(asked.install),
        build=list(asked.build),
        command=asked.command,
        case=asked.case,
        metric=metric,
        reading="wall" if asked.reading == "wall" else "output",
        environment=parse_variables(asked.environment, "--env"),
        python=interpreter,
        budget=budget,
        timeout=asked.timeout,
    )


def _candidates(asked: Asked, python: str) -> tuple[Kind, list[Candidate]]:
    repo, labels, good, bad = asked.repo, asked.labels, asked.good, asked.bad
    if repo is not None and labels is not None:
        raise BadInput("--repo and --labels are two ways to name candidates; give one")
    if asked.build and repo is None:
        raise BadInput("--build is for --repo; a version is made by --install")
    if asked.versions and (repo is not None or labels is not None):
        raise BadInput("--versions goes with --install, not with --repo or --labels")
    if labels is not None:
        return "labels", read_labels(labels, good, bad)
    if good is None or bad is None:
        raise BadInput("name both ends: --good and --bad")
    if repo is not None:
        if not repo.is_dir():
            raise BadInput(f"there is no folder {repo}")
        return "commits", commits(repo, good, bad)
    if not asked.install:
        raise BadInput(
            "say how a version is installed: --install 'pip install NAME=={}' (or name --repo or --labels)"
        )
    return "versions", list_versions(good, bad, asked.versions, asked.install, python)


def _interpreter(python: str | None) -> str:
    if python is None:
        return sys.executable
    found = shutil.which(python)
    if found is None:
        raise BadInput(f"--python: there is no interpreter '{python[:80]}'")
    return found
