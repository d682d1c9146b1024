"""The compilers' caches: each case has a folder of its own, so that cold and warm are what they say."""

import os
from pathlib import Path
from typing import Literal


def use_cache(folder: str | None) -> Literal["cold", "warm", "none"]:
    """Points the compilers at a case's folder, and says what they will find there."""
    if folder is None:
        return "none"
    path = Path(folder)
    warm = path.exists() and any(path.iterdir())
    path.mkdir(parents=True, exist_ok=True)
    os.environ["TORCHINDUCTOR_CACHE_DIR"] = folder
    os.environ["TRITON_CACHE_DIR"] = str(path / "triton")
    return "warm" if warm else "cold"
