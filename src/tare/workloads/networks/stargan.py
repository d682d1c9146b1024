"""StarGAN (Choi et al., 2018): one generator for several domains, and a judge that also classifies the domain."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from tare.workloads.networks.frozen import frozen
from tare.workloads.networks.gan import gradient_penalty


def normed(layer: Any, width: int) -> list[Any]:
    return [layer, nn.InstanceNorm2d(width, affine=True, track_running_stats=False), nn.ReLU()]


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        first = normed(nn.Conv2d(width, width, 3, 1, 1, bias=False), width)
        second = normed(nn.Conv2d(width, width, 3, 1, 1, bias=False), width)[:2]
        self.body = nn.Sequential(*first, *second)

    def forward(self, x: Any) -> Any:
        return x + self.body(x)


class Judge(nn.Module):
    """The discriminator: six strided convolutions, then one score per patch and one score per domain."""

    def __init__(self, resolution: int, width: int, domains: int) -> None:
        super().__init__()
        layers: list[Any] = []
        into, out = 3, width
        for _ in range(6):
            layers += [nn.Conv2d(into, out, 4, 2, 1), nn.LeakyReLU(0.01)]
            into, out = out, 2 * out
        self.body = nn.Sequential(*layers)
        self.real = nn.Conv2d(into, 1, 3, 1, 1, bias=False)
        self.domain = nn.Conv2d(into, domains, resolution // 64, bias=False)

    def forward(self, x: Any) -> Any:
        x = self.body(x)
        return self.real(x), self.domain(x).flatten(1)


class StarGan(nn.Module):
    """Returns the sum of the losses of equations 5 and 6 in training, and the translated images otherwise."""

    def __init__(self, resolution: int, width: int, blocks: int, domains: int) -> None:
        super().__init__()
        layers = normed(nn.Conv2d(3 + domains, width, 7, 1, 3, bias=False), width)
        for into in (width, 2 * width):
            layers += normed(nn.Conv2d(into, 2 * into, 4, 2, 1, bias=False), 2 * into)
        layers += [Residual(4 * width) for _ in range(blocks)]
        for into in (4 * width, 2 * width):
            layers += normed(nn.ConvTranspose2d(into, into // 2, 4, 2, 1, bias=False), into // 2)
        self.generator = nn.Sequential(*layers, nn.Conv2d(width, 3, 7, 1, 3, bias=False), nn.Tanh())
        self.judge = Judge(resolution, width, domains)

    def translate(self, images: Any, domain: Any) -> Any:
        planes = domain[:, :, None, None].expand(-1, -1, *images.shape[2:])
        return self.generator(torch.cat([images, planes], dim=1))

    def forward(self, images: Any, have: Any, want: Any, where: Any) -> Any:
        fake = self.translate(images, want)
        if not self.training:
            return fake
        real, domain = self.judge(images)
        judge_loss = -real.mean() + self.judge(fake.detach())[0].mean()
        judge_loss = judge_loss + functional.binary_cross_entropy_with_logits(domain, have)
        judge_loss = judge_loss + 10 * gradient_penalty(lambda x: self.judge(x)[0], images, fake, where)
        fake_score, fake_domain = frozen(self.judge, fake)
        reconstruction = (self.translate(fake, have) - images).abs().mean()
        return (
            judge_loss
            - fake_score.mean()
            + functional.binary_cross_entropy_with_logits(fake_domain, want)
            + 10 * reconstruction
        )
