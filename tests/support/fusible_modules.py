"""Small modules that together use every operator for which the vendor rung generates kernels. Each maps rows of
(batch, 6, 8) to something, and has a weight in front, so that its gradient is needed."""

import math
from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import nn
from torch.nn import functional

LENGTH, WIDTH = 6, 8
ROWS = (LENGTH, WIDTH)


class Function(nn.Module):  # type: ignore[misc]
    """A linear layer, and a function of its result."""

    def __init__(self, function: Callable[[Any], Any], width: int = WIDTH) -> None:
        super().__init__()
        self.linear, self.function = nn.Linear(WIDTH, width), function

    def forward(self, x: Any) -> Any:
        return self.function(self.linear(x))


class Block(nn.Module):  # type: ignore[misc]
    """A transformer's layer: attention with a mask, two norms, two residual sums, GELU."""

    def __init__(self, causal: bool) -> None:
        super().__init__()
        self.causal = causal
        self.before, self.after = nn.LayerNorm(WIDTH), nn.LayerNorm(WIDTH)
        self.project, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.up, self.down = nn.Linear(WIDTH, 4 * WIDTH), nn.Linear(4 * WIDTH, WIDTH)

    def forward(self, x: Any) -> Any:
        count, length, width = x.shape
        q, k, v = (
            part.view(count, length, 2, width // 2).transpose(1, 2)
            for part in self.project(self.before(x)).chunk(3, -1)
        )
        mixed = functional.scaled_dot_product_attention(q, k, v, is_causal=self.causal)
        x = x + self.out(mixed.transpose(1, 2).reshape(count, length, width))
        return x + self.down(functional.gelu(self.up(self.after(x))))


class HandWritten(nn.Module):  # type: ignore[misc]
    """Attention as a chain of operators, with a mask of minus infinity."""

    def __init__(self) -> None:
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(WIDTH, WIDTH) for _ in range(3))
        self.register_buffer("mask", torch.ones(LENGTH, LENGTH).triu(1).bool())

    def forward(self, x: Any) -> Any:
        scores = self.q(x) @ self.k(x).transpose(-2, -1) / math.sqrt(WIDTH)
        return scores.masked_fill(self.mask, -math.inf).softmax(-1) @ self.v(x)


class Rotary(nn.Module):  # type: ignore[misc]
    """Rotary position embeddings (Su et al., 2021): halves exchanged, one of them negated."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        angles = torch.arange(LENGTH)[:, None] * 10.0 ** -torch.arange(0, WIDTH, 2)[None, :].div(WIDTH)
        self.register_buffer("angles", torch.cat([angles, angles], -1))

    def forward(self, x: Any) -> Any:
        x = self.linear(x)
        first, second = x.chunk(2, -1)
        return x * self.angles.cos() + torch.cat([-second, first], -1) * self.angles.sin()


class Positions(nn.Module):  # type: ignore[misc]
    """Embeddings of positions, and of numbers that are computed in the step; one row is used twice."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.positions, self.levels = nn.Embedding(LENGTH, WIDTH), nn.Embedding(3, WIDTH, padding_idx=1)

    def forward(self, x: Any) -> Any:
        x = self.linear(x)
        level = (x.detach() > 0.1).long().sum(-1) % 3
        return x + self.positions(torch.arange(LENGTH, device=x.device)) + self.levels(level)


