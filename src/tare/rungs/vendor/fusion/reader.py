"""Reads a graph of core ATen operators into tensors: views, what a kernel computes, what a library computes."""

import operator
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from tare.errors import Unsupported
from tare.rungs.vendor.fusion.tensors import (
    Assembled,
    Constant,
    Gathered,
    LibraryCall,
    Operand,
    Pointwise,
    Reduction,
    Result,
    Shape,
    Source,
    Tensor,
    TensorView,
    whole,
)
from tare.rungs.vendor.lowering.origin import Origin, module_of, origin_of
from tare.rungs.vendor.lowering.plan import TORCH_DTYPES, ExecutionPlan

Handler = TypeVar("Handler", bound=Callable[..., Any])
HANDLERS: dict[str, Callable[..., Any]] = {}
# Operators whose result differs from call to call.
RANDOM = (
    "rand",
    "rand_like",
    "randn_like",
    "randint_like",
    "randn",
    "randint",
    "bernoulli",
    "normal",
    "native_dropout",
    "multinomial",
    "randperm",
    "exponential",
)


def reads(*names: str) -> Callable[[Handler], Handler]:
    """Registers the handler of ATen operators, by names without `aten.` and `.default`. It receives the reader,
    what is known of the result (`Meta`), and the call's arguments by their names in the schema."""

    def register(handler: Handler) -> Handler:
        HANDLERS.update(dict.fromkeys(names, handler))
        return handler

    return register


