"""ATen's elementwise operators as expressions of C++, by the names of their arguments in ATen's schema.

Values of float32 are computed in float, integers in int64_t, truth values as bool. The functions with a trailing
underscore are those of cpu/expressions.hpp, which compilers can vectorise."""

from typing import NamedTuple

ELEMENTWISE = {
    "abs": "abs_({self})",
    "atan2": "std::atan2({self}, {other})",
    "bitwise_and.Tensor": "{self} & {other}",
    "bitwise_and.Scalar": "{self} & {other}",
    "bitwise_not": "not_({self})",
    "bitwise_or.Tensor": "{self} | {other}",
    "bitwise_xor.Tensor": "{self} ^ {other}",
    "ceil": "std::ceil({self})",
    "cos": "std::cos({self})",
    "div.Scalar": "real_({self}) / real_({other})",
    "div.Tensor": "real_({self}) / real_({other})",
    "eq.Scalar": "{self} == {other}",
    "eq.Tensor": "{self} == {other}",
    "erf": "std::erf({self})",
    "exp": "exp_({self})",
    "exp2": "std::exp2({self})",
    "expm1": "std::expm1({self})",
    "floor": "std::floor({self})",
    "fmod.Scalar": "std::fmod({self}, {other})",
    "fmod.Tensor": "std::fmod({self}, {other})",
    "ge.Scalar": "{self} >= {other}",
    "ge.Tensor": "{self} >= {other}",
    "gt.Scalar": "{self} > {other}",
    "gt.Tensor": "{self} > {other}",
    "hardshrink_backward": "({self} >= -{lambd}) & ({self} <= {lambd}) ? 0.0f : {grad_out}",
    "isinf": "isinf_({self})",
    "isnan": "{self} != {self}",
    "le.Scalar": "{self} <= {other}",
    "le.Tensor": "{self} <= {other}",
    "log": "std::log({self})",
    "log10": "std::log10({self})",
    "log1p": "std::log1p({self})",
    "log2": "std::log2({self})",
    "logical_and": "({self} != 0) & ({other} != 0)",
    "logical_not": "{self} == 0",
    "logical_or": "({self} != 0) | ({other} != 0)",
    "logical_xor": "({self} != 0) ^ ({other} != 0)",
    "lt.Scalar": "{self} < {other}",
    "lt.Tensor": "{self} < {other}",
    "maximum": "max_({self}, {other})",
    "minimum": "min_({self}, {other})",
    "mul.Scalar": "{self} * {other}",
    "mul.Tensor": "{self} * {other}",
    "ne.Scalar": "{self} != {other}",
    "ne.Tensor": "{self} != {other}",
    "neg": "-{self}",
    "pow.Scalar": "std::pow({self}, {exponent})",
    "pow.Tensor_Tensor": "std::pow({self}, {exponent})",
    "reciprocal": "1 / {self}",
    "relu": "max_({self}, 0.0f)",
    "remainder.Scalar": "remainder_({self}, {other})",
    "remainder.Tensor": "remainder_({self}, {other})",
    "round": "std::nearbyint({self})",
    "rsqrt": "1 / std::sqrt({self})",
    "sigmoid": "sigmoid_({self})",
    "sign": "sign_({self})",
    "sin": "std::sin({self})",
    "softshrink_backward": "({self} >= -{lambd}) & ({self} <= {lambd}) ? 0.0f : {grad_output}",
    "sqrt": "std::sqrt({self})",
    "tan": "std::tan({self})",
    "tanh": "tanh_({self})",
    "trunc": "std::trunc({self})",
    "where.self": "{condition} ? {self} : {other}",
    "where.ScalarSelf": "{condition} ? {self} : {other}",
    "where.ScalarOther": "{condition} ? {self} : {other}",
}

# Powers that are cheaper otherwise.
POWERS = {
    2: "{self} * {self}",
    3: "{self} * {self} * {self}",
    0.5: "std::sqrt({self})",
    -0.5: "1 / std::sqrt({self})",
    -1: "1 / {self}",
    1: "{self}",
}

# Expressions that cost enough to keep their result where two passes over a row need it.
EXPENSIVE = ("exp", "log", "tanh", "sigmoid_", "erf", "sin", "cos", "pow", "sqrt", " / ", "remainder", "fmod")


class ReductionKind(NamedTuple):
    """The type of what is added up, where it begins, and how it goes on from `acc` with the element `x`."""

    kind: str
    start: str
    step: str


REDUCTIONS = {
    "sum": ReductionKind("double", "0", "{acc} + {x}"),
    "prod": ReductionKind("double", "1", "{acc} * {x}"),
    "max": ReductionKind("float", "-INFINITY", "max_({acc}, {x})"),
    "min": ReductionKind("float", "INFINITY", "min_({acc}, {x})"),
    "any": ReductionKind("bool", "false", "{acc} | ({x} != 0)"),
    "all": ReductionKind("bool", "true", "{acc} & ({x} != 0)"),
}
