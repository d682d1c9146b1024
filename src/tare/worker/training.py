"""Training for whole epochs: initial weights, epochs with their checkpoints, and the evaluation of weights.

Every rung's weights are evaluated alike: by the model in eager, in evaluation mode, at the precision of the case.
So the figures differ only in what training made of the weights, and rungs that have no program for evaluation
(those in C++) are judged like the others.
"""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from tare.cases.case import Case
from tare.errors import Unsupported
from tare.protocol.jobs import EvaluateJob, InitialWeightsJob, ShapesJob, TrainJob
from tare.protocol.messages import EvaluatedWeights, Send, Shaped, TrainedEpoch
from tare.records.training import finite, mean_of
from tare.rungs.base import Arrays
from tare.rungs.torch.numerics import PRECISIONS, pin_flags
from tare.worker.batches import batches_of, shapes_of
from tare.worker.preparation import open_program
from tare.worker.staging import read_arrays, write_evidence
from tare.workloads import get_workload
from tare.workloads.datasets.prepared import PreparedData, PreparedSplit

# Images that are evaluated at a time.
EVALUATED = 250
# A batch norm counts its batches, which nothing reads where its momentum is fixed: not every rung counts.
COUNTER = "num_batches_tracked"


def describe_shapes(job: ShapesJob, _: Send) -> Shaped:
    shapes, workload = shapes_of(job.case), get_workload(job.case.workload)
    args, target = [list(arg) for arg in shapes.args], list(shapes.target)
    return Shaped(args=args, target=target, learning_rate=workload.learning_rate, momentum=workload.momentum)


def write_initial_weights(job: InitialWeightsJob, _: Send) -> None:
    model = get_workload(job.case.workload).build(job.case.sizes, job.run)
    write_evidence(
        Path(job.folder),
        {f"weight/{name}": tensor.detach().float().numpy() for name, tensor in model.state_dict().items()},
    )


def train_epochs(job: TrainJob, send: Send) -> None:
    """Trains a rung that runs in Python. It ends after an epoch that diverged: the next ones would as well."""
    evaluator = Evaluator(job.case, PreparedData(Path(job.batches.folder)), job.judged)
    with open_program(job.case, job.cache, job.learning_rate) as program:
        program.restore(read_arrays(Path(job.checkpoint)))
        for number in range(len(job.batches.orders)):
            batches = batches_of(job.case, job.batches, number)
            loss = mean_of([float(value) for value in program.losses(batches)])
            arrays = program.checkpoint()
            epoch = job.first + number
            write_evidence(Path(job.save) / str(epoch), arrays)
            send(TrainedEpoch(epoch=epoch, loss=loss))
            send(evaluator.evaluate(arrays))
            if loss is None:
                return


def evaluate_checkpoint(job: EvaluateJob, _: Send) -> EvaluatedWeights:
    evaluator = Evaluator(job.case, PreparedData(Path(job.batches.folder)), job.judged)
    return evaluator.evaluate(read_arrays(Path(job.checkpoint)))


class Evaluator:
    """The model of a case in eager, in evaluation mode. `judged` training images are evaluated."""

    def __init__(self, case: Case, data: PreparedData, judged: int) -> None:
        pin_flags(case)
        self._case, self._data, self._judged = case, data, judged
        self._workload, self._numerics = get_workload(case.workload), PRECISIONS[case.precision]
        example = self._workload.inputs(1, case.sizes)
        self._inputs, self._target = example.args[0].dim(), example.target.dtype
        model = self._numerics.convert(self._workload.build(case.sizes)).to(case.device)
        if case.layout == "channels-last":
            model = model.to(memory_format=torch.channels_last)
        self._model = model.eval().requires_grad_(False)

    def evaluate(self, arrays: Arrays) -> EvaluatedWeights:
        """With the weights of a checkpoint."""
        for name, tensor in self._model.state_dict().items():
            saved = arrays.get(f"weight/{name}")
            if saved is not None:
                tensor.copy_(torch.from_numpy(saved).view(tensor.shape))
            elif not name.endswith(COUNTER):
                raise Unsupported(f"the rung has not saved the weight {name}")
        train_accuracy, _ = self._over(self._data.train, self._judged)
        test_accuracy, test_loss = self._over(self._data.test, len(self._data.test))
        return EvaluatedWeights(
            train_accuracy=train_accuracy, test_loss=finite(test_loss), test_accuracy=test_accuracy
        )

    def _over(self, split: PreparedSplit, count: int) -> tuple[float, float]:
        """The share of the first `count` images whose class has the highest score, and their mean loss."""
        right, loss = 0, 0.0
        with torch.inference_mode():
            for start in range(0, count, EVALUATED):
                chosen = slice(start, min(start + EVALUATED, count))
                labels = torch.from_numpy(np.array(split.labels[chosen])).to(self._case.device)
                output = self._score(split.pixels(chosen))
                if not isinstance(output, torch.Tensor) or output.shape[:-1] != labels.shape:
                    raise Unsupported(f"the output of {self._case.workload} is no score for each class")
                right += int((output.argmax(1) == labels).sum())
                loss += float(self._workload.loss(output.float(), labels.to(self._target))) * len(labels)
        return right / count, loss / count

    def _score(self, pixels: Any) -> Any:
        inputs = torch.from_numpy(pixels).to(self._case.device)
        if self._inputs == 2:
            inputs = inputs.reshape(len(inputs), -1)
        inputs = self._numerics.convert(inputs)
        if self._case.layout == "channels-last" and inputs.dim() == 4:
            inputs = inputs.contiguous(memory_format=torch.channels_last)
        kind = self._numerics.autocast
        if kind is None:
            return self._model(inputs)
        with torch.autocast(self._case.device_type, dtype=getattr(torch, kind)):
            return self._model(inputs)
