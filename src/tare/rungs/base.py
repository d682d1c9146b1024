"""A rung, and the program it prepares: a step that is measured and evidence that is compared."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from tare.cases.case import Case
from tare.errors import Unsupported
from tare.measure.clock import Clock, WallClock
from tare.measure.memory import Allocator
from tare.protocol.messages import Missing, StepProfile
from tare.records.record import Net
from tare.workloads.base import Batch, Workload

Arrays = dict[str, NDArray[Any]]


class Program:
    """A prepared workload. A rung outside torch implements `step` and `evidence`, and `synchronize` where a step
    returns before its work has finished; the rest has defaults. Torch rungs use TorchProgram."""

    # One step, as a user of this rung would run it.
    step: Callable[[], Any]
    # True where steps return before their work has finished, so that several can be in flight.
    overlaps: bool = False
    # Seconds of building the model, which are not part of the preparation.
    build_s: float = 0.0
    # Remarks that are shown under the ladder.
    notes: Sequence[str] = ()

    def synchronize(self) -> None:
        """Waits until the work of all steps so far has finished."""

    def clock(self) -> Clock:
        return WallClock(self.synchronize, self.overlaps)

    def has_nan(self, result: Any) -> bool:
        """Whether what a step returned contains a NaN. It must wait for the result: the audit relies on that."""
        return any(bool(np.isnan(np.asarray(leaf)).any()) for leaf in _leaves(result))

    def evidence(self) -> Arrays:
        """What parity compares: `output/I`; in training the losses, gradients and updates of the first steps."""
        raise NotImplementedError

    def curve(self, batches: Iterable[Batch]) -> Arrays:  # noqa: ARG002
        """The loss of every step from the initial weights on, each step on a batch of its own."""
        raise Unsupported("this rung cannot train on given batches")

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
    if isinstance(result, (tuple, list)):
        for part in result:
            yield from _leaves(part)
    elif result is not None:
        yield result
