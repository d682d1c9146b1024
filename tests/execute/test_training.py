"""Training by epochs in real workers: checkpoints, interruptions, and the same weights on every rung."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from curves import training_case

from tare.cases.case import Case
from tare.cases.options import Options
from tare.execute.batches import TrainingData
from tare.execute.executor import LocalExecutor
from tare.execute.launch import make_launcher
from tare.execute.training import RunFolder, Trainer
from tare.records.training import TrainedRun, TrainingSettings
from tare.rungs.base import Arrays
from tare.worker.staging import read_arrays
from tare.workloads.datasets import ChosenData

OPTIONS = Options(timeout=600)
# Every rung that trains on a CPU and can save its weights.
RUNGS = ("torchscript", "compile", "libtorch", "libtorch:script", "vendor", "jax")


@pytest.fixture(scope="module")
def executor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalExecutor]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OMP_WAIT_POLICY", "passive")
        made = LocalExecutor(make_launcher("fork", ("torchvision", "sklearn")), tmp_path_factory.mktemp("scratch"))
        yield made
        made.close()


def make_trainer(executor: LocalExecutor, case: Case, epochs: int, samples: int, rate: float = 0.05) -> Trainer:
    data = TrainingData(executor, case, ChosenData("digits"), OPTIONS)
    header = data.data.header
    settings = TrainingSettings(
        data="digits", digest=header.digest, is_published=True, samples=data.samples(samples), judged=samples,
        test_images=header.test, classes=10, epochs=epochs, learning_rate=rate, momentum=0.9,
    )  # fmt: skip
    return Trainer(executor, data, settings, OPTIONS)


def train(
    executor: LocalExecutor, case: Case, folder: Path, epochs: int, samples: int
) -> tuple[TrainedRun, list[Arrays]]:
    """The run, and the checkpoint of each epoch."""
    run, own, checkpoints = TrainedRun(run=1), RunFolder(folder), list[Arrays]()

    def keep(_: TrainedRun) -> None:
        assert own.checkpoint is not None
        checkpoints.append(read_arrays(own.checkpoint))

    make_trainer(executor, case, epochs, samples).train(case, run, own, keep)
    assert run.failure is None, run.failure
    return run, checkpoints


def test_an_interrupted_run_goes_on_from_its_checkpoint(executor: LocalExecutor, tmp_path: Path) -> None:
    case = training_case("mlp", "eager")
    whole, _ = train(executor, case, tmp_path / "whole", 3, 64)
    assert [figures.epoch for figures in whole.epochs] == [1, 2, 3]
    assert whole.epochs[2].test_accuracy > 0.3
    folder, trainer = RunFolder(tmp_path / "cut"), make_trainer(executor, case, 3, 64)

    def interrupt(_: TrainedRun) -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        trainer.train(case, TrainedRun(run=1), folder, interrupt)
    left = folder.load(1)
    assert [figures.epoch for figures in left.epochs] == [1]
    trainer.train(case, left, folder, lambda _: None)
    assert left.epochs == whole.epochs
    # The weights of a run that has ended are gone, its figures are not.
    assert folder.checkpoint is None
    assert folder.load(1) == whole


def test_a_loss_that_is_not_finite_ends_a_run(executor: LocalExecutor, tmp_path: Path) -> None:
    case, run = training_case("mlp", "eager"), TrainedRun(run=0)
    make_trainer(executor, case, 3, 64, rate=1e9).train(case, run, RunFolder(tmp_path / "run"), lambda _: None)
    assert run.failure is None
    assert (run.diverged_in, len(run.epochs)) == (1, 1)


def test_another_run_has_other_weights_and_another_order(executor: LocalExecutor, tmp_path: Path) -> None:
    case, folder = training_case("mlp", "eager"), RunFolder(tmp_path / "run")
    trainer, losses = make_trainer(executor, case, 1, 64), []
    for number in (0, 1, 0):
        run = TrainedRun(run=number)
        trainer.train(case, run, folder, lambda _: None)
        losses.append(run.epochs[0].loss)
        folder.clear()
    assert losses[0] == losses[2] != losses[1]


@pytest.mark.full
@pytest.mark.parametrize("rung", RUNGS)
def test_every_rung_learns_what_eager_learns(executor: LocalExecutor, tmp_path: Path, rung: str) -> None:
    """Two epochs, the second of which starts from a checkpoint where the rung is a program in C++."""
    case = training_case("mnist_cnn", rung)
    expected, wanted = train(executor, training_case("mnist_cnn", "eager"), tmp_path / "eager", 2, 160)
    run, checkpoints = train(executor, case, tmp_path / "rung", 2, 160)
    for ours, theirs in zip(run.epochs, expected.epochs, strict=True):
        assert ours.loss == pytest.approx(theirs.loss, rel=1e-3)
        assert ours.test_loss == pytest.approx(theirs.test_loss, rel=1e-3)
        assert ours.test_accuracy == pytest.approx(theirs.test_accuracy, abs=0.01)
    compare(checkpoints, wanted, 1e-2)


@pytest.mark.full
@pytest.mark.parametrize("rung", ["libtorch", "vendor"])
def test_statistics_and_momentum_of_a_residual_network(executor: LocalExecutor, tmp_path: Path, rung: str) -> None:
    """Two epochs of a single step: later ones differ by rounding alone (docs/vendor.md)."""
    _, wanted = train(executor, training_case("resnet50", "eager"), tmp_path / "eager", 2, 8)
    run, checkpoints = train(executor, training_case("resnet50", rung), tmp_path / "rung", 2, 8)
    assert len(run.epochs) == 2
    compare(checkpoints, wanted, 2e-2)
    moved = [name for name in wanted[0] if "running_var" in name]
    assert len(moved) == 53


def compare(checkpoints: list[Arrays], wanted: list[Arrays], tolerance: float) -> None:
    """All parameters, statistics and momentum, by the norm of their difference."""
    for ours, theirs in zip(checkpoints, wanted, strict=True):
        names = {name for name in theirs if "num_batches_tracked" not in name}
        assert names <= ours.keys()
        for name in names:
            apart = np.linalg.norm(ours[name].ravel() - theirs[name].ravel())
            assert apart <= tolerance * np.linalg.norm(theirs[name]) + 1e-6, name
