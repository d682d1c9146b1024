"""Loading modules that register something: our own, entry points, and those named in TARE_PLUGINS."""

import ctypes
import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from functools import lru_cache
from importlib.metadata import entry_points
from traceback import extract_tb
from typing import Any

from tare.errors import BadInput, TareError, brief

VARIABLE = "TARE_PLUGINS"


@lru_cache
def load_plugins(group: str, own: tuple[str, ...]) -> None:
    """Imports every module that registers something of this group, once a process."""
    for module in own:
        importlib.import_module(module)
    for point in _entry_points().select(group=group):
        _load(point.value.partition(":")[0], f"the plug-in '{point.name}'")
    for module in filter(None, os.environ.get(VARIABLE, "").split(",")):
        _load(module.strip(), f"{VARIABLE}={os.environ[VARIABLE]}")


@lru_cache
def _entry_points() -> Any:
    """Those of all groups: every search reads the metadata of every installed package."""
    return entry_points()


def refuse_a_second(what: str, name: str, new: object, taken: object) -> None:
    """A plug-in must not replace what is registered under a name (None: the name is free): records may be
    published under it. The same object may be registered again, when its module is reloaded."""
    if taken is not None and _home_of(taken) != _home_of(new):
        mine, theirs = _home_of(new)[0], _home_of(taken)[0]
        raise BadInput(f"{what} '{name}' of {mine} is already one of {theirs}: give it another name")


def _home_of(thing: object) -> tuple[str, str]:
    """Module and name of a function, of a class, or of the class of anything else."""
    named = thing if hasattr(thing, "__qualname__") else type(thing)
    return named.__module__, named.__qualname__


def _load(module: str, where: str) -> None:
    try:
        with _printing_to_stderr():
            importlib.import_module(module)
    except ImportError as error:
        raise BadInput(f"cannot import {module}, named by {where}: {error}") from error
    except TareError:
        raise
    except (Exception, SystemExit) as error:
        # The module of a plug-in may fail in any way; its author needs the line.
        raise BadInput(f"cannot import {module}, named by {where}: {_describe(error)}") from error


def _describe(error: BaseException) -> str:
    """What is wrong and where. A syntax error already contains the place."""
    at = extract_tb(error.__traceback__)[-1]
    place = "" if isinstance(error, SyntaxError) else f" ({at.filename}, line {at.lineno})"
    return f"{type(error).__name__}: {brief(error)}{place}"


@contextmanager
def _printing_to_stderr() -> Iterator[None]:
    """What a module prints while it is imported is no part of our output, which may be JSON. The descriptor is
    redirected too, for C libraries and child processes."""
    sys.stdout.flush()
    kept = os.dup(1)
    os.dup2(2, 1)
    try:
        with redirect_stdout(sys.stderr):
            yield
    finally:
        # C streams buffer what goes to a pipe.
        ctypes.CDLL(None).fflush(None)
        os.dup2(kept, 1)
        os.close(kept)
