"""What a rung is, and what it makes: a program whose step is measured and whose evidence is compared."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol

from numpy.typing import NDArray

from tare.cases.case import Case
from tare.workloads.base import Workload

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class Missing:
    """Why a rung is not available here, and what would make it so."""

    reason: str
    remedy: str


class Program(Protocol):
    """A prepared workload. `step` may return before the device has finished; `device` names the clock to use."""

    device: Any
    build_s: float
    notes: list[str]

    def step(self) -> Any:
        """One step, as the user of this rung would run it."""

    def has_nan(self, result: Any) -> bool:
        """Whether what a step returned is somewhere no number: not to be known before the step has ended."""

    def evidence(self) -> Arrays:
        """What parity compares: outputs, or the losses, gradients and updates of the first training steps."""

    def close(self) -> None: ...


class Rung(ABC):
    """One level of abstraction. Variants are spelled `name:variant`; '' is the plain one."""

    name: ClassVar[str]
    summary: ClassVar[str]
    # variant -> one line that says what it is.
    variants: ClassVar[Mapping[str, str]] = {}
    # variant -> why it is left out of a ladder that does not name it.
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

    def counts(self, case: Case) -> dict[str, int]:  # noqa: ARG002
        """What is known of the prepared program by counting, by the names of the guard's metrics."""
        return {}

    @abstractmethod
    def prepare(self, workload: Workload, case: Case) -> Program:
        """A program that is ready but for what the first step does (compiling, autotuning)."""
