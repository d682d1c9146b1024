"""What the source says for each op of a plan: the call of a function in `ops/`, and how much that computes.

The other caller of these functions is the plan walker of the rung (cpu/*.hpp), which reads the same attributes."""

from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod

from tare.errors import Unsupported
from tare.rungs.vendor.emission.buffers import Buffers
from tare.rungs.vendor.emission.names import braces, number, shape_text
from tare.rungs.vendor.lowering.plan import Op, Value

ACTIVATIONS = {"": "ops::no_activation", "relu": "ops::relu", "relu6": "ops::relu6"}
CURVES = ("leaky_relu", "hardsigmoid", "sigmoid", "tanh", "hardswish", "silu", "gelu", "gelu_tanh")


@dataclass
class CallText:
    """The lines of a call, the header of `ops/` that it needs, and its floating-point operations where they are
    counted: those of products, as torch counts them."""

    lines: list[str]
    header: str
    flops: int | None = None
    # What outlives a call: definitions in the namespace `saved`.
    globals: list[str] = field(default_factory=list)
    # Whether what follows a product is done in place, by a call of another header.
    epilogue: bool = False

    @property
    def headers(self) -> set[str]:
        return {self.header, "elementwise"} if self.epilogue else {self.header}


Writer = Callable[["CallContext"], CallText]
WRITERS: dict[str, Writer] = {}


def writes(*kinds: str) -> Callable[[Writer], Writer]:
    def register(writer: Writer) -> Writer:
        WRITERS.update(dict.fromkeys(kinds, writer))
        return writer

    return register


@dataclass(frozen=True)
class CallContext:
    """An op, and the names of its buffers."""

    op: Op
    buffers: Buffers

    def __getitem__(self, role: str) -> Value:
        value = self.op.inputs.get(role) or self.op.outputs.get(role)
        assert value is not None
        return value

    def has(self, role: str) -> bool:
        return role in self.op.inputs or role in self.op.outputs

    def place(self, role: str, offset: str = "") -> str:
        """The buffer of a role, or a null pointer that names what is not there."""
        if not self.has(role):
            return f"nullptr /* {role} */"
        at = int(self.op.attributes.get(offset) or 0)
        return self.buffers(self[role]) + (f" + {at}" if at else "")

    def places(self, roles: str) -> str:
        return ", ".join(self.place(role) for role in roles.split())

    def integer(self, name: str) -> int:
        return int(self.op.attributes[name])

    def flag(self, name: str) -> str:
        return "true" if self.op.attributes.get(name) else "false"


def write_call(op: Op, buffers: Buffers) -> CallText:
    if op.kind not in WRITERS:
        raise Unsupported(
            f"tare emit has no source for {op.kind}{f' of {op.origin.module}' if op.origin.module else ''}"
        )
    return WRITERS[op.kind](CallContext(op, buffers))


def channels(value: Value) -> str:
    """`ops::Channels` of a value: outer x channels x inner."""
    inner = 1 if len(value.shape) != 4 or value.channels_last else value.shape[2] * value.shape[3]
    count = value.shape[1] if len(value.shape) == 4 else value.shape[-1]
    return f"ops::Channels{{{value.size // count // inner}, {count}, {inner}}}"


def activation(call: CallContext) -> str:
    name = call.op.attributes.get("activation") or ""
    if name in ACTIVATIONS:
        return ACTIVATIONS[name]
    if name == "hardtanh":
        return f"ops::Clamp{{{number(call.op.attributes['low'])}, {number(call.op.attributes['high'])}}}"
    if name not in CURVES:
        raise Unsupported(f"tare emit has no activation {name}")
    return f"ops::Curve{{ops::Curve::{name}, {number(call.op.attributes.get('parameter') or 0)}}}"


def with_epilogue(call: CallContext, text: CallText) -> CallText:
    """A convolution or product, and what it is followed by in place."""
    if call.has("b") or call.has("z") or call.op.attributes.get("activation"):
        text.lines.append(f"ops::epilogue({call.places('y b z y')}, {channels(call['y'])}, {activation(call)});")
        text.epilogue = True
    return text


