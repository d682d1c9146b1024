"""The definition of a workload from a user's file: its model, its inputs and its loss."""

import inspect
import typing
from functools import cached_property
from pathlib import Path
from typing import Any

from tare.cases.source import ModelDescription, ModelSource
from tare.errors import BadInput, quote
from tare.workloads.base import Batch
from tare.workloads.own.calls import as_batch, build_module, call_by_name, call_with_batch, required_parameters
from tare.workloads.own.files import describe, load_file, load_object, source_digest
from tare.workloads.own.shapes import Shape, batch_of, draw_inputs, inputs_text, read_shape

# What a file, a class or an instance may define besides the model.
INPUTS, LOSS, PARITY, TOKENS = "example_inputs", "loss", "parity", "tokens_per_sample"
NO_LOSS = "has no loss to train with: --loss FILE.py::FUNCTION, or a function loss(output, target) in its file"
NO_INPUTS = (
    "has no inputs: say what it takes: --input 8x3x224x224, --inputs FILE.py::FUNCTION, "
    "or example_inputs in the file"
)


class FileModel:
    """A class, an instance or a factory of a torch.nn.Module in a file."""

    # What is said where there are none.
    no_inputs, no_loss = NO_INPUTS, NO_LOSS
    # Whether the last of the inputs may be what the loss compares the output with.
    has_target = True

    def __init__(self, source: ModelSource) -> None:
        self.source = source
        self.path = Path(source.location)

    @property
    def value(self) -> Any:
        """The user's object."""
        return load_object(f"{self.source.location}::{self.source.object}")

    @property
    def surroundings(self) -> Any:
        """What may define the inputs, the loss and the parity, where the object itself does not: its file."""
        return load_file(self.path)

    @property
    def digest(self) -> str:
        """Of the model's code."""
        return source_digest(self.path)

    def build(self, **_: int) -> Any:
        try:
            model = build_module(self.value, self.source.object)
        except BadInput:
            raise
        except (Exception, SystemExit) as error:
            raise BadInput(f"{self.source.object}() fails: {describe(error)}") from error
        return call_by_name(model, self.names)

    @cached_property
    def shapes(self) -> list[Shape]:
        """From --input, or from the type hints of `forward`."""
        texts = self.source.shapes or hinted_shapes(self.value)
        return [read_shape(text) for text in texts]

    @cached_property
    def inputs_function(self) -> Any:
        """What gives the inputs: a function or a value that the option names, or that the object or its file
        defines; None where there is none."""
        if self.source.inputs:
            return load_object(self.source.inputs)
        own = getattr(self.value, INPUTS, None)
        # A method of a class has no instance to be called on, unless it is static.
        return own if own is not None else getattr(self.surroundings, INPUTS, None)

    @cached_property
    def names(self) -> tuple[str, ...]:
        """The names of the arguments that are passed by name."""
        if self.source.shapes or not self._has_function:
            names = tuple(shape.name for shape in self.shapes)
            if any(names) and not all(names):
                raise BadInput("name all of the inputs, or none: --input a=8x3 --input b=8x4")
            return names if any(names) else ()
        return as_batch(self._call(None))[1]

    @property
    def _has_function(self) -> bool:
        return self.inputs_function is not None and not self.source.shapes

    def inputs(self, batch: int | None, **_: int) -> Batch:
        if self._has_function:
            seed_others()
            given, names = as_batch(self._call(batch))
            if len(given.args) > 1 and given.target is None and not names and self._wants_target(given):
                return Batch(given.args[:-1], given.args[-1])
            return given
        if not self.shapes:
            raise BadInput(f"{self.source.object} {self.no_inputs}")
        return Batch(draw_inputs(self.shapes, batch or batch_of(self.shapes)))

    def _wants_target(self, given: Batch) -> bool:
        """Whether a batch is written as a data loader gives it, `images, labels`: the loss needs a target, and the
        model needs fewer arguments."""
        if not self.has_target or not callable(self.loss_function):
            return False
        return len(required_parameters(self.loss_function)) > 1 and self._required < len(given.args)

    @cached_property
    def _required(self) -> int:
        """How many arguments the model needs."""
        import torch

        model = self.value
        if not isinstance(model, (type, torch.nn.Module)):
            # What a factory makes is known when it is made.
            with torch.random.fork_rng(devices=[]):
                model = self.build()
        return len([name for name in required_parameters(model.forward) if name != "self"])

    def _call(self, batch: int | None) -> Any:
        function = self.inputs_function
        if not callable(function):
            return function
        try:
            return call_with_batch(function, batch)
        except BadInput:
            raise
        except (Exception, SystemExit) as error:
            raise BadInput(f"the inputs fail: {describe(error)}") from error

    @cached_property
    def loss_function(self) -> Any:
        """What the option names, or what the object's class or its file defines; None where there is none."""
        if self.source.loss:
            return load_object(self.source.loss)
        return getattr(self.surroundings, LOSS, None)

    def describe(self) -> ModelDescription:
        """Builds the model and runs it once on the CPU."""
        import torch

        model = self.build()
        batch = self.inputs(None)
        first = next((leaf for leaf in batch.args if isinstance(leaf, torch.Tensor) and leaf.dim()), None)
        try:
            with torch.no_grad():
                output = model.eval()(*batch.args)
        except (Exception, SystemExit) as error:
            shapes = ", ".join(str(list(leaf.shape)) for leaf in batch.args if isinstance(leaf, torch.Tensor))
            message = f"{self.source.object} fails on inputs of {shapes}: {describe(error)}"
            raise BadInput(message) from error
        if output is None:
            raise BadInput(f"{self.source.object} returns None: its forward must return what it computes")
        if inspect.isgenerator(output):
            # Nothing has been computed yet.
            raise BadInput(f"{self.source.object} returns a generator (its forward has a yield): return a list")
        return ModelDescription(
            batch=int(first.shape[0]) if first is not None else 1,
            inputs=self.inputs_text,
            # After the model has run: it may import more of the user's files then.
            digest=self.digest,
            trains=callable(self.loss_function),
            parity=declared_parity(self.value, self.surroundings),
            tokens=declared_tokens(self.value, self.surroundings),
            unsupported={} if callable(self.loss_function) else {"train": f"{self.source.object} {self.no_loss}"},
        )

    @property
    def inputs_text(self) -> str:
        """The inputs in the key of a case: their shapes, or the function that makes them."""
        if not self._has_function:
            return inputs_text(self.shapes)
        return self.source.inputs.rpartition("/")[2] or INPUTS


