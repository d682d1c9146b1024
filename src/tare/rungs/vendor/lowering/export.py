"""torch.export's graph of a module in the form that `capture` reads: no call changes what another one reads."""

import operator
import warnings
from typing import Any

from tare.errors import Unsupported, brief
from tare.rungs.vendor.lowering.handlers import HANDLERS

# Calls whose result is memory of its own in every case. (A dropout that drops nothing returns its argument.)
FRESH = {
    "aten.add.Tensor",
    "aten.adaptive_avg_pool2d.default",
    "aten.avg_pool2d.default",
    "aten.batch_norm.default",
    "aten.cat.default",
    "aten.conv2d.default",
    "aten.conv_transpose2d.input",
    "aten.linear.default",
    "aten.max_pool2d.default",
    "aten.mul.Tensor",
}


def export(module: Any, args: tuple[Any, ...]) -> Any:
    import torch

    with warnings.catch_warnings():
        # An LSTM's list of its own weights is reported as state that export does not know; it is not used.
        warnings.simplefilter("ignore")
        try:
            exported = torch.export.export(module, args)
            # torch can rewrite what is in place; without a table of decompositions all other calls stay whole. But
            # it traces everything anew for that, which takes twice as long as the export.
            return exported if is_readable(exported.graph) else exported.run_decompositions({})
        except Exception as error:  # torch raises whatever the module's own code runs into
            raise Unsupported(f"torch.export cannot export it: {brief(error)}") from error


def is_readable(graph: Any) -> bool:
    """Whether every call has a handler, and those in place can be read as if they were not."""
    calls = [node for node in graph.nodes if node.op == "call_function" and node.target is not operator.getitem]
    return all(functional_name(node) in HANDLERS and (not in_place(node) or _owns(node)) for node in calls)


def in_place(node: Any) -> bool:
    """`aten.relu_.default` is, `aten.relu.default` is not."""
    return _base_name(node).endswith("_")


def functional_name(node: Any) -> str:
    """The name of the same call that leaves its argument as it was."""
    name, base = str(node.target), _base_name(node)
    return name.replace(f".{base}.", f".{base[:-1]}.", 1) if base.endswith("_") else name


def schema(node: Any) -> Any:
    """The schema of the same call that leaves its argument as it was: in place it may have another name."""
    import torch

    return operator.attrgetter(functional_name(node))(torch.ops)._schema if in_place(node) else node.target._schema


def memory(node: Any) -> Any:
    """The node that first stood for a node's memory: a call in place returns what it was given."""
    while in_place(node):
        node = node.args[0]
    return node


def _base_name(node: Any) -> str:
    """`relu_` of `aten::relu_`; nothing for what is no operator of torch's."""
    schema = getattr(node.target, "_schema", None)
    return schema.name.partition("::")[2] if schema is not None else ""


def _owns(node: Any) -> bool:
    """Whether what a call changes is nobody else's memory: no part of another value, and nothing is part of it."""
    first = memory(node)
    # Placeholders are the batch and the weights, which nothing else is part of; or a counter of batches.
    if first.op != "placeholder" and str(first.target) not in FRESH:
        return False
    same = [one for one in node.graph.nodes if one < node and memory(one) is first]
    readers = [user for one in same for user in one.users if user < node]
    return all(in_place(reader) or str(reader.target) in FRESH for reader in readers)
