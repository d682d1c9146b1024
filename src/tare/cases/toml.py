"""TOML that a user wrote."""

import tomllib
from pathlib import Path
from typing import Any

from tare.errors import BadInput, brief


def read_toml(path: Path, what: str) -> dict[str, Any]:
    """The document in a file; BadInput says in one line why it cannot be read as `what`."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise BadInput(f"no {what} at {path}") from None
    except OSError as error:
        raise BadInput(f"cannot read {what} {path}: {error.strerror}") from None
    except (UnicodeDecodeError, tomllib.TOMLDecodeError, RecursionError, ValueError) as error:
        raise BadInput(f"{path} is not TOML: {brief(error)}") from None
