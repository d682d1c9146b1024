"""Quantised networks: training aware of quantisation, as TorchBench has it, on torchvision's architectures."""

from dataclasses import dataclass
from typing import Any

from tare.workloads.kinds import Classifier
from tare.workloads.registry import workload


@dataclass(frozen=True)
class QuantisationAware(Classifier):
    model: str

    def build(self, classes: int, **_: int) -> Any:
        import warnings

        import torch
        from torch.ao.quantization import get_default_qat_qconfig_mapping
        from torch.ao.quantization.quantize_fx import prepare_qat_fx
        from torchvision import models

        from tare.workloads.networks.still import still

        model = still(getattr(models, self.model)(weights=None, num_classes=classes)).train()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # deprecated upstream in favour of a package of its own
            mapping = get_default_qat_qconfig_mapping("x86")
            return prepare_qat_fx(model, mapping, (torch.randn(1, 3, 64, 64),))


for _model, _batch in (("mobilenet_v2", 32), ("resnet50", 32)):
    workload(
        f"{_model}_quantized_qat",
        domain="vision",
        task="classification",
        source=f"torchvision.models.{_model} prepared by torch.ao.quantization (x86 configuration)",
        differs="no dropout; inference runs the network with its simulated quantisation, not converted to int8",
        batch=_batch,
        sizes={"resolution": 224, "classes": 1000},
        smoke={"batch": 2, "resolution": 64, "classes": 10},
        requires=("torchvision",),
        unsupported={
            "bf16": "fake quantisation computes in float32 only",
            "fp16": "fake quantisation computes in float32 only",
        },
    )(QuantisationAware(_model))
