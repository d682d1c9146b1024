"""What `tare train` does: trains a workload on real data on several rungs, or proves the losses of its first
steps."""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from tare.cases.case import Case
from tare.cases.options import Options
from tare.cases.plan import Plan, Skip, make_plan
from tare.errors import BadInput
from tare.execute.batches import TrainingData
from tare.execute.curves import Curve, follow_curve
from tare.execute.session import PlanSession, open_plan_session
from tare.execute.training import LASTING, RunFolder, Trainer
from tare.records.training import DOCUMENT, FOLDER, TrainedRun, TrainedRung, Training, TrainingSettings
from tare.system.home import home_folder
from tare.system.locks import ExclusiveFile, LockedByOther
from tare.system.private_files import replace_private
from tare.system.processes import interruptible
from tare.workloads import get_workload
from tare.workloads.datasets import ChosenData, find_folder, get_dataset

# More than one sample: batch norm cannot normalise a single one. The second is for epochs.
PROOF_BATCH, BATCH = 16, 64
# The training accuracy is that of so many training images.
MOST_JUDGED = 10_000


class TrainListener(Protocol):
    """Hears how far the command is."""

    def stage_changed(self, stage: str) -> None: ...
    def images_prepared(self, done: int, total: int) -> None: ...
    def training_planned(self, epochs: int, done: int) -> None: ...
    def epoch_finished(self, rung: str, run: TrainedRun) -> None: ...
    def run_finished(self, epochs_missing: int) -> None: ...


class EpochPlan(NamedTuple):
    """How long to train: `samples` limits the training images."""

    epochs: int
    runs: int
    learning_rate: float | None = None
    samples: int | None = None


class Proof(msgspec.Struct):
    data: str
    steps: int
    curves: list[Curve]
    skipped: list[Skip]
    interrupted: bool = False

    @property
    def exit_code(self) -> int:
        return 0 if all(curve.parity.status == "same" for curve in self.curves) else 1


def prove_curves(
    workload: str, grid: dict[str, Any], chosen: ChosenData, steps: int, options: Options, listener: TrainListener
) -> Proof:
    """Trains `workload` on every rung that trains. Sizes that are not given follow from the data. Ctrl-C and
    SIGTERM end it early with the curves that are complete."""
    plan = _plan(workload, {"batch": PROOF_BATCH, **grid}, chosen)
    with interruptible(), open_plan_session(plan, options.isolation, listener.stage_changed) as session:
        proof = Proof(chosen.name, steps, [], session.expansion.skipped)
        data: dict[str, TrainingData] = {}
        try:
            for case in session.expansion.cases:
                if case.ladder not in data:
                    data[case.ladder] = _data(session, case, chosen, options, listener)
                batches = data[case.ladder].of_steps(steps)
                proof.curves.append(follow_curve(session.executor, case, batches, options))
        except KeyboardInterrupt:
            proof.interrupted = True
        return proof


def train_rungs(
    workload: str,
    grid: dict[str, Any],
    chosen: ChosenData,
    length: EpochPlan,
    options: Options,
    resume: bool,
    listener: TrainListener,
) -> Training:
    """Trains every rung from the seeds of all runs. What is complete is kept from epoch to epoch, and `resume`
    goes on from there. Ctrl-C and SIGTERM end it early."""
    plan = _plan(workload, {"batch": BATCH, **grid, "optimizer": "sgd"}, chosen)
    with interruptible(), open_plan_session(plan, options.isolation, listener.stage_changed) as session:
        cases = session.expansion.cases
        if more := next((case for case in cases if case.ladder != cases[0].ladder), None):
            raise BadInput(
                f"tare train takes one device, precision, batch and size, not {cases[0].ladder} and {more.ladder}"
            )
        data = _data(session, cases[0], chosen, options, listener)
        if not data.is_classification:
            raise BadInput(f"{workload} has no class for each sample: --prove STEPS compares its losses")
        settings = _settings(data, length)
        training = Training(
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            settings=settings,
            environment=session.probed.environment,
            rungs=[TrainedRung(case=case, runs=[]) for case in cases],
            skipped=session.expansion.skipped,
        )
        with _own_folder(settings, cases[0]) as folder:
            trainer = Trainer(session.executor, data, settings, options)
            try:
                _train_all(trainer, training, length.runs, folder, resume, listener)
            except KeyboardInterrupt:
                training.interrupted = True
            replace_private(folder / DOCUMENT, msgspec.json.encode(training))
        return training


def _train_all(
    trainer: Trainer, training: Training, runs: int, folder: Path, resume: bool, listener: TrainListener
) -> None:
    """One run after the other, each on every rung: an interrupted training has as many runs of each rung."""
    epochs = training.settings.epochs
    folders: dict[tuple[str, int], RunFolder] = {}
    for trained in training.rungs:
        for number in range(runs):
            rung = trained.case.rung
            own = folders[rung, number] = RunFolder(folder / f"{rung.replace(':', '.')}-{number}")
            if not resume:
                own.clear()
            trained.runs.append(own.load(number))
    done = sum(len(run.epochs) for trained in training.rungs for run in trained.runs)
    listener.training_planned(epochs * len(folders), done)
    for number in range(runs):
        for trained in training.rungs:
            rung, run = trained.case.rung, trained.runs[number]
            lasting = (each.failure for each in trained.runs if each.failure and each.failure.cause in LASTING)
            run.failure = next(lasting, None)
            if run.failure is None:
                on_epoch = partial(listener.epoch_finished, rung)
                trainer.train(trained.case, run, folders[rung, number], on_epoch)
            # A run that ended early has fewer epochs to wait for.
            listener.run_finished(epochs - len(run.epochs))


def _plan(workload: str, grid: dict[str, Any], chosen: ChosenData) -> Plan:
    dataset = get_dataset(chosen.name)
    # Before anything is started.
    find_folder(chosen)
    sizes = {name: value for name, value in dataset.sizes.items() if name in get_workload(workload).sizes}
    grid = {**grid, "mode": "train", "size": {**sizes, **grid.get("size", {})}}
    return make_plan({"grid": [{"workload": [workload], **grid}]}, "the command line", workload)


def _data(
    session: PlanSession, case: Case, chosen: ChosenData, options: Options, listener: TrainListener
) -> TrainingData:
    return TrainingData(session.executor, case, chosen, options, listener.images_prepared)


def _settings(data: TrainingData, length: EpochPlan) -> TrainingSettings:
    header, samples = data.data.header, data.samples(length.samples)
    return TrainingSettings(
        data=header.name,
        digest=header.digest,
        is_published=header.is_published,
        samples=samples,
        judged=min(samples, MOST_JUDGED),
        test_images=header.test,
        classes=len(header.classes),
        epochs=length.epochs,
        learning_rate=data.shaped.learning_rate if length.learning_rate is None else length.learning_rate,
        momentum=data.shaped.momentum,
    )


@contextmanager
def _own_folder(settings: TrainingSettings, case: Case) -> Iterator[Path]:
    """The folder of all trainings with these settings; BadInput where another tare uses it."""
    text = msgspec.json.encode([settings, case.ladder], order="sorted")
    name = f"{case.workload}-{settings.data}-{hashlib.sha256(text).hexdigest()[:16]}".replace(":", "-")
    root = home_folder(FOLDER)
    try:
        lock = ExclusiveFile(root / f"{name}.lock")
    except LockedByOther as error:
        holder = f" (process {error.holder})" if error.holder else ""
        raise BadInput(f"another tare{holder} trains with these settings") from None
    with lock:
        folder = root / name
        folder.mkdir(mode=0o700, exist_ok=True)
        yield folder
