"""Where tare keeps things: TARE_HOME, or the user's data folder."""

import os
from pathlib import Path

from tare.errors import BadInput

VARIABLE = "TARE_HOME"


def home() -> Path:
    """The data folder, made on first use."""
    from platformdirs import user_data_path

    chosen = os.environ.get(VARIABLE)
    path = Path(chosen).expanduser() if chosen else user_data_path("tare")
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BadInput(f"cannot use {path} as the data folder ({error.strerror}); set {VARIABLE}") from None
    return path
