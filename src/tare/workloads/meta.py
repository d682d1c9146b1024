"""Meta-learning (gradients of gradients) and differential privacy (one gradient per example)."""

from typing import Any

from tare.workloads.base import Batch, Size
from tare.workloads.kinds import Classifier
from tare.workloads.registry import workload

OMNIGLOT = {"ways": 5, "shots": 5, "steps": 5, "width": 64}
SMALL = {"batch": 2, "ways": 3, "shots": 1, "steps": 2, "width": 8}
MAML = "Finn et al., Model-Agnostic Meta-Learning (2017), second order, Omniglot"
# name -> (how the tasks of a batch are computed, steps, description)
MODELS = {
    "maml": ("loop", 5, "one task after another"),
    "maml_omniglot": ("loop", 5, "one task after another, as with the package higher"),
    "functorch_maml_omniglot": ("vmap", 5, "all tasks at once through torch.func"),
}

HOOKED = "the step needs the gradient of every layer's output, which a compiled graph does not expose"


class Episodes:
    """Few-shot tasks: each has a few labelled examples per class to adapt to, and as many to evaluate on."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def build(self, ways: int, steps: int, width: int, **_: int) -> Any:
        from tare.workloads.networks.maml import Maml

        return Maml(ways, steps, width, self.kind)

    def inputs(self, batch: int, ways: int, shots: int, **_: int) -> Batch:
        import torch

        images = torch.rand(2, batch, ways * shots, 1, 28, 28)
        labels = torch.arange(ways).repeat(shots).expand(batch, -1).contiguous()
        return Batch((images[0], labels, images[1]), labels)

    def loss(self, output: Any, target: Any) -> Any:
        from torch.nn import functional

        return functional.cross_entropy(output.flatten(0, 1), target.flatten())


for _name, (_kind, _steps, _how) in MODELS.items():
    workload(
        _name,
        domain="other",
        task="meta-learning",
        source=f"written here; {MAML}; {_how}",
        differs="batch norm keeps no running statistics" if _name != "maml" else "no batch norm",
        batch=32 if _kind == "vmap" else 4,
        sizes={**OMNIGLOT, "steps": _steps},
        smoke=SMALL,
        optimizer="adam",
        unsupported={
            "torchscript": "the model computes a gradient by autograd, which tracing does not record",
            "aot": "the model computes a gradient by autograd, which torch.export does not support",
        },
    )(Episodes(f"{_kind}{'' if _name == 'maml' else '-norm'}"))


class Private(Classifier):
    """DP-SGD: each example's gradient is clipped, and noise is added to their sum. Returns the loss."""

    def __init__(self, how: str) -> None:
        self.how = how

    def build(self, classes: int, depth: int, width: int, **_: int) -> Any:
        from tare.workloads.networks.private import Private

        return Private(classes, depth, width, self.how)

    def inputs(self, batch: int, resolution: int, classes: int, **_: int) -> Batch:
        labelled_images = super().inputs(batch, resolution, classes)
        return Batch((*labelled_images.args, labelled_images.target), labelled_images.target)

    def loss(self, output: Any, target: Any) -> Any:  # noqa: ARG002
        return output


for _name, _how in (("functorch_dp_cifar10", "vmap"), ("opacus_cifar10", "hooks")):
    workload(
        _name,
        domain="other",
        task="differential privacy",
        source="written here; Abadi et al., Deep Learning with Differential Privacy (2016), ResNet-18 with group "
        "norm; per-sample gradients by "
        + ("torch.func.vmap" if _how == "vmap" else "one outer product per layer, as in Opacus"),
        differs="the noise is generated once and reused, so that steps can be repeated",
        batch=64,
        sizes={"resolution": 32, "classes": 10, "depth": Size(18, choices=(10, 18)), "width": 64},
        smoke={"batch": 2, "resolution": 16, "depth": 10, "width": 8},
        unsupported={
            "torchscript/train": "the model computes gradients by autograd, which tracing does not record",
        }
        | ({"compile/train": HOOKED} if _how == "hooks" else {}),
    )(Private(_how))
