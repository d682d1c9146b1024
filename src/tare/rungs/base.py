"""A rung, and the program it prepares: a step that is measured and evidence that is compared."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tare.cases.case import Case
from tare.errors import Unsupported
from tare.measure.clock import Clock, WallClock
from tare.measure.memory import Allocator
from tare.measure.parity import thinned
from tare.protocol.messages import Missing, StepProfile
from tare.records.record import Net
from tare.workloads.base import Batch, Workload
from tare.workloads.variants import BATCHES

Arrays = dict[str, NDArray[Any]]
# How many training steps parity follows.
EVIDENCE_STEPS = 3


class Program:
    """A prepared workload. A rung outside torch implements `step` and `select`, in training also `rewind` and
    `state`, and `synchronize` where a step returns before its work has finished; the rest has defaults. Torch
    rungs use TorchProgram."""

    # One step, as a user of this rung would run it. In training it returns the loss.
    step: Callable[[], Any]
    # True where steps return before their work has finished, so that several can be in flight.
    overlaps: bool = False
    trains: bool = False
    # Seconds of building the model, which are not part of the preparation.
    build_s: float = 0.0
    # Remarks that are shown under the ladder.
    notes: Sequence[str] = ()

    def synchronize(self) -> None:
        """Waits until the work of all steps so far has finished."""

    def drain(self) -> bool:
        """Waits until the device has finished all work of this process, in whatever stream; False where nothing
        tells."""
        return False

    def clock(self) -> Clock:
        return WallClock(self.synchronize, self.overlaps)

    def select(self, batch: int) -> None:
        """Makes the next steps use one of the batches of tare.workloads.variants.make_batches: overwrites what the
        step reads. It is never timed."""
        raise NotImplementedError

    def disturb(self, attempt: int) -> bool:  # noqa: ARG002
        """Makes the next step use values that no step has seen, others for each attempt: the audit finds results
        that are kept for every batch by them. False where the program cannot. It is never timed."""
        return False

    def rewind(self) -> None:
        """Restores the initial weights and the initial state of the optimizer. It is never timed."""

    def checksum(self, result: Any) -> float:
        """The sum of what a step returned, NaN where that contains a NaN."""
        return float(sum(np.asarray(leaf, np.float64).sum() for leaf in _leaves(result)))

    def has_nan(self, result: Any) -> bool:
        """Whether what a step returned contains a NaN. It must wait for the result: the audit relies on that."""
        return any(bool(np.isnan(np.asarray(leaf)).any()) for leaf in _leaves(result))

    def finished(self, result: Any) -> Any:
        """A copy of what a step returned, which `has_nan` can read without computing it; the result itself where
        it is known to be no more than its values."""
        return result

    def arrays(self, result: Any) -> list[NDArray[Any]]:
        """What a step returned, on the host; a large array thinned."""
        return [thinned(np.array(leaf)) for leaf in _leaves(result)]

    def state(self) -> Arrays:
        """In training, of every parameter: the gradient of the last step (`gradient/NAME`), and what all steps
        since `rewind` have changed (`update/NAME`)."""
        return {}

    def evidence(self) -> Arrays:
        """What parity compares, from steps that are not timed: the reference is made so. Rungs are compared by
        what worker/evidence.py takes of timed steps."""
        evidence = self.first_steps()
        if self.trains:
            # The last batch was the first one, after one step from the initial weights.
            evidence |= {name: values for name, values in self.state().items() if name.startswith("gradient/")}
            for _ in range(EVIDENCE_STEPS - 1):
                loss = self.step()
            evidence |= self.name_arrays(loss, 0, EVIDENCE_STEPS)
            evidence |= {name: values for name, values in self.state().items() if name.startswith("update/")}
        return evidence

    def first_steps(self) -> Arrays:
        """What the first step on each batch returns; the first batch comes last."""
        evidence: Arrays = {}
        for batch in reversed(range(BATCHES)):
            self.select(batch)
            self.rewind()
            evidence |= self.name_arrays(self.step(), batch, 1)
        return evidence

    def name_arrays(self, result: Any, batch: int, steps: int) -> Arrays:
        """The result of step number `steps` on a batch, by the names that parity knows."""
        arrays = self.arrays(result)
        if self.trains:
            return {f"loss/{steps}@{batch}": loss for loss in arrays[:1]}
        return {f"output/{i}@{batch}": values for i, values in enumerate(arrays)}

    def take(self, batch: Batch) -> None:  # noqa: ARG002
        """Makes the next step use this batch, which is on the host: overwrites what the step reads."""
        raise Unsupported("this rung cannot train on given batches")

    def curve(self, batches: Iterable[Batch]) -> Arrays:
        """The loss of every step from the initial weights on, each step on a batch of its own."""
        self.rewind()
        return {f"loss/{i}": loss for i, loss in enumerate(self.losses(batches), 1)}

    def losses(self, batches: Iterable[Batch]) -> Iterator[NDArray[Any]]:
        """The loss of a step on each batch, from the weights as they are."""
        for batch in batches:
            self.take(batch)
            yield self.arrays(self.step())[0]

    def checkpoint(self) -> Arrays:
        """What training goes on from, on the host in float32, by the names of the reference model: its parameters
        and buffers (`weight/NAME`) and the momentum of SGD (`momentum/NAME`), none of it thinned."""
        raise Unsupported("the weights of this rung cannot be saved")

    def restore(self, arrays: Arrays) -> None:  # noqa: ARG002
        """Goes on from what `checkpoint` gave, of this rung or another. Momentum that is not there is zero."""
        raise Unsupported("this rung cannot start from given weights")

    def allocator(self) -> Allocator | None:
        """The allocator of the device's memory, where it can be asked."""
        return None

    def profile(self, step_s: float) -> StepProfile:  # noqa: ARG002
        """Net and kernels of a few steps, each of which takes about `step_s`."""
        return StepProfile(net=Net(reason="no profiler sees into this rung"))

    def close(self) -> None: ...


