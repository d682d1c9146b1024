"""The same result computed with slower kernels, or with more of them."""

from typing import Any

from inefficiencies.base import Step, inefficiency, mlp, trainer


@inefficiency("loop-optimizer", "tiny-optimizer-kernels")
def loop_optimizer(device: str) -> tuple[Step, Step]:
    bad = trainer(*mlp(device), set_to_none=False, foreach=False)
    return bad, trainer(*mlp(device), foreach=True)


@inefficiency("odd-shapes", "off-multiple-shapes")
def odd_shapes(device: str) -> tuple[Step, Step]:
    import torch

    def product(m: int, k: int, n: int) -> Step:
        a = torch.randn(m, k, device=device, dtype=torch.bfloat16)
        b = torch.randn(k, n, device=device, dtype=torch.bfloat16)
        return lambda: a @ b

    return product(4097, 4093, 4099), product(4104, 4096, 4104)


@inefficiency("tf32-off", "tf32-off")
def tf32_off(device: str) -> tuple[Step, Step]:
    import torch

    a = torch.randn(4096, 4096, device=device)

    def product(allowed: bool) -> Step:
        def step() -> None:
            torch.backends.cuda.matmul.allow_tf32 = allowed
            a @ a

        return step

    return product(False), product(True)


def _convolutions(device: str, bias: bool, layout: Any) -> Step:
    import torch
    from torch import nn

    torch.manual_seed(0)
    block = [nn.Conv2d(64, 64, 3, padding=1, bias=bias), nn.BatchNorm2d(64), nn.ReLU()]
    block += [nn.Conv2d(64, 64, 3, padding=1, bias=bias), nn.BatchNorm2d(64), nn.ReLU()]
    model = nn.Sequential(*block).to(device, torch.bfloat16, memory_format=layout)
    x = torch.randn(64, 64, 112, 112, device=device, dtype=torch.bfloat16).to(memory_format=layout)

    def step() -> None:
        model.zero_grad()
        model(x).sum().backward()

    return step


@inefficiency("conv-bias", "conv-bias-before-norm")
def conv_bias(device: str) -> tuple[Step, Step]:
    import torch

    last = torch.channels_last
    return _convolutions(device, True, last), _convolutions(device, False, last)


@inefficiency("channels-first", "channels-first")
def channels_first(device: str) -> tuple[Step, Step]:
    import torch

    last = torch.channels_last
    return _convolutions(device, False, torch.contiguous_format), _convolutions(device, False, last)


@inefficiency("grouped-convolution", "split-convolution")
def grouped_convolution(device: str) -> tuple[Step, Step]:
    """One of NFNet's, of which cuDNN makes three float32 kernels for every group."""
    import torch
    from torch.nn.functional import conv2d

    torch.manual_seed(0)
    x, weight = torch.randn(32, 768, 14, 14, device=device), torch.randn(768, 128, 3, 3, device=device)

    def convolution(allowed: bool, layout: Any) -> Step:
        image, kernel = x.contiguous(memory_format=layout), weight.contiguous(memory_format=layout)

        def step() -> None:
            torch.backends.cudnn.allow_tf32 = allowed
            with torch.no_grad():
                conv2d(image, kernel, padding=1, groups=6)

        return step

    return convolution(False, torch.contiguous_format), convolution(True, torch.channels_last)
