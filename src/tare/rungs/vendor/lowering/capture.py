"""Exports a torch module and reads the exported graph into an execution plan: the forward pass, and the loss where
the case trains."""

import operator
import warnings
from typing import Any

from tare.errors import Unsupported, brief
from tare.rungs.vendor.lowering.operators import ACCEPTED, HANDLERS
from tare.rungs.vendor.lowering.origin import module_of, origin_of
from tare.rungs.vendor.lowering.plan import TORCH_DTYPES, ExecutionPlan, Parameter, Value

_PLAN_DTYPES = {f"torch.{theirs}": ours for ours, theirs in TORCH_DTYPES.items()}
# Operators that are gone once torch has traced the program again.
REPLACED_BY_TORCH = ("aten.lift_fresh_copy.default", "aten.detach.default", "aten.alias.default")
# Operators that may return an argument itself, without saying so in their schema.
MAY_RETURN_ARGUMENT = ("dropout", "broadcast_tensors")


def export(module: Any, args: tuple[Any, ...]) -> Any:
    """torch.export's program of a module."""
    import torch

    with warnings.catch_warnings():
        # torch.export warns about an LSTM's list of its own weights, which nothing here uses.
        warnings.simplefilter("ignore")
        try:
            return torch.export.export(module, args)
        except Exception as error:  # torch raises whatever the module's own code runs into
            raise Unsupported(f"torch.export cannot export it: {brief(error)}") from error


def readable(exported: Any) -> Any:
    """An exported program in a form that `read_program` can read, if it has a handler for every call."""
    for node in _calls(exported.graph):
        name = functional_name(node)
        if name not in HANDLERS and name not in REPLACED_BY_TORCH:
            place = module_of(node)
            raise Unsupported(f"the vendor rung has no operator for {name}{f' (in {place})' if place else ''}")
    # An empty table of decompositions only replaces calls in place. It traces the module again, which takes twice
    # as long as the export, so it is done only where it is needed.
    return exported if is_readable(exported.graph) else exported.run_decompositions({})


def is_readable(graph: Any) -> bool:
    """Whether every call has a handler, and every call in place can be read as its functional variant."""
    return all(
        functional_name(node) in HANDLERS and (not in_place(node) or _owns_memory(node)) for node in _calls(graph)
    )


def _calls(graph: Any) -> list[Any]:
    return [node for node in graph.nodes if node.op == "call_function" and node.target is not operator.getitem]


def in_place(node: Any) -> bool:
    """`aten.relu_.default` works in place, `aten.relu.default` does not."""
    return _base_name(node).endswith("_")


def functional_name(node: Any) -> str:
    """The name of the call's variant that does not work in place."""
    name, base = str(node.target), _base_name(node)
    return name.replace(f".{base}.", f".{base[:-1]}.", 1) if base.endswith("_") else name


def memory_node(node: Any) -> Any:
    """The node that first stood for a node's memory: a call in place returns its argument."""
    while in_place(node):
        node = node.args[0]
    return node


def _base_name(node: Any) -> str:
    """`relu_` of `aten::relu_`; empty for targets that are not ATen operators."""
    schema = getattr(node.target, "_schema", None)
    return schema.name.partition("::")[2] if schema is not None else ""


def _owns_memory(node: Any) -> bool:
    """Whether the memory that a call changes in place is neither a view of a value nor viewed by one."""
    source = memory_node(node)
    # Placeholders are the batch, the weights and the buffers, which are not views.
    if source.op != "placeholder" and not _allocates(source):
        return False
    aliases = [other for other in node.graph.nodes if other < node and memory_node(other) is source]
    readers = [user for alias in aliases for user in alias.users if user < node]
    return all(in_place(reader) or _allocates(reader) for reader in readers)


def _allocates(node: Any) -> bool:
    """Whether the result of a call never shares memory with an argument."""
    schema = getattr(node.target, "_schema", None)
    if schema is None or _base_name(node) in MAY_RETURN_ARGUMENT:
        return False
    return not any(result.alias_info for result in schema.returns)


def capture(
    module: Any, tensors: tuple[Any, ...], plan: ExecutionPlan, prefix: str = "", targets: int = 0
) -> None:
    """Fills an empty plan from a module; `read_program` says how."""
    read_program(readable(export(module, examples(tensors))), module, tensors, plan, prefix, targets)


def examples(tensors: tuple[Any, ...]) -> tuple[Any, ...]:
    """What a module is exported with: in float32 on the CPU whatever the plan's type. Only shapes matter, so they
    need not be filled."""
    import torch

    return tuple(torch.empty_like(t, dtype=torch.float32) if t.is_floating_point() else t for t in tensors)


