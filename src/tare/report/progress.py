"""Progress on stderr: on a terminal the ladder as its rounds come in, in a log a line per rung and long stage."""

import time
from collections.abc import Callable, Mapping, Sequence
from statistics import median
from typing import Self

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as ProgressBar

from tare.cases.case import Case
from tare.execute.executor import WAITING
from tare.execute.runner import Journal
from tare.records.figures import gross, round_median
from tare.records.record import Record, Round
from tare.report.ladder import PARITY, title
from tare.report.numbers import duration, ratio, seconds
from tare.report.terminal import make_console
from tare.report.view import FittingTable, View
from tare.system.text import one_line

# Seconds since the last line of a log after which a stage, and a step of a worker, is told.
STAGE_S, QUIET_S = 3, 30
LONGEST_DESCRIPTION = 60


class Progress:
    """The Listener of tare.execute.runner that tells the user. A stage with a colon says how long it may take, and
    is told at once; one of a single word is a step of the worker."""

    def __init__(self, shown: bool, clock: Callable[[], float] = time.monotonic) -> None:
        self._console = make_console(stderr=True)
        self._shown, self._clock = shown, clock
        self._last_line = clock()
        self._told: set[tuple[Case | None, str]] = set()
        self._planned: Mapping[Case, int] = {}
        # The rounds of each case, where one version is measured; rounds of two would be mixed here.
        self._rounds: dict[Case, list[Round]] = {}
        self._is_one_version = False
        self._done, self._total = 0, 0
        self._case: Case | None = None
        self._current = ""
        self._bar = make_bar(self._console, auto_refresh=False)
        self._task = self._bar.add_task("", total=None)
        self._display = Live(
            get_renderable=self.view, console=self._console, refresh_per_second=2, transient=True,
            redirect_stdout=False, redirect_stderr=False,
        )  # fmt: skip
        self._is_live = shown and self._console.is_terminal

    def __enter__(self) -> Self:
        if self._is_live:
            self._display.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._display.stop()

    def planned(self, rounds: Mapping[Case, int], journals: Sequence[Journal]) -> None:
        self._planned = rounds
        self._is_one_version = len(journals) == 1
        self._rounds = {case: list(journals[0].rounds(case)) for case in rounds if self._is_one_version}
        self._done = sum(
            count if journal.record(case) else len(journal.rounds(case))
            for journal in journals
            for case, count in rounds.items()
        )
        self._total = len(journals) * sum(rounds.values())
        self._bar.update(self._task, total=self._total, completed=self._done)

    def rounds_ended(self) -> None:
        """The rounds are over; what follows has no count."""
        self._current, self._total, self._case = "", 0, None
        self._bar.update(self._task, total=None)

    def stage_changed(self, stage: str) -> None:
        text = f"{self._current} {stage}".strip()
        self._bar.update(self._task, description=text[:LONGEST_DESCRIPTION])
        wait = 0 if ":" in stage else STAGE_S if " " in stage else QUIET_S
        # The bar has no room to name who is waited for, and a script with --json wants to know it too.
        is_for_others = stage.startswith(WAITING)
        told = (self._case, stage.partition(", since ")[0])
        if (self._is_live and not is_for_others) or told in self._told or self._clock() - self._last_line < wait:
            return
        if " " in text:
            if ":" in stage:
                self._told.add(told)
            line = f"{self._done} of {self._total} rounds; {text}" if self._total else text
            self.say(line, always=is_for_others)

    def round_started(self, case: Case, index: int) -> None:
        self._case = case
        self._current = f"{case.workload} {case.rung} {case.mode} b{case.batch} {index + 1}/{self._count(case)}"
        self.stage_changed("")

    def search_started(self, case: Case) -> None:
        """A point of the search for a batch is being measured: it is not counted."""
        self._current = f"{case.workload} {case.rung} {case.mode} trying batch {case.batch}"
        self.stage_changed("")

    def round_finished(self, case: Case, round_: Round) -> None:
        self._advance(1)
        if not self._is_one_version:
            return
        rounds = self._rounds.setdefault(case, [])
        rounds.append(round_)
        if not self._is_live and len(rounds) == 1 and self._count(case) > 1 and len(self._ladder(case)) > 1:
            # The first figure of each rung of a ladder comes long before its last round.
            self.say(f"{self._name(case)}: {_sentence(*self._figures(case))}, 1 of {self._count(case)} rounds")

    def record_finished(self, record: Record) -> None:
        """A case that failed early has fewer rounds to wait for."""
        self._advance(self._count(record.case) - len(record.rounds))
        if not self._is_live:
            self.say(f"{self._name(record.case)}: {self._summary(record)}")

    def say(self, line: str, always: bool = False) -> None:
        """Prints a line that stays."""
        self._last_line = self._clock()
        if self._shown or always:
            self._console.print(line, soft_wrap=True)

    def _count(self, case: Case) -> int:
        """The rounds of a case. One whose batch had to be found first has as many as the others."""
        return self._planned.get(case) or max(self._planned.values(), default=1)

    def _advance(self, rounds: int) -> None:
        self._done += rounds
        self._bar.advance(self._task, rounds)

    def _ladder(self, case: Case) -> list[Case]:
        return [other for other in self._rounds if other.ladder == case.ladder]

    def _name(self, case: Case) -> str:
        """The rung alone where there is only one ladder."""
        alone = len({each.ladder for each in self._rounds}) == 1
        return case.rung if alone else f"{case.workload} {case.rung} {case.mode} b{case.batch}"

    def _summary(self, record: Record) -> str:
        step = gross(record)
        if record.failure or step is None:
            failure = record.failure
            return one_line(f"{failure.cause}: {failure.message}") if failure else "no time"
        return _sentence(duration(step), self._against_eager(record.case, step.mid))

    def _figures(self, case: Case) -> tuple[str, str]:
        """Gross and its ratio to eager, over the rounds so far."""
        step_s = self._step_s(case)
        if step_s is not None:
            return seconds(step_s), self._against_eager(case, step_s)
        failure = next((round_.failure for round_ in self._rounds.get(case, []) if round_.failure), None)
        return failure.cause if failure else "-", ""

    def _against_eager(self, case: Case, step_s: float) -> str:
        """The ratio, but for a rung that computes something else."""
        parities = [round_.parity.status for round_ in self._rounds.get(case, []) if round_.parity]
        if wrong := next((status for status in parities if status in ("different", "nan")), None):
            return PARITY[wrong]
        eager = next((other for other in self._ladder(case) if other.rung == "eager"), None)
        eager_s = self._step_s(eager) if eager else None
        return ratio(eager_s / step_s, None) if eager_s and step_s else ""

    def _step_s(self, case: Case) -> float | None:
        medians = [round_median(round_, "pipelined") for round_ in self._rounds.get(case, [])]
        values = [interval.mid for interval in medians if interval]
        return median(values) if values else None

    def view(self) -> RenderableType:
        """The ladder that is being measured, above the progress bar."""
        if self._case is None or not self._rounds:
            return self._bar
        rows = []
        for case in self._ladder(self._case):
            step, against_eager = self._figures(case)
            rounds = f"{len(self._rounds[case])} of {self._count(case)}"
            rows.append({"rung": case.rung, "gross": step, "x eager": against_eager, "rounds": rounds})
        view = View(title(self._case)).put(FittingTable(rows, folds={"rung": 0})).gap()
        return Group(view, self._bar)


def make_bar(console: Console, auto_refresh: bool = True, transient: bool = False) -> ProgressBar:
    """What is done now, a bar, how many of how many, the time so far and the time left."""
    return ProgressBar(
        TextColumn("{task.description}", markup=False),
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
        auto_refresh=auto_refresh,
        transient=transient,
    )


def _sentence(gross_text: str, against_eager: str) -> str:
    if not against_eager:
        return gross_text
    return f"{gross_text}, {against_eager}{' eager' if against_eager.endswith('x') else ''}"
