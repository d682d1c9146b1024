"""One-stage detectors of torchvision: FCOS and RetinaNet."""

from dataclasses import dataclass
from typing import Any

from tare.workloads.detection import NO_HALF, NO_TRACED_TRAINING, Detector
from tare.workloads.registry import workload

# name -> (torchvision's name, resolution, paper)
MODELS = {
    "detectron2_fcos_r_50_fpn": ("fcos_resnet50_fpn", 800, "Tian et al., FCOS (2019)"),
    "retinanet_r_50_fpn": ("retinanet_resnet50_fpn", 800, "Lin et al., Focal Loss (2017)"),
}


@dataclass(frozen=True)
class OneStage(Detector):
    model: str

    def build(self, resolution: int, classes: int, **_: int) -> Any:
        from tare.workloads.networks.one_stage import one_stage

        return one_stage(self.model, resolution, classes)


for _name, (_model, _resolution, _paper) in MODELS.items():
    workload(
        _name,
        domain="vision",
        task="detection",
        source=f"torchvision.models.detection.{_model}; {_paper}",
        differs="random weights are scaled so that some boxes pass the score threshold, as in a trained network",
        batch=1,
        sizes={"resolution": _resolution, "classes": 81},
        smoke={"batch": 1, "resolution": 128, "classes": 5},
        requires=("torchvision",),
        # As for the two-stage detectors: with 0.01 RetinaNet's loss is NaN after some hundred steps.
        learning_rate=0.0001,
        # RetinaNet divides its losses by numbers of boxes that are tensors, so its training can be traced.
        unsupported={**NO_HALF, **(NO_TRACED_TRAINING if "fcos" in _name else {})},
        groups=() if "fcos" in _name else ("mlperf",),
    )(OneStage(_model))