# Layers with weights


def _convolution(call: CallContext, function: str, roles: str, image: str, weight: str, result: str) -> CallText:
    x, w, y = call[image], call[weight], call[result]
    fields = call.op.attributes
    lines = [
        f"const ops::Convolution shape{{/* images */ {braces(x.shape)}, /* result */ {braces(y.shape)},",
        f"                             /* window */ {braces(w.shape[2:])}, "
        f"/* stride */ {braces(fields['stride'])},",
        f"                             /* padding */ {braces(fields['padding'])}, "
        f"/* dilation */ {braces(fields['dilation'])},",
        f"                             /* groups */ {fields['groups']}, "
        f"/* channels last */ {'true' if w.channels_last else 'false'}}};",
        f"ops::{function}(scratch, {call.places(roles)}, shape);",
    ]
    return CallText(lines, "convolution", 2 * y.size * prod(w.shape[1:]))


@writes("conv")
def convolution(call: CallContext) -> CallText:
    return with_epilogue(call, _convolution(call, "convolution", "x w y", "x", "w", "y"))


@writes("conv_weight_gradient")
def convolution_weight_gradient(call: CallContext) -> CallText:
    return _convolution(call, "convolution_weight_gradient", "x dy dw", "x", "dw", "dy")


@writes("conv_input_gradient")
def convolution_input_gradient(call: CallContext) -> CallText:
    return _convolution(call, "convolution_input_gradient", "w dy dx", "dx", "w", "dy")


def _linear(call: CallContext, function: str, roles: str, weight: str, rows_of: str) -> CallText:
    out, inside = call[weight].shape
    width = out if rows_of == "dy" else inside
    rows = call[rows_of].size // width
    line = f"ops::{function}({call.places(roles)}, /* rows */ {rows}, /* in */ {inside}, /* out */ {out});"
    return CallText([line], "linear", 2 * rows * inside * out)


@writes("linear")
def linear(call: CallContext) -> CallText:
    return with_epilogue(call, _linear(call, "linear", "x w y", "w", "x"))


@writes("linear_weight_gradient")
def linear_weight_gradient(call: CallContext) -> CallText:
    return _linear(call, "linear_weight_gradient", "x dy dw", "dw", "x")


@writes("linear_input_gradient")
def linear_input_gradient(call: CallContext) -> CallText:
    return _linear(call, "linear_input_gradient", "w dy dx", "w", "dy")


@writes("matmul")
def matmul(call: CallContext) -> CallText:
    m, n, k = (call.integer(name) for name in "mnk")
    fields = call.op.attributes
    lines = [
        f"static const ops::Product product(/* m, n, k */ {m}, {n}, {k}, /* batch */ {braces(fields['batch'])},",
        f"                                  /* strides */ {braces(fields['a_strides'])}, "
        f"{braces(fields['b_strides'])}, /* alpha */ {number(fields['alpha'])});",
        f"ops::matmul({call.place('a', 'a_offset')}, {call.place('b', 'b_offset')}, {call.place('y')}, product);",
    ]
    return CallText(lines, "products", 2 * m * n * k * prod(fields["batch"]))


def _lstm(call: CallContext, y: str) -> tuple[list[str], list[str], str]:
    steps, batch, _ = call[y].shape
    layers, hidden, inside = call.integer("layers"), call.integer("hidden"), call["x"].shape[2]
    slot = call.integer("slot")
    shape = f"lstm_{slot}"
    weights = ", ".join(call.place(f"w{i}") for i in range(4 * layers))
    definitions = [
        f"// An LSTM of {layers} layers: what its forward pass keeps for the backward pass.",
        f"inline const ops::Lstm {shape}{{/* steps */ {steps}, /* batch */ {batch}, /* hidden */ {hidden}, "
        f"/* layers */ {layers}, /* input */ {inside}}};",
        f"inline ops::SavedState {shape}_state({shape});",
    ]
    return (
        definitions,
        [f"static const ops::LstmWeights weights{{{weights}}};"],
        f"saved::{shape}_state, saved::{shape}",
    )


