"""A program that torch.export has saved (FILE.pt2), with the inputs it was exported with."""

import hashlib
import pickle
from functools import cached_property
from pathlib import Path
from typing import Any

from tare.cases.source import ModelDescription, ModelSource
from tare.errors import BadInput, brief
from tare.workloads.base import Batch

# An exported program has no Python to script, and its graph is for one mode and one batch.
UNSUPPORTED = {
    "torchscript:script": "an exported program has no source to compile",
    "libtorch": "there is no C++ version of an exported program: libtorch:script or aot",
}


class ExportedModel:
    def __init__(self, source: ModelSource) -> None:
        self.source = source

    @cached_property
    def program(self) -> Any:
        from tare.workloads.own.exported_file import load_exported

        try:
            return load_exported(self.source.location)
        except Exception as error:
            reason = f"{type(error).__name__}: {brief(error)}"
            if isinstance(error, pickle.UnpicklingError):
                reason = "it holds pickled objects besides tensors, which could run any code"
            raise BadInput(f"{self.source.target} is no program of torch.export: {reason}") from error

    def build(self, **_: int) -> Any:
        import copy

        module = copy.deepcopy(self.program).module(check_guards=False)
        # The exported graph has its mode inside, and refuses to be told; a trace of it is frozen by this flag.
        for part in module.modules():
            part.training = False
        module.train = module.eval = lambda *_: module
        return module

    def inputs(self, _batch: int, **_: int) -> Batch:
        """Of the shapes that it was exported with."""
        import torch
        from torch.utils import _pytree as pytree

        args, keywords = self.program.example_inputs
        if keywords:
            raise BadInput(f"{self.source.target} takes inputs by name ({', '.join(keywords)}): export it without")

        def draw(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor) or not leaf.is_floating_point():
                return leaf.clone() if isinstance(leaf, torch.Tensor) else leaf
            return torch.randn(leaf.shape, dtype=leaf.dtype)

        return Batch(tuple(pytree.tree_map(draw, args)))

    def describe(self) -> ModelDescription:
        import torch

        batch = self.inputs(1)
        first = next((leaf for leaf in batch.args if isinstance(leaf, torch.Tensor) and leaf.dim()), None)
        with torch.no_grad():
            self.build()(*batch.args)
        return ModelDescription(
            batch=int(first.shape[0]) if first is not None else 1,
            digest=hashlib.sha256(Path(self.source.location).read_bytes()).hexdigest()[:8],
            unsupported=UNSUPPORTED,
        )