class Tied(nn.Module):  # type: ignore[misc]
    """A weight that is used twice, once transposed."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.randn(WIDTH, WIDTH) / 3)

    def forward(self, x: Any) -> Any:
        return torch.tanh(x @ self.weight) @ self.weight.t()


class Root(nn.Module):  # type: ignore[misc]
    """RMS norm (Zhang and Sennrich, 2019)."""

    def __init__(self) -> None:
        super().__init__()
        self.linear, self.weight = nn.Linear(WIDTH, WIDTH), nn.Parameter(torch.rand(WIDTH) + 0.5)

    def forward(self, x: Any) -> Any:
        x = self.linear(x)
        return self.weight * (x * (x.pow(2).mean(-1, keepdim=True) + 1e-6).rsqrt())


class Bags(nn.Module):  # type: ignore[misc]
    """Sums and means of embeddings, of bags of several sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(WIDTH, WIDTH)
        self.sums, self.means = nn.EmbeddingBag(5, WIDTH, mode="sum"), nn.EmbeddingBag(5, WIDTH, mode="mean")
        self.register_buffer("numbers", torch.tensor([3, 1, 3, 0, 2, 2, 4]))
        self.register_buffer("offsets", torch.tensor([0, 2, 2, 5]))

    def forward(self, x: Any) -> Any:
        bags = self.sums(self.numbers, self.offsets) + self.means(self.numbers, self.offsets)
        return self.linear(x) * bags[:, None]


