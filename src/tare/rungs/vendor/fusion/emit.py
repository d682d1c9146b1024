"""Writes groups and calls into an execution plan, and the kernels of the groups into one C++ source."""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from tare.errors import Unsupported
from tare.rungs.vendor.fusion import operators  # noqa: F401 - they register themselves
from tare.rungs.vendor.fusion.cpu_source import CpuWriter
from tare.rungs.vendor.fusion.cuda_source import CudaWriter
from tare.rungs.vendor.fusion.groups import Group, Item, make_groups
from tare.rungs.vendor.fusion.kernel import FusedKernel
from tare.rungs.vendor.fusion.reader import Reader, plan_dtype
from tare.rungs.vendor.fusion.tensors import Assembled, LibraryCall, Pointwise, Tensor, TensorView, whole
from tare.rungs.vendor.fusion.trace import TracedStep
from tare.rungs.vendor.fusion.writer import Function, KernelWriter
from tare.rungs.vendor.lowering.origin import Origin, merged_origin
from tare.rungs.vendor.lowering.plan import HALVES, ExecutionPlan, Parameter, Value

OPTIONAL = ("index", "bag", "sizes")
# Operators of torch that name a kernel, at most, and those that say nothing of what it computes.
MOST_NAMED = 4
MOVING = ("", "clone", "expand", "view", "t", "transpose")


class Language(NamedTuple):
    """What the kernels of a device are written in."""

    prelude: str
    writer: Callable[[FusedKernel], KernelWriter]


LANGUAGES = {
    "cpu": Language('#include "halves.hpp"\n#include "expressions.hpp"', CpuWriter),
    "cuda": Language('#include "expressions.cuh"', CudaWriter),
}


@dataclass
class Kernels:
    """The functions of a plan, each once: layers of one shape share theirs."""

    language: Language
    functions: dict[tuple[str, str], str] = field(default_factory=dict)

    def name(self, function: Function, origin: Origin) -> str:
        """`fused_native_layer_norm_add_3`: what a profiler shows, and the file that tare emit writes."""
        plain = dict.fromkeys(name.removesuffix("_copy").strip("_") for name in origin.operators)
        telling = [name for name in plain if name not in MOVING][:MOST_NAMED]
        name = re.sub(r"[\W_]+", "_", " ".join(["fused", *(telling or ["copy"]), str(len(self.functions))]))
        return self.functions.setdefault((function.head, function.body), name)

    def source(self) -> str:
        functions = [f"{head.format(name=name)}{body}" for (head, body), name in self.functions.items()]
        return "\n\n".join([self.language.prelude, *functions, ""])