def _lstm_flops(call: CallContext, y: str, products: int) -> int:
    steps, batch, hidden = call[y].shape
    layers, inside = call.integer("layers"), call["x"].shape[2]
    per_row = sum(4 * hidden * ((hidden if layer else inside) + hidden) for layer in range(layers))
    return 2 * products * steps * batch * per_row


@writes("lstm")
def lstm(call: CallContext) -> CallText:
    definitions, lines, saved = _lstm(call, "y")
    lines.append(f"ops::lstm_forward({call.place('x')}, weights, {call.places('y h c')}, {saved});")
    return CallText(lines, "lstm", _lstm_flops(call, "y", 1), definitions)


@writes("lstm_backward")
def lstm_backward(call: CallContext) -> CallText:
    _, lines, saved = _lstm(call, "dy")
    gradients = ", ".join(call.place(f"dw{i}") for i in range(4 * call.integer("layers")))
    lines += [
        f"static const ops::LstmGradients gradients{{{gradients}}};",
        f"ops::lstm_backward(scratch, {call.places('x dy')}, weights, {call.place('dx')}, gradients, {saved});",
    ]
    flops = _lstm_flops(call, "dy", 2)
    if not call.has("dx"):
        # The first layer has no gradient for its input.
        steps, batch, hidden = call["dy"].shape
        flops -= 2 * steps * batch * 4 * hidden * call["x"].shape[2]
    return CallText(lines, "lstm", flops)


# Normalisation, elementwise operators, the update


@writes("affine")
def affine(call: CallContext) -> CallText:
    line = f"ops::affine({call.places('x scale shift z y')}, {channels(call['y'])}, {activation(call)});"
    return CallText([line], "normalization")


@writes("batch_norm")
def batch_norm(call: CallContext) -> CallText:
    fields = call.op.attributes
    lines = [
        f"ops::batch_norm(scratch, {call.places('x scale shift z y mean var saved_mean saved_invstd')},",
        f"                {channels(call['x'])}, /* eps */ {float(fields['eps'])!r}, "
        f"/* momentum */ {float(fields['momentum'])!r}, {activation(call)});",
    ]
    return CallText(lines, "normalization")


@writes("batch_norm_backward")
def batch_norm_backward(call: CallContext) -> CallText:
    lines = [
        f"ops::batch_norm_backward(scratch, {call.places('x dy dy2 y scale shift saved_mean saved_invstd')},",
        f"                         {call.places('dx dz dscale dshift')}, "
        f"{channels(call['x'])}, {activation(call)});",
    ]
    return CallText(lines, "normalization")


@writes("add", "activation")
def add(call: CallContext) -> CallText:
    line = f"ops::epilogue({call.places('x b z y')}, {channels(call['y'])}, {activation(call)});"
    return CallText([line], "elementwise")


@writes("activation_backward")
def activation_backward(call: CallContext) -> CallText:
    line = f"ops::activation_backward({call.places('x y dy dx')}, {call['dx'].size}, {activation(call)});"
    return CallText([line], "elementwise")


@writes("bias_gradient")
def bias_gradient(call: CallContext) -> CallText:
    return CallText(
        [f"ops::bias_gradient(scratch, {call.places('dy db')}, {channels(call['dy'])});"], "elementwise"
    )


@writes("multiply")
def multiply(call: CallContext) -> CallText:
    return CallText([f"ops::multiply({call.places('x z y')}, {call['y'].size});"], "elementwise")


@writes("scale_channels")
def scale_channels(call: CallContext) -> CallText:
    shape = f"{channels(call['x'])}, /* images */ {call['x'].shape[0]}"
    return CallText([f"ops::scale_channels({call.places('x s y')}, {shape});"], "elementwise")


@writes("scale_channels_backward")
def scale_channels_backward(call: CallContext) -> CallText:
    shape = f"{channels(call['x'])}, /* images */ {call['x'].shape[0]}"
    line = f"ops::scale_channels_backward(scratch, {call.places('x s dy dx ds')}, {shape});"
    return CallText([line], "elementwise")