class Reader:
    """What the nodes of a graph stand for: a view, a constant, a tensor of torch that is known ahead of time, or a
    list of those."""

    def __init__(self, plan: ExecutionPlan) -> None:
        self.plan = plan
        self._stored: dict[int, tuple[Any, TensorView | Constant]] = {}
        # In the order of the graph, which is an order in which they can be computed.
        self.tensors: list[Tensor] = []
        # What has been computed already is not computed again.
        self._computed: dict[tuple[Any, ...], Tensor] = {}
        # Of the node that is read.
        self._origin = Origin()

    def read(self, graph: Any, arguments: Sequence[Any]) -> list[Any]:
        """The results of a graph, given what stands for each of its placeholders."""
        from torch.fx import Node, map_arg

        known: dict[Any, Any] = {}
        remaining = iter(arguments)
        missing: dict[str, str] = {}
        for node in graph.nodes:
            if node.op == "placeholder":
                known[node] = next(remaining)
            elif node.op == "get_attr":
                known[node] = getattr(graph.owning_module, node.target)
            elif node.op == "call_function":
                if any(argument not in known for argument in node.all_input_nodes):
                    continue
                bound = map_arg((node.args, node.kwargs), lambda argument: known[argument])
                self._origin = origin_of(node)
                try:
                    known[node] = self._call(node, *bound)
                    if works_in_place(node):
                        # Decompositions change their own intermediate results: whoever reads it later, reads this.
                        known[node.args[0]] = known[node]
                except Unsupported as error:
                    missing.setdefault(str(error), module_of(node))
            elif node.op == "output" and not missing:
                results = node.args[0]
                return [known[result] if isinstance(result, Node) else result for result in results]
        if not missing:
            raise Unsupported("the graph has no result")
        (first, place), *others = missing.items()
        more = f", and {len(others)} other operators or uses ({'; '.join(reason for reason, _ in others[:4])})"
        raise Unsupported(f"{first}{f' (in {place})' if place else ''}{more if others else ''}")

    def _call(self, node: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        import torch
        from torch.utils import _pytree as pytree

        if node.target is operator.getitem:
            return args[0][args[1]]
        name = operator_name(node.target)
        if name.partition(".")[0] in RANDOM:
            raise Unsupported(f"{name}: no two rungs would draw the same numbers")
        leaves = [
            leaf for leaf in _leaves((args, kwargs)) if isinstance(leaf, TensorView | Constant | torch.Tensor)
        ]
        if name not in FILLS and not any(isinstance(leaf, TensorView) for leaf in leaves):
            # Known ahead of time: computed here, by torch.
            args, kwargs = pytree.tree_map(_as_known, (args, kwargs))
            return node.target(*args, **{**kwargs, **({"device": "cpu"} if "device" in kwargs else {})})
        if name in CHECKS:
            return None
        if name not in HANDLERS:
            raise Unsupported(f"no operator {node.target}")
        bound = {}
        for i, argument in enumerate(node.target._schema.arguments):
            given = args[i] if i < len(args) else kwargs.get(argument.name, argument.default_value)
            bound[argument.name] = self._operands(given)
        return HANDLERS[name](self, Meta.of(node.meta.get("val"), name), **bound)

    def _operands(self, argument: Any) -> Any:
        import torch

        if isinstance(argument, torch.Tensor):
            return self.constant(argument)
        if isinstance(argument, list | tuple):
            return [self._operands(item) for item in argument]
        return argument

    # Making tensors

    def constant(self, tensor: Any) -> TensorView | Constant:
        """A tensor that is known ahead of time."""
        entry = self._stored.get(id(tensor))
        if entry is None:
            # The tensor is kept, so that no other gets its number.
            entry = self._stored[id(tensor)] = tensor, self._make_constant(tensor)
        return entry[1]

    def _make_constant(self, tensor: Any) -> TensorView | Constant:
        dtype = plan_dtype(tensor.dtype, "a constant")
        shape = tuple(tensor.shape)
        # A broadcast constant is stored once.
        small = tensor
        for axis, stride in enumerate(tensor.stride()):
            if stride == 0 and shape[axis] > 1:
                small = small.narrow(axis, 0, 1)
        if small.numel() == 0:
            raise Unsupported("a tensor without elements")
        first = small.reshape(-1)[0]
        if small.numel() == 1 or bool((small == first).all()):
            return Constant(first.item(), dtype, shape)
        value = self.plan.make(small.shape, dtype, "constant", "weights", small.detach().clone())
        value.channels_last = False
        return whole(Tensor(tuple(small.shape), dtype, value=value)).expand(shape)

    def pointwise(
        self, expression: str, operands: Sequence[Source], shape: Shape, dtype: str,
        target: tuple[Tensor, Shape, int] | None = None,
    ) -> TensorView:  # fmt: skip
        placed = tuple(_spread(operand, shape) for operand in operands)
        if target is not None:
            return whole(self._add(Pointwise(shape, dtype, expression, placed, target)))
        key = (expression, placed, shape, dtype)
        return whole(self._once(key, lambda: Pointwise(shape, dtype, expression, placed)))

    def _once(self, key: tuple[Any, ...], make: Callable[[], Tensor]) -> Tensor:
        return self._computed.get(key) or self._computed.setdefault(key, self._add(make()))

    def _add(self, tensor: Tensor) -> Tensor:
        tensor.origin = self._origin
        self.tensors.append(tensor)
        return tensor

    def reduce(self, operation: str, operand: Operand, axes: Sequence[int], keep: bool, dtype: str) -> TensorView:
        view = self.view(operand)
        count = len(view.shape)
        over = {axis % count for axis in axes} if axes else set(range(count))
        kept = tuple(size for axis, size in enumerate(view.shape) if axis not in over)
        final = tuple(1 if axis in over else size for axis, size in enumerate(view.shape)) if keep else kept
        if all(view.shape[axis] == 1 for axis in over):
            alone = view
            for axis in sorted(over, reverse=True):
                alone = alone.without(axis)
            return self.reshape_view(self.pointwise("{0}", [alone], kept, dtype), final)
        key = (operation, view, frozenset(over), dtype)
        reduction = self._once(key, lambda: Reduction(kept, dtype, operation, view, frozenset(over)))
        return self.reshape_view(whole(reduction), final)

    def as_view(self, result: Any) -> TensorView:
        """A result of the graph, whatever stands for it."""
        operand = self._operands(result)
        if not isinstance(operand, TensorView | Constant):
            raise Unsupported("a result that is no tensor")
        return self.view(operand)

    def view(self, operand: Operand) -> TensorView:
        """An operand as a view; numbers and gathered elements are computed into a tensor first."""
        return operand if isinstance(operand, TensorView) else self.copy(operand, operand.shape)

    def cast(self, operand: Operand, dtype: str) -> Operand:
        if operand.dtype == dtype:
            return operand
        return self.pointwise("{0}", [operand], operand.shape, dtype)

    def copy(self, operand: Operand, shape: Shape) -> TensorView:
        return self.pointwise("{0}", [operand], shape, operand.dtype)

    def copy_apart(self, view: TensorView) -> TensorView:
        """A copy that nothing else is, even if the same view has been copied already."""
        return whole(self._add(Pointwise(view.shape, view.dtype, "{0}", (view,))))

    def contiguous(self, operand: Operand) -> TensorView:
        view = self.view(operand)
        return view if view.is_linear else self.copy(view, view.shape)

    def reshape(self, operand: Operand, shape: Shape) -> Operand:
        if isinstance(operand, Constant):
            return Constant(operand.number, operand.dtype, shape)
        return self.reshape_view(operand, shape)

    def reshape_view(self, view: TensorView, shape: Shape) -> TensorView:
        reshaped = view.reshape(shape)
        if reshaped is None:
            reshaped = self.copy(view, view.shape).reshape(shape)
        assert reshaped is not None
        return reshaped

    def call(
        self, kind: str, inputs: dict[str, TensorView], shapes: dict[str, tuple[Shape, str]], **attributes: Any
    ) -> LibraryCall:
        call = LibraryCall(kind, inputs, attributes, origin=self._origin)
        for role, (shape, dtype) in shapes.items():
            call.results[role] = Result(shape, dtype, call, role)
            self.tensors.append(call.results[role])
        return call

    def assemble(self, shape: Shape, dtype: str, parts: Sequence[tuple[Operand, TensorView]]) -> TensorView:
        """A tensor whose parts are computed into places of it. The places are views of a tensor of this shape."""
        result = Assembled(shape, dtype)
        for operand, place in parts:
            part = self.pointwise("{0}", [operand], place.shape, dtype, (result, place.strides, place.offset))
            assert isinstance(part.tensor, Pointwise)
            result.parts.append(part.tensor)
        self.tensors.append(result)
        return whole(result)


class Meta:
    """The name of an operator, and the shape and type of its result, or of its results (`parts`)."""

    def __init__(self, name: str, shape: Shape, dtype: str, parts: "list[Meta | None]") -> None:
        self.name, self.shape, self.dtype, self.parts = name, shape, dtype, parts

    @classmethod
    def of(cls, value: Any, name: str = "") -> "Meta":
        if isinstance(value, list | tuple):
            return cls(name, (), "", [cls.of(part) if hasattr(part, "shape") else None for part in value])
        return cls(name, tuple(value.shape), plan_dtype(value.dtype, "a result"), [])


FILLS = {
    "full", "full_like", "zeros", "zeros_like", "ones", "ones_like", "new_zeros", "new_ones", "new_full", "empty",
    "empty_like",
}  # fmt: skip

# What only checks its arguments.
CHECKS = {"_assert_tensor_metadata", "_assert_async.msg", "_assert_scalar"}


def operator_name(target: Any) -> str:
    """`add.Tensor` of `aten.add.Tensor`, and `clone` of `aten.clone.default`; copies of views are views."""
    packet, _, overload = str(target).removeprefix("aten.").removeprefix("prims.").rpartition(".")
    packet = packet.removesuffix("_copy") if packet != "_to_copy" else packet
    packet = packet.removesuffix("_")
    return packet if overload == "default" else f"{packet}.{overload}"


def works_in_place(node: Any) -> bool:
    schema = getattr(node.target, "_schema", None)
    return schema is not None and schema.name.endswith("_")


def _as_known(leaf: Any) -> Any:
    """A constant as a tensor of torch; anything else as it is."""
    import torch

    if not isinstance(leaf, Constant):
        return leaf
    dtype = {"u8": "bool", "f64": "float64"}.get(leaf.dtype) or TORCH_DTYPES[leaf.dtype]
    return torch.tensor(leaf.number, dtype=getattr(torch, dtype)).expand(leaf.shape)


def plan_dtype(dtype: Any, where: str) -> str:
    import torch

    known = {getattr(torch, theirs): ours for ours, theirs in TORCH_DTYPES.items()}
    known |= {torch.float64: "f64", torch.int32: "i64", torch.bool: "u8"}
    if dtype not in known:
        raise Unsupported(f"{where} of {dtype}")
    return known[dtype]


def _spread(operand: Source, shape: Shape) -> Source:
    if isinstance(operand, Constant):
        return operand
    if isinstance(operand, Gathered):
        indices = tuple((_spread(index, shape), stride, size) for index, stride, size in operand.indices)
        return Gathered(operand.view.expand(shape), indices)
    return operand if operand.shape == shape else operand.expand(shape)


def _leaves(argument: Any) -> list[Any]:
    if isinstance(argument, list | tuple):
        return [leaf for item in argument for leaf in _leaves(item)]
    if isinstance(argument, dict):
        return _leaves(list(argument.values()))
    return [argument]
