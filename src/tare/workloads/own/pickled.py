"""Objects of a user's program (a model, a step, its inputs and loss), carried to the workers of a run by pickle.

Only `tare.ladder` and the pytest plug-in write such a file, for this user alone, into the scratch folder of their
run, and only the workers of that run load it: `load_pickled` refuses every other file.
"""

import hashlib
import inspect
import os
import stat
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import FunctionType, MethodType, SimpleNamespace
from typing import Any

from tare.cases.source import ModelSource, workload_name
from tare.errors import BadInput, brief
from tare.system.home import home
from tare.system.private_files import write_private
from tare.workloads.own.calls import as_batch, is_step
from tare.workloads.own.definition import INPUTS, LOSS, FileModel
from tare.workloads.own.files import installed_folders
from tare.workloads.own.shapes import Shape
from tare.workloads.own.step import StepModel

# A text that is longer is no part of a program that somebody wrote.
MOST_SOURCE = 2**20


class SearchPath(tuple[str, ...]):
    """Where the user's program imports from. Unpickling it makes these folders importable, and it is unpickled
    before what is pickled by reference into them."""

    def __reduce__(self) -> tuple[Any, ...]:
        return make_importable, (tuple(self),)


def make_importable(folders: tuple[str, ...]) -> SearchPath:
    sys.path += [folder for folder in folders if folder not in sys.path]
    return SearchPath(folders)


@dataclass(frozen=True)
class UserObjects:
    """What a file holds. `inputs` is a value or a function, as in a file of the user."""

    search_path: SearchPath
    value: Any
    inputs: Any
    loss: Any
    is_step: bool
    # Eight hex digits of the code. A worker has no source text of what was defined in a notebook.
    digest: str


def write_pickled(
    value: Any, inputs: Any, loss: Any, folder: Path, name: str = "", whole_step: bool | None = None
) -> ModelSource:
    """Writes the objects into the scratch folder of a run. `whole_step` says whether a callable is a step; by
    default its name does. Classes and functions of the user's modules are pickled by value, because a worker may
    not be able to import them (a notebook, a test)."""
    import cloudpickle
    import torch

    is_model = isinstance(value, (type, torch.nn.Module))
    objects = UserObjects(
        search_path=SearchPath(os.path.abspath(folder) for folder in sys.path),  # noqa: PTH100 - of "" too
        value=value,
        inputs=inputs,
        loss=loss,
        is_step=not is_model and (is_step(value) if whole_step is None else whole_step),
        digest=code_digest(value, loss),
    )
    shown = name or object_name(value)
    modules = [module for code in user_code(value, inputs, loss) if (module := sys.modules.get(code.__module__))]
    registered = {
        m.__name__: m
        for m in modules
        if m.__name__ not in ("__main__", *cloudpickle.list_registry_pickle_by_value())
    }
    draft = folder / "objects.pickle"
    try:
        for module in registered.values():
            cloudpickle.register_pickle_by_value(module)
        write_private(draft, b"")
        # torch's own format: a tensor on a GPU is loaded on the CPU.
        torch.save(objects, draft, pickle_module=cloudpickle)
    except Exception as error:
        raise BadInput(
            f"{shown} cannot be carried to another process: {type(error).__name__}: {brief(error)}"
        ) from error
    finally:
        for module in registered.values():
            cloudpickle.unregister_pickle_by_value(module)
    path = draft.rename(folder / f"{_content_digest(draft)}.pickle")
    return ModelSource(
        kind="pickled", target=shown, name=workload_name(f"object:{shown}"), location=str(path), object=shown
    )


@cache
def load_pickled(path: Path) -> UserObjects:
    """The objects of this run, loaded once a process."""
    return load_again(path)


def load_again(path: Path) -> UserObjects:
    """The objects once more, with the state that they were written with."""
    import torch

    refuse_foreign(path)
    objects: Any = torch.load(path, map_location="cpu", weights_only=False)
    if not isinstance(objects, UserObjects):
        raise BadInput(f"{path.name} holds no objects of a run")
    return objects


def refuse_foreign(path: Path) -> None:
    """BadInput unless the file is in the scratch folder of a run, belongs to this user alone, and is what the run
    wrote: loading a pickle runs the code in it."""
    try:
        status = path.lstat()
        inside = path.resolve().is_relative_to((home() / "scratch").resolve())
        private = stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & 0o077
        own = inside and private and _content_digest(path) == path.stem
    except OSError:
        own = False
    if not own:
        raise BadInput(f"{path.name[:80]} was not written by this run: nothing else is unpickled")


