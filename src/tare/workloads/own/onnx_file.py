"""An ONNX file (FILE.onnx): the inputs that it takes, and the precision that it has."""

import hashlib
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING

from tare.cases.source import ModelDescription, ModelSource
from tare.errors import BadInput
from tare.workloads.base import Batch
from tare.workloads.own.calls import DEFAULT_BATCH
from tare.workloads.own.onnx_reference import evaluated, external_files, float_types, input_names, load
from tare.workloads.own.shapes import DTYPES, Shape, draw_inputs, inputs_text, read_shape

if TYPE_CHECKING:
    from torch import nn

# The precisions of a case in which a file can be run, by the type of its weights.
PRECISIONS = {"float32": ("fp32", "tf32", "amp-bf16"), "float16": ("fp16",)}
ALL_PRECISIONS = ("fp32", "tf32", "bf16", "fp16", "amp-bf16", "amp-fp16")


class OnnxFile:
    def __init__(self, source: ModelSource) -> None:
        self.source = source
        self.path = Path(source.location)

    def build(self, **_: int) -> "nn.Module":
        return evaluated(self.path)

    def inputs(self, batch: int, **_: int) -> Batch:
        first = self._entries[0].sizes[0]
        if first and batch != first:
            raise BadInput(f"{self.source.target} was exported for a batch of {first}: it takes no {batch}")
        return Batch(draw_inputs(self.shapes, batch))

    @cached_property
    def shapes(self) -> list[Shape]:
        """Those of the file, with what it leaves open from --input. The batch may be left open."""
        given = [read_shape(text) for text in self.source.shapes]
        by_name = {shape.name: shape for shape in given if shape.name}
        if unknown := by_name.keys() - {entry.name for entry in self._entries}:
            names = ", ".join(entry.name for entry in self._entries)
            raise BadInput(f"{self.source.target} has no input {', '.join(sorted(unknown))}; it has {names}")
        if given and not by_name and len(given) != len(self._entries):
            raise BadInput(f"{self.source.target} takes {len(self._entries)} inputs, not {len(given)}")
        if by_name or not given:
            return [self._complete(entry, by_name.get(entry.name)) for entry in self._entries]
        return [self._complete(entry, shape) for entry, shape in zip(self._entries, given, strict=True)]

    def describe(self) -> ModelDescription:
        kinds = float_types(load(self.path))
        # A file with weights in float16 may still compute sums in float32.
        stored = "float16" if "float16" in kinds else "float32"
        other = f"the file computes in {stored}: --precision {PRECISIONS[stored][0]}"
        unsupported = {name: other for name in ALL_PRECISIONS if name not in PRECISIONS[stored]}
        return ModelDescription(
            batch=self.shapes[0].sizes[0],
            inputs=inputs_text(self.shapes),
            digest=self._digest(),
            unsupported=unsupported,
            requires=("onnx",),
        )

    @cached_property
    def _entries(self) -> list[Shape]:
        """The inputs of the graph; 0 is a size that is left open."""
        from onnx import helper

        model = load(self.path)
        names = input_names(model)
        entries = []
        for entry in (entry for entry in model.graph.input if entry.name in names):
            tensor = entry.type.tensor_type
            kind = str(helper.tensor_dtype_to_np_dtype(tensor.elem_type)) if tensor.elem_type else "nothing"
            if kind not in DTYPES or not tensor.HasField("shape"):
                raise BadInput(
                    f"{self.source.target}: the input {entry.name} is no tensor of a known type and shape"
                )
            entries.append(Shape(tuple(d.dim_value for d in tensor.shape.dim), kind, name=entry.name))
        if not entries or not entries[0].sizes:
            raise BadInput(f"{self.source.target} takes no tensors with a batch")
        return entries

    def _complete(self, entry: Shape, given: Shape | None) -> Shape:
        """The shape to draw: what is given must be what the file says, where it says it."""
        sizes = given.sizes if given else (entry.sizes[0] or DEFAULT_BATCH, *entry.sizes[1:])
        fits = len(sizes) == len(entry.sizes) and all(
            not wanted or wanted == size for wanted, size in zip(entry.sizes, sizes, strict=True)
        )
        if 0 in sizes or not fits:
            shape = "x".join(str(size or "?") for size in entry.sizes)
            bound = "<BOUND" if entry.dtype.startswith("int") else ""
            example = f"--input {entry.name}={shape.replace('?', '128')}:{entry.dtype}{bound}"
            raise BadInput(
                f"{self.source.target}: the input {entry.name} is {shape} ({entry.dtype}); say {example}"
            )
        return Shape(sizes, entry.dtype, given.bound if given else None)

    def _digest(self) -> str:
        """Of the file, and of the files that hold its weights, if others do."""
        digest = hashlib.sha256(self.path.read_bytes())
        for name in sorted(set(external_files(self.path))):
            with (self.path.parent / name).open("rb") as file:
                digest.update(hashlib.file_digest(file, "sha256").digest())
        return digest.hexdigest()[:8]
