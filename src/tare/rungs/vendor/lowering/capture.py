"""A torch module, exported and read into a step: the forward pass, and the loss where it trains."""

import operator
from typing import Any

from tare.errors import Unsupported
from tare.rungs.vendor.lowering import losses, operators, pointwise, pools, shapes
from tare.rungs.vendor.lowering.export import export, functional_name, memory, schema
from tare.rungs.vendor.lowering.handlers import HANDLERS
from tare.rungs.vendor.lowering.plan import Parameter, Step, Value

# Importing them registers the operators that they read.
READ = (losses, operators, pointwise, pools, shapes)
# The calls that integers can be given to: classes, and other shapes of them. All others compute with floats.
OF_INTEGERS = {
    "aten.clone.default",
    "aten.cross_entropy_loss.default",
    "aten.flatten.using_ints",
    "aten.nll_loss_nd.default",
    "aten.reshape.default",
    "aten.squeeze.dim",
    "aten.unsqueeze.default",
    "aten.view.default",
}
# Those that take a tensor without dimensions: the executors look for channels in the last one.
OF_SINGLE = {"aten.clone.default", "aten.reshape.default", "aten.unsqueeze.default", "aten.view.default"}
# Those that take float32 in a step of a half type: a batch norm's statistics, a target, other shapes of it.
OF_FLOAT32 = OF_INTEGERS | {
    "aten._native_batch_norm_legit_functional.default",
    "aten._native_batch_norm_legit_no_training.default",
    "aten.batch_norm.default",
    "aten.broadcast_tensors.default",
    "aten.mse_loss.default",
}
_INPUT_DTYPES = {"torch.float32": "f32", "torch.bfloat16": "bf16", "torch.float16": "f16", "torch.int64": "i64"}


def capture(module: Any, tensors: tuple[Any, ...], step: Step, prefix: str = "", targets: int = 0) -> None:
    """Fills an empty step. The module is float32 on the CPU, whatever the step's type: only shapes and names
    count. `tensors` are the batch as the step will get it, the `targets` of the loss last; `prefix` is cut off the
    names of weights."""
    from torch.fx import Node

    exported = export(module, tuple(_exportable(t) for t in tensors))
    signature = exported.graph_signature
    # Two names of one weight are two inputs of the graph.
    weights = dict(module.named_parameters(remove_duplicate=False))
    buffers = {**dict(module.named_buffers(remove_duplicate=False)), **exported.constants}
    # The signature makes these tables anew whenever it is asked.
    weight_names = signature.inputs_to_parameters
    buffer_names = signature.inputs_to_buffers | signature.inputs_to_lifted_tensor_constants
    known: dict[Any, Any] = {}
    values: dict[int, Value] = {}
    kept: dict[str, tuple[Any, Value]] = {}
    batch = iter(tensors)
    for node in exported.graph.nodes:
        if node.op == "placeholder":
            weight, buffer = weight_names.get(node.name), buffer_names.get(node.name)
            if weight is not None:
                tensor = weights[weight]
                if id(tensor) not in values:
                    values[id(tensor)] = _weight(step, weight.removeprefix(prefix), tensor)
                known[node] = values[id(tensor)]
            elif buffer is not None:
                known[node] = _buffer(step, buffer.removeprefix(prefix), buffers[buffer])
                kept[buffer] = node, known[node]
            else:
                known[node] = _input(step, next(batch), is_target=len(step.inputs) >= len(tensors) - targets)
        elif node.op == "call_function":
            # A call in place gives its memory a new value: whoever reads it later, by whichever name, reads that.
            known[memory(node)] = _call(step, node, known)
        elif node.op == "output":
            names = set(signature.user_outputs)
            if not all(isinstance(n, Node) for n in node.args[0]):
                raise Unsupported("a result that is no tensor")
            step.outputs = [known[memory(n)] for n in node.args[0] if n.name in names]
            if any(value.dtype == "i64" for value in step.outputs):
                raise Unsupported("a result of integers")
            # What torch has rewritten returns what a buffer becomes.
            changed = {n: signature.buffers_to_mutate.get(n.name) for n in node.args[0]}
            _check_kept(kept, [(name, known[memory(n)]) for n, name in changed.items() if name], known)
    _drop_unread_softmax(step)


