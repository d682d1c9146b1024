"""The execution plan of one step: values at fixed addresses and ops in order. It is written to `plan.json` and
`data.bin`, and the executables know nothing else about the model."""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod
from pathlib import Path
from typing import Any

from tare.rungs.vendor.lowering.origin import Origin

BYTES = {"f32": 4, "f64": 8, "bf16": 2, "f16": 2, "i64": 8, "u8": 1}
# The names of the types in torch.
TORCH_DTYPES = {"f32": "float32", "bf16": "bfloat16", "f16": "float16", "i64": "int64"}
HALVES = ("bf16", "f16")
VERSION = 1


@dataclass(eq=False)
class Value:
    """A tensor in one of the step's memory regions. The `arena` is planned by lifetimes; in the other regions a
    value keeps its memory for as long as the program runs. Values are compared by identity."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    region: str = "arena"
    offset: int = 0
    # The memory layout of images and filters; the shape is always (N, C, H, W).
    channels_last: bool = False
    # A view shares the memory of this value.
    base: "Value | None" = None
    # The initial content, a torch tensor.
    content: Any = None

    @property
    def size(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.size * BYTES[self.dtype]

    @property
    def owner(self) -> "Value":
        return self if self.base is None else self.base.owner

    @property
    def strides(self) -> tuple[int, ...]:
        order = (0, 2, 3, 1) if self.channels_last else tuple(range(len(self.shape)))
        strides, stride = [0] * len(self.shape), 1
        for axis in reversed(order):
            strides[axis] = stride
            stride *= self.shape[axis]
        return tuple(strides)

    def like(self, base: "Value | None" = None) -> "Value":
        """A value of the same shape, type and layout."""
        return Value("", self.shape, self.dtype, channels_last=self.channels_last, base=base)

    def describe(self) -> dict[str, Any]:
        fields = ("name", "shape", "strides", "channels_last", "dtype", "region", "offset")
        return {name: getattr(self, name) for name in fields}

    def as_bytes(self, tensor: Any) -> bytes:
        """A torch tensor in the type and layout of this value."""
        import torch

        # Truth values are bytes. No input has float64, but constants may.
        dtype = {"u8": "uint8", "f64": "float64"}.get(self.dtype) or TORCH_DTYPES[self.dtype]
        tensor = tensor.detach().cpu().to(getattr(torch, dtype))
        if self.channels_last:
            tensor = tensor.permute(0, 2, 3, 1)
        data: bytes = tensor.reshape(-1).contiguous().view(torch.uint8).numpy().tobytes()
        return data


@dataclass(eq=False)
class Op:
    """One call of the step. Inputs and outputs are named by their role; optional roles may be absent."""

    kind: str
    inputs: dict[str, Value]
    outputs: dict[str, Value]
    attributes: dict[str, Any] = field(default_factory=dict)
    origin: Origin = field(default=Origin())

    def values(self) -> Iterator[Value]:
        yield from self.inputs.values()
        yield from self.outputs.values()


@dataclass
class Parameter:
    """A parameter of the model: the value that ops read, its gradient, and the float32 master that the optimizer
    updates. A parameter that is frozen, or that the loss does not depend on, has neither gradient nor master."""

    name: str
    value: Value
    trained: bool = True
    master: Value | None = None
    gradient: Value | None = None


@dataclass
class ExecutionPlan:
    """Capturing fills in the forward pass; lowering adds the backward pass, the update and the memory layout."""

    dtype: str
    channels_last: bool
    ops: list[Op] = field(default_factory=list)
    inputs: list[Value] = field(default_factory=list)
    outputs: list[Value] = field(default_factory=list)
    parameters: list[Parameter] = field(default_factory=list)
    regions: dict[str, int] = field(default_factory=dict)
    # The source of the kernels that were generated for this plan, empty without any, and the kind of their device.
    kernels: str = ""
    device: str = "cpu"
    # The origin of the ops that are emitted now.
    origin: Origin = field(default=Origin())

    def make(
        self, shape: Iterable[int], dtype: str = "", name: str = "", region: str = "arena", content: Any = None
    ) -> Value:
        """A value in the plan's own type and layout, unless `dtype` says otherwise."""
        shape = tuple(shape)
        channels_last = self.channels_last and len(shape) == 4
        return Value(name, shape, dtype or self.dtype, region, channels_last=channels_last, content=content)

    def emit(
        self, op_kind: str, inputs: Mapping[str, Value | None], outputs: dict[str, Value], **attributes: Any
    ) -> None:
        present = {role: value for role, value in inputs.items() if value is not None}
        self.ops.append(Op(op_kind, present, outputs, attributes, self.origin))

    def apply(
        self, op_kind: str, inputs: Mapping[str, Value | None], shape: Iterable[int], **attributes: Any
    ) -> Value:
        """Emits an op with a single result `y` of the plan's type, and returns it."""
        y = self.make(shape)
        self.emit(op_kind, inputs, {"y": y}, **attributes)
        return y

    def values(self) -> list[Value]:
        """Every value once, in the order of its first use, together with the owners of views."""
        of_ops = [v for op in self.ops for v in op.values()]
        of_parameters = [v for p in self.parameters for v in (p.value, p.master, p.gradient) if v is not None]
        used = [*self.inputs, *of_ops, *self.outputs, *of_parameters]
        return list(dict.fromkeys(v for value in used for v in (value, value.owner)))

    def producer(self, value: Value) -> Op | None:
        return next((op for op in self.ops if value in op.outputs.values()), None)

    def write(self, folder: Path, batches: Iterable[Iterable[Any]]) -> None:
        """Writes `plan.json`, the initial contents of the values to `data.bin`, and the batches that the program
        rotates through to `batches.bin`."""
        with (folder / "batches.bin").open("wb") as file:
            for batch in batches:
                for value, tensor in zip(self.inputs, batch, strict=True):
                    file.write(value.as_bytes(tensor))
        if self.kernels:
            from tare.rungs.vendor.fusion.build import build_kernels

            build_kernels(self.kernels, self.device, folder)
        values = self.values()
        index = {value: i for i, value in enumerate(values)}
        contents = []
        with (folder / "data.bin").open("wb") as file:
            for value in values:
                if value.content is not None:
                    contents.append({"value": index[value], "at": file.tell()})
                    file.write(value.as_bytes(value.content))
        document = {
            "version": VERSION,
            "dtype": self.dtype,
            # Where weights are rounded to a half type, an update is mostly rounding error and proves nothing.
            "updates": not any(op.attributes.get("round") for op in self.ops),
            "regions": self.regions,
            "values": [{**value.describe(), "owner": index[value.owner]} for value in values],
            "ops": [
                {
                    "kind": op.kind,
                    "in": {role: index[v] for role, v in op.inputs.items()},
                    "out": {role: index[v] for role, v in op.outputs.items()},
                    "attributes": op.attributes,
                    "module": op.origin.module,
                    "phase": op.origin.phase,
                    "operators": op.origin.operators,
                }
                for op in self.ops
            ],
            "inputs": [index[v] for v in self.inputs],
            "outputs": [index[v] for v in self.outputs],
            "parameters": [
                {"name": p.name, "master": index[p.master], "gradient": index[p.gradient]}
                for p in self.parameters
                if p.master is not None and p.gradient is not None
            ],
            "fixed": [{"name": p.name, "value": index[p.value]} for p in self.parameters if p.master is None],
            "contents": contents,
        }
        (folder / "plan.json").write_text(json.dumps(document))
