"""A git repository of the small target with 64 commits, one of which is a problem and 62 are harmless."""

import os
import random
import shutil
import subprocess
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).parent
COMMITS = 64
IDENTITY = {
    f"GIT_{who}_{what}": value
    for who in ("AUTHOR", "COMMITTER")
    for what, value in (("NAME", "tare"), ("EMAIL", "tare@localhost"), ("DATE", "2024-01-01T00:00:00Z"))
}


class History(NamedTuple):
    """Hashes in order; `culprit` is the index of the problem among them."""

    folder: Path
    commits: list[str]
    culprit: int

    @property
    def good(self) -> str:
        return self.commits[0]

    @property
    def bad(self) -> str:
        return self.commits[-1]


def make_history(folder: Path, patch: int, seed: int = 0, commits: int = COMMITS) -> History:
    """The target, then harmless commits and the patch among them, at a place drawn from the seed."""
    chance = random.Random(f"{patch} {seed}")
    culprit = chance.randint(1, commits - 1)
    shutil.copytree(HERE / "target", folder, ignore=shutil.ignore_patterns("__pycache__"))
    git(folder, "init", "--quiet", "--initial-branch=main")
    hashes = [_commit(folder, "The target")]
    diff = HERE / "patches" / f"{patch}.patch"
    for number in range(1, commits):
        if number == culprit:
            git(folder, "apply", str(diff))
            hashes.append(_commit(folder, f"Change {number}"))
        else:
            _harmless(folder, number, chance, diff.read_text())
            hashes.append(_commit(folder, f"Change {number}"))
    return History(folder, hashes, culprit)


def check_out(history: History, commit: str, folder: Path) -> Path:
    """A worktree of one commit."""
    git(history.folder, "worktree", "add", "--quiet", "--detach", str(folder), commit)
    return folder


def git(folder: Path, *args: str) -> str:
    # Without the machine's own settings: a hook or a signing key is no part of this.
    alone = {"GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_SYSTEM": os.devnull}
    done = subprocess.run(
        ["git", "-C", str(folder), *args],
        env={**os.environ, **IDENTITY, **alone},
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout.strip()


def _commit(folder: Path, message: str) -> str:
    git(folder, "add", ".")
    git(folder, "commit", "--quiet", "-m", message)
    return git(folder, "rev-parse", "HEAD")


def _harmless(folder: Path, number: int, chance: random.Random, diff: str) -> None:
    """Words, a helper that nobody calls, or a comment at the end of a module that the patch leaves alone."""
    kind = chance.choice(("words", "helper", "comment"))
    if kind == "words":
        _append(folder / "README.md", f"\nNote {number}: nothing of this is measured.\n")
    elif kind == "helper":
        _append(
            folder / "smallnet" / "helpers.py",
            f"\n\ndef helper_{number}(x: float) -> float:\n    return x + {number}\n",
        )
    else:
        modules = [each for each in sorted((folder / "smallnet").glob("*.py")) if each.name not in diff]
        _append(chance.choice(modules), f"\n# Remark {number}.\n")


def _append(path: Path, text: str) -> None:
    with path.open("a") as file:
        file.write(text)
