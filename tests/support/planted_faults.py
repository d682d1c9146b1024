"""A catalogue of faults that a rung may have, each planted into eager: parity has to catch every one at every
precision in which it is larger than rounding."""

from collections.abc import Callable
from types import MethodType
from typing import Any, NamedTuple

import torch
from torch import nn
from torch.nn import functional

from tare.rungs.torch.program import LOSS_SCALE, TorchProgram
from tare.workloads.base import Batch, Workload

CHANNELS, SIDE, CLASSES, WORDS, WIDTH, HEADS, LENGTH = 8, 13, 6, 29, 16, 2, 7


class Block(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, bias=False)
        self.norm = nn.BatchNorm2d(CHANNELS)

    def forward(self, x: Any) -> Any:
        return functional.relu(x + self.norm(self.conv(x)))


class Convolutional(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, CHANNELS, 3, padding=1)
        self.norm = nn.BatchNorm2d(CHANNELS)
        self.activation = nn.GELU()
        self.depthwise = nn.Conv2d(CHANNELS, CHANNELS, 3, padding=1, groups=CHANNELS)
        self.block = Block()
        self.pool = nn.MaxPool2d(3, 2)
        self.average = nn.AvgPool2d(3, 2, padding=1)
        self.hidden = nn.Linear(CHANNELS * 9, CHANNELS * 9)
        self.head = nn.Linear(CHANNELS * 9, CLASSES)

    def forward(self, x: Any) -> Any:
        x = self.depthwise(self.activation(self.norm(self.stem(x))))
        x = self.average(self.pool(self.block(x)))
        return self.head(torch.tanh(self.hidden(x.flatten(1))))


