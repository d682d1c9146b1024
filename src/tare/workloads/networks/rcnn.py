"""Faster R-CNN and Mask R-CNN with the three backbones of Detectron2's zoo (C4, DC5, FPN) on torchvision's parts.

C4: proposals come from the fourth stage, and the fifth is the head of each box and of each mask. DC5: the fifth
stage is dilated instead of strided, and the head has two linear layers. FPN: a feature pyramid. See He et al.,
Mask R-CNN (2017), section 3 and figure 4.
"""

from collections import OrderedDict
from typing import Any, NamedTuple

import torch
from torch import nn
from torchvision.models import detection, resnet
from torchvision.models.detection import _utils as detection_utils
from torchvision.models.detection.anchor_utils import AnchorGenerator
from torchvision.models.detection.backbone_utils import _resnet_fpn_extractor
from torchvision.models.detection.faster_rcnn import FastRCNNPredictor, TwoMLPHead
from torchvision.models.detection.mask_rcnn import MaskRCNNHeads, MaskRCNNPredictor
from torchvision.ops import FrozenBatchNorm2d, MultiScaleRoIAlign

from tare.workloads.networks.residual import bottlenecks

# The spread of the class scores of random weights, with which some classes win and boxes pass the threshold.
SPREAD = 100.0


class Proposals(NamedTuple):
    """The numbers of proposals before and after non-maximum suppression, in multiples of the number that the heads
    see at inference. With a pyramid the numbers before it are per level."""

    before_train: int
    before_test: int
    after_train: int


# The base configurations of Detectron2, and the defaults of torchvision's detectors.
DETECTRON = {"c4": Proposals(12, 6, 2), "dc5": Proposals(12, 6, 2), "fpn": Proposals(2, 1, 1)}
TORCHVISION = Proposals(2, 1, 2)


