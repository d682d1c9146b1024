"""Image classifiers of timm; names and variants follow TorchBench."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tare.workloads.base import Size
from tare.workloads.kinds import SETTLED, Classifier
from tare.workloads.registry import workload

Shape = Callable[[int, int], dict[str, Any]]


def _plain(width: int, depth: int) -> dict[str, Any]:  # noqa: ARG001
    return {}


def _vit(width: int, depth: int) -> dict[str, Any]:
    return {"embed_dim": width, "depth": depth, "num_heads": max(width // 64, 1)}


def _mixer(width: int, depth: int) -> dict[str, Any]:
    return {"embed_dim": width, "num_blocks": depth}


def _swin(width: int, depth: int) -> dict[str, Any]:
    short = min(2, depth)
    heads = tuple(width * 2**i // 32 for i in range(4))
    return {"embed_dim": width, "depths": (short, short, depth, short), "num_heads": heads}


def _convnext(width: int, depth: int) -> dict[str, Any]:
    short = min(3, depth)
    return {"dims": tuple(width * 2**i for i in range(4)), "depths": (short, short, depth, short)}


def _nfnet(width: int, depth: int) -> dict[str, Any]:
    stages = (width, 2 * width, 6 * width, 6 * width)
    return {"channels": stages, "depths": (1, 2, depth, 3), "num_features": 12 * width, "group_size": width // 2}


# name -> (timm's name, (width, depth), (width, depth) of smoke, function from these to timm's options, paper)
MODELS: dict[str, tuple[str, tuple[int, int], tuple[int, int], Shape, str]] = {
    "timm_convnext": ("convnext_tiny", (96, 9), (16, 1), _convnext, "Liu et al., A ConvNet for the 2020s (2022)"),
    "timm_efficientnet": ("efficientnet_b0", (0, 0), (0, 0), _plain, "Tan and Le, EfficientNet (2019)"),
    "timm_mixer": ("mixer_b16_224", (768, 12), (32, 2), _mixer, "Tolstikhin et al., MLP-Mixer (2021)"),
    "timm_nfnet": ("dm_nfnet_f0", (256, 6), (32, 1), _nfnet, "Brock et al., Normalizer-Free Networks (2021)"),
    "timm_regnet": ("regnety_032", (0, 0), (0, 0), _plain, "Radosavovic et al., Network Design Spaces (2020)"),
    "timm_resnest": ("resnest14d", (0, 0), (0, 0), _plain, "Zhang et al., ResNeSt (2020)"),
    "timm_swin": ("swin_tiny_patch4_window7_224", (96, 6), (32, 1), _swin, "Liu et al., Swin Transformer (2021)"),
    "timm_vision_transformer": (
        "vit_small_patch16_224", (384, 12), (64, 2), _vit, "Dosovitskiy et al., ViT (2020)",
    ),
    "timm_vision_transformer_large": (
        "vit_large_patch16_224", (1024, 24), (64, 2), _vit, "Dosovitskiy et al., ViT (2020)",
    ),
    "timm_vovnet": ("ese_vovnet19b_dw", (0, 0), (0, 0), _plain, "Lee and Park, CenterMask (2019)"),
}  # fmt: skip
# Their attention windows, position embeddings or token-mixing layers fit one image size only.
FIXED = ("timm_mixer", "timm_swin", "timm_vision_transformer", "timm_vision_transformer_large")


@dataclass(frozen=True)
class Timm(Classifier):
    model: str
    shape: Shape

    def build(self, classes: int, width: int = 0, depth: int = 0, **_: int) -> Any:
        import timm
        import torch

        from tare.workloads.networks.still import awake, settled, still

        options = self.shape(width, depth)
        if self.shape is _mixer:  # timm's entry point for this model accepts no other width
            return awake(still(timm.models.MlpMixer(num_classes=classes, patch_size=16, **options)))
        model = awake(still(timm.create_model(self.model, pretrained=False, num_classes=classes, **options)))
        # The models without a width in MODELS are those with batch norm.
        return model if width else settled(model, torch.randn(4, 3, 64, 64))


for _name, (_model, (_width, _depth), (_narrow, _short), _shape, _paper) in MODELS.items():
    _sizes = {"width": _width, "depth": _depth} if _width else {}
    _smoke = {"width": _narrow, "depth": _short} if _width else {}
    workload(
        _name,
        domain="vision",
        task="classification",
        source=f"timm {_model}; {_paper}",
        differs="no dropout or drop path; weights that timm initialises to zero get small random values"
        + ("" if _width else f"; {SETTLED}")
        + ("; TorchBench has ViT-giant with patches of 14" if _name.endswith("_large") else ""),
        batch=16 if _name.endswith("_large") else 32,
        sizes={"resolution": Size(224, choices=(224,) if _name in FIXED else ()), "classes": 1000, **_sizes},
        smoke={"batch": 2, "resolution": 224 if _name in FIXED else 64, "classes": 10, **_smoke},
        requires=("timm", "torchvision"),  # timm imports torchvision
        layouts=("contiguous", "channels-last"),
    )(Timm(_model, _shape))
