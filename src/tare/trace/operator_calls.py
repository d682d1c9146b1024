"""The calls of one operator in a trace, by what they are called with. A trace may come from anywhere: all that is
returned here is plain numbers, and texts of fixed patterns."""

import re
from difflib import get_close_matches
from typing import Any

import msgspec
import numpy as np

from tare.errors import BadInput
from tare.system.text import printable
from tare.trace.tables import OperatorInputs, Trace
from tare.trace.windows import in_counted_steps

MOST_DIMENSIONS, MOST_INPUTS, LARGEST = 32, 256, 2**40
# The profiler's names of element types.
TYPES = {
    "float": "float32", "double": "float64", "c10::Half": "float16", "c10::BFloat16": "bfloat16",
    "long int": "int64", "long": "int64", "int": "int32", "short": "int16", "short int": "int16", "bool": "bool",
    "unsigned char": "uint8", "signed char": "int8", "c10::complex<float>": "complex64",
    "c10::complex<double>": "complex128", "c10::Float8_e4m3fn": "float8_e4m3fn", "c10::Float8_e5m2": "float8_e5m2",
}  # fmt: skip
# The number of one of several different calls follows the name.
NUMBER = re.compile(r"(?P<name>.+)@(?P<number>[1-9]\d{0,5})")
_VALUE = re.compile(r"True|False|-?\d{1,18}|-?(?:\d{1,20}\.\d{0,20}|\d{1,20})(?:e[+-]?\d{1,3})?|-?inf|nan")
Shape = tuple[int, ...]
Value = bool | int | float
MOST_NAMED = 8
_TEXTS = msgspec.json.Decoder(list[str])


class TensorInput(msgspec.Struct, frozen=True):
    """`type` as the profiler names it; empty where it does not, as for tensors in lists."""

    shape: Shape
    strides: Shape
    type: str


class CallInput(msgspec.Struct, frozen=True):
    """One input: a tensor, tensors, a value or values. All are None for what the profiler does not record: None,
    a text, a device."""

    tensor: TensorInput | None = None
    tensors: tuple[TensorInput, ...] | None = None
    value: Value | None = None
    values: tuple[Value, ...] | None = None


class RecordedCall(msgspec.Struct, frozen=True, kw_only=True):
    """`count` is per step, and `share` that of the time of all calls with this name."""

    name: str
    inputs: tuple[CallInput, ...]
    count: float
    share: float

    def __str__(self) -> str:
        tensors = [tensor for each in self.inputs for tensor in [each.tensor, *(each.tensors or ())] if tensor]
        shapes = ", ".join(
            f"{'x'.join(map(str, tensor.shape)) or 'scalar'} {TYPES.get(tensor.type, '')}".strip()
            for tensor in tensors
        )
        return f"{shapes or 'no tensors'}; {self.count:.3g} a step"


def find_call(trace: Trace, wanted: str) -> RecordedCall:
    """The call of that name, `aten::mm` or `mm`, or `mm@2` where calls differ. BadInput where there is none, or
    more than one."""
    match = NUMBER.fullmatch(wanted)
    name, number = (match["name"], int(match["number"])) if match else (wanted, 0)
    table = trace.operators
    counted = in_counted_steps(trace, table.start)
    known = {trace.names[code] for code in np.unique(table.name[counted]).tolist()}
    found = next((each for each in (name, f"aten::{name}") if each in known), None)
    if found is None:
        near = get_close_matches(name if "::" in name else f"aten::{name}", sorted(known), MOST_NAMED, 0.5)
        hint = f"; near are {', '.join(near)}" if near else ""
        raise BadInput(f"the steps of the trace call no operator '{printable(name, 80)}'{hint}")
    calls = _distinct_calls(trace, found, np.flatnonzero(trace.named(table, found) & counted))
    if len(calls) > 1 and not number:
        listed = "; ".join(f"{found}@{i} ({call})" for i, call in enumerate(calls[:MOST_NAMED], 1))
        more = f"; and {len(calls) - MOST_NAMED} more" if len(calls) > MOST_NAMED else ""
        raise BadInput(f"{found} is called with {len(calls)} different inputs, name one: {listed}{more}")
    if number > len(calls):
        raise BadInput(f"{wanted}: {found} is called with {len(calls)} different inputs")
    return calls[max(number, 1) - 1]


def _distinct_calls(trace: Trace, name: str, rows: Any) -> list[RecordedCall]:
    """Those that take the most time first."""
    codes, which = np.unique(trace.operators.inputs[rows], return_inverse=True)
    times = np.bincount(which.reshape(-1), weights=trace.operators.duration[rows], minlength=len(codes))
    counts = np.bincount(which.reshape(-1), minlength=len(codes))
    steps = max(int(trace.steps.counted.sum()), 1)
    ranked = np.argsort(-times, kind="stable").tolist()
    return [
        RecordedCall(
            name=name,
            inputs=read_inputs(name, trace.inputs[int(codes[i])]),
            count=int(counts[i]) / steps,
            share=float(times[i] / max(times.sum(), 1)),
        )
        for i in ranked
    ]


def read_inputs(name: str, recorded: OperatorInputs) -> tuple[CallInput, ...]:
    """BadInput where the trace has no shapes, or they are malformed."""
    if not recorded.types:
        raise BadInput(f"the trace has no shapes of {name}: record it with record_shapes=True")
    try:
        types, concrete = _TEXTS.decode(recorded.types), _TEXTS.decode(recorded.concrete or b"[]")
        dims, strides = (msgspec.json.decode(text or b"[]") for text in (recorded.dims, recorded.strides))
        if not isinstance(dims, list) or len(dims) != len(types) or len(types) > MOST_INPUTS:
            raise ValueError
        concrete += [""] * (len(types) - len(concrete))
        strides = strides if isinstance(strides, list) and len(strides) == len(types) else [None] * len(types)
        return tuple(map(_input, types, concrete, dims, strides))
    except (ValueError, TypeError, msgspec.DecodeError):
        raise BadInput(f"the inputs of {name} in the trace cannot be read") from None


def _input(type: str, concrete: str, dims: Any, strides: Any) -> CallInput:
    if type == "TensorList":
        each = strides if isinstance(strides, list) and len(strides) == len(dims) else [None] * len(dims)
        return CallInput(tensors=tuple(_tensor("", *pair) for pair in zip(dims, each, strict=True)))
    if type == "Scalar":
        return CallInput(value=_value(concrete)) if concrete else CallInput()
    if type == "ScalarList":
        inner = concrete.removeprefix("[").removesuffix("]").strip()
        return CallInput(values=tuple(_value(text.strip()) for text in inner.split(",")) if inner else ())
    return CallInput(tensor=_tensor(type, dims, strides)) if type else CallInput()


def _tensor(type: str, dims: Any, strides: Any) -> TensorInput:
    shape = _sizes(dims)
    if strides is None or len(strides) != len(shape):
        # Older profilers record no strides: those of a contiguous tensor.
        strides = [int(np.prod(shape[i + 1 :], dtype=object)) for i in range(len(shape))]
    return TensorInput(shape, _sizes(strides), type)


def _sizes(numbers: Any) -> Shape:
    if not isinstance(numbers, list) or len(numbers) > MOST_DIMENSIONS:
        raise ValueError
    for number in numbers:
        if type(number) is not int or not 0 <= number < LARGEST:
            raise ValueError
    return tuple(numbers)


def _value(text: str) -> Value:
    if not _VALUE.fullmatch(text):
        raise ValueError
    if text in ("True", "False"):
        return text == "True"
    return int(text) if re.fullmatch(r"-?\d+", text) else float(text)
