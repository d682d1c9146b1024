"""tare explain FILE --replay NAME: a script that runs one operator of a trace alone.

The trace may come from anywhere, and the script is run: nothing of the trace gets into it but numbers, names of
operators that this torch has registered, and names of element types from a list.
"""

import re
from collections.abc import Callable, Sequence
from typing import Any

from tare.commands.ranks import read_trace
from tare.errors import BadInput
from tare.findings.diagnosis import Diagnosis, diagnose
from tare.trace.metadata import recorded_gross
from tare.trace.operator_calls import TYPES, CallInput, RecordedCall, TensorInput, find_call
from tare.trace.windows import select_steps

_NAME = re.compile(r"(?P<space>[A-Za-z]\w{0,60})::(?P<name>[A-Za-z_]\w{0,120})", re.ASCII)
_PART = re.compile(r"[A-Za-z_]\w{0,120}", re.ASCII)
PRODUCTS = ("aten::mm", "aten::addmm", "aten::bmm", "aten::baddbmm", "aten::matmul", "aten::linear")
CONVOLUTIONS = ("aten::conv1d", "aten::conv2d", "aten::conv3d", "aten::convolution", "aten::cudnn_convolution")
HEAD = '''\
"""{name} alone, as the steps of a trace call it ({call}): written by tare explain --replay.

Values are random; shapes, strides, element types and numbers are those of the trace.{caveats}
"""

import torch

import tare

DEVICE = "{device}"


def tensor(shape, strides, dtype, high=2):
    """Random numbers in this layout; integers below `high`."""
    size = 1 + sum((n - 1) * stride for n, stride in zip(shape, strides)) if all(shape) else 0
    if dtype.is_floating_point or dtype.is_complex:
        flat = torch.randn(size, device=DEVICE).to(dtype)
    else:
        flat = torch.randint(0, high, (size,), device=DEVICE).to(dtype)
    return flat.as_strided(shape, strides)


arguments = [
{arguments}
]
options = {{{options}}}


@torch.no_grad()
def alone():
    return torch.ops.{operator}(*arguments, **options)


def show(what, step):
    print(f"{{what}}: {{tare.measure(step, device=DEVICE)!r}}")


show("{name} alone", alone)
'''


def replay_script(path: str, wanted: str) -> str:
    """The script for an operator of a trace file."""
    trace = select_steps(read_trace(path))
    gross_ns = recorded_gross(trace)
    call = find_call(trace, wanted)
    diagnosis = diagnose(trace, gross_ns / 1e9 if gross_ns else None)
    return operator_script(call, diagnosis, "cuda" if trace.has_device else "cpu")


def operator_script(call: RecordedCall, diagnosis: Diagnosis, device: str) -> str:
    """BadInput for an operator that this torch does not have, or that takes what a trace does not tell."""
    overload, schema = _resolve(call)
    caveats: list[str] = []
    arguments, options = [], []
    for i, (argument, given) in enumerate(zip(schema.arguments, call.inputs, strict=True)):
        text = _argument(call, argument, given, _high(call, i), caveats)
        if argument.kwarg_only:
            if text is not None and _PART.fullmatch(argument.name):
                options.append(f'"{argument.name}": {text}')
        else:
            arguments.append(f"    {text},")
    body = HEAD.format(
        name=call.name,
        call=call,
        caveats="".join(f"\n{caveat}" for caveat in dict.fromkeys(caveats)),
        device=device,
        arguments="\n".join(arguments),
        options=", ".join(options),
        operator=overload,
    )
    rules = {finding.rule for finding in diagnosis.findings}
    return body + "".join(remedy(call) for rule, remedy in _REMEDIES.items() if rule in rules)


def _resolve(call: RecordedCall) -> tuple[str, Any]:
    """The overload that takes these inputs, as an attribute of torch.ops, and its schema."""
    import torch

    match = _NAME.fullmatch(call.name)
    schemas: Sequence[Any] = torch._C._jit_get_schemas_for_operator(call.name) if match else []
    for schema in schemas:
        overload = schema.overload_name or "default"
        fits = len(schema.arguments) == len(call.inputs) and all(
            _fits(str(argument.type), argument, given)
            for argument, given in zip(schema.arguments, call.inputs, strict=True)
        )
        if match and fits and _PART.fullmatch(overload):
            return f"{match['space']}.{match['name']}.{overload}", schema
    if not schemas:
        raise BadInput(f"{call.name} is no operator that this torch has: nothing can be replayed")
    raise BadInput(f"no overload of {call.name} in this torch takes the inputs in the trace ({call})")


def _fits(type: str, argument: Any, given: CallInput) -> bool:
    base = type.removeprefix("Optional[").removesuffix("]") if type.startswith("Optional[") else type
    if given.tensor is not None:
        return base == "Tensor"
    if given.tensors is not None:
        return base in ("List[Tensor]", "List[Optional[Tensor]]")
    if given.values is not None:
        return base in ("List[int]", "List[float]", "List[bool]", "List[number]", "List[SymInt]")
    if given.value is not None:
        numbers = {"number", "float"} if isinstance(given.value, float) else {"number", "float", "int", "SymInt"}
        return base in ({"bool", "number", "int"} if isinstance(given.value, bool) else numbers)
    return type.startswith("Optional[") or argument.has_default_value() or base in ("Device", "List[Tensor]")


