"""EfficientDet: EfficientNet with a weighted bidirectional feature pyramid."""

from typing import Any

from tare.workloads.base import Batch
from tare.workloads.kinds import SETTLED
from tare.workloads.registry import workload


@workload(
    "timm_efficientdet",
    domain="vision",
    task="detection",
    source="written here on timm's efficientnet_b0; Tan et al., EfficientDet (2019), D0",
    differs=f"D0 instead of D1 as in TorchBench; boxes are returned before non-maximum suppression; {SETTLED}",
    batch=4,
    sizes={"resolution": 512, "classes": 90, "width": 64, "repeats": 3},
    smoke={"batch": 2, "resolution": 128, "classes": 5, "width": 16, "repeats": 1},
    requires=("timm", "torchvision"),
)
class EfficientDet:
    def build(self, classes: int, width: int, repeats: int, **_: int) -> Any:
        import torch

        from tare.workloads.networks.efficientdet import EfficientDet
        from tare.workloads.networks.still import settled

        return settled(EfficientDet(classes, width, repeats), torch.randn(4, 3, 128, 128))

    def inputs(self, batch: int, resolution: int, classes: int, **_: int) -> Batch:
        import torch

        anchors = sum((resolution >> level) ** 2 * 9 for level in range(3, 8))
        labels = torch.rand(batch, anchors, classes) < 0.001
        return Batch(
            (torch.randn(batch, 3, resolution, resolution),), (labels.float(), torch.randn(batch, anchors, 4))
        )

    def loss(self, output: Any, target: Any) -> Any:
        from torch.nn import functional
        from torchvision.ops import sigmoid_focal_loss

        labels, boxes = target
        is_object = labels.amax(-1, keepdim=True)
        box_loss = functional.smooth_l1_loss(output[1], boxes, reduction="none") * is_object
        class_loss = sigmoid_focal_loss(output[0], labels, reduction="sum")
        return (class_loss + 50 * box_loss.sum()) / is_object.sum().clamp(min=1)
