"""The candidates of a bisection in order: versions of a package, commits of a repository, lines of a file."""

import re
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tare.bisect.spec import Candidate
from tare.errors import BadInput, unknown

# So many from either end are listed where a name is not among them.
LISTED = 10
LONGEST_LABEL = 200


def versions(good: str, bad: str, listed: Sequence[str], install: Sequence[str], python: str) -> list[Candidate]:
    """Those between good and bad, from the user's list or from the package index."""
    names = list(listed) or _index(install, python)
    return _between(names, good, bad, "version", "--versions")


def labels(path: Path, good: str | None, bad: str | None) -> list[Candidate]:
    """The lines of a file, oldest first; blank lines and those that begin with # are left out."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise BadInput(f"cannot read {path}: {getattr(error, 'strerror', None) or error}") from None
    names = [line.strip() for line in lines if line.strip() and not line.lstrip().startswith("#")]
    if len(names) < 2:
        raise BadInput(f"a bisection needs two labels, and {path} names {names[0] if names else 'none'}")
    return _between(names, good or names[0], bad or names[-1], "label", str(path))


def commits(repo: Path, good: str, bad: str) -> list[Candidate]:
    """The good commit and those after it up to the bad one, along first parents: one line of history."""
    first, last = _commit(repo, good, "--good"), _commit(repo, bad, "--bad")
    if git(repo, "merge-base", first, last).strip() != first:
        raise BadInput(f"the good commit {good} is not an ancestor of the bad one {bad}")
    listed = git(repo, "log", "--reverse", "--first-parent", "--format=%H %s", f"{first}..{last}").splitlines()
    found = [Candidate(*_split(line)) for line in listed]
    if not found:
        raise BadInput(f"{good} and {bad} are the same commit")
    before = git(repo, "rev-parse", f"{found[0].label}^1").strip()
    if before != first:
        # The commits of this line that are older than the merge do not hold what the good one has.
        raise BadInput(
            f"the good commit {good} came in by a merge, and is not on the line of first parents of the bad one "
            f"{bad}: name one that is, such as {before[:12]}"
        )
    return [Candidate(*_split(git(repo, "log", "-1", "--format=%H %s", first).strip())), *found]


def git(repo: Path, *args: str) -> str:
    """What git says; its own words in one line where it fails."""
    try:
        done = subprocess.run(["git", "-C", str(repo), *args], capture_output=True, text=True, errors="replace")
    except OSError as error:
        raise BadInput(f"cannot run git: {error.strerror}") from None
    if done.returncode:
        raise BadInput(f"git {args[0]} in {repo}: {' '.join(done.stderr.split())[:300] or 'failed'}")
    return done.stdout


def _commit(repo: Path, name: str, option: str) -> str:
    if name.startswith("-"):
        raise BadInput(f"{option}: '{name[:60]}' is not a commit")
    try:
        return git(repo, "rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}").strip()
    except BadInput:
        git(repo, "rev-parse", "--git-dir")
        raise BadInput(f"{option}: there is no commit '{name[:60]}' in {repo}") from None


def _split(line: str) -> tuple[str, str]:
    sha, _, subject = line.partition(" ")
    return sha, subject


def _between(names: list[str], good: str, bad: str, what: str, where: str) -> list[Candidate]:
    for name in names:
        if len(name) > LONGEST_LABEL or not name.isprintable():
            raise BadInput(f"{where}: '{name[:60]}' is not a {what}")
    twice = {name for name in names if names.count(name) > 1}
    if twice:
        raise BadInput(f"{where} names {min(twice)} twice")
    for name in (good, bad):
        if name not in names:
            raise unknown(what, name, names, where, _listed(names))
    first, last = names.index(good), names.index(bad)
    if first >= last:
        raise BadInput(f"the good {what} {good} must come before the bad one {bad} in {where}")
    return [Candidate(name) for name in names[first : last + 1]]


def _listed(names: Sequence[str]) -> str:
    """In their own order, which is the one that matters here; of many, both ends."""
    if len(names) <= 2 * LISTED:
        return ", ".join(names)
    left_out = len(names) - 2 * LISTED
    return ", ".join([*names[:LISTED], f"... {left_out} more ...", *names[-LISTED:]])


def _index(install: Sequence[str], python: str) -> list[str]:
    """Asks pip, which calls this command experimental: where it fails, the user names the versions."""
    found = re.search(r"([A-Za-z0-9][A-Za-z0-9._-]*)(?:\[[^\]]*\])?==\{(?:label)?\}", " ".join(install))
    if not found:
        raise BadInput(
            "name the versions with --versions a,b,c: --install does not say of which package ('NAME=={}')"
        )
    name = found.group(1)
    asked = [python, "-m", "pip", "index", "versions", "--disable-pip-version-check", name]
    try:
        done = subprocess.run(asked, capture_output=True, text=True, timeout=120)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise BadInput(f"cannot list the versions of {name} ({error}); name them with --versions a,b,c") from None
    line = next((li for li in done.stdout.splitlines() if li.startswith("Available versions:")), None)
    if line is None:
        raise BadInput(f"pip lists no versions of {name}; name them with --versions a,b,c")
    # pip lists the newest first.
    return [part.strip() for part in line.partition(":")[2].split(",")][::-1]
