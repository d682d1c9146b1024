"""A progress bar on stderr: what is being measured, how far along, how long still."""

from collections.abc import Sequence
from types import TracebackType
from typing import Any, Protocol

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from tare.cases.case import Case
from tare.records.record import Record, Round
from tare.report.terminal import make_console


class Known(Protocol):
    def rounds(self, case: Case) -> list[Round]: ...
    def record(self, case: Case) -> Record | None: ...


class Progress:
    """The Listener of tare.execute.runner for people. Off a terminal it says a line a record instead of a bar."""

    def __init__(self, shown: bool) -> None:
        self._console = make_console(stderr=True)
        self._shown = shown
        self._rounds = 1
        self._bar: Any = None
        self._task: Any = None
        self._what = ""

    def __enter__(self) -> "Progress":
        if self._shown and self._console.is_terminal:
            self._bar = Bar(
                TextColumn("{task.description}", markup=False),
                BarColumn(bar_width=20),
                MofNCompleteColumn(),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
                console=self._console,
                transient=True,
            )
            self._bar.start()
            self._task = self._bar.add_task("", total=None)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar:
            self._bar.stop()

    def plan(self, cases: Sequence[Case], rounds: int, known: Known) -> None:
        self._rounds = rounds
        done = sum(rounds if known.record(case) else len(known.rounds(case)) for case in cases)
        if self._bar:
            self._bar.update(self._task, total=len(cases) * rounds, completed=done)

    def goes_on(self) -> None:
        """What follows is no round of any case."""
        self._what = ""
        if self._bar:
            self._bar.update(self._task, total=None)

    def stage(self, name: str) -> None:
        if self._bar:
            self._bar.update(self._task, description=f"{self._what} {name}".strip()[:60])

    def starts(self, case: Case, index: int) -> None:
        self._what = f"{case.workload} {case.rung} {case.mode} b{case.batch} {index + 1}/{self._rounds}"
        self.stage("")

    def searches(self, case: Case) -> None:
        """A point of the search for a batch is being measured: no part of the count."""
        self._what = f"{case.workload} {case.rung} {case.mode} trying batch {case.batch}"
        self.stage("")

    def ends(self, case: Case, done: Round) -> None:  # noqa: ARG002
        if self._bar:
            self._bar.advance(self._task)

    def records(self, record: Record) -> None:
        """A case that failed early has fewer rounds to wait for."""
        if self._bar:
            self._bar.advance(self._task, self._rounds - len(record.rounds))
        elif self._shown:
            status = "ok" if record.failure is None else record.failure.cause
            self._console.print(f"{record.case.key} {status}", soft_wrap=True)
