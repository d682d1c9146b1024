"""A plug-in package as pip would install it, made by hand: its metadata and its module in a folder."""

import subprocess
import sys
from pathlib import Path


def install(folder: Path, module: str, source: str, *groups: str) -> None:
    """`module` becomes importable from the folder, and an entry point of the groups."""
    (folder / f"{module}.py").write_text(source)
    metadata = folder / f"{module}-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {module}\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("".join(f"[{group}]\nmine = {module}\n" for group in groups))


def run_beside(folder: Path, code: str, *arguments: str) -> str:
    """What a fresh interpreter prints that finds the plug-in; its arguments begin at sys.argv[2]."""
    command = [
        sys.executable,
        "-c",
        f"import sys; sys.path.insert(0, sys.argv[1])\n{code}",
        str(folder),
        *arguments,
    ]
    done = subprocess.run(command, capture_output=True, text=True, timeout=200)
    assert done.returncode == 0, done.stderr
    return done.stdout
