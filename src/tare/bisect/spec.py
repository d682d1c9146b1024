"""What a bisection measures: the checked options of `tare bisect`."""

import hashlib
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import msgspec

from tare.bisect.candidates import Candidate, list_commits, list_versions, read_labels
from tare.bisect.command import command_arguments
from tare.cases.case import Case
from tare.errors import BadInput, unknown
from tare.execute.environments import find_interpreter
from tare.guard.metrics import get_metric
from tare.rungs import get_rung
from tare.system.variables import compared_variables, shown_arguments, shown_variables

# How a command's figure is read: from the last line that it prints, or from its wall time.
Reading = Literal["output", "wall"]

# Stands for the label of a candidate.
PLACEHOLDER = "{}"
MAX_SECONDS = 604_800.0


class BisectSpec(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that decides what is measured. Bisections with equal specs share their journal and workspaces."""

    candidates: list[Candidate]
    repo: str | None = None
    # The folder in which the measuring command runs, so that its relative paths mean what they mean to the user.
    # With a repository it is a folder of each candidate's worktree.
    folder: str | None = None
    install: list[str] = []
    build: list[str] = []
    command: str | None = None
    case: str | None = None
    # Or the arguments of `tare run` that name one case: a workload or a model of the user, with its options.
    target: list[str] = []
    # The distribution whose versions the candidates are, each in an environment of tare (`--rung RUNG@{}`).
    environments_of: str = ""
    metric: str = "gross"
    reading: Reading = "output"
    environment: dict[str, str] = {}
    python: str
    budget: float = 4.0
    timeout: float = 900.0
    build_timeout: float = 7200.0

    @property
    def fingerprint(self) -> str:
        """A secret counts by its name alone: a token that was renewed makes no other bisection."""
        compared = self._without_secrets(compared_variables(self.environment))
        return hashlib.sha256(msgspec.json.encode(compared, order="sorted")).hexdigest()[:12]

    def as_shown(self) -> "BisectSpec":
        """The spec as a journal or a report may hold it."""
        return self._without_secrets(shown_variables(self.environment))

    def _without_secrets(self, environment: dict[str, str]) -> "BisectSpec":
        return msgspec.structs.replace(
            self,
            environment=environment,
            install=list(map(_shown_command, self.install)),
            build=list(map(_shown_command, self.build)),
            command=_shown_command(self.command) if self.command else None,
        )

    @property
    def last(self) -> int:
        return len(self.candidates) - 1

    @property
    def is_count(self) -> bool:
        """Whether the figure is equal in every run of a candidate."""
        return self.uses_tare and get_metric(self.metric).exact

    @property
    def uses_tare(self) -> bool:
        """Whether each candidate is measured by tare itself, rather than by a command."""
        return self.command is None

    @property
    def has_own_python(self) -> bool:
        """Whether each candidate has a virtual environment, so that what its --install or --build installs does
        not reach the next candidate."""
        return bool(self.install or self.build)

    @property
    def is_layered(self) -> bool:
        """Whether that environment sees the packages of the interpreter: a build only adds the repository's."""
        return not self.install


def _shown_command(template: str) -> str:
    return shlex.join(shown_arguments(shlex.split(template)))


def make_spec(
    *,
    good: str | None = None,
    bad: str | None = None,
    versions: Sequence[str] = (),
    labels: Path | None = None,
    repo: Path | None = None,
    python: str | None = None,
    **settings: Any,
) -> BisectSpec:
    """The spec of `tare bisect`'s options; BadInput for a combination that makes no sense. `settings` are fields
    of the spec; None stands for the default."""
    settings = {name: value for name, value in settings.items() if value is not None}
    _check_settings(settings)
    interpreter = find_interpreter(python, "--python") if python else sys.executable
    distribution = _distribution_of(settings.get("target", []))
    install, build = settings.get("install", []), settings.get("build", [])
    if repo is not None and labels is not None:
        raise BadInput("--repo and --labels are two ways to name candidates; give one")
    if build and repo is None:
        raise BadInput("--build is for --repo; a version is made by --install")
    if versions and (repo is not None or labels is not None):
        raise BadInput("--versions goes with --install, not with --repo or --labels")
    if distribution and (install or repo is not None or labels is not None):
        raise BadInput("a rung @{} takes versions: give --good, --bad and --versions alone")
    if labels is not None:
        candidates = read_labels(labels, good, bad)
    elif good is None or bad is None:
        raise BadInput("name both ends: --good and --bad")
    elif repo is not None:
        if not repo.is_dir():
            raise BadInput(f"there is no folder {repo}")
        candidates = list_commits(repo, good, bad)
    elif distribution:
        candidates = list_versions(good, bad, versions, [f"{distribution}=={{}}"], interpreter)
    elif not install:
        raise BadInput(
            "say how a version is installed: --install 'pip install NAME=={}' (or name --repo or --labels)"
        )
    else:
        candidates = list_versions(good, bad, versions, install, interpreter)
    return BisectSpec(
        candidates=candidates,
        repo=str(repo.resolve()) if repo else None,
        folder=_measuring_folder(repo, settings),
        python=interpreter,
        environments_of=distribution,
        **settings,
    )


def _distribution_of(target: Sequence[str]) -> str:
    """The distribution of the rung whose version is a placeholder; nothing where there is none."""
    versioned = [text for text in target if text.endswith(f"@{PLACEHOLDER}")]
    return get_rung(versioned[0]).distribution if versioned else ""


def _measuring_folder(repo: Path | None, settings: dict[str, Any]) -> str | None:
    """The current folder; for a file of the user, its path inside the repository. A command runs at the root of a
    worktree, and a case needs no folder."""
    if repo is None:
        return None if "case" in settings else str(Path.cwd())
    here, root = Path.cwd().resolve(), repo.resolve()
    return str(here.relative_to(root)) if "target" in settings and here.is_relative_to(root) else None


def _check_settings(settings: dict[str, Any]) -> None:
    if not settings.get("target"):
        settings.pop("target", None)
    if sum(name in settings for name in ("case", "command", "target")) != 1:
        raise BadInput(
            "say what to measure: a WORKLOAD or FILE.py::NAME, --case KEY, or --command '...', one of them"
        )
    if "case" in settings:
        Case.parse(settings["case"])
    if "reading" in settings and "command" not in settings:
        raise BadInput("--measure is for --command; for a case use --metric")
    for name in ("metric", "budget"):
        if name in settings and "command" in settings:
            raise BadInput(f"--{name} is for --case: a --command decides itself what it measures, and how long")
    get_metric(settings.get("metric", "gross"))
    if settings.get("reading", "output") not in get_args(Reading):
        raise unknown("--measure", settings["reading"], get_args(Reading))
    for name in ("budget", "timeout"):
        if not 0 < settings.get(name, 1) <= MAX_SECONDS:
            raise BadInput(f"--{name} takes seconds above 0, not {settings[name]}")
    commands = [("command", settings["command"])] if "command" in settings else []
    commands += [(name, template) for name in ("install", "build") for template in settings.get(name, [])]
    for name, template in commands:
        # A command that cannot be split is refused now and not in the middle of the night.
        command_arguments(template, {"label": "x", "dir": "x", "python": "x"}, f"--{name}")
