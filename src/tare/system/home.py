"""Where tare keeps things: TARE_HOME, or the user's data folder."""

import os
from pathlib import Path

from tare.errors import BadInput
from tare.system.private_files import make_private_folder

VARIABLE = "TARE_HOME"


def home() -> Path:
    """The data folder, made on first use."""
    from platformdirs import user_data_path

    chosen = os.environ.get(VARIABLE)
    try:
        path = Path(chosen).expanduser() if chosen else user_data_path("tare")
    except RuntimeError as error:
        # The user has no home folder.
        raise BadInput(f"cannot use {chosen} as the data folder ({error}); set {VARIABLE}") from None
    return make_folder(path)


def home_folder(name: str) -> Path:
    """A folder in the data folder, made on first use."""
    return make_folder(home() / name)


def make_folder(path: Path) -> Path:
    """Makes a folder and its parents, for their owner alone: records and traces tell what someone works on."""
    try:
        make_private_folder(path)
    except OSError as error:
        raise BadInput(f"cannot make the folder {path} ({error.strerror}); set {VARIABLE}") from None
    return path


def trace_paths(record: str) -> tuple[Path, Path]:
    """The two traces of a record: a plain one, and one with Python stacks."""
    folder = home() / "traces"
    return folder / f"{record}.json.gz", folder / f"{record}-stacks.json.gz"


def differences_path(before: str, now: str) -> Path:
    """The differences between the steps of two records."""
    return home() / "traces" / f"{before}-{now}-differences.json"
