"""Training on real data as tables and a page: loss and accuracy over the epochs with their range over the runs,
and whether the rungs end with the same accuracy."""

from collections.abc import Sequence
from statistics import fmean
from typing import Any, NamedTuple

import msgspec

from tare.records.training import FIGURES, FigureName, TrainedRung, Training
from tare.report.ladder import title
from tare.report.numbers import several
from tare.report.page import PageChart, render_page
from tare.report.view import FittingTable, View
from tare.stats.equivalence import Equivalence

# The epochs that a terminal shows of each rung; a page shows all.
MOST_EPOCHS = 5
HEADS: dict[FigureName, str] = {
    "loss": "training loss",
    "train_accuracy": "training accuracy",
    "test_loss": "test loss",
    "test_accuracy": "test accuracy",
}
HOW = (
    "Mean (least to most) over the runs. The training loss is the mean over the steps of an epoch; the other "
    "figures are of the weights at its end, in evaluation mode."
)
RULE = (
    "Two one-sided tests at 5 % over pairs of runs with the same seed; allowed is twice the standard deviation "
    "of {reference}'s own runs, or one test image."
)
DIVERGES = "diverges"


class RungVerdict(NamedTuple):
    """How a rung ends beside the reference: `verdict` is same, higher, lower, undecided or diverges."""

    rung: str
    verdict: str
    test: Equivalence


def rung_verdicts(training: Training) -> list[RungVerdict]:
    reference = training.reference
    verdicts = []
    for trained in training.rungs:
        rung = trained.case.rung
        if rung != reference and trained.runs:
            test = training.equivalence(rung, reference, "test_accuracy")
            diverged = bool(_diverged(trained)) and not _diverged(training.find(reference))
            verdicts.append(RungVerdict(rung, DIVERGES if diverged else test.verdict, test))
    return verdicts


def summary(verdicts: Sequence[RungVerdict], reference: str) -> str:
    """The last line of the table, in words."""
    groups = {
        "same": f"within seed noise of {reference}",
        "lower": f"less accurate than {reference}",
        "higher": f"more accurate than {reference}",
        DIVERGES: "diverges",
        "undecided": "not decided",
    }
    said = []
    for verdict, words in groups.items():
        rungs = [each.rung for each in verdicts if each.verdict == verdict]
        said += [f"{words}: {', '.join(rungs)}"] if rungs else []
    text = "; ".join(said)
    return text[:1].upper() + text[1:]


def training_view(training: Training, every_epoch: bool = False) -> View:
    settings, case = training.settings, training.rungs[0].case
    view = View(title(case), subtitle(training))
    rows = [row for trained in training.rungs for row in epoch_rows(trained, settings.epochs, every_epoch)]
    view.put(FittingTable(rows, words=("rung",), spare=("test loss", "training loss")))
    view.add("aside", HOW, f"The weights of every rung are evaluated by eager in {case.precision}, alike.")
    for trained in training.rungs:
        for run in trained.runs:
            name = f"{trained.case.rung}, run {run.run + 1}"
            if run.failure:
                view.add("failure", f"{name} failed: {run.failure.cause}, {run.failure.message}")
            elif run.diverged_in is not None:
                view.add("warning", f"{name} diverged in epoch {run.diverged_in}: a loss is not finite")
    verdicts = rung_verdicts(training)
    if verdicts:
        view.gap().put(FittingTable([verdict_row(each) for each in verdicts], words=("rung", "verdict")))
        view.add("aside", RULE.format(reference=training.reference))
        view.add("result", summary(verdicts, training.reference))
    return view


def training_document(training: Training) -> dict[str, Any]:
    """The training with its verdicts, which a reader of the document need not compute."""
    document: dict[str, Any] = msgspec.to_builtins(training)
    verdicts = rung_verdicts(training)
    document["verdicts"] = [
        {
            "rung": each.rung,
            "reference": training.reference,
            "verdict": each.verdict,
            "pairs": each.test.pairs,
            "difference": each.test.difference.mid if each.test.pairs else None,
            "low": each.test.difference.low if each.test.difference.sound else None,
            "high": each.test.difference.high if each.test.difference.sound else None,
            "allowed": each.test.margin,
        }
        for each in verdicts
    ]
    document["summary"] = summary(verdicts, training.reference)
    return document


