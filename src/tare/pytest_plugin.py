"""The pytest plug-in: tests of speed by statistics over fresh processes, against a baseline of the store.

    def test_fast(tare):
        tare(model, inputs).no_slower_than("main", by=0.05)

`pytest --tare-save main` stores the baseline. pytest imports this file at every start, so it imports little.
"""

import warnings
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from tare.api.baselines import SpeedChange
    from tare.api.ladder import MeasuredRung
    from tare.stats.intervals import Interval

ROUNDS = 5


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("tare", "tests of speed (tare)")
    group.addoption("--tare-save", metavar="NAME", help="store what is measured as the baseline NAME")
    group.addoption("--tare-strict", action="store_true", help="fail where a baseline is missing, not skip")
    group.addoption(
        "--tare-rounds", type=int, default=ROUNDS, metavar="N", help=f"fresh processes a measurement ({ROUNDS})"
    )


class SpeedTest:
    """A model or a callable in a test. It is measured when a figure is first asked for."""

    def __init__(self, name: str, config: pytest.Config, measure: Callable[[], "MeasuredRung"]) -> None:
        self.name = name
        self._config, self._measure = config, measure

    @cached_property
    def measured(self) -> "MeasuredRung":
        """All figures of the measurement."""
        rung = self._measure()
        if rung.failure is not None:
            pytest.fail(f"{self.name}: {rung.failure}", pytrace=False)
        if save := self._config.getoption("--tare-save"):
            from tare.api.baselines import add_to_baseline

            add_to_baseline(save, rung.record)
        return rung

    @property
    def gross(self) -> "Interval":
        """Seconds of one step, over the fresh processes."""
        assert self.measured.gross is not None
        return self.measured.gross

    @property
    def latency(self) -> "Interval":
        assert self.measured.latency is not None
        return self.measured.latency

    def no_slower_than(self, baseline: "str | SpeedTest", by: float = 0.05) -> None:
        """Fails where a step is certainly slower than that of the baseline, and by more than `by` (0.05: 5 %). A
        suspicion is measured again, and both measurements must say so. `baseline` is a name of the store or
        another `tare(...)`. Without such a baseline the test is skipped."""
        __tracebackhide__ = True
        self._assert(baseline, by, lambda change: change.is_slower)

    def same_as(self, other: "str | SpeedTest", by: float = 0.05) -> None:
        """Fails where a step is certainly slower or faster, and by more than `by`."""
        __tracebackhide__ = True
        self._assert(other, by, lambda change: change.is_slower or change.is_faster)

    def _assert(self, other: "str | SpeedTest", by: float, fails: Callable[["SpeedChange"], bool]) -> None:
        __tracebackhide__ = True
        from tare.api.baselines import compare_speed, find_in_baseline
        from tare.errors import BadInput

        if isinstance(other, SpeedTest):
            label, before = other.name, other.measured.record
        else:
            label = f"baseline '{other}'"
            if self._config.getoption("--tare-save") == other:
                # This run makes the baseline.
                assert self.measured
                return
            stored = find_in_baseline(other, self.workload)
            if not stored or self.measured.record.case.family not in stored:
                self._without(f"{label} has no record of {self.name}: pytest --tare-save {other} stores it")
                return
            before = stored[self.measured.record.case.family]
        try:
            change = compare_speed(before, self.measured.record, by, label)
        except BadInput as error:
            self._without(f"{self.name} cannot be compared with {label}: {error}")
            return
        if fails(change):
            again = self._measure()
            confirmed = compare_speed(before, again.record, by, label) if again.failure is None else change
            if fails(confirmed):
                pytest.fail(f"{self.name}: {confirmed}", pytrace=False)
            change = confirmed
        if change.undecided:
            warnings.warn(f"{self.name}: {change}; more rounds decide (--tare-rounds)", stacklevel=3)

    @property
    def workload(self) -> str:
        from tare.cases.source import workload_name

        return workload_name(f"object:{self.name}")

    def _without(self, line: str) -> None:
        __tracebackhide__ = True
        if self._config.getoption("--tare-strict"):
            pytest.fail(line, pytrace=False)
        pytest.skip(line)


class SpeedTests:
    """The fixture `tare`: `tare(model, inputs)` or `tare(callable)`."""

    def __init__(self, request: pytest.FixtureRequest) -> None:
        self._config = request.config
        file, _, test = request.node.nodeid.partition("::")
        self._name = f"{file.rpartition('/')[2]}:{test.replace('::', '.')}"
        self._calls = 0

    def __call__(
        self,
        model: Any,
        inputs: Any = None,
        *,
        loss: Any = None,
        rung: str = "eager",
        device: str = "auto",
        precision: str = "fp32",
        rounds: int | None = None,
        budget: float = 5.0,
    ) -> SpeedTest:
        """`model` and `inputs` are those of `tare.ladder`; a callable without inputs that is no module is a whole
        step. `budget` is in seconds of sampling over all rounds, each of which is a fresh process."""
        self._calls += 1
        name = self._name if self._calls == 1 else f"{self._name}.{self._calls}"
        options: dict[str, Any] = {"budget": budget, "parity": False, "device": device}
        options |= {"rounds": rounds or self._config.getoption("--tare-rounds"), "name": name}

        def measure() -> "MeasuredRung":
            from tare.api.ladder import ladder, measure_step

            if _is_step(model, inputs):
                measured = measure_step(model, rung=rung, **options)
            else:
                measured = ladder(model, inputs, loss=loss, rungs=[rung], precision=precision, **options)
            if not len(measured):
                pytest.skip(f"{name}: {measured.skipped[0].reason}")
            return next(iter(measured))

        return SpeedTest(name, self._config, measure)


def _is_step(model: Any, inputs: Any) -> bool:
    import torch

    return inputs is None and callable(model) and not isinstance(model, (type, torch.nn.Module))


@pytest.fixture
def tare(request: pytest.FixtureRequest) -> SpeedTests:
    """Measures models and callables in fresh processes: tare(model, inputs).no_slower_than("main", by=0.05)."""
    return SpeedTests(request)
