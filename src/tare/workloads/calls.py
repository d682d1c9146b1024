"""Workloads that compute almost nothing, so that a step costs what its calls cost: see docs/frames.md."""

from typing import Any

from tare.workloads.base import Batch
from tare.workloads.registry import workload

EAGER_ONLY = "it measures plain Python frames, which only eager executes"
NO_TRAINING = "it measures the cost of a call and has nothing to train"


@workload(
    "conv_chain",
    domain="other",
    task="the cost of a call",
    source="written here",
    batch=1,
    sizes={"calls": 16, "channels": 4, "resolution": 8},
    unsupported={"train": NO_TRAINING},
)
class ConvolutionChain:
    """A chain of convolutions, each so small that calling it costs more than computing it."""

    def build(self, calls: int, channels: int, **_: int) -> Any:
        from torch import nn

        model = nn.Sequential(*(nn.Conv2d(channels, channels, 3, padding=1) for _ in range(calls)))
        for layer in model:
            # This keeps the variance; with torch's default the signal vanishes within sixteen layers.
            nn.init.normal_(layer.weight, std=(9 * channels) ** -0.5)
        return model

    def inputs(self, batch: int, channels: int, resolution: int, **_: int) -> Batch:
        import torch

        return Batch((torch.randn(batch, channels, resolution, resolution),))


@workload(
    "frame_chain",
    domain="other",
    task="the cost of a Python frame",
    source="written here",
    batch=1,
    sizes={"depth": 64},
    unsupported={"train": NO_TRAINING}
    | dict.fromkeys(("torchscript", "compile", "cudagraph", "aot", "libtorch", "vendor"), EAGER_ONLY),
)
class FrameChain:
    """Python functions that call each other and do nothing else."""

    def build(self, depth: int) -> Any:
        from torch import nn

        class Descent(nn.Module):  # type: ignore[misc]
            def forward(self, x: Any) -> Any:
                _descend(depth, x)
                return x

        return Descent()

    def inputs(self, batch: int, **_: int) -> Batch:
        import torch

        return Batch((torch.randn(batch),))


def _descend(depth: int, x: Any) -> Any:
    if depth <= 1:
        return x
    return _descend(depth - 1, x)