def training_page(training: Training) -> str:
    case = training.rungs[0].case
    heading = f"tare train: {case.workload} on {training.settings.data}"
    verdicts = rung_verdicts(training)
    environment = training.environment
    facts = View("Environment").facts({**environment.machine, **environment.software})
    return render_page(
        heading,
        View().add("result", summary(verdicts, training.reference)),
        PageChart("training", "Accuracy and loss over the epochs", subtitle(training), training_figure(training)),
        training_view(training, every_epoch=True),
        facts,
    )


def training_figure(training: Training) -> dict[str, Any]:
    """For the script of the page: mean, least and most of each figure at each epoch."""
    order: tuple[FigureName, ...] = ("test_accuracy", "train_accuracy", "test_loss", "loss")
    measures = [{"name": name, "title": HEADS[name], "share": name.endswith("accuracy")} for name in order]
    rungs = [
        {
            "name": trained.case.rung,
            "points": [
                {"epoch": epoch, **{name: _range(trained.over_runs(name, epoch)) for name in FIGURES}}
                for epoch in _epochs(trained)
            ],
        }
        for trained in training.rungs
    ]
    return {"kind": "training", "measures": measures, "rungs": rungs}


def subtitle(training: Training) -> str:
    settings, case = training.settings, training.rungs[0].case
    origin = "the published files" if settings.is_published else "not the complete published files"
    runs = max(len(trained.runs) for trained in training.rungs)
    return (
        f"{settings.data}: {settings.samples} training and {settings.test_images} test images ({origin}); "
        f"{several(runs, 'run')} of {several(settings.epochs, 'epoch')}; SGD, learning rate "
        f"{settings.learning_rate:g}, momentum {settings.momentum:g}; {case.precision}; no augmentation"
    )


def _diverged(trained: TrainedRung | None) -> list[int]:
    return [run.run for run in trained.runs if run.diverged_in is not None] if trained else []


def _epochs(trained: TrainedRung) -> list[int]:
    return sorted({figures.epoch for run in trained.runs for figures in run.epochs})


def epoch_rows(trained: TrainedRung, epochs: int, every_epoch: bool = False) -> list[dict[str, str]]:
    known = _epochs(trained)
    if not every_epoch and len(known) > MOST_EPOCHS:
        # The first, the last, and some between at equal distances.
        known = [known[round(i * (len(known) - 1) / (MOST_EPOCHS - 1))] for i in range(MOST_EPOCHS)]
    rows = []
    for epoch in known:
        row = {"rung": trained.case.rung, "epoch": f"{epoch} of {epochs}"}
        for name, head in HEADS.items():
            row[head] = _range_text(trained.over_runs(name, epoch), name)
        rows.append(row | {"runs": str(sum(len(run.epochs) >= epoch for run in trained.runs))})
    return rows


def _range(values: Sequence[float]) -> tuple[float, float, float] | None:
    return (fmean(values), min(values), max(values)) if values else None


def _range_text(values: Sequence[float], name: FigureName) -> str:
    found = _range(values)
    if found is None:
        return "-"
    if name.endswith("accuracy"):
        middle, low, high = (f"{100 * value:.2f}" for value in found)
        return f"{middle} % ({low} to {high})" if len(values) > 1 else f"{middle} %"
    middle, low, high = (f"{value:.3g}" for value in found)
    return f"{middle} ({low} to {high})" if len(values) > 1 else middle


def verdict_row(verdict: RungVerdict) -> dict[str, str]:
    test = verdict.test
    points = [f"{100 * value:+.2f}" for value in test.difference[:3]] if test.pairs else []
    difference = "-" if not points else points[1]
    if test.difference.sound and points:
        difference = f"{points[1]} ({points[0]} to {points[2]})"
    return {
        "rung": verdict.rung,
        "pairs": str(test.pairs),
        "difference in test accuracy, points": difference,
        "allowed": f"±{100 * test.margin:.2f}",
        "verdict": verdict.verdict,
    }
