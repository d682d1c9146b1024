"""Audio: source separation and speech synthesis."""

from typing import Any

from tare.workloads.base import Batch
from tare.workloads.gan import TOGETHER, Adversarial
from tare.workloads.kinds import NO_TRACED_TRAINING
from tare.workloads.registry import workload


@workload(
    "demucs",
    domain="speech",
    task="source separation",
    source="written here; Defossez et al., Music Source Separation in the Waveform Domain (2019)",
    differs="no random shift of the input",
    batch=4,
    sizes={"samples": 131072, "width": 64, "depth": 6, "sources": 4},
    smoke={"batch": 1, "samples": 4096, "width": 4, "depth": 3},
    optimizer="adam",
)
class Demucs:
    def build(self, width: int, depth: int, sources: int, **_: int) -> Any:
        from tare.workloads.networks.demucs import Demucs

        return Demucs(width, depth, sources)

    def inputs(self, batch: int, samples: int, sources: int, **_: int) -> Batch:
        import torch

        parts = torch.randn(batch, sources, 2, samples)
        return Batch((parts.sum(1),), parts)

    def loss(self, output: Any, target: Any) -> Any:
        return (output - target).abs().mean()


@workload(
    "conv_tasnet",
    domain="speech",
    task="source separation",
    source="torchaudio.models.ConvTasNet; Luo and Mesgarani, Conv-TasNet (2018)",
    batch=4,
    sizes={"samples": 32000, "filters": 512, "layers": 8, "stacks": 3},
    smoke={"batch": 1, "samples": 2000, "filters": 16, "layers": 2, "stacks": 1},
    requires=("torchaudio",),
    optimizer="adam",
)
class ConvTasNet:
    def build(self, filters: int, layers: int, stacks: int, **_: int) -> Any:
        from torchaudio.models import ConvTasNet

        return ConvTasNet(
            num_sources=2, enc_num_feats=filters, msk_num_feats=filters // 4, msk_num_hidden_feats=filters,
            msk_num_layers=layers, msk_num_stacks=stacks,
        )  # fmt: skip

    def inputs(self, batch: int, samples: int, **_: int) -> Batch:
        import torch

        parts = torch.randn(batch, 2, samples)
        return Batch((parts.sum(1, keepdim=True),), parts)

    def loss(self, output: Any, target: Any) -> Any:
        """Minus the scale-invariant ratio of signal to noise (equation 1 of the paper), in decibels."""
        target = target - target.mean(-1, keepdim=True)
        output = output - output.mean(-1, keepdim=True)
        scale = (output * target).sum(-1, keepdim=True) / target.square().sum(-1, keepdim=True)
        noise = (output - scale * target).square().sum(-1)
        return -10 * ((scale * target).square().sum(-1) / noise.clamp(min=1e-8)).log10().mean()


@workload(
    "hifigan",
    domain="speech",
    task="synthesis",
    source="written here; Kong et al., HiFi-GAN (2020), V1: the generator, discriminators of five periods and "
    "three scales, with adversarial, feature-matching and spectrogram losses",
    differs=f"{TOGETHER}; biases of the generator are initialised to zero",
    batch=16,
    sizes={"frames": 32, "width": 512, "judges": 32},
    smoke={"batch": 1, "frames": 4, "width": 32, "judges": 4},
    unsupported=NO_TRACED_TRAINING,
    optimizer="adamw",
    learning_rate=0.002,
)
class HifiGan(Adversarial):
    # The highest frequency of the generator's input spectrogram, in hertz.
    HIGHEST = 8000.0

    def build(self, width: int, judges: int, **_: int) -> Any:
        from tare.workloads.networks.hifigan_judges import HifiGan

        return HifiGan(width, judges)

    def inputs(self, batch: int, frames: int, **_: int) -> Batch:
        import torch

        from tare.workloads.networks.mel import HOP, LogMel

        waves = torch.rand(batch, 1, frames * HOP) * 2 - 1
        return Batch((LogMel(self.HIGHEST)(waves), waves))
