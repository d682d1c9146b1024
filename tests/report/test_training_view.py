"""Trainings as tables, documents and pages."""

import json

import msgspec
import pytest
from trainings import SEEDS, make_run, make_training

from tare.errors import BadInput
from tare.records.record import Failure
from tare.records.training import decode_training
from tare.report.terminal import plain_text
from tare.report.training import training_document, training_page, training_view

LOWER = [accuracy - 0.05 for accuracy in SEEDS]
ROUNDED = [accuracy + 0.001 for accuracy in SEEDS]


def test_figures_are_means_with_their_range_over_the_runs() -> None:
    text = plain_text(training_view(make_training({"eager": SEEDS, "vendor": LOWER})))
    rows = [line.split() for line in text.splitlines() if line.startswith("vendor ")]
    assert rows[2][:4] == ["vendor", "3", "of", "3"]
    # The mean, the least and the most of the five.
    assert "85.20 % (84.50 to 86.00)" in text
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.parametrize(
    ("rungs", "last_line"),
    [
        ({"eager": SEEDS, "libtorch": ROUNDED}, "Within seed noise of eager: libtorch"),
        (
            {"eager": SEEDS, "libtorch": ROUNDED, "vendor": LOWER},
            "Within seed noise of eager: libtorch; less accurate than eager: vendor",
        ),
        ({"eager": SEEDS[:1], "vendor": SEEDS[:1]}, "Not decided: vendor"),
        ({"compile": SEEDS, "vendor": SEEDS}, "Within seed noise of compile: vendor"),
    ],
)
def test_the_last_line_is_the_verdict(rungs: dict[str, list[float]], last_line: str) -> None:
    training = make_training(rungs)
    assert plain_text(training_view(training)).splitlines()[-1].strip() == last_line
    assert training_document(training)["summary"] == last_line


def test_a_rung_that_diverges_is_never_called_the_same() -> None:
    training = make_training({"eager": SEEDS, "vendor": SEEDS})
    training.rungs[1].runs[2] = make_run(2, 0.1, loss=None)
    text = plain_text(training_view(training))
    assert "vendor, run 3 diverged in epoch 1: a loss is not finite" in text
    assert text.splitlines()[-1].strip() == "Diverges: vendor"
    json.dumps(training_document(training), allow_nan=False)


def test_a_run_that_failed_is_named_and_not_counted() -> None:
    training = make_training({"eager": SEEDS, "vendor": SEEDS})
    broken = training.rungs[1].runs[4]
    broken.epochs, broken.failure = broken.epochs[:1], Failure(cause="signal", message="ended by SIGKILL")
    text = plain_text(training_view(training))
    assert "vendor, run 5 failed: signal, ended by SIGKILL" in text
    assert training_document(training)["verdicts"][0]["pairs"] == 4
    assert training.exit_code == 1


def test_a_long_training_shows_five_epochs_of_each_rung_and_its_page_all() -> None:
    training = make_training({"eager": SEEDS})
    settings = msgspec.structs.replace(training.settings, epochs=100)
    training.settings = settings
    training.rungs[0].runs = [make_run(0, 0.9, epochs=100)]
    shown = [line.split()[1] for line in plain_text(training_view(training)).splitlines() if line[:6] == "eager "]
    assert shown == ["1", "26", "51", "75", "100"]
    assert training_page(training).count(" of 100</td>") == 100


def test_a_training_is_read_as_it_was_written() -> None:
    training = make_training({"eager": SEEDS})
    document = json.dumps(training_document(training)).encode()
    assert decode_training(document, "a file") == training
    with pytest.raises(BadInput, match="version 9 of a training, this tare reads 1"):
        decode_training(document.replace(b'"version": 1', b'"version": 9'), "a file")
    with pytest.raises(BadInput, match="is no training"):
        decode_training(b"[]", "a file")
