"""Demucs (Defossez et al., 2019): a U-Net of gated convolutions with an LSTM between encoder and decoder."""

from typing import Any

import torch
from torch import nn

KERNEL, STRIDE = 8, 4


class Demucs(nn.Module):
    def __init__(self, width: int, depth: int, sources: int, channels: int = 2) -> None:
        super().__init__()
        self.sources, self.channels = sources, channels
        self.down, self.up = nn.ModuleList(), nn.ModuleList()
        into, out = channels, width
        for i in range(depth):
            self.down.append(
                nn.Sequential(
                    nn.Conv1d(into, out, KERNEL, STRIDE), nn.ReLU(), nn.Conv1d(out, 2 * out, 1), nn.GLU(1)
                )
            )
            up_out = into if i else sources * channels
            activation: list[Any] = [nn.ReLU()] if i else []
            up = [
                nn.Conv1d(out, 2 * out, 3, padding=1),
                nn.GLU(1),
                nn.ConvTranspose1d(out, up_out, KERNEL, STRIDE),
            ]
            self.up.insert(0, nn.Sequential(*up, *activation))
            into, out = out, 2 * out
        self.lstm = nn.LSTM(into, into, 2, bidirectional=True, batch_first=True)
        self.join = nn.Linear(2 * into, into)
        self._rescale()

    def _rescale(self) -> None:
        """Section 4.3: scales initial weights towards a standard deviation of 0.1."""
        for module in self.modules():
            if isinstance(module, (nn.Conv1d, nn.ConvTranspose1d)):
                with torch.no_grad():
                    scale = (module.weight.std() / 0.1).sqrt()
                    module.weight.div_(scale)
                    module.bias.div_(scale)

    def forward(self, x: Any) -> Any:
        length = x.shape[-1]
        skips = []
        for layer in self.down:
            x = layer(x)
            skips.append(x)
        x = self.join(self.lstm(x.transpose(1, 2))[0]).transpose(1, 2)
        for layer in self.up:
            skip = skips.pop()
            # Strides do not divide every length, so the two may differ by a few samples: cut both to the shorter.
            shared = min(x.shape[-1], skip.shape[-1])
            x = layer(x[..., :shared] + skip[..., :shared])
        x = nn.functional.pad(x, (0, max(length - x.shape[-1], 0)))[..., :length]
        return x.view(x.shape[0], self.sources, self.channels, length)