class Rung(ABC):
    """One level of abstraction. Variants are spelled `name:variant`; '' is the plain one."""

    name: ClassVar[str]
    summary: ClassVar[str]
    # variant -> one line that says what it is.
    variants: ClassVar[Mapping[str, str]] = {}
    # variant -> why a ladder that does not name it excludes it.
    not_by_default: ClassVar[Mapping[str, str]] = {}
    # Whether preparation leaves something on disk that a later process uses again.
    caches: ClassVar[bool] = False
    # Variants that choose by timing while they are prepared, and so must not be prepared beside other cases.
    solitary: ClassVar[frozenset[str]] = frozenset()
    # Whether each operator of a step passes through PyTorch's dispatcher from Python, so that it can be counted.
    countable: ClassVar[bool] = False
    # The distribution whose version `RUNG@VERSION` names, and the name of the environment that has it.
    distribution: ClassVar[str] = "torch"
    # Whether it can run a user's whole step, which has its own optimizer (tare.workloads.own.step).
    whole_steps: ClassVar[bool] = False
    # Whether it runs an ONNX file as it is (tare.workloads.own.onnx_file).
    onnx_files: ClassVar[bool] = False

    def available(self, device_type: str) -> Missing | None:  # noqa: ARG002
        """None where the rung can run here; runs in a process that has torch and may touch the device."""
        return None

    def supports(self, case: Case, workload: Workload) -> str | None:  # noqa: ARG002
        """Why this rung cannot run this case, or None. Decided from the description alone."""
        return None

    def optimisations(self, case: Case) -> Sequence[str]:  # noqa: ARG002
        """What this rung does to the model beyond running it, in a few words each. A ladder shows them: a rung
        that fuses or searches kernels has other kernels, not only less overhead."""
        return ()

    def counts(self, case: Case) -> dict[str, int]:  # noqa: ARG002
        """Counts that are known of the prepared program, by the names of the guard's metrics."""
        return {}

    @abstractmethod
    def prepare(self, workload: Workload, case: Case) -> Program:
        """A program that is ready except for what its first step does (compiling, autotuning)."""


def learning_rate(workload: Workload, case: Case) -> float:
    # Adam's steps do not shrink with the gradient, so the learning rate of SGD would be far too large.
    return workload.learning_rate if case.optimizer == "sgd" else workload.learning_rate / 10


def _leaves(result: Any) -> Iterable[Any]:
    if isinstance(result, Mapping):
        result = tuple(result.values())
    elif is_dataclass(result):
        result = tuple(getattr(result, field.name) for field in fields(result))
    if isinstance(result, (tuple, list)):
        for part in result:
            yield from _leaves(part)
    elif result is not None:
        yield result
