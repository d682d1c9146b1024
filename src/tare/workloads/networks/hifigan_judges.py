"""HiFi-GAN's training (Kong et al., 2020, sections 2.3 and 2.4): two kinds of discriminators, and four losses."""

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
# The convolutions of a scale discriminator: channels in units of the width, kernel, stride, groups.
OVER_SCALE = (
    (4, 15, 1, 1), (4, 41, 2, 4), (8, 41, 2, 16), (16, 41, 4, 16), (32, 41, 4, 16), (32, 41, 1, 16), (32, 5, 1, 1),
)  # fmt: skip
# The convolutions of a period discriminator: channels in units of the width, stride. Every kernel has five rows.
OVER_PERIOD = ((1, 3), (4, 3), (16, 3), (32, 3), (32, 1))
# The weights of the losses of features and of spectrograms.
MATCH, SOUND = 2.0, 45.0


class Judge(nn.Module):
    """Convolutions with leaky ReLU between them. Returns the outputs of all layers; the last is the score."""

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
    """One discriminator per period, by which the wave is folded, and one per scale, to which it is downsampled."""

    def __init__(self, width: int) -> None:
        super().__init__()
        self.periods = nn.ModuleList(of_period(width) for _ in PERIODS)
        self.scales = nn.ModuleList(of_scale(width, weight_norm if i else spectral_norm) for i in range(SCALES))

    def forward(self, waves: Any) -> list[list[Any]]:
        outputs = []
        for period, judge in zip(PERIODS, self.periods, strict=True):
            padded = functional.pad(waves, (0, -waves.shape[-1] % period), mode="reflect")
            outputs.append(judge(padded.unflatten(-1, (-1, period))))
        for i, judge in enumerate(self.scales):
            waves = functional.avg_pool1d(waves, 4, 2, padding=2) if i else waves
            outputs.append(judge(waves))
        return outputs


def off(verdict: Any, expected: float) -> Any:
    """The least-squares loss by `mse_loss`, which autocast computes in float32."""
    return functional.mse_loss(verdict, torch.full_like(verdict, expected))


class HifiGan(nn.Module):
    """Returns the sum of the losses of generator and discriminators in training, and the waves otherwise."""

    def __init__(self, width: int, judges: int) -> None:
        super().__init__()
        self.generator = Generator(width)
        self.judges = Judges(judges)
        self.heard = LogMel(RATE / 2)

    def forward(self, spectrograms: Any, waves: Any) -> Any:
        generated = self.generator(spectrograms)
        if not self.training:
            return generated
        real, fake, frozen_fake = (
            self.judges(waves),
            self.judges(generated.detach()),
            frozen(self.judges, generated),
        )
        # The discriminators learn 1 for real waves and 0 for generated ones; the generator learns to score 1.
        discriminator_loss = sum(off(r[-1], 1.0) for r in real) + sum(off(f[-1], 0.0) for f in fake)
        generator_loss = sum(off(s[-1], 1.0) for s in frozen_fake)
        pairs = [pair for r, s in zip(real, frozen_fake, strict=True) for pair in zip(r, s, strict=True)]
        feature_loss = sum(functional.l1_loss(feature, real_feature.detach()) for real_feature, feature in pairs)
        mel_loss = functional.l1_loss(self.heard(generated), self.heard(waves))
        return discriminator_loss + generator_loss + MATCH * feature_loss + SOUND * mel_loss
