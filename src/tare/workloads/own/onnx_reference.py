"""The reference of an ONNX file: onnx's own evaluator, on the file as it is or as if exported in another type.

It is slow and plain, shares no code with the runtimes that it judges, and is never timed.
"""

from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tare.errors import BadInput, brief

if TYPE_CHECKING:
    from torch import nn


@cache
def load(path: Path) -> Any:
    """The checked model of a file."""
    try:
        import onnx
    except ImportError:
        raise BadInput(f"{path.name}: reading an ONNX file needs onnx: pip install onnx") from None
    try:
        # Of a file, so that weights in other files are checked as well.
        onnx.checker.check_model(str(path))
        return onnx.load(str(path))
    except Exception as error:
        raise BadInput(f"{path.name} is no valid ONNX file: {type(error).__name__}: {brief(error)}") from error


def input_names(model: Any) -> list[str]:
    """Of the inputs that are no weights: a file may list those too."""
    weights = {tensor.name for tensor in model.graph.initializer}
    return [entry.name for entry in model.graph.input if entry.name not in weights]


def external_files(path: Path) -> list[str]:
    import onnx

    graph = onnx.load(str(path), load_external_data=False).graph
    return [
        entry.value for tensor in graph.initializer for entry in tensor.external_data if entry.key == "location"
    ]


def float_types(model: Any) -> set[str]:
    """The types of its weights and inputs that are floating-point numbers, by their names in NumPy."""
    from onnx import helper

    kinds = {tensor.data_type for tensor in model.graph.initializer}
    kinds |= {entry.type.tensor_type.elem_type for entry in model.graph.input}
    types = {helper.tensor_dtype_to_np_dtype(kind) for kind in kinds if kind}
    return {str(kind) for kind in types if kind.kind == "f"}


def evaluated(path: Path) -> "nn.Module":
    """A module that computes the file in the type that the module is converted to."""
    import numpy as np
    import torch

    stored = "float16" if "float16" in float_types(load(path)) else "float32"

    class Evaluated(torch.nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.register_buffer("kind", torch.zeros(1, dtype=getattr(torch, stored)))

        def forward(self, *args: Any) -> tuple[Any, ...]:
            computed_in = str(self.kind.dtype).removeprefix("torch.")
            evaluator = _evaluator(path, "" if computed_in == stored else computed_in)
            values = dict(zip(input_names(load(path)), (arg.numpy() for arg in args), strict=True))
            return tuple(torch.from_numpy(np.array(output)) for output in evaluator.run(None, values))

    return Evaluated()


@cache
def _evaluator(path: Path, computed_in: str) -> Any:
    """Evaluates the file as it is or, with a type, as if it had been exported in that type."""
    import numpy as np
    import onnx
    from onnx.reference import ReferenceEvaluator

    model = load(path)
    if computed_in:
        wide = onnx.ModelProto()
        wide.CopyFrom(model)
        convert(wide, onnx.helper.np_dtype_to_tensor_dtype(np.dtype(computed_in)))
        model = wide
    return ReferenceEvaluator(model)


def convert(model: Any, kind: int) -> None:
    """Changes every floating-point type of a model into one, in its graph, the subgraphs and the functions."""
    for graph in _graphs(model.graph):
        for tensor in graph.initializer:
            _convert_tensor(tensor, kind)
        for entry in (*graph.input, *graph.output):
            if _is_float(entry.type.tensor_type.elem_type):
                entry.type.tensor_type.elem_type = kind
        # What is known of the values between was of the old type.
        del graph.value_info[:]
        for node in graph.node:
            _convert_node(node, kind)
    for function in model.functions:
        for node in function.node:
            _convert_node(node, kind)


def _graphs(graph: Any) -> Iterator[Any]:
    yield graph
    for node in graph.node:
        for attribute in node.attribute:
            for inner in (attribute.g, *attribute.graphs):
                if inner.node:
                    yield from _graphs(inner)


def _convert_node(node: Any, kind: int) -> None:
    from onnx import helper

    for attribute in list(node.attribute):
        if attribute.HasField("t"):
            _convert_tensor(attribute.t, kind)
        elif attribute.name in ("to", "dtype") and _is_float(attribute.i):
            attribute.i = kind
        elif node.op_type == "Constant" and attribute.name in ("value_float", "value_floats"):
            numbers = [attribute.f] if attribute.name == "value_float" else list(attribute.floats)
            shape = [] if attribute.name == "value_float" else [len(numbers)]
            node.attribute.remove(attribute)
            node.attribute.append(
                helper.make_attribute("value", helper.make_tensor("value", kind, shape, numbers))
            )


def _convert_tensor(tensor: Any, kind: int) -> None:
    from onnx import helper, numpy_helper

    if _is_float(tensor.data_type):
        values = numpy_helper.to_array(tensor).astype(helper.tensor_dtype_to_np_dtype(kind))
        tensor.CopyFrom(numpy_helper.from_array(values, tensor.name))


def _is_float(kind: int) -> bool:
    from onnx import TensorProto

    return kind in (TensorProto.FLOAT, TensorProto.FLOAT16, TensorProto.BFLOAT16, TensorProto.DOUBLE)
