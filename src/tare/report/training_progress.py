"""Progress of `tare train` on stderr: a bar with the time left on a terminal, a line for each epoch in a log."""

from tare.records.training import TrainedRun
from tare.report.progress import LONGEST_DESCRIPTION, make_bar
from tare.report.terminal import make_console


class TrainingProgress:
    """The listener of tare.commands.train."""

    def __init__(self) -> None:
        self._console = make_console(stderr=True)
        self._bar = make_bar(self._console, transient=True)
        self._task = self._bar.add_task("", total=None)
        self._epoch = ""

    def __enter__(self) -> "TrainingProgress":
        if self._console.is_terminal:
            self._bar.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.stop()

    def stage_changed(self, stage: str) -> None:
        # The stages of a worker's job are many and short beside an epoch.
        text = f"{self._epoch}, {stage}" if self._epoch and " " in stage else self._epoch or stage
        self._bar.update(self._task, description=text[:LONGEST_DESCRIPTION])

    def images_prepared(self, done: int, total: int) -> None:
        self._bar.update(self._task, description="preparing images", completed=done, total=total)

    def training_planned(self, epochs: int, done: int) -> None:
        self._bar.reset(self._task, description="training", total=epochs, completed=done)

    def epoch_finished(self, rung: str, run: TrainedRun) -> None:
        self._bar.advance(self._task)
        figures = run.epochs[-1]
        accuracy = f"{100 * figures.test_accuracy:.2f} % of the test images right"
        self._epoch = f"{rung}, run {run.run + 1}, epoch {figures.epoch}: {accuracy}"
        self._bar.update(self._task, description=self._epoch[:LONGEST_DESCRIPTION])
        if not self._console.is_terminal:
            self._console.print(self._epoch, soft_wrap=True)

    def run_finished(self, epochs_missing: int) -> None:
        self._bar.advance(self._task, epochs_missing)
