"""A bisection is gone on with where it began: times of two machines are not mixed."""

import json
import sys
from pathlib import Path

import msgspec
import pytest
from builders import ENVIRONMENT
from commandline import tare

from tare.bisect.journal import BisectJournal, Run
from tare.bisect.request import Asked, make_spec
from tare.bisect.spec import Spec
from tare.errors import BadInput
from tare.records.environment import Environment

RUN = Run(candidate=1, label="2", value=1.5, seconds=0.1)


def changed(**machine: str) -> Environment:
    return msgspec.structs.replace(ENVIRONMENT, machine={**ENVIRONMENT.machine, **machine})


@pytest.fixture
def spec(tmp_path: Path) -> Spec:
    (tmp_path / "labels").write_text("1\n2\n3\n")
    return make_spec(Asked(command="true", labels=tmp_path / "labels"))


def measured(folder: Path, spec: Spec, here: Environment | None) -> Path:
    with BisectJournal(folder, spec, resume=False, here=here) as journal:
        journal.add(RUN)
    return journal.path


def test_what_was_measured_on_another_machine_is_refused_by_what_differs(spec: Spec, tmp_path: Path) -> None:
    path = measured(tmp_path, spec, ENVIRONMENT)
    before = path.read_bytes()
    with pytest.raises(BadInput) as refused:
        BisectJournal(tmp_path, spec, resume=True, here=changed(cpu="another"))
    cpu = ENVIRONMENT.machine["cpu"]
    assert f"{path} was measured in another environment: machine.cpu: {cpu} against another" in str(refused.value)
    assert "run without --resume" in str(refused.value)
    assert path.read_bytes() == before
    with BisectJournal(tmp_path, spec, resume=True, here=ENVIRONMENT) as again:
        assert again.entries == [RUN]
    with BisectJournal(tmp_path, spec, resume=False, here=changed(cpu="another")) as anew:
        assert anew.entries == []


def test_a_journal_that_does_not_say_where_goes_on_and_says_it_from_then_on(spec: Spec, tmp_path: Path) -> None:
    measured(tmp_path, spec, None)
    for _ in range(2):
        with BisectJournal(tmp_path, spec, resume=True, here=ENVIRONMENT) as journal:
            assert journal.entries == [RUN]
    assert [json.loads(line)["type"] for line in journal.path.read_text().splitlines()] == ["head", "run", "head"]
    with pytest.raises(BadInput, match=r"machine\.cores: .* against 7"):
        BisectJournal(tmp_path, spec, resume=True, here=changed(cores="7"))


def test_the_command_line_goes_on_here_and_refuses_elsewhere(tmp_path: Path) -> None:
    labels = tmp_path / "labels"
    labels.write_text("1\n1.1\n30\n")
    asked = ("bisect", "--labels", str(labels), "--command", f"{sys.executable} -c print({{}})", "--json")
    first = tare(tmp_path, *asked, "--runs", "3", OMP_NUM_THREADS="1")
    assert json.loads(first.stdout)["runs"] == 3, first.stderr
    again = tare(tmp_path, *asked, "--runs", "4", "--resume", OMP_NUM_THREADS="1")
    assert json.loads(again.stdout)["runs"] == 4, again.stderr
    refused = tare(tmp_path, *asked, "--resume", OMP_NUM_THREADS="2")
    assert refused.returncode == 2
    assert "flags.env.OMP_NUM_THREADS: 1 against 2 (go on there, or run without --resume" in refused.stderr
    assert len(refused.stderr.strip().splitlines()) == 1
