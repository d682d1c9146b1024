"""Diffusion: the UNet and autoencoder of Stable Diffusion, the diffusion transformer, unCLIP (DALL-E 2)."""

from typing import Any

from tare.workloads.base import Batch
from tare.workloads.kinds import Regressor
from tare.workloads.registry import workload

STEPS = 1000


@workload(
    "stable_diffusion_unet",
    domain="multimodal",
    task="generation",
    source="written here; Rombach et al., Latent Diffusion (2022), the UNet of Stable Diffusion 1",
    batch=1,
    sizes={"resolution": 64, "width": 320, "context": 768, "length": 77},
    smoke={"resolution": 8, "width": 16, "context": 32, "length": 8},
    optimizer="adamw",
    groups=("mlperf",),
)
class StableDiffusion(Regressor):
    def build(self, width: int, context: int, **_: int) -> Any:
        from tare.workloads.networks.diffusion import DiffusionUNet

        return DiffusionUNet(4, (width, 2 * width, 4 * width, 4 * width), context)

    def inputs(self, batch: int, resolution: int, context: int, length: int, **_: int) -> Batch:
        import torch

        noisy, noise = torch.randn(2, batch, 4, resolution, resolution)
        return Batch((noisy, torch.randint(STEPS, (batch,)), torch.randn(batch, length, context)), noise)


@workload(
    "stable_diffusion_vae",
    domain="vision",
    task="generation",
    source="written here; Rombach et al., Latent Diffusion (2022), the autoencoder of Stable Diffusion",
    differs="only the reconstruction loss and the KL divergence, no perceptual or adversarial loss",
    batch=1,
    sizes={"resolution": 512, "width": 128},
    smoke={"resolution": 16, "width": 8},
    optimizer="adamw",
)
class LatentAutoencoder:
    def build(self, width: int, **_: int) -> Any:
        from tare.workloads.networks.vae import Autoencoder

        return Autoencoder((width, 2 * width, 4 * width, 4 * width), 4)

    def inputs(self, batch: int, resolution: int, **_: int) -> Batch:
        import torch

        image = torch.rand(batch, 3, resolution, resolution) * 2 - 1
        return Batch((image, torch.randn(batch, 4, resolution // 8, resolution // 8)), image)

    def loss(self, output: Any, target: Any) -> Any:
        image, mean, log_variance = output
        divergence = (mean.square() + log_variance.exp() - 1 - log_variance).mean() / 2
        return (image - target).abs().mean() + 1e-6 * divergence


@workload(
    "dit",
    domain="vision",
    task="generation",
    source="written here; Peebles and Xie, Scalable Diffusion Models with Transformers (2022), DiT-XL/2",
    differs="adaptive norms are initialised at random instead of to zero, with which every block would be the "
    "identity; the learned variance is not trained",
    batch=4,
    sizes={"resolution": 32, "width": 1152, "layers": 28, "heads": 16, "classes": 1000},
    smoke={"batch": 2, "resolution": 8, "width": 64, "layers": 2, "heads": 4, "classes": 10},
    optimizer="adamw",
)
class DiffusionTransformer(Regressor):
    def build(self, resolution: int, width: int, layers: int, heads: int, classes: int) -> Any:
        from tare.workloads.networks.dit import DiT

        return DiT(resolution, 4, 2, width, layers, heads, classes)

    def inputs(self, batch: int, resolution: int, classes: int, **_: int) -> Batch:
        import torch

        noisy, noise = torch.randn(2, batch, 4, resolution, resolution)
        return Batch((noisy, torch.randint(STEPS, (batch,)), torch.randint(classes, (batch,))), noise)

    def loss(self, output: Any, target: Any) -> Any:
        return super().loss(output[:, :4], target)


@workload(
    "DALLE2_pytorch",
    domain="multimodal",
    task="generation",
    source="written here; Ramesh et al., Hierarchical Text-Conditional Image Generation (2022)",
    differs="prior and decoder in one step, in the sizes of lucidrains' example; the CLIP embeddings are inputs",
    batch=1,
    sizes={"resolution": 64, "width": 512, "layers": 6, "heads": 8, "length": 77, "channels": 128},
    smoke={"resolution": 8, "width": 32, "layers": 1, "heads": 4, "length": 8, "channels": 8},
    optimizer="adamw",
    counterpart=("public_image_generator2",),
)
class Dalle2:
    def build(self, width: int, layers: int, heads: int, length: int, channels: int, **_: int) -> Any:
        from tare.workloads.networks.unclip import UnClip

        return UnClip(width, layers, heads, length, channels)

    def inputs(self, batch: int, resolution: int, width: int, length: int, **_: int) -> Batch:
        import torch

        words = torch.randn(batch, length, width)
        text, noisy = torch.randn(2, batch, width)
        image, noise = torch.randn(2, batch, 3, resolution, resolution)
        time = torch.randint(STEPS, (batch,))
        return Batch((words, text, time, noisy, image), (torch.randn(batch, width), noise))

    def loss(self, output: Any, target: Any) -> Any:
        from torch.nn import functional

        return functional.mse_loss(output[0], target[0]) + functional.mse_loss(output[1], target[1])
