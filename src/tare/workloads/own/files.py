"""Importing a user's file in a worker: its folder is importable, and the relative imports of a package work."""

import hashlib
import importlib
import importlib.util
import os
import site
import sys
import sysconfig
from pathlib import Path
from traceback import extract_tb
from types import ModuleType
from typing import Any

from tare.errors import BadInput, TareError, brief, nearest_names, quote

MOST_SOURCE_BYTES = 2**24
CALL_OF_MODULE = "torch/nn/modules/module.py"
TARE = Path(__file__).resolve().parents[2]


def load_object(target: str) -> Any:
    """What FILE.py::NAME names; BadInput says in one line why there is no such thing."""
    file, _, name = target.rpartition("::")
    value: Any = load_file(Path(file))
    for part in name.split("."):
        if not hasattr(value, part):
            raise BadInput(f"{Path(file).name} has no '{name}'{_offers(value, part)}")
        value = getattr(value, part)
    return value


def load_file(path: Path) -> ModuleType:
    """The module of a file, imported once a process. torch is seeded before, because a file may build its model
    while it is imported."""
    name, root = module_name(path)
    imported = sys.modules.get(name)
    if imported is not None and getattr(imported, "__file__", None) == str(path):
        return imported
    return _execute(path, name, root)


def load_again(path: Path) -> ModuleType:
    """The module of a file, executed once more: a step that keeps its model in the module starts anew. The user's
    other modules stay as they are."""
    return _execute(path, *module_name(path))


def module_name(path: Path) -> tuple[str, Path]:
    """The name under which a file is imported, and the folder that must be importable for that: the one above the
    packages that it lies in."""
    root, parts = path.parent, [path.stem]
    while (root / "__init__.py").exists() and root.name.isidentifier():
        root, parts = root.parent, [root.name, *parts]
    if len(parts) == 1:
        taken = sys.modules.get(path.stem)
        is_other = taken is not None and getattr(taken, "__file__", None) != str(path)
        # A user's `types.py` must not replace a module of Python or of a package.
        if is_other or path.stem in sys.stdlib_module_names or not path.stem.isidentifier():
            parts = [f"user_{hashlib.sha256(str(path).encode()).hexdigest()[:8]}"]
    return ".".join(parts), root


def _execute(path: Path, name: str, root: Path) -> ModuleType:
    import torch

    from tare.workloads.base import SEED

    if str(root) not in sys.path:
        sys.path.insert(0, str(root))
    folder = Path.cwd()
    # What the file draws follows the seed, and does not change what the caller draws next.
    state = torch.get_rng_state()
    torch.manual_seed(SEED)
    try:
        if "." in name:
            sys.modules.pop(name, None)
            return importlib.import_module(name)
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        sys.modules[name] = module
        spec.loader.exec_module(module)
        return module
    except (Exception, SystemExit) as error:
        sys.modules.pop(name, None)
        if isinstance(error, TareError):
            raise
        raise BadInput(f"cannot import {path.name}: {describe(error)}") from error
    finally:
        # A file may change the working folder of the process, which others rely on.
        os.chdir(folder)
        torch.set_rng_state(state)


def describe(error: BaseException) -> str:
    """What is wrong and in which line of the user's files. A syntax error already contains the place."""
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__}: {brief(error)}"
    if isinstance(error, SystemExit):
        return f"it calls sys.exit({'' if error.code is None else quote(error.code)}){_place(error)}"
    return f"{type(error).__name__}: {brief(error)}{_place(error)}"


def _place(error: BaseException) -> str:
    """The last line of the user's files that an error passed; that of a library where it passed none, but not of
    the function in which torch calls a model."""
    installed = [Path(folder).resolve() for folder in installed_folders()]
    frames = [frame for frame in extract_tb(error.__traceback__) if not frame.filename.endswith(CALL_OF_MODULE)]
    own = [f for f in frames if not any(Path(f.filename).resolve().is_relative_to(folder) for folder in installed)]
    foreign = [frame for frame in frames if not Path(frame.filename).is_relative_to(TARE)]
    last = (own or foreign)[-1:]
    return f" ({Path(last[0].filename).name}, line {last[0].lineno})" if last else ""


def source_digest(path: Path) -> str:
    """Eight hex digits of the file and of the user's modules that this process has imported for it: those below
    the folder that was made importable, but no installed packages."""
    _, root = module_name(path)
    installed = [Path(folder).resolve() for folder in installed_folders()]
    files = {path}
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        # Modules that are no files may have a name of one (torch.classes).
        if not isinstance(file, str) or not file.endswith(".py") or not Path(file).is_absolute():
            continue
        resolved = Path(file).resolve()
        is_installed = any(resolved.is_relative_to(folder) for folder in installed)
        if resolved.is_relative_to(root) and resolved.is_file() and not is_installed:
            files.add(resolved)
    digest = hashlib.sha256()
    for file in sorted(files):
        content = file.read_bytes()[:MOST_SOURCE_BYTES]
        digest.update(f"{file.relative_to(root)}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:8]


def installed_folders() -> set[str]:
    """Of Python, of its packages, and of tare."""
    folders = {*sysconfig.get_paths().values(), *site.getsitepackages(), site.getusersitepackages()}
    # A .pth file may add the packages of another environment.
    folders |= {folder for folder in sys.path if Path(folder).name in ("site-packages", "dist-packages")}
    # tare itself may run from a checkout.
    return {folder for folder in folders if folder != sysconfig.get_paths()["data"]} | {str(TARE)}


def _offers(owner: Any, missing: str) -> str:
    """The nearest of the names that a module or a class defines."""
    names = [
        name
        for name, value in vars(owner).items()
        if not name.startswith("_") and getattr(value, "__module__", None) == getattr(owner, "__name__", "")
    ]
    return nearest_names(missing, names)
