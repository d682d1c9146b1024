"""DCGAN (Radford et al., 2015) and CycleGAN (Zhu et al., 2017)."""

import itertools
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from tare.workloads.networks.frozen import frozen


class Dcgan(nn.Module):
    """Images of 64x64. Returns the sum of both losses in training, and the images otherwise."""

    def __init__(self, latent: int, width: int) -> None:
        super().__init__()
        widths = [8 * width, 4 * width, 2 * width, width]
        up: list[Any] = [nn.ConvTranspose2d(latent, widths[0], 4, 1, 0, bias=False)]
        for into, out in itertools.pairwise(widths):
            up += [nn.BatchNorm2d(into), nn.ReLU(), nn.ConvTranspose2d(into, out, 4, 2, 1, bias=False)]
        up += [nn.BatchNorm2d(width), nn.ReLU(), nn.ConvTranspose2d(width, 3, 4, 2, 1, bias=False), nn.Tanh()]
        self.generator = nn.Sequential(*up)
        down: list[Any] = [nn.Conv2d(3, width, 4, 2, 1, bias=False), nn.LeakyReLU(0.2)]
        for into, out in zip(widths[:0:-1], widths[-2::-1], strict=True):
            down += [nn.Conv2d(into, out, 4, 2, 1, bias=False), nn.BatchNorm2d(out), nn.LeakyReLU(0.2)]
        down += [nn.Conv2d(widths[0], 1, 4, 1, 0, bias=False), nn.Flatten(0)]
        self.discriminator = nn.Sequential(*down)
        for module in self.modules():
            if isinstance(module, (nn.Conv2d, nn.ConvTranspose2d)):
                nn.init.normal_(module.weight, std=0.02)
            elif isinstance(module, nn.BatchNorm2d):
                nn.init.normal_(module.weight, 1.0, 0.02)

    def forward(self, noise: Any, real: Any) -> Any:
        fake = self.generator(noise)
        if not self.training:
            return fake
        on_real, on_fake = self.discriminator(real), self.discriminator(fake.detach())
        # -log D(real) - log(1 - D(fake)) for the discriminator, -log D(fake) for the generator.
        discriminator_loss = functional.softplus(-on_real).mean() + functional.softplus(on_fake).mean()
        return discriminator_loss + functional.softplus(-frozen(self.discriminator, fake)).mean()


class Residual(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        first = [nn.ReflectionPad2d(1), nn.Conv2d(width, width, 3), nn.InstanceNorm2d(width)]
        second = [nn.ReflectionPad2d(1), nn.Conv2d(width, width, 3), nn.InstanceNorm2d(width)]
        self.body = nn.Sequential(*first, nn.ReLU(), *second)

    def forward(self, x: Any) -> Any:
        return x + self.body(x)


def translator(width: int, blocks: int) -> nn.Sequential:
    """The generator of Johnson et al. (2016): c7s1-64, d128, d256, R256 x blocks, u128, u64, c7s1-3."""
    layers: list[Any] = [nn.ReflectionPad2d(3), nn.Conv2d(3, width, 7), nn.InstanceNorm2d(width), nn.ReLU()]
    for into in (width, 2 * width):
        layers += [nn.Conv2d(into, 2 * into, 3, 2, 1), nn.InstanceNorm2d(2 * into), nn.ReLU()]
    layers += [Residual(4 * width) for _ in range(blocks)]
    for into in (4 * width, 2 * width):
        layers += [nn.ConvTranspose2d(into, into // 2, 3, 2, 1, 1), nn.InstanceNorm2d(into // 2), nn.ReLU()]
    return nn.Sequential(*layers, nn.ReflectionPad2d(3), nn.Conv2d(width, 3, 7), nn.Tanh())


def patches(width: int) -> nn.Sequential:
    """The 70x70 PatchGAN: one score per patch."""
    layers: list[Any] = [nn.Conv2d(3, width, 4, 2, 1), nn.LeakyReLU(0.2)]
    for into, out, stride in ((width, 2 * width, 2), (2 * width, 4 * width, 2), (4 * width, 8 * width, 1)):
        layers += [nn.Conv2d(into, out, 4, stride, 1), nn.InstanceNorm2d(out), nn.LeakyReLU(0.2)]
    return nn.Sequential(*layers, nn.Conv2d(8 * width, 1, 4, 1, 1))


class CycleGan(nn.Module):
    """Returns the sum of all losses in training (section 3, least squares), and both translations otherwise."""

    def __init__(self, width: int, blocks: int) -> None:
        super().__init__()
        self.to_b, self.to_a = translator(width, blocks), translator(width, blocks)
        self.judge_a, self.judge_b = patches(width), patches(width)

    def forward(self, a: Any, b: Any) -> Any:
        fake_b, fake_a = self.to_b(a), self.to_a(b)
        if not self.training:
            return fake_b, fake_a
        cycle = (self.to_a(fake_b) - a).abs().mean() + (self.to_b(fake_a) - b).abs().mean()
        identity = (self.to_a(a) - a).abs().mean() + (self.to_b(b) - b).abs().mean()
        total = 10 * cycle + 5 * identity
        for judge, real, fake in ((self.judge_a, a, fake_a), (self.judge_b, b, fake_b)):
            total = total + (frozen(judge, fake) - 1).square().mean()
            total = total + ((judge(real) - 1).square().mean() + judge(fake.detach()).square().mean()) / 2
        return total


def gradient_penalty(judge: Any, real: Any, fake: Any, where: Any) -> Any:
    """Gulrajani et al. (2017): keeps the norm of the judge's gradient between real and fake images near one."""
    between = (where * real + (1 - where) * fake.detach()).requires_grad_()
    gradient = torch.autograd.grad(judge(between).sum(), between, create_graph=True)[0]
    return (gradient.flatten(1).norm(dim=1) - 1).square().mean()
