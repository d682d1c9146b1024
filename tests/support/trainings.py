"""Trainings with made-up figures."""

from collections.abc import Mapping, Sequence

from builders import ENVIRONMENT, make_case

from tare.records.training import EpochFigures, TrainedRun, TrainedRung, Training, TrainingSettings

# What five seeds make of one rung.
SEEDS = (0.90, 0.91, 0.905, 0.895, 0.9)


def make_run(run: int, accuracy: float, epochs: int = 3, loss: float | None = 0.5) -> TrainedRun:
    """A run that ends at this accuracy, a tenth more with each epoch. Its training accuracy is a bit higher."""
    return TrainedRun(
        run=run,
        epochs=[
            EpochFigures(
                epoch=epoch,
                loss=loss,
                train_accuracy=accuracy - 0.1 * (epochs - epoch) + 0.01,
                test_loss=loss,
                test_accuracy=accuracy - 0.1 * (epochs - epoch),
            )
            for epoch in range(1, epochs + 1)
        ],
    )


def make_training(
    rungs: Mapping[str, Sequence[float]], workload: str = "mlp", data: str = "digits", device: str = "cpu"
) -> Training:
    """The accuracies of the runs of each rung at the end of three epochs."""
    settings = TrainingSettings(
        data=data, digest="0" * 64, is_published=True, samples=1000, judged=1000, test_images=1000, classes=10,
        epochs=3, learning_rate=0.01, momentum=0.9,
    )  # fmt: skip
    return Training(
        created="2026-01-01T00:00:00+00:00",
        settings=settings,
        environment=ENVIRONMENT,
        rungs=[
            TrainedRung(
                case=make_case(workload=workload, rung=rung, mode="train", optimizer="sgd", device=device),
                runs=[make_run(number, accuracy) for number, accuracy in enumerate(accuracies)],
            )
            for rung, accuracies in rungs.items()
        ],
    )