def read_program(
    exported: Any, module: Any, tensors: tuple[Any, ...], plan: ExecutionPlan, prefix: str, targets: int
) -> None:
    """Fills an empty plan from a module's exported program. `tensors` are the step's batch, with `targets` of the
    loss at the end; `prefix` is removed from the names of parameters."""
    from torch.fx import Node

    signature = exported.graph_signature
    # Tied weights are two inputs of the graph.
    parameters = dict(module.named_parameters(remove_duplicate=False))
    buffers = {**dict(module.named_buffers(remove_duplicate=False)), **exported.constants}
    values: dict[Any, Any] = {}
    parameter_values: dict[int, Value] = {}
    buffer_values: dict[str, tuple[Any, Value]] = {}
    batch, inputs = iter(tensors), iter(signature.input_specs)
    for node in exported.graph.nodes:
        if node.op == "placeholder":
            name = next(inputs).target
            if name in parameters:
                tensor = parameters[name]
                if id(tensor) not in parameter_values:
                    parameter_values[id(tensor)] = _parameter(plan, name.removeprefix(prefix), tensor)
                values[node] = parameter_values[id(tensor)]
            elif name in buffers:
                values[node] = _buffer(plan, name.removeprefix(prefix), buffers[name])
                buffer_values[name] = node, values[node]
            else:
                values[node] = _input(plan, next(batch), is_target=len(plan.inputs) >= len(tensors) - targets)
        elif node.op == "call_function":
            # A call in place gives its memory a new value, which every later reader of any alias reads.
            values[memory_node(node)] = _call(plan, node, values)
        elif node.op == "output":
            results = node.args[0]
            if not all(isinstance(result, Node) for result in results):
                raise Unsupported("a result that is no tensor")
            names = set(signature.user_outputs)
            plan.outputs = [values[memory_node(result)] for result in results if result.name in names]
            if any(value.dtype == "i64" for value in plan.outputs):
                raise Unsupported("a result of integers")
            # The decomposed program returns the new content of the buffers that it changes.
            mutated = [(signature.buffers_to_mutate.get(result.name), result) for result in results]
            after = [(name, values[memory_node(result)]) for name, result in mutated if name]
            after += [(name, values[node]) for name, (node, _) in buffer_values.items()]
            for name, value in after:
                # Only a batch norm may change a buffer: it updates its statistics in place.
                if value is not buffer_values[name][1]:
                    raise Unsupported(f"a buffer that every step changes ({buffer_values[name][1].name})")
    _drop_unread_softmax(plan)


def _drop_unread_softmax(plan: ExecutionPlan) -> None:
    """A loss of a log-softmax computes the softmax itself, so usually nothing else reads it."""
    read = {v.owner for op in plan.ops for v in op.inputs.values()} | {v.owner for v in plan.outputs}
    plan.ops = [op for op in plan.ops if op.kind != "log_softmax" or op.outputs["y"] in read]


def _parameter(plan: ExecutionPlan, name: str, tensor: Any) -> Value:
    value = plan.make(tensor.shape, name=name, region="weights", content=tensor.detach())
    plan.parameters.append(Parameter(name, value, trained=tensor.requires_grad))
    return value


def _buffer(plan: ExecutionPlan, name: str, tensor: Any) -> Value:
    dtype = "f32" if tensor.is_floating_point() else "i64"
    return plan.make(tensor.shape, dtype, name, region="state", content=tensor.detach())


def _input(plan: ExecutionPlan, tensor: Any, is_target: bool) -> Value:
    dtype = _PLAN_DTYPES.get(str(tensor.dtype))
    if dtype is None:
        raise Unsupported(f"an input of {tensor.dtype}")
    value = plan.make(tensor.shape, dtype, f"input{len(plan.inputs)}", region="input", content=tensor)
    plan.inputs.append(value)
    # Autocast keeps the batch in float32 and casts it in every step, and so does the plan. Losses read float32.
    if dtype == "f32" and plan.dtype != "f32" and not is_target:
        return plan.apply("cast", {"x": value}, tensor.shape)
    return value


def _call(plan: ExecutionPlan, node: Any, values: dict[Any, Any]) -> Any:
    if node.target is operator.getitem:
        return values[node.args[0]][node.args[1]]
    name = functional_name(node)
    if name not in HANDLERS:
        raise Unsupported(f"the vendor rung has no operator for {name}")
    arguments = _bind(node, values)
    flat = [item for arg in arguments.values() for item in (arg if isinstance(arg, list | tuple) else [arg])]
    tensors = [item for item in flat if isinstance(item, Value)]
    if any(tensor.dtype == "i64" for tensor in tensors):
        if name == "aten.add.Tensor" and arguments["self"].region == "state" and arguments["other"] == 1:
            # A batch norm's counter of batches, which nothing in the step reads.
            return arguments["self"]
        if "integers" not in ACCEPTED[name]:
            raise Unsupported(f"{name} of integers")
    if "scalars" not in ACCEPTED[name] and any(not tensor.shape for tensor in tensors):
        raise Unsupported(f"{name} of a tensor without dimensions")
    mixes_types = plan.dtype != "f32" and any(tensor.dtype == "f32" for tensor in tensors)
    if mixes_types and "float32" not in ACCEPTED[name]:
        raise Unsupported(f"{name} of float32 in a step of {plan.dtype}")
    plan.origin = origin_of(node)
    return HANDLERS[name](plan, _result_shape(node.meta["val"]), **arguments)


def _result_shape(result: Any) -> Any:
    """The shape of a call's result, or the shapes of its results."""
    return [tuple(part.shape) for part in result] if isinstance(result, list | tuple) else tuple(result.shape)


def _bind(node: Any, values: dict[Any, Any]) -> dict[str, Any]:
    """A call's arguments by their names in the schema, with values in place of nodes."""
    import torch
    from torch.fx import Node, map_arg

    # Handlers follow the schema of the functional variant, which may name an argument differently.
    target = operator.attrgetter(functional_name(node))(torch.ops) if in_place(node) else node.target
    bound = {}
    for i, argument in enumerate(target._schema.arguments):
        keyword = node.kwargs.get(argument.name, argument.default_value)
        value = node.args[i] if i < len(node.args) else keyword
        bound[argument.name] = map_arg(value, lambda n: values[memory_node(n)] if isinstance(n, Node) else n)
    return bound