class Images(nn.Module):  # type: ignore[misc]
    """A patch embedding and a group norm over images made of the rows."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm = nn.Conv2d(1, 6, 2, 2), nn.GroupNorm(3, 6)

    def forward(self, x: Any) -> Any:
        return functional.silu(self.norm(self.conv(x.unsqueeze(1)))).flatten(2).transpose(1, 2)


class Groups(nn.Module):  # type: ignore[misc]
    """Rows gathered into groups, each of which is the mean or the maximum of its rows."""

    def __init__(self, kind: str, groups: list[int]) -> None:
        super().__init__()
        self.kind, self.linear = kind, nn.Linear(WIDTH, WIDTH)
        self.register_buffer("groups", torch.tensor(groups)[None, :, None])

    def forward(self, x: Any) -> Any:
        x, groups = self.linear(x), self.groups.expand_as(x)
        if self.kind == "mean":
            return torch.zeros_like(x).scatter_reduce(1, groups, x, "mean", include_self=False)
        return x.scatter_reduce(1, groups, 2 * x.flip(-1), self.kind)


def functions() -> dict[str, Callable[[Any], Any]]:
    index = torch.tensor([2, 0, 2, 5])
    return {
        "softmax of columns": lambda x: x.softmax(1),
        "log_softmax": lambda x: x.log_softmax(-1),
        "logsumexp": lambda x: x.logsumexp(-1),
        "variance": lambda x: x.var(-1) + x.var(1, correction=0).mean(-1, keepdim=True),
        "maximum of rows": lambda x: x.amax(-1, keepdim=True) - x.amin(1, keepdim=True),
        "sums over two dimensions": lambda x: x.sum((0, 2)) * x.mean() + x[:, :, 0],
        "powers": lambda x: x.abs().add(0.5).pow(1.5) + x**3 - (x.square() + 1) ** -0.5,
        "functions": lambda x: x.sin() * x.cos() + x.exp().log1p() + x.sigmoid() * x.tanh() + x.erf(),
        "divisions": lambda x: x / (x.abs() + 1) + 1 / (x.square() + 0.5) + torch.atan2(x, x.square() + 1),
        "choices": lambda x: torch.where(x > 0, x, 0.1 * x) + x.clamp(-0.3, 0.4) + torch.maximum(x, x.flip(-1)),
        "padding": lambda x: functional.pad(x, (1, 2, 0, 1), value=0.5) * 2,
        "negative padding": lambda x: functional.pad(x, (-1, 1)),
        "windows": lambda x: x.unfold(1, 3, 2).sum(-1),
        "roll": lambda x: x.roll((1, -2), (1, 2)),
        "stack": lambda x: torch.stack([x, x.flip(1)], 1),
        "strided slices": lambda x: x[:, ::2, 1::3] * 2,
        "index": lambda x: x[:, index],
        "index of two dimensions": lambda x: x[:, index, torch.tensor([0, 3, -1, 3])] * x[:, 1, 1:5],
        "gather": lambda x: x.gather(
            1, (torch.arange(4, device=x.device).view(1, 4, 1) * 5 % 3).expand(x.shape[0], 4, WIDTH)
        ),
        "broadcast products": lambda x: x[:, :, None, :] * x[:, None, :, :],
        "batched products": lambda x: torch.einsum("bij,bkj->bik", x, x.cos()),
        "outer dimensions": lambda x: x.permute(2, 0, 1).reshape(WIDTH, -1).sum(-1) * x,
        "glu": lambda x: functional.glu(x, -1),
        "cumulated by a product": lambda x: torch.ones_like(x[0, :, :LENGTH]).tril() @ x,
        "smooth steps": lambda x: (
            functional.mish(x) + functional.elu(x) + functional.softplus(x) + functional.hardswish(x)
        ),
        "normalised": lambda x: functional.normalize(x, dim=-1),
        "places of the largest": lambda x: (
            x * (x.argmax(-1, keepdim=True) + 1) + x.max(1).values[:, None] * x.argmin(1)[:, None]
        ),
        "in double": lambda x: ((x.double() + 1e-9).exp().sum(-1, keepdim=True).log() + x.double()).to(x.dtype),
        "the two largest": lambda x: x.topk(2, -1).values + x.sort(-1, descending=True).values[..., 3:5],
        "images by any window": lambda x: (
            functional.avg_pool2d(x[:, None], 3, 2, 1, count_include_pad=False)
            * functional.avg_pool2d(x[:, None], 3, 2, 1, ceil_mode=True)[..., :3, :4]
            + functional.max_pool2d(x[:, None], 3, 2, 1)
            + functional.adaptive_avg_pool2d(x[:, None], (3, 4))
        ),
        "resampled": lambda x: (
            functional.interpolate(x[:, None], (9, 12), mode="bilinear", align_corners=True)
            + functional.interpolate(x[:, None], (9, 12))
            + functional.interpolate(x[:, None], (9, 12), mode="bicubic")
            + functional.interpolate(x, 12, mode="linear").mean(1)[:, None, None]
        ),
        "repeated": lambda x: x.repeat(1, 2, 3),
        "remainders": lambda x: (
            torch.remainder(x, 0.3) + torch.fmod(x, 0.7) + x.sign() * x.floor() + x.round().detach()
        ),
        "scalars": lambda x: x * x.detach().abs().max() + 1.0,
    }


MODULES: dict[str, Callable[[], nn.Module]] = {
    "layer": lambda: Block(causal=False),
    "causal layer": lambda: Block(causal=True),
    "attention by hand": HandWritten,
    "rotary": Rotary,
    "embeddings": Positions,
    "tied": Tied,
    "rms norm": Root,
    "images": Images,
    "signals": lambda: nn.Sequential(
        nn.Conv1d(LENGTH, 5, 3, padding=1, stride=2, bias=False),
        nn.BatchNorm1d(5),
        nn.ELU(),
        nn.ConvTranspose1d(5, 4, 3),
    ),
    "bags": Bags,
    "means of groups": lambda: Groups("mean", [0, 2, 2, 5, 0, 0]),
    "maxima of groups": lambda: Groups("amax", [1, 1, 3, 1, 4, 4]),
    "volumes": lambda: nn.Sequential(
        nn.Unflatten(2, (2, 4)), nn.Unflatten(1, (1, 6)), nn.Conv3d(1, 4, 3, padding=1), nn.SiLU(),
        nn.Conv3d(4, 2, (2, 1, 2), stride=(2, 1, 1), padding=(1, 0, 0), groups=2),
    ),
    "layer norm": lambda: nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.LayerNorm(WIDTH, elementwise_affine=False)),
    "norm over two dimensions": lambda: nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.LayerNorm(ROWS)),
    "multi-head": lambda: nn.TransformerEncoderLayer(WIDTH, 2, 16, dropout=0.0, batch_first=True, norm_first=True),
    **{name: partial(Function, function) for name, function in functions().items()},
}  # fmt: skip

# Every kind of kernel and of call once, for half precisions.
HALF = (
    "causal layer", "embeddings", "tied", "rms norm", "bags", "images", "signals", "softmax of columns",
    "in double", "the two largest", "means of groups", "maximum of rows", "places of the largest",
    "images by any window",
    "resampled", "padding",
)  # fmt: skip
