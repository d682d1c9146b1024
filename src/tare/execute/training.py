"""Trains rungs for whole epochs in worker processes, and keeps a checkpoint after each.

The folder of a run (a seed on a rung) has at most one complete checkpoint: `epoch-N`, with the weights, the
momentum and the figures of all epochs so far. It takes the place of the one before when epoch N was evaluated, so
whatever ends tare, at most one epoch is lost. A run that has ended keeps its figures alone.

A rung in Python trains in one process, which also evaluates. A program in C++ trains for one epoch in a process,
and a process with eager then evaluates its weights.
"""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from tare.cases.case import Case
from tare.cases.options import Options
from tare.errors import BadInput, brief
from tare.execute.batches import TrainingData
from tare.execute.executor import LocalExecutor, executable_rung
from tare.protocol.jobs import BatchSource, EvaluateJob, InitialWeightsJob, TrainJob, reference_case
from tare.protocol.messages import Done, EvaluatedWeights, Message, TrainedEpoch
from tare.records.record import Failure
from tare.records.training import EpochFigures, TrainedRun, TrainingSettings
from tare.system.home import make_folder
from tare.system.private_files import replace_private

FIGURES = "figures.json"
# Failures that the next run of a rung would repeat.
LASTING = ("unsupported", "not-installed")
OnEpoch = Callable[[TrainedRun], None]


class RunFolder:
    """Where the checkpoint and the figures of one run are kept."""

    def __init__(self, path: Path) -> None:
        self.path = make_folder(path)

    def clear(self) -> None:
        shutil.rmtree(self.path, ignore_errors=True)
        make_folder(self.path)

    def load(self, run: int) -> TrainedRun:
        """What an interrupted run has left; BadInput where the file is damaged."""
        for file in (self.path / FIGURES, *(folder / FIGURES for folder in self._checkpoints())):
            if file.is_file():
                try:
                    return msgspec.json.decode(file.read_bytes(), type=TrainedRun)
                except msgspec.DecodeError as error:
                    raise BadInput(f"{file} is damaged ({brief(error)}): train without --resume") from None
        return TrainedRun(run=run)

    @property
    def checkpoint(self) -> Path | None:
        return next(iter(self._checkpoints()), None)

    def new(self) -> Path:
        """An empty folder in which a worker writes checkpoints; each has a folder with the number of its epoch."""
        folder = self.path / "partial"
        shutil.rmtree(folder, ignore_errors=True)
        return make_folder(folder)

    def complete(self, folder: Path, run: TrainedRun) -> Path:
        """Makes the checkpoint in this folder that of the run."""
        replace_private(folder / FIGURES, msgspec.json.encode(run))
        before = list(self._checkpoints())
        kept = folder.rename(self.path / f"epoch-{run.epochs[-1].epoch:06}")
        for each in before:
            shutil.rmtree(each, ignore_errors=True)
        return kept

    def end(self, run: TrainedRun) -> None:
        """The weights of a run that has ended are of no more use."""
        replace_private(self.path / FIGURES, msgspec.json.encode(run))
        for each in [*self._checkpoints(), self.path / "partial"]:
            shutil.rmtree(each, ignore_errors=True)

    def _checkpoints(self) -> Iterator[Path]:
        """The newest first: a process that was killed may have left the one before."""
        return iter(sorted(self.path.glob("epoch-*"), reverse=True))


class Trainer:
    """Trains the cases of one ladder on the same data."""

    def __init__(
        self, executor: LocalExecutor, data: TrainingData, settings: TrainingSettings, options: Options
    ) -> None:
        self._executor, self._data, self._settings, self._options = executor, data, settings, options

    def train(self, case: Case, run: TrainedRun, folder: RunFolder, on_epoch: OnEpoch) -> None:
        """Goes on with a run until its last epoch, or until it diverges or fails."""
        run.failure = None
        while len(run.epochs) < self._settings.epochs and run.diverged_in is None:
            before = len(run.epochs)
            run.failure = self._train_part(case, run, folder, on_epoch)
            if run.failure is not None:
                return
            if len(run.epochs) == before:
                run.failure = Failure(cause="no-result", message="the worker left no epoch")
                return
        folder.end(run)

    def _train_part(self, case: Case, run: TrainedRun, folder: RunFolder, on_epoch: OnEpoch) -> Failure | None:
        """What one process trains: all epochs, or one in C++."""
        start = folder.checkpoint or self._initial_weights(case, run.run)
        if isinstance(start, Failure):
            return start
        first = len(run.epochs) + 1
        is_native = executable_rung(case) is not None
        last = first if is_native else self._settings.epochs
        worker = self._executor.rung_worker(case, self._options, learning_rate=self._settings.learning_rate)
        if isinstance(worker, Failure):
            return worker
        save = folder.new()
        if is_native:
            make_folder(save / str(first))
        batches = self._data.of_epochs(run.run, range(first, last + 1), self._settings.samples)
        job = TrainJob(
            case=case,
            batches=batches,
            first=first,
            checkpoint=str(start),
            save=str(save),
            judged=self._settings.judged,
            learning_rate=self._settings.learning_rate,
            cache=self._executor.cache_folder(case),
            stage=worker.stage,
        )
        losses: dict[int, float | None] = {}

        def hear(message: Message) -> None:
            if isinstance(message, TrainedEpoch):
                losses[message.epoch] = message.loss
            elif isinstance(message, EvaluatedWeights):
                keep(message)

        def keep(evaluated: EvaluatedWeights) -> None:
            epoch = len(run.epochs) + 1
            if epoch in losses:
                run.epochs.append(_figures(epoch, losses[epoch], evaluated))
                folder.complete(save / str(epoch), run)
                on_epoch(run)

        done = self._executor.ask(job, Done, self._options, worker.launcher, hear)
        if isinstance(done, Failure):
            return done
        if is_native and first in losses:
            evaluated = self._evaluate(case, batches, save / str(first))
            if isinstance(evaluated, Failure):
                return evaluated
            keep(evaluated)
        return None

    def _evaluate(self, case: Case, batches: BatchSource, checkpoint: Path) -> EvaluatedWeights | Failure:
        eager = msgspec.structs.replace(case, rung="eager")
        job = EvaluateJob(case=eager, batches=batches, checkpoint=str(checkpoint), judged=self._settings.judged)
        return self._executor.ask(job, EvaluatedWeights, self._options)

    def _initial_weights(self, case: Case, run: int) -> Path | Failure:
        """Made once for all rungs."""
        case = reference_case(case)
        folder = self._executor.folder(f"initial-{run}", case)
        if not (folder / "names.json").exists():
            job = InitialWeightsJob(case=case, run=run, folder=str(folder))
            done = self._executor.ask(job, Done, self._options)
            if isinstance(done, Failure):
                return done
        return folder


def _figures(epoch: int, loss: float | None, evaluated: EvaluatedWeights) -> EpochFigures:
    return EpochFigures(
        epoch=epoch,
        loss=loss,
        train_accuracy=evaluated.train_accuracy,
        test_loss=evaluated.test_loss,
        test_accuracy=evaluated.test_accuracy,
    )
