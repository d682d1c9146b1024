"""Base classes of workloads: inputs and loss. A family derives from one of them and adds `build`."""

from typing import Any

from tare.workloads.base import Batch

# For workloads with a loss that passes through a network without training it (networks/frozen.py).
NO_TRACED_TRAINING = {
    "torchscript/train": "a loss passes through a network with detached parameters, which cannot be traced"
}
# For workloads whose output at inference would otherwise not depend on the input (networks/still.py).
SETTLED = "batch-norm statistics are initialised from a random batch"


class Classifier:
    """Images in, one score per class out."""

    def inputs(self, batch: int, resolution: int, classes: int, **_: int) -> Batch:
        import torch

        return Batch((torch.randn(batch, 3, resolution, resolution),), torch.randint(classes, (batch,)))

    def loss(self, output: Any, target: Any) -> Any:
        from torch.nn import functional

        return functional.cross_entropy(output, target)


class DenseClassifier(Classifier):
    """Images in, one score per class for every pixel out."""

    def inputs(self, batch: int, resolution: int, classes: int, **_: int) -> Batch:
        import torch

        shape = (batch, resolution, resolution)
        return Batch((torch.randn(batch, 3, resolution, resolution),), torch.randint(classes, shape))


class LanguageModel:
    """Tokens in, one score per word of the vocabulary for every position out."""

    def inputs(self, batch: int, length: int, vocabulary: int, **_: int) -> Batch:
        import torch

        tokens = torch.randint(vocabulary, (batch, length + 1))
        return Batch((tokens[:, :-1].contiguous(),), tokens[:, 1:].contiguous())

    def loss(self, output: Any, target: Any) -> Any:
        from torch.nn import functional

        return functional.cross_entropy(output.flatten(0, 1), target.flatten())


class Translator(LanguageModel):
    """A source and the shifted target in, one score per word for every position of the target out."""

    def inputs(self, batch: int, length: int, vocabulary: int, **_: int) -> Batch:
        import torch

        source = torch.randint(vocabulary, (batch, length))
        target = torch.randint(vocabulary, (batch, length + 1))
        return Batch((source, target[:, :-1].contiguous()), target[:, 1:].contiguous())


def single(x: Any) -> Any:
    """Converts half precision to float32, for a loss without a half-precision kernel or with large errors."""
    return x.float() if x.itemsize < 4 else x


def ctc(output: Any, target: Any) -> Any:
    """The CTC loss (Graves et al., 2006) of scores (batch, steps, letters); letter 0 is the blank."""
    import torch
    from torch.nn import functional

    scores = single(output)
    steps = torch.full((output.shape[0],), output.shape[1])
    letters = torch.full((output.shape[0],), target.shape[1])
    return functional.ctc_loss(scores.log_softmax(-1).transpose(0, 1), target, steps, letters, zero_infinity=True)


class Regressor:
    """The mean square error to a target of the output's shape."""

    def loss(self, output: Any, target: Any) -> Any:
        from torch.nn import functional

        return functional.mse_loss(output, target)
