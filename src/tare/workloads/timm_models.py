"""Image classifiers of timm; names and variants follow TorchBench."""

from dataclasses import dataclass
from typing import Any

from tare.workloads.kinds import Classifier
from tare.workloads.registry import workload

# name -> (timm's name, batch, size at which smoke runs, where it comes from)
MODELS = {
    "timm_efficientnet": ("efficientnet_b0", 32, 64, "Tan and Le, EfficientNet (2019)"),
    "timm_mixer": ("mixer_b16_224", 32, 224, "Tolstikhin et al., MLP-Mixer (2021)"),
    "timm_nfnet": ("dm_nfnet_f0", 32, 64, "Brock et al., High-Performance Large-Scale Image Recognition (2021)"),
    "timm_regnet": ("regnety_032", 32, 64, "Radosavovic et al., Designing Network Design Spaces (2020)"),
    "timm_resnest": ("resnest14d", 32, 64, "Zhang et al., ResNeSt (2020)"),
    "timm_vision_transformer": ("vit_small_patch16_224", 32, 224, "Dosovitskiy et al., ViT (2020)"),
    "timm_vision_transformer_large": ("vit_large_patch16_224", 16, 224, "Dosovitskiy et al., ViT (2020)"),
    "timm_vovnet": ("ese_vovnet19b_dw", 32, 64, "Lee and Park, CenterMask (2019)"),
}
# Transformers and mixers have a depth, which is what makes them small; the images keep their size.
DEPTHS = {"timm_mixer": 12, "timm_vision_transformer": 12, "timm_vision_transformer_large": 24}


@dataclass(frozen=True)
class Timm(Classifier):
    model: str

    def build(self, classes: int, depth: int = 0, **_: int) -> Any:
        import timm

        from tare.workloads.networks.still import still

        more: dict[str, Any] = {}
        if depth:
            more["num_blocks" if "mixer" in self.model else "depth"] = depth
        return still(timm.create_model(self.model, pretrained=False, num_classes=classes, **more))


for _name, (_model, _batch, _small, _paper) in MODELS.items():
    _depth = DEPTHS.get(_name)
    workload(
        _name,
        domain="vision",
        task="classification",
        source=f"timm {_model}; {_paper}",
        differs="no dropout or drop path"
        + ("; TorchBench has the giant of patch 14" if _name.endswith("_large") else ""),
        batch=_batch,
        sizes={"resolution": 224, "classes": 1000} | ({"depth": _depth} if _depth else {}),
        smoke={"batch": 2, "resolution": _small, "classes": 10} | ({"depth": 2} if _depth else {}),
        requires=("timm",),
        layouts=("contiguous", "channels-last"),
    )(Timm(_model))
