"""Quantisation-aware training of torchvision's architectures, as in TorchBench."""

from typing import Any

from tare.workloads.base import Size
from tare.workloads.kinds import Classifier
from tare.workloads.registry import workload


class QuantisationAware(Classifier):
    def build(self, classes: int, depth: int = 0, **_: int) -> Any:
        import warnings

        import torch
        from torch.ao.quantization import get_default_qat_qconfig_mapping
        from torch.ao.quantization.quantize_fx import prepare_qat_fx
        from torchvision.models import mobilenet_v2

        from tare.workloads.networks.float32 import Observing
        from tare.workloads.networks.residual import bottlenecks
        from tare.workloads.networks.still import settled, still

        plain = bottlenecks(depth, num_classes=classes) if depth else mobilenet_v2(num_classes=classes)
        model = still(plain).train()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch deprecates this module in favour of torchao
            mapping = get_default_qat_qconfig_mapping("x86")
            prepared = prepare_qat_fx(model, mapping, (torch.randn(1, 3, 64, 64),))
        return Observing(settled(prepared, torch.randn(4, 3, 64, 64)))


for _model, _depth in (("mobilenet_v2", 0), ("resnet50", 50)):
    workload(
        f"{_model}_quantized_qat",
        domain="vision",
        task="classification",
        source=f"torchvision.models.{_model} prepared by torch.ao.quantization (x86 configuration)",
        differs="no dropout; inference runs the network with fake quantisation, not converted to int8; torch "
        "implements fake quantisation only in float32, so the reference also computes in float32",
        batch=32,
        sizes={"resolution": 224, "classes": 1000}
        | ({"depth": Size(_depth, choices=(14, _depth))} if _depth else {}),
        smoke={"batch": 2, "resolution": 64, "classes": 10} | ({"depth": 14} if _depth else {}),
        requires=("torchvision",),
        unsupported={
            "bf16": "fake quantisation computes in float32 only",
            "fp16": "fake quantisation computes in float32 only",
        },
    )(QuantisationAware())
