"""Training on real data at sizes that take a moment, for every native rung that trains: shared by CPU and GPU
tests."""

from collections.abc import Iterator
from typing import Any

from tare.cases.case import Case
from tare.cases.options import Options
from tare.execute.batches import TrainingData
from tare.execute.executor import LocalExecutor
from tare.protocol.jobs import BatchSource
from tare.rungs import all_rungs
from tare.rungs.native.rung import NativeRung
from tare.rungs.registry import every_name, split_name
from tare.workloads import get_workload
from tare.workloads.datasets import ChosenData

STEPS = 50
# Sizes that fit pictures of 8x8 with ten classes, and the batch.
FITTING: dict[str, tuple[int, dict[str, int]]] = {
    "mlp": (16, {}),
    "mnist_cnn": (16, {}),
    "lstm": (16, {"input": 8, "steps": 8, "hidden": 16, "layers": 2}),
    "resnet50": (8, {"resolution": 16, "channels": 1, "classes": 10}),
}


def training_case(workload: str, rung: str, **fields: Any) -> Case:
    batch, sizes = FITTING[workload]
    sizes = {**get_workload(workload).defaults, **sizes}
    return Case(workload=workload, rung=rung, mode="train", optimizer="sgd", batch=batch, sizes=sizes, **fields)


def digits_of(executor: LocalExecutor, case: Case, steps: int = STEPS) -> BatchSource:
    """The batches of some steps on scikit-learn's digits."""
    return TrainingData(executor, case, ChosenData("digits"), Options()).of_steps(steps)


def native_cases(**fields: Any) -> Iterator[Case]:
    """Every workload above on every rung that is an executable and trains it; a new rung is here by itself."""
    for name in every_name():
        rung = all_rungs()[split_name(name)[0]]
        for workload in FITTING:
            case = training_case(workload, name, **fields)
            native = isinstance(rung, NativeRung) and rung.is_executable(case)
            if native and rung.supports(case, get_workload(workload)) is None:
                yield case
