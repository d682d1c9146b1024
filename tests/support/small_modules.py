"""Small modules that together use every operator of the vendor rung.

A convolution before a batch norm has no bias: its gradient is zero up to rounding and proves nothing."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import nn

IMAGE = (6, 5, 7)


class Skip(nn.Module):  # type: ignore[misc]
    """Batch norm, the sum with the input, an activation."""

    def __init__(self, activation: nn.Module, channels: int = 6) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 1)
        self.conv = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm, self.activation = nn.BatchNorm2d(channels), activation

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        return self.activation(self.norm(self.conv(x)) + x)


class Excite(nn.Module):  # type: ignore[misc]
    """Squeeze and excitation (Hu et al., 2017), as MobileNetV3 has it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.down, self.up = nn.Conv2d(6, 8, 3), nn.Conv2d(8, 4, 1), nn.Conv2d(4, 8, 1)

    def forward(self, x: Any) -> Any:
        x = self.conv(x)
        factor = nn.functional.adaptive_avg_pool2d(x, 1)
        return nn.functional.hardsigmoid(self.up(torch.relu(self.down(factor)))) * x


class Branches(nn.Module):  # type: ignore[misc]
    """Branches concatenated along one dimension; one branch is in the result twice."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.dim = dim
        self.convs = nn.ModuleList(nn.Conv2d(6, 6, 1) for _ in range(2))

    def forward(self, x: Any) -> Any:
        a, b = (conv(x) for conv in self.convs)
        return torch.cat([a, torch.relu(b), a], dim=self.dim)


class ConcatenatedFeatures(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(210, 3), nn.Linear(210, 5)

    def forward(self, x: Any) -> Any:
        x = x.flatten(1)
        return torch.cat([self.a(x), self.b(x)], dim=-1)


class Shuffle(nn.Module):  # type: ignore[misc]
    """A convolution of half the channels, then both halves interleaved (ShuffleNet V2, Ma et al., 2018)."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Conv2d(6, 6, 1), nn.Conv2d(3, 3, 3, padding=1)

    def forward(self, x: Any) -> Any:
        kept, convolved = self.first(x).split(3, dim=1)
        x = torch.cat([kept, self.second(convolved)], dim=1)
        n, c, h, w = x.shape
        return x.view(n, 2, c // 2, h, w).transpose(1, 2).reshape(n, c, h, w)


class Gated(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Conv2d(6, 4, 3), nn.Conv2d(6, 4, 3)

    def forward(self, x: Any) -> Any:
        return torch.tanh(self.a(x)) * torch.sigmoid(self.b(x))


class Sliced(nn.Module):  # type: ignore[misc]
    """A slice of every dimension but the first."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(6, 6, 1)

    def forward(self, x: Any) -> Any:
        return self.conv(x)[:, 1:4, 2:, :-3]


class Permuted(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.linear = nn.Conv2d(6, 4, 1), nn.Linear(4, 3)

    def forward(self, x: Any) -> Any:
        return self.linear(self.conv(x).permute(0, 2, 3, 1)).permute(0, 3, 1, 2).unsqueeze(1).squeeze(1)


class LateSkip(nn.Module):  # type: ignore[misc]
    """The sum of a convolution and of a view of a result that is computed after it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.linear = nn.Conv2d(6, 4, 1), nn.Linear(210, 140)

    def forward(self, x: Any) -> Any:
        return self.conv(x) + self.linear(torch.relu(x).flatten(1)).reshape(-1, 4, 5, 7)


class Signal(nn.Module):  # type: ignore[misc]
    """A batch norm over signals of shape (N, C, L)."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(6, 4, 1, bias=False), nn.BatchNorm1d(4)

    def forward(self, x: Any) -> Any:
        return torch.relu(self.norm(self.conv(x).flatten(2)))


class Recurrent(nn.Module):  # type: ignore[misc]
    """Two LSTMs; the first reads a view and has a skip connection."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.first, self.second = nn.Linear(210, 18), nn.LSTM(6, 6), nn.LSTM(6, 5)

    def forward(self, x: Any) -> Any:
        x = self.linear(x.flatten(1)).view(4, 3, 6)
        return self.second(self.first(x)[0] + x)[0]


class Unused(nn.Module):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.conv, self.idle = nn.Conv2d(6, 4, 3), nn.Linear(3, 3)

    def forward(self, x: Any) -> Any:
        return self.conv(x)


class Masked(nn.Module):  # type: ignore[misc]
    """A convolution with a computed filter, and a batch norm that therefore cannot be folded into it."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(6, 4, 3, bias=False), nn.BatchNorm2d(4)
        self.filter = nn.Parameter(torch.randn(4, 4, 2, 2), requires_grad=False)
        self.mask = nn.Parameter(torch.bernoulli(torch.full((4, 4, 2, 2), 0.5)), requires_grad=False)

    def forward(self, x: Any) -> Any:
        return torch.relu(self.norm(nn.functional.conv2d(self.conv(x), self.filter * self.mask)))


def frozen() -> nn.Module:
    """A convolution, a batch norm and a bias that are frozen, among layers that are trained."""
    conv, norm, last = nn.Conv2d(4, 4, 3), nn.BatchNorm2d(4), nn.Conv2d(4, 3, 1)
    for weight in (*conv.parameters(), *norm.parameters(), last.bias):
        weight.requires_grad_(False)
    return nn.Sequential(nn.Conv2d(6, 4, 1, bias=False), conv, norm, nn.ReLU(), last)


class Parallel(nn.Module):  # type: ignore[misc]
    """Several modules on one input, so that one plan and one process test them all. In training the results are
    concatenated, because a step has one loss."""

    def __init__(self, branches: Mapping[str, Callable[[], nn.Module]]) -> None:
        super().__init__()
        self.branches = nn.ModuleDict({name: make() for name, make in branches.items()})

    def forward(self, x: Any) -> Any:
        results = [branch(x) for branch in self.branches.values()]
        if not self.training:
            return tuple(results)
        return torch.cat([result.reshape(x.shape[0], -1) for result in results], dim=1)


ACTIVATIONS: dict[str, Callable[[], nn.Module]] = {
    "relu": nn.ReLU,
    "relu6": nn.ReLU6,
    "hardtanh": lambda: nn.Hardtanh(-0.4, 0.7),
    "leaky_relu": lambda: nn.LeakyReLU(0.2),
    "hardsigmoid": nn.Hardsigmoid,
    "sigmoid": nn.Sigmoid,
    "tanh": nn.Tanh,
    "hardswish": nn.Hardswish,
    "silu": nn.SiLU,
    "gelu": nn.GELU,
    "gelu_tanh": lambda: nn.GELU(approximate="tanh"),
}
MODULES: dict[str, Callable[[], nn.Module]] = {
    "filter_larger_than_image": lambda: nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(6, 4, 3, padding=1)),
    "skip_without_activation": lambda: Skip(nn.Identity()),
    "squeeze_excitation": Excite,
    "cat_images": lambda: Branches(0),
    "cat_channels": lambda: Branches(1),
    "cat_rows": lambda: Branches(2),
    "cat_columns": lambda: Branches(3),
    "channel_shuffle": Shuffle,
    "product": Gated,
    "slice": Sliced,
    "permute": Permuted,
    "transposed_convolution": lambda: nn.Sequential(
        nn.Conv2d(6, 4, 1), nn.ConvTranspose2d(4, 3, 3, stride=2, padding=1)
    ),
    "grouped_transposed_convolution": lambda: nn.Sequential(
        nn.Conv2d(6, 4, 1),
        nn.ConvTranspose2d(4, 6, (3, 2), stride=2, output_padding=1, groups=2, bias=False),
        nn.BatchNorm2d(6),
        nn.ReLU(),
    ),
    "late_skip": LateSkip,
    "batch_norm_1d": Signal,
    "unused_weight": Unused,
    "frozen_weights": frozen,
    "computed_filter": Masked,
    "cat_features": ConcatenatedFeatures,
    "overlapping_average_pool": lambda: nn.Sequential(nn.Conv2d(6, 4, 1), nn.AvgPool2d(3, stride=1, padding=1)),
}


def activation_everywhere(activation: Callable[[], nn.Module], channels: int = 6) -> nn.Module:
    """An activation after each layer that it can be fused with."""
    return nn.Sequential(
        nn.Conv2d(channels, channels, 3, padding=1),
        activation(),
        nn.Conv2d(channels, channels, 1, bias=False),
        nn.BatchNorm2d(channels),
        activation(),
        Skip(activation(), channels),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(channels, 4),
        activation(),
    )


# Kernel, stride and padding of the first layers of ResNets, MobileNets and AlexNet, and of two whose windows skip
# pixels.
FIRST_LAYERS = [(7, 2, 3), (3, 2, 1), (11, 4, 2), (1, 2, 0), (3, 3, 0)]


def first_layers(kernel: int, stride: int, padding: int) -> nn.Module:
    """A first layer on three channels, and a later one with few channels."""
    first = nn.Conv2d(3, 8, kernel, stride, padding)
    return nn.Sequential(first, nn.ReLU(), nn.Conv2d(8, 5, 1), nn.Conv2d(5, 8, 3, stride=2))