def _argument(call: RecordedCall, argument: Any, given: CallInput, high: int, caveats: list[str]) -> str | None:
    """Code of numbers and names of types alone."""
    if given.tensor is not None:
        return _tensor(given.tensor, high)
    if given.tensors is not None:
        caveats.append("Of tensors in a list the trace does not tell the element type: float32 is taken.")
        return f"[{', '.join(_tensor(each, high) for each in given.tensors)}]"
    if given.values is not None:
        return f"[{', '.join(map(_number, given.values))}]"
    if given.value is not None:
        return _number(given.value)
    if "Device" in str(argument.type):
        return "torch.device(DEVICE)"
    if not str(argument.type).startswith("Optional["):
        default = argument.default_value
        if not isinstance(default, str | int | float):
            raise BadInput(f"{call.name} takes a {argument.type} that the trace does not tell")
        caveats.append(f"The trace does not tell `{argument.name}`: its default is taken.")
        # A default is of torch, not of the trace.
        return repr(default)
    return "None"


def _tensor(tensor: TensorInput, high: int) -> str:
    kind = TYPES.get(tensor.type or "float")
    if kind is None:
        raise BadInput(
            f"a tensor of the operator has elements of a type that is not known here: {tensor.type!r:.60}"
        )
    of_integers = f", high={high}" if kind.startswith(("int", "uint")) and high != 2 else ""
    return f"tensor({tensor.shape!r}, {tensor.strides!r}, torch.{kind}{of_integers})"


def _number(value: bool | int | float) -> str:
    text = repr(value)
    return text if text[-1].isalnum() and text not in ("inf", "-inf", "nan") else f'float("{float(value)}")'


def _high(call: RecordedCall, position: int) -> int:
    """Below what the integers of an input must stay, where they are indices."""
    tensors, values = [each.tensor for each in call.inputs], [each.value for each in call.inputs]
    first = tensors[0].shape if tensors and tensors[0] is not None else ()
    name = call.name.removeprefix("aten::")
    if name in ("embedding", "_embedding_bag", "embedding_bag") and position == 1 and first:
        return max(first[0], 1)
    if name in ("index_select", "gather", "scatter", "scatter_add") and first:
        dim = values[1]
        return max(first[int(dim)], 1) if isinstance(dim, int) and -len(first) <= dim < len(first) else 1
    if name.startswith(("nll_loss", "cross_entropy")) and position == 1 and first:
        return max(first[1 if len(first) > 1 else 0], 1)
    if name == "embedding_dense_backward" and position == 1 and isinstance(values[2], int):
        return max(values[2], 1)
    return 1 if name in ("index", "index_put_", "_index_put_impl_") else 2


# Remedies of findings that can be written as code beside the operator.


def _tf32(call: RecordedCall) -> str:
    if call.name not in PRODUCTS + CONVOLUTIONS:
        return ""
    return (
        "\n# The remedy of tf32-off: products of float32 on tensor cores.\n"
        "torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = True\n"
        'show("with TF32", alone)\n'
    )


def _channels_last(call: RecordedCall) -> str:
    if call.name not in CONVOLUTIONS or not call.inputs[0].tensor or len(call.inputs[0].tensor.shape) != 4:
        return ""
    return (
        "\n# The remedy of channels-first: channels-last input and weight.\n"
        "arguments[:2] = [each.contiguous(memory_format=torch.channels_last) for each in arguments[:2]]\n"
        'show("in channels-last", alone)\n'
    )


def _attention(call: RecordedCall) -> str:
    """Of the product of queries and keys."""
    pair = [each.tensor for each in call.inputs[:2]]
    if call.name not in ("aten::bmm", "aten::matmul") or not pair[0] or not pair[1] or len(pair[0].shape) < 3:
        return ""
    if pair[0].shape[-1] >= pair[0].shape[-2]:
        # Rather the product of probabilities and values.
        return ""
    return """
# The remedy of attention-by-hand, taking this product for that of queries and keys.
query, key = arguments[0], arguments[1].transpose(-1, -2)
value = torch.randn_like(key)


@torch.no_grad()
def by_hand():
    return torch.softmax(query @ key.transpose(-1, -2) * query.shape[-1] ** -0.5, -1) @ value


@torch.no_grad()
def fused():
    return torch.nn.functional.scaled_dot_product_attention(query, key, value)


show("attention by hand", by_hand)
show("scaled_dot_product_attention", fused)
"""


_REMEDIES: dict[str, Callable[[RecordedCall], str]] = {
    "tf32-off": _tf32,
    "channels-first": _channels_last,
    "attention-by-hand": _attention,
}
