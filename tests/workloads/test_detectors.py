"""The detectors' parts and counts are those of the packages they are named after."""

from typing import Any

import pytest
import torch

from tare.workloads import get_workload

pytest.importorskip("torchvision")


def full(name: str) -> Any:
    """The detector at full size, with nothing allocated."""
    workload = get_workload(name)
    with torch.device("meta"):
        return workload.definition.build(**workload.defaults).detector


def counts(detector: Any) -> list[int]:
    """Before and after non-maximum suppression: in training, then at inference."""
    return [
        number
        for mode in ("training", "testing")
        for number in (detector.rpn._pre_nms_top_n[mode], detector.rpn._post_nms_top_n[mode])
    ]


def parameters(module: Any) -> int:
    return sum(parameter.numel() for parameter in module.parameters())


def test_mask_rcnn_matches_torchvision() -> None:
    from torchvision.models.detection import maskrcnn_resnet50_fpn

    found = full("vision_maskrcnn")
    with torch.device("meta"):
        wanted = maskrcnn_resnet50_fpn(weights=None, weights_backbone=None)
    shapes = {name: tuple(p.shape) for name, p in wanted.named_parameters() if ".bn" not in name}
    # Without weights torchvision's own has batch norms that learn; with them, and here, they are frozen.
    shapes = {name: shape for name, shape in shapes.items() if ".downsample.1" not in name}
    assert {name: tuple(p.shape) for name, p in found.named_parameters()} == shapes
    assert counts(found) == counts(wanted) == [2000, 2000, 1000, 1000]


@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("detectron2_fasterrcnn_r_50_c4", [12000, 2000, 6000, 1000]),
        ("detectron2_fasterrcnn_r_101_dc5", [12000, 2000, 6000, 1000]),
        ("detectron2_maskrcnn_r_101_fpn", [2000, 1000, 1000, 1000]),
    ],
)
def test_proposal_counts_match_detectron2(name: str, wanted: list[int]) -> None:
    assert counts(full(name)) == wanted


def test_without_a_pyramid_boxes_and_masks_share_the_fifth_stage() -> None:
    """Figure 4 of Mask R-CNN, on the left: behind it a mask takes one transposed and one 1x1 convolution."""
    masks, boxes = full("detectron2_maskrcnn_r_50_c4"), full("detectron2_fasterrcnn_r_50_c4")
    assert masks.roi_heads.mask_head is masks.roi_heads.box_head.stage
    assert parameters(masks) - parameters(boxes) == (2048 * 256 * 2 * 2 + 256) + (256 * 81 + 81)


def test_training_samples_are_spread_evenly() -> None:
    from tare.workloads.networks.rcnn import evenly

    candidates = torch.tensor([1, 0, 1, 1, 1, 0, 1, 1], dtype=torch.bool)
    assert evenly(candidates, 3).nonzero().flatten().tolist() == [2, 4, 7]
    assert torch.equal(evenly(candidates, 6), candidates)
    assert torch.equal(evenly(candidates, torch.tensor(9)), candidates)
    assert not bool(evenly(torch.zeros(4, dtype=torch.bool), 2).any())
    assert int(evenly(torch.ones(1000, dtype=torch.bool), 256).sum()) == 256


@pytest.mark.full
@pytest.mark.parametrize("name", ["detectron2_fasterrcnn_r_50_fpn", "vision_maskrcnn"])
def test_every_pyramid_level_gets_a_gradient(name: str) -> None:
    workload = get_workload(name)
    model = workload.build(workload.smoke_sizes).train()
    batch = workload.inputs(workload.smoke_batch, workload.smoke_sizes)
    workload.loss(model(*batch.args), batch.target).backward()
    learning = {name: p.grad for name, p in model.named_parameters() if p.requires_grad}
    assert [name for name, slope in learning.items() if slope is None or not bool(slope.any())] == []
