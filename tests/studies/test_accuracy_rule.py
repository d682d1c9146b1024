"""The rule about accuracy at the end of training, on trainings with known answers."""

import json
from pathlib import Path

import pytest
from trainings import SEEDS, make_training

from tare.errors import BadInput
from tare.report.training import training_document
from tare.studies.evidence import Evidence, read_evidence
from tare.studies.judge import judge_rule
from tare.studies.outcome import PartVerdict
from tare.studies.registry import get_study
from tare.studies.rules import make_rule
from tare.studies.verdict import judge_claim

TABLE = {
    "rule": "accuracy",
    "workload": "mlp",
    "data": "digits",
    "of": "vendor",
    "published": -0.18,
    "at_most": -0.01,
}


def judged(vendor: list[float] | tuple[float, ...]) -> PartVerdict:
    evidence = Evidence(trainings=[make_training({"eager": SEEDS, "vendor": vendor})])
    return judge_rule(make_rule(TABLE, "a test"), evidence)


def test_a_rung_that_ends_five_points_lower_holds() -> None:
    part = judged([accuracy - 0.05 for accuracy in SEEDS])
    assert part.outcome == "holds"
    assert part.figure is not None
    assert part.figure.value == pytest.approx(-0.05)
    assert (part.figure.rounds, part.figure.unit) == (5, "share")


def test_a_rung_that_ends_alike_contradicts() -> None:
    part = judged(SEEDS)
    assert (part.outcome, part.reason) == ("contradicted", "above -1 %")


def test_scattered_runs_and_single_ones_decide_nothing() -> None:
    assert judged((0.95, 0.8, 0.99, 0.85, 0.9)).outcome == "undecided"
    part = judged(SEEDS[:1])
    assert (part.outcome, part.reason) == ("missing", "one run is a lead, not a result")


def test_without_a_training_the_command_is_named() -> None:
    part = judge_rule(make_rule(TABLE, "a test"), Evidence())
    assert part.outcome == "missing"
    assert part.reason == "no training of mlp on digits: tare train mlp --data digits --rung eager,vendor"


def test_the_paper_s_claim_is_about_four_data_and_a_gpu(tmp_path: Path) -> None:
    """Read from files as `tare train --json` writes them. On a CPU they are a lead."""
    (claim,) = (claim for claim in get_study("abstraction").claims if claim.number == 8)
    for device, verdict in (("cuda", "refuted"), ("cpu", "not yet measured")):
        files = []
        for data in ("mnist", "cifar10", "stl10", "voc"):
            training = make_training({"eager": SEEDS, "vendor": SEEDS}, "resnet50", data, device)
            files.append(tmp_path / f"{device}-{data}.json")
            files[-1].write_text(json.dumps(training_document(training)))
        evidence = read_evidence(files)
        assert len(evidence.trainings) == 4
        judged = judge_claim(claim, evidence)
        assert judged.verdict == verdict
        assert len(judged.figures) == 4
    (tmp_path / "other.json").write_text("{}")
    with pytest.raises(BadInput, match="tare train --json"):
        read_evidence([tmp_path / "other.json"])
