"""Files written whole or not at all."""

import os
from pathlib import Path

from tare.errors import BadInput


def write_whole(path: Path, text: str) -> None:
    """A reader sees the old file or the new one, never half of it."""
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_text(text, encoding="utf-8")
        partial.replace(path)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise BadInput(f"cannot write {path}: {error.strerror}") from None