def _weights(call: CallContext) -> str:
    return f"ops::Weights{{{call.places('gradient master')}}}"


@writes("sgd")
def sgd(call: CallContext) -> CallText:
    rate, momentum = (number(call.op.attributes[name]) for name in ("learning_rate", "momentum"))
    settings = f"{call['master'].size}, /* rate */ {rate}, /* momentum */ {momentum}"
    return CallText([f"ops::sgd({_weights(call)}, {call.place('momentum')}, {settings});"], "elementwise")


@writes("adam")
def adam(call: CallContext) -> CallText:
    fields = ("learning_rate", "first", "second", "epsilon", "decay")
    settings = ", ".join(f"/* {name} */ {float(call.op.attributes[name])!r}" for name in fields)
    lines = [
        f"const ops::Adam settings{{{settings}}};",
        f"ops::adam({_weights(call)}, {call.places('momentum second steps')}, {call['master'].size}, settings);",
    ]
    return CallText(lines, "elementwise")


# Pooling


def _pool(call: CallContext, function: str, roles: str, image: str, pooled: str) -> CallText:
    x, y, fields = call[image], call[pooled], call.op.attributes
    window = [braces(fields.get(name) or [0, 0]) for name in ("kernel", "stride", "padding")]
    lines = [
        f"const ops::Pool pool{{/* images */ {braces(x.shape)}, /* pooled */ {braces(y.shape)}, "
        f"/* window */ {window[0]},",
        f"                     /* stride */ {window[1]}, /* padding */ {window[2]}, "
        f"/* adaptive */ {call.flag('adaptive')}, /* channels last */ {'true' if x.channels_last else 'false'}}};",
        f"ops::{function}({call.places(roles)}, pool);",
    ]
    return CallText(lines, "pooling")


@writes("max_pool")
def max_pool(call: CallContext) -> CallText:
    return _pool(call, "max_pool", "x y index", "x", "y")


@writes("max_pool_backward")
def max_pool_backward(call: CallContext) -> CallText:
    return _pool(call, "max_pool_backward", "dy index dx", "dx", "dy")


@writes("average_pool")
def average_pool(call: CallContext) -> CallText:
    return _pool(call, "average_pool", "x y", "x", "y")


@writes("average_pool_backward")
def average_pool_backward(call: CallContext) -> CallText:
    return _pool(call, "average_pool_backward", "dy dx", "dx", "dy")


# Losses


def _rows(value: Value) -> str:
    return f"/* rows */ {value.shape[0]}, /* classes */ {value.shape[1]}"


@writes("log_softmax")
def log_softmax(call: CallContext) -> CallText:
    return CallText([f"ops::log_softmax({call.places('x y')}, {_rows(call['x'])});"], "losses")


@writes("cross_entropy")
def cross_entropy(call: CallContext) -> CallText:
    return CallText([f"ops::cross_entropy({call.places('x target loss dx')}, {_rows(call['x'])});"], "losses")


@writes("mean_square")
def mean_square(call: CallContext) -> CallText:
    return CallText([f"ops::mean_square({call.places('x target loss dx')}, {call['x'].size});"], "losses")


# Copies, and rows that numbers name


@writes("permute")
def permute(call: CallContext) -> CallText:
    x, y = call["x"], call["y"]
    source = [x.strides[axis] for axis in call.op.attributes["order"]]
    lines = [
        f"static const ops::Permutation order{{/* shape */ {braces(y.shape)}, "
        f"/* strides in x */ {braces(source)}, /* in y */ {braces(y.strides)}}};",
        f"ops::permute({call.places('x y')}, order);",
    ]
    return CallText(lines, "copies")


