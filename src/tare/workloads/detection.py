"""Two-stage detectors built from torchvision's parts, in the Detectron2 variants that TorchBench has."""

from dataclasses import dataclass
from typing import Any

from tare.workloads.base import Batch, Size
from tare.workloads.registry import workload

DIFFERS = (
    "the loss takes anchors and proposals at even intervals instead of at random; random weights are scaled so "
    "that some boxes pass the score threshold, as in a trained network"
)
# TorchBench also has torchvision's own Mask R-CNN, with other numbers of classes and proposals.
PLAIN = "vision_maskrcnn"
# name -> (ResNet's depth, backbone, masks)
MODELS = {
    "detectron2_fasterrcnn_r_50_c4": (50, "c4", False),
    "detectron2_fasterrcnn_r_50_dc5": (50, "dc5", False),
    "detectron2_fasterrcnn_r_50_fpn": (50, "fpn", False),
    "detectron2_fasterrcnn_r_101_c4": (101, "c4", False),
    "detectron2_fasterrcnn_r_101_dc5": (101, "dc5", False),
    "detectron2_fasterrcnn_r_101_fpn": (101, "fpn", False),
    "detectron2_maskrcnn_r_50_c4": (50, "c4", True),
    "detectron2_maskrcnn_r_50_fpn": (50, "fpn", True),
    "detectron2_maskrcnn_r_101_c4": (101, "c4", True),
    "detectron2_maskrcnn_r_101_fpn": (101, "fpn", True),
    PLAIN: (50, "fpn", True),
}


# torchvision's non-maximum suppression and box pooling lack these kernels; under autocast they run in float32.
NO_HALF = {
    "bf16": "torchvision's non-maximum suppression does not support bfloat16: use amp-bf16",
    "fp16/cpu": "torchvision's non-maximum suppression does not support float16 on the CPU",
}

NO_TRACED_TRAINING = {
    "torchscript/train": "the number of boxes in the loss is counted in Python: a trace would keep that of one "
    "batch"
}


class Detector:
    """Images, and for training the boxes, classes and masks of eight objects in each image."""

    objects = 8

    def inputs(self, batch: int, resolution: int, classes: int, **_: int) -> Batch:
        import torch

        corners = torch.rand(batch, self.objects, 2) * 0.6 * resolution
        boxes = torch.cat([corners, corners + (0.1 + 0.3 * torch.rand(batch, self.objects, 2)) * resolution], -1)
        labels = torch.randint(1, classes, (batch, self.objects))
        rows = torch.arange(resolution).view(-1, 1) + 0.5
        columns = torch.arange(resolution).view(1, -1) + 0.5
        left, top, right, bottom = (edge[..., None, None] for edge in boxes.unbind(-1))
        masks = (columns > left) & (columns < right) & (rows > top) & (rows < bottom)
        images = torch.rand(batch, 3, resolution, resolution)
        return Batch((images, boxes, labels, masks.to(torch.uint8)))

    def loss(self, output: Any, target: Any) -> Any:  # noqa: ARG002
        return sum(output)


@dataclass(frozen=True)
class TwoStage(Detector):
    backbone: str
    masks: bool
    plain: bool

    def build(self, depth: int, head: int, resolution: int, classes: int, proposals: int) -> Any:
        from tare.workloads.networks.rcnn import DETECTRON, TORCHVISION, two_stage

        counts = TORCHVISION if self.plain else DETECTRON[self.backbone]
        return two_stage(depth, self.backbone, self.masks, head, resolution, classes, proposals, counts)


for _name, (_depth, _backbone, _masks) in MODELS.items():
    workload(
        _name,
        domain="vision",
        task="segmentation" if _masks else "detection",
        source=("torchvision.models.detection.maskrcnn_resnet50_fpn; " if _name == PLAIN else
                "written here on torchvision.models.detection; ")
        + ("He et al., Mask R-CNN (2017)" if _masks else "Ren et al., Faster R-CNN (2015)"),
        differs=DIFFERS if _name == PLAIN else f"torchvision's parts instead of Detectron2's; {DIFFERS}",
        batch=1,
        sizes={
            "depth": Size(_depth, choices=(14, 50, 101)), "head": 1024, "resolution": 800,
            "classes": 91 if _name == PLAIN else 81, "proposals": 1000,
        },
        smoke={
            "batch": 1, "depth": 14, "head": 64, "resolution": 96, "classes": 5,
            # With the C4 backbone every box passes through ResNet's last stage, and with masks twice.
            "proposals": 4 if _backbone == "c4" else 8,
        },
        requires=("torchvision",),
        # Frozen batch norms do not normalise random weights: with 0.01 the loss is NaN after seven steps.
        learning_rate=0.0001,
        unsupported={**NO_HALF, **NO_TRACED_TRAINING},
        counterpart=("detectron2_maskrcnn",) if _name == "detectron2_maskrcnn_r_50_fpn" else (),
        groups=("mlperf",) if _name == PLAIN else (),
    )(TwoStage(_backbone, _masks, _name == PLAIN))  # fmt: skip
