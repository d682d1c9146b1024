"""What a bisection measures: checked options, and a user's command as a list of arguments."""

import hashlib
import re
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal, get_args

import msgspec

from tare.cases.case import Case
from tare.errors import BadInput, unknown
from tare.guard.metrics import get_metric

Kind = Literal["versions", "commits", "labels"]
# How a command's figure is read: from the last line that it prints, or from its wall time.
Reading = Literal["output", "wall"]

BUDGET, TIMEOUT, MAX_SECONDS = 4.0, 900.0, 604_800.0


class Candidate(msgspec.Struct, frozen=True):
    """One version, commit or label; `title` is a commit's subject."""

    label: str
    title: str = ""


class BisectSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that decides what is measured. Bisections with equal specs share their journal and workspaces."""

    kind: Kind
    candidates: list[Candidate]
    repo: str | None = None
    # The folder in which the measuring command runs, so that its relative paths mean what they mean to the user.
    # With a repository it is each candidate's worktree.
    folder: str | None = None
    install: list[str] = []
    build: list[str] = []
    command: str | None = None
    case: str | None = None
    metric: str = "gross"
    reading: Reading = "output"
    environment: dict[str, str] = {}
    python: str
    budget: float = BUDGET
    timeout: float = TIMEOUT
    build_timeout: float = 7200.0

    @property
    def fingerprint(self) -> str:
        return hashlib.sha256(msgspec.json.encode(self, order="sorted")).hexdigest()[:12]

    @property
    def last(self) -> int:
        return len(self.candidates) - 1

    @property
    def has_own_python(self) -> bool:
        """Whether each candidate has a virtual environment, so that what its --install or --build installs does
        not reach the next candidate."""
        return bool(self.install or self.build)

    @property
    def is_layered(self) -> bool:
        """Whether that environment sees the packages of the interpreter: a build only adds the repository's."""
        return not self.install


def make_spec(
    *,
    case: str | None = None,
    command: str | None = None,
    good: str | None = None,
    bad: str | None = None,
    install: Sequence[str] = (),
    versions: Sequence[str] = (),
    repo: Path | None = None,
    build: Sequence[str] = (),
    labels: Path | None = None,
    reading: str | None = None,
    metric: str | None = None,
    environment: Mapping[str, str] | None = None,
    python: str | None = None,
    budget: float | None = None,
    timeout: float = TIMEOUT,
) -> BisectSpec:
    """Checks the options of `tare bisect`; BadInput for a combination that makes no sense."""
    if (case is None) == (command is None):
        raise BadInput("say what to measure: --case KEY or --command '...', one of the two")
    if case is not None:
        Case.parse(case)
        if reading is not None:
            raise BadInput("--measure is for --command; for a --case use --metric")
    elif metric is not None or budget is not None:
        name = "--metric" if metric is not None else "--budget"
        raise BadInput(f"{name} is for --case: a --command decides itself what it measures, and how long")
    metric = get_metric(metric or "gross").name
    if reading not in (None, *get_args(Reading)):
        raise unknown("--measure", reading, get_args(Reading))
    for name, value in (("--budget", budget), ("--timeout", timeout)):
        if value is not None and not 0 < value <= MAX_SECONDS:
            raise BadInput(f"{name} takes seconds above 0, not {value}")
    commands = [command] if command is not None else []
    for option, templates in (("--command", commands), ("--install", install), ("--build", build)):
        for template in templates:
            # A command that cannot be split is refused now and not in the middle of the night.
            command_arguments(template, {"label": "x", "dir": "x", "python": "x"}, option)
    interpreter = shutil.which(python) if python else sys.executable
    if interpreter is None:
        raise BadInput(f"--python: there is no interpreter '{(python or '')[:80]}'")
    kind, candidates = _candidates(good, bad, install, versions, repo, build, labels, interpreter)
    return BisectSpec(
        kind=kind,
        candidates=candidates,
        repo=str(repo.resolve()) if repo else None,
        folder=str(Path.cwd()) if command and not repo else None,
        install=list(install),
        build=list(build),
        command=command,
        case=case,
        metric=metric,
        reading="wall" if reading == "wall" else "output",
        environment=dict(environment or {}),
        python=interpreter,
        budget=BUDGET if budget is None else budget,
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
    from tare.bisect.candidates import list_commits, list_versions, read_labels

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
        return "commits", list_commits(repo, good, bad)
    if not install:
        raise BadInput(
            "say how a version is installed: --install 'pip install NAME=={}' (or name --repo or --labels)"
        )
    return "versions", list_versions(good, bad, versions, install, python)


def command_arguments(template: str, values: Mapping[str, str], option: str) -> list[str]:
    """Splits a command as a shell would, and only then fills in each argument: nothing in a label can become a
    second argument or a second command."""
    try:
        parts = shlex.split(template)
    except ValueError as error:
        raise BadInput(f"{option} '{template[:80]}' cannot be split into arguments: {error}") from None
    if not parts:
        raise BadInput(f"{option} is empty")
    return [fill_placeholders(part, values) for part in parts]


def fill_placeholders(text: str, values: Mapping[str, str]) -> str:
    """{} and {label} are the candidate, {dir} its folder, {python} its interpreter; other braces are kept."""
    # One pass over the text: a label that looks like a placeholder is not filled in again.
    placeholders = {"{" + name + "}": value for name, value in {"": values["label"], **values}.items()}
    pattern = re.compile("|".join(map(re.escape, placeholders)))
    return pattern.sub(lambda match: placeholders[match[0]], text)
