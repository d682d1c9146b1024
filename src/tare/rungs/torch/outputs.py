"""The tensors of whatever a model returns: a tensor, or tensors in dicts, dataclasses, lists and objects of other
types that torch's pytree knows (HuggingFace's outputs among them).

Tracing and exporting return only tensors and plain tuples. `TensorOutputs` wraps a model for them, and
`Structure` puts what they return back together for a loss."""

import copy
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from typing import Any

import torch
from torch.utils import _pytree as pytree


def tensors_of(output: Any) -> list[torch.Tensor]:
    """The tensors in an output, in an order that depends on its structure alone. What is no tensor is left out."""
    return list(_tensors(output))


class TensorOutputs(torch.nn.Module):  # type: ignore[misc]
    """A model that returns the tensors of its output as a plain tuple, unless it returns a tensor or nested plain
    tuples of tensors anyway. Its weights are named `model.*`. `see` is called with the output as it was."""

    def __init__(self, model: Any, see: Callable[[Any], None] | None = None) -> None:
        super().__init__()
        self.model = model
        self._see = see
        # Not `train()`, which would also change submodules that the model keeps in evaluation mode.
        self.training = model.training

    def forward(self, *args: Any) -> Any:
        output = self.model(*args)
        if self._see is not None:
            self._see(output)
        return output if is_plain(output) else tuple(tensors_of(output))


class Structure:
    """The structure of an output: its containers, and what is in them besides tensors."""

    def __init__(self, output: Any) -> None:
        # Tensors without memory mark the places.
        self._skeleton = _with_tensors(output, (tensor.detach().to("meta") for tensor in tensors_of(output)))

    def fill(self, tensors: tuple[torch.Tensor, ...]) -> Any:
        """An output of this structure, with other tensors."""
        return _with_tensors(self._skeleton, iter(tensors))


def is_plain(output: Any) -> bool:
    """Whether an output is a tensor or nested plain tuples of tensors."""
    if type(output) is tuple:
        return all(map(is_plain, output))
    return isinstance(output, torch.Tensor)


def _tensors(output: Any) -> Iterator[torch.Tensor]:
    for leaf in pytree.tree_leaves(output):
        if isinstance(leaf, torch.Tensor):
            yield leaf
        elif _is_dataclass_instance(leaf):
            for field in fields(leaf):
                yield from _tensors(getattr(leaf, field.name, None))


def _with_tensors(output: Any, tensors: Iterator[torch.Tensor]) -> Any:
    """A copy of an output, with other tensors, in the order of `tensors_of`."""

    def replace(leaf: Any) -> Any:
        if isinstance(leaf, torch.Tensor):
            return next(tensors)
        if not _is_dataclass_instance(leaf):
            return leaf
        # Not by its constructor, which may take other arguments or compute something.
        replaced = copy.copy(leaf)
        for field in fields(leaf):
            object.__setattr__(replaced, field.name, _with_tensors(getattr(leaf, field.name, None), tensors))
        return replaced

    return pytree.tree_map(replace, output)


def _is_dataclass_instance(leaf: Any) -> bool:
    """torch's pytree takes dataclasses that are not registered with it for leaves."""
    return is_dataclass(leaf) and not isinstance(leaf, type)
