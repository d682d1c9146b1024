"""Video: action recognition, frame interpolation, background matting."""

from typing import Any

from tare.workloads.base import Batch
from tare.workloads.kinds import SETTLED, Classifier
from tare.workloads.registry import workload


@workload(
    "hf_VideoMAE",
    domain="vision",
    task="action recognition",
    source="transformers VideoMAEForVideoClassification; Tong et al., VideoMAE (2022), base",
    differs="no dropout",
    batch=4,
    sizes={"resolution": 224, "frames": 16, "width": 768, "layers": 12, "heads": 12, "classes": 400},
    smoke={"batch": 2, "resolution": 32, "frames": 4, "width": 32, "layers": 2, "heads": 4, "classes": 5},
    requires=("transformers",),
    optimizer="adamw",
)
class VideoMae(Classifier):
    def build(self, resolution: int, frames: int, width: int, layers: int, heads: int, classes: int) -> Any:
        from tare.workloads.networks.wrapped import from_config

        return from_config(
            "VideoMAEForVideoClassification", "VideoMAEConfig", ("pixel_values",), image_size=resolution,
            num_frames=frames, hidden_size=width, num_hidden_layers=layers, num_attention_heads=heads,
            intermediate_size=4 * width, num_labels=classes,
        )  # fmt: skip

    def inputs(self, batch: int, resolution: int, classes: int, frames: int = 16, **_: int) -> Batch:
        import torch

        clip = torch.randn(batch, frames, 3, resolution, resolution)
        return Batch((clip,), torch.randint(classes, (batch,)))


@workload(
    "Super_SloMo",
    domain="vision",
    task="video interpolation",
    source="written here; Jiang et al., Super SloMo (2018)",
    differs="no perceptual loss on VGG features, because there are no pretrained weights",
    batch=6,
    sizes={"resolution": 352, "width": 32},
    smoke={"batch": 1, "resolution": 64, "width": 4},
    # The paper's learning rate. With 0.01 the loss rises, and was NaN after two seconds of steps on an H200.
    learning_rate=0.0001,
)
class SuperSloMo:
    def build(self, width: int, **_: int) -> Any:
        from tare.workloads.networks.slomo import SuperSloMo

        return SuperSloMo(width)

    def inputs(self, batch: int, resolution: int, **_: int) -> Batch:
        import torch

        frames = torch.rand(3, batch, 3, resolution, resolution)
        when = torch.randint(1, 8, (batch, 1, 1, 1)) / 8
        return Batch((frames[0], frames[1], when), frames)

    def loss(self, output: Any, target: Any) -> Any:
        from tare.workloads.networks.slomo import slomo_loss

        return slomo_loss(output, target)


@workload(
    "Background_Matting",
    domain="vision",
    task="matting",
    source="written here; Sengupta et al., Background Matting (2020)",
    differs="only the supervised stage, without the adversarial fine-tuning on unlabelled video and without the "
    "separate loss of the foreground; the decoder of the foreground has no skip connection from the image; "
    f"{SETTLED}",
    batch=1,
    sizes={"resolution": 512, "width": 64, "blocks": 7},
    smoke={"resolution": 64, "width": 8, "blocks": 1},
)
class BackgroundMatting:
    def build(self, width: int, blocks: int, **_: int) -> Any:
        from tare.workloads.networks.matting import ContextSwitching
        from tare.workloads.networks.still import settled

        return settled(ContextSwitching(width, blocks), *self.inputs(2, 64).args)

    def inputs(self, batch: int, resolution: int, **_: int) -> Batch:
        import torch

        image, background = torch.rand(2, batch, 3, resolution, resolution) * 2 - 1
        segmentation = torch.rand(batch, 1, resolution, resolution)
        motion = torch.rand(batch, 4, resolution, resolution) * 2 - 1
        matte = torch.rand(batch, 1, resolution, resolution)
        return Batch((image, background, segmentation, motion), (matte, image, background))

    def loss(self, output: Any, target: Any) -> Any:
        matte, foreground = output
        true_matte, image, background = target
        composed = matte * foreground + (1 - matte) * background
        edges = (matte.diff(dim=-1) - true_matte.diff(dim=-1)).abs().mean()
        return (matte - true_matte).abs().mean() + edges + (composed - image).abs().mean()
