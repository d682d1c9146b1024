"""The generator of HiFi-GAN (Kong et al., 2020): a spectrogram to a wave, by parallel kernels of several sizes."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.parametrizations import weight_norm

STRIDES = ((8, 16), (8, 16), (2, 4), (2, 4))
KERNELS = (3, 7, 11)
DILATIONS = (1, 3, 5)


class Field(nn.Module):
    """Residual pairs of convolutions with one kernel size and growing dilation."""

    def __init__(self, width: int, kernel: int) -> None:
        super().__init__()
        self.wide = nn.ModuleList(
            weight_norm(nn.Conv1d(width, width, kernel, dilation=d, padding=(kernel - 1) * d // 2))
            for d in DILATIONS
        )
        self.narrow = nn.ModuleList(
            weight_norm(nn.Conv1d(width, width, kernel, padding=kernel // 2)) for _ in DILATIONS
        )

    def forward(self, x: Any) -> Any:
        for wide, narrow in zip(self.wide, self.narrow, strict=True):
            x = x + narrow(functional.leaky_relu(wide(functional.leaky_relu(x, 0.1)), 0.1))
        return x


class Generator(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.first = weight_norm(nn.Conv1d(80, width, 7, padding=3))
        self.grow, self.fields = nn.ModuleList(), nn.ModuleList()
        for stride, kernel in STRIDES:
            self.grow.append(
                weight_norm(nn.ConvTranspose1d(width, width // 2, kernel, stride, (kernel - stride) // 2))
            )
            width //= 2
            self.fields.append(nn.ModuleList(Field(width, kernel) for kernel in KERNELS))
        self.last = weight_norm(nn.Conv1d(width, 1, 7, padding=3))
        for name, parameter in self.named_parameters():
            if name.endswith("bias"):
                nn.init.zeros_(parameter)  # random biases would be louder than the spectrogram

    def forward(self, x: Any) -> Any:
        x = self.first(x)
        for grow, fields in zip(self.grow, self.fields, strict=True):
            x = grow(functional.leaky_relu(x, 0.1))
            x = sum(field(x) for field in fields) / len(fields)
        return torch.tanh(self.last(functional.leaky_relu(x)))
