"""Loading what registers itself: our own modules, entry points, and the modules named in TARE_PLUGINS."""

import importlib
import os
from functools import lru_cache
from importlib.metadata import entry_points

from tare.errors import BadInput

VARIABLE = "TARE_PLUGINS"


@lru_cache
def load_plugins(group: str, own: tuple[str, ...]) -> None:
    """Imports every module that registers something of this group, once a process."""
    for module in own:
        importlib.import_module(module)
    for point in entry_points(group=group):
        _load(point.value.partition(":")[0], f"the plug-in '{point.name}'")
    for module in filter(None, os.environ.get(VARIABLE, "").split(",")):
        _load(module.strip(), f"{VARIABLE}={os.environ[VARIABLE]}")


def _load(module: str, where: str) -> None:
    try:
        importlib.import_module(module)
    except ImportError as error:
        raise BadInput(f"cannot import {module}, named by {where}: {error}") from error