def _check_kept(kept: dict[str, tuple[Any, Value]], changed: list[tuple[str, Any]], known: dict[Any, Any]) -> None:
    """Only a batch norm changes what the next step finds: its statistics, where they lie."""
    for name, value in [*changed, *((name, known[node]) for name, (node, _) in kept.items())]:
        if value is not kept[name][1]:
            raise Unsupported(f"a buffer that every step changes ({kept[name][1].name})")


def _drop_unread_softmax(step: Step) -> None:
    """A loss that takes a log-softmax computes it itself; someone else may read it still."""
    read = {id(v.owner) for op in step.ops for v in op.inputs.values()} | {id(v.owner) for v in step.outputs}
    step.ops = [op for op in step.ops if op.kind != "log_softmax" or id(op.outputs["y"]) in read]


def _exportable(tensor: Any) -> Any:
    """Only its shape is looked at: a float32 twin need not be filled."""
    import torch

    return torch.empty_like(tensor, dtype=torch.float32) if tensor.is_floating_point() else tensor


def _weight(step: Step, name: str, tensor: Any) -> Value:
    value = step.make(tensor.shape, name=name, region="weights", content=tensor.detach())
    step.parameters.append(Parameter(name, value, trained=tensor.requires_grad))
    return value


def _buffer(step: Step, name: str, tensor: Any) -> Value:
    dtype = "f32" if tensor.is_floating_point() else "i64"
    return step.make(tensor.shape, dtype, name, region="state", content=tensor.detach())


def _input(step: Step, tensor: Any, is_target: bool) -> Value:
    dtype = _INPUT_DTYPES.get(str(tensor.dtype))
    if dtype is None:
        raise Unsupported(f"an input of {tensor.dtype}")
    value = step.make(tensor.shape, dtype, f"input{len(step.inputs)}", region="input", content=tensor)
    step.inputs.append(value)
    # Autocast keeps the batch in float32 and casts it in every step; so does this one. Losses take it as it is.
    if dtype == "f32" and step.dtype != "f32" and not is_target:
        cast = step.make(tensor.shape)
        step.emit("cast", {"x": value}, {"y": cast})
        return cast
    return value


def _call(step: Step, node: Any, known: dict[Any, Any]) -> Any:
    if node.target is operator.getitem:
        return known[node.args[0]][node.args[1]]
    name = functional_name(node)
    if name not in HANDLERS:
        raise Unsupported(f"the vendor rung has no operator for {name}")
    given = _bind(node, known)
    if any(value.dtype == "i64" for value in _values(given)):
        if name == "aten.add.Tensor" and given["self"].region == "state" and given["other"] == 1:
            # A counter of batches, which a batch norm keeps: nothing in the step reads it.
            return given["self"]
        if name not in OF_INTEGERS:
            raise Unsupported(f"{name} of integers")
    if name not in OF_SINGLE and any(not value.shape for value in _values(given)):
        raise Unsupported(f"{name} of a tensor without dimensions")
    if step.dtype != "f32" and name not in OF_FLOAT32 and any(value.dtype == "f32" for value in _values(given)):
        raise Unsupported(f"{name} of float32 in a step of {step.dtype}")
    return HANDLERS[name](step, **given)


def _values(given: dict[str, Any]) -> list[Value]:
    """The tensors among a call's arguments, those in lists included."""
    flat = [one for value in given.values() for one in (value if isinstance(value, list | tuple) else [value])]
    return [one for one in flat if isinstance(one, Value)]


def _bind(node: Any, known: dict[Any, Any]) -> dict[str, Any]:
    """A call's arguments by their names in the schema, with values in the place of nodes."""
    from torch.fx import Node, map_arg

    bound = {}
    for i, argument in enumerate(schema(node).arguments):
        named = node.kwargs.get(argument.name, argument.default_value)
        value = node.args[i] if i < len(node.args) else named
        # The step itself has the name that a slice's stride has in the schema.
        name = "step_" if argument.name == "step" else argument.name
        bound[name] = map_arg(value, lambda n: known[memory(n)] if isinstance(n, Node) else n)
    return bound
