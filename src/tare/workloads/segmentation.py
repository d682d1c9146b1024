"""Segmentation: U-Net in two and three dimensions, DeepLab, FCN, SegFormer."""

from dataclasses import dataclass
from typing import Any

from tare.workloads.base import Batch, Size
from tare.workloads.kinds import DenseClassifier
from tare.workloads.registry import workload


@workload(
    "pytorch_unet",
    domain="vision",
    task="segmentation",
    source="written here; Ronneberger et al., U-Net (2015), with batch norm and padding as in milesial's version",
    batch=1,
    sizes={"resolution": 640, "classes": 2, "width": 64},
    smoke={"resolution": 64, "width": 8},
    layouts=("contiguous", "channels-last"),
)
class UNet2d(DenseClassifier):
    def build(self, classes: int, width: int, **_: int) -> Any:
        from tare.workloads.networks.unet import UNet

        return UNet(3, classes, [width << i for i in range(5)], dimensions=2)


@workload(
    "unet3d",
    domain="vision",
    task="segmentation",
    source="written here; Cicek et al., 3D U-Net (2016), with the depth and the widths of MLPerf's model for "
    "KiTS19",
    differs="max pooling instead of strided convolutions",
    batch=2,
    # The network halves the resolution five times, and instance norm needs more than one voxel.
    sizes={"resolution": Size(128, minimum=64), "classes": 3, "width": 32},
    smoke={"batch": 1, "resolution": 64, "width": 4},
    groups=("mlperf",),
)
class UNet3d(DenseClassifier):
    def build(self, classes: int, width: int, **_: int) -> Any:
        from tare.workloads.networks.unet import UNet

        return UNet(1, classes, [min(width << i, 10 * width) for i in range(6)], dimensions=3)

    def inputs(self, batch: int, resolution: int, classes: int, **_: int) -> Batch:
        import torch

        cube = (resolution, resolution, resolution)
        return Batch((torch.randn(batch, 1, *cube),), torch.randint(classes, (batch, *cube)))


@dataclass(frozen=True)
class TorchvisionSegmenter(DenseClassifier):
    model: str

    def build(self, classes: int, depth: int, **_: int) -> Any:
        from torchvision.models.segmentation import deeplabv3, fcn

        from tare.workloads.networks.pick import Pick
        from tare.workloads.networks.residual import bottlenecks
        from tare.workloads.networks.still import still

        make = fcn._fcn_resnet if self.model == "fcn_resnet50" else deeplabv3._deeplabv3_resnet
        body = bottlenecks(depth, replace_stride_with_dilation=[False, True, True])
        return Pick(still(make(body, classes, aux=None)), "out")


for _model, _paper in {
    "deeplabv3_resnet50": "Chen et al., Rethinking Atrous Convolution (2017)",
    "fcn_resnet50": "Long et al., Fully Convolutional Networks (2015)",
}.items():
    workload(
        _model,
        domain="vision",
        task="segmentation",
        source=f"torchvision.models.segmentation.{_model}; {_paper}",
        differs="no dropout",
        batch=4,
        sizes={"resolution": 520, "classes": 21, "depth": Size(50, choices=(14, 50))},
        smoke={"batch": 2, "resolution": 64, "classes": 5, "depth": 14},
        requires=("torchvision",),
        layouts=("contiguous", "channels-last"),
    )(TorchvisionSegmenter(_model))


@workload(
    "hf_Segformer",
    domain="vision",
    task="segmentation",
    source="transformers SegformerForSemanticSegmentation; Xie et al., SegFormer (2021), B0",
    differs="no dropout or drop path",
    batch=4,
    sizes={"resolution": 512, "classes": 150, "depth": 2},
    smoke={"batch": 2, "resolution": 64, "classes": 5, "depth": 1},
    requires=("transformers",),
    optimizer="adamw",
)
class Segformer(DenseClassifier):
    def build(self, classes: int, depth: int, **_: int) -> Any:
        from tare.workloads.networks.wrapped import from_config

        return from_config(
            "SegformerForSemanticSegmentation", "SegformerConfig", ("pixel_values",),
            num_labels=classes, depths=[depth] * 4,
        )  # fmt: skip

    def loss(self, output: Any, target: Any) -> Any:
        from torch.nn import functional

        # SegFormer's scores have a quarter of the image's resolution.
        full = functional.interpolate(output, target.shape[-2:], mode="bilinear", align_corners=False)
        return functional.cross_entropy(full, target)
