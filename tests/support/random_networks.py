"""Random networks from a seed, as workloads: convolutions of every kind, norms, activations, recurrent layers,
attention, embeddings, pooling, residual and concatenating branches, at odd sizes. Parity must call eager and every
correct rung the same on all of them."""

import random
import re
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import torch
from torch import nn

from tare.workloads.base import Batch, Workload

ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU, "relu6": nn.ReLU6, "leaky": nn.LeakyReLU, "elu": nn.ELU, "selu": nn.SELU, "celu": nn.CELU,
    "gelu": nn.GELU, "gelu-tanh": lambda: nn.GELU(approximate="tanh"), "silu": nn.SiLU, "mish": nn.Mish,
    "tanh": nn.Tanh, "sigmoid": nn.Sigmoid, "hardtanh": nn.Hardtanh, "hardswish": nn.Hardswish,
    "hardsigmoid": nn.Hardsigmoid, "softplus": nn.Softplus, "softsign": nn.Softsign, "logsigmoid": nn.LogSigmoid,
    "prelu": nn.PReLU, "tanhshrink": nn.Tanhshrink, "softshrink": lambda: nn.Softshrink(0.1),
    "hardshrink": lambda: nn.Hardshrink(0.1), "softmax": lambda: nn.Softmax(dim=1),
}  # fmt: skip
CONVOLUTIONS = {1: nn.Conv1d, 2: nn.Conv2d, 3: nn.Conv3d}
TRANSPOSED = {1: nn.ConvTranspose1d, 2: nn.ConvTranspose2d, 3: nn.ConvTranspose3d}
BATCH_NORMS = {1: nn.BatchNorm1d, 2: nn.BatchNorm2d, 3: nn.BatchNorm3d}
INSTANCE_NORMS = {1: nn.InstanceNorm1d, 2: nn.InstanceNorm2d, 3: nn.InstanceNorm3d}
MAX_POOLS = {1: nn.MaxPool1d, 2: nn.MaxPool2d, 3: nn.MaxPool3d}
AVERAGE_POOLS = {1: nn.AvgPool1d, 2: nn.AvgPool2d, 3: nn.AvgPool3d}
ADAPTIVE_POOLS = {1: nn.AdaptiveAvgPool1d, 2: nn.AdaptiveAvgPool2d, 3: nn.AdaptiveAvgPool3d}

FAMILIES = ("image", "image", "image", "signal", "volume", "sequence", "tokens", "features")


# Why the vendor rung refuses some of these networks.
NOT_LOWERED = re.compile(
    r"over 3 dimensions|operator aten\.(\w*pool\w*|\w*3d\w*|_thnn\w*|gru|rnn_\w+|lstm)|cannot be traced"
)


class Residual(nn.Module):  # type: ignore[misc]
    def __init__(self, body: nn.Module) -> None:
        super().__init__()
        self.body = body

    def forward(self, x: Any) -> Any:
        return x + self.body(x)


class Concatenation(nn.Module):  # type: ignore[misc]
    def __init__(self, *branches: nn.Module) -> None:
        super().__init__()
        self.branches = nn.ModuleList(branches)

    def forward(self, x: Any) -> Any:
        return torch.cat([branch(x) for branch in self.branches], dim=1)