def _content_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def object_name(value: Any) -> str:
    name = getattr(value, "__qualname__", type(value).__qualname__)
    return str(name).rpartition("<locals>.")[2].replace("<lambda>", "lambda")


def code_digest(*values: Any) -> str:
    """Eight hex digits of the user's classes and functions that the values are made of, and of a model's
    structure: its modules with their sizes."""
    import torch

    texts = [f"{code.__module__}.{code.__qualname__}\0{_source(code)}" for code in user_code(*values)]
    texts += [str(value) for value in values if isinstance(value, torch.nn.Module)]
    return hashlib.sha256("\0".join(sorted(texts)).encode()).hexdigest()[:8]


def user_code(*values: Any) -> list[Any]:
    """The classes and functions of the user, and not of an installed package, that the values use: the classes of
    all modules, what functions close over, and the globals that they name."""
    import torch

    found: dict[int, Any] = {}
    pending = list(values)
    while pending:
        value = pending.pop()
        if isinstance(value, torch.nn.Module):
            pending += [type(module) for module in value.modules()]
        elif isinstance(value, MethodType):
            pending += [value.__func__, value.__self__]
        elif isinstance(value, (type, FunctionType)):
            if id(value) not in found and is_users(value):
                found[id(value)] = value
                pending += _used_by(value)
        elif not isinstance(value, (str, bytes, int, float, torch.Tensor)) and hasattr(value, "__dict__"):
            pending.append(type(value))
    return list(found.values())


def _used_by(code: Any) -> Iterator[Any]:
    if isinstance(code, type):
        yield from code.__bases__
        members = (getattr(member, "__func__", member) for member in vars(code).values())
        yield from (member for member in members if isinstance(member, FunctionType))
        return
    function = inspect.unwrap(code)
    if not isinstance(function, FunctionType):
        # It wraps something that is written in C.
        return
    for cell in function.__closure__ or ():
        # A cell is empty until its variable is assigned.
        if cell != type(cell)():
            yield cell.cell_contents
    yield from (function.__globals__[name] for name in function.__code__.co_names if name in function.__globals__)


def is_users(code: Any) -> bool:
    if code.__module__ == "__main__":
        return True
    file = getattr(sys.modules.get(code.__module__), "__file__", None)
    return isinstance(file, str) and not any(Path(file).resolve().is_relative_to(f) for f in _installed())


@cache
def _installed() -> tuple[Path, ...]:
    return tuple(Path(folder).resolve() for folder in installed_folders())


def _source(code: Any) -> str:
    """The text of a class or function; its bytecode where Python has no text of it."""
    try:
        return inspect.getsource(code)[:MOST_SOURCE]
    except (OSError, TypeError):
        compiled = getattr(code, "__code__", None)
        return f"{compiled.co_code.hex()} {compiled.co_names}" if compiled else ""


class PickledModel(FileModel):
    """A module of the user's program, its class, or a function that makes it."""

    no_inputs = "has no inputs: give a tensor, a tuple, a dict or a function that returns one, after the model"
    no_loss = "has no loss to train with: give a function, loss=..."

    @cached_property
    def objects(self) -> UserObjects:
        return load_pickled(self.path)

    @property
    def value(self) -> Any:
        return self.objects.value

    @property
    def surroundings(self) -> Any:
        given = {INPUTS: self.objects.inputs, LOSS: self.objects.loss}
        return SimpleNamespace(**{name: value for name, value in given.items() if value is not None})

    @property
    def digest(self) -> str:
        return self.objects.digest

    @cached_property
    def inputs_function(self) -> Any:
        """What the caller gave comes before what the object defines."""
        given = self.objects.inputs
        return given if given is not None else getattr(self.value, INPUTS, None)

    @property
    def inputs_text(self) -> str:
        """The shapes of the inputs, since what makes them may have no name."""
        import torch

        if not self._has_function:
            return super().inputs_text
        args = as_batch(self._call(None))[0].args
        tensors = [leaf for leaf in args if isinstance(leaf, torch.Tensor) and leaf.dim()]
        shapes = [Shape(tuple(leaf.shape), str(leaf.dtype).removeprefix("torch.")) for leaf in tensors]
        return "+".join(shape.text(shapes[0].sizes[0]) for shape in shapes)[:200] or INPUTS


class TrainablePickledModel(PickledModel):
    def loss(self, output: Any, target: Any) -> Any:
        function: Callable[..., Any] = self.objects.loss
        return function(output) if target is None else function(output, target)


class PickledStep(PickledModel, StepModel):
    """A callable of the user's program that is a whole step. Each program unpickles it anew, with its state."""

    def fresh_value(self) -> Any:
        return load_again(self.path).value
