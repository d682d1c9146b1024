"""torchvision's ResNet by depth. Depth 14 has one block per stage, for smoke runs."""

from typing import Any

from torchvision.models.resnet import Bottleneck, ResNet

BLOCKS = {14: [1, 1, 1, 1], 50: [3, 4, 6, 3], 101: [3, 4, 23, 3], 152: [3, 8, 36, 3]}


def bottlenecks(depth: int, **options: Any) -> Any:
    return ResNet(Bottleneck, BLOCKS[depth], **options)