@writes("copy_block")
def copy_block(call: CallContext) -> CallText:
    fields = call.op.attributes
    cleared = call["y"].nbytes if fields.get("clear") else 0
    names = ("rows", "width", "from_pitch", "from_offset", "to_pitch", "to_offset")
    block = ", ".join(f"/* {name} */ {fields[name]}" for name in names)
    places = f"bytes({call.place('x')}), bytes({call.place('y')})"
    return CallText([f"ops::copy_block({places}, {{{block}, /* cleared */ {cleared}}});"], "copies")


def _row_shape(call: CallContext) -> str:
    y = call["y"]
    return f"{{/* count */ {call['index'].size}, /* rows */ {y.shape[0]}, /* width */ {y.size // y.shape[0]}}}"


@writes("add_rows")
def add_rows(call: CallContext) -> CallText:
    shape = f"{_row_shape(call)}, /* skip */ {call.integer('skip')}"
    return CallText([f"ops::add_rows({call.places('x index base y')}, {shape});"], "rows")


@writes("put_rows")
def put_rows(call: CallContext) -> CallText:
    return CallText([f"ops::put_rows({call.places('x index base y')}, {_row_shape(call)});"], "rows")


@writes("scatter")
def scatter(call: CallContext) -> CallText:
    count, inner = call.integer("count"), call.integer("inner")
    outer = call["x"].size // (count * inner)
    rows = call["y"].size // (outer * inner)
    shape = f"/* outer, count, rows, inner */ {outer}, {count}, {rows}, {inner}"
    operation = f"ops::Scattering::{call.op.attributes['operation']}"
    line = f"ops::scatter({call.places('x index base y')}, {{{shape}, {operation}, {call.flag('include_self')}}});"
    return CallText([line], "rows")


@writes("bag_rows")
def bag_rows(call: CallContext) -> CallText:
    bags, width = call["y"].shape
    shape = (
        f"/* count */ {call['index'].size}, /* bags */ {bags}, /* width */ {width}, /* mean */ {call.flag('mean')}"
    )
    return CallText([f"ops::bag_rows({call.places('w index offsets y bag sizes')}, {{{shape}}});"], "rows")


@writes("order")
def order(call: CallContext) -> CallText:
    width, kept = call["x"].shape[-1], call["y"].shape[-1]
    sizes = f"/* rows */ {call['x'].size // width}, /* width */ {width}, /* kept */ {kept}"
    shape = f"{sizes}, /* falling */ {call.flag('falling')}"
    return CallText([f"ops::order({call.places('x y places')}, {shape});"], "rows")


def _typed(call: CallContext) -> str:
    return "int64_t" if call["x"].dtype == "i64" else "float"


@writes("place_of_extreme")
def place_of_extreme(call: CallContext) -> CallText:
    rows = call["y"].size
    shape = f"/* rows */ {rows}, /* width */ {call['x'].size // rows}, /* smallest */ {call.flag('smallest')}"
    return CallText([f"ops::place_of_extreme<{_typed(call)}>({call.places('x y')}, {shape});"], "rows")


@writes("cumulate")
def cumulate(call: CallContext) -> CallText:
    width = call["x"].shape[-1]
    shape = f"/* rows */ {call['x'].size // width}, /* width */ {width}"
    return CallText([f"ops::cumulate<{_typed(call)}>({call.places('x y')}, {shape});"], "rows")


# Generated kernels


@writes("fused")
def fused(call: CallContext) -> CallText:
    roles = [f"i{at}" for at in range(len(call.op.inputs))] + [f"o{at}" for at in range(len(call.op.outputs))]
    kernel = call.op.attributes["kernel"]
    sizes = f"/* rows */ {call.integer('rows')}, /* elements */ {call.integer('work')}"
    line = f"run(kernels::{kernel}, {sizes}, {', '.join(map(call.place, roles))});"
    return CallText([line], "kernels")


def described(op: Op) -> str:
    """An op in words: what goes in, and what comes out."""
    kind = "fused " + " ".join(op.origin.operators) if op.kind == "fused" else op.kind.replace("_", " ")
    results = ", ".join(dict.fromkeys(shape_text(value.shape) for value in op.outputs.values()))
    return f"{kind} -> {results}"