def emit_step(plan: ExecutionPlan, step: TracedStep, tensors: Sequence[Any]) -> None:
    """Fills an empty plan with the step, up to the update of the weights."""
    reader = Reader(plan)
    states = {name: _state(plan, name, step.buffers[name]) for name in step.changed}
    results = reader.read(step.graph, _placeholders(plan, step, tensors, states))
    outputs, results = results[: step.outputs], results[step.outputs :]
    gradients, after = results[: len(step.trained)], results[len(step.trained) :]
    places = {name: at for at, name in enumerate(step.buffers)}
    kept = [(states[name], after[places[name]]) for name in step.changed]
    kept += [(plan.inputs[at], after[len(places) + at]) for at in step.changed_inputs]
    taken: set[Tensor] = set()
    by_name = {parameter.name: parameter for parameter in plan.parameters}
    written: list[TensorView] = []
    for name, gradient in zip(step.trained, gradients, strict=True):
        # Where it is a number, the loss does not depend on the parameter.
        if isinstance(gradient, TensorView):
            parameter, view = by_name[_plain(name)], _computed(reader, gradient, taken)
            parameter.gradient = plan.make(
                parameter.value.shape, view.dtype, f"gradient of {parameter.name}", "gradient"
            )
            view.tensor.value = parameter.gradient
            written.append(view)
    finals = [_computed(reader, reader.as_view(output), taken) for output in outputs]
    if any(view.dtype not in ("f32", *HALVES) for view in finals):
        raise Unsupported("a result of integers or of float64")
    changes = [(value, _computed(reader, reader.as_view(result), taken)) for value, result in kept]
    stored = [*finals, *(view for _, view in changes)]
    emit(plan, make_groups(reader.tensors, [view.tensor for view in (*written, *stored)]), stored)
    for value, view in changes:
        # At the end, when nothing reads the state of before any more. Words of four bytes, whatever they are.
        # What a half type lacks to whole words is padding in either place.
        plan.origin = Origin(value.name.rpartition(".")[0], "update")
        words = -(-value.nbytes // 4)
        whole_tensor = {
            "rows": 1,
            "width": words,
            "from_pitch": words,
            "from_offset": 0,
            "to_pitch": words,
            "to_offset": 0,
            "dtype": "f32",
        }
        plan.emit("copy_block", {"x": view.tensor.value}, {"y": value}, **whole_tensor)
    for view in finals:
        value = view.tensor.value  # type: ignore[assignment]
        plan.outputs.append(
            value if value.shape == view.shape else Value("", view.shape, value.dtype, base=value.owner)
        )


def _placeholders(
    plan: ExecutionPlan, step: TracedStep, tensors: Sequence[Any], states: Mapping[str, Value]
) -> list[Any]:
    arguments: list[Any] = []
    for name, tensor in step.parameters.items():
        dtype = plan_dtype(tensor.dtype, f"the weight {_plain(name)}")
        value = plan.make(tensor.shape, dtype, _plain(name), "weights", tensor.detach())
        plan.parameters.append(Parameter(_plain(name), value, trained=name in step.trained))
        arguments.append(_stored(value))
    for name, buffer in step.buffers.items():
        # A buffer that no step changes is known ahead of time.
        arguments.append(_stored(states[name]) if name in states else buffer.detach())
    for tensor in tensors:
        dtype = plan_dtype(tensor.dtype, "an input")
        if dtype == "f64" or str(tensor.dtype) == "torch.int32":
            raise Unsupported(f"an input of {tensor.dtype}")
        plan.inputs.append(plan.make(tensor.shape, dtype, f"input{len(plan.inputs)}", "input", tensor))
        arguments.append(_stored(plan.inputs[-1]))
    return arguments


def _state(plan: ExecutionPlan, name: str, buffer: Any) -> Value:
    dtype = plan_dtype(buffer.dtype, f"the buffer {_plain(name)}")
    if dtype == "u8":
        raise Unsupported(f"a buffer of truth values that every step changes ({_plain(name)})")
    return plan.make(buffer.shape, dtype, _plain(name), "state", buffer.detach())


def _stored(value: Value) -> TensorView:
    return whole(Tensor(value.shape, value.dtype, value=value))


def _plain(name: str) -> str:
    return name.removeprefix("model.")


def _computed(reader: Reader, view: TensorView, taken: set[Tensor]) -> TensorView:
    """A result with memory of its own, in its own order."""
    tensor = view.tensor
    is_own = view.is_linear and tensor.value is None and tensor not in taken and not isinstance(tensor, Assembled)
    if not is_own or (isinstance(tensor, Pointwise) and tensor.target is not None):
        view = reader.copy_apart(view)
    taken.add(view.tensor)
    return view


def emit(plan: ExecutionPlan, items: Sequence[Item], finals: Sequence[TensorView]) -> None:
    kernels = Kernels(LANGUAGES[plan.device])
    item_of: dict[Tensor, Item] = {}
    for item in items:
        for tensor in item.members if isinstance(item, Group) else item.results.values():
            item_of[tensor] = item
    stored = {view.tensor for view in finals} | _read_elsewhere(items, item_of)
    for item in items:
        if isinstance(item, Group):
            _emit_group(plan, item, stored, kernels)
        else:
            _emit_call(plan, item, stored)
    plan.kernels = kernels.source() if kernels.functions else ""


def _read_elsewhere(items: Sequence[Item], item_of: Mapping[Tensor, Item]) -> set[Tensor]:
    """What has to be stored because another item reads it."""
    stored: set[Tensor] = set()
    for item in items:
        for tensor in item.members if isinstance(item, Group) else item.results.values():
            if tensor.value is not None or getattr(tensor, "target", None) is not None:
                stored.add(tensor)
            for read in tensor.reads():
                if item_of.get(read, item) is not item:
                    stored.add(read)
    return stored


def _value(plan: ExecutionPlan, tensor: Tensor) -> Value:
    """The memory of a tensor, made when it is first asked for."""
    if isinstance(tensor, Pointwise) and tensor.target is not None:
        return _value(plan, tensor.target[0])
    if tensor.value is None:
        tensor.value = plan.make(tensor.shape, tensor.dtype)
    return tensor.value


def _emit_group(plan: ExecutionPlan, group: Group, stored: set[Tensor], kernels: Kernels) -> None:
    kernel = FusedKernel(group, stored & set(group.members))
    function = kernels.language.writer(kernel).write()
    inputs = {f"i{at}": _value(plan, tensor) for at, tensor in enumerate(kernel.inputs)}
    outputs = {f"o{at}": _value(plan, tensor) for at, tensor in enumerate(kernel.outputs)}
    plan.origin = merged_origin([member.origin for member in group.members])
    name = kernels.name(function, plan.origin)
    plan.emit("fused", inputs, outputs, kernel=name, **function.attributes)


def _emit_call(plan: ExecutionPlan, call: LibraryCall, stored: set[Tensor]) -> None:
    inputs: dict[str, Value | None] = {}
    for role, view in call.inputs.items():
        value = _value(plan, view.tensor)
        strided = call.kind == "matmul" or value.shape == view.shape
        inputs[role] = value if strided else Value("", view.shape, value.dtype, base=value.owner)
    outputs = {}
    for role, result in call.results.items():
        # Positions of maxima and the like are for the backward pass alone.
        if role in OPTIONAL and result not in stored:
            continue
        value = _value(plan, result)
        outputs[role] = (
            value if value.shape == result.shape else Value("", result.shape, value.dtype, base=value.owner)
        )
    plan.origin = call.origin
    # A call computes in the type of what it reads, whatever the plan's own is.
    read = [view.dtype for view in call.inputs.values()]
    dtype = next((dtype for dtype in read if dtype in HALVES), "f32")
    plan.emit(call.kind, inputs, outputs, dtype=dtype, **call.attributes)