class Attention(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.scale, self.diagonal, self.axis, self.mixes_heads = (WIDTH / HEADS) ** -0.5, 1, -1, False

    def forward(self, x: Any) -> Any:
        batch, length, _ = x.shape
        shape = (batch, HEADS, length, -1) if self.mixes_heads else (batch, length, HEADS, -1)
        q, k, v = (part.reshape(shape) for part in self.qkv(x).chunk(3, -1))
        if not self.mixes_heads:
            q, k, v = (part.transpose(1, 2) for part in (q, k, v))
        mask = torch.ones(length, length, dtype=torch.bool, device=x.device).triu(self.diagonal)
        scores = (self.scale * (q @ k.mT)).masked_fill(mask, -1e4)
        return x + self.out((scores.softmax(self.axis) @ v).transpose(1, 2).flatten(2))


class Language(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(WORDS, WIDTH)
        self.recurrent = nn.LSTM(WIDTH, WIDTH, batch_first=True)
        self.attention = Attention()
        self.norm = nn.LayerNorm(WIDTH)
        self.head = nn.Linear(WIDTH, CLASSES)

    def forward(self, tokens: Any) -> Any:
        return self.head(self.norm(self.attention(self.recurrent(self.embedding(tokens))[0])))


class ImageDefinition:
    def build(self) -> Any:
        torch.manual_seed(5)
        model = Convolutional()
        for norm in (model.norm, model.block.norm):
            # As if trained: otherwise a norm that forgets its weights would be right.
            nn.init.uniform_(norm.weight, 0.5, 1.5)
            nn.init.normal_(norm.bias)
            norm.running_mean.normal_()
            norm.running_var.uniform_(0.5, 2)
        return model

    def inputs(self, batch: int) -> Batch:
        return Batch((torch.randn(batch, 3, SIDE, SIDE),), torch.randint(CLASSES, (batch,)))

    def loss(self, output: Any, target: Any) -> Any:
        return functional.cross_entropy(output, target)


class TextDefinition:
    def build(self) -> Any:
        torch.manual_seed(6)
        model = Language()
        nn.init.uniform_(model.norm.weight, 0.5, 1.5)
        nn.init.normal_(model.norm.bias)
        # Scores large enough that a mask or a scale matters.
        nn.init.normal_(model.attention.qkv.weight, std=0.6)
        return model

    def inputs(self, batch: int) -> Batch:
        return Batch((torch.randint(WORDS, (batch, LENGTH)),), torch.randint(CLASSES, (batch, LENGTH)))

    def loss(self, output: Any, target: Any) -> Any:
        return functional.cross_entropy(output.flatten(0, 1), target.flatten())


METADATA: dict[str, Any] = {"domain": "other", "task": "", "source": "", "batch": 5, "learning_rate": 0.05}
WORKLOADS = {
    name: Workload(name=name, definition=definition, **METADATA)
    for name, definition in (("faulty_image", ImageDefinition()), ("faulty_text", TextDefinition()))
}

Spoil = Callable[[TorchProgram], None]


class Fault(NamedTuple):
    """What is wrong, on which workload, in which modes."""

    name: str
    workload: str
    modes: tuple[str, ...]
    spoil: Spoil


FAULTS: dict[str, Fault] = {}
BOTH = ("infer", "train")


def fault(name: str, workload: str = "faulty_image", modes: tuple[str, ...] = BOTH) -> Callable[[Spoil], Spoil]:
    def register(spoil: Spoil) -> Spoil:
        FAULTS[name] = Fault(name, workload, modes, spoil)
        return spoil

    return register


def forward(path: str, function: Callable[[Any, Any], Any]) -> Spoil:
    """A layer computes something else: a function of the layer and its input."""

    def spoil(program: TorchProgram) -> None:
        layer = program.model.get_submodule(path)
        layer.forward = MethodType(function, layer)

    return spoil


def result(path: str, function: Callable[[Any], Any]) -> Spoil:
    """A layer's result is changed; the whole model's where the path is empty."""

    def spoil(program: TorchProgram) -> None:
        program.model.get_submodule(path).register_forward_hook(lambda _, __, output: function(output))

    return spoil


def attribute(path: str, name: str, value: Any) -> Spoil:
    return lambda program: setattr(program.model.get_submodule(path), name, value)


def optimizer(**settings: Any) -> Spoil:
    def spoil(program: TorchProgram) -> None:
        for group in program.optimizer.param_groups:
            group.update({key: value(group[key]) if callable(value) else value for key, value in settings.items()})

    return spoil


def gradient(path: str, function: Callable[[Any], Any]) -> Spoil:
    return lambda program: program.model.get_parameter(path).register_hook(function) and None


def _padded(amounts: tuple[int, ...], mode: str = "constant") -> Callable[[Any, Any], Any]:
    return lambda self, x: functional.conv2d(functional.pad(x, amounts, mode), self.weight, self.bias)


def _one_wrong_row(output: Any) -> Any:
    return torch.cat((output[1:2], output[1:]))


def _nan_in_one_place(output: Any) -> Any:
    broken = output.clone()
    broken.view(-1)[3] = float("nan")
    return broken


def _with_weights(change: Callable[[str, Any], Any]) -> Callable[[Any, Any], Any]:
    def call(self: Any, x: Any) -> Any:
        weights = {name: change(name, value) for name, value in self.named_parameters()}
        plain = type(self).forward
        saved, self.forward = self.forward, MethodType(plain, self)
        try:
            return torch.func.functional_call(self, weights, (x,))
        finally:
            self.forward = saved

    return call


def _swap_gates(_: str, weight: Any) -> Any:
    return torch.cat([weight.chunk(4)[i] for i in (1, 0, 2, 3)])


def _lose_recurrent_bias(name: str, weight: Any) -> Any:
    return torch.zeros_like(weight) if name == "bias_hh_l0" else weight


# Convolutions, norms, activations, pooling.
fault("wrong padding: two columns on one side")(forward("stem", _padded((2, 0, 2, 0))))
fault("padding that reflects instead of zeros")(forward("stem", _padded((1, 1, 1, 1), "reflect")))
fault("missing bias of a linear layer")(forward("head", lambda s, x: functional.linear(x, s.weight)))
fault("missing bias of a convolution")(
    forward("depthwise", lambda s, x: functional.conv2d(x, s.weight, None, padding=1, groups=CHANNELS))
)
fault("wrong groups: filters of another channel")(
    forward(
        "depthwise", lambda s, x: functional.conv2d(x, s.weight.roll(1, 0), s.bias, padding=1, groups=CHANNELS)
    )
)
fault("convolution instead of cross-correlation")(
    forward("stem", lambda s, x: functional.conv2d(x, s.weight.flip(2, 3), s.bias, padding=1))
)
fault("wrong channel order of the input")(
    forward("stem", lambda s, x: functional.conv2d(x.flip(1), s.weight, s.bias, padding=1))
)
fault("skipped layer")(forward("activation", lambda _, x: x))
fault("GELU by tanh")(attribute("activation", "approximate", "tanh"))
fault("GELU as SiLU")(forward("activation", lambda _, x: functional.silu(x)))
fault("ReLU that leaks")(result("block", lambda x: x - 0.01))
fault("wrong epsilon of a batch norm")(attribute("norm", "eps", 1e-2))
fault("batch norm without its weight and bias")(
    forward("norm", lambda s, x: functional.batch_norm(x, s.running_mean, s.running_var, None, None, s.training))
)
fault("stale batch-norm statistics in training", modes=("train",))(
    forward("norm", lambda s, x: functional.batch_norm(x, s.running_mean, s.running_var, s.weight, s.bias, False))
)
fault("batch statistics at inference", modes=("infer",))(
    forward("norm", lambda s, x: functional.batch_norm(x, None, None, s.weight, s.bias, True))
)
fault("biased by one: variance over n - 1", modes=("train",))(
    forward("norm", lambda s, x: functional.batch_norm(x, None, None, s.weight * 0.999, s.bias, True))
)
fault("dropped residual")(forward("block", lambda s, x: functional.relu(s.norm(s.conv(x)))))
fault("activation before the residual")(forward("block", lambda s, x: x + functional.relu(s.norm(s.conv(x)))))
fault("wrong stride crop of a pool")(
    forward("pool", lambda _, x: functional.max_pool2d(x[..., 1:, 1:], 3, 2, ceil_mode=True))
)
fault("average instead of maximum")(forward("pool", lambda _, x: functional.avg_pool2d(x, 3, 2)))
fault("average that does not count padding")(attribute("average", "count_include_pad", False))
fault("transposed weight")(forward("hidden", lambda s, x: functional.linear(x, s.weight.T, s.bias)))
fault("features in channels-last order")(
    forward("hidden", lambda s, x: functional.linear(x.view(-1, CHANNELS, 9).mT.flatten(1), s.weight, s.bias))
)
fault("integer truncation of activations")(result("hidden", lambda x: (32 * x).trunc() / 32))
fault("a layer in bfloat16")(result("block", lambda x: x.bfloat16().to(x.dtype)))
fault("a layer in float16")(result("block", lambda x: x.half().to(x.dtype)))
# Results.
fault("output times 1.01")(result("", lambda x: 1.01 * x))
fault("output times 1.001")(result("", lambda x: 1.001 * x))
fault("one wrong row of the output")(result("", _one_wrong_row))
fault("NaN in one place")(result("", _nan_in_one_place))
fault("softmax added to the output")(result("", lambda x: x.softmax(-1)))
# Sequences.
fault("swapped gates", "faulty_text")(forward("recurrent", _with_weights(_swap_gates)))
fault("missing recurrent bias", "faulty_text")(forward("recurrent", _with_weights(_lose_recurrent_bias)))
fault("missing scale of attention", "faulty_text")(attribute("attention", "scale", 1.0))
fault("mask off by one", "faulty_text")(attribute("attention", "diagonal", 2))
fault("missing mask", "faulty_text")(attribute("attention", "diagonal", LENGTH))
fault("softmax over the wrong axis", "faulty_text")(attribute("attention", "axis", -2))
fault("heads mixed with positions", "faulty_text")(attribute("attention", "mixes_heads", True))
fault("embedding off by one", "faulty_text")(
    forward("embedding", lambda s, x: functional.embedding((x + 1) % WORDS, s.weight))
)
fault("layer norm without its bias", "faulty_text")(
    forward("norm", lambda s, x: functional.layer_norm(x, (WIDTH,), s.weight, None, s.eps))
)
fault("wrong epsilon of a layer norm", "faulty_text")(attribute("norm", "eps", 1e-3))
# Training.
fault("lost gradient", modes=("train",))(gradient("stem.weight", torch.zeros_like))
fault("gradient times 1.01", modes=("train",))(gradient("hidden.weight", lambda g: 1.01 * g))
fault("gradient of the wrong sign", modes=("train",))(gradient("head.bias", lambda g: -g))
fault("clipped gradient", modes=("train",))(gradient("head.weight", lambda g: g.clamp(-0.02, 0.02)))
fault("half the learning rate", modes=("train",))(optimizer(lr=lambda rate: rate / 2))
fault("ignored momentum", modes=("train",))(optimizer(momentum=0.0))
fault("momentum of Nesterov", modes=("train",))(optimizer(nesterov=True))
fault("weight decay where there is none", modes=("train",))(optimizer(weight_decay=0.05))


@fault("frozen parameter", modes=("train",))
def freeze(program: TorchProgram) -> None:
    group = program.optimizer.param_groups[0]
    group["params"] = [p for p in group["params"] if p is not program.model.hidden.weight]


@fault("detached branch", modes=("train",))
def detach(program: TorchProgram) -> None:
    block = program.model.block
    block.forward = lambda x: functional.relu(x + block.norm(block.conv(x)).detach())


@fault("sum instead of mean in the loss", modes=("train",))
def sum_loss(program: TorchProgram) -> None:
    program.objective = lambda args, target: functional.cross_entropy(
        program.model(*args), target, reduction="sum"
    )
    program.step = program.plain_step()


@fault("smoothed labels", modes=("train",))
def smooth(program: TorchProgram) -> None:
    program.objective = lambda args, target: functional.cross_entropy(
        program.model(*args), target, label_smoothing=0.05
    )
    program.step = program.plain_step()


@fault("double step", modes=("train",))
def double(program: TorchProgram) -> None:
    step, update = program.optimizer.step, program.optimizer.step
    program.optimizer.step = lambda *args, **named: (step(*args, **named), update(*args, **named))[0]
    program.step = program.plain_step()


@fault("cached output")
def cache(program: TorchProgram) -> None:
    step, kept = program.step, list[Any]()

    def cached() -> Any:
        if not kept:
            kept.append(step())
        return kept[0]

    program.step = cached


@fault("every second step skipped")
def skip(program: TorchProgram) -> None:
    step, kept = program.step, list[Any]()

    def skipping() -> Any:
        kept.append(step() if len(kept) % 2 == 0 else kept[-1])
        return kept[-1]

    program.step = skipping


@fault("accumulated gradients", modes=("train",))
def accumulate(program: TorchProgram) -> None:
    def keep(*_: Any, **__: Any) -> None:
        # The optimizer has divided them by the scale of the loss.
        for parameter in program.model.parameters():
            if program.scaler is not None and parameter.grad is not None:
                parameter.grad.mul_(LOSS_SCALE)

    program.optimizer.zero_grad = keep
    program.step = program.plain_step()