class ChannelsLastNorm(nn.Module):  # type: ignore[misc]
    """A layer norm over the channels, as in ConvNeXt."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(channels)

    def forward(self, x: Any) -> Any:
        return self.norm(x.movedim(1, -1)).movedim(-1, 1)


class Attention(nn.Module):  # type: ignore[misc]
    """Self-attention over the sequence of a (batch, length, width) tensor, with or without a causal mask."""

    def __init__(self, width: int, heads: int, causal: bool, dropout: float) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, heads, dropout=dropout, batch_first=True)
        self.causal = causal

    def forward(self, x: Any) -> Any:
        normed = self.norm(x)
        mask = None
        if self.causal:
            mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device, dtype=x.dtype)
        return x + self.attention(normed, normed, normed, attn_mask=mask, need_weights=False)[0]


class Recurrent(nn.Module):  # type: ignore[misc]
    def __init__(self, kind: str, width: int, hidden: int, layers: int, both_ways: bool, dropout: float) -> None:
        super().__init__()
        self.layer = getattr(nn, kind)(
            width,
            hidden,
            layers,
            batch_first=True,
            bidirectional=both_ways,
            dropout=dropout if layers > 1 else 0.0,
        )
        self.out = hidden * (2 if both_ways else 1)

    def forward(self, x: Any) -> Any:
        return self.layer(x)[0]


class Head(nn.Module):  # type: ignore[misc]
    """Means over every axis but batch and features, then a linear layer."""

    def __init__(self, features: int, classes: int, axes: tuple[int, ...]) -> None:
        super().__init__()
        self.linear, self.axes = nn.Linear(features, classes), axes

    def forward(self, x: Any) -> Any:
        return self.linear(x.mean(self.axes) if self.axes else x)


class RandomNetwork:
    """The definition of a workload. Seed, size and dropout decide the network; tare's own seed the weights."""

    def __init__(self, seed: int, large: bool = False, dropout: bool = True) -> None:
        draw = random.Random(seed)
        self.seed, self.large, self.with_dropout = seed, large, dropout
        self.family = draw.choice(
            ("image", "image", "image", "signal", "volume", "sequence", "tokens", "features")
        )
        self.classes = draw.randint(3, 11)
        self.batch = draw.randint(2, 9 if large else 5)
        self.width = draw.choice((3, 5, 8, 12, 17) if not large else (8, 16, 24, 33, 64))
        self.regresses = draw.random() < 0.3
        self.learning_rate = draw.choice((0.1, 0.01, 0.001))
        self.optimizer = draw.choice(("sgd", "sgd", "adam", "adamw"))
        sides = {"image": (7, 21), "signal": (9, 40), "volume": (5, 9), "sequence": (3, 12), "tokens": (3, 12)}
        low, high = sides.get(self.family, (4, 30))
        self.side = draw.randint(low, 3 * high if large and self.family != "volume" else high)
        self.depth = draw.randint(1, 6 if large else 4)
        self.draw_seed = draw.randrange(1 << 30)

    def build(self) -> Any:
        self._draw = random.Random(self.draw_seed)
        layers: list[nn.Module]
        if self.family == "features":
            layers, features = self._features(), self._out
            axes: tuple[int, ...] = ()
        elif self.family in ("sequence", "tokens"):
            layers, features, axes = self._sequence(), self._out, (1,)
        else:
            dimensions = {"signal": 1, "image": 2, "volume": 3}[self.family]
            layers, features = self._convolutional(dimensions), self._out
            axes = tuple(range(2, 2 + dimensions))
        return nn.Sequential(*layers, Head(features, self.classes, axes))

    def inputs(self, batch: int) -> Batch:
        if self.family == "tokens":
            args = torch.randint(31, (batch, self.side))
        elif self.family == "features":
            args = torch.randn(batch, self.side)
        elif self.family == "sequence":
            args = torch.randn(batch, self.side, self.width)
        else:
            dimensions = {"signal": 1, "image": 2, "volume": 3}[self.family]
            args = torch.randn(batch, 3, *[self.side] * dimensions)
        target = torch.randn(batch, self.classes) if self.regresses else torch.randint(self.classes, (batch,))
        return Batch((args,), target)

    def loss(self, output: Any, target: Any) -> Any:
        function = nn.functional.mse_loss if self.regresses else nn.functional.cross_entropy
        return function(output, target)

    def _activation(self) -> nn.Module:
        return ACTIVATIONS[self._draw.choice(list(ACTIVATIONS))]()

    def _rate(self) -> float:
        return self._draw.choice((0.1, 0.3)) if self._draw.random() < 0.25 and self.with_dropout else 0.0

    def _features(self) -> list[nn.Module]:
        layers, width = list[nn.Module](), self.side
        for _ in range(self.depth):
            layers += [nn.Linear(width, 4 * self.width, bias=self._draw.random() < 0.8), self._activation()]
            width = 4 * self.width
            norm = self._draw.choice(("none", "batch", "layer"))
            layers += [] if norm == "none" else [nn.BatchNorm1d(width) if norm == "batch" else nn.LayerNorm(width)]
            if rate := self._rate():
                layers.append(nn.Dropout(rate))
        self._out = width
        return layers

    def _sequence(self) -> list[nn.Module]:
        layers, width = list[nn.Module](), self.width
        if self.family == "tokens":
            width = 4 * self.width
            layers.append(nn.Embedding(31, width, padding_idx=0 if self._draw.random() < 0.3 else None))
        for _ in range(self.depth):
            kind = self._draw.choice(("LSTM", "GRU", "RNN", "attention", "attention", "linear"))
            if kind == "attention":
                heads = self._draw.choice([h for h in (1, 2, 3, 4, 5) if width % h == 0])
                layers.append(Attention(width, heads, self._draw.random() < 0.5, self._rate()))
            elif kind == "linear":
                layers += [nn.Linear(width, width), self._activation(), nn.LayerNorm(width)]
            else:
                recurrent = Recurrent(
                    kind, width, self._draw.choice((4, 7, 16)), self._draw.randint(1, 2),
                    self._draw.random() < 0.3, self._rate(),
                )  # fmt: skip
                layers.append(recurrent)
                width = recurrent.out
        self._out = width
        return layers

    def _convolutional(self, dimensions: int) -> list[nn.Module]:
        layers, channels, side = list[nn.Module](), 3, self.side
        for _ in range(self.depth):
            added, channels, side = self._block(dimensions, channels, side)
            layers += added
        self._out = channels
        return layers

    def _block(self, dimensions: int, channels: int, side: int) -> tuple[list[nn.Module], int, int]:
        draw = self._draw
        kind = draw.choice(("plain", "plain", "depthwise", "grouped", "transposed", "residual", "concat"))
        kernel = draw.choice([k for k in (1, 2, 3, 5) if k <= side])
        bias = draw.random() < 0.6
        convolution = CONVOLUTIONS[dimensions]
        wide = draw.choice((self.width, 2 * self.width))
        layers: list[nn.Module]
        if kind == "depthwise":
            multiplier = draw.randint(1, 3)
            odd = kernel | 1
            layers = [convolution(channels, channels * multiplier, odd, padding=odd // 2, groups=channels)]
            channels *= multiplier
        elif kind == "grouped" and channels % 2 == 0:
            layers = [convolution(channels, 2 * self.width, 1, groups=2, bias=bias)]
            channels = 2 * self.width
        elif kind == "transposed" and side <= (12 if dimensions < 3 else 5):
            layers = [TRANSPOSED[dimensions](channels, wide, 3, stride=2, padding=1, bias=bias)]
            channels, side = wide, 2 * side - 1
        elif kind == "residual":
            body = [convolution(channels, channels, 3, padding=1, bias=bias), self._norm(dimensions, channels)]
            layers = [Residual(nn.Sequential(*body, self._activation()))]
        elif kind == "concat":
            branches = [convolution(channels, wide, k, padding=k // 2, bias=bias) for k in (1, 3)]
            layers, channels = [Concatenation(*branches)], 2 * wide
        else:
            stride = draw.choice((1, 1, 2))
            dilation = draw.choice((1, 1, 2))
            padding = draw.randint(0, kernel // 2)
            reach = dilation * (kernel - 1) + 1
            if side + 2 * padding < reach + 1:
                dilation, stride, reach, padding = 1, 1, kernel, kernel // 2
            layers = [convolution(channels, wide, kernel, stride, padding, dilation, bias=bias)]
            channels, side = wide, (side + 2 * padding - reach) // stride + 1
        layers.append(self._norm(dimensions, channels))
        layers.append(self._activation())
        if rate := self._rate():
            layers.append(nn.Dropout(rate))
        if side >= 4 and draw.random() < 0.4:
            pool = draw.choice((MAX_POOLS, AVERAGE_POOLS, ADAPTIVE_POOLS))[dimensions]
            if pool is ADAPTIVE_POOLS[dimensions]:
                side = draw.randint(1, 3)
                layers.append(pool(side))
            else:
                layers.append(pool(3, 2))
                side = (side - 3) // 2 + 1
        return layers, channels, side

    def _norm(self, dimensions: int, channels: int) -> nn.Module:
        kind = self._draw.choice(("none", "batch", "batch", "group", "instance", "layer"))
        if kind == "batch":
            return BATCH_NORMS[dimensions](channels)
        if kind == "group":
            groups = self._draw.choice([g for g in (1, 2, 3, 4) if channels % g == 0])
            return nn.GroupNorm(groups, channels)
        if kind == "instance":
            return INSTANCE_NORMS[dimensions](channels, affine=self._draw.random() < 0.5)
        return ChannelsLastNorm(channels) if kind == "layer" else nn.Identity()


def random_workload(seed: int, large: bool = False, dropout: bool = True) -> Workload:
    """The network of a seed. Instance norms refuse one value per channel in training: such seeds are redrawn."""
    for attempt in range(50):
        definition = RandomNetwork(seed + 1_000_003 * attempt, large, dropout)
        workload = Workload(
            name=f"random_{seed}", definition=definition, domain="other", task="", source="",
            batch=definition.batch, learning_rate=definition.learning_rate, optimizer=definition.optimizer,
            layouts=("contiguous", *(["channels-last"] if definition.family == "image" else [])),
        )  # fmt: skip
        try:
            with torch.no_grad():
                workload.build({}).train()(*workload.inputs(workload.batch, {}).args)
        except (RuntimeError, ValueError):
            continue
        return workload
    raise RuntimeError(f"no network can be drawn from seed {seed}")


class Images:
    """Classifiers of odd images, which parity has once called different by mistake."""

    def __init__(self, make: Callable[[], Any], resolution: int, classes: int) -> None:
        self.make, self.resolution, self.classes = make, resolution, classes

    def build(self) -> Any:
        return self.make()

    def inputs(self, batch: int) -> Batch:
        return Batch(
            (torch.randn(batch, 3, self.resolution, self.resolution),), torch.randint(self.classes, (batch,))
        )

    def loss(self, output: Any, target: Any) -> Any:
        return nn.functional.cross_entropy(output, target)


def narrow_vgg() -> Any:
    """VGG-11 with batch norm and biases before it, a quarter as wide: they have no gradient but rounding."""
    layers, channels = list[nn.Module](), 3
    for wide in (16, "M", 32, "M", 64, 64, "M", 128, 128, "M", 128, 128, "M"):
        if isinstance(wide, str):
            layers.append(nn.MaxPool2d(2, 2))
        else:
            layers += [nn.Conv2d(channels, wide, 3, padding=1), nn.BatchNorm2d(wide), nn.ReLU(inplace=True)]
            channels = wide
    head = [nn.Linear(channels * 4, 256), nn.ReLU(), nn.Dropout(), nn.Linear(256, 10)]
    return nn.Sequential(*layers, nn.Flatten(), *head)


def saturating_cnn() -> Any:
    """Convolutions, tanh, sigmoid and pooling: small gradients of large terms."""
    return nn.Sequential(
        nn.Conv2d(3, 8, 5), nn.Tanh(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3), nn.Sigmoid(), nn.AvgPool2d(2),
        nn.Conv2d(16, 16, 3), nn.Tanh(), nn.Conv2d(16, 24, 3), nn.Sigmoid(), nn.AdaptiveAvgPool2d(2), nn.Flatten(),
        nn.Linear(96, 10),
    )  # fmt: skip


def named_workloads(large: bool = True) -> list[Workload]:
    """At batch 3 and resolution 75, where eager in float32 was called different on an H200."""
    makers: dict[str, tuple[Callable[[], Any], int]] = {
        "narrow_vgg_bn": (narrow_vgg, 10),
        "saturating_cnn": (saturating_cnn, 10),
    }
    with suppress(ImportError):
        from torchvision import models

        makers["squeezenet1_1"] = (lambda: models.squeezenet1_1(weights=None, num_classes=10), 10)
        if large:
            makers["vgg11_bn"] = (lambda: models.vgg11_bn(weights=None, num_classes=10), 10)
    return [
        Workload(
            name=name, definition=Images(make, 75, classes), domain="other", task="", source="", batch=3,
            learning_rate=0.01, layouts=("contiguous", "channels-last"),
        )
        for name, (make, classes) in makers.items()
    ]  # fmt: skip
