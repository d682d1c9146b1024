"""HiFi-GAN's training (Kong et al., 2020, section 2.3 and 2.4): two kinds of discriminators, and four losses."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

from tare.workloads.networks.frozen import frozen
from tare.workloads.networks.hifigan import Generator
from tare.workloads.networks.mel import RATE, LogMel

PERIODS = (2, 3, 5, 7, 11)
SCALES = 3
# Of the convolutions over one scale: channels in units of the width, kernel, stride, groups.
OVER_SCALE = (
    (4, 15, 1, 1), (4, 41, 2, 4), (8, 41, 2, 16), (16, 41, 4, 16), (32, 41, 4, 16), (32, 41, 1, 16), (32, 5, 1, 1),
)  # fmt: skip
# And over one period: channels and stride; every kernel has five rows.
OVER_PERIOD = ((1, 3), (4, 3), (16, 3), (32, 3), (32, 1))
MATCH, SOUND = 2.0, 45.0


class Judge(nn.Module):
    """Convolutions with leaky units between. Gives all their outputs: the last is the verdict."""

    def __init__(self, layers: list[Any], norm: Any) -> None:
        super().__init__()
        self.layers = nn.ModuleList(norm(layer) for layer in layers)

    def forward(self, x: Any) -> list[Any]:
        features = []
        for layer in self.layers[:-1]:
            x = functional.leaky_relu(layer(x), 0.1)
            features.append(x)
        return [*features, self.layers[-1](x)]


def of_period(width: int) -> Judge:
    layers: list[Any] = []
    into = 1
    for times, stride in OVER_PERIOD:
        layers.append(nn.Conv2d(into, times * width, (5, 1), (stride, 1), (2, 0)))
        into = times * width
    return Judge([*layers, nn.Conv2d(into, 1, (3, 1), padding=(1, 0))], weight_norm)


def of_scale(width: int, norm: Any) -> Judge:
    layers: list[Any] = []
    into = 1
    for times, kernel, stride, groups in OVER_SCALE:
        layers.append(nn.Conv1d(into, times * width, kernel, stride, kernel // 2, groups=groups))
        into = times * width
    return Judge([*layers, nn.Conv1d(into, 1, 3, padding=1)], norm)


class Judges(nn.Module):
    """One for each period, to which the wave is folded, and one for each scale, to which it is averaged."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.periods = nn.ModuleList(of_period(width) for _ in PERIODS)
        self.scales = nn.ModuleList(of_scale(width, weight_norm if i else spectral_norm) for i in range(SCALES))

    def forward(self, waves: Any) -> list[list[Any]]:
        found = []
        for period, judge in zip(PERIODS, self.periods, strict=True):
            whole = functional.pad(waves, (0, -waves.shape[-1] % period), mode="reflect")
            found.append(judge(whole.unflatten(-1, (-1, period))))
        for i, judge in enumerate(self.scales):
            waves = functional.avg_pool1d(waves, 4, 2, padding=2) if i else waves
            found.append(judge(waves))
        return found


def off(verdict: Any, wanted: float) -> Any:
    """Least squares, as a function that autocast computes in float32."""
    return functional.mse_loss(verdict, torch.full_like(verdict, wanted))


class HifiGan(nn.Module):
    """In training, the sum of the losses of generator and discriminators; else the waves."""

    def __init__(self, width: int, judges: int) -> None:
        super().__init__()
        self.generator = Generator(width)
        self.judges = Judges(judges)
        self.heard = LogMel(RATE / 2)

    def forward(self, spectrograms: Any, waves: Any) -> Any:
        made = self.generator(spectrograms)
        if not self.training:
            return made
        real, fake, seen = self.judges(waves), self.judges(made.detach()), frozen(self.judges, made)
        # Real is one and made is nought, and the generator would have it otherwise.
        judged = sum(off(r[-1], 1.0) for r in real) + sum(off(f[-1], 0.0) for f in fake)
        fooled = sum(off(s[-1], 1.0) for s in seen)
        pairs = [pair for r, s in zip(real, seen, strict=True) for pair in zip(r, s, strict=True)]
        match = sum(functional.l1_loss(found, wanted.detach()) for wanted, found in pairs)
        sound = functional.l1_loss(self.heard(made), self.heard(waves))
        return judged + fooled + MATCH * match + SOUND * sound
