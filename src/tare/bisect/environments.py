"""Virtual environments for candidates: empty ones, and ones on top of the interpreter's own packages."""

import os
import sys
import venv
from pathlib import Path

import msgspec

import tare
from tare.bisect.process import CannotRun, run_vector

# Read by the interpreter at its start, behind all others of its folder: what a candidate installs comes first.
LAYERS = "zz-layers.pth"
PIP = '#!/bin/sh\nexec "$(dirname "$0")/python" -m pip "$@"\n'
LOOK = (
    "import importlib.util, json, site; "
    "print(json.dumps({'packages': site.getsitepackages(), 'pip': importlib.util.find_spec('pip') is not None}))"
)


class _Seen(msgspec.Struct):
    packages: list[str]
    pip: bool


def make_environment(folder: Path, python: str, timeout: float, pip: bool = True) -> None:
    """An empty one, with pip."""
    if python == sys.executable:
        venv.create(folder, with_pip=pip, symlinks=True)
    else:
        options = [] if pip else ["--without-pip"]
        run_vector([python, "-m", "venv", *options, str(folder)], folder.parent, os.environ, timeout)


def make_layered_environment(folder: Path, python: str, timeout: float) -> None:
    """One that sees all packages of `python` behind its own. What a candidate's build installs goes here and not
    there, where it would be the next candidate's as well, and need not bring torch along."""
    said = run_vector([python, "-c", LOOK], folder.parent, os.environ, timeout).output
    try:
        seen = msgspec.json.decode(said, type=_Seen)
    except msgspec.DecodeError:
        raise CannotRun(f"{python} does not say where its packages are") from None
    # A pip of its own takes seconds, and the one that is seen will do: it installs where it runs.
    make_environment(folder, python, timeout, pip=not seen.pip)
    if seen.pip:
        for name in ("pip", "pip3"):
            (folder / "bin" / name).write_text(PIP)
            (folder / "bin" / name).chmod(0o755)
    layers = seen.packages
    if python == sys.executable:
        # This tare may run from a folder that is on nobody's path but the caller's.
        layers = [str(Path(tare.__file__).resolve().parents[1]), *layers]
    # Not the bare paths: their own .pth files (what is installed as editable) count as well.
    text = "".join(f"import site; site.addsitedir({layer!r})\n" for layer in layers)
    for packages in folder.glob("lib/python*/site-packages"):
        (packages / LAYERS).write_text(text, encoding="utf-8")
