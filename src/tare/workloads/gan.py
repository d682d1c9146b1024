"""Adversarial networks: DCGAN, CycleGAN, StarGAN. Both networks learn in one step (see networks/frozen.py)."""

from typing import Any

from tare.workloads.base import Batch
from tare.workloads.kinds import NO_TRACED_TRAINING
from tare.workloads.registry import workload

TOGETHER = "generator and discriminator are updated in the same step instead of alternately"


class Adversarial:
    """In training, the output of the model is the sum of all losses."""

    def loss(self, output: Any, target: Any) -> Any:  # noqa: ARG002
        return output


@workload(
    "dcgan",
    domain="vision",
    task="generation",
    source="written here; Radford et al., DCGAN (2015)",
    differs=TOGETHER,
    batch=128,
    sizes={"latent": 100, "width": 64},
    smoke={"batch": 4, "width": 8},
    unsupported=NO_TRACED_TRAINING,
    optimizer="adam",
    learning_rate=0.002,
)
class Dcgan(Adversarial):
    def build(self, latent: int, width: int) -> Any:
        from tare.workloads.networks.gan import Dcgan

        return Dcgan(latent, width)

    def inputs(self, batch: int, latent: int, **_: int) -> Batch:
        import torch

        return Batch((torch.randn(batch, latent, 1, 1), torch.rand(batch, 3, 64, 64) * 2 - 1))


@workload(
    "pytorch_CycleGAN_and_pix2pix",
    domain="vision",
    task="generation",
    source="written here; Zhu et al., CycleGAN (2017), nine blocks",
    differs=f"{TOGETHER}; no random pool of earlier images",
    batch=1,
    sizes={"resolution": 256, "width": 64, "blocks": 9},
    smoke={"resolution": 32, "width": 4, "blocks": 1},
    unsupported=NO_TRACED_TRAINING,
    optimizer="adam",
    learning_rate=0.002,
)
class CycleGan(Adversarial):
    def build(self, width: int, blocks: int, **_: int) -> Any:
        from tare.workloads.networks.gan import CycleGan

        return CycleGan(width, blocks)

    def inputs(self, batch: int, resolution: int, **_: int) -> Batch:
        import torch

        pictures = torch.rand(2, batch, 3, resolution, resolution) * 2 - 1
        return Batch((pictures[0], pictures[1]))


@workload(
    "pytorch_stargan",
    domain="vision",
    task="generation",
    source="written here; Choi et al., StarGAN (2018)",
    differs=f"{TOGETHER}; the random points between real and fake images of the gradient penalty are part of "
    "the batch",
    batch=16,
    sizes={"resolution": 128, "width": 64, "blocks": 6, "domains": 5},
    smoke={"batch": 1, "resolution": 64, "width": 4, "blocks": 1},
    unsupported=NO_TRACED_TRAINING
    | {
        "compile/train": "the gradient penalty needs a double backward pass, which torch.compile does not "
        "support: torch 2.11 raises an error, 2.10 omits the penalty from the gradients",
    },
    optimizer="adam",
    learning_rate=0.001,
    counterpart=("public_image_generator1",),
)
class StarGan(Adversarial):
    def build(self, resolution: int, width: int, blocks: int, domains: int) -> Any:
        from tare.workloads.networks.stargan import StarGan

        return StarGan(resolution, width, blocks, domains)

    def inputs(self, batch: int, resolution: int, domains: int, **_: int) -> Batch:
        import torch

        images = torch.rand(batch, 3, resolution, resolution) * 2 - 1
        have, want = torch.randint(2, (2, batch, domains)).float()
        return Batch((images, have, want, torch.rand(batch, 1, 1, 1)))
