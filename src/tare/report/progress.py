"""A progress bar on stderr: what is being measured, how far along, how long still."""

import time
from collections.abc import Callable, Mapping, Sequence
from types import TracebackType
from typing import Any

from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bar

from tare.cases.case import Case
from tare.execute.runner import Known
from tare.records.record import Record, Round
from tare.report.terminal import make_console

# Seconds without a line after which a log says how far it has come: rounds are interleaved, and so the records of
# a long run all come at its end.
QUIET_S = 30


class Progress:
    """The Listener of tare.execute.runner for people. Off a terminal it says a line a record instead of a bar, and
    in between, seldom, what it is at."""

    def __init__(self, shown: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = make_console(stderr=True)
        self._shown, self._clock = shown, clock
        self._last_line = clock()
        self._planned: Mapping[Case, int] = {}
        self._done, self._total = 0, 0
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

    def plans(self, rounds: Mapping[Case, int], sides: Sequence[Known]) -> None:
        self._planned = rounds
        self._done = sum(
            wanted if side.record(case) else len(side.rounds(case))
            for side in sides
            for case, wanted in rounds.items()
        )
        self._total = len(sides) * sum(rounds.values())
        if self._bar:
            self._bar.update(self._task, total=self._total, completed=self._done)

    def goes_on(self) -> None:
        """What follows is no round of any case."""
        self._what, self._total = "", 0
        if self._bar:
            self._bar.update(self._task, total=None)

    def stage(self, name: str) -> None:
        what = f"{self._what} {name}".strip()
        if self._bar:
            self._bar.update(self._task, description=what[:60])
        elif self._clock() - self._last_line >= QUIET_S:
            self.say(f"{self._done} of {self._total} rounds; {what}" if self._total else what)

    def starts(self, case: Case, index: int) -> None:
        self._what = f"{case.workload} {case.rung} {case.mode} b{case.batch} {index + 1}/{self._wanted(case)}"
        self.stage("")

    def searches(self, case: Case) -> None:
        """A point of the search for a batch is being measured: no part of the count."""
        self._what = f"{case.workload} {case.rung} {case.mode} trying batch {case.batch}"
        self.stage("")

    def ends(self, case: Case, done: Round) -> None:  # noqa: ARG002
        self._advance(1)

    def records(self, record: Record) -> None:
        """A case that failed early has fewer rounds to wait for."""
        self._advance(self._wanted(record.case) - len(record.rounds))
        if not self._bar:
            self.say(f"{record.case.key} {'ok' if record.failure is None else record.failure.cause}")

    def _wanted(self, case: Case) -> int:
        """Its rounds; a case whose batch had to be found first has those of the others."""
        return self._planned.get(case) or max(self._planned.values(), default=1)

    def _advance(self, rounds: int) -> None:
        self._done += rounds
        if self._bar:
            self._bar.advance(self._task, rounds)

    def say(self, line: str) -> None:
        """A line that stays."""
        self._last_line = self._clock()
        if self._shown:
            self._console.print(line, soft_wrap=True)