class TrainableFileModel(FileModel):
    """With a loss: `loss(output, target)`, or `loss(output)` where there is no target."""

    def loss(self, output: Any, target: Any) -> Any:
        function = self.loss_function
        return function(output) if target is None else function(output, target)


def seed_others() -> None:
    """Python's and NumPy's generators from torch's, which the caller has seeded: inputs may use any of them."""
    import random

    import numpy as np
    import torch

    seed = torch.initial_seed() % 2**32
    random.seed(seed)
    np.random.seed(seed)


def hinted_shapes(value: Any) -> tuple[str, ...]:
    """The shapes in the type hints of `forward`, such as Annotated[Tensor, "8x3x224x224"]; none if any parameter
    without a default has none."""
    forward = getattr(value, "forward", value)
    try:
        hints = typing.get_type_hints(forward, include_extras=True)
    except Exception:  # noqa: BLE001 - a hint may name anything
        return ()
    shapes = []
    for name in required_parameters(forward):
        if name == "self":
            continue
        texts = [text for text in getattr(hints.get(name), "__metadata__", ()) if isinstance(text, str)]
        if not texts:
            return ()
        shapes.append(texts[0])
    return tuple(shapes)


def declared_parity(value: Any, module: Any) -> str:
    """Why the user's code turns parity off: `parity = "off: clips gradients"` of the object or of its file."""
    text = getattr(value, PARITY, None) or getattr(module, PARITY, None)
    if not isinstance(text, str):
        return ""
    state, _, reason = text.partition(":")
    if state.strip() != "off" or not reason.strip():
        raise BadInput(f"parity = '{text[:80]}' is not understood: want parity = \"off: REASON\"")
    return reason.strip()[:200]


def declared_tokens(value: Any, module: Any) -> int | str:
    """`tokens_per_sample = 128` of the object or of its file; an empty text where neither says it."""
    number = getattr(value, TOKENS, None) or getattr(module, TOKENS, None)
    if number is None:
        return ""
    if not isinstance(number, int) or not 0 < number < 2**31:
        raise BadInput(f"{TOKENS} = {quote(number)}: want a positive whole number")
    return number
