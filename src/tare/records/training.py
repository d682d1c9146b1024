"""What `tare train` keeps: loss and accuracy of every epoch, of every run (a seed), on every rung."""

import math
from statistics import fmean
from typing import Literal

import msgspec

from tare.cases.case import Case
from tare.cases.plan import Skip
from tare.errors import BadInput, brief
from tare.records.environment import Environment
from tare.records.record import Failure
from tare.stats.equivalence import Equivalence, judge_equivalence

VERSION = 1
# The folder of tare's home with a folder for each training, and the document in it.
FOLDER, DOCUMENT = "training", "training.json"
REFERENCE = "eager"
FigureName = Literal["loss", "train_accuracy", "test_loss", "test_accuracy"]
FIGURES: tuple[FigureName, ...] = ("loss", "train_accuracy", "test_loss", "test_accuracy")


class EpochFigures(msgspec.Struct, frozen=True, kw_only=True):
    """`loss` is the mean over the steps of the epoch, while the weights changed. The others are of the weights at
    its end, in evaluation mode. A loss that is not finite is None."""

    epoch: int
    loss: float | None
    train_accuracy: float
    test_loss: float | None
    test_accuracy: float

    @property
    def diverged(self) -> bool:
        return self.loss is None or self.test_loss is None


class TrainedRun(msgspec.Struct, kw_only=True):
    """One training from the weights and in the order of a seed. `failure` says why epochs are missing."""

    run: int
    epochs: list[EpochFigures] = []
    failure: Failure | None = None

    @property
    def diverged_in(self) -> int | None:
        """The first epoch with a loss that is not finite."""
        return next((figures.epoch for figures in self.epochs if figures.diverged), None)


class TrainedRung(msgspec.Struct, kw_only=True):
    case: Case
    runs: list[TrainedRun]

    def over_runs(self, name: FigureName, epoch: int) -> list[float]:
        """A figure at the end of an epoch (from 1), of each run that has it."""
        values = [getattr(figures, name) for run in self.runs for figures in run.epochs if figures.epoch == epoch]
        return [value for value in values if value is not None]


class TrainingSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What decides the figures besides the case. `digest` is that of the data's files; `samples` is the number of
    training images that were used, and `judged` how many of them the training accuracy is of."""

    data: str
    digest: str
    is_published: bool
    samples: int
    judged: int
    test_images: int
    classes: int
    epochs: int
    learning_rate: float
    momentum: float


class Training(msgspec.Struct, kw_only=True):
    """The document of `tare train --json`, and what a study reads."""

    version: int = VERSION
    created: str
    settings: TrainingSettings
    environment: Environment
    rungs: list[TrainedRung]
    skipped: list[Skip] = []
    interrupted: bool = False

    def find(self, rung: str) -> TrainedRung | None:
        return next((trained for trained in self.rungs if trained.case.rung == rung), None)

    @property
    def reference(self) -> str:
        """The rung that the others are compared with."""
        rungs = [trained.case.rung for trained in self.rungs]
        return REFERENCE if REFERENCE in rungs else rungs[0]

    def equivalence(self, rung: str, other: str, name: FigureName) -> Equivalence:
        """Whether `rung` ends as `other` does, judged over the runs that both completed."""
        pairs = self.pairs(rung, other, name)
        images = self.settings.judged if name == "train_accuracy" else self.settings.test_images
        return judge_equivalence([b for _, b in pairs], [a for a, _ in pairs], 1 / images)

    @property
    def exit_code(self) -> int:
        return 1 if any(run.failure for rung in self.rungs for run in rung.runs) else 0

    def pairs(self, rung: str, other: str, name: FigureName) -> list[tuple[float, float]]:
        """A figure after the last epoch of both rungs, of every run that both completed."""
        sides = [self._final(each, name) for each in (rung, other)]
        return [(sides[0][run], sides[1][run]) for run in sorted(sides[0].keys() & sides[1].keys())]

    def _final(self, rung: str, name: FigureName) -> dict[int, float]:
        trained = self.find(rung)
        return {
            run.run: value
            for run in (trained.runs if trained else [])
            if len(run.epochs) == self.settings.epochs and (value := getattr(run.epochs[-1], name)) is not None
        }


def decode_training(data: bytes, where: str) -> Training:
    """BadInput where the text is no training, or of a version that this tare does not read."""
    try:
        version = msgspec.json.decode(data, type=_Versioned).version
        if version != VERSION:
            raise BadInput(f"{where} has version {version} of a training, this tare reads {VERSION}")
        training = msgspec.json.decode(data, type=Training)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise BadInput(f"{where} is no training ({brief(error)})") from None
    if not training.rungs:
        raise BadInput(f"{where} has no rung")
    return training


class _Versioned(msgspec.Struct, frozen=True):
    version: int


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def mean_of(losses: list[float]) -> float | None:
    """None where a single loss is not finite."""
    return finite(fmean(losses)) if all(map(math.isfinite, losses)) else None
