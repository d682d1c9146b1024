"""Super SloMo (Jiang et al., 2018): flow between two frames, refined at a time between them, and blending."""

from typing import Any

import torch
from torch import nn
from torch.nn import functional


class Hourglass(nn.Module):
    """The U-Net of the paper's supplement: leaky ReLU, average pools, bilinear upsampling, large first kernels."""

    def __init__(self, into: int, out: int, width: int) -> None:
        super().__init__()
        widths = [width << i for i in range(5)] + [width << 4]
        sizes = [7, 5, 3, 3, 3, 3]
        self.first = self._pair(into, widths[0], sizes[0])
        self.down = nn.ModuleList(self._pair(widths[i - 1], widths[i], sizes[i]) for i in range(1, 6))
        self.up = nn.ModuleList(self._single(widths[i], widths[i - 1]) for i in range(5, 0, -1))
        self.merge = nn.ModuleList(self._single(2 * widths[i - 1], widths[i - 1]) for i in range(5, 0, -1))
        self.last = nn.Conv2d(widths[0], out, 3, padding=1)

    def _single(self, into: int, out: int, size: int = 3) -> nn.Sequential:
        return nn.Sequential(nn.Conv2d(into, out, size, padding=size // 2), nn.LeakyReLU(0.1))

    def _pair(self, into: int, out: int, size: int) -> nn.Sequential:
        return nn.Sequential(self._single(into, out, size), self._single(out, out, size))

    def forward(self, x: Any) -> Any:
        skips = [self.first(x)]
        for down in self.down:
            skips.append(down(functional.avg_pool2d(skips[-1], 2)))
        x = skips.pop()
        for up, merge in zip(self.up, self.merge, strict=True):
            skip = skips.pop()
            x = up(functional.interpolate(x, scale_factor=2.0, mode="bilinear", align_corners=False))
            x = merge(torch.cat([x, skip], dim=1))
        return self.last(x)


def warp(image: Any, flow: Any) -> Any:
    """The image sampled where the flow, in pixels, points to."""
    _, _, height, width = image.shape
    rows = torch.arange(height, device=image.device, dtype=image.dtype).view(1, -1, 1)
    columns = torch.arange(width, device=image.device, dtype=image.dtype).view(1, 1, -1)
    x = 2 * (columns + flow[:, 0] + 0.5) / width - 1
    y = 2 * (rows + flow[:, 1] + 0.5) / height - 1
    return functional.grid_sample(image, torch.stack([x, y], dim=-1), align_corners=False)


class SuperSloMo(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.flow = Hourglass(6, 4, width)
        self.refine = Hourglass(20, 5, width)

    def forward(self, first: Any, last: Any, when: Any) -> Any:
        """The frame at the time `when` between two frames, and the flows that the loss needs."""
        flows = self.flow(torch.cat([first, last], dim=1))
        forth, back = flows[:, :2], flows[:, 2:]
        # Equation 4: the flows from the intermediate frame, weighted by its distance to each end.
        to_first = -(1 - when) * when * forth + when * when * back
        to_last = (1 - when) * (1 - when) * forth - when * (1 - when) * back
        inputs = [first, last, forth, back, to_first, to_last, warp(first, to_first), warp(last, to_last)]
        refined = self.refine(torch.cat(inputs, dim=1))
        to_first, to_last = to_first + refined[:, :2], to_last + refined[:, 2:4]
        visible = torch.sigmoid(refined[:, 4:5])
        weight_first, weight_last = (1 - when) * visible, when * (1 - visible)
        blend = weight_first * warp(first, to_first) + weight_last * warp(last, to_last)
        return blend / (weight_first + weight_last + 1e-8), forth, back, to_first, to_last


def slomo_loss(output: Any, frames: Any) -> Any:
    """Section 3.3 with the authors' weights: reconstruction, warping, smoothness of the flows."""
    between, forth, back, to_first, to_last = output
    first, last, target = frames.unbind(0)
    warped = (
        (target - warp(first, to_first)).abs().mean()
        + (target - warp(last, to_last)).abs().mean()
        + (first - warp(last, forth)).abs().mean()
        + (last - warp(first, back)).abs().mean()
    )
    smooth = sum(flow.diff(dim=dim).abs().mean() for flow in (forth, back) for dim in (-1, -2))
    return 204 * (between - target).abs().mean() + 102 * warped + smooth
