"""The git repository of a user's project: its commit, its branch, and whether it has changes.

A repository may come from anywhere, and its configuration can name programs that git runs: monitors, hooks,
filters, helpers of a remote. None of them is run here. The address of a remote is not read.
"""

import os
import re
import subprocess
from collections.abc import Sequence
from pathlib import Path
from threading import Timer
from typing import Annotated

import msgspec

from tare.system.processes import kill_group
from tare.system.redaction import redact

TIMEOUT_S = 10.0
# Of git's output. A commit and a branch are shorter, and one changed file is enough.
MOST_BYTES = 1 << 16
LONGEST_BRANCH = 255
SHORT = 10
# The variables by which a hook of git points to its own repository. Here the path decides.
REDIRECTIONS = (
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_NAMESPACE", "GIT_PREFIX",
    "GIT_OBJECT_DIRECTORY", "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_SHALLOW_FILE",
)  # fmt: skip
# No missing object of a partial clone is fetched: older versions of git obey the list of protocols alone.
NO_FETCH = {"GIT_NO_LAZY_FETCH": "1", "GIT_ALLOW_PROTOCOL": "none", "GIT_TERMINAL_PROMPT": "0"}
# The configuration of the user and of the system stays: it says which repositories of others are safe.
NO_PROGRAMS = ("--no-pager", "--no-optional-locks", "--literal-pathspecs", "-c", "core.fsmonitor=false",
               "-c", f"core.hooksPath={os.devnull}")  # fmt: skip
# Status asks nothing of the submodules but which commits they are at: each has a configuration of its own.
STATUS = ("status", "--porcelain", "--untracked-files=no", "--ignore-submodules=dirty", "--no-renames")
FILTER = r"filter\..*\.(clean|smudge|process|required)"

Commit = Annotated[str, msgspec.Meta(pattern=r"^[0-9a-f]{40}([0-9a-f]{24})?\Z")]
Branch = Annotated[str, msgspec.Meta(max_length=LONGEST_BRANCH)]


class Repository(msgspec.Struct, frozen=True, kw_only=True):
    """`branch` is empty for a detached HEAD. `dirty` says whether what was measured may differ from the commit; it
    is None where git could not tell in time."""

    commit: Commit
    branch: Branch = ""
    dirty: bool | None = None

    def __post_init__(self) -> None:
        # A file of another machine may hold any text.
        shown = "".join(character for character in redact(self.branch) if character.isprintable())
        msgspec.structs.force_setattr(self, "branch", shown[:LONGEST_BRANCH])

    def __str__(self) -> str:
        """The short commit, a plus for changes, and the branch."""
        changes = {True: "+", False: "", None: "?"}[self.dirty]
        return f"{self.commit[:SHORT]}{changes}" + (f" ({self.branch})" if self.branch else "")


def read_repository(path: Path) -> Repository | None:
    """The repository that holds a file or a folder; None where there is none, where it has no commit, or without
    git. Changes are those of tracked files, and a file that is not tracked itself."""
    try:
        path = path.resolve()
        folder = path if path.is_dir() else path.parent
    except (OSError, RuntimeError):
        return None
    head = _git(folder, "rev-parse", "--verify", "HEAD")
    try:
        commit = msgspec.convert((head or "").strip(), Commit)
    except msgspec.ValidationError:
        return None
    branch = (_git(folder, "symbolic-ref", "--quiet", "--short", "HEAD") or "").strip()
    return Repository(commit=commit, branch=branch[:LONGEST_BRANCH], dirty=_is_dirty(folder, path))


def _is_dirty(folder: Path, path: Path) -> bool | None:
    tracked = _git(folder, "ls-files", "-z", "--", path.name) if path != folder else "a folder"
    filters = _filters(folder)
    if tracked is None or filters is None:
        return None
    if not tracked:
        return True
    # Without their filters, files that git has to read again seem changed: rather that than running the filters.
    disabled = [f"{name}={'false' if name.endswith('required') else ''}" for name in filters]
    changes = _git(folder, *STATUS, options=[part for setting in disabled for part in ("-c", setting)])
    return None if changes is None else bool(changes)


def _filters(folder: Path) -> list[str] | None:
    """The settings that make git run a program on the content of files, whose names a repository can choose. None
    if one cannot be overridden."""
    listed = _git(folder, "config", "--list", "--name-only", "-z")
    if listed is None or len(listed) >= MOST_BYTES:
        return None
    names = [name for name in listed.split("\0") if re.fullmatch(FILTER, name, re.DOTALL)]
    return None if any("=" in name for name in names) else names


def _git(folder: Path, *arguments: str, options: Sequence[str] = ()) -> str | None:
    """What git prints, up to a bound; None where it fails or takes too long."""
    environment = {name: value for name, value in os.environ.items() if name not in REDIRECTIONS}
    command = ["git", *NO_PROGRAMS, *options, "-C", str(folder), *arguments]
    try:
        process = subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL,
            env={**environment, **NO_FETCH, "LC_ALL": "C"}, start_new_session=True,
        )  # fmt: skip
    except OSError:
        return None
    timer = Timer(TIMEOUT_S, kill_group, (process.pid,))
    timer.start()
    with process:
        try:
            assert process.stdout is not None
            output = process.stdout.read(MOST_BYTES)
            if len(output) == MOST_BYTES:
                # The rest is not needed.
                kill_group(process.pid)
                return output.decode(errors="replace")
            return output.decode(errors="replace") if process.wait() == 0 else None
        finally:
            timer.cancel()
            if process.poll() is None:
                kill_group(process.pid)