def evenly(candidates: Any, most: Any) -> Any:
    """Selects at most `most` of the candidates, spread as evenly as possible."""
    rank = candidates.cumsum(0)
    count = rank[-1].clamp(min=1)
    kept = count.clamp(max=most)
    return candidates & (rank * kept // count > (rank - 1) * kept // count)


class EvenSampler(detection_utils.BalancedPositiveNegativeSampler):
    """Selects candidates evenly. torchvision draws them at random, which would differ between rungs. Taking the
    first ones would train only one level of a pyramid, and only the upper edge of an image."""

    def __call__(self, matched: list[Any]) -> tuple[list[Any], list[Any]]:
        most = int(self.batch_size_per_image * self.positive_fraction)
        selections = []
        for labels in matched:
            positive = evenly(labels >= 1, most)
            negative = evenly(labels == 0, self.batch_size_per_image - positive.sum())
            selections.append((positive.to(torch.uint8), negative.to(torch.uint8)))
        return [p for p, _ in selections], [n for _, n in selections]


class ByPosition(nn.Module):
    """A detector with tensors as arguments. Returns losses in training, and boxes with their scores otherwise."""

    def __init__(self, detector: Any, masks: bool) -> None:
        super().__init__()
        self.detector = detector
        self.masks = masks

    def forward(self, images: Any, boxes: Any, labels: Any, masks: Any) -> Any:
        # Tuples, because TorchScript cannot return a list of torchvision's dictionaries.
        if not self.training:
            return tuple(tuple(detections.values()) for detections in self.detector(list(images.unbind())))
        targets = [{"boxes": b, "labels": c} for b, c in zip(boxes.unbind(), labels.unbind(), strict=True)]
        if self.masks:
            for target, mask in zip(targets, masks.unbind(), strict=True):
                target["masks"] = mask
        return tuple(self.detector(list(images.unbind()), targets).values())


class Stages(nn.Sequential):
    """A ResNet up to one of its stages. torchvision's detectors read the number of channels from the backbone."""

    out_channels: int


class Stage5Head(nn.Module):
    """The head of C4: the fifth stage of a ResNet over each box, averaged."""

    def __init__(self, stage: Any) -> None:
        super().__init__()
        self.stage = stage

    def forward(self, x: Any) -> Any:
        return self.stage(x).mean((2, 3))


def two_stage(
    depth: int,
    kind: str,
    masks: bool,
    head: int,
    resolution: int,
    classes: int,
    test_proposals: int,
    proposals: Proposals,
) -> Any:
    body = bottlenecks(
        depth,
        norm_layer=FrozenBatchNorm2d,
        replace_stride_with_dilation=[False, False, kind == "dc5"],
    )
    options: dict[str, Any] = {
        "min_size": resolution,
        "max_size": resolution,
        "rpn_pre_nms_top_n_train": proposals.before_train * test_proposals,
        "rpn_pre_nms_top_n_test": proposals.before_test * test_proposals,
        "rpn_post_nms_top_n_train": proposals.after_train * test_proposals,
        "rpn_post_nms_top_n_test": test_proposals,
        "box_batch_size_per_image": min(512, proposals.after_train * test_proposals),
    }
    if kind == "fpn":
        backbone = _resnet_fpn_extractor(body, trainable_layers=3)
    else:
        backbone, level_options = _single_level(body, kind, classes)
        options |= level_options
    if kind != "c4":
        pooled = backbone.out_channels * 7 * 7
        options["box_head"] = TwoMLPHead(pooled, head)
        options["box_predictor"] = FastRCNNPredictor(head, classes)
    options |= _mask_options(kind, classes, body) if masks else {}
    model = (detection.MaskRCNN if masks else detection.FasterRCNN)(backbone, None, **options)
    return steady(ByPosition(model, masks))


def steady(model: Any) -> Any:
    """Starts residual branches small (frozen batch norms do not normalise them), spreads the class scores, and
    makes samplers deterministic."""
    for module in model.modules():
        if isinstance(module, resnet.Bottleneck):
            module.bn3.weight.detach().fill_(0.2)
        elif isinstance(module, FastRCNNPredictor):
            nn.init.normal_(module.cls_score.weight, std=SPREAD / module.cls_score.in_features)
        sampler = getattr(module, "fg_bg_sampler", None)
        if sampler is not None:
            module.fg_bg_sampler = EvenSampler(sampler.batch_size_per_image, sampler.positive_fraction)
    return model


def _single_level(body: Any, kind: str, classes: int) -> tuple[Any, dict[str, Any]]:
    """The backbone with one feature map, and the options of the detector that depend on it."""
    for part in (body.conv1, body.layer1):
        part.requires_grad_(False)
    stages = OrderedDict(
        (name, getattr(body, name)) for name in ("conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3")
    )
    options: dict[str, Any] = {
        "rpn_anchor_generator": AnchorGenerator(((32, 64, 128, 256, 512),), ((0.5, 1.0, 2.0),)),
        "box_roi_pool": MultiScaleRoIAlign(["0"], 14 if kind == "c4" else 7, 2),
    }
    if kind == "c4":
        options["box_head"] = Stage5Head(body.layer4)
        options["box_predictor"] = FastRCNNPredictor(2048, classes)
    else:
        stages["layer4"] = body.layer4
    backbone = Stages(stages)
    backbone.out_channels = 1024 if kind == "c4" else 2048
    return backbone, options


def _mask_options(kind: str, classes: int, body: Any) -> dict[str, Any]:
    levels = ["0", "1", "2", "3"] if kind == "fpn" else ["0"]
    pool = MultiScaleRoIAlign(levels, 14, 2)
    if kind == "c4":
        predictor = MaskRCNNPredictor(2048, 256, classes)
        return {"mask_roi_pool": pool, "mask_head": body.layer4, "mask_predictor": predictor}
    channels = {"dc5": 2048, "fpn": 256}[kind]
    return {
        "mask_roi_pool": pool,
        "mask_head": MaskRCNNHeads(channels, (256, 256, 256, 256), 1),
        "mask_predictor": MaskRCNNPredictor(256, 256, classes),
    }
