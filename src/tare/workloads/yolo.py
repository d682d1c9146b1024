"""YOLOv3: Darknet-53, detection at three scales, and its loss."""

from typing import Any

from tare.workloads.base import Batch
from tare.workloads.kinds import SETTLED
from tare.workloads.registry import workload


@workload(
    "yolov3",
    domain="vision",
    task="detection",
    source="written here; Redmon and Farhadi, YOLOv3 (2018)",
    differs="boxes are returned before non-maximum suppression; the anchor of each object is random instead of "
    f"the best fitting one; {SETTLED}",
    batch=8,
    sizes={"resolution": 416, "classes": 80, "width": 32, "depth": 8},
    smoke={"batch": 1, "resolution": 64, "classes": 5, "width": 4, "depth": 1},
    layouts=("contiguous", "channels-last"),
)
class YoloV3:
    def build(self, resolution: int, classes: int, width: int, depth: int) -> Any:
        import torch

        from tare.workloads.networks.still import settled
        from tare.workloads.networks.yolo import Yolo

        # At a lower resolution the deepest batch norms would see only a few values, and the boxes of full-size
        # images would overflow.
        return settled(Yolo(classes, width, depth), torch.rand(2, 3, resolution, resolution))

    def inputs(self, batch: int, resolution: int, classes: int, **_: int) -> Batch:
        import torch

        from tare.workloads.networks.yolo import targets

        images = torch.rand(batch, 3, resolution, resolution)
        return Batch((images,), targets(batch, resolution, classes))

    def loss(self, output: Any, target: Any) -> Any:
        from tare.workloads.networks.yolo import yolo_loss

        return yolo_loss(output, target)
