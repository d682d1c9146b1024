"""`tare.ladder`: a model on several rungs, in fresh processes, each compared with the reference."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import msgspec

from tare.api.display import Displayed
from tare.cases.plan import Plan, Skip, make_plan
from tare.errors import BadInput, quote, unknown
from tare.records.figures import device_peak, host_peak, latency, net, preparation, tare
from tare.records.figures import gross as gross_of
from tare.records.record import Record
from tare.report.ladder import incomparable, make_row
from tare.report.numbers import duration
from tare.stats.intervals import Interval
from tare.system.scratch import scratch

if TYPE_CHECKING:
    from tare.report.view import View

Mode = Literal["infer", "train"]


@dataclass(frozen=True, repr=False)
class MeasuredRung(Displayed):
    """A rung of a ladder. All times are in seconds; what was not measured, or failed, is None."""

    name: str
    record: Record

    @property
    def gross(self) -> Interval | None:
        """One step of many back to back, over the rounds."""
        return gross_of(self.record)

    @property
    def latency(self) -> Interval | None:
        """One step alone."""
        return latency(self.record)

    @property
    def net(self) -> float | None:
        """The part of gross in which the device computed."""
        return net(self.record)

    @property
    def tare(self) -> float | None:
        """Gross minus net: what the stack itself takes."""
        return tare(self.record)

    @property
    def preparation(self) -> float | None:
        """Tracing, compiling and autotuning with cold caches."""
        return preparation(self.record)[0]

    @property
    def host_peak(self) -> int | None:
        """Bytes of host memory while stepping."""
        return host_peak(self.record)

    @property
    def device_peak(self) -> int | None:
        """Bytes of device memory while stepping."""
        return device_peak(self.record)

    @property
    def parity(self) -> str:
        """Whether it computes what the reference computes: same, different, nan or unchecked."""
        return self.record.parity.status

    @property
    def failure(self) -> str | None:
        """Why there is no time."""
        return make_row(self.record).trouble

    @property
    def samples(self) -> list[list[float]]:
        """The raw samples of gross: of each round, seconds per step of every block."""
        series = [done.find("pipelined") for done in self.record.rounds]
        return [each.step_seconds() for each in series if each]

    def __repr__(self) -> str:
        return f"{self.name}: {duration(self.gross) if self.gross else self.failure}, parity {self.parity}"

    def view(self) -> "View":
        from tare.report.ladder import ladder_view, make_ladders

        return ladder_view(make_ladders([self.record])[0])


@dataclass(frozen=True, repr=False)
class MeasuredLadder(Displayed):
    """The rungs of a model, by name: `ladder["compile"]`. Printed, or at the end of a notebook's cell, it is a
    table."""

    rungs: dict[str, MeasuredRung]
    #: What was not measured, and why.
    skipped: tuple[Skip, ...] = ()

    def __getitem__(self, rung: str) -> MeasuredRung:
        if rung not in self.rungs:
            raise unknown("rung", rung, self.rungs, "this ladder")
        return self.rungs[rung]

    def __iter__(self) -> Iterator[MeasuredRung]:
        return iter(self.rungs.values())

    def __len__(self) -> int:
        return len(self.rungs)

    @property
    def records(self) -> list[Record]:
        return [rung.record for rung in self]

    @cached_property
    def best(self) -> MeasuredRung | None:
        """The rung with the smallest gross of those that compute the same; None if there is none."""
        steps = {
            rung.name: rung.gross.mid
            for rung in self
            if rung.gross is not None and not incomparable(make_row(rung.record))
        }
        return self.rungs[min(steps, key=lambda name: steps[name])] if steps else None

    def rows(self) -> list[dict[str, Any]]:
        """The figures as one dictionary a rung, in seconds and bytes."""
        return [
            {
                "rung": rung.name,
                **{f"gross{end}": getattr(rung.gross, field, None) for end, field in _BOUNDS.items()},
                "net": rung.net,
                "tare": rung.tare,
                "latency": rung.latency.mid if rung.latency else None,
                "preparation": rung.preparation,
                "host_peak": rung.host_peak,
                "device_peak": rung.device_peak,
                "parity": rung.parity,
                "failure": rung.failure,
            }
            for rung in self
        ]

    def to_pandas(self) -> Any:
        """The figures as a pandas.DataFrame with a row a rung."""
        try:
            import pandas
        except ModuleNotFoundError:
            raise BadInput("to_pandas needs pandas: pip install pandas (rows() gives dictionaries)") from None
        return pandas.DataFrame(self.rows()).set_index("rung")

    def __repr__(self) -> str:
        return str(self)

    def view(self) -> "View":
        from tare.report.overview import overview, skipped_view

        view = overview(self.records, self.skipped, table=False)
        return view.show(skipped_view(list(self.skipped))) if self.skipped else view


_BOUNDS = {"": "mid", "_low": "low", "_high": "high"}


def ladder(
    model: Any,
    inputs: Any = None,
    *,
    loss: Callable[..., Any] | str | None = None,
    rungs: Sequence[str] | None = None,
    mode: Mode | None = None,
    device: str = "auto",
    precision: str = "fp32",
    rounds: int | None = None,
    budget: float | None = None,
    parity: bool = True,
    quick: bool = False,
    name: str = "",
    store: str | None = None,
    progress: bool | None = None,
) -> MeasuredLadder:
    """Measures a model on several rungs, each round in a fresh process, and compares what they compute.

    >>> import torch, tare
    >>> model = torch.nn.Sequential(torch.nn.Linear(16, 16), torch.nn.ReLU())
    >>> ladder = tare.ladder(model, torch.randn(4, 16), rungs=["eager"], quick=True)
    >>> ladder.best.name, ladder["eager"].gross.median > 0
    ('eager', True)

    `model` is a torch.nn.Module, its class or a function that makes it; a function that is a whole training step
    (its name ends in `_step`); or a text as `tare run` takes it: "my.py::Net", "resnet50", "hf:gpt2". `inputs` is
    a tensor, a tuple or a dictionary of arguments, a pair ((arguments), target), or a function that gives one of
    these; for a text it is a shape ("8x3x224x224") or "FILE.py::FUNCTION". With a `loss`, a function of the output
    and the target, training is measured, unless `mode` says otherwise.

    Objects are carried to the workers by cloudpickle, in a file that only you can read and that is removed at the
    end; their weights stay as they are. `rungs` are those of `tare list rungs`, by default all that can run the
    model. `rounds`, `budget` (seconds a rung) and `quick` are those of `tare run`. The records go into `store`
    under `name` (default: the name of the class or function).
    """
    with ExitStack() as stack:
        plan = _make_plan(stack, model, inputs, loss, rungs, mode, device, precision, name)
        return _measure(plan, rounds, budget, parity, quick, store, progress)


def measure_step(
    step: Callable[[], Any], name: str, rung: str = "eager", device: str = "auto", **options: Any
) -> MeasuredLadder:
    """A callable, whatever its name, as a whole step."""
    with ExitStack() as stack:
        source = _pickle(stack, step, None, None, name, True)
        return _measure(_plan_of(source, {"rung": [rung], "device": [device]}), **options)


def _make_plan(
    stack: ExitStack,
    model: Any,
    inputs: Any,
    loss: Any,
    rungs: Any,
    mode: Any,
    device: str,
    precision: str,
    name: str,
) -> Plan:
    table: dict[str, Any] = {"device": [device], "precision": [precision]}
    table |= {"mode": [mode or ("train" if loss is not None else "infer")]}
    if rungs is not None:
        table["rung"] = [rungs] if isinstance(rungs, str) else list(rungs)
    if isinstance(model, (str, Path)):
        texts = {"inputs": inputs, "loss": loss}
        for option, value in texts.items():
            if value is not None and not isinstance(value, str):
                raise BadInput(
                    f"for the model '{model}' {option} is a text, not {type(value).__name__}: {quote(value)}"
                )
        given = {"loss": loss} if loss else {}
        given |= ({"inputs": inputs} if "::" in inputs else {"input": [inputs]}) if inputs else {}
        models = [{"target": str(model), **given}] if given else []
        return make_plan({"grid": [{"workload": [str(model)], **table}], "model": models}, "tare.ladder", "ladder")
    if not callable(model):
        raise BadInput(f"a model is a torch.nn.Module, a class, a function or a text, not {quote(model)}")
    return _plan_of(_pickle(stack, model, inputs, loss, name, None), table)


def _pickle(stack: ExitStack, value: Any, inputs: Any, loss: Any, name: str, whole_step: bool | None) -> Any:
    from tare.workloads.own.pickled import write_pickled
    from tare.workloads.own.registry import forget

    folder = stack.enter_context(scratch())
    source = write_pickled(value, inputs, loss, folder, name, whole_step)
    # Another object of the same name may come later in this process.
    stack.callback(forget, source.name)
    return source


def _plan_of(source: Any, table: dict[str, Any]) -> Plan:
    plan = make_plan({"grid": [{"workload": [source.name], **table}]}, "tare.ladder", "ladder")
    return msgspec.structs.replace(plan, models=[source])


def _measure(
    plan: Plan,
    rounds: int | None = None,
    budget: float | None = None,
    parity: bool = True,
    quick: bool = False,
    store: str | None = None,
    progress: bool | None = None,
) -> MeasuredLadder:
    from tare.commands.run import Session

    given = {"rounds": rounds, "budget": budget, "parity": None if parity else False}
    options = {option: value for option, value in given.items() if value is not None}
    shown = sys.stderr.isatty() if progress is None else progress
    result = Session(plan, options, quick, store, show_progress=shown).run(resume=False)
    if result.interrupted:
        raise KeyboardInterrupt
    order = {case: position for position, case in enumerate(record.case.rung for record in result.records)}
    records = sorted(result.records, key=lambda record: order[record.case.rung])
    return MeasuredLadder(
        {record.case.rung: MeasuredRung(record.case.rung, record) for record in records}, tuple(result.skipped)
    )
