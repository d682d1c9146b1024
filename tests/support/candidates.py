"""What a bisection under test searches: commits of a repository, versions of a package."""

import os
import subprocess
import zipfile
from pathlib import Path


def git(folder: Path, *args: str) -> str:
    """Dates too, for they are in a commit's hash, from which the noise of its runs is drawn."""
    identity = {
        "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
        "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
        "GIT_AUTHOR_NAME": "a",
        "GIT_AUTHOR_EMAIL": "a@b",
        "GIT_COMMITTER_NAME": "a",
        "GIT_COMMITTER_EMAIL": "a@b",
    }
    return subprocess.run(
        ["git", "-C", str(folder), *args],
        env={**os.environ, **identity},
        capture_output=True,
        text=True,
        check=True,
    ).stdout.strip()


def repository(folder: Path, costs: list[str]) -> list[str]:
    """A commit for each cost, in a file that holds it; their hashes."""
    folder.mkdir()
    git(folder, "init", "--quiet", "--initial-branch=main")
    hashes = []
    for i, cost in enumerate(costs):
        (folder / "cost").write_text(cost)
        (folder / "log").write_text(str(i))
        git(folder, "add", ".")
        git(folder, "commit", "--quiet", "-m", f"change {i}")
        hashes.append(git(folder, "rev-parse", "HEAD"))
    return hashes


def wheel(folder: Path, version: str, cost: float) -> None:
    """A package of one module, made by hand: a wheel is a zip file."""
    info = f"slowpoke-{version}.dist-info"
    with zipfile.ZipFile(folder / f"slowpoke-{version}-py3-none-any.whl", "w") as file:
        file.writestr("slowpoke.py", f"COST = {cost}\n")
        file.writestr(f"{info}/METADATA", f"Metadata-Version: 2.1\nName: slowpoke\nVersion: {version}\n")
        file.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: x\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        file.writestr(f"{info}/RECORD", "")
