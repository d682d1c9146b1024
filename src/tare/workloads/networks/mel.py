"""The log-mel spectrogram, which vocoders take as input and which their loss compares."""

import math
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from tare.workloads.kinds import single

RATE, WINDOW, BANDS = 22050, 1024, 80
HOP = 256
# Slaney's mel scale: linear up to 1 kHz (15 mels), and logarithmic above (27 mels for a factor of 6.4).
KNEE, PER_MEL, STEP = 1000.0, 200.0 / 3, math.log(6.4) / 27


def to_mel(hertz: float) -> float:
    return hertz / PER_MEL if hertz < KNEE else KNEE / PER_MEL + math.log(hertz / KNEE) / STEP


def to_hertz(mels: Any) -> Any:
    return torch.where(mels < KNEE / PER_MEL, mels * PER_MEL, KNEE * ((mels - KNEE / PER_MEL) * STEP).exp())


def triangles(highest: float) -> Any:
    """Filters (bands, frequencies): triangles evenly spaced in mels, each with an area of one."""
    edges = to_hertz(torch.linspace(0.0, to_mel(highest), BANDS + 2, dtype=torch.float64))
    low, middle, high = edges[:-2, None], edges[1:-1, None], edges[2:, None]
    frequencies = torch.linspace(0.0, RATE / 2, WINDOW // 2 + 1, dtype=torch.float64)
    rising, falling = (frequencies - low) / (middle - low), (high - frequencies) / (high - middle)
    return (torch.minimum(rising, falling).clamp(min=0.0) * 2 / (high - low)).float()


class LogMel(nn.Module):
    """Waves (batch, 1, samples) to (batch, bands, samples / hop), up to the highest frequency in hertz."""

    filters: Any
    window: Any

    def __init__(self, highest: float) -> None:
        super().__init__()
        self.register_buffer("filters", triangles(highest))
        self.register_buffer("window", torch.hann_window(WINDOW))

    def forward(self, waves: Any) -> Any:
        waves = single(waves)
        padded = functional.pad(waves, ((WINDOW - HOP) // 2, (WINDOW - HOP) // 2), mode="reflect").squeeze(1)
        spectrum = torch.stft(padded, WINDOW, HOP, window=self.window.to(waves), center=False, return_complex=True)
        # The offset keeps the gradient of the square root finite.
        power = torch.view_as_real(spectrum).square().sum(-1) + 1e-9
        return (self.filters.to(waves) @ power.sqrt()).clamp(min=1e-5).log()
