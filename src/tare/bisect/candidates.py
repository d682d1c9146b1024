"""The candidates of a bisection in order: versions of a package, commits of a repository, lines of a file."""

import os
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

import msgspec

from tare.bisect.command import CandidateFailed, run_command
from tare.errors import BadInput, unknown
from tare.system.bounded_files import read_bounded

# An error message lists so many names from either end.
LISTED = 10
MAX_LABEL = 200
# Bytes of a file of labels.
LARGEST_LIST = 1 << 20
# Seconds that git and pip may take.
TIMEOUT = 600.0


class Candidate(msgspec.Struct, frozen=True):
    """One version, commit or label; `title` is a commit's subject."""

    label: str
    title: str = ""


def list_versions(
    good: str, bad: str, versions: Sequence[str], install: Sequence[str], python: str
) -> list[Candidate]:
    """Those between good and bad, from the user's list or from the package index."""
    return _between(list(versions) or _index_versions(install, python), good, bad, "version", "--versions")


def read_labels(path: Path, good: str | None, bad: str | None) -> list[Candidate]:
    """The lines of a file, oldest first. Blank lines and comments (#) are skipped."""
    try:
        lines = read_bounded(path, LARGEST_LIST).decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise BadInput(f"cannot read {path}: {error}") from None
    names = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if len(names) < 2:
        raise BadInput(f"a bisection needs two labels, and {path} names {names[0] if names else 'none'}")
    return _between(names, good or names[0], bad or names[-1], "label", str(path))


def list_commits(repo: Path, good: str, bad: str) -> list[Candidate]:
    """The good commit and those after it up to the bad one, along first parents."""
    first, last = _resolve_commit(repo, good, "--good"), _resolve_commit(repo, bad, "--bad")
    if git(repo, "merge-base", first, last).strip() != first:
        raise BadInput(f"the good commit {good} is not an ancestor of the bad one {bad}")
    if first == last:
        raise BadInput(f"{good} and {bad} are the same commit")
    lines = git(repo, "log", "--reverse", "--first-parent", "--format=%H %s", f"{first}..{last}").splitlines()
    parent = git(repo, "log", "-1", "--format=%H %s", f"{lines[0].partition(' ')[0]}^1").strip()
    if not parent.startswith(first):
        # The first-parent commits before the merge do not contain the good commit.
        raise BadInput(
            f"the good commit {good} came in by a merge, and is not on the line of first parents of the bad one "
            f"{bad}: name one that is, such as {parent[:12]}"
        )
    return [Candidate(*line.partition(" ")[::2]) for line in (parent, *lines)]


def git(repo: Path, *args: str) -> str:
    """The output of git; BadInput with its message in one line where it fails."""
    try:
        return run_command(["git", *args], repo, os.environ, TIMEOUT)
    except CandidateFailed as error:
        raise BadInput(f"git {args[0]} in {repo}: {error}") from None


def _resolve_commit(repo: Path, name: str, option: str) -> str:
    if name.startswith("-"):
        raise BadInput(f"{option}: '{name[:60]}' is not a commit")
    # First say so if this is no repository at all.
    git(repo, "rev-parse", "--git-dir")
    try:
        return git(repo, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}").strip()
    except BadInput:
        raise BadInput(f"{option}: there is no commit '{name[:60]}' in {repo}") from None


def _between(names: list[str], good: str, bad: str, noun: str, where: str) -> list[Candidate]:
    for name, count in Counter(names).items():
        if len(name) > MAX_LABEL or not name.isprintable():
            raise BadInput(f"{where}: '{name[:60]}' is not a {noun}")
        if count > 1:
            raise BadInput(f"{where} names {name} twice")
    for name in (good, bad):
        if name not in names:
            shown = names
            if len(names) > 2 * LISTED:
                shown = [*names[:LISTED], f"... {len(names) - 2 * LISTED} more ...", *names[-LISTED:]]
            raise unknown(noun, name, names, where, ", ".join(shown))
    first, last = names.index(good), names.index(bad)
    if first >= last:
        raise BadInput(f"the good {noun} {good} must come before the bad one {bad} in {where}")
    return [Candidate(name) for name in names[first : last + 1]]


def _index_versions(install: Sequence[str], python: str) -> list[str]:
    """Asks `pip index`, which pip calls experimental: where it fails, the user names the versions."""
    package = re.search(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==\{(?:label)?\}", " ".join(install))
    if not package:
        raise BadInput(
            "name the versions with --versions a,b,c: --install does not say of which package ('NAME=={}')"
        )
    name = package.group(1)
    command = [python, "-m", "pip", "index", "versions", "--disable-pip-version-check", name]
    try:
        output = run_command(command, Path.cwd(), os.environ, TIMEOUT)
    except CandidateFailed as error:
        raise BadInput(f"cannot list the versions of {name} ({error}); name them with --versions a,b,c") from None
    listed = re.search(r"^Available versions:(.*)$", output, re.MULTILINE)
    if listed is None:
        raise BadInput(f"pip lists no versions of {name}; name them with --versions a,b,c")
    # pip lists the newest first.
    return [part.strip() for part in listed[1].split(",")][::-1]
