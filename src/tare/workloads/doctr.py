"""Text detection (DBNet) and text recognition (CRNN), as in docTR."""

from typing import Any

from tare.workloads.base import Batch, Size
from tare.workloads.kinds import ctc
from tare.workloads.registry import workload


@workload(
    "doctr_det_predictor",
    domain="vision",
    task="text detection",
    source="written here on torchvision's ResNet-50; Liao et al., DBNet (2019)",
    differs="the loss covers all pixels, without hard-negative mining; the loss of the binary map is a squared "
    "error, because autocast does not allow binary cross entropy on probabilities",
    batch=2,
    sizes={"resolution": 1024, "width": 256, "depth": Size(50, choices=(14, 50))},
    smoke={"batch": 1, "resolution": 64, "width": 16, "depth": 14},
    requires=("torchvision",),
)
class TextDetection:
    def build(self, width: int, depth: int, **_: int) -> Any:
        from tare.workloads.networks.doctr import DbNet

        return DbNet(width, depth)

    def inputs(self, batch: int, resolution: int, **_: int) -> Batch:
        import torch

        maps = torch.rand(3, batch, 1, resolution, resolution)
        return Batch((torch.randn(batch, 3, resolution, resolution),), maps.round())

    def loss(self, output: Any, target: Any) -> Any:
        from torch.nn import functional

        shrunk, threshold, binary = (
            functional.binary_cross_entropy_with_logits(output[0], target[0]),
            (output[1] - target[1]).abs().mean(),
            functional.mse_loss(output[2], target[2]),
        )
        return shrunk + 10 * threshold + binary


@workload(
    "doctr_reco_predictor",
    domain="vision",
    task="text recognition",
    source="written here on torchvision's VGG-16; Shi et al., CRNN (2015), as in docTR's crnn_vgg16_bn",
    batch=64,
    sizes={"length": 128, "vocabulary": 126, "hidden": 128},
    smoke={"batch": 2, "length": 64, "vocabulary": 20, "hidden": 16},
    requires=("torchvision",),
)
class TextRecognition:
    CHARACTERS = 8

    def build(self, vocabulary: int, hidden: int, **_: int) -> Any:
        from tare.workloads.networks.doctr import Crnn

        return Crnn(vocabulary, hidden)

    def inputs(self, batch: int, length: int, vocabulary: int, **_: int) -> Batch:
        import torch

        words = torch.randint(1, vocabulary + 1, (batch, self.CHARACTERS))
        return Batch((torch.randn(batch, 3, 32, length),), words)

    def loss(self, output: Any, target: Any) -> Any:
        return ctc(output, target)
